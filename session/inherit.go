package session

import (
	"context"
	"fmt"
	"slices"

	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// keepInherited bounds the turns that a fork lists of those that it inherits. The
// facts have all of them.
const keepInherited = 20

// past is what a thread did up to a fact, read from the newest fact to the oldest.
type past struct {
	at event.ForkPoint
	// turns are the newest ones that were not taken back, oldest first; more says that
	// there are older ones.
	turns []event.InheritedTurn
	more  bool
	// gone are the turns that were taken back, ends how the others ended, and open
	// those that were started and whose submission was not met yet.
	gone map[string]bool
	ends map[string]event.InheritedTurn
	open map[string]bool
	// lost counts the turns that the thread itself inherited and that were taken back.
	lost int64
}

// inheritedTurns lists the newest turns of a thread as they were at a fact: what a fork at
// that fact inherits. It reads back as far as these turns reach, not the whole history.
func (r *request) inheritedTurns(ctx context.Context, at *event.ForkPoint) (*past, error) {
	p := &past{at: *at, gone: map[string]bool{}, ends: map[string]event.InheritedTurn{}, open: map[string]bool{}}
	for rec, err := range r.m.opt.Store.Read(ctx, at.SessionID, store.Range{Before: at.Sequence + 1, Reverse: true}) {
		if err != nil {
			return nil, storeFault(err)
		}
		done, err := p.read(ctx, r.m.opt.Store, rec)
		if err != nil {
			return nil, storeFault(fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, at.SessionID, rec.Sequence, err))
		}
		if done {
			break
		}
	}
	slices.Reverse(p.turns)
	return p, nil
}

// read takes a fact and reports whether none before it matters.
func (p *past) read(ctx context.Context, contents store.Contents, rec store.Record) (done bool, err error) {
	var e event.Event
	payload, err := event.DecodeHeader(rec.Data, &e)
	if err != nil {
		return false, err
	}
	if e.ThreadID != p.at.ThreadID || !tellsOfTurns(e.Type) {
		return false, nil
	}
	if err := store.DecodeFactPayload(ctx, contents, &e, payload); err != nil {
		return false, err
	}
	switch x := e.Payload.(type) {
	case *event.RollbackCompleted:
		for _, id := range x.RemovedTurns[min(int(max(0, x.InheritedTurns)), len(x.RemovedTurns)):] {
			p.gone[id] = true
		}
		p.lost += max(0, x.InheritedTurns)
	case *event.TurnCompleted:
		p.ends[e.TurnID] = event.InheritedTurn{
			Status: state.TurnCompleted, Outcome: x.Outcome, Steps: x.Steps, Usage: x.Usage, CostUSD: x.CostUSD,
			RunID: e.RunID, EndSequence: e.Sequence, CompletedAt: e.Time,
		}
	case *event.TurnFailed:
		p.ends[e.TurnID] = event.InheritedTurn{
			Status: x.Status, Outcome: x.Outcome, FailureCategory: x.FailureCategory, Steps: x.Steps, Usage: x.Usage, CostUSD: x.CostUSD,
			RunID: e.RunID, EndSequence: e.Sequence, CompletedAt: e.Time,
		}
	case *event.TurnStarted:
		p.started(&e)
	case *event.TurnSubmitted:
		p.submitted(&e, x)
	case *event.HistoryWindowLoaded:
		p.before(x)
	}
	return p.more && len(p.open) == 0, nil
}

// tellsOfTurns reports whether facts of a type say which turns a thread has.
func tellsOfTurns(t event.Type) bool {
	switch t { //nolint:exhaustive // the rest is what happened in them
	case event.TypeTurnSubmitted, event.TypeTurnStarted, event.TypeTurnCompleted, event.TypeTurnFailed,
		event.TypeHistoryRollbackCompleted, event.TypeHistoryWindowLoaded:
		return true
	}
	return false
}

func (p *past) started(e *event.Event) {
	if p.gone[e.TurnID] {
		return
	}
	if len(p.turns) == keepInherited {
		p.more = true
		return
	}
	x, ended := p.ends[e.TurnID]
	if !ended {
		x.Status, x.RunID = state.Stale, e.RunID
	}
	x.TurnID, x.SessionID, x.ThreadID, x.TaskID = e.TurnID, p.at.SessionID, p.at.ThreadID, e.TaskID
	x.StartedAt = e.Time
	p.turns = append(p.turns, x)
	p.open[e.TurnID] = true
}

func (p *past) submitted(e *event.Event, x *event.TurnSubmitted) {
	if !p.open[e.TurnID] {
		return
	}
	delete(p.open, e.TurnID)
	i := slices.IndexFunc(p.turns, func(t event.InheritedTurn) bool { return t.TurnID == e.TurnID })
	t := &p.turns[i]
	t.Source, t.Preview, t.SubmittedSequence, t.SubmittedAt = x.Source, x.Preview, e.Sequence, e.Time
}

// before adds the turns that the thread inherited itself, but for those that were
// taken back: these were the newest.
func (p *past) before(x *event.HistoryWindowLoaded) {
	list := x.Turns[:len(x.Turns)-int(min(p.lost, int64(len(x.Turns))))]
	for _, t := range slices.Backward(list) {
		if len(p.turns) == keepInherited {
			p.more = true
			return
		}
		p.turns = append(p.turns, t)
	}
	p.more = p.more || x.MoreTurns
}
