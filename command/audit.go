package command

import "agentd/event"

// ReadAudit reads what an auditor looks at, over all sessions.
type ReadAudit struct {
	// After is the cursor of the page before; absent to read from the beginning.
	After string `json:"after,omitempty" max:"4096" secret:"pass"`
	// Limit is the most events that are returned; 0 means 100.
	Limit int `json:"limit,omitempty" max:"1000"`
	// Types of events, * standing for anything; absent for those that say who was allowed
	// to do what.
	Types []string `json:"types,omitempty" max:"32"`
}

// Command implements [Params].
func (*ReadAudit) Command() Name            { return "read_audit" }
func (*ReadAudit) returns(*ReadAuditResult) {}

// Validate implements [Params].
func (p *ReadAudit) Validate() error { return check(p) }

// ReadAuditResult is a page of what an auditor looks at.
type ReadAuditResult struct {
	// Events are envelopes as the stream delivers them: in order within a session, those of
	// different sessions as they were written, more or less.
	Events []event.Raw `json:"events" as:"event"`
	// Gaps are events that retention removed before they were read.
	Gaps []AuditGap `json:"gaps"`
	// Cursor is where the next page begins, also after a restart and on another node.
	Cursor string `json:"cursor"`
	// Complete says that nothing more was written when the page was read. A page that isn't
	// complete may have no events: those that it passed over are of other types.
	Complete bool `json:"complete"`
}

// AuditGap is a run of events that were removed.
type AuditGap struct {
	// SessionID is the session that they were in.
	SessionID string `json:"sessionId"`
	// FirstSequence is that of the first of them.
	FirstSequence uint64 `json:"firstSequence"`
	// LastSequence is that of the last of them.
	LastSequence uint64 `json:"lastSequence"`
}

// AuditTypes returns the events that say who was allowed to do what, and what bounds that:
// questions and answers, decisions and their rules, commands that were started, boundaries
// that were met, changes of tokens, quotas and policy, beginnings, changes and ends of
// sessions (their mode and their place, too), and what retention removed.
func AuditTypes() []string {
	return []string{
		"action.*", "permission.*", "policy.changed", "sandbox.violation", "hook.failed", "process.started", "quota.*",
		"runtime.changed", "session.created", "session.updated", "session.deleted", "history.rollback.*", "snapshot.repaired", "output.expired",
		"channel.connected", "channel.disconnected", "channel.permission_*",
	}
}
