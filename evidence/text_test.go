package evidence

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// TestWhatIsNoTextIsNoPack: reading ends at the first byte that isn't UTF-8, however the bytes come.
func TestWhatIsNoTextIsNoPack(t *testing.T) {
	for _, text := range []string{
		"", "plain", "ä", "x\uFFFDy", "日本語 and 🎉", "\xff", "ab\xc3", "ab\xc3(", "\xed\xa0\x80", "🎉\xf0\x9f\x8e", "\xf0\x9f\x8e\xff", strings.Repeat("é", 300) + "\x80", strings.Repeat("🎉", 200),
	} {
		for name, r := range map[string]io.Reader{
			"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)), "with the end": iotest.DataErrReader(strings.NewReader(text)), "in halves": iotest.HalfReader(strings.NewReader(text)),
		} {
			reader := &textReader{r: r}
			b, err := io.ReadAll(reader)
			// A rune that is cut off at the end is for the decoder to miss: the text has no end there.
			good := utf8.ValidString(text) || len(reader.rest) > 0
			if (err == nil) != good {
				t.Errorf("%q %s: %v", text, name, err)
			}
			if err == nil && string(b) != text {
				t.Errorf("%q %s became %q", text, name, b)
			}
			if f, is := err.(*Finding); err != nil && (!is || utf8.ValidString(text[:f.Byte]) == false || utf8.ValidString(text[:f.Byte+1])) { //nolint:errorlint // it is the reader's own
				t.Errorf("%q %s: the finding is %v", text, name, err)
			}
		}
	}
}
