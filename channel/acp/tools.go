package acp

import (
	"fmt"
	"path"
	"strings"

	"agentd/channel/turnview"
	"agentd/event"
	"agentd/tool/toolkind"
)

// kindOf is the protocol's word for what a tool does.
func kindOf(tool string) string {
	switch toolkind.Of(tool) {
	case toolkind.ReadFile:
		return "read"
	case toolkind.WriteFile, toolkind.EditFile:
		return "edit"
	case toolkind.ListFiles, toolkind.SearchFiles:
		return "search"
	case toolkind.Shell:
		return "execute"
	case toolkind.PresentPlan:
		return "switch_mode"
	case toolkind.Other, toolkind.UpdatePlan, toolkind.RequestInput, toolkind.SpawnAgent:
	}
	return "other"
}

// titleOf says in a line what a call does.
func titleOf(tool string, raw event.Raw) string {
	verb, what := tool, ""
	a, _ := toolkind.ReadArguments(raw) // what isn't there is not shown
	switch toolkind.Of(tool) {
	case toolkind.ReadFile:
		verb, what = "Read", a.Path
	case toolkind.ListFiles:
		verb, what = "List", a.Path
	case toolkind.WriteFile:
		verb, what = "Write", a.Path
	case toolkind.EditFile:
		verb, what = "Edit", a.Path
	case toolkind.SearchFiles:
		verb, what = "Search for", a.Pattern
	case toolkind.Shell:
		verb, what = "Run", a.Command
	case toolkind.RequestInput:
		verb, what = "Ask:", a.Prompt
	case toolkind.PresentPlan:
		verb = "Present a plan"
	case toolkind.Other, toolkind.SpawnAgent:
		what = a.Role
	case toolkind.UpdatePlan:
	}
	return clipLine(strings.TrimSpace(verb + " " + what))
}

// clipLine shortens a line for people.
func clipLine(s string) string {
	s, _, more := strings.Cut(s, "\n")
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	if more {
		s += " …"
	}
	return s
}

// tool translates changes of tool calls. A plan is shown when it was recorded, and its
// call isn't.
func (t *translator) tool(c turnview.Change) []update {
	switch c := c.(type) {
	case turnview.ToolCalled:
		if toolkind.Of(c.Name) != toolkind.UpdatePlan {
			return []update{&toolUpdate{SessionUpdate: "tool_call", toolCall: toolCall{
				ToolCallID: c.ToolCallID, Title: titleOf(c.Name, c.Args), Name: c.Name, Kind: kindOf(c.Name), Status: "pending",
				Locations: t.locations(c.Name, c.Args), RawInput: c.Args,
			}, Content: t.proposal(c.ToolCallID, c.Name, c.Args)}}
		}
	case turnview.ToolStarted:
		return t.toolChanged(c.ToolCallID, toolUpdate{toolCall: toolCall{Status: "in_progress"}})
	case turnview.ToolProgressed:
		return t.toolChanged(c.ToolCallID, toolUpdate{Content: []toolContent{textBlock(c.Message)}})
	case turnview.ToolWrote:
		output := strings.ToValidUTF8(string(t.view.Tool(c.ToolCallID).Output), "�")
		return t.toolChanged(c.ToolCallID, toolUpdate{Content: []toolContent{textBlock(output)}})
	case turnview.ToolEnded:
		if f := c.Failure; f != nil {
			return t.toolChanged(c.ToolCallID, toolUpdate{
				toolCall: toolCall{Status: "failed", Locations: t.changedFiles(f.ChangedFiles), RawOutput: jsonObject("errorCategory", f.ErrorCategory)},
				Content:  []toolContent{textBlock(f.Message)},
			})
		}
		return t.toolChanged(c.ToolCallID, t.result(c.ToolCallID, c.Result))
	}
	return nil
}

func (t *translator) toolChanged(id string, u toolUpdate) []update {
	if toolkind.Of(t.view.Tool(id).Name) == toolkind.UpdatePlan {
		return nil
	}
	u.SessionUpdate, u.ToolCallID = "tool_call_update", id
	return []update{&u}
}

// result shows how a call ended: the change of a file where it is known exactly,
// the output otherwise.
func (t *translator) result(id string, p *event.ToolResult) toolUpdate {
	status := "completed"
	if p.Status == "error" {
		status = "failed"
	}
	shown := t.change(id, p, t.view.Tool(id).Args)
	if shown == nil && p.Preview != "" {
		shown = []toolContent{textBlock(p.Preview)}
	}
	return toolUpdate{toolCall: toolCall{Status: status, Locations: t.changedFiles(p.ChangedFiles), RawOutput: rawOutput(p)}, Content: shown}
}

func rawOutput(p *event.ToolResult) event.Raw {
	out := map[string]any{"status": p.Status, "durationMs": p.DurationMs}
	if !p.ExitCode.IsZero() {
		out["exitCode"] = p.ExitCode
	}
	if p.OutputRef != "" {
		out["outputRef"] = p.OutputRef
	}
	if len(p.StructuredContent) > 0 {
		out["structuredContent"] = p.StructuredContent
	}
	b, err := marshalPlain(out)
	if err != nil {
		return nil
	}
	return b
}

// proposal is what a call would change, as far as its arguments say it.
func (t *translator) proposal(id, name string, raw event.Raw) []toolContent {
	a, _ := toolkind.ReadArguments(raw)
	switch toolkind.Of(name) {
	case toolkind.EditFile:
		if a.Path != "" {
			return []toolContent{t.diff(a.Path, &a.Old, a.New)}
		}
	case toolkind.PresentPlan:
		if a.Plan != "" {
			return []toolContent{textBlock(a.Plan)}
		}
	case toolkind.WriteFile:
		if before, known := t.earlier(id); known {
			return []toolContent{t.diff(a.Path, &before, a.Content)}
		}
		if a.Content != "" {
			return []toolContent{textBlock(a.Content)}
		}
	default:
	}
	return nil
}

// change is what a call did change, where before and after are known: the words
// that an edit replaced, a file that is new, a file whose earlier content the
// client gave.
func (t *translator) change(id string, p *event.ToolResult, raw event.Raw) []toolContent {
	if p.Status != "ok" || len(p.ChangedFiles) != 1 {
		return nil
	}
	a, _ := toolkind.ReadArguments(raw)
	switch toolkind.Of(p.ToolName) {
	case toolkind.EditFile:
		return []toolContent{t.diff(a.Path, &a.Old, a.New)}
	case toolkind.WriteFile:
		if p.ChangedFiles[0].Change == "created" {
			return []toolContent{t.diff(a.Path, nil, a.Content)}
		}
		if before, known := t.earlier(id); known {
			return []toolContent{t.diff(a.Path, &before, a.Content)}
		}
	default:
	}
	return nil
}

func (t *translator) diff(name string, before *string, after string) toolContent {
	return toolContent{Type: "diff", diff: &diff{Path: t.absolute(name), OldText: before, NewText: after}}
}

func textBlock(s string) toolContent { return toolContent{Type: "content", Content: textContent(s)} }

// absolute is a path as the client knows it.
func (t *translator) absolute(name string) string {
	if path.IsAbs(name) || t.root == "" {
		return name
	}
	return path.Join(t.root, name)
}

func (t *translator) locations(name string, raw event.Raw) []location {
	a, _ := toolkind.ReadArguments(raw)
	if a.Path == "" || toolkind.Of(name).Access() == toolkind.NoFile {
		return nil
	}
	return []location{{t.absolute(a.Path)}}
}

func (t *translator) changedFiles(files []event.FileChange) []location {
	var out []location
	for _, f := range files {
		out = append(out, location{t.absolute(f.Path)})
	}
	return out
}

// planToUpdate shows what the model is about to do.
func planToUpdate(items []turnview.PlanItem) update {
	out := &planUpdate{"plan", []planEntry{}}
	for _, item := range items {
		switch item.Status {
		case "pending", "in_progress", "completed":
		default: // the protocol has no word for a step that was given up
			item.Step, item.Status = fmt.Sprintf("%s (cancelled)", item.Step), "completed"
		}
		out.Entries = append(out.Entries, planEntry{item.Step, "medium", item.Status})
	}
	return out
}
