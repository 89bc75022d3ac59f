package evidence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	// Peer is the agent that it is, if it is another one, and Steps what that one did in
	// order; it has no turn here.
	Peer  string     `json:"peer,omitempty"`
	Steps []CaseStep `json:"steps,omitempty"`
}

// CaseSpawn is a wish from outside for a subagent.
type CaseSpawn struct {
	// ParentSubagentID, ParentTurnID and Thread say whose child it is; without them it is
	// one of the main thread.
	ParentSubagentID string           `json:"parentSubagentId,omitempty"`
	ParentTurnID     string           `json:"parentTurnId,omitempty"`
	Thread           string           `json:"thread,omitempty"`
	Role             string           `json:"role,omitempty"`
	Nickname         string           `json:"nickname,omitempty"`
	Model            string           `json:"model,omitempty"`
	Input            event.Raw        `json:"input,omitempty"`
	Isolation        *event.Isolation `json:"isolation,omitempty"`
	When             Moment           `json:"when"`
	// Acts is how many acts came before it, After which agents had ended; see
	// [CaseAct.After].
	Acts  int            `json:"acts,omitempty"`
	After map[string]int `json:"after,omitempty"`
	// numbered is how many turns had a number.
	numbered int
}

// CaseHold is a turn of a subagent that was stopped between two steps: a replay holds it
// before what it never did. Before and Calls are those of [CaseAct].
type CaseHold struct {
	TurnID string `json:"turnId"`
	Before string `json:"before"`
	Calls  int    `json:"calls,omitempty"`
}

// CaseOpenTurn is a turn of a subagent that the recording has no end of. Of is what its
// facts belong to.
type CaseOpenTurn struct {
	TurnID string `json:"turnId"`
	Of     string `json:"of"`
}

// agentFacts are what a recording remembers of subagents: the call that started each,
// and the turns that have not ended.
type agentFacts struct {
	calls map[string]string
	open  map[string]bool
	// elsewhere are the children that are other agents.
	elsewhere map[string]*elsewhere
	// spawning are the calls that are to start one and have not, shares the subagents that
	// spent their part of the budget.
	spawning, shares map[string]bool
}

// limitAgentChanged says that something was done to a subagent that isn't done again.
const limitAgentChanged = "a subagent was steered, interrupted or changed from outside"

// agent takes a fact of a subagent.
func (r *recording) agent(e *event.Event) {
	x := r.party.elsewhere[e.SubagentID]
	if x == nil {
		r.agentStands(e)
	}
	defer r.afterFact(e)
	r.projected.Take(e)
	if x != nil {
		r.doneElsewhere(x, e)
		return
	}
	switch p := e.Payload.(type) {
	case *event.SubagentSpawned:
		r.spawned(e, p)
	case *event.TurnSubmitted:
		r.agentTurn(e)
	case *event.TurnCompleted:
		delete(r.party.open, e.TurnID)
	case *event.TurnFailed:
		delete(r.party.open, e.TurnID)
		r.agentFailed(e, p)
		if p.FailureCategory == "timed_out" {
			r.limit("a subagent ran out of time")
		}
	case *event.TurnSteered:
		r.agentSteered(e)
	case *event.SubagentMessage:
		r.agentGiven(e, p)
	case *event.SubagentEnded:
		r.agentEnded(p)
	case *event.SubagentStatus:
		r.act.closed = false
	case *event.PolicyChanged, *event.RollbackStarted:
		r.limit(limitAgentChanged)
	case *event.CompactionStarted:
		r.agentCompacts(e, p)
	case *event.QuotaState:
		r.agentQuota(e, p)
	case *event.ActionResolved:
		if p.Status != "resolved" && !r.act.stopped {
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
	r.bornOf(e, p)
	delete(r.party.spawning, e.ToolCallID)
	r.parties().Generations = max(r.parties().Generations, p.Depth)
	if r.party.open == nil {
		r.party.calls, r.party.open = map[string]string{}, map[string]bool{}
	}
	switch call := applicable(e.ToolCallID); {
	case !r.scope.whole():
		r.limit("subagents are not run again") // their facts are not in the scope
	case p.Peer != "":
		r.spawnedElsewhere(e, p, call)
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
		Input: p.Input, Isolation: p.Isolation, Thread: r.beside(p.ParentThreadID), When: r.now(),
		Acts: len(r.c.Acts), After: r.projected.settled(), numbered: r.projected.numbered,
	}
	if len(w.Input) == 0 && !r.readInto(p.InputRef, &w.Input) {
		r.limit("a large input is only there as its preview")
	}
	r.parties().Agents = append(r.parties().Agents, CaseAgent{EventID: e.ID, SubagentID: e.SubagentID, Spawn: w})
}

// wishesAgent follows the calls that start subagents. One that was refused because its
// child would be too deep says how deep they may be: as deep as the one that wanted it.
// How many work at a moment is no fact that both runs share.
func (r *recording) wishesAgent(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		if p.ToolName != spawnTool {
			return
		}
		if r.party.spawning == nil {
			r.party.spawning = map[string]bool{}
		}
		r.party.spawning[e.ToolCallID] = true
	case *event.ToolFailed:
		if !r.party.spawning[e.ToolCallID] {
			return
		}
		delete(r.party.spawning, e.ToolCallID)
		deepest := r.c.Parties != nil && r.act.depth == r.c.Parties.Generations
		if strings.Contains(p.Message, refusedWidth) || strings.Contains(p.Message, refusedDepth) && !deepest {
			r.limit("there were too many subagents to start another")
		}
	}
}

// What a refusal of a subagent names.
const (
	refusedDepth = "limits.depth:"
	refusedWidth = "limits.width:"
)

// spawnTool is the tool that starts subagents.
const spawnTool = "spawn_agent"

// agentFailed takes the failure of a turn of a subagent. What was its part of the budget
// is in the wish that started it, and what it spent in its answers.
func (r *recording) agentFailed(e *event.Event, p *event.TurnFailed) {
	if p.FailureCategory == "quota_blocked" && r.party.shares[e.SubagentID] && r.c.Environment.Catalog != nil && r.scope.whole() {
		return
	}
	r.failed(p)
}

// agentQuota takes what a subagent spent of its part of the budget.
func (r *recording) agentQuota(e *event.Event, p *event.QuotaState) {
	if e.Type != event.TypeQuotaBlocked || p.QuotaName != "subagent_cost" {
		return
	}
	if r.party.shares == nil {
		r.party.shares = map[string]bool{}
	}
	r.party.shares[e.SubagentID] = true
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
	case i >= 0 && r.act.running == "" && r.act.accepted == "": // more was given to one that was done
		r.act.given = e.TurnID
	default:
		r.limit("a subagent was given more work from outside")
		return
	}
	r.party.open[e.TurnID] = true
	r.act.accepted = e.TurnID
}

// agentsEnd notes subagents that still work. A replay takes them as far as they came.
func (r *recording) agentsEnd() {
	var open []CaseOpenTurn
	for _, on := range r.act.on {
		id := cmp.Or(on.running, on.accepted)
		if on.agent == "" || !r.party.open[id] {
			continue
		}
		delete(r.party.open, id)
		a := r.projected.agents[on.agent]
		number := a.turns[id]
		if number == 0 { // nothing was told of it: it is the next
			number = a.numbered + 1
		}
		open = append(open, CaseOpenTurn{TurnID: id, Of: fmt.Sprintf("%sturn %d", a.prefix, number)})
	}
	if len(open) > 0 {
		slices.SortFunc(open, func(a, b CaseOpenTurn) int { return cmp.Compare(a.Of, b.Of) })
		r.parties().Open = open
	}
	if len(r.party.open) > 0 {
		r.limit("a subagent has not ended")
	}
	r.elsewhereEnd()
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
		if parent.under == nil {
			parent.under = map[[2]int][]*Projection{}
		}
		child := &Projection{elsewhere: s.Peer != "", above: p, prefix: parent.prefix + ofAgent(at, len(parent.under[at]))}
		p.agents[e.SubagentID] = child
		parent.under[at] = append(parent.under[at], child)
		if !child.elsewhere {
			child.reaches("spawned")
		}
		return
	}
	if a := p.agents[e.SubagentID]; a != nil {
		a.collect(e)
	}
}

// ofAgent says what the facts of a subagent belong to: the call that started it; of
// those that were started from outside it is the number.
func ofAgent(at [2]int, i int) string {
	if at[0] == 0 {
		return fmt.Sprintf("agent %d, ", i+1)
	}
	return fmt.Sprintf("turn %d, call %d, agent, ", at[0], at[1])
}

// reaches counts a fact by what it belongs to, also in the projection above.
func (p *Projection) reaches(of string) {
	if p.reached == nil {
		p.reached = map[string]int{}
	}
	p.reached[of]++
	if p.above == nil {
		return
	}
	if p.above.reached == nil {
		p.above.reached = map[string]int{}
	}
	p.above.reached[p.prefix+of]++
}

// What an agent reaches beside its turns, as part of what its facts belong to. None of it
// is compared, because it is told in its own time: but what is done after it waits for it.
const (
	agentEnded     = "ended"
	agentCompacted = "compacted"
)

// stands counts what an agent reached beside its turns. That it is put away long after
// its end says nothing new.
func (p *Projection) stands(e *event.Event) {
	if p.above == nil {
		return
	}
	switch x := e.Payload.(type) {
	case *event.TurnSubmitted:
		p.over = false
	case *event.SubagentEnded:
		p.endsOnce()
	case *event.SubagentStatus:
		if x.Status == "interrupted" {
			p.endsOnce()
		}
	case *event.CompactionCompleted:
		if x.Trigger == triggerRequested {
			p.reaches(agentCompacted)
		}
	case *event.CompactionFailed:
		if x.Trigger == triggerRequested {
			p.reaches(agentCompacted)
		}
	}
}

func (p *Projection) endsOnce() {
	if !p.over {
		p.over = true
		p.reaches(agentEnded)
	}
}

// settled are the ends of agents that were reached.
func (p *Projection) settled() map[string]int {
	var out map[string]int
	for of, n := range p.reached {
		if !strings.HasSuffix(of, ", "+agentEnded) && !strings.HasSuffix(of, ", "+agentCompacted) {
			continue
		}
		if out == nil {
			out = map[string]int{}
		}
		out[of] = n
	}
	return out
}

// ofAgents returns the facts of the subagents that a call started; those that were
// started from outside are of no call and no turn.
func (p *Projection) ofAgents(turn, call int) []Fact {
	var out []Fact
	for i, a := range p.under[[2]int{turn, call}] {
		of := ofAgent([2]int{turn, call}, i)
		for _, f := range a.Facts() {
			f.Of, f.Says = of+f.Of, maps.Clone(f.Says)
			out = append(out, f)
		}
	}
	return out
}
