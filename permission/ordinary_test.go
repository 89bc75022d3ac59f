package permission

import (
	_ "embed"
	"strings"
	"testing"
)

//go:embed testdata/ordinary.txt
var ordinary string

// TestOrdinaryLines: doubts are for what is doubtful. A rule that asks about everything
// would be switched off.
func TestOrdinaryLines(t *testing.T) {
	count := map[string]int{}
	for row := range strings.Lines(ordinary) {
		want, line, ok := strings.Cut(strings.TrimSuffix(row, "\n"), "\t")
		if !ok {
			continue
		}
		got := "runs"
		d := forbidden(line)
		switch {
		case d.Decision != Allow:
			got = "asks"
		case Analyse(line).readOnly():
			got = "reads"
		}
		if got != want {
			t.Errorf("%q %s, want %s (%s)", line, got, want, d.DecisionReason)
		}
		count[got]++
	}
	t.Logf("%v", count)
	if total := count["reads"] + count["runs"] + count["asks"]; total < 200 || count["asks"] > total/50 {
		t.Errorf("of %d lines %d ask", total, count["asks"])
	}
}
