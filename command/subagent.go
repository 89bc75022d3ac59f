package command

import (
	"time"

	"agentd/event"
)

// SpawnSubagent creates a child with a thread of its own.
type SpawnSubagent struct {
	Mutation
	// SubagentID is the child's id; made if absent.
	SubagentID string `json:"subagentId,omitempty" check:"id"`
	// SessionID of the parent.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID is the parent's thread.
	ThreadID string `json:"threadId" check:"id"`
	// TurnID is the parent's turn, if the child belongs to one.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// Role of the child, such as reviewer.
	Role string `json:"role,omitempty" max:"256"`
	// Nickname for people.
	Nickname string `json:"nickname,omitempty" max:"256"`
	// Input is the child's first turn: a text, or a list of parts.
	Input event.Raw `json:"input" as:"input"`
	// Isolation bounds the child.
	Isolation *event.Isolation `json:"isolation,omitempty"`
	// Model of the child; its parent's if absent.
	Model string `json:"model,omitempty" max:"256"`
	// Peer is another agent that the child is: the id of a configured one, or the
	// address of an agent card.
	Peer string `json:"peer,omitempty" max:"2048"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty" check:"object" max:"16384"`
}

// Command implements [Params].
func (*SpawnSubagent) Command() Name                { return "spawn_subagent" }
func (*SpawnSubagent) returns(*SpawnSubagentResult) {}

// NewID implements [Creating].
func (p *SpawnSubagent) NewID() (noun, id string) { return "subagent", p.SubagentID }

// Validate implements [Params]. It brings the input into its normal form.
func (p *SpawnSubagent) Validate() (err error) {
	if err = firstError(check(p), notRuntime(p.SessionID)); err == nil {
		p.Input, err = normalInput(p.Input)
	}
	return err
}

// SpawnSubagentResult is the new child.
type SpawnSubagentResult struct {
	// SubagentID is the child's id.
	SubagentID string `json:"subagentId"`
	// ThreadID is the child's own thread.
	ThreadID string `json:"threadId"`
}

// SendSubagentInput gives a child another turn.
type SendSubagentInput struct {
	Mutation
	// SubagentID is the child's id.
	SubagentID string `json:"subagentId" check:"id"`
	// Input is a text, or a list of parts.
	Input event.Raw `json:"input" as:"input"`
}

// Command implements [Params].
func (*SendSubagentInput) Command() Name           { return "send_subagent_input" }
func (*SendSubagentInput) returns(*SubagentResult) {}

// Validate implements [Params]. It brings the input into its normal form.
func (p *SendSubagentInput) Validate() (err error) {
	if err = check(p); err == nil {
		p.Input, err = normalInput(p.Input)
	}
	return err
}

// SubagentResult is a child's standing after a command.
type SubagentResult struct {
	// SubagentID is the child's id.
	SubagentID string `json:"subagentId"`
	// ThreadID is the child's own thread.
	ThreadID string `json:"threadId"`
	// TurnID is the turn that the command started or queued, if it did.
	TurnID string `json:"turnId,omitempty"`
	// Status of the child.
	Status string `json:"status"`
}

// WaitSubagents waits until children have nothing left to do.
type WaitSubagents struct {
	// SubagentIDs are the children to wait for.
	SubagentIDs []string `json:"subagentIds" check:"id" max:"1000"`
	// TimeoutMs is how long to wait; default 30 s, at most 10 minutes.
	TimeoutMs int64 `json:"timeoutMs,omitempty" max:"600000"`
}

// Command implements [Params].
func (*WaitSubagents) Command() Name                { return "wait_subagents" }
func (*WaitSubagents) returns(*WaitSubagentsResult) {}

// Validate implements [Params].
func (p *WaitSubagents) Validate() error { return check(p) }

// WaitSubagentsResult says how the children stand.
type WaitSubagentsResult struct {
	// Subagents that were waited for.
	Subagents []SubagentRecord `json:"subagents"`
	// TimedOut says that not all of them were done in time.
	TimedOut bool `json:"timedOut"`
}

// ResumeSubagent lets a child go on that is blocked, interrupted or closed.
type ResumeSubagent struct {
	Mutation
	// SubagentID is the child's id.
	SubagentID string `json:"subagentId" check:"id"`
}

// Command implements [Params].
func (*ResumeSubagent) Command() Name           { return "resume_subagent" }
func (*ResumeSubagent) returns(*SubagentResult) {}

// Validate implements [Params].
func (p *ResumeSubagent) Validate() error { return check(p) }

// CloseSubagent stops a child and releases what it holds.
type CloseSubagent struct {
	Mutation
	// SubagentID is the child's id.
	SubagentID string `json:"subagentId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*CloseSubagent) Command() Name           { return "close_subagent" }
func (*CloseSubagent) returns(*SubagentResult) {}

// Validate implements [Params].
func (p *CloseSubagent) Validate() error { return check(p) }

// ListSubagents lists the children of a session or a thread.
type ListSubagents struct {
	Page
	// SessionID of the children.
	SessionID string `json:"sessionId" check:"id"`
	// ParentThreadID keeps the children of one thread.
	ParentThreadID string `json:"parentThreadId,omitempty" check:"id"`
	// Descendants lists the children's children too.
	Descendants bool `json:"descendants,omitempty"`
}

// Command implements [Params].
func (*ListSubagents) Command() Name                { return "list_subagents" }
func (*ListSubagents) returns(*ListSubagentsResult) {}

// Validate implements [Params].
func (p *ListSubagents) Validate() error { return check(p) }

// ListSubagentsResult is a page of children.
type ListSubagentsResult struct {
	// Subagents of this page.
	Subagents []SubagentRecord `json:"subagents"`
	// Total counts the children that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// SubagentRecord is the record of a child.
type SubagentRecord struct {
	// SubagentID is the child's id.
	SubagentID string `json:"subagentId"`
	// SessionID of the child and its parent.
	SessionID string `json:"sessionId"`
	// ParentThreadID is the parent's thread.
	ParentThreadID string `json:"parentThreadId"`
	// ParentTurnID is the parent's turn that the child was created in, if there was one.
	ParentTurnID string `json:"parentTurnId,omitempty"`
	// ParentSubagentID is the parent, if it is a child itself.
	ParentSubagentID string `json:"parentSubagentId,omitempty"`
	// ThreadID is the child's own thread.
	ThreadID string `json:"threadId"`
	// Role of the child.
	Role string `json:"role,omitempty"`
	// Nickname for people.
	Nickname string `json:"nickname,omitempty"`
	// Isolation bounds what the child may do.
	Isolation *event.Isolation `json:"isolation,omitempty"`
	// Model that the child was bound to; its parent's choice if absent.
	Model string `json:"model,omitempty"`
	// Status of the child.
	Status string `json:"status"`
	// LastMessage is a preview of what the child said last.
	LastMessage string `json:"lastMessage,omitempty"`
	// LastMessageRef is where the whole of it is.
	LastMessageRef string `json:"lastMessageRef,omitempty"`
	// Error is why the child failed.
	Error *event.Failure `json:"error,omitempty"`
	// SpawnedAt is when the child was created.
	SpawnedAt time.Time `json:"spawnedAt"`
}
