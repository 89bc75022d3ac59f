package evidence

import (
	"fmt"
	"maps"
	"slices"

	"agentd/event"
)

// CaseAgent is a subagent. Its turn is run again by the same scheduler; what it asked
// is among the answers, results and decisions.
type CaseAgent struct {
	EventID    string `json:"eventId"`
	SubagentID string `json:"subagentId"`
	// ToolCallID is the call that started it, TurnID the turn that it did. One without
	// a call was started from outside, as Spawn says.
	ToolCallID string     `json:"toolCallId,omitempty"`
	TurnID     string     `json:"turnId,omitempty"`
	Spawn      *CaseSpawn `json:"spawn,omitempty"`
}

// CaseSpawn is a wish from outside for a subagent.
type CaseSpawn struct {
	// ParentSubagentID and ParentTurnID say whose child it is; without them it is one
	// of the main thread.
	ParentSubagentID string           `json:"parentSubagentId,omitempty"`
	ParentTurnID     string           `json:"parentTurnId,omitempty"`
	Role             string           `json:"role,omitempty"`
	Nickname         string           `json:"nickname,omitempty"`
	Model            string           `json:"model,omitempty"`
	Input            event.Raw        `json:"input,omitempty"`
	Isolation        *event.Isolation `json:"isolation,omitempty"`
	When             Moment           `json:"when"`
}

// agentFacts are what a recording remembers of subagents: the call that started each,
// and the turns that have not ended.
type agentFacts struct {
	calls map[string]string
	open  map[string]bool
	// main is the thread of the turns.
	main string
}

// limitAgentChanged says that something was done to a subagent that isn't done again.
const limitAgentChanged = "a subagent was steered, interrupted or changed from outside"

// agent takes a fact of a subagent.
func (r *recording) agent(e *event.Event) {
	defer r.afterFact(e)
	r.projected.Take(e)
	switch p := e.Payload.(type) {
	case *event.SubagentSpawned:
		r.spawned(e, p)
	case *event.TurnSubmitted:
		r.agentTurn(e)
	case *event.TurnCompleted:
		delete(r.party.open, e.TurnID)
	case *event.TurnFailed:
		delete(r.party.open, e.TurnID)
		r.failed(p)
		if p.FailureCategory == "timed_out" {
			r.limit("a subagent ran out of time")
		}
	case *event.TurnSteered, *event.TurnInterruptRequested, *event.PolicyChanged, *event.RollbackStarted:
		r.limit(limitAgentChanged)
	case *event.ActionResolved:
		if p.Status != "resolved" {
			r.limit("a question of a subagent was not answered")
		}
		r.answers(e)
	case *event.ToolCatalogResolved:
		r.inventory(e.TurnID, p)
	case *event.RoutingCandidates:
		r.candidates(e, p)
	case *event.RoutingDecision:
		r.selected(p)
	default:
		r.others(e)
		r.bounds(e)
		r.answers(e)
	}
}

// spawned takes the start of a subagent.
func (r *recording) spawned(e *event.Event, p *event.SubagentSpawned) {
	if r.party.open == nil {
		r.party.calls, r.party.open = map[string]string{}, map[string]bool{}
	}
	switch call := applicable(e.ToolCallID); {
	case p.Peer != "":
		r.limit("another agent did a part of the work")
	case !r.scope.whole():
		r.limit("subagents are not run again") // their facts are not in the scope
	case call == "":
		r.spawnedOutside(e, p)
	default:
		r.party.calls[e.SubagentID] = call
	}
}

// spawnedOutside takes a subagent that no tool call started.
func (r *recording) spawnedOutside(e *event.Event, p *event.SubagentSpawned) {
	w := &CaseSpawn{
		ParentSubagentID: p.ParentSubagentID, ParentTurnID: p.ParentTurnID, Role: p.Role, Nickname: p.Nickname, Model: p.Model,
		Input: p.Input, Isolation: p.Isolation, When: r.now(),
	}
	if len(w.Input) == 0 && !r.readInto(p.InputRef, &w.Input) {
		r.limit("a large input is only there as its preview")
	}
	if p.ParentSubagentID == "" && p.ParentThreadID != r.party.main {
		r.limit("a subagent was started from outside before a turn, or in another thread")
	}
	r.parties().Agents = append(r.parties().Agents, CaseAgent{EventID: e.ID, SubagentID: e.SubagentID, Spawn: w})
}

// agentTurn takes the turn of a subagent.
func (r *recording) agentTurn(e *event.Event) {
	call, list := r.party.calls[e.SubagentID], r.parties().Agents
	i := slices.IndexFunc(list, func(a CaseAgent) bool { return a.SubagentID == e.SubagentID })
	switch {
	case i >= 0 && list[i].TurnID == "":
		list[i].TurnID = e.TurnID
	case i < 0 && call != "":
		r.parties().Agents = append(r.parties().Agents, CaseAgent{EventID: e.ID, SubagentID: e.SubagentID, ToolCallID: call, TurnID: e.TurnID})
	default:
		r.limit("a subagent was given more work from outside")
		return
	}
	r.party.open[e.TurnID] = true
}

// agentsEnd notes subagents that still work.
func (r *recording) agentsEnd() {
	if len(r.party.open) > 0 {
		r.limit("a subagent has not ended")
	}
}

// takeAgent adds a fact of a subagent to those of the call that started it.
func (p *Projection) takeAgent(e *event.Event) {
	if p.agents == nil {
		p.agents = map[string]*Projection{}
	}
	if s, ok := e.Payload.(*event.SubagentSpawned); ok {
		parent := p
		if a := p.agents[s.ParentSubagentID]; a != nil {
			parent = a
		}
		at := [2]int{} // from outside
		if call := applicable(e.ToolCallID); call != "" {
			turn := parent.turns[e.TurnID]
			at = [2]int{turn, parent.call(turn, call)}
		}
		child := &Projection{}
		p.agents[e.SubagentID] = child
		if parent.under == nil {
			parent.under = map[[2]int][]*Projection{}
		}
		parent.under[at] = append(parent.under[at], child)
		return
	}
	if a := p.agents[e.SubagentID]; a != nil {
		a.collect(e)
	}
}

// ofAgents returns the facts of the subagents that a call started; those that were
// started from outside are of no call and no turn.
func (p *Projection) ofAgents(turn, call int) []Fact {
	var out []Fact
	for i, a := range p.under[[2]int{turn, call}] {
		of := fmt.Sprintf("turn %d, call %d, agent, ", turn, call)
		if turn == 0 {
			of = fmt.Sprintf("agent %d, ", i+1)
		}
		for _, f := range a.Facts() {
			f.Of, f.Says = of+f.Of, maps.Clone(f.Says)
			out = append(out, f)
		}
	}
	return out
}
