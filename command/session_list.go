package command

import (
	"time"

	"agentd/event"
	"agentd/fault"
)

// ListSessions lists the sessions that the caller may see.
type ListSessions struct {
	Page
	// Query keeps the sessions whose id, title, workspace or tags contain it.
	Query string `json:"query,omitempty" max:"1000"`
	// Status keeps the sessions whose main thread has it.
	Status string `json:"status,omitempty" enum:"@threadStatus"`
	// Workspace keeps the sessions that work in this folder.
	Workspace string `json:"workspace,omitempty" max:"4096"`
	// Account keeps the sessions of an account.
	Account string `json:"account,omitempty" max:"256"`
	// Tags keeps the sessions that have all of them.
	Tags []string `json:"tags,omitempty" max:"32"`
	// Archived true lists the archived sessions; they are left out otherwise.
	Archived bool `json:"archived,omitempty"`
	// Pinned keeps the sessions that are pinned, or with false those that are not.
	Pinned *bool `json:"pinned,omitempty"`
	// From keeps the sessions that were active at or after this time.
	From time.Time `json:"from,omitzero"`
	// To keeps the sessions that were last active before this time.
	To time.Time `json:"to,omitzero"`
	// Sort is what the sessions are ordered by; default created.
	Sort string `json:"sort,omitempty" enum:"created updated cost tokens turns title"`
	// Order is asc or desc; default asc for title, and desc for the rest.
	Order string `json:"order,omitempty" enum:"@sortOrder"`
}

// Command implements [Params].
func (*ListSessions) Command() Name               { return "list_sessions" }
func (*ListSessions) returns(*ListSessionsResult) {}

// Validate implements [Params].
func (p *ListSessions) Validate() error {
	return firstError(checkSpan(p.From, p.To), check(p))
}

// SessionSummary is a session in a list. It is as fresh as the session's last
// finished turn.
type SessionSummary struct {
	// SessionID is the session's id.
	SessionID string `json:"sessionId"`
	// ThreadID is the session's main thread.
	ThreadID string `json:"threadId,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Account that owns the session.
	Account string `json:"account,omitempty"`
	// Status of the session's main thread.
	Status string `json:"status"`
	// CreatedAt is when the session was opened.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when the session was last active: a turn was submitted or ended, an
	// action was asked or answered, or the session itself was changed.
	UpdatedAt time.Time `json:"updatedAt"`
	// TurnCount counts the session's turns.
	TurnCount int64 `json:"turnCount"`
	// Workspace is the folder that the session works in.
	Workspace string `json:"workspace,omitempty"`
	// CostUSD sums the model calls whose price is known.
	CostUSD float64 `json:"costUSD"`
	// InputTokens of all model calls.
	InputTokens int64 `json:"inputTokens"`
	// OutputTokens of all model calls.
	OutputTokens int64 `json:"outputTokens"`
	// PendingActions counts the actions that wait for an answer.
	PendingActions int64 `json:"pendingActions"`
	// Tags of the session.
	Tags []string `json:"tags"`
	// Pinned sessions are kept in sight.
	Pinned bool `json:"pinned"`
	// Archived sessions are left out of lists unless they are asked for.
	Archived bool `json:"archived"`
}

// ListSessionsResult is a page of sessions.
type ListSessionsResult struct {
	// Sessions of this page.
	Sessions []SessionSummary `json:"sessions"`
	// Total counts the sessions that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// MaxTags is how many tags a session has at most.
const MaxTags = 32

// maxTag is the length of the longest tag.
const maxTag = 64

// UpdateSession changes a session's own fields; what is absent stays.
type UpdateSession struct {
	Mutation
	// SessionID is the session's id.
	SessionID string `json:"sessionId" check:"id"`
	// Title for people.
	Title *string `json:"title,omitempty" max:"1000"`
	// Tags are all that the session has from now on; an empty list removes them.
	Tags []string `json:"tags,omitzero" max:"32"`
	// AddTags joins tags to those that the session has; one that it has already stays.
	// Callers that change single tags use it and removeTags, not tags: what others change at
	// the same time stays.
	AddTags []string `json:"addTags,omitempty" max:"32"`
	// RemoveTags takes tags away, before addTags joins any. One that the session doesn't have
	// is passed over.
	RemoveTags []string `json:"removeTags,omitempty" max:"32"`
	// Pinned keeps the session in sight in lists.
	Pinned *bool `json:"pinned,omitempty"`
	// Archived leaves the session out of lists that don't ask for it.
	Archived *bool `json:"archived,omitempty"`
	// Metadata is the caller's own, kept as it is; an empty object removes it.
	Metadata event.Raw `json:"metadata,omitempty" check:"object" max:"16384"`
}

// Command implements [Params].
func (*UpdateSession) Command() Name                { return "update_session" }
func (*UpdateSession) returns(*UpdateSessionResult) {}

// Validate implements [Params].
func (p *UpdateSession) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	for _, of := range []struct {
		name string
		tags []string
	}{{"tags", p.Tags}, {"addTags", p.AddTags}, {"removeTags", p.RemoveTags}} {
		for _, tag := range of.tags {
			if tag == "" || len(tag) > maxTag {
				return fault.Param(of.name, "%q is not a tag: use 1 to %d bytes", clipQuoted(tag), maxTag)
			}
		}
	}
	changesTags := len(p.AddTags)+len(p.RemoveTags) > 0
	if p.Tags != nil && changesTags {
		return fault.Param("tags", "replaces all tags; leave out addTags and removeTags")
	}
	if p.SessionID == event.RuntimeSession {
		return fault.Param("sessionId", "%s is the runtime's own session and can't be changed", event.RuntimeSession)
	}
	if p.Title == nil && p.Tags == nil && !changesTags && p.Pinned == nil && p.Archived == nil && len(p.Metadata) == 0 {
		return fault.Param("title", "nothing to change: give title, tags, addTags, removeTags, pinned, archived or metadata")
	}
	return nil
}

// UpdateSessionResult is the session's record after the change.
type UpdateSessionResult struct {
	// SessionID is the session's id.
	SessionID string `json:"sessionId"`
	// Title for people.
	Title string `json:"title"`
	// Tags of the session.
	Tags []string `json:"tags"`
	// Pinned sessions are kept in sight.
	Pinned bool `json:"pinned"`
	// Archived sessions are left out of lists unless they are asked for.
	Archived bool `json:"archived"`
	// Metadata is the caller's own.
	Metadata event.Raw `json:"metadata,omitempty" check:"object"`
	// Account that owns the session.
	Account string `json:"account,omitempty"`
	// CreatedAt is when the session was opened.
	CreatedAt time.Time `json:"createdAt"`
	// UpdatedAt is when the session was last active.
	UpdatedAt time.Time `json:"updatedAt"`
}

// UpdateThread changes a thread's own fields; what is absent stays.
type UpdateThread struct {
	Mutation
	// SessionID of the thread.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId" check:"id"`
	// Pinned keeps the thread in sight.
	Pinned *bool `json:"pinned"`
}

// Command implements [Params].
func (*UpdateThread) Command() Name               { return "update_thread" }
func (*UpdateThread) returns(*UpdateThreadResult) {}

// Validate implements [Params].
func (p *UpdateThread) Validate() error { return check(p) }

// UpdateThreadResult is the thread after the change.
type UpdateThreadResult struct {
	// ThreadID is the thread's id.
	ThreadID string `json:"threadId"`
	// Pinned threads are kept in sight.
	Pinned bool `json:"pinned"`
	// PinnedThreadIDs are all pinned threads of the session.
	PinnedThreadIDs []string `json:"pinnedThreadIds"`
}

// DeleteSession deletes a session that is at rest.
type DeleteSession struct {
	Mutation
	// SessionID is the session's id.
	SessionID string `json:"sessionId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*DeleteSession) Command() Name                { return "delete_session" }
func (*DeleteSession) returns(*DeleteSessionResult) {}

// Validate implements [Params].
func (p *DeleteSession) Validate() error {
	if p.SessionID == event.RuntimeSession {
		return fault.Param("sessionId", "%s is the runtime's own session and can't be deleted", event.RuntimeSession)
	}
	return check(p)
}

// DeleteSessionResult says what was deleted.
type DeleteSessionResult struct {
	// Deleted says that the session is gone.
	Deleted bool `json:"deleted"`
	// Events counts the events that were removed.
	Events uint64 `json:"events"`
	// KeptForForks says that the events stay, unreadable, because forks of the session
	// continue from them.
	KeptForForks bool `json:"keptForForks,omitempty"`
}
