package tui

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDrawingsShrinkSafely plays drawings of any height against a renderer that writes
// some of them, whenever it likes: the cursor is never lower than the rows of what is
// written next, and what is wanted is written in the end.
func TestDrawingsShrinkSafely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s settler
		stands, wrote := 0, false // where the cursor is, and the mark that was written
		wanted := []string{""}
		var handed []string
		row := -1
		handOver := func() { handed, row = s.settle(wanted, row) }
		write := func() {
			if len(handed) == 0 {
				return
			}
			if stands > len(handed)-1 {
				t.Fatalf("the cursor is in row %d of a drawing with %d rows", stands, len(handed))
			}
			if stands = row; row < 0 {
				stands = len(handed) - 1
			}
			wrote = s.mark
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				wanted = strings.Split(strings.Repeat("x\n", rapid.IntRange(0, 9).Draw(t, "rows")), "\n")
				row = rapid.IntRange(-1, len(wanted)-1).Draw(t, "cursor")
				handOver()
			case 1:
				write()
			case 2:
				s.written(wrote)
				handOver()
			case 3: // the pager is drawn
				wrote = strings.HasSuffix(s.markedAsWritten(""), titleMark)
			case 4: // the pager is closed
				s.await()
				handOver()
			}
		}
		for range 3 {
			handOver()
			write()
			s.written(wrote)
		}
		handOver()
		write()
		if s.waiting {
			t.Fatal("a drawing that was written is waited for")
		}
		if len(handed) != len(wanted) {
			t.Fatalf("%d rows are drawn in place of %d", len(handed), len(wanted))
		}
	})
}
