package turntext

import (
	"fmt"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

// RollbackLines say what a rollback does, or would do.
func RollbackLines(k terminal.Ink, res *command.RollbackThreadResult) []string {
	out := []string{"  " + terminal.Plural(int64(len(res.RemovedTurns)), "turn") + ": " + strings.Join(res.RemovedTurns, ", ")}
	if len(res.Files) == 0 {
		return append(out, k.Paint(terminal.Dim, "  no file was changed"))
	}
	colours := map[string]string{"restored": terminal.Green, "deleted": terminal.Red, "kept": terminal.Dim, "conflict": terminal.Yellow, "unavailable": terminal.Yellow}
	for _, f := range res.Files {
		line := "  " + k.Paint(colours[f.Change], fmt.Sprintf("%-11s", f.Change)) + " " + terminal.Plain(f.Path)
		if f.Reason != "" {
			line += k.Paint(terminal.Dim, " ("+terminal.Plain(f.Reason)+")")
		}
		out = append(out, line)
	}
	return out
}

// DiffLines colours a unified diff. What isn't for a terminal is left exact.
func DiffLines(k terminal.Ink, diff string) []string {
	if diff == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	if !k.HasColour() {
		return lines
	}
	for i, line := range lines {
		colour := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
			colour = terminal.Bold
		case strings.HasPrefix(line, "+"):
			colour = terminal.Green
		case strings.HasPrefix(line, "-"):
			colour = terminal.Red
		case strings.HasPrefix(line, "@@"):
			colour = terminal.Cyan
		}
		line = strings.TrimSuffix(terminal.PlainBlock(line+"\n"), "\n")
		if lines[i] = line; colour != "" {
			lines[i] = k.Paint(colour, line)
		}
	}
	return lines
}
