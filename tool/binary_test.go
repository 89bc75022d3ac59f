package tool

import (
	"strings"
	"testing"
)

func TestIsBinary(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want bool
	}{
		"empty":          {"", false},
		"text":           {"hello\n\tworld\r\n", false},
		"colours":        {"\x1b[31mred\x1b[0m\n", false},
		"umlauts":        {strings.Repeat("äöü", 1000), false},
		"half character": {"abc\xc3", false},
		"latin 1":        {"caf\xe9 au lait, toujours", false},
		"zero":           {"abc\x00", true},
		"late zero":      {strings.Repeat("a", 500) + "\x00", true},
		"too late":       {strings.Repeat("a", binarySample) + "\x00", false},
		"noise":          {strings.Repeat("\x80\x01\xff\x02", 100), true},
	} {
		if got := IsBinary([]byte(c.data)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
