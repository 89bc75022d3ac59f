package terminal

import "testing"

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                     "hello",
		"two\nlines\tand\r":         "two lines and ",
		"\x1b[31mred\x1b[0m":        "[31mred[0m",
		"bell\x07 csi\u009b1m":      "bell csi1m",
		"right\u202eto left\u2069.": "rightto left.",
		"grüße 你好":                  "grüße 你好",
	} {
		if got := Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := PlainBlock("a\tb\x1b[2J\n\nc"), "a\tb[2J\n\nc"; got != want {
		t.Errorf("PlainBlock = %q, want %q", got, want)
	}
}
