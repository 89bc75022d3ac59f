package evidence

import (
	"testing"

	"agentd/event"
	"agentd/tool/toolkind"
)

func TestEveryToolThatWritesHasADiff(t *testing.T) {
	args := event.Raw(`{"path":"a.txt","content":"c","old":"o","new":"n"}`)
	for _, kind := range append(toolkind.Builtin(), toolkind.Other) {
		got := fileDiff(string(kind), args, &event.FileChange{Path: "a.txt", Change: "modified"})
		if (got != "") != (kind.Access() == toolkind.WritesFile) {
			t.Errorf("the diff of %q is %q", kind, got)
		}
	}
}
