package evidence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentd/event"
)

// Kinds of acts.
const (
	// ActSteer adds input to the turn that runs, ActInterrupt stops it.
	ActSteer     = "steer"
	ActInterrupt = "interrupt"
	// ActInput gives a subagent input, ActClose stops it for good, ActResume lets it go on.
	ActInput  = "input"
	ActClose  = "close"
	ActResume = "resume"
	// ActQueued submits a turn behind the one that runs and takes it back again.
	ActQueued = "queued"
	// ActPolicy changes the rules or the mode of a source.
	ActPolicy = "policy"
	// ActCompact asks for a compaction, ActRollback takes turns back.
	ActCompact  = "compact"
	ActRollback = "rollback"
	// ActDeadline lets the time of the turn that runs pass, ActTime that of approvals.
	ActDeadline = "deadline"
	ActTime     = "time"
	// ActModels changes the models that can be asked, as a start with others does.
	ActModels = "models"
)

// What a turn was about to do that was interrupted between two steps.
const (
	BeforeStart = "start"
	BeforeCall  = "call"
	BeforeTools = "tools"
)

// CaseAct is something that was done to the session from outside, and where in the
// story: after facts that both runs share, and before everything that came from
// outside later. What came later says so by counting the acts before it.
type CaseAct struct {
	// EventID is that of the fact which tells of the act.
	EventID string `json:"eventId"`
	Kind    string `json:"kind"`
	// Turns is how many turns had started.
	Turns int `json:"turns"`
	// After says how many facts there were of the turn that ran and of its calls, by
	// what they belong to; see [Fact]. Absent if no turn ran.
	After map[string]int `json:"after,omitempty"`
	// Agents says the same of subagents if no turn ran.
	Agents map[string]int `json:"agents,omitempty"`
	// TurnID is the turn that was steered, interrupted or queued, or the one that a
	// rollback leaves as the last; absent if it leaves none.
	TurnID  string             `json:"turnId,omitempty"`
	Input   event.Raw          `json:"input,omitempty"`
	Options *event.TurnOptions `json:"options,omitempty"`
	Reason  string             `json:"reason,omitempty"`
	// SubagentID is the subagent that it was done to; TurnID is then its turn.
	SubagentID string `json:"subagentId,omitempty"`
	// Cause is that of an interrupt which no person wanted.
	Cause string `json:"cause,omitempty"`
	// Before is what a turn was about to do that was interrupted between two steps, and
	// never did: start, or call, which is to ask a model or to end, or tools, which is to run
	// those of the last answer. It had asked Calls times.
	Before string      `json:"before,omitempty"`
	Calls  int         `json:"calls,omitempty"`
	Policy *CasePolicy `json:"policy,omitempty"`
	// Models are those that can be asked from then on, the first one as the default;
	// absent if they are those of the catalog.
	Models []CaseModel `json:"models,omitempty"`
	// Thread is the one that a compaction or a rollback is about; absent if that is the
	// main one.
	Thread string `json:"thread,omitempty"`
	// Files says what a rollback does with files, Force that it overwrites.
	Files string `json:"files,omitempty"`
	Force bool   `json:"force,omitempty"`
	// during is the turn that ran, numbered how many had a number.
	during   string
	numbered int
}

// CasePolicy is the whole policy of a source.
type CasePolicy struct {
	Source string             `json:"source"`
	Mode   string             `json:"mode,omitempty"`
	Rules  []event.PolicyRule `json:"rules"`
	Held   []string           `json:"held,omitempty"`
}

// Reaches reports whether the facts that were collected are those of an act's place,
// or more.
func (p *Projection) Reaches(a *CaseAct) bool {
	for of, n := range a.After {
		if p.reached[of] < n {
			return false
		}
	}
	return true
}

// actFacts are what a recording remembers of where the session stands.
type actFacts struct {
	// turnFacts are those of the thread that the fact at hand is about.
	*turnFacts
	// on are the facts of all threads, marks the turns of the main threads in which those
	// answers, results, decisions and hooks came that know the acts before them.
	on    map[string]*turnFacts
	marks [4][]string
	// others are the threads beside the main one.
	others map[string]bool
	// started counts the turns that started.
	started int
	// last is the greatest place among those submitted that a turn which started has,
	// reordered says that one started before others that were submitted earlier.
	last      int
	reordered bool
	// ran are the tool calls that were started.
	ran map[string]bool
	// grants are the approvals that end with the time.
	grants []grantEnd
	inheritFacts
}

// place is what was reached of the turn that runs; nil if none does.
func (r *recording) place() map[string]int {
	running := r.main()
	if running == "" {
		return nil
	}
	number := r.projected.turns[running]
	if number == 0 { // nothing was told of it yet: it is the next
		number = r.projected.numbered + 1
	}
	of := fmt.Sprintf("turn %d", number)
	out := map[string]int{of: 0} // a turn that has not started may have no facts
	for k, n := range r.projected.reached {
		if k == of || strings.HasPrefix(k, of+",") || strings.HasPrefix(k, "agent ") {
			out[k] = n
		}
	}
	return out
}

// waits reports whether the turn that runs waits for something from outside: only
// then a replay can hold it.
func (r *recording) waits() bool { return len(r.act.open) > 0 }

// done appends an act at a place.
func (r *recording) done(e *event.Event, a CaseAct, after map[string]int) {
	a.EventID, a.Turns, a.After, a.numbered = e.ID, r.act.started, after, r.projected.numbered
	if after != nil {
		a.during = r.main()
	} else {
		a.Agents = r.agentsPlace()
	}
	r.besideOthers(&a)
	r.c.Acts = append(r.c.Acts, a)
}

// beforeFact follows where the session stands and takes what was done to it. It is
// told of a fact before the fact is collected.
func (r *recording) beforeFact(e *event.Event) {
	f := &r.act
	defer f.steps(e)
	switch p := e.Payload.(type) {
	case *event.TurnStarted:
		r.turnStarts(e)
	case *event.TurnCompleted:
		r.turnEnds(e, nil)
	case *event.TurnFailed:
		r.turnEnds(e, p)
	case *event.ModelRequested:
		r.opens(p.ModelRequestID)
	case *event.ModelCompleted:
		if f.stopped && f.open[p.ModelRequestID] {
			r.limit("an answer ended while its turn was interrupted")
		}
		r.comes(p.ModelRequestID, r.nextAnswer(), false)
	case *event.ModelFailed:
		r.comes(p.ModelRequestID, r.nextAnswer(), p.ErrorCategory == "interrupted" || p.ErrorCategory == "timeout")
	default:
		r.beforeCall(e)
	}
}

// beforeCall is beforeFact for facts of calls and actions.
func (r *recording) beforeCall(e *event.Event) {
	f := &r.act
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		if f.ran == nil {
			f.ran = map[string]bool{}
		}
		f.ran[e.ToolCallID] = true
		r.opens(e.ToolCallID)
	case *event.ToolResult:
		r.comes(e.ToolCallID, r.nextResult(), false)
	case *event.ToolFailed:
		r.comes(e.ToolCallID, r.nextResult(), p.ErrorCategory == "interrupted" || p.ErrorCategory == "timeout")
	case *event.ActionRequired:
		delete(f.open, e.ToolCallID) // it is the answer that is waited for
		r.opens(e.ActionID)
	case *event.ActionResolved:
		r.comes(e.ActionID, r.nextDecision(), p.Status == "cancelled")
	case *event.HookStarted:
		r.entered(e.TurnID, p.HookRunID)
		r.opens(p.HookRunID)
	case *event.HookCompleted:
		r.outlasted(p.HookRunID)
		r.comes(p.HookRunID, r.nextHook(), false)
	case *event.HookFailed:
		if p.ErrorCategory != categoryLost {
			r.outlasted(p.HookRunID)
		}
		r.comes(p.HookRunID, r.nextHook(), p.ErrorCategory == categoryLost)
	case *event.PermissionResolved:
		r.granted(p)
	case *event.PermissionEvaluated:
		r.grantsHold(e)
	default:
		r.outside(e)
	}
}

// opens notes that the turn waits for something.
func (r *recording) opens(id string) {
	if r.act.open == nil {
		r.act.open = map[string]bool{}
	}
	r.act.open[id] = true
	r.act.trail = nil
}

// comes notes that something came which the turn waited for; cut says that it came
// because the turn was stopped.
func (r *recording) comes(id string, acts func() *int, cut bool) {
	f := &r.act
	if !f.open[id] {
		return
	}
	f.before, f.came, f.numbered = r.place(), acts, r.projected.numbered
	if !cut {
		f.trail = nil
	} else {
		if f.trail == nil {
			f.trailed = f.before
		}
		f.trail = append(f.trail, acts)
	}
	delete(f.open, id)
}

// nextAnswer, nextResult and nextDecision give the count of acts before what is
// recorded next; nil if it isn't recorded.
func (r *recording) nextAnswer() func() *int {
	i := len(r.c.Answers)
	return func() *int {
		if i < len(r.c.Answers) {
			return &r.c.Answers[i].Acts
		}
		return nil
	}
}

func (r *recording) nextResult() func() *int {
	i := len(r.c.Results)
	return func() *int {
		if i < len(r.c.Results) {
			return &r.c.Results[i].Acts
		}
		return nil
	}
}

func (r *recording) nextDecision() func() *int {
	i := len(r.c.Decisions)
	return func() *int {
		if i < len(r.c.Decisions) {
			return &r.c.Decisions[i].Acts
		}
		return nil
	}
}

func (r *recording) nextHook() func() *int {
	i := 0
	if r.c.Parties != nil {
		i = len(r.c.Parties.Hooks)
	}
	return func() *int {
		if r.c.Parties != nil && i < len(r.c.Parties.Hooks) {
			return &r.c.Parties.Hooks[i].Acts
		}
		return nil
	}
}

// afterFact tells what was recorded how many acts came before it.
func (r *recording) afterFact(e *event.Event) {
	r.filesOf(e)
	c := &r.act.marks
	for i := len(c[0]); i < len(r.c.Answers); i++ {
		r.mark(0, &r.c.Answers[i].Acts)
	}
	for i := len(c[1]); i < len(r.c.Results); i++ {
		r.mark(1, &r.c.Results[i].Acts)
	}
	for i := len(c[2]); i < len(r.c.Decisions); i++ {
		r.mark(2, &r.c.Decisions[i].Acts)
	}
	for p, i := r.c.Parties, len(c[3]); p != nil && i < len(p.Hooks); i++ {
		r.mark(3, &p.Hooks[i].Acts)
	}
}

// filesOf tells a result which files the call changed.
func (r *recording) filesOf(e *event.Event) {
	var files []event.FileChange
	switch p := e.Payload.(type) {
	case *event.ToolResult:
		files = p.ChangedFiles
	case *event.ToolFailed:
		files = p.ChangedFiles
	}
	if n := len(r.c.Results) - 1; n >= 0 && r.c.Results[n].EventID == e.ID {
		for _, f := range files {
			r.c.Results[n].Changed = append(r.c.Results[n].Changed, event.FileChange{Path: f.Path, Change: f.Change})
		}
	}
}

// outOfTime takes the end of a turn whose time was used: what was cut off came after.
func (r *recording) outOfTime(e *event.Event) {
	f := &r.act
	if f.trail == nil {
		r.limit("a turn ran out of time between two steps")
		return
	}
	r.done(e, CaseAct{Kind: ActDeadline, TurnID: e.TurnID}, f.trailed)
	f.unexplained = false
	for _, acts := range f.trail {
		if n := acts(); n != nil {
			*n = len(r.c.Acts)
		}
	}
}

// actsEnd completes what the case says about acts.
func (r *recording) actsEnd() {
	f := &r.act
	if r.c.Environment.RulesChanged && r.decided {
		r.limit("the host's rules changed after the session began")
	}
	// What isn't the host's comes with acts, or came after the scope.
	r.c.Environment.Rules = slices.DeleteFunc(slices.Clone(r.c.Environment.Rules), func(x event.PolicyRule) bool { return isOwnPolicy(x.Source) })
	for _, t := range r.c.Turns {
		switch {
		case t.ended:
		case t.started && r.runs(t.TurnID):
			t.Open = true
		case t.started:
			r.limit("a turn has not ended")
		default:
			t.Unstarted = true
		}
	}
	r.inOrder()
	for _, on := range f.on {
		if on.unexplained {
			r.limit("an action was cancelled")
		}
	}
	r.openActions()
	r.oneAfterTheOther()
}

// openActions notes the questions that nobody had answered when the recording ended.
func (r *recording) openActions() {
	for _, id := range slices.Sorted(maps.Keys(r.asked)) {
		if q := r.asked[id]; r.isOpen(id) {
			r.c.Decisions = append(r.c.Decisions, CaseDecision{ActionType: q.ActionType, ToolName: q.ToolName, Status: "open", Acts: len(r.c.Acts)})
		}
	}
}
