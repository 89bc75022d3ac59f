package evidence

import (
	"io"
	"unicode/utf8"
)

// textReader ends the reading of a pack at the first byte that isn't UTF-8. A JSON decoder takes
// such a byte for U+FFFD: where the pack has that, changed bytes would not be noticed.
type textReader struct {
	r    io.Reader
	at   int64  // where the next byte stands
	rest []byte // the beginning of a rune whose end wasn't read yet
}

func (t *textReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	b := p[:n]
	for len(t.rest) > 0 && len(b) > 0 {
		t.rest, b = append(t.rest, b[0]), b[1:]
		if !utf8.FullRune(t.rest) {
			continue
		}
		if !utf8.Valid(t.rest) {
			return 0, t.notText()
		}
		t.at += int64(len(t.rest))
		t.rest = t.rest[:0]
	}
	whole := len(b)
	for i := max(0, len(b)-utf8.UTFMax+1); i < len(b); i++ {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			whole = i
			break
		}
	}
	if !utf8.Valid(b[:whole]) {
		for {
			r, size := utf8.DecodeRune(b)
			if r == utf8.RuneError && size == 1 {
				return 0, t.notText()
			}
			t.at += int64(size)
			b = b[size:]
		}
	}
	t.at += int64(whole)
	t.rest = append(t.rest, b[whole:]...)
	return n, err
}

func (t *textReader) notText() error {
	t.rest = nil
	return &Finding{Byte: t.at, Detail: "a byte is no part of a text in UTF-8"}
}
