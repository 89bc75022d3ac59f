package terminal_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"agentd/cmd/agentd/internal/terminal"
)

func TestTable(t *testing.T) {
	short := func(s string) string { return s[:4] }
	columns := []terminal.Column{{Shorten: short}, {}, {Shorten: short}, {Text: true}}
	rows := [][]string{
		{"ID", "STATUS", "OTHER", "TITLE"},
		{"first_id_of_all", "done", "second_id_of_all", "a title that is long, so that it must be cut"},
		{"third_id_of_all", "failed", "-aaaa", "grüße 你好"},
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, `
ID               STATUS  OTHER             TITLE
first_id_of_all  done    second_id_of_all  a title that is long, so that it must be cut
third_id_of_all  failed  -aaaa             grüße 你好`},
		{72, `
ID               STATUS  OTHER             TITLE
first_id_of_all  done    second_id_of_all  a title that is long, so tha…
third_id_of_all  failed  -aaaa             grüße 你好`},
		{60, `
ID               STATUS  OTHER  TITLE
first_id_of_all  done    seco   a title that is long, so th…
third_id_of_all  failed  -aaa   grüße 你好`},
		{44, `
ID               STATUS  OTHER  TITLE
first_id_of_all  done    seco   a title tha…
third_id_of_all  failed  -aaa   grüße 你好`},
		{30, `
ID    STATUS  OTHER  TITLE
firs  done    seco   a title …
thir  failed  -aaa   grüße 你…`},
		{1, `
ID    STATUS  OTHER  TITLE
firs  done    seco   a tit…
thir  failed  -aaa   grüße…`},
	} {
		if got := "\n" + strings.Join(terminal.Table(rows, columns, c.width), "\n"); got != c.want {
			t.Errorf("at %d characters:%s\nwant:%s", c.width, got, c.want)
		}
	}
	if got := terminal.Table(nil, nil, 80); len(got) != 0 {
		t.Errorf("nothing is written as %q", got)
	}
}

// TestTablesFit: whatever stands in a table of texts, its lines are as wide as they may
// be and no wider, unless the titles alone are.
func TestTablesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := make([]terminal.Column, rapid.IntRange(1, 5).Draw(t, "columns"))
		head := make([]string, len(columns))
		least := -2
		for j := range columns {
			columns[j].Text = true
			head[j] = strings.Repeat("H", rapid.IntRange(1, 10).Draw(t, "title"))
			least += max(len(head[j]), 6) + 2
		}
		rows := [][]string{head}
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			row := make([]string, len(columns))
			for j := range row {
				row[j] = strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "ü", "你", " ", "word"}), 0, 30).Draw(t, "cell"), "")
			}
			rows = append(rows, row)
		}
		width := rapid.IntRange(least, 200).Draw(t, "width")
		before := slices.Clone(rows[len(rows)-1])
		for _, line := range terminal.Table(rows, columns, width) {
			if ansi.StringWidth(line) > width {
				t.Fatalf("%d characters instead of %d: %q", ansi.StringWidth(line), width, line)
			}
		}
		if !slices.Equal(before, rows[len(rows)-1]) {
			t.Fatal("the rows were changed")
		}
	})
}
