package evidence

import (
	"strings"
	"testing"
)

// TestManyFactsAreCounted: an answer of many facts says how many it leaves out.
func TestManyFactsAreCounted(t *testing.T) {
	for n, want := range map[int]string{12: "", 13: "(1 more fact in between.)", 14: "(2 more facts in between.)"} {
		x := &explanation{}
		for range n {
			x.key = append(x.key, "It happened.")
		}
		if got := x.joinAnswer(); strings.Contains(got, "more") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%d facts: %q, want %q in it", n, got, want)
		}
	}
}
