package command

import (
	"time"

	"agentd/event"
	"agentd/fault"
)

// ListTurns lists the turns of all sessions that the caller may see.
type ListTurns struct {
	Page
	// SessionID keeps the turns of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Status keeps the turns that have it.
	Status string `json:"status,omitempty" enum:"accepted queued running completed failed cancelled"`
	// Outcome keeps the turns that ended with it: that of turn.completed, or the failure
	// category of turn.failed.
	Outcome string `json:"outcome,omitempty" max:"256"`
	// Model keeps the turns that this model answered last, as provider/model or the model
	// alone.
	Model string `json:"model,omitempty" max:"256"`
	// Tool keeps the turns that called this tool.
	Tool string `json:"tool,omitempty" max:"256"`
	// Workspace keeps the turns that worked in this folder.
	Workspace string `json:"workspace,omitempty" max:"4096"`
	// Account keeps the turns of an account.
	Account string `json:"account,omitempty" max:"256"`
	// Tags keeps the turns of sessions that have all of them.
	Tags []string `json:"tags,omitempty" max:"32"`
	// From keeps the turns that started at or after this time.
	From time.Time `json:"from,omitzero"`
	// To keeps the turns that started before this time.
	To time.Time `json:"to,omitzero"`
	// Query keeps the turns whose input has all of these words; a word that ends with *
	// stands for all that begin like it.
	Query string `json:"query,omitempty" max:"1000"`
	// Sort is what the turns are ordered by; default started.
	Sort string `json:"sort,omitempty" enum:"started duration cost tokens"`
	// Order is asc or desc; default desc.
	Order string `json:"order,omitempty" enum:"@sortOrder"`
}

// Command implements [Params].
func (*ListTurns) Command() Name            { return "list_turns" }
func (*ListTurns) returns(*ListTurnsResult) {}

// Validate implements [Params].
func (p *ListTurns) Validate() error {
	if !p.From.IsZero() && !p.To.IsZero() && !p.From.Before(p.To) {
		return fault.Param("from", "must be before to")
	}
	return check(p)
}

// TurnSummary is a turn in a list.
type TurnSummary struct {
	// TurnID is the turn's id.
	TurnID string `json:"turnId"`
	// SessionID of the turn.
	SessionID string `json:"sessionId"`
	// ThreadID of the turn.
	ThreadID string `json:"threadId"`
	// Account that owns the session.
	Account string `json:"account,omitempty"`
	// Status is accepted or queued, then running, then completed, failed or cancelled.
	Status string `json:"status"`
	// Outcome that the turn ended with; absent until then.
	Outcome string `json:"outcome,omitempty"`
	// Preview is the beginning of the turn's input.
	Preview string `json:"preview"`
	// Model that answered last, as provider/model; absent if none did.
	Model string `json:"model,omitempty"`
	// Tools that were called, by name.
	Tools []string `json:"tools,omitempty"`
	// Workspace is the folder that the turn works in.
	Workspace string `json:"workspace,omitempty"`
	// CostUSD sums the model calls whose price is known.
	CostUSD float64 `json:"costUSD"`
	// Usage sums the model calls.
	Usage event.Usage `json:"usage"`
	// FirstSequence is that of turn.submitted.
	FirstSequence uint64 `json:"firstSequence"`
	// LastSequence is that of the fact that ended the turn, or the newest one that
	// changed what is listed here.
	LastSequence uint64 `json:"lastSequence"`
	// StartedAt is when the turn began to run; while it waits, when it was submitted.
	StartedAt time.Time `json:"startedAt"`
	// DurationMs is how long the turn ran; 0 until it has ended.
	DurationMs int64 `json:"durationMs"`
}

// ListTurnsResult is a page of turns.
type ListTurnsResult struct {
	// Turns of this page.
	Turns []TurnSummary `json:"turns"`
	// Total counts the turns that the filters keep, over all pages.
	Total int64 `json:"total"`
	// Truncated says that the query's words are in so many inputs that only the newest
	// of these were looked at.
	Truncated bool `json:"truncated,omitempty"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// maxHits is the largest page of a search: a snippet is made for each hit.
const maxHits = 200

// Search finds where something was said or done.
type Search struct {
	Page
	// Query is up to 16 words. All of them must be in a fact; case doesn't matter. A word
	// that ends with * stands for all that begin like it; there may be two such words.
	Query string `json:"query" check:"nonempty" max:"1000"`
	// SessionID looks in one session only.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Types looks in events of these types only: turn.submitted and turn.steered (inputs),
	// model.completed (answers), tool.started and tool.args (arguments), tool.result and
	// tool.failed (outputs). A type that ends with .* stands for all of its family.
	Types []string `json:"types,omitempty" max:"32"`
	// From looks in events at or after this time only.
	From time.Time `json:"from,omitzero"`
	// To looks in events before this time only.
	To time.Time `json:"to,omitzero"`
}

// Command implements [Params].
func (*Search) Command() Name         { return "search" }
func (*Search) returns(*SearchResult) {}

// Validate implements [Params].
func (p *Search) Validate() error {
	switch {
	case !p.From.IsZero() && !p.To.IsZero() && !p.From.Before(p.To):
		return fault.Param("from", "must be before to")
	case p.Limit > maxHits:
		return fault.Param("limit", "is %d, at most %d hits are returned at once; use nextCursor for more", p.Limit, maxHits)
	}
	return check(p)
}

// SearchHit is an event that a search found.
type SearchHit struct {
	// SessionID of the event.
	SessionID string `json:"sessionId"`
	// ThreadID of the event.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID of the event.
	TurnID string `json:"turnId,omitempty"`
	// EventID is the event's id.
	EventID string `json:"eventId"`
	// Sequence of the event in its session.
	Sequence uint64 `json:"sequence"`
	// Type of the event.
	Type string `json:"type"`
	// Time of the event.
	Time time.Time `json:"time"`
	// Snippet is a part of the text, on one line. The words that were looked for stand
	// between ** and **; several * in a row in the text itself are shown as one. Where the
	// text goes on, there is an ellipsis.
	Snippet string `json:"snippet"`
}

// SearchResult is a page of what was found, the best first.
type SearchResult struct {
	// Hits of this page.
	Hits []SearchHit `json:"hits"`
	// Truncated says that the words are in so many events that only the newest of these
	// were ranked.
	Truncated bool `json:"truncated,omitempty"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}
