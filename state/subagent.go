package state

import (
	"time"

	"agentd/event"
)

// KeepSubagents bounds the ended children that a state keeps.
const KeepSubagents = keepRecent

// Subagents are the children that work in threads of their own.
type Subagents struct {
	// Open holds the children that have not ended, in the order of their start.
	Open []*Subagent `json:"open,omitempty"`
	// Recent holds the last ended ones, oldest first.
	Recent []*Subagent `json:"recent,omitempty"`
	// Spawned, Completed, Failed and Closed count over all time. A child that
	// completed and was closed afterwards counts in both.
	Spawned   int64 `json:"spawned,omitempty"`
	Completed int64 `json:"completed,omitempty"`
	Failed    int64 `json:"failed,omitempty"`
	Closed    int64 `json:"closed,omitempty"`
}

// Subagent is one child.
type Subagent struct {
	// SubagentID is the child's id.
	SubagentID string `json:"subagentId"`
	// SessionID is the session of parent and child.
	SessionID string `json:"sessionId"`
	// ParentThreadID is the thread that it works for.
	ParentThreadID string `json:"parentThreadId"`
	// ParentTurnID is the turn that it works for.
	ParentTurnID string `json:"parentTurnId,omitempty"`
	// ParentSubagentID is the child that spawned it, if one did.
	ParentSubagentID string `json:"parentSubagentId,omitempty"`
	// ThreadID is the child's own thread.
	ThreadID string `json:"threadId"`
	// TaskID is the child's task.
	TaskID string `json:"taskId,omitempty"`
	// Depth is 1 for a child of a thread that isn't a child itself.
	Depth int64 `json:"depth"`
	// Role of the child.
	Role string `json:"role,omitempty"`
	// Nickname for people.
	Nickname string `json:"nickname,omitempty"`
	// Isolation bounds it.
	Isolation *event.Isolation `json:"isolation,omitempty"`
	// Model that it uses.
	Model string `json:"model,omitempty"`
	// SpawnedBy spawned it.
	SpawnedBy *event.Actor `json:"spawnedBy,omitempty"`
	// ToolCallID is the call that spawned it.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Peer is the agent that the child is, if it is another one.
	Peer string `json:"peer,omitempty"`
	// PeerTaskID is the local task that the other agent works on.
	PeerTaskID string `json:"peerTaskId,omitempty"`

	// Status of the child.
	Status string `json:"status"`
	// Reason of the status.
	Reason string `json:"reason,omitempty"`
	// Outcome is how the work ended, which stays when the child is closed.
	Outcome string `json:"outcome,omitempty"`
	// Error is why it failed.
	Error *event.Failure `json:"error,omitempty"`
	// LastTurnID is the child's turn whose end was recorded last.
	LastTurnID string `json:"lastTurnId,omitempty"`
	// Inputs counts what it was told.
	Inputs int64 `json:"inputs,omitempty"`
	// Outputs counts what it said.
	Outputs int64 `json:"outputs,omitempty"`
	// InputRef is where its last input is.
	InputRef string `json:"inputRef,omitempty"`
	// LastMessageRef is where the last message is whole.
	LastMessageRef string `json:"lastMessageRef,omitempty"`
	// LastMessage is the beginning of what it last said.
	LastMessage string `json:"lastMessage,omitempty"`
	// Usage sums the tokens of its model calls.
	Usage event.Usage `json:"usage,omitzero"`
	// CostUSD is what its model calls cost, as far as prices are known.
	CostUSD float64 `json:"costUSD,omitempty"`

	// SpawnedSequence is where it was spawned.
	SpawnedSequence uint64 `json:"spawnedSequence"`
	// SpawnedAt is when it was spawned.
	SpawnedAt time.Time `json:"spawnedAt"`
	// UpdatedAt is when its newest fact happened.
	UpdatedAt time.Time `json:"updatedAt"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

// Find returns a child of the working set, or nil.
func (s *Subagents) Find(id string) *Subagent {
	for _, list := range [...][]*Subagent{s.Open, s.Recent} {
		if i := indexWhere(list, func(x *Subagent) bool { return x.SubagentID == id }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

func (s *Subagents) open() bool { return len(s.Open) > 0 }

// subagent folds the facts of children.
func (f *fold) subagent() {
	if p, ok := f.e.Payload.(*event.SubagentSpawned); ok {
		f.subagentSpawned(p)
		return
	}
	a := f.s.Subagents.Find(f.e.SubagentID)
	if a == nil {
		return
	}
	a.UpdatedAt = f.e.Time
	switch p := f.e.Payload.(type) {
	case *event.SubagentStatus:
		a.Status, a.Reason = p.Status, p.Reason
		if p.Status == "interrupted" {
			a.LastTurnID = f.e.TurnID
		}
		f.reopenSubagent(a)
	case *event.SubagentMessage:
		if f.e.Type == event.TypeSubagentInput {
			a.Inputs++
		} else {
			a.Outputs++
		}
		a.recordLastWord(f.e.Type, p)
	case *event.SubagentEnded:
		f.subagentEnded(a, p)
	}
}

// recordLastWord keeps the child's last word.
func (a *Subagent) recordLastWord(t event.Type, p *event.SubagentMessage) {
	if t == event.TypeSubagentOutput {
		a.LastMessageRef, a.LastMessage = p.MessageRef, preview(p.Text)
	}
}

// subagentSpent adds what a child's model calls took to it, and their cost also to
// those above it, whose budget it shares.
func (f *fold) subagentSpent() {
	switch p := f.e.Payload.(type) {
	case *event.ModelCompleted:
		if a := f.s.Subagents.Find(f.e.SubagentID); a != nil {
			a.Usage = addUsage(a.Usage, p.Usage)
		}
	case *event.CostRecorded:
		for a := range f.s.Subagents.From(f.e.SubagentID) {
			if p.CostUSD != nil {
				a.CostUSD += *p.CostUSD
			}
		}
	}
}

func (f *fold) subagentSpawned(p *event.SubagentSpawned) {
	all := &f.s.Subagents
	if all.Find(f.e.SubagentID) != nil {
		return
	}
	all.Spawned++
	all.Open = append(all.Open, &Subagent{
		SubagentID: f.e.SubagentID, SessionID: f.e.SessionID, TaskID: f.e.TaskID, ToolCallID: f.e.ToolCallID,
		ParentThreadID: p.ParentThreadID, ParentTurnID: p.ParentTurnID, ParentSubagentID: p.ParentSubagentID,
		ThreadID: p.ChildThreadID, Depth: p.Depth, Role: p.Role, Nickname: p.Nickname, Isolation: p.Isolation, Model: p.Model,
		SpawnedBy: p.SpawnedBy, InputRef: p.InputRef, Status: "spawned", Peer: p.Peer, PeerTaskID: p.PeerTaskID,
		SpawnedSequence: f.e.Sequence, SpawnedAt: f.e.Time, UpdatedAt: f.e.Time,
	})
}

// reopenSubagent takes an ended child that goes on among the open ones.
func (f *fold) reopenSubagent(a *Subagent) {
	all := &f.s.Subagents
	i := indexWhere(all.Recent, func(x *Subagent) bool { return x == a })
	if i < 0 {
		return
	}
	all.Recent = removed(all.Recent, i)
	a.Outcome, a.Error, a.EndedAt = "", nil, time.Time{}
	all.Open = append(all.Open, a)
}

func (f *fold) subagentEnded(a *Subagent, p *event.SubagentEnded) {
	all := &f.s.Subagents
	a.Status, a.Reason = p.Status, p.Reason
	setIf(&a.LastTurnID, f.e.TurnID)
	f.countEnd(a, p)
	setIf(&a.Error, p.Error)
	setIf(&a.LastMessageRef, p.MessageRef)
	setIf(&a.LastMessage, preview(p.Preview))
	setIf(&a.CostUSD, p.CostUSD)
	if p.Usage != nil {
		a.Usage = *p.Usage
	}
	i := indexWhere(all.Open, func(x *Subagent) bool { return x == a })
	if i < 0 {
		return
	}
	a.EndedAt = f.e.Time
	all.Open = removed(all.Open, i)
	if len(all.Recent) == KeepSubagents {
		f.evict("subagent/"+all.Recent[0].SubagentID, all.Recent[0])
	}
	all.Recent = recent(all.Recent, a, KeepSubagents)
}

// countEnd counts how a child ended. Being closed is no outcome of its work.
func (f *fold) countEnd(a *Subagent, p *event.SubagentEnded) {
	all := &f.s.Subagents
	if f.e.Type == event.TypeSubagentClosed {
		all.Closed++
		return
	}
	a.Outcome = p.Status
	if f.e.Type == event.TypeSubagentCompleted {
		all.Completed++
		return
	}
	all.Failed++
	f.incident("subagent_failed", a.SubagentID+": "+failureMessage(p.Error, p.Reason), false)
}

// failureMessage returns the words for people of a failure.
func failureMessage(err *event.Failure, reason string) string {
	if err != nil {
		return err.Message
	}
	return reason
}
