package turntext

import (
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/tool/toolkind"
)

// A new kind of tool needs a line here: somebody has to decide what people see of it.
func TestEveryKindOfToolIsShown(t *testing.T) {
	args := event.Raw(`{"path":"p","content":"c","old":"o","new":"n","glob":"g","pattern":"s","command":"x","prompt":"q","role":"r","input":"i","plan":"l"}`)
	want := map[toolkind.Kind]struct {
		args  string
		lines int
	}{
		toolkind.Other:        {string(args), maxPreview},
		toolkind.ReadFile:     {"p", 0},
		toolkind.WriteFile:    {"p", maxPreview},
		toolkind.EditFile:     {"p", maxPreview},
		toolkind.ListFiles:    {"p g", 0},
		toolkind.SearchFiles:  {`"s" p g`, 3},
		toolkind.Shell:        {"x", maxPreview},
		toolkind.UpdatePlan:   {"", 0},
		toolkind.RequestInput: {"q", 0},
		toolkind.SpawnAgent:   {"r: i", maxPreview},
		toolkind.PresentPlan:  {"", 0},
	}
	for _, kind := range append(toolkind.Builtin(), toolkind.Other) {
		w, ok := want[kind]
		if got := ShortArgs(string(kind), args); !ok || got != w.args {
			t.Errorf("%q is shown with %q, want %q", kind, got, w.args)
		}
		if got := previewLines(kind); got != w.lines {
			t.Errorf("%d lines of the output of %q are shown, want %d", got, kind, w.lines)
		}
		q := Question{Required: &event.ActionRequired{ToolName: string(kind), SafeArgs: args}}
		if asked := strings.Join(q.Panel(terminal.NoColour, 80), "\n"); kind.Access() == toolkind.WritesFile && !strings.Contains(asked, "+ ") {
			t.Errorf("somebody who is asked about %q sees %q, not what would be written", kind, asked)
		}
	}
}
