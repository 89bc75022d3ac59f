package evidence

import (
	"maps"
	"slices"
	"time"

	"agentd/event"
)

// outside takes what was done to the session from outside.
func (r *recording) outside(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSteered:
		r.steered(e, p)
	case *event.TurnInterruptRequested:
		r.interrupted(e, p)
	case *event.PolicyChanged:
		r.policyChanged(e, p)
	case *event.CompactionStarted:
		r.compactionAsked(e, p)
	case *event.ThreadStarted:
		r.threadStarts(e, p)
	case *event.RollbackStarted:
		r.rolledBack(e, p)
	case *event.RollbackCompleted:
		r.inheritedFiles(p)
	}
}

// beyond takes facts outside of the scope that hold for all turns: the rules.
func (r *recording) beyond(e *event.Event) {
	p, ok := e.Payload.(*event.PolicyChanged)
	if !ok || e.SubagentID != "" {
		return
	}
	if r.scope.TurnID != "" && len(r.c.Turns) > 0 && r.c.Turns[0].ended {
		return // it came after the turn
	}
	r.turnTo(e)
	r.policyChanged(e, p)
	r.projected.Take(e)
}

// steered takes input that was added to a turn. The next call of the model takes it
// up: so one that came between two steps may as well come before what the turn got
// last.
func (r *recording) steered(e *event.Event, p *event.TurnSteered) {
	f := &r.act
	a := CaseAct{Kind: ActSteer, TurnID: e.TurnID, Input: p.Input, Options: p.Options}
	if len(a.Input) == 0 && !r.read(p.InputRef, &a.Input) {
		r.limit("a large input is only there as its preview")
		a.Input, _ = plainJSON(p.Preview) // a string always encodes
	}
	switch {
	case e.TurnID != f.running:
		r.limit("a turn was steered before it started")
	case r.waits():
		r.done(e, a, r.place())
	case f.before != nil:
		r.done(e, a, f.before)
		if n := f.came(); n != nil {
			*n = len(r.c.Acts)
		}
	default:
		r.limit("a turn was steered before it asked for anything")
	}
}

// interrupted takes the wish to stop a turn.
func (r *recording) interrupted(e *event.Event, p *event.TurnInterruptRequested) {
	f := &r.act
	a := CaseAct{Kind: ActInterrupt, TurnID: e.TurnID, Reason: p.Reason, Cause: p.Cause}
	n := len(r.c.Answers) - 1
	again := f.retrying && !f.limited && len(f.open) == 0 && n >= 0 && r.c.Answers[n].TurnID == e.TurnID && !r.hasAgents()
	switch {
	case r.enters(e.TurnID):
		if r.projected.turns[e.TurnID] == 0 {
			a.Before = BeforeStart
		}
		r.takenUp(slices.Index(r.c.Turns, r.turns[e.TurnID]))
	case r.party.open[e.TurnID]:
		r.agentInterrupted(e, p)
		return
	case e.TurnID != f.running:
		r.limit(limitBetween)
		return
	case r.waits():
	case again:
		r.c.Answers[n].Held = true
	case r.between(f.turnFacts) != "":
		a.Before, a.Calls = r.between(f.turnFacts), f.calls
	default:
		r.limit(limitBetween)
		return
	}
	f.stopped, f.cutting = true, maps.Clone(f.open)
	r.stopsBelow(f.thread, e.ID)
	r.done(e, a, r.place())
}

// limitBetween says that a replay can't hold a turn where it was interrupted.
const limitBetween = "a turn was interrupted between two steps"

// enters reports whether a turn is the next to start, and stands where a replay can
// hold it: nothing was done about it and nothing else is under way, or a hook is asked.
// Only the turn that a thread is at can be interrupted; another one is taken from the
// queue.
func (r *recording) enters(turnID string) bool {
	f := &r.act
	t := r.turns[turnID]
	if f.running != "" || t == nil || t.started || t.ended {
		return false
	}
	return r.projected.turns[turnID] == 0 && !r.waits() || turnID == f.entering && f.open[f.enteringHook]
}

// hasAgents reports whether subagents had a part.
func (r *recording) hasAgents() bool { return r.c.Parties != nil && len(r.c.Parties.Agents) > 0 }

// isOwnPolicy reports whether a source is one whose policy is a session's own.
func isOwnPolicy(source string) bool { return source == "session" || source == "workspace" }

// setsPolicy reports whether a replay sets the policy that a fact tells of. The answer
// to a question that changes it is given again.
func setsPolicy(p *event.PolicyChanged) bool {
	return p.ApprovalActionID == "" && p.Workspace == "" && isOwnPolicy(p.Source)
}

// policyChanged takes other rules, or another mode.
func (r *recording) policyChanged(e *event.Event, p *event.PolicyChanged) {
	if !setsPolicy(p) {
		return
	}
	if r.act.running != "" && !r.waits() || r.agentGoesOn() {
		r.limit("the rules changed between two steps of a turn")
		return
	}
	r.done(e, CaseAct{Kind: ActPolicy, Reason: p.Reason, Policy: &CasePolicy{Source: p.Source, Mode: p.Mode, Rules: append([]event.PolicyRule{}, p.Rules...), Held: p.Held}}, r.place())
}

// compactionAsked takes a compaction that somebody asked for.
func (r *recording) compactionAsked(e *event.Event, p *event.CompactionStarted) {
	if p.Trigger != triggerRequested {
		return
	}
	if r.act.running != "" && !r.waits() {
		r.limit("a compaction was asked for between two steps of a turn")
		return
	}
	r.done(e, CaseAct{Kind: ActCompact, Thread: r.beside(e.ThreadID)}, r.place())
}

// limitTakenBack says that a rollback can't be done again.
const limitTakenBack = "turns before the recording were taken back"

// rolledBack takes turns that were taken back. Those that a fork inherited are none of the
// recording's: the fact itself has to tell of them.
func (r *recording) rolledBack(e *event.Event, p *event.RollbackStarted) {
	a := CaseAct{Kind: ActRollback, Thread: r.beside(e.ThreadID), TurnID: applicable(p.ToTurnID), Files: p.Files, Force: p.Force}
	known := a.TurnID == "" || slices.ContainsFunc(r.c.Turns, func(t *CaseTurn) bool { return t.TurnID == a.TurnID && t.started })
	if p.Origin != nil {
		known = r.inherits(p)
	}
	if r.act.running != "" || !known {
		r.limit(limitTakenBack)
		return
	}
	r.done(e, a, nil)
}

// grantEnd is an approval that ends with the time.
type grantEnd struct {
	at   time.Time
	gone bool
}

// granted takes an approval that ends.
func (r *recording) granted(p *event.PermissionResolved) {
	if !p.ExpiresAt.IsZero() && p.GrantID != "" && len(r.c.Decisions) > 0 {
		r.act.grants = append(r.act.grants, grantEnd{at: p.ExpiresAt})
		r.c.Decisions[len(r.c.Decisions)-1].Expires = true
	}
}

// grantsHold holds that no approval ended while a turn ran, as far as it mattered.
func (r *recording) grantsHold(e *event.Event) {
	for _, g := range r.act.grants {
		if !g.gone && !e.Time.Before(g.at) {
			r.limit("an approval ended while a turn ran")
		}
	}
}

// grantsEnd takes the approvals that ended before a turn started. A replay lets them
// end together.
func (r *recording) grantsEnd(e *event.Event) {
	ended, hold := false, false
	for i := range r.act.grants {
		switch g := &r.act.grants[i]; {
		case g.gone:
		case e.Time.Before(g.at):
			hold = true
		default:
			g.gone, ended = true, true
		}
	}
	if ended && hold {
		r.limit("some approvals ended and others did not")
	}
	if ended {
		r.done(e, CaseAct{Kind: ActTime}, nil)
	}
}

// unanswered takes an action that ended without an answer. One that was cancelled
// ended with its turn, which something else stopped.
func (r *recording) unanswered(d *CaseDecision, p *event.ActionResolved) {
	if d.Status = p.Status; p.Status == "cancelled" && !r.act.stopped {
		r.act.unexplained = true
	}
}
