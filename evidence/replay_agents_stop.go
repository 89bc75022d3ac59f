package evidence

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"agentd/event"
)

// bornOf notes whose child a subagent is.
func (r *recording) bornOf(e *event.Event, p *event.SubagentSpawned) {
	f := &r.act
	child := &turnFacts{thread: p.ChildThreadID, parent: p.ParentThreadID, main: p.ParentThreadID, agent: e.SubagentID, depth: p.Depth}
	if parent := f.on[p.ParentThreadID]; parent != nil {
		child.main = parent.main
	}
	f.on[p.ChildThreadID] = child
}

// agentOf returns the subagent whose step a fact is. That it is to stop is none: it is done
// to it, and facts of older versions don't name it.
func agentOf(e *event.Event) string {
	if e.Type == event.TypeTurnInterruptRequested {
		return ""
	}
	return e.SubagentID
}

// limitAgentBetween says that a subagent was stopped where a replay can't hold it.
const limitAgentBetween = "a subagent was stopped between two steps"

// agentStands follows what a subagent waits for. It is told of a fact before the fact
// is collected.
func (r *recording) agentStands(e *event.Event) {
	f := r.act.turnFacts
	defer f.steps(e)
	switch p := e.Payload.(type) {
	case *event.TurnStarted:
		f.starts(e.TurnID)
		f.open, f.cutting = nil, nil
	case *event.TurnCompleted, *event.TurnFailed:
		f.running, f.accepted, f.open, f.stopped, f.told = "", "", nil, false, false
	case *event.ModelRequested:
		r.agentOpens(p.ModelRequestID)
	case *event.ModelCompleted:
		if f.stopped {
			r.limit("an answer ended while its turn was interrupted")
		}
		r.agentGot(p.ModelRequestID)
	case *event.ModelFailed:
		r.agentGot(p.ModelRequestID)
	case *event.ToolStarted:
		r.agentOpens(e.ToolCallID)
	case *event.ToolResult, *event.ToolFailed:
		r.agentGot(e.ToolCallID)
	case *event.ActionRequired:
		delete(f.open, e.ToolCallID) // it is the answer that is waited for
		r.agentOpens(e.ActionID)
	case *event.ActionResolved:
		r.agentGot(e.ActionID)
	case *event.HookStarted:
		r.agentOpens(p.HookRunID)
	case *event.HookCompleted:
		r.outlasted(p.HookRunID)
		r.agentGot(p.HookRunID)
	case *event.HookFailed:
		r.agentGot(p.HookRunID)
	}
}

// agentOpens notes that a subagent waits for something. One that was told to stop asks
// for nothing.
func (r *recording) agentOpens(id string) {
	if r.act.told {
		r.limit(limitAgentBetween)
	}
	r.opens(id)
}

// agentGot notes that something came which a subagent waited for. After who it works for
// was stopped, a replay holds that back until the subagent was told, too.
func (r *recording) agentGot(id string) {
	f := r.act.turnFacts
	if f.stopped && !f.told && f.open[id] {
		r.limit(limitAgentBetween)
	}
	delete(f.open, id)
}

// stopsBelow takes the wish to stop a turn for the subagents that work for its thread:
// the scheduler passes it on, also in a replay.
func (r *recording) stopsBelow(thread, by string) {
	for _, on := range r.act.on {
		if on.parent != thread || on.agent == "" || on.stopped || cmp.Or(on.running, on.accepted) == "" {
			continue
		}
		on.stopped, on.stoppedBy = true, by
		r.stopsBelow(on.thread, by)
	}
}

// stopsToo takes that a subagent is told to stop because who it works for was. It may have
// gone on until then: so in a replay that one is stopped once this one came as far.
func (r *recording) stopsToo(f *turnFacts, turnID string) {
	i := slices.IndexFunc(r.c.Acts, func(a CaseAct) bool { return a.EventID == f.stoppedBy })
	a := r.projected.agents[f.agent]
	if i < 0 || a == nil || f.told || !r.agentHolds(f, turnID) {
		r.limit(limitAgentBetween)
		return
	}
	f.told, f.cutting = true, maps.Clone(f.open)
	for of, n := range r.projected.reached {
		if strings.HasPrefix(of, a.prefix) && r.c.Acts[i].After != nil {
			r.c.Acts[i].After[of] = n
		}
	}
	r.stopsBelow(f.thread, f.stoppedBy) // those that it started in the meantime
}

// agentInterrupted takes the wish to stop the turn of a subagent. If who it works for was
// stopped, it follows from that.
func (r *recording) agentInterrupted(e *event.Event, p *event.TurnInterruptRequested) {
	f := r.act.turnFacts
	switch {
	case cmp.Or(f.running, f.accepted) != e.TurnID:
		r.limit(limitAgentChanged)
	case f.stopped:
		r.stopsToo(f, e.TurnID)
	case !r.agentHolds(f, e.TurnID):
		r.limit(limitAgentBetween)
	default:
		f.stopped, f.told, f.cutting = true, true, maps.Clone(f.open)
		r.stopsBelow(f.thread, e.ID)
		r.agentAct(e, CaseAct{Kind: ActInterrupt, TurnID: e.TurnID, Reason: p.Reason, Cause: p.Cause})
	}
}

// agentAct appends what was done to a subagent.
func (r *recording) agentAct(e *event.Event, a CaseAct) {
	a.SubagentID = r.act.agent
	after := r.place()
	if after == nil {
		after = map[string]int{}
	}
	maps.Copy(after, r.agentsPlace()) // also those whose turn is over
	r.done(e, a, after)
}

// agentsPlace is what was reached of all subagents; nil if there are none.
func (r *recording) agentsPlace() map[string]int {
	var out map[string]int
	for k, n := range r.projected.reached {
		if !strings.Contains(k, "agent") {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[k] = n
	}
	return out
}

// agentGoesOn reports whether a subagent is about to do what its last answer wants.
func (r *recording) agentGoesOn() bool {
	for _, on := range r.act.on {
		if on.agent != "" && on.running != "" && on.calls > 0 && len(on.open) == 0 {
			return true
		}
	}
	return false
}

// agentEnded takes the end of a subagent. One that was stopped by it was stopped for
// good, and so were those who worked for it.
func (r *recording) agentEnded(p *event.SubagentEnded) {
	f := r.act.turnFacts
	if f.closed = p.Status == "closed"; !f.closed {
		return
	}
	n := len(r.c.Acts) - 1
	if n < 0 || r.c.Acts[n].SubagentID != f.agent || r.c.Acts[n].Kind != ActInterrupt {
		return
	}
	r.c.Acts[n].Kind = ActClose
	for n > 0 && r.c.Acts[n-1].Kind == ActClose && r.c.Acts[n-1].Reason == closedWith+r.c.Acts[n].Reason && r.worksFor(r.c.Acts[n-1].SubagentID, f.thread) {
		r.c.Acts[n].After = r.c.Acts[n-1].After // before any of them had ended
		r.c.Acts = slices.Delete(r.c.Acts, n-1, n)
		n--
	}
}

// closedWith begins the reason of the end of a subagent that ends because the one that it
// works for does.
const closedWith = "its parent was closed: "

// worksFor reports whether a subagent works for a thread.
func (r *recording) worksFor(agent, thread string) bool {
	for _, on := range r.act.on {
		if on.agent == agent && on.parent != "" {
			parent := r.act.on[on.parent]
			return on.parent == thread || parent != nil && parent.agent != "" && r.worksFor(parent.agent, thread)
		}
	}
	return false
}

// agentSteered takes input that is added to the turn of a subagent. What it waits for must
// be held until then.
func (r *recording) agentSteered(e *event.Event) {
	f := r.act.turnFacts
	if f.running != e.TurnID || len(f.open) == 0 {
		r.limit(limitAgentBetween)
		return
	}
	f.given = e.TurnID
}

// agentCompacts takes a compaction of what a subagent said, which somebody asked for.
func (r *recording) agentCompacts(e *event.Event, p *event.CompactionStarted) {
	f := r.act.turnFacts
	switch {
	case p.Trigger != triggerRequested:
	case f.running != "" || f.accepted != "":
		r.limit("what a subagent said was compacted while it worked")
	default:
		r.agentAct(e, CaseAct{Kind: ActCompact, TurnID: e.TurnID})
	}
	r.bounds(e)
}

// agentGiven takes the input that a subagent was given. One that was closed can only be
// told to go on.
func (r *recording) agentGiven(e *event.Event, p *event.SubagentMessage) {
	f := r.act.turnFacts
	if e.Type != event.TypeSubagentInput || f.given == "" || f.given != e.TurnID {
		return
	}
	f.given = ""
	a := CaseAct{Kind: ActInput, TurnID: e.TurnID, Input: p.Input}
	if len(a.Input) == 0 && !r.readInto(p.MessageRef, &a.Input) {
		r.limit("a large input is only there as its preview")
	}
	if f.closed {
		a.Kind, a.Input = ActResume, nil
	}
	f.closed = false
	r.agentAct(e, a)
}
