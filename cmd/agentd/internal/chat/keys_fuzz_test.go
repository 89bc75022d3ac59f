package chat

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever is typed, in whatever pieces, it becomes the same keys' text.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("hello\r\x1b[A\x1b[200~pasted\x1b[201~"), 3)
	f.Add([]byte("\x1b[1;5C\x1bx\xc3\xa4\xff"), 1)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		whole, parts := &keyReader{}, &keyReader{}
		if at < 0 || at > len(data) || bytes.ContainsRune(data, 0x1b) {
			whole.feed(data) // a piece that ends in an escape is a key of its own
			return
		}
		if !utf8.RuneStart(append(data, 0)[at]) {
			return
		}
		want := spelled(whole.feed(data))
		got := spelled(append(parts.feed(data[:at]), parts.feed(data[at:])...))
		if got != want {
			t.Errorf("%q in two pieces is %q, whole %q", data, got, want)
		}
	})
}

// spelled writes keys down: text may come in pieces.
func spelled(keys []key) string {
	var b strings.Builder
	for _, k := range keys {
		if k.name != keyText {
			b.WriteString("<" + k.name + ">")
		}
		b.WriteString(k.text)
	}
	return b.String()
}
