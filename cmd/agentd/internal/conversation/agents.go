package conversation

import (
	"slices"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/event"
)

// agentTree keeps what the subagents of a session do now. Its zero value is empty.
type agentTree struct {
	agents []*agent
}

// agent is a subagent that has not ended.
type agent struct {
	id, parent, name, does string
	calls                  int64
	ended                  bool
}

// track takes what a fact says of a subagent.
func (t *agentTree) track(e *event.Event) {
	if p, ok := e.Payload.(*event.SubagentSpawned); ok {
		name := p.Nickname
		if name == "" {
			name = p.Role
		}
		if name == "" {
			name = "agent"
		}
		t.agents = append(t.agents, &agent{id: e.SubagentID, parent: p.ParentSubagentID, name: terminal.Plain(name), does: "starting"})
		return
	}
	i := slices.IndexFunc(t.agents, func(a *agent) bool { return a.id == e.SubagentID })
	if e.SubagentID == "" || i < 0 {
		return
	}
	a := t.agents[i]
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		a.does = "thinking"
	case *event.ToolStarted:
		a.calls++
		a.does = terminal.Clip(terminal.Plain(p.ToolName)+" "+turntext.ShortArgs(p.ToolName, p.SafeArgs), 60)
	case *event.ActionRequired:
		a.does = "waits for you"
	case *event.SubagentStatus:
		a.ended = false
		if p.Status != "running" {
			a.does = p.Status
		}
	case *event.SubagentEnded:
		a.ended, a.does = true, p.Status
	}
	t.prune()
}

// prune forgets the agents once all of them have ended.
func (t *agentTree) prune() {
	if !slices.ContainsFunc(t.agents, func(a *agent) bool { return !a.ended }) {
		t.agents = nil
	}
}

// lines draws the tree, children below their parents.
func (t *agentTree) lines(k terminal.Ink) []string {
	return t.branch(k, "", "", 0)
}

// maxDepth bounds a tree that is broken.
const maxDepth = 16

func (t *agentTree) branch(k terminal.Ink, parent, indent string, depth int) []string {
	var children []*agent
	for _, a := range t.agents {
		if a.parent == parent {
			children = append(children, a)
		}
	}
	var out []string
	for i, a := range children {
		turn, next := "├ ", "│ "
		if i == len(children)-1 {
			turn, next = "└ ", "  "
		}
		mark := k.Paint(terminal.Cyan, "●")
		if a.ended {
			mark = k.Paint(terminal.Green, turntext.MarkDone)
		}
		count := ""
		if a.calls > 0 {
			count = terminal.Plural(a.calls, "call")
		}
		out = append(out, "  "+k.Paint(terminal.Dim, indent+turn)+mark+" "+a.name+" "+k.Paint(terminal.Dim, terminal.JoinDots(terminal.Plain(a.does), count)))
		if depth < maxDepth {
			out = append(out, t.branch(k, a.id, indent+next, depth+1)...)
		}
	}
	return out
}
