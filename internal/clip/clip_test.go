package clip_test

import (
	"testing"

	"agentd/internal/clip"
)

func TestTextAndPrefix(t *testing.T) {
	for _, c := range []struct {
		in     string
		n      int
		text   string
		prefix string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abcd", 3, "abc…", "abc"},
		{"abc", 0, "…", ""},
		{"aé", 3, "aé", "aé"},
		{"aéb", 2, "a…", "a"},
		{"aéb", 3, "aé…", "aé"},
		{"a€", 3, "a…", "a"},
		{"😀x", 3, "…", ""},
		{"😀x", 4, "😀…", "😀"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80…", "\x80\x80\x80\x80\x80"},
	} {
		if got := clip.Text(c.in, c.n); got != c.text {
			t.Errorf("Text(%q, %d) = %q, want %q", c.in, c.n, got, c.text)
		}
		if got := clip.Prefix(c.in, c.n); got != c.prefix {
			t.Errorf("Prefix(%q, %d) = %q, want %q", c.in, c.n, got, c.prefix)
		}
	}
}

func TestRuneStartOfBytes(t *testing.T) {
	if got := clip.RuneStart([]byte("a€b"), 3); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}
