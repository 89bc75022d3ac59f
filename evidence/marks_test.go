package evidence

import (
	"strings"
	"testing"
)

// TestMarksThatNoExportHas are not followed: they could make a short file slow.
func TestMarksThatNoExportHas(t *testing.T) {
	for name, m := range map[string]*marks{
		"too close": {Block: 1, Sums: make([]byte, 4)},
		"too many":  {Block: markBlock, Sums: make([]byte, 4*maxMarks+4)},
		"too far":   {Block: 1 << 40, Sums: make([]byte, 4)},
		"half":      {Block: markBlock, Sums: make([]byte, 5)},
		"below 0":   {Block: markBlock, From: -1, Sums: make([]byte, 4)},
	} {
		if p, err := m.first(strings.NewReader("text")); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	m := newMarker()
	_, _ = m.Write(make([]byte, 3*maxMarks*markBlock+1))
	if p, err := m.marks().first(strings.NewReader(strings.Repeat("\x00", 3*maxMarks*markBlock+1))); err != nil || p != nil {
		t.Errorf("a long file: %+v, %v", p, err)
	}
}
