package turntext

import (
	"fmt"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
)

// diffContext is how many lines that stay are shown around those that change.
const diffContext = 3

// editDiff shows what takes the place of a text, line by line: the lines that both
// begin and end with stay, some of them shown around those that change.
func editDiff(old, now string) string {
	a, b := diffLines(old), diffLines(now)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []string
	add := func(mark string, lines []string) {
		for _, line := range lines {
			out = append(out, mark+line)
		}
	}
	add("  ", a[max(0, head-diffContext):head])
	add("- ", a[head:len(a)-tail])
	add("+ ", b[head:len(b)-tail])
	add("  ", a[len(a)-tail:min(len(a), len(a)-tail+diffContext)])
	return strings.Join(out, "\n")
}

// diffExcerpt shows the beginning of a diff: what comes in green, what goes in red.
func diffExcerpt(k terminal.Ink, text string, most, cols int) []string {
	text = strings.TrimRight(terminal.PlainBlock(text), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	left := len(lines) - most
	var out []string
	for _, line := range lines[:min(len(lines), most)] {
		colour := terminal.Dim
		switch {
		case strings.HasPrefix(line, "+ "):
			colour = terminal.Green
		case strings.HasPrefix(line, "- "):
			colour = terminal.Red
		}
		out = append(out, k.Paint(terminal.Dim, "  │ ")+k.Paint(colour, terminal.Clip(strings.ReplaceAll(line, "\t", "  "), max(cols-6, 10))))
	}
	if left > 0 {
		out = append(out, k.Paint(terminal.Dim, fmt.Sprintf("  │ … %s more", terminal.Plural(int64(left), "line"))))
	}
	return out
}

func diffLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimRight(text, "\n"), "\n")
}
