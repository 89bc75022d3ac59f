package command

import "time"

// FindID finds what an id names, whichever kind of id it is.
type FindID struct {
	// ID is what is looked for, whole.
	ID string `json:"id" check:"id"`
	// SessionID looks in the events of this session only, in all of them.
	SessionID string `json:"sessionId,omitempty" check:"id"`
}

// Command implements [Params].
func (*FindID) Command() Name         { return "find_id" }
func (*FindID) returns(*FindIDResult) {}

// Validate implements [Params].
func (p *FindID) Validate() error { return check(p) }

// FoundThing is a thing that has an id.
type FoundThing struct {
	// Kind says what the id names, as events call it: session, thread, turn, task, run,
	// step, toolCall, action, subagent, artifact, evidence, process, channel, job, jobItem,
	// schedule, trial, modelRequest, request, event, and so on.
	Kind string `json:"kind"`
	// SessionID is the session that has it.
	SessionID string `json:"sessionId"`
	// Sequence is that of the first event that names it; absent if it isn't known.
	Sequence uint64 `json:"sequence,omitempty"`
	// EventID is that event.
	EventID string `json:"eventId,omitempty"`
	// Type of that event.
	Type string `json:"type,omitempty"`
	// Time of that event.
	Time time.Time `json:"time,omitzero"`
	// ThreadID of that event.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID of that event.
	TurnID string `json:"turnId,omitempty"`
}

// FindIDResult is what has an id.
type FindIDResult struct {
	// Found has the things that the caller may see: mostly one, none if it isn't known.
	Found []FoundThing `json:"found"`
	// Complete says that all places were looked at that can have it. Without it there was
	// more than is looked at in one call: name the session.
	Complete bool `json:"complete"`
	// Sessions counts the sessions whose events were looked at.
	Sessions int64 `json:"sessions"`
}
