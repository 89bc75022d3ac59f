package httpstream

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a piece of text in a stream's JSON. A server that cuts its text by
// bytes or by UTF-16 units may end one piece in the middle of a character and
// begin the next with the rest. Text keeps such halves, which encoding/json would
// replace, until [Joiner] puts them together: bytes as they came, half of a
// surrogate pair in three bytes.
type Text string

// UnmarshalJSON implements json.Unmarshaler. Null is empty.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) >= 2 && b[0] == '"' && !needsCare(b) {
		*t = Text(b[1 : len(b)-1])
		return nil
	}
	if len(b) < 2 || b[0] != '"' || !strings.Contains(string(b), `\u`) && utf8.Valid(b) {
		var s string
		if err := Unmarshal(b, &s); err != nil {
			return err
		}
		*t = Text(s)
		return nil
	}
	*t = Text(unquote(b[1 : len(b)-1]))
	return nil
}

func needsCare(b []byte) bool {
	for _, c := range b {
		if c == '\\' || c >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// unquote resolves the escapes of a JSON string that was checked already.
func unquote(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			unit, ok := hex4(s[i+1:])
			if !ok {
				out = append(out, "\uFFFD"...)
				continue
			}
			i += 4
			out = appendUnit(out, unit)
		default:
			out = append(out, s[i])
		}
	}
	return out
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// appendUnit appends a UTF-16 unit. Half of a pair is written in the three bytes
// that UTF-8 forbids, and pairs with the half before it.
func appendUnit(out []byte, unit rune) []byte {
	if !utf16.IsSurrogate(unit) {
		return utf8.AppendRune(out, unit)
	}
	if high, ok := halfAtEnd(out); ok {
		if r := utf16.DecodeRune(high, unit); r != utf8.RuneError {
			return utf8.AppendRune(out[:len(out)-3], r)
		}
	}
	return append(out, byte(0xE0|unit>>12), byte(0x80|unit>>6&0x3F), byte(0x80|unit&0x3F))
}

// halfAtEnd returns the first half of a surrogate pair that b ends with.
func halfAtEnd(b []byte) (rune, bool) {
	if n := len(b); n >= 3 && b[n-3] == 0xED && b[n-2] >= 0xA0 && b[n-2] < 0xB0 {
		return 0xD000 | rune(b[n-2]&0x3F)<<6 | rune(b[n-1]&0x3F), true
	}
	return 0, false
}

// Joiner makes valid text of pieces. The zero value is ready.
type Joiner struct{ tail []byte }

// Add returns the text that is whole after the piece; what may be the first half
// of a character waits for the next.
func (j *Joiner) Add(t Text) string {
	if len(j.tail) == 0 && utf8.ValidString(string(t)) {
		return string(t)
	}
	b := joinSurrogates(j.tail, string(t))
	cut := len(b) - unfinishedBytes(b)
	whole := strings.ToValidUTF8(string(b[:cut]), "\uFFFD")
	j.tail = append([]byte(nil), b[cut:]...)
	return whole
}

// Flush returns what is left of a character that was never finished.
func (j *Joiner) Flush() string {
	if len(j.tail) == 0 {
		return ""
	}
	j.tail = nil
	return "\uFFFD"
}

// joinSurrogates appends s to tail; two halves of a surrogate pair become its character.
func joinSurrogates(tail []byte, s string) []byte {
	out := append(make([]byte, 0, len(tail)+len(s)), tail...)
	if len(s) >= 3 && s[0] == 0xED && s[1] >= 0xB0 {
		low := 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
		return append(appendUnit(out, low), s[3:]...)
	}
	return append(out, s...)
}

// unfinishedBytes is how many bytes at the end may be the first half of a character.
func unfinishedBytes(b []byte) int {
	if _, ok := halfAtEnd(b); ok {
		return 3
	}
	for n := 1; n <= 3 && n <= len(b); n++ {
		c := b[len(b)-n]
		if !utf8.RuneStart(c) {
			continue
		}
		if c >= 0xC0 && !utf8.FullRune(b[len(b)-n:]) {
			return n
		}
		return 0
	}
	return 0
}
