package command

import (
	"agentd/event"
	"agentd/fault"
)

// SubmitTurn accepts or queues a turn.
type SubmitTurn struct {
	Mutation
	// SessionID of the turn; a new session is opened if absent.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Create creates the session if it doesn't exist.
	Create bool `json:"create,omitempty"`
	// ThreadID of the turn; the session's main thread if absent.
	ThreadID string `json:"threadId,omitempty" check:"id"`
	// TurnID is the turn's id; made if absent. The same id again gives the first
	// result and no second turn.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// Input is a text, or a list of parts.
	Input event.Raw `json:"input" as:"input"`
	// Options are the choices for this turn.
	Options *event.TurnOptions `json:"options,omitempty"`
	// TaskID is the task that the turn works on; one of its own if absent.
	TaskID string `json:"taskId,omitempty" check:"id"`
	// Metadata is the caller's own, kept as it is.
	Metadata event.Raw `json:"metadata,omitempty" check:"object" max:"16384"`
	// ChannelID is the channel that the input came through; it is recorded as the
	// turn's source.
	ChannelID string `json:"channelId,omitempty" check:"id"`
	// Peer says that the turn is work that a peer gave us.
	Peer *PeerStep `json:"peer,omitempty"`
}

// Command implements [Params].
func (*SubmitTurn) Command() Name             { return "submit_turn" }
func (*SubmitTurn) returns(*SubmitTurnResult) {}

// NewID implements [Creating].
func (p *SubmitTurn) NewID() (noun, id string) { return "turn", p.TurnID }

// Validate implements [Params]. It brings the input into its normal form: a
// list of parts.
func (p *SubmitTurn) Validate() error {
	if p.SessionID == event.RuntimeSession {
		return fault.Param("sessionId", "%s is the runtime's own session and accepts no turns; use another session", event.RuntimeSession)
	}
	if err := firstError(check(p), p.options()); err != nil {
		return err
	}
	parts, err := normalInput(p.Input)
	if err != nil {
		return err
	}
	p.Input = parts
	return nil
}

// options checks what the tags of the options can't say.
func (p *SubmitTurn) options() error {
	o := p.Options
	switch {
	case o == nil:
		return nil
	case o.ExpectedTurnID != "" && !event.ValidID(o.ExpectedTurnID):
		return fault.Param("options.expectedTurnId", "%q is not an id", clipQuoted(o.ExpectedTurnID))
	case o.ExpectedTurnID != "" && o.QueuePolicy != "steer":
		return fault.Param("options.expectedTurnId", "is only allowed with queuePolicy steer")
	case len(o.OutputSchema) > 0 && o.OutputSchema[0] != '{':
		return fault.Param("options.outputSchema", "is not a JSON object")
	}
	return nil
}

// SubmitTurnResult is the durable acceptance of a turn.
type SubmitTurnResult struct {
	// SessionID of the turn.
	SessionID string `json:"sessionId"`
	// ThreadID of the turn.
	ThreadID string `json:"threadId"`
	// TurnID is the turn's id.
	TurnID string `json:"turnId"`
	// TaskID is the task that the turn belongs to.
	TaskID string `json:"taskId"`
	// RunID is the task's run that the turn belongs to.
	RunID string `json:"runId"`
	// Status is accepted or queued. A turn that steers another one is accepted
	// into it: the ids are then those of the running turn.
	Status string `json:"status" enum:"@turnAccepted"`
	// Position in the queue, from 1, when queued.
	Position int64 `json:"position,omitempty"`
	// Sequence of turn.submitted; of turn.steered, if the turn steers another one.
	Sequence uint64 `json:"sequence"`
}

// InterruptTurn stops a turn.
type InterruptTurn struct {
	Mutation
	// SessionID of the turn.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID of the turn; the session's main thread if absent.
	ThreadID string `json:"threadId,omitempty" check:"id"`
	// TurnID is the turn to stop; the running one if absent.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Queue says what becomes of the turns that wait: keep (default) or clear.
	Queue string `json:"queue,omitempty" enum:"@queueAfterInterrupt"`
	// Peer says that a peer wants its task stopped.
	Peer *PeerStep `json:"peer,omitempty"`
}

// Command implements [Params].
func (*InterruptTurn) Command() Name                { return "interrupt_turn" }
func (*InterruptTurn) returns(*InterruptTurnResult) {}

// Validate implements [Params].
func (p *InterruptTurn) Validate() error { return check(p) }

// InterruptTurnResult says whether something was there to stop.
type InterruptTurnResult struct {
	// Interrupted says that a turn was running and is stopped now.
	Interrupted bool `json:"interrupted"`
	// TurnID is that turn.
	TurnID string `json:"turnId,omitempty"`
}

// RemoveQueuedTurn takes a waiting turn out of the queue.
type RemoveQueuedTurn struct {
	Mutation
	// SessionID of the turn.
	SessionID string `json:"sessionId" check:"id"`
	// TurnID is the turn that waits.
	TurnID string `json:"turnId" check:"id"`
}

// Command implements [Params].
func (*RemoveQueuedTurn) Command() Name        { return "remove_queued_turn" }
func (*RemoveQueuedTurn) returns(*QueueResult) {}

// Validate implements [Params].
func (p *RemoveQueuedTurn) Validate() error { return check(p) }

// PromoteQueuedTurn moves a waiting turn.
type PromoteQueuedTurn struct {
	Mutation
	// SessionID of the turn.
	SessionID string `json:"sessionId" check:"id"`
	// TurnID is the turn that waits.
	TurnID string `json:"turnId" check:"id"`
	// Position from 1; default the front.
	Position int64 `json:"position,omitempty"`
}

// Command implements [Params].
func (*PromoteQueuedTurn) Command() Name        { return "promote_queued_turn" }
func (*PromoteQueuedTurn) returns(*QueueResult) {}

// Validate implements [Params].
func (p *PromoteQueuedTurn) Validate() error { return check(p) }

// QueueResult is a thread's queue after a change.
type QueueResult struct {
	// Queue lists the turns that wait, the next one first.
	Queue []event.QueueEntry `json:"queue"`
}
