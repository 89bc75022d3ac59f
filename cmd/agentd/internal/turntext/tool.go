package turntext

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/tool/toolkind"
)

// showTool shows what tools do. It reports whether the fact was one of these.
func (v *View) showTool(e *event.Event) bool {
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		v.toolAsked(e, p.ToolName, p.SafeArgs)
		if p.Runs() {
			v.toolRuns(e)
		}
	case *event.ToolArgs:
		if len(p.SafeArgs) > 0 { // else they are too long to be shown
			v.toolAsked(e, p.ToolName, p.SafeArgs)
		}
	case *event.PermissionEvaluated:
		if t := v.tool(e.ToolCallID); t != nil && p.Decision == "allow" && p.DecisionSource == "classifier" {
			t.allowed = "allowed by the reviewer"
		}
	case *event.ToolProgress:
		v.toolProgress(e, p)
	case *event.ProcessOutput:
		v.toolWrote(e.ToolCallID, p.Text)
	case *event.ToolResult:
		v.toolResult(e, p)
	case *event.ToolFailed:
		v.toolFailed(e, p)
	default:
		return false
	}
	return true
}

// toolAsked takes note of a call. It is shown once it runs, or when it ends.
func (v *View) toolAsked(e *event.Event, name string, args event.Raw) {
	t := v.tool(e.ToolCallID)
	if t == nil {
		t = &shownTool{id: e.ToolCallID}
		v.tools = append(v.tools, t)
	}
	t.name, t.args, t.input = terminal.Plain(name), ShortArgs(name, args), args
}

// toolRuns shows a call that begins to run.
func (v *View) toolRuns(e *event.Event) {
	v.Flush()
	t := v.tool(e.ToolCallID)
	t.running, t.since, t.tail = true, e.Time, ""
	if toolkind.Of(t.name) == toolkind.UpdatePlan {
		v.gap(kindTool)
		cols, _ := v.Stage.Size()
		v.Stage.Print(planLines(v.Ink, t.input, cols)...)
	}
}

func (v *View) toolProgress(e *event.Event, p *event.ToolProgress) {
	if v.tool(e.ToolCallID) == nil {
		v.toolAsked(e, p.ToolName, nil)
	}
	switch p.Phase {
	case event.PhaseRunning:
		v.toolRuns(e)
	case event.PhaseLost:
		v.tool(e.ToolCallID).running = false
	}
	v.toolWrote(e.ToolCallID, p.Text)
}

// tool returns a call that has no end yet; nil if it isn't known.
func (v *View) tool(id string) *shownTool {
	for _, t := range v.tools {
		if t.id == id {
			return t
		}
	}
	return nil
}

// maxTail bounds what is kept of a running tool's output.
const maxTail = 4 << 10

func (v *View) toolWrote(id, text string) {
	if t := v.tool(id); t != nil {
		t.tail += terminal.PlainBlock(strings.ReplaceAll(text, "\r", "\n"))
		t.tail = strings.ToValidUTF8(t.tail[max(0, len(t.tail)-maxTail):], "")
	}
}

// dropTool takes a call away that ended and returns it, or an empty one.
func (v *View) dropTool(id string) *shownTool {
	i := slices.IndexFunc(v.tools, func(t *shownTool) bool { return t.id == id })
	if i < 0 {
		return &shownTool{}
	}
	t := v.tools[i]
	v.tools = slices.Delete(v.tools, i, i+1)
	v.SetStatus("thinking", time.Now())
	return t
}

func (v *View) toolResult(e *event.Event, p *event.ToolResult) {
	t := v.dropTool(e.ToolCallID)
	if toolkind.Of(p.ToolName) == toolkind.UpdatePlan && p.Status == "ok" {
		return // the plan itself was shown
	}
	good, extra := p.Status != "error", ""
	if code := p.ExitCode; code.Value != 0 {
		good, extra = false, fmt.Sprintf("exit %d", code.Value)
	}
	if p.Status == "background" {
		extra = "goes on in the background as " + p.ProcessID
	}
	v.toolLine(good, p.ToolName, t.args, terminal.JoinDots(t.allowed, extra, terminal.Took(p.DurationMs)))
	v.toolOutput(p, good)
	for _, f := range p.ChangedFiles {
		v.Stage.Print(v.changed(f))
	}
}

// toolLine is the one line that stays of a call.
func (v *View) toolLine(good bool, name, args, extra string) {
	v.Flush()
	v.gap(kindTool)
	mark, colour := MarkDone, terminal.Green
	if !good {
		mark, colour = MarkFailed, terminal.Red
	}
	cols, _ := v.Stage.Size()
	name = terminal.Clip(terminal.Plain(name), max(cols/2, 12)) // whatever the model called
	args = terminal.Clip(args, max(cols-ansi.StringWidth(name)-ansi.StringWidth(extra)-6, 12))
	line := v.Ink.Paint(colour, mark) + " " + v.Ink.Paint(terminal.Bold, name)
	if args != "" {
		line += " " + args
	}
	v.Stage.Print(strings.TrimRight(line+"  "+v.Ink.Paint(terminal.Dim, extra), " "))
}

// maxPreview is how many lines of a tool's output stay.
const maxPreview = 6

func (v *View) toolOutput(p *event.ToolResult, good bool) {
	most := maxPreview
	if good {
		most = previewLines(toolkind.Of(p.ToolName))
	}
	if most == 0 {
		return
	}
	text := p.Preview
	if toolkind.Of(p.ToolName) == toolkind.Shell {
		// The exit code stands in the line above.
		text = strings.TrimSuffix(text, fmt.Sprintf("[exit code %d]\n", p.ExitCode.Value))
	}
	cols, _ := v.Stage.Size()
	v.Stage.Print(excerpt(v.Ink, text, most, cols)...)
	if p.Truncated && p.OutputRef != "" {
		v.Stage.Print(v.Ink.Paint(terminal.Dim, fmt.Sprintf("  │ all %d bytes: %s", p.SizeBytes, p.OutputRef)))
	}
}

func (v *View) changed(f event.FileChange) string {
	mark := map[string]string{"created": "+", "deleted": "-", "modified": "~"}[f.Change]
	line := "  " + mark + " " + terminal.Plain(f.Path)
	if f.Note != "" {
		line += " (undo can't restore it: " + terminal.Plain(f.Note) + ")"
	}
	return v.Ink.Paint(terminal.Dim, line)
}

func (v *View) toolFailed(e *event.Event, p *event.ToolFailed) {
	t := v.dropTool(e.ToolCallID)
	v.toolLine(false, p.ToolName, t.args, terminal.JoinDots(strings.ReplaceAll(p.ErrorCategory, "_", " "), terminal.Took(p.DurationMs)))
	cols, _ := v.Stage.Size()
	v.Stage.Print(excerpt(v.Ink, p.Message, maxPreview, cols)...)
	for _, f := range p.ChangedFiles {
		v.Stage.Print(v.changed(f))
	}
}
