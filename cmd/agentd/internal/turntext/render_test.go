package turntext

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/cmd/agentd/internal/terminal"
)

func TestRenderedMarkdown(t *testing.T) {
	for _, tt := range []struct{ name, block, want string }{
		{"paragraph", "a *b* **c**\n`d` __e__", "a b c `d` e"},
		{"words with underscores", "snake_case_name and 2*3*4", "snake_case_name and 2*3*4"},
		{"no end", "**a `b", "**a `b"},
		{"escapes", `\*not\* &lt;b&gt; &#27;[31m`, "*not* <b> [31m"},
		{"heading", "## Title ##", "Title"},
		{"rule", "---", "────────"},
		{"list", "- a\n  - b\n    more\n- c", "• a\n  • b more\n• c"},
		{"numbers", "1. a\n2. b\n\n   still b", "1. a\n2. b\n\n   still b"},
		{"tasks", "- [x] a\n- [ ] b", "☑ a\n☐ b"},
		{"lazy item", "- a\nb", "• a b"},
		{"code in a list", "- a\n  ```\n  x  y\n  ```\n- b", "• a\n    x  y\n• b"},
		{"code", "```go\nfunc f() {\n\treturn\n}\n```", "  func f() {\n      return\n  }"},
		{"code without end", "```\na\n\nb", "  a\n\n  b"},
		{"quote", "> a\n> - b", "│ a\n│ • b"},
		{"link", "[text](https://example.org/x) <https://example.org>", "text (https://example.org/x) https://example.org"},
		{"image", "![alt](x.png)", "[image: alt]"},
		{"table", "| a | bb |\n|---|:-:|\n| `x|y` | 1 |", " a     │ bb\n───────┼────\n `x|y` │ 1"},
		{"hard break", "a  \nb\\\nc", "a\nb\nc"},
		{"html", "<b>x</b>", "<b>x</b>"},
	} {
		if d := cmp.Diff(tt.want, strings.Join(renderBlock(terminal.NoColour, tt.block, 80), "\n")); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

// TestRenderedMarkdownFits: whatever the text, no line is wider than the terminal, no
// colour leaks, and no letter is lost.
func TestRenderedMarkdownFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{
			"word ", "你好 ", "**", "*", "`", "_", "~~", "\n", "\n\n", "- ", "1. ", "> ", "  ", "# ", "| a | b |\n|--|--|\n", "```\n", "[x](y) ", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "\t", "\\", "&amp;", "<",
		})).Draw(t, "pieces")
		text := terminal.PlainBlock(strings.Join(pieces, ""))
		cols := rapid.IntRange(20, 90).Draw(t, "cols")
		letters := func(s string) int { return strings.Count(s, "w") + strings.Count(s, "好") }
		for _, k := range []terminal.Ink{terminal.Dark, terminal.Light, terminal.NoColour} {
			lines := renderBlock(k, text, cols)
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > cols && !strings.Contains(l, "│") {
					t.Fatalf("%q is %d wide in %d", l, w, cols)
				}
				if strings.Contains(l, "\x1b[") && !strings.HasSuffix(l, "\x1b[0m") {
					t.Fatalf("the colour leaks: %q", l)
				}
			}
			if got, want := letters(ansi.Strip(strings.Join(lines, "\n"))), letters(text); got < want {
				if !strings.Contains(text, "```") && !strings.Contains(text, "|--") { // what follows a fence names a language, and cells can be too many
					t.Fatalf("%d of %d letters are left of %q: %q", got, want, text, lines)
				}
			}
		}
	})
}

// TestRenderingTakesLinearTime: a long text is drawn at once, whatever is in
// it. If each mark were looked for to the end of the text, it would take minutes.
func TestRenderingTakesLinearTime(t *testing.T) {
	for _, unit := range []string{
		"*a ", "_a ", "**a ", "__a ", "~~a ", "`", "`a ``b ```c ", "*a **b _c ", "*a*", "[a](", "[a](b(", "![a", "<http:a ", "\\*", "&amp;", "> ", "- ", "> - ", "1. ", "#", "| a ", "*_", "a",
	} {
		text := strings.Repeat(unit, 1<<17/len(unit))
		if lines := renderBlock(terminal.NoColour, text, 80); len(lines) == 0 && strings.Contains(unit, "a") {
			t.Errorf("nothing is left of %q", unit)
		}
		if lines := renderBlock(terminal.NoColour, strings.Repeat(unit+"\n", 1<<16/len(unit)), 80); len(lines) == 0 && strings.Contains(unit, "a") {
			t.Errorf("nothing is left of lines of %q", unit)
		}
	}
}
