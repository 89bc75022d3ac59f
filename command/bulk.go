package command

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// MaxBulk is the most that one bulk command does at a time.
const MaxBulk = 1000

// SessionFilter chooses sessions for a bulk command, as list_sessions does. An empty one
// chooses all that the caller may see and that aren't archived.
type SessionFilter struct {
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
	// Pinned keeps the sessions that are pinned, or with false those that are not.
	Pinned *bool `json:"pinned,omitempty"`
	// From keeps the sessions that were active at or after this time.
	From time.Time `json:"from,omitzero"`
	// To keeps the sessions that were last active before this time.
	To time.Time `json:"to,omitzero"`
}

// BulkError says why one of several wasn't done.
type BulkError struct {
	// Code is the code that the command for one would answer with.
	Code string `json:"code"`
	// Detail says what is wrong, for people.
	Detail string `json:"detail"`
	// RetryAfter is how many seconds to wait before trying again, where that helps.
	RetryAfter int64 `json:"retryAfter,omitempty"`
}

// BulkErrorOf returns an error as bulk commands report it; nil for none.
func BulkErrorOf(err error) *BulkError {
	if err == nil {
		return nil
	}
	p := wire.ProblemOf(err)
	return &BulkError{Code: p.Code, Detail: p.Detail, RetryAfter: p.RetryAfter}
}

// BulkCounts sums up what became of several.
type BulkCounts struct {
	// Done counts what was carried out.
	Done int64 `json:"done"`
	// Failed counts what was not; each says why.
	Failed int64 `json:"failed"`
	// Remaining counts what the filter also chose and what was more than is done at a
	// time; call again for the rest, with another idempotency key.
	Remaining int64 `json:"remaining"`
}

// InterruptTurns stops several turns.
type InterruptTurns struct {
	Mutation
	// Turns are the turns to stop, running or queued.
	Turns []TurnTarget `json:"turns,omitempty"`
	// SessionIDs stops the running turn of the main thread of each of these sessions.
	SessionIDs []string `json:"sessionIds,omitempty" check:"id"`
	// Filter stops the running turn of the main thread of each session that it keeps and
	// that has unfinished work.
	Filter *SessionFilter `json:"filter,omitempty"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Queue says what becomes of the turns that wait: keep (default) or clear.
	Queue string `json:"queue,omitempty" enum:"@queueAfterInterrupt"`
}

// Command implements [Params].
func (*InterruptTurns) Command() Name                 { return "interrupt_turns" }
func (*InterruptTurns) returns(*InterruptTurnsResult) {}

// Validate implements [Params].
func (p *InterruptTurns) Validate() error {
	return firstError(check(p), oneChoice("turns", "turns, sessionIds or filter", len(p.Turns) > 0, len(p.SessionIDs) > 0, p.Filter != nil), p.Filter.check())
}

// TurnTarget names a turn.
type TurnTarget struct {
	// SessionID of the turn.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID of the turn; the session's main thread if absent.
	ThreadID string `json:"threadId,omitempty" check:"id"`
	// TurnID is the turn to stop; the running one if absent.
	TurnID string `json:"turnId,omitempty" check:"id"`
}

// InterruptTurnsResult says what became of each.
type InterruptTurnsResult struct {
	BulkCounts
	// Results are in the order that was given, or newest session first.
	Results []InterruptedTurn `json:"results"`
}

// InterruptedTurn is what became of one turn.
type InterruptedTurn struct {
	// SessionID of the turn.
	SessionID string `json:"sessionId"`
	// TurnID that was stopped, or that was asked for.
	TurnID string `json:"turnId,omitempty"`
	// Interrupted is false where nothing was there to stop.
	Interrupted bool `json:"interrupted"`
	// Error says why it failed; absent if it didn't.
	Error *BulkError `json:"error,omitempty"`
}

// ActionFilter chooses pending actions for a bulk command. An empty one chooses all that
// the caller may see.
type ActionFilter struct {
	// SessionID keeps the actions of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// ActionType keeps the actions of that type.
	ActionType string `json:"actionType,omitempty" enum:"@actionType"`
	// ToolName keeps the actions about calls of that tool.
	ToolName string `json:"toolName,omitempty" max:"256"`
}

// RespondActions answers several actions alike.
type RespondActions struct {
	Mutation
	// ActionIDs are the actions to answer.
	ActionIDs []string `json:"actionIds,omitempty" check:"id"`
	// Filter answers the pending actions that it keeps and that offer the decision.
	Filter *ActionFilter `json:"filter,omitempty"`
	// Decision that each gets.
	Decision string `json:"decision" enum:"@permissionAnswer"`
	// Scope of an allow: once (default) or session.
	Scope string `json:"scope,omitempty" enum:"@approvalScope"`
	// ExpiresInMs is how long an allow for the session holds; as long as the session if
	// absent.
	ExpiresInMs int64 `json:"expiresInMs,omitempty" max:"31622400000"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
}

// Command implements [Params].
func (*RespondActions) Command() Name                 { return "respond_actions" }
func (*RespondActions) returns(*RespondActionsResult) {}

// Validate implements [Params].
func (p *RespondActions) Validate() error {
	return firstError(check(p), oneChoice("actionIds", "actionIds or filter", len(p.ActionIDs) > 0, p.Filter != nil))
}

// RespondActionsResult says what became of each.
type RespondActionsResult struct {
	BulkCounts
	// Results are in the order of the ids that were given, or oldest first.
	Results []RespondedAction `json:"results"`
}

// RespondedAction is what became of one action.
type RespondedAction struct {
	// ActionID is the action's id.
	ActionID string `json:"actionId"`
	// Status of the action after the answer; absent if it failed.
	Status string `json:"status,omitempty" enum:"@actionStatus"`
	// Error says why it failed; absent if it didn't.
	Error *BulkError `json:"error,omitempty"`
}

// ArchiveSessions archives several sessions, or brings them back.
type ArchiveSessions struct {
	Mutation
	// SessionIDs are the sessions.
	SessionIDs []string `json:"sessionIds,omitempty" check:"id"`
	// Filter archives the sessions that it keeps.
	Filter *SessionFilter `json:"filter,omitempty"`
	// Archived false brings the sessions back; default true.
	Archived *bool `json:"archived,omitempty"`
}

// Command implements [Params].
func (*ArchiveSessions) Command() Name                  { return "archive_sessions" }
func (*ArchiveSessions) returns(*ArchiveSessionsResult) {}

// Validate implements [Params].
func (p *ArchiveSessions) Validate() error {
	return firstError(check(p), oneChoice("sessionIds", "sessionIds or filter", len(p.SessionIDs) > 0, p.Filter != nil), p.Filter.check())
}

// ArchiveSessionsResult says what became of each.
type ArchiveSessionsResult struct {
	BulkCounts
	// Results are in the order of the ids that were given, or newest first.
	Results []ArchivedSession `json:"results"`
}

// ArchivedSession is what became of one session.
type ArchivedSession struct {
	// SessionID is the session's id.
	SessionID string `json:"sessionId"`
	// Archived is whether the session is archived now; absent if that failed.
	Archived *bool `json:"archived,omitempty"`
	// Error says why it failed; absent if it didn't.
	Error *BulkError `json:"error,omitempty"`
}

// oneChoice refuses parameters that say in several ways, or in none, what is meant.
func oneChoice(field, choices string, given ...bool) error {
	n := 0
	for _, g := range given {
		if g {
			n++
		}
	}
	if n != 1 {
		return fault.Param(field, "give one of %s", choices)
	}
	return nil
}

func (f *SessionFilter) check() error {
	if f != nil && !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return fault.Param("filter.from", "must be before filter.to")
	}
	return nil
}

// List returns the filter as the command that lists the same sessions.
func (f *SessionFilter) List() *ListSessions {
	return &ListSessions{
		Query: f.Query, Status: f.Status, Workspace: f.Workspace, Account: f.Account, Tags: f.Tags, Pinned: f.Pinned, From: f.From, To: f.To,
	}
}

// Forwarder has another node carry out a command that this one can't, as the same
// caller, and returns the encoded result. why is the fault that names the node.
type Forwarder func(ctx context.Context, p Params, why error) (json.RawMessage, error)

type forwarderKey struct{}

// WithForwarder returns a context in which [Forward] reaches other nodes. Doors use it
// for commands that do several things, of which some may have to be done elsewhere.
func WithForwarder(ctx context.Context, f Forwarder) context.Context {
	return context.WithValue(ctx, forwarderKey{}, f)
}

// Forward carries out a command on the node that a fault names, and stores its result
// in what result points to. If there is no such node, or no way to it, it returns the
// fault.
func Forward(ctx context.Context, p Params, why error, result any) error {
	f, ok := errors.AsType[*fault.Error](why)
	forward, can := ctx.Value(forwarderKey{}).(Forwarder)
	if !ok || !can || f.Elsewhere == "" {
		return why
	}
	raw, err := forward(ctx, p, why)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the node that owns the session gave an answer that can't be read")
	}
	return nil
}
