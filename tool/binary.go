package tool

import (
	"bytes"
	"unicode/utf8"
)

// binarySample is how much of the beginning decides whether it is text.
const binarySample = 8000

// IsBinary reports whether a sample from the beginning of a file or an output
// doesn't look like text: it has a zero byte, or much that is neither UTF-8 nor a
// character that text is made of.
func IsBinary(sample []byte) bool {
	if len(sample) > binarySample {
		sample = sample[:binarySample]
	}
	if bytes.IndexByte(sample, 0) >= 0 {
		return true
	}
	sample = cutHead(sample)
	odd := 0
	for i := 0; i < len(sample); {
		c := sample[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(sample[i:])
			if r == utf8.RuneError && size == 1 {
				odd++
			}
			i += size
			continue
		}
		// Backspace and escape are part of what terminals are sent.
		if c < ' ' && (c < '\b' || c > '\r') && c != 0x1b {
			odd++
		}
		i++
	}
	// A few odd bytes in a short text are another encoding.
	return odd > 3 && odd*10 > len(sample)*3
}

// cutHead takes a character from the end of b that isn't complete.
func cutHead(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			return b
		}
	}
	return b
}
