package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/event"
	"agentd/tool/toolkind"
)

// tool shows what tools do. It reports whether the fact was one of these.
func (v *view) tool(e *event.Event) bool {
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		v.toolStarted(e, p)
	case *event.ToolProgress:
		v.toolWrote(e.ToolCallID, p.Text)
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

func (v *view) toolStarted(e *event.Event, p *event.ToolStarted) {
	v.flush()
	v.dropTool(e.ToolCallID)
	v.tools = append(v.tools, &runningTool{id: e.ToolCallID, name: p.ToolName, args: shortArgs(p.ToolName, p.SafeArgs), since: e.Time})
	if toolkind.Of(p.ToolName) == toolkind.UpdatePlan {
		v.gap(kindTool)
		v.stage.print(planLines(v.ink, p.SafeArgs)...)
	}
}

// maxTail bounds what is kept of a running tool's output.
const maxTail = 4 << 10

func (v *view) toolWrote(id, text string) {
	for _, t := range v.tools {
		if t.id == id {
			t.tail += plainBlock(strings.ReplaceAll(text, "\r", "\n"))
			t.tail = strings.ToValidUTF8(t.tail[max(0, len(t.tail)-maxTail):], "")
		}
	}
}

// dropTool takes a running tool away and returns it, or an empty one.
func (v *view) dropTool(id string) *runningTool {
	i := slices.IndexFunc(v.tools, func(t *runningTool) bool { return t.id == id })
	if i < 0 {
		return &runningTool{}
	}
	t := v.tools[i]
	v.tools = slices.Delete(v.tools, i, i+1)
	v.work("thinking", time.Now())
	return t
}

func (v *view) toolResult(e *event.Event, p *event.ToolResult) {
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
	v.toolLine(good, p.ToolName, t.args, facets(extra, took(p.DurationMs)))
	v.toolOutput(p, good)
	for _, f := range p.ChangedFiles {
		v.stage.print(v.changed(f))
	}
}

// toolLine is the one line that stays of a call.
func (v *view) toolLine(good bool, name, args, extra string) {
	v.flush()
	v.gap(kindTool)
	mark, colour := markDone, green
	if !good {
		mark, colour = markFailed, red
	}
	cols, _ := v.stage.size()
	args = clip(args, max(cols-len(name)-len([]rune(extra))-6, 12))
	v.stage.print(strings.TrimRight(v.ink.paint(colour, mark)+" "+v.ink.paint(bold, name)+" "+args+"  "+v.ink.paint(dim, extra), " "))
}

// maxPreview is how many lines of a tool's output stay.
const maxPreview = 6

func (v *view) toolOutput(p *event.ToolResult, good bool) {
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
	cols, _ := v.stage.size()
	v.stage.print(excerpt(v.ink, text, most, cols)...)
	if p.Truncated && p.OutputRef != "" {
		v.stage.print(v.ink.paint(dim, fmt.Sprintf("  │ all %d bytes: %s", p.SizeBytes, p.OutputRef)))
	}
}

func (v *view) changed(f event.FileChange) string {
	mark := map[string]string{"created": "+", "deleted": "-", "modified": "~"}[f.Change]
	line := "  " + mark + " " + plainText(f.Path)
	if f.Note != "" {
		line += " (undo can't bring it back: " + plainText(f.Note) + ")"
	}
	return v.ink.paint(dim, line)
}

func (v *view) toolFailed(e *event.Event, p *event.ToolFailed) {
	t := v.dropTool(e.ToolCallID)
	v.toolLine(false, p.ToolName, t.args, facets(strings.ReplaceAll(p.ErrorCategory, "_", " "), took(p.DurationMs)))
	cols, _ := v.stage.size()
	v.stage.print(excerpt(v.ink, p.Message, maxPreview, cols)...)
	for _, f := range p.ChangedFiles {
		v.stage.print(v.changed(f))
	}
}
