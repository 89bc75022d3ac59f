package session

import (
	"context"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// queued is a waiting turn in a queue that is being put together.
type queued struct{ turnID, source string }

func queueIDs(t *state.Thread) []queued {
	out := make([]queued, len(t.Queue))
	for i, q := range t.Queue {
		out[i] = queued{q.TurnID, q.Source}
	}
	return out
}

func queueEntries(waiting []queued) []event.QueueEntry {
	out := make([]event.QueueEntry, len(waiting))
	for i, q := range waiting {
		out[i] = event.QueueEntry{TurnID: q.turnID, Position: int64(i + 1), Source: q.source}
	}
	return out
}

// queueFact completes a queue.changed with the whole queue.
func queueFact(threadID string, waiting []queued, p *event.QueueChanged) event.Event {
	p.Queue = queueEntries(waiting)
	return event.Event{Type: event.TypeQueueChanged, Scope: event.Scope{ThreadID: threadID}, Payload: p}
}

// QueueStarted returns the fact that a turn left its thread's queue to run.
func QueueStarted(t *state.Thread, turnID string) event.Event {
	rest := make([]queued, 0, len(t.Queue))
	for _, q := range t.Queue {
		if q.TurnID != turnID {
			rest = append(rest, queued{q.TurnID, q.Source})
		}
	}
	return queueFact(t.ThreadID, rest, &event.QueueChanged{Reason: "started", TurnID: turnID})
}

func (r *request) removeQueuedTurn(ctx context.Context, p *command.RemoveQueuedTurn) (*command.QueueResult, error) {
	return mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.QueueResult, error) {
		t, err := threadOfQueued(tx.State, p.TurnID)
		if err != nil {
			return nil, err
		}
		rest, err := r.cancelQueued(tx, t, p.TurnID, "removed from the queue")
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the queue could not be changed")
		}
		return &command.QueueResult{Queue: queueEntries(rest)}, nil
	})
}

func (r *request) promoteQueuedTurn(ctx context.Context, p *command.PromoteQueuedTurn) (*command.QueueResult, error) {
	return mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.QueueResult, error) {
		t, err := threadOfQueued(tx.State, p.TurnID)
		if err != nil {
			return nil, err
		}
		order := promoted(queueIDs(t), p.TurnID, int(max(p.Position, 1)))
		tx.Emit(queueFact(t.ThreadID, order, &event.QueueChanged{Reason: "promoted", TurnID: p.TurnID, ChangedBy: r.actor()}))
		return &command.QueueResult{Queue: queueEntries(order)}, nil
	})
}

// promoted returns the queue with one turn at a position, from 1; a position past
// the end is the end.
func promoted(waiting []queued, turnID string, position int) []queued {
	var moved queued
	rest := make([]queued, 0, len(waiting))
	for _, q := range waiting {
		if q.turnID == turnID {
			moved = q
			continue
		}
		rest = append(rest, q)
	}
	at := min(position-1, len(rest))
	return append(rest[:at:at], append([]queued{moved}, rest[at:]...)...)
}

// threadOfQueued returns the thread in whose queue a turn waits. A turn that is
// known but doesn't wait any more is a conflict.
func threadOfQueued(st *state.Session, turnID string) (*state.Thread, error) {
	for _, t := range st.Threads {
		for _, q := range t.Queue {
			if q.TurnID == turnID {
				return t, nil
			}
		}
		if t.Active != nil && t.Active.TurnID == turnID {
			return nil, fault.New(fault.Conflict, "turn %s is running, not queued; use interrupt_turn", turnID)
		}
		for _, d := range t.Recent {
			if d.TurnID == turnID {
				return nil, fault.New(fault.Conflict, "turn %s is %s, not queued", turnID, d.Status)
			}
		}
	}
	return nil, fault.New(fault.NotFound, "there is no queued turn %s in session %s", turnID, st.SessionID)
}
