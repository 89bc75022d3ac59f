package tool

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentd/internal/clip"
)

// quoteName puts a name into a message: escaped, so that it can't pretend to be
// something else, and not too long.
func quoteName(s string) string { return strconv.Quote(clip.Text(s, 200)) }

// runeAfter returns the first index from i on at which a character begins.
func runeAfter(b []byte, i int) int {
	for j := i; j < len(b) && j < i+utf8.UTFMax; j++ {
		if utf8.RuneStart(b[j]) {
			return j
		}
	}
	return i
}

var replacement = []byte(string(utf8.RuneError))

// validUTF8 returns b with what is no UTF-8 replaced.
func validUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, replacement)
}

func splitSlash(s string) []string { return strings.Split(s, "/") }

// nearest returns the name of names that is most like want, if one is like it.
func nearest(want string, names []string) (string, bool) {
	best, at := len(want)/2+1, -1
	lower := strings.ToLower(want)
	for i, n := range names {
		if n == want {
			continue
		}
		if d := distance(lower, strings.ToLower(n), best); d < best {
			best, at = d, i
		}
	}
	if at < 0 {
		return "", false
	}
	return names[at], true
}

// distance is the number of bytes to insert, delete, replace or swap to turn a
// into b, or limit if it is not less.
func distance(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return min(prev[len(b)], limit)
}

// someOf returns names as a list in a sentence, at most n of them.
func someOf(names []string, n int) string {
	names = slices.Clone(names)
	slices.Sort(names)
	more := ""
	if len(names) > n {
		more = " and " + strconv.Itoa(len(names)-n) + " more"
		names = names[:n]
	}
	return strings.Join(names, ", ") + more
}
