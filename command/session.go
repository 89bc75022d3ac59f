package command

import (
	"encoding/json"
	"strings"
	"time"

	"agentd/event"
	"agentd/fault"
)

// CreateSession opens a session with a main thread.
type CreateSession struct {
	Mutation
	// SessionID is the session's id; made if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Title for people.
	Title string `json:"title,omitempty" max:"1000"`
	// Workspace is the folder that the session works in; the server's if absent.
	Workspace *event.Workspace `json:"workspace,omitempty"`
	// PermissionMode of the session; the server's if absent.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty" check:"object" max:"16384"`
}

// Command implements [Params].
func (*CreateSession) Command() Name                { return "create_session" }
func (*CreateSession) returns(*CreateSessionResult) {}

// NewID implements [Creating].
func (p *CreateSession) NewID() (noun, id string) { return "session", p.SessionID }

// Validate implements [Params].
func (p *CreateSession) Validate() error {
	if p.SessionID == event.RuntimeSession {
		return fault.Param("sessionId", "%s is the runtime's own session; choose another id", event.RuntimeSession)
	}
	if p.Workspace != nil && strings.ContainsRune(p.Workspace.Root, 0) {
		return fault.Param("workspace.root", "contains a NUL byte, which no path may")
	}
	return check(p)
}

// CreateSessionResult is the new session.
type CreateSessionResult struct {
	// SessionID is the session's id.
	SessionID string `json:"sessionId"`
	// ThreadID is the session's main thread.
	ThreadID string `json:"threadId"`
}

// GetSession returns the session snapshot and a window of its history.
type GetSession struct {
	// SessionID is the session's id.
	SessionID string `json:"sessionId" check:"id"`
	// Limit is the number of recent events, 0 to 1000; default 50.
	Limit *int `json:"limit,omitempty" max:"1000"`
	// Before is the cursor of an earlier answer's history: only older events are
	// returned.
	Before json.Number `json:"before,omitempty" max:"20" secret:"pass"`
	// AtSequence asks for the snapshot and the history as they were after that event;
	// absent: as they are now.
	AtSequence *uint64 `json:"atSequence,omitempty" min:"1"`
}

// Command implements [Params].
func (*GetSession) Command() Name        { return "get_session" }
func (*GetSession) returns(*SessionRead) {}

// Validate implements [Params].
func (p *GetSession) Validate() error {
	if p.Before != "" {
		// One below 0 leads into the history that a fork inherits.
		if n, err := p.Before.Int64(); err != nil || n == 0 || n < minCursor {
			return fault.Param("before", "%q is not a cursor", clipQuoted(string(p.Before)))
		}
	}
	return check(p)
}

// minCursor bounds cursors: those of histories that are read.
const minCursor = -1 << 62

// History is a window of a session's events, oldest first.
type History struct {
	// Events are envelopes as the stream delivers them.
	Events []event.Raw `json:"events" as:"event"`
	// Cursor is what to pass as before to get older events; empty at the beginning.
	Cursor string `json:"cursor"`
	// Truncated says that there are older events.
	Truncated bool `json:"truncated"`
	// RemovedThrough is the last event that retention removed, if the window reaches
	// that far: what came before can no longer be read.
	RemovedThrough uint64 `json:"removedThrough,omitempty"`
	// Origin is the session that the events are of, if the window lies before the
	// beginning of a fork: it goes on where the fork's own events end.
	Origin *HistoryOrigin `json:"origin,omitempty"`
}

// HistoryOrigin is where a fork's earlier events are.
type HistoryOrigin struct {
	// SessionID has the events.
	SessionID string `json:"sessionId"`
	// ThreadID is the thread that was forked.
	ThreadID string `json:"threadId,omitempty"`
	// Sequence is the last one that belongs to the fork.
	Sequence uint64 `json:"sequence"`
}

// SessionRead is the session snapshot with a window of its history. This is the part
// that callers in Go rely on.
type SessionRead struct {
	// SchemaVersion of the snapshot.
	SchemaVersion string `json:"schemaVersion"`
	// RuntimeID of the runtime that answers.
	RuntimeID string `json:"runtimeId"`
	// SessionID is the session's id.
	SessionID string `json:"sessionId"`
	// Sequence of the newest fact that the snapshot covers.
	Sequence uint64 `json:"sequence"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Status of the session.
	Status string `json:"status"`
	// PermissionMode of the session.
	PermissionMode string `json:"permissionMode,omitempty"`
	// CreatedAt is when the session was opened.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when the newest fact that the snapshot covers happened.
	UpdatedAt time.Time `json:"updatedAt"`
	// Threads are the read models of the session's threads.
	Threads []ThreadRead `json:"threads"`
	// History is the window of recent events.
	History History `json:"history"`
}
