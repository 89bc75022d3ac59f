package turntext

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// Marks before lines. They are the same without colour.
const (
	MarkDone   = "✓"
	MarkFailed = "✗"
	MarkNote   = "•"
	MarkWarn   = "!"
)

// ShortArgs says in a few words what a tool is called with.
func ShortArgs(name string, args event.Raw) string { return terminal.Plain(shortArgs(name, args)) }

// shortArgs is ShortArgs with the text as it came.
func shortArgs(name string, args event.Raw) string {
	var v map[string]any
	if json.Unmarshal(args, &v) != nil {
		return string(args)
	}
	a, _ := toolkind.ReadArguments(args) // what isn't there is not shown
	switch toolkind.Of(name) {
	case toolkind.Shell:
		return a.Command
	case toolkind.ReadFile, toolkind.WriteFile, toolkind.EditFile:
		return a.Path
	case toolkind.ListFiles:
		return strings.TrimSpace(a.Path + " " + a.Glob)
	case toolkind.SearchFiles:
		return strings.TrimSpace(strconv.Quote(a.Pattern) + " " + a.Path + " " + a.Glob)
	case toolkind.RequestInput:
		return a.Prompt
	case toolkind.SpawnAgent:
		return strings.TrimPrefix(a.Role+": "+a.Input, ": ")
	case toolkind.UpdatePlan, toolkind.PresentPlan:
		return ""
	case toolkind.Other:
	}
	if len(v) == 0 {
		return ""
	}
	return string(args)
}

// planLines are the steps of a plan as a list with boxes.
func planLines(k terminal.Ink, args event.Raw, cols int) []string {
	var plan tool.Plan
	if json.Unmarshal(args, &plan) != nil {
		return nil
	}
	var out []string
	for _, item := range plan.Items {
		box, style := "☐", ""
		switch item.Status {
		case "completed":
			box, style = "☑", terminal.Dim
		case "in_progress":
			box, style = "▸", terminal.Bold
		case "cancelled":
			box, style = "☒", terminal.Dim
		}
		for i, line := range terminal.Wrap(terminal.Plain(item.Step), cols-4) {
			if i > 0 {
				box = " "
			}
			if line = "  " + box + " " + line; style != "" {
				line = k.Paint(style, line)
			}
			out = append(out, line)
		}
	}
	return out
}

// excerpt returns the first lines of a text, each behind a bar, and says how many
// are left out.
func excerpt(k terminal.Ink, text string, most, cols int) []string {
	text = strings.TrimRight(terminal.PlainBlock(text), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	left := len(lines) - most
	if left > 0 {
		lines = lines[:most]
	}
	out := make([]string, 0, len(lines)+1)
	for _, line := range lines {
		out = append(out, k.Paint(terminal.Dim, "  │ "+terminal.Clip(strings.ReplaceAll(line, "\t", "  "), max(cols-6, 10))))
	}
	if left > 0 {
		out = append(out, k.Paint(terminal.Dim, fmt.Sprintf("  │ … %s more", terminal.Plural(int64(left), "line"))))
	}
	return out
}

// quoted returns a text whole behind a bar, its long lines broken, and says how many rows
// are left out if there are too many: what is asked about must be seen.
func quoted(k terminal.Ink, text string, most, cols int) []string {
	var rows []string
	for line := range strings.SplitSeq(strings.TrimRight(terminal.PlainBlock(text), "\n"), "\n") {
		rows = append(rows, hardWrap(strings.ReplaceAll(line, "\t", "  "), max(cols-5, 10))...)
	}
	if len(rows) == 1 && rows[0] == "" {
		return nil
	}
	left := len(rows) - most
	out := make([]string, 0, min(len(rows), most)+1)
	for _, row := range rows[:min(len(rows), most)] {
		out = append(out, k.Paint(terminal.Dim, "  │ ")+row)
	}
	if left > 0 {
		out = append(out, k.Paint(terminal.Dim, fmt.Sprintf("  │ … %s more", terminal.Plural(int64(left), "line"))))
	}
	return out
}

// lastRows returns the last rows of a text at a width.
func lastRows(text string, most, cols int) []string {
	// Only the end is seen, so only the end is broken into rows.
	if keep := most * cols * 4; len(text) > keep {
		text = strings.ToValidUTF8(text[len(text)-keep:], "")
	}
	lines := terminal.Wrap(strings.Trim(text, "\n"), cols)
	return lines[max(0, len(lines)-most):]
}
