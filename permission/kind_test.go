package permission

import (
	"testing"

	"agentd/event"
	"agentd/tool/toolkind"
)

// A new kind of tool needs a line here: somebody has to decide how its calls are judged.
func TestEveryKindOfToolIsJudged(t *testing.T) {
	want := map[toolkind.Kind]kind{
		toolkind.Other:        kindOther,
		toolkind.ReadFile:     kindFileRead,
		toolkind.WriteFile:    kindFileWrite,
		toolkind.EditFile:     kindFileWrite,
		toolkind.ListFiles:    kindFileRead,
		toolkind.SearchFiles:  kindFileRead,
		toolkind.Shell:        kindShell,
		toolkind.UpdatePlan:   kindTalk,
		toolkind.RequestInput: kindTalk,
		toolkind.SpawnAgent:   kindAgent,
		toolkind.PresentPlan:  kindHandOver,
	}
	for _, k := range append(toolkind.Builtin(), toolkind.Other) {
		judged, ok := want[k]
		if got := kindOf(&event.ToolInfo{ToolName: string(k), RuntimeOwner: "local"}); !ok || got != judged {
			t.Errorf("%q is judged as %v, want %v", k, got, judged)
		}
		if got := kindOf(&event.ToolInfo{ToolName: string(k), RuntimeOwner: "mcp_server"}); got != kindOther {
			t.Errorf("a tool of a server called %q is judged as %v", k, got)
		}
		isFile := judged == kindFileRead || judged == kindFileWrite
		if isFile != (k.Access() != toolkind.NoFile) || (judged == kindFileWrite) != (k.Access() == toolkind.WritesFile) {
			t.Errorf("%q is judged as %v, but its access is %v", k, judged, k.Access())
		}
	}
}
