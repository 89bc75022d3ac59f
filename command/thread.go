package command

import (
	"agentd/event"
	"agentd/fault"
)

// GetThreadRead returns the read model of a thread.
type GetThreadRead struct {
	// SessionID of the thread.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId" check:"id"`
	// AtSequence asks for the read model as it was after that event; absent: as it is
	// now.
	AtSequence *uint64 `json:"atSequence,omitempty" min:"1"`
}

// Command implements [Params].
func (*GetThreadRead) Command() Name       { return "get_thread_read" }
func (*GetThreadRead) returns(*ThreadRead) {}

// Validate implements [Params].
func (p *GetThreadRead) Validate() error { return check(p) }

// ThreadRead is the read model of a thread. This is the part that callers in Go rely on.
type ThreadRead struct {
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId"`
	// SessionID of the thread.
	SessionID string `json:"sessionId"`
	// Status of the thread, coarse.
	Status string `json:"status" enum:"@threadStatus"`
	// Phase is the finer state beside the status, such as waiting_permission.
	Phase string `json:"phase"`
	// ActiveTurnID is the turn that runs.
	ActiveTurnID string `json:"activeTurnId,omitempty"`
	// TurnCount counts the thread's turns.
	TurnCount int64 `json:"turnCount"`
	// Turns are the newest ones, oldest first.
	Turns []TurnRead `json:"turns"`
	// QueuedTurns are those that wait, the next one first.
	QueuedTurns []QueuedTurnRead `json:"queuedTurns"`
	// PendingRequests are the actions that the thread waits for.
	PendingRequests []ActionRecord `json:"pendingRequests"`
}

// TurnRead is the read model of a turn. This is the part that callers in Go rely on.
type TurnRead struct {
	// TurnID is the turn's id.
	TurnID string `json:"turnId"`
	// TaskID is the task that the turn belongs to.
	TaskID string `json:"taskId,omitempty"`
	// RunID is the task's run that the turn belongs to.
	RunID string `json:"runId,omitempty"`
	// Status of the turn; blocked while it waits for an action.
	Status string `json:"status"`
	// Phase is the finer state beside the status.
	Phase string `json:"phase"`
	// SubmittedSequence is that of turn.submitted, of an inherited turn in its origin.
	SubmittedSequence uint64 `json:"submittedSequence"`
	// Inherited says that the turn is of the session that this one was forked from.
	Inherited bool `json:"inherited,omitempty"`
	// Origin is where an inherited turn's facts are.
	Origin *TurnOrigin `json:"origin,omitempty"`
}

// TurnOrigin is where the facts of an inherited turn are.
type TurnOrigin struct {
	// SessionID has the facts.
	SessionID string `json:"sessionId"`
	// ThreadID is the turn's thread there.
	ThreadID string `json:"threadId"`
	// SubmittedSequence is where they begin.
	SubmittedSequence uint64 `json:"submittedSequence,omitempty"`
	// EndSequence is where they end; absent if the turn had not ended at the fork.
	EndSequence uint64 `json:"endSequence,omitempty"`
}

// QueuedTurnRead is the read model of a turn that waits. This is the part that callers in
// Go rely on.
type QueuedTurnRead struct {
	// TurnID is the turn's id.
	TurnID string `json:"turnId"`
	// Position from 1, first to run first.
	Position int64 `json:"position"`
	// Source says who submitted the turn.
	Source string `json:"source"`
}

// ResumeThread continues a thread that is blocked or was stopped.
type ResumeThread struct {
	Mutation
	// SessionID of the thread.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId" check:"id"`
	// ResumeToken continues where a provider or a peer left off, if it gave one.
	ResumeToken string `json:"resumeToken,omitempty" max:"4096" secret:"pass"`
}

// Command implements [Params].
func (*ResumeThread) Command() Name               { return "resume_thread" }
func (*ResumeThread) returns(*ResumeThreadResult) {}

// Validate implements [Params].
func (p *ResumeThread) Validate() error { return check(p) }

// ResumeThreadResult says what was found and done.
type ResumeThreadResult struct {
	// Status says whether the thread goes on.
	Status string `json:"status" enum:"resumed blocked nothing_to_resume"`
	// Reason for people.
	Reason string `json:"reason"`
	// Recovered lists what had been in flight and became facts.
	Recovered []string `json:"recovered"`
}

// CompactThread replaces earlier turns by a summary in the model's context.
type CompactThread struct {
	Mutation
	// SessionID of the thread.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId" check:"id"`
}

// Command implements [Params].
func (*CompactThread) Command() Name                { return "compact_thread" }
func (*CompactThread) returns(*CompactThreadResult) {}

// Validate implements [Params].
func (p *CompactThread) Validate() error { return check(p) }

// CompactThreadResult is the new boundary of the thread's context.
type CompactThreadResult struct {
	// Boundary says which turns the summary covers, where it is and what was kept.
	Boundary event.CompactionCompleted `json:"boundary"`
}

// RollbackThread takes back the turns after a given one.
type RollbackThread struct {
	Mutation
	// SessionID of the thread.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId" check:"id"`
	// ToTurnID is the turn that stays; the turns after it go.
	ToTurnID string `json:"toTurnId,omitempty" check:"id"`
	// ToStart takes all turns back; toTurnId is then absent.
	ToStart bool `json:"toStart,omitempty"`
	// Files says what becomes of the files that the removed turns changed; default keep.
	Files string `json:"files,omitempty" enum:"@rollbackFiles"`
	// Preview says what would happen and changes nothing.
	Preview bool `json:"preview,omitempty"`
	// Force overwrites files that someone else changed since.
	Force bool `json:"force,omitempty"`
	// Diff asks, with preview, for what the turns changed, as a unified diff.
	Diff bool `json:"diff,omitempty"`
}

// Command implements [Params].
func (*RollbackThread) Command() Name                 { return "rollback_thread" }
func (*RollbackThread) returns(*RollbackThreadResult) {}

// Validate implements [Params].
func (p *RollbackThread) Validate() error {
	switch err := check(p); {
	case err != nil:
		return err
	case p.ToTurnID == "" && !p.ToStart:
		return fault.Param("toTurnId", "is missing: give toTurnId or toStart")
	case p.ToTurnID != "" && p.ToStart:
		return fault.Param("toStart", "give either toTurnId or toStart, not both")
	case p.Diff && !p.Preview:
		return fault.Param("diff", "is only allowed with preview")
	}
	return nil
}

// RollbackThreadResult says what was, or would be, taken back.
type RollbackThreadResult struct {
	// RemovedTurns are the ids of the turns that go.
	RemovedTurns []string `json:"removedTurns"`
	// Files says what becomes of each file.
	Files []event.RollbackFile `json:"files"`
	// Diff is what the turns changed, if it was asked for.
	Diff string `json:"diff,omitempty"`
}

// ForkThread opens a new session whose history is that of another up to a point.
type ForkThread struct {
	Mutation
	// SessionID of the thread that is forked.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID is the thread that is forked.
	ThreadID string `json:"threadId" check:"id"`
	// AtSequence is the last event that belongs to the fork.
	AtSequence uint64 `json:"atSequence" min:"1"`
}

// Command implements [Params].
func (*ForkThread) Command() Name             { return "fork_thread" }
func (*ForkThread) returns(*ForkThreadResult) {}

// Validate implements [Params].
func (p *ForkThread) Validate() error { return check(p) }

// ForkThreadResult is the new session.
type ForkThreadResult struct {
	// SessionID is the new session.
	SessionID string `json:"sessionId"`
	// ThreadID is its thread.
	ThreadID string `json:"threadId"`
}
