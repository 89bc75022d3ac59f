package turntext

import (
	"strings"
	"testing"
)

// Whatever a model writes, in whatever pieces, it is shown.
func FuzzMarkdown(f *testing.F) {
	f.Add("# a\n\n- b\n  c\n\n```go\nx\n```\n", 5)
	f.Add("| a |\n|---|\n| b |", 2)
	f.Add("\x1b[31m", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) {
			return
		}
		var pieces, whole markdown
		got := strings.Join(append(append(pieces.append(text[:at]), pieces.append(text[at:])...), pieces.finish()...), "\n")
		want := strings.Join(append(whole.append(text), whole.finish()...), "\n")
		if strings.TrimSpace(got) == "" && strings.TrimSpace(want) != "" {
			t.Errorf("%q cut at %d is lost", text, at)
		}
	})
}
