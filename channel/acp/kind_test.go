package acp

import (
	"testing"

	"agentd/event"
	"agentd/tool/toolkind"
)

// The kinds of tool calls that the protocol has are its own; each of ours becomes one of
// them. A new kind needs a line here.
func TestEveryKindOfToolIsTranslated(t *testing.T) {
	want := map[toolkind.Kind]struct{ kind, title string }{
		toolkind.Other:        {"other", "their_tool a role"},
		toolkind.ReadFile:     {"read", "Read a/path"},
		toolkind.WriteFile:    {"edit", "Write a/path"},
		toolkind.EditFile:     {"edit", "Edit a/path"},
		toolkind.ListFiles:    {"search", "List a/path"},
		toolkind.SearchFiles:  {"search", "Search for a pattern"},
		toolkind.Shell:        {"execute", "Run a command"},
		toolkind.UpdatePlan:   {"other", "update_plan"},
		toolkind.RequestInput: {"other", "Ask: a prompt"},
		toolkind.SpawnAgent:   {"other", "spawn_agent a role"},
		toolkind.PresentPlan:  {"switch_mode", "Present a plan"},
	}
	args := event.Raw(`{"path":"a/path","pattern":"a pattern","command":"a command","prompt":"a prompt","role":"a role"}`)
	for _, kind := range append(toolkind.Builtin(), toolkind.Other) {
		name := string(kind)
		if kind == toolkind.Other {
			name = "their_tool"
		}
		w, ok := want[kind]
		if got := kindOf(name); !ok || got != w.kind {
			t.Errorf("%s is of the protocol's kind %q, want %q", name, got, w.kind)
		}
		if got := titleOf(name, args); got != w.title {
			t.Errorf("a call of %s has the title %q, want %q", name, got, w.title)
		}
		located := (&translator{root: "/w"}).locations(name, args)
		if (len(located) == 1) != (kind.Access() != toolkind.NoFile) {
			t.Errorf("a call of %s has the locations %v", name, located)
		}
	}
}
