package terminal

import "testing"

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                     "hello",
		"two\nlines\tand\r":         "two lines and ",
		"\x1b[31mred\x1b[0m":        "[31mred[0m",
		"bell\x07 csi\u009b1m":      "bell csi1m",
		"right\u202eto left\u2069.": "rightto left.",
		"marks\u200f\u061c\u2028on": "marks on",
		"grüße 你好":                  "grüße 你好",
	} {
		if got := Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"go test ./...\n\tx":                "go test ./...\n\tx",
		"a\r\x1b]0;t\x07b\x7f\u009b":        "a␍␛]0;t␇b<U+007F><U+009B>",
		"ls \u202egpj.\u2066x\u200f\u061c":  "ls <U+202E>gpj.<U+2066>x<U+200F><U+061C>",
		"r\u200bm\u00ad \u2060\ufeff\ufe0f": "r<U+200B>m<U+00AD> <U+2060><U+FEFF><U+FE0F>",
		"a\u00a0b\u3000c\u2028d\u2029":      "a<U+00A0>b<U+3000>c<U+2028>d<U+2029>",
		"x\u3164y\u115f\U000e0041":          "x<U+3164>y<U+115F><U+E0041>",
		"grüße 你好 \xff":                     "grüße 你好 \ufffd",
	} {
		if got := Exact(in); got != want {
			t.Errorf("Exact(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"\x1b[1mbold\x1b[0m\tx\ny":                "\x1b[1mbold\x1b[0m\tx\ny",
		"a\x1b]0;t\x07b\x1b[2Jc\r\x1b[31md\u202e": "a]0;tb[2Jc \x1b[31md",
		"\x1b[38;5;1mz\x1b[?25l":                  "\x1b[38;5;1mz[?25l",
		"grüße 你好":                                "grüße 你好",
	} {
		if got := Coloured(in); got != want {
			t.Errorf("Coloured(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := PlainBlock("a\tb\x1b[2J\n\nc"), "a\tb[2J\n\nc"; got != want {
		t.Errorf("PlainBlock = %q, want %q", got, want)
	}
}
