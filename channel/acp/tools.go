package acp

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"agentd/channel/turnview"
	"agentd/event"
)

// Names of built-in tools that the protocol has words for.
const (
	toolRead   = "read_file"
	toolWrite  = "write_file"
	toolEdit   = "edit_file"
	toolList   = "list_files"
	toolSearch = "search_files"
	toolShell  = "shell"
	toolPlan   = "update_plan"
	toolInput  = "request_input"
	// toolPresent hands a plan over for approval.
	toolPresent = "present_plan"
)

// arguments are those of built-in tools that are shown.
type arguments struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Old     string `json:"old"`
	New     string `json:"new"`
	Command string `json:"command"`
	Pattern string `json:"pattern"`
	Prompt  string `json:"prompt"`
	Role    string `json:"role"`
	Plan    string `json:"plan"`
}

func argumentsOf(raw event.Raw) arguments {
	var a arguments
	_ = json.Unmarshal(raw, &a) // what isn't there is not shown
	return a
}

// kindOf is the protocol's word for what a tool does.
func kindOf(tool string) string {
	switch tool {
	case toolRead:
		return "read"
	case toolWrite, toolEdit:
		return "edit"
	case toolList, toolSearch:
		return "search"
	case toolShell:
		return "execute"
	case toolPresent:
		return "switch_mode"
	}
	return "other"
}

// titleOf says in a line what a call does.
func titleOf(tool string, raw event.Raw) string {
	a := argumentsOf(raw)
	var what string
	switch tool {
	case toolRead, toolList, toolWrite, toolEdit:
		what = a.Path
	case toolSearch:
		what = a.Pattern
	case toolShell:
		what = a.Command
	case toolInput:
		what = a.Prompt
	default:
		what = a.Role
	}
	words := map[string]string{
		toolRead: "Read", toolList: "List", toolWrite: "Write", toolEdit: "Edit", toolSearch: "Search for", toolShell: "Run", toolInput: "Ask:", toolPresent: "Present a plan",
	}
	verb := words[tool]
	if verb == "" {
		verb = tool
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
		if c.Name != toolPlan {
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
	if t.view.Tool(id).Name == toolPlan {
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
	a := argumentsOf(raw)
	switch name {
	case toolEdit:
		if a.Path != "" {
			return []toolContent{t.diff(a.Path, &a.Old, a.New)}
		}
	case toolPresent:
		if a.Plan != "" {
			return []toolContent{textBlock(a.Plan)}
		}
	case toolWrite:
		if before, known := t.earlier(id); known {
			return []toolContent{t.diff(a.Path, &before, a.Content)}
		}
		if a.Content != "" {
			return []toolContent{textBlock(a.Content)}
		}
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
	a := argumentsOf(raw)
	switch p.ToolName {
	case toolEdit:
		return []toolContent{t.diff(a.Path, &a.Old, a.New)}
	case toolWrite:
		if p.ChangedFiles[0].Change == "created" {
			return []toolContent{t.diff(a.Path, nil, a.Content)}
		}
		if before, known := t.earlier(id); known {
			return []toolContent{t.diff(a.Path, &before, a.Content)}
		}
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
	a := argumentsOf(raw)
	if a.Path == "" || kindOf(name) == "other" || name == toolShell {
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
