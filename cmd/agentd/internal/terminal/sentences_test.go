package terminal_test

import (
	"testing"

	"agentd/cmd/agentd/internal/terminal"
)

func TestSentences(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		cols       int
		want       string
	}{
		{"fits", "one two", 10, "one two"},
		{"any width", "one two three", 0, "one two three"},
		{"at the spaces", "one two three four", 10, "one two\nthree\nfour"},
		{"a flag stays whole", "ask with --model script/script", 20, "ask with --model\nscript/script"},
		{"a path stays whole", "it is in /a/very/long/path/of/it now", 12, "it is in\n/a/very/long/path/of/it\nnow"},
		{"indented", "head:\n  one two three", 9, "head:\n  one\n  two\n  three"},
		{"wide characters", "标题 标题 标题", 8, "标题\n标题\n标题"},
		{"nothing", "", 8, ""},
	} {
		if got := terminal.Sentences(tt.text, tt.cols); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPlural(t *testing.T) {
	for _, tt := range []struct {
		n          int
		what, want string
	}{{0, "turn", "0 turns"}, {1, "turn", "1 turn"}, {2, "turn", "2 turns"}, {1, "index entry", "1 index entry"}, {3, "index entry", "3 index entries"}, {2, "policy", "2 policies"}, {2, "key", "2 keys"}} {
		if got := terminal.Plural(tt.n, tt.what); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
