package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentd/event"
)

// Fact is a fact without what differs between two runs of the same: ids, times,
// durations, positions.
type Fact struct {
	// Of says what the fact belongs to: "turn 1", or "turn 1, call 2".
	Of   string            `json:"of"`
	Says map[string]string `json:"says,omitempty"`
	Type event.Type        `json:"type"`
	// EventID is that of the recorded fact; it is not compared.
	EventID string `json:"eventId,omitempty"`
}

// Projection collects the facts that two runs of a turn must share: what was
// asked, answered, decided and reached. Pieces of answers, progress, costs,
// processes and the queue are left out: they depend on timing and machine.
type Projection struct {
	// turns numbers the turns in the order in which they were taken up, which need not
	// be the one in which they were submitted; those that wait have 0.
	turns map[string]int
	calls map[string]int
	count map[int]int
	main  map[int][]Fact
	tool  map[[2]int][]Fact
	// asked are the calls that the fact of a turn asked for, by its place.
	asked map[[2]int][]int
	// reached counts the facts by what they belong to; last is that of the last one.
	reached map[string]int
	last    string
	// agents are the facts of subagents, under those of a call that started them.
	agents map[string]*Projection
	under  map[[2]int][]*Projection
	// above is the projection that an agent's is part of, prefix what its facts belong
	// to there.
	above  *Projection
	prefix string
	// over says that the agent was told to have ended since it was given something.
	over bool
	// elsewhere says that the agent is another one, told and ended are its facts.
	elsewhere   bool
	told, ended []Fact
	// recorded says that it is a recording that is projected, and not a replay; vain are
	// the facts of hooks that were asked in vain there, also those of agents.
	recorded bool
	vain     map[string]bool
	// numbered counts the turns that have a number, begun is the last that started,
	// steering the input that no turn took up yet.
	numbered int
	begun    int
	steering []Fact
}

// Take adds a fact if it is one of those that are compared.
func (p *Projection) Take(e *event.Event) {
	if agentOf(e) != "" {
		p.takeAgent(e)
		return
	}
	p.collect(e)
}

// collect adds a fact of the projection's own thread.
func (p *Projection) collect(e *event.Event) {
	if p.elsewhere {
		p.collectElsewhere(e)
		return
	}
	if p.turns == nil {
		p.turns, p.calls, p.count = map[string]int{}, map[string]int{}, map[int]int{}
		p.main, p.tool, p.asked = map[int][]Fact{}, map[[2]int][]Fact{}, map[[2]int][]int{}
	}
	p.stands(e)
	says := compared(e)
	turn := p.number(e, says != nil)
	p.steps(e, turn)
	if turn == 0 || says == nil {
		return
	}
	f := Fact{Type: e.Type, Says: says, Of: fmt.Sprintf("turn %d", turn), EventID: e.ID}
	defer func() { p.last = f.Of; p.reaches(f.Of) }()
	if call := p.call(turn, applicable(e.ToolCallID)); call > 0 {
		f.Of += fmt.Sprintf(", call %d", call)
		at := [2]int{turn, call}
		p.tool[at] = append(p.inVain(p.tool[at], e, &f), f)
	} else {
		p.main[turn] = append(p.inVain(p.main[turn], e, &f), f)
	}
	if m, ok := e.Payload.(*event.ModelCompleted); ok && m.Message != nil {
		at := [2]int{turn, len(p.main[turn]) - 1}
		for _, c := range m.Message.ToolCalls {
			p.asked[at] = append(p.asked[at], p.call(turn, c.ToolCallID))
		}
	}
}

// number returns the number of a fact's turn; 0 if it has none yet. The first fact that
// tells of work on a turn gives it one: that it is compared says so, and so does a hook
// that is asked about it, or input that is added to it.
func (p *Projection) number(e *event.Event, isCompared bool) int {
	n, submitted := p.turns[e.TurnID]
	switch {
	case e.Type == event.TypeTurnSubmitted && !submitted:
		p.turns[e.TurnID] = 0
	case submitted && n == 0 && (isCompared || e.Type == event.TypeHookStarted || e.Type == event.TypeTurnSteered):
		p.numbered++
		n = p.numbered
		p.turns[e.TurnID] = n
	}
	return n
}

// call numbers the calls of a turn in the order in which the model asked for them.
func (p *Projection) call(turn int, id string) int {
	if id == "" {
		return 0
	}
	if p.calls[id] == 0 {
		p.count[turn]++
		p.calls[id] = p.count[turn]
	}
	return p.calls[id]
}

// Facts returns what was collected: the facts of each turn in order, and after an
// answer those of the calls that it asked for, whichever of them ran first.
func (p *Projection) Facts() []Fact {
	if p.elsewhere {
		return slices.Concat(p.told, p.ended)
	}
	out := []Fact{}
	for turn := 0; turn <= p.numbered; turn++ { // what came before the first has 0
		placed := map[int]bool{}
		add := func(call int) {
			if !placed[call] {
				placed[call] = true
				out = append(append(out, p.tool[[2]int{turn, call}]...), p.ofAgents(turn, call)...)
			}
		}
		for i, f := range p.main[turn] {
			out = append(out, f)
			for _, call := range p.asked[[2]int{turn, i}] {
				add(call)
			}
		}
		for call := 1; call <= p.count[turn]; call++ {
			add(call)
		}
	}
	return append(out, p.ofAgents(0, 0)...)
}

// compared returns what is compared of a fact; nil if it isn't.
func compared(e *event.Event) map[string]string {
	switch p := e.Payload.(type) {
	case *event.TurnStarted:
		return map[string]string{}
	case *event.TurnCompleted:
		return map[string]string{"outcome": p.Outcome, "steps": strconv.FormatInt(p.Steps, 10)}
	case *event.TurnFailed:
		return map[string]string{"category": p.FailureCategory, "steps": strconv.FormatInt(p.Steps, 10)}
	case *event.ModelRequested:
		return map[string]string{"model": p.Provider + "/" + p.Model, "step": strconv.FormatInt(p.Step, 10), "attempt": strconv.FormatInt(p.Attempt, 10), "purpose": p.Purpose}
	case *event.ModelCompleted:
		return comparedAnswer(p)
	case *event.ModelFailed:
		return map[string]string{"category": p.ErrorCategory}
	case *event.RoutingDecision:
		return map[string]string{"selected": p.SelectedProvider + "/" + p.SelectedModel}
	case *event.ToolStarted:
		return map[string]string{"tool": p.ToolName}
	case *event.ToolResult:
		says := map[string]string{"tool": p.ToolName, "status": p.Status}
		if p.ExitCode.Present && !p.ExitCode.Null {
			says["exitCode"] = strconv.FormatInt(p.ExitCode.Value, 10)
		}
		return says
	case *event.ToolFailed:
		return map[string]string{"tool": p.ToolName, "category": p.ErrorCategory}
	}
	if says := comparedParty(e); says != nil {
		return says
	}
	if says := comparedAct(e, nil); says != nil {
		return says
	}
	return comparedDecision(e)
}

func comparedAnswer(p *event.ModelCompleted) map[string]string {
	says := map[string]string{"stop": p.StopReason}
	if p.Message != nil {
		says["text"] = p.Message.Text
		for i, c := range p.Message.ToolCalls {
			says[fmt.Sprintf("call %d", i+1)] = c.ToolName + " " + meaning(c.Arguments)
		}
	}
	return says
}

// meaning is JSON in one form: a case that another program read and wrote again has
// the same content in other letters.
func meaning(raw event.Raw) string {
	b, err := canonical(raw)
	if err != nil {
		return string(raw) // arguments that are no JSON are what they are
	}
	return string(b)
}

func comparedDecision(e *event.Event) map[string]string {
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		return map[string]string{"tool": p.ToolName, "decision": p.Decision, "source": p.DecisionSource, "destructive": strconv.FormatBool(p.Destructive), "rules": strings.Join(p.RuleRefs, " ")}
	case *event.PermissionResolved:
		return map[string]string{"tool": p.ToolName, "decision": p.Decision, "source": p.DecisionSource}
	case *event.ActionRequired:
		return map[string]string{"action": p.ActionType, "tool": p.ToolName}
	case *event.ActionResolved:
		return map[string]string{"decision": p.Decision, "status": p.Status}
	}
	return nil
}

// Difference is the first place in which two runs are not the same. The one that
// ended earlier has nothing there.
type Difference struct {
	Expected *Fact  `json:"expected"`
	Got      *Fact  `json:"got"`
	Says     string `json:"says"`
}

// Compare returns the first difference between the facts of two runs, or nil.
func Compare(expected, got []Fact) *Difference {
	for i := range max(len(expected), len(got)) {
		d := &Difference{}
		if i < len(expected) {
			d.Expected = &expected[i]
		}
		if i < len(got) {
			d.Got = &got[i]
		}
		if d.Says = differ(d.Expected, d.Got); d.Says != "" {
			return d
		}
	}
	return nil
}

// differ says in which way two facts are not the same, or nothing.
func differ(want, got *Fact) string {
	switch {
	case got == nil:
		return fmt.Sprintf("%s: the recording has %s, the replay has nothing more", want.Of, describe(want))
	case want == nil:
		return fmt.Sprintf("%s: the replay has %s, the recording has nothing more", got.Of, describe(got))
	case want.Of != got.Of || want.Type != got.Type:
		return fmt.Sprintf("%s: the recording has %s, the replay has %s (%s)", want.Of, describe(want), describe(got), got.Of)
	}
	keys := slices.Sorted(maps.Keys(want.Says))
	for k := range got.Says {
		if _, ok := want.Says[k]; !ok {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		if want.Says[k] != got.Says[k] {
			return fmt.Sprintf("%s: %s: %s was %q and is %q", want.Of, want.Type, k, clip(want.Says[k]), clip(got.Says[k]))
		}
	}
	return ""
}

func describe(f *Fact) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(f.Says)) {
		if f.Says[k] != "" {
			parts = append(parts, k+" "+clip(f.Says[k]))
		}
	}
	if len(parts) == 0 {
		return string(f.Type)
	}
	return string(f.Type) + " (" + strings.Join(parts, ", ") + ")"
}
