package evidence

import (
	"cmp"
	"math"
	"slices"

	"agentd/event"
)

// turnStarts takes the start of a turn. A replay submits the turns one after the other
// in this order. One whose hooks were asked must be the one that starts then: others
// in between would have been asked about, too.
func (r *recording) turnStarts(e *event.Event) {
	f := &r.act
	r.grantsEnd(e)
	i := slices.IndexFunc(r.c.Turns, func(t *CaseTurn) bool { return t.TurnID == e.TurnID })
	if i < 0 {
		return
	}
	if n := r.projected.turns[e.TurnID]; n > 0 && n != r.projected.numbered {
		r.limit(limitOrder)
	}
	r.takenUp(i)
	f.open, f.stopped = nil, false
}

// limitOrder says that a replay, which submits turns one after the other, can't have
// them start as they did.
const limitOrder = "turns started in another order than they were submitted"

// takenUp notes that the turn at a place runs from now on.
func (r *recording) takenUp(i int) {
	f := &r.act
	f.reordered = f.reordered || i < f.last
	f.last = max(f.last, i)
	r.c.Turns[i].started = true
	f.started++
	f.running, f.entering = r.c.Turns[i].TurnID, ""
	f.calls, f.routed, f.retrying, f.limited = 0, false, false, false
	f.before, f.came, f.trail = nil, nil, nil
}

// entered takes a hook that is asked about a turn before it starts.
func (r *recording) entered(turnID, hookRunID string) {
	if r.act.running == "" && r.turns[turnID] != nil {
		r.act.entering, r.act.enteringHook = turnID, hookRunID
	}
}

// outlasted notes a hook that came to its end although its turn was interrupted before:
// a replay can't tell which of the two comes first.
func (r *recording) outlasted(hookRunID string) {
	if r.act.cutting[hookRunID] {
		r.limit("a hook ended while its turn was interrupted")
	}
}

// turnEnds takes the end of a turn; failed is nil if it ended well.
func (r *recording) turnEnds(e *event.Event, failed *event.TurnFailed) {
	f := &r.act
	i := slices.IndexFunc(r.c.Turns, func(t *CaseTurn) bool { return t.TurnID == e.TurnID })
	if i >= 0 && !r.c.Turns[i].started && failed != nil {
		r.takenFromQueue(e, i, failed)
		return
	}
	if e.TurnID != f.running {
		return
	}
	if failed != nil && failed.FailureCategory == "timed_out" && !f.stopped {
		r.outOfTime(e)
	}
	f.running, f.open, f.retrying = "", nil, false
	if f.unexplained {
		r.limit("an action was cancelled")
	}
}

// takenFromQueue takes the end of a turn that never started. A replay submits it just
// before that, so those that were submitted before must have started.
func (r *recording) takenFromQueue(e *event.Event, i int, failed *event.TurnFailed) {
	f := &r.act
	t := r.c.Turns[i]
	if t.Unstarted = true; f.running == "" || !r.waits() || i != f.started+f.queued || failed.FailureCategory != "interrupted" {
		r.limit("a turn was taken from the queue")
		return
	}
	f.queued++
	a := CaseAct{Kind: ActQueued, TurnID: e.TurnID}
	if failed.Error != nil {
		a.Reason = failed.Error.Message
	}
	r.done(e, a, r.place())
	if n := len(r.c.Acts) - 1; n > 0 && r.c.Acts[n-1].Kind == ActInterrupt && r.c.Acts[n-1].TurnID == f.running {
		// The interrupt cleared the queue: what waits behind a turn that ends would start.
		r.c.Acts[n-1], r.c.Acts[n] = r.c.Acts[n], r.c.Acts[n-1]
		r.c.Acts[n-1].After = r.c.Acts[n].After
	}
}

// inOrder puts the turns into the order of their numbers, those that were never taken up
// behind the others. When others came and went is told by how many turns were
// submitted, which then says nothing.
func (r *recording) inOrder() {
	if p := r.c.Parties; r.act.reordered && p != nil && len(p.Peers)+len(p.Agents) > 0 {
		r.limit(limitOrder)
	}
	place := func(t *CaseTurn) int {
		if n := r.projected.turns[t.TurnID]; n > 0 {
			return n
		}
		return math.MaxInt
	}
	slices.SortStableFunc(r.c.Turns, func(a, b *CaseTurn) int { return cmp.Compare(place(a), place(b)) })
}
