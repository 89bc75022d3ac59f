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

// TestReasonsAreClauses: a reason that was written for a list reads as a clause in a sentence.
func TestReasonsAreClauses(t *testing.T) {
	for reason, want := range map[string]string{"": "", "waits for a permission": ", because it waits for a permission", "it is a draft": ", because it is a draft"} {
		if got := becauseClause(reason); got != want {
			t.Errorf("%q: %q", reason, got)
		}
	}
}
