package evidence

import (
	"slices"
	"strings"
	"testing"
)

// TestAnswersSayWhatTheyLeaveOut counts what stands in between.
func TestAnswersSayWhatTheyLeaveOut(t *testing.T) {
	for n, want := range map[int]string{12: "", 13: "(1 more fact in between.)", 15: "(3 more facts in between.)"} {
		x := &explanation{key: slices.Repeat([]string{"It was so."}, n)}
		if got := x.joinAnswer(); want == "" && strings.Contains(got, "in between") || !strings.Contains(got, want) {
			t.Errorf("%d: %s", n, got)
		}
	}
}
