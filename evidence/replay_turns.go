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
	f.starts(r.c.Turns[i].TurnID)
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
	f.running, f.endedTurn, f.open, f.retrying = "", e.TurnID, nil, false
	if f.unexplained {
		r.limit("an action was cancelled")
	}
}

// takenFromQueue takes the end of a turn that never started. A replay submits it just
// before that, behind the turn that runs: what else waited there it submits later.
func (r *recording) takenFromQueue(e *event.Event, i int, failed *event.TurnFailed) {
	f := &r.act
	t := r.c.Turns[i]
	t.Unstarted = true
	a := CaseAct{Kind: ActQueued, TurnID: e.TurnID}
	if failed.Error != nil {
		a.Reason = failed.Error.Message
	}
	asks := f.routed && f.before == nil && !f.stopped // it is about to, and waits then
	switch taken := failed.FailureCategory == "interrupted"; {
	case taken && f.running != "" && (r.waits() || asks):
	case taken && (r.takenAlong(e, a) || r.takenBefore(e, a)):
		return
	default:
		r.limit("a turn was taken from the queue")
		return
	}
	r.done(e, a, r.place())
	if n := len(r.c.Acts) - 1; n > 0 && r.c.Acts[n-1].Kind == ActInterrupt && r.c.Acts[n-1].TurnID == f.running {
		// The interrupt cleared the queue: what waits behind a turn that ends would start.
		r.c.Acts[n-1], r.c.Acts[n] = r.c.Acts[n], r.c.Acts[n-1]
		r.c.Acts[n-1].After = r.c.Acts[n].After
	}
}

// takenAlong takes the end of a turn that waited behind one which was interrupted, and was
// taken from the queue when that one ended. Nothing else began in between: so it may
// as well be taken before, while there is a turn to wait behind.
func (r *recording) takenAlong(e *event.Event, a CaseAct) bool {
	n := len(r.c.Acts) - 1
	if n < 0 || r.c.Acts[n].Kind != ActInterrupt {
		return false
	}
	stop := r.c.Acts[n]
	if stop.TurnID != cmp.Or(r.act.running, r.act.endedTurn) || stop.numbered != r.projected.numbered {
		return false
	}
	a.EventID, a.Turns, a.After, a.during, a.numbered = e.ID, stop.Turns, stop.After, stop.during, stop.numbered+1
	r.c.Acts = slices.Insert(r.c.Acts, n, a)
	r.c.Acts[n+1].numbered++
	for _, list := range r.counts() {
		for _, count := range list {
			if *count > n {
				*count++
			}
		}
	}
	return true
}

// takenBefore takes the end of a turn that waited behind one which had just got something,
// or has ended since. It may as well be taken before that came, while the other waits.
func (r *recording) takenBefore(e *event.Event, a CaseAct) bool {
	f := &r.act
	if f.before == nil || f.stopped || f.numbered != r.projected.numbered {
		return false
	}
	count := f.came()
	if count == nil || *count != len(r.c.Acts) {
		return false
	}
	r.done(e, a, f.before)
	r.c.Acts[len(r.c.Acts)-1].during = cmp.Or(f.running, f.endedTurn)
	*count = len(r.c.Acts)
	return true
}

// inOrder puts the turns into the order of their numbers, those that were never taken up
// behind the others. When peers came and went is told by how many turns were submitted,
// which then says nothing. Subagents follow those that had a number.
func (r *recording) inOrder() {
	if p := r.c.Parties; r.act.reordered && p != nil {
		if len(p.Peers) > 0 {
			r.limit(limitOrder)
		}
		for _, a := range p.Agents {
			if a.Spawn != nil {
				a.Spawn.When.Turns = a.Spawn.numbered
			}
		}
	}
	place := func(t *CaseTurn) int {
		if n := r.projected.turns[t.TurnID]; n > 0 {
			return n
		}
		return math.MaxInt
	}
	slices.SortStableFunc(r.c.Turns, func(a, b *CaseTurn) int { return cmp.Compare(place(a), place(b)) })
}
