// Package clip shortens text without splitting a character.
//
// Lengths are in bytes, because what they protect (facts, log lines, requests) is
// bounded in bytes. Bytes that aren't UTF-8 are left as they are, except by [Valid].
package clip

import (
	"strings"
	"unicode/utf8"
)

// Text returns s if it has at most n bytes, or else its beginning in at most n bytes
// with an ellipsis after it.
func Text(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:RuneStart(s, n)] + "…"
}

// Valid is Text for what comes from outside: bytes that aren't UTF-8 are replaced by
// U+FFFD first.
func Valid(s string, n int) string { return Text(strings.ToValidUTF8(s, "\uFFFD"), n) }

// Prefix returns the beginning of s in at most n bytes.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:RuneStart(s, n)]
}

// RuneStart returns the last index up to i at which a character of s begins, or i if
// the bytes before it aren't UTF-8.
func RuneStart[T string | []byte](s T, i int) int {
	for j := i; j >= 0 && j > i-utf8.UTFMax; j-- {
		if utf8.RuneStart(s[j]) {
			return j
		}
	}
	return i
}
