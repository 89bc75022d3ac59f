package turntext

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
)

// titleRest is what stands beside a path in its title.
const titleRest = 18

// maxDiff is how many lines of a change are shown where it happens.
const maxDiff = 40

// ShowDiff shows what a call changed, or its beginning.
func (v *View) ShowDiff(diff string) { v.showDiff(diff, maxDiff) }

// ShowWholeDiff shows a change whole.
func (v *View) ShowWholeDiff(diff string) { v.showDiff(diff, 0) }

func (v *View) showDiff(diff string, most int) {
	cols, _ := v.Stage.Size()
	v.Insert(DrawDiff(v.Ink, diff, cols, most)...)
}

// DrawDiff draws a unified diff with line numbers: what goes is red, what comes green,
// what stays dim. Most bounds the lines, 0 doesn't.
func DrawDiff(k terminal.Ink, diff string, cols, most int) []string {
	d := diffDrawer{ink: k, cols: max(cols, 20)}
	for line := range strings.Lines(diff) {
		d.drawLine(strings.TrimSuffix(line, "\n"))
	}
	d.endFile()
	if left := len(d.out) - most; most > 0 && left > 1 {
		return append(d.out[:most], k.Paint(terminal.Dim, "    … "+terminal.Plural(int64(left), "more line")))
	}
	return d.out
}

// diffDrawer turns the lines of a unified diff into those that are shown.
type diffDrawer struct {
	ink       terminal.Ink
	cols      int
	out       []string
	path      string
	title     int
	add, del  int
	old, next int
	oldLeft   int
	newLeft   int
}

func (d *diffDrawer) drawLine(line string) {
	switch {
	case d.oldLeft > 0 || d.newLeft > 0:
		d.body(line)
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "index "), strings.HasPrefix(line, "new file"), strings.HasPrefix(line, "deleted file"):
		if p := diffPath(line); p != "" && strings.HasPrefix(line, "--- ") {
			d.startFile(p)
		}
	case strings.HasPrefix(line, "+++ "):
		if p := diffPath(line); p != "" {
			d.path = p
		}
	case strings.HasPrefix(line, "diff "):
		d.endFile()
	case strings.HasPrefix(line, "@@"):
		d.hunk(line)
	case line != "" && !strings.HasPrefix(line, `\`):
		d.out = append(d.out, d.ink.Paint(terminal.Dim, terminal.Clip("  "+terminal.Plain(line), d.cols-1)))
	}
}

// diffPath is the path in a line that names a file; empty for none.
func diffPath(line string) string {
	p, _, _ := strings.Cut(line[4:], "\t")
	if p == "/dev/null" {
		return ""
	}
	if len(p) > 2 && (p[:2] == "a/" || p[:2] == "b/") {
		p = p[2:]
	}
	return p
}

func (d *diffDrawer) startFile(path string) {
	d.endFile()
	d.path = path
}

// endFile writes the title of a file, now that the sums are known.
func (d *diffDrawer) endFile() {
	if d.path != "" && d.add+d.del > 0 {
		title := d.ink.Paint(terminal.Bold, terminal.Clip(terminal.Exact(d.path), max(d.cols-titleRest, 8)))
		d.out[d.title] = "  " + title + "  " + d.ink.Paint(terminal.Green, "+"+strconv.Itoa(d.add)) + " " + d.ink.Paint(terminal.Red, "-"+strconv.Itoa(d.del))
	}
	d.path, d.add, d.del = "", 0, 0
}

func (d *diffDrawer) hunk(line string) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return
	}
	oldFrom, oldCount := hunkRange(fields[1])
	newFrom, newCount := hunkRange(fields[2])
	if d.add+d.del == 0 {
		d.title = len(d.out)
		d.out = append(d.out, "")
	} else {
		d.out = append(d.out, d.ink.Paint(terminal.Dim, "     ⋮"))
	}
	d.old, d.next, d.oldLeft, d.newLeft = oldFrom, newFrom, oldCount, newCount
}

// hunkRange reads "-12,3": where a range begins and how long it is.
func hunkRange(s string) (from, count int) {
	a, b, found := strings.Cut(s[1:], ",")
	from, _ = strconv.Atoi(a) // what can't be read is not numbered
	if count = 1; found {
		count, _ = strconv.Atoi(b)
	}
	return from, count
}

func (d *diffDrawer) body(line string) {
	if line == "" {
		line = " "
	}
	text := terminal.Clip(strings.ReplaceAll(strings.TrimSuffix(terminal.Exact(line[1:]+"\n"), "\n"), "\t", "    "), max(d.cols-10, 10))
	switch line[0] {
	case '+':
		d.out = append(d.out, d.ink.Paint(terminal.Green, fmt.Sprintf("%6d + %s", d.next, text)))
		d.add++
		d.next++
		d.newLeft--
	case '-':
		d.out = append(d.out, d.ink.Paint(terminal.Red, fmt.Sprintf("%6d - %s", d.old, text)))
		d.del++
		d.old++
		d.oldLeft--
	case '\\':
		// "No newline at end of file" is of no use here.
	default:
		d.out = append(d.out, d.ink.Paint(terminal.Dim, strings.TrimRight(fmt.Sprintf("%6d   %s", d.next, text), " ")))
		d.old++
		d.next++
		d.oldLeft--
		d.newLeft--
	}
}

// maxCompared bounds the lines that are compared with each other.
const maxCompared = 2000

// UnifiedDiff compares two texts line by line, with so many lines of context. It is for
// showing: texts with very many lines are shown as replaced.
func UnifiedDiff(path, before, after string, context int) string {
	a, b := textLines(before), textLines(after)
	steps := compareLines(a, b)
	var out strings.Builder
	path = oneLine.Replace(terminal.Exact(path)) // a name must not look like lines of a change
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", path, path)
	for from := 0; from < len(steps); {
		if steps[from].mark == ' ' {
			from++
			continue
		}
		begin, end := max(from-context, 0), from
		for quiet := 0; end < len(steps) && quiet <= 2*context; end++ {
			if quiet++; steps[end].mark != ' ' {
				quiet = 0
			}
		}
		for end > from && steps[end-1].mark == ' ' {
			end--
		}
		end = min(end+context, len(steps))
		writeHunk(&out, steps[begin:end])
		from = end
	}
	return out.String()
}

// oneLine shows ends of lines and tabs as symbols.
var oneLine = strings.NewReplacer("\n", "␊", "\t", "␉")

// lineStep is a line of a comparison, with its places in both texts.
type lineStep struct {
	mark     byte
	text     string
	old, new int
}

func writeHunk(out *strings.Builder, steps []lineStep) {
	olds, news := 0, 0
	for _, s := range steps {
		if s.mark != '+' {
			olds++
		}
		if s.mark != '-' {
			news++
		}
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", steps[0].old, olds, steps[0].new, news)
	for _, s := range steps {
		out.WriteByte(s.mark)
		out.WriteString(s.text + "\n")
	}
}

func textLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// compareLines finds the longest common lines of two texts.
func compareLines(a, b []string) []lineStep {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []lineStep
	old, next := 1, 1
	step := func(mark byte, text string) {
		out = append(out, lineStep{mark, text, old, next})
		if mark != '+' {
			old++
		}
		if mark != '-' {
			next++
		}
	}
	for _, line := range a[:head] {
		step(' ', line)
	}
	compareMiddle(a[head:len(a)-tail], b[head:len(b)-tail], step)
	for _, line := range a[len(a)-tail:] {
		step(' ', line)
	}
	return out
}

// compareMiddle compares what is left between a common head and a common tail.
func compareMiddle(a, b []string, step func(byte, string)) {
	if len(a) > maxCompared || len(b) > maxCompared {
		for _, line := range a {
			step('-', line)
		}
		for _, line := range b {
			step('+', line)
		}
		return
	}
	// long[i][j] is how much a[i:] and b[j:] have in common.
	long := make([][]int32, len(a)+1)
	for i := range long {
		long[i] = make([]int32, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for j := range slices.Backward(b) {
			if a[i] == b[j] {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			step(' ', a[i])
			i++
			j++
		case j == len(b) || (i < len(a) && long[i+1][j] >= long[i][j+1]):
			step('-', a[i])
			i++
		default:
			step('+', b[j])
			j++
		}
	}
}
