package loop

import (
	"fmt"
	"testing"
	"time"

	"agentd/event"
	"agentd/state"
)

// epoch is when stories begin; each fact comes a second after the one before.
var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fataler is what a story needs of a test.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// story folds facts into a session, as a writer would. Nothing pokes the state:
// what Next is asked about is what facts can lead to.
type story struct {
	t fataler
	s *state.Session
	// facts are all that was told.
	facts []event.Event
	// requests counts the model calls, so that each has an id of its own.
	requests int
}

// step is a piece of a story.
type step func(*story)

func newStory(t fataler, steps ...step) *story {
	st := &story{t: t, s: state.New("sess_a")}
	st.foldFact(event.TypeSessionCreated, event.Scope{}, &event.SessionCreated{})
	st.foldFact(event.TypeThreadStarted, event.Scope{ThreadID: "th"}, &event.ThreadStarted{Role: "main"})
	for _, s := range steps {
		s(st)
	}
	return st
}

// foldFact checks and folds one fact.
func (st *story) foldFact(typ event.Type, scope event.Scope, p event.Payload) {
	st.t.Helper()
	n := st.s.Sequence + 1
	e := &event.Event{
		Type: typ, ID: fmt.Sprintf("evt_%d", n), RuntimeID: "runtime_a", SessionID: "sess_a", Sequence: n,
		Time: epoch.Add(time.Duration(n) * time.Second), Scope: scope, Payload: p,
	}
	if err := event.Check(e); err != nil {
		st.t.Fatalf("the story tells a fact that isn't one: %v", err)
	}
	if _, err := st.s.Apply(e); err != nil {
		st.t.Fatalf("%v", err)
	}
	st.facts = append(st.facts, *e)
}

// now is the time after the last fact.
func (st *story) now() time.Time {
	return epoch.Add(time.Duration(st.s.Sequence) * time.Second)
}

func in(turn string) event.Scope {
	return event.Scope{ThreadID: "th", TurnID: turn, TaskID: "task_" + turn, RunID: "run_" + turn}
}

func inTool(turn, tool string) event.Scope {
	s := in(turn)
	s.ToolCallID, s.StepID = tool, "step_"+tool
	return s
}

func newStep(typ event.Type, scope event.Scope, p event.Payload) step {
	return func(st *story) { st.foldFact(typ, scope, p) }
}

func submit(turn, status string, o *event.TurnOptions) step {
	return newStep(event.TypeTurnSubmitted, in(turn), &event.TurnSubmitted{Status: status, Source: "user", Input: event.Raw(`[]`), Options: o})
}

func start(turn string) step {
	return newStep(event.TypeTurnStarted, in(turn), &event.TurnStarted{Status: "running"})
}

// the tools that stories know: two that only read and may run beside each other,
// one that reads and must not, one that writes.
var catalogue = []event.ToolInfo{
	{ToolName: "look", Policy: "allowed", RuntimeOwner: "local", IsReadOnly: true, IsConcurrencySafe: true, InterruptBehavior: "cancel"},
	{ToolName: "find", Policy: "allowed", RuntimeOwner: "local", IsReadOnly: true, IsConcurrencySafe: true, InterruptBehavior: "cancel"},
	{ToolName: "peek", Policy: "allowed", RuntimeOwner: "local", IsReadOnly: true, InterruptBehavior: "cancel"},
	{ToolName: "write", Policy: "ask", RuntimeOwner: "local", IsConcurrencySafe: true, InterruptBehavior: "block"},
}

// prepare resolves context, tools and model. Window is the model's context window.
func prepare(turn string, window int64, chain ...string) step {
	return func(st *story) {
		st.foldFact(event.TypeContextResolved, in(turn), &event.ContextResolved{Items: []event.ContextItem{}, ContextWindow: window})
		s := inTool(turn, event.NotApplicable)
		st.foldFact(event.TypeToolCatalogResolved, s, &event.ToolCatalogResolved{ToolCount: int64(len(catalogue)), Tools: catalogue})
		st.foldFact(event.TypeRoutingDecided, in(turn), &event.RoutingDecision{
			Candidates: []event.Candidate{}, Excluded: []event.Exclusion{}, DecisionReason: "d", CapabilityGap: "none",
			SelectedProvider: "p", SelectedModel: "m", DecisionSource: "explicit_default", FallbackChain: append([]string{}, chain...),
		})
	}
}

func begun(turn string, o *event.TurnOptions) []step {
	return []step{submit(turn, "accepted", o), start(turn), prepare(turn, 1000)}
}

func ask(turn string, n, attempt int64, purpose string) step {
	return askOf("m", turn, n, attempt, purpose)
}

func askOf(model, turn string, n, attempt int64, purpose string) step {
	return func(st *story) {
		st.requests++
		s := in(turn)
		s.ModelRequestID = st.request()
		st.foldFact(event.TypeModelRequested, s, &event.ModelRequested{
			Provider: "p", Model: model, ModelRequestID: st.request(), Step: n, Attempt: attempt, Purpose: purpose,
		})
	}
}

func (st *story) request() string { return fmt.Sprintf("req_%d", st.requests) }

// answer ends the model call with calls of tools; call n of tool look is look_n.
func answer(turn, stop string, tokens int64, tools ...string) step {
	return func(st *story) {
		m := &event.ModelMessage{}
		for i, name := range tools {
			m.ToolCalls = append(m.ToolCalls, event.ToolCallRequest{ToolCallID: fmt.Sprintf("%s_%d", name, i), ToolName: name})
		}
		s := in(turn)
		s.ModelRequestID = st.request()
		st.foldFact(event.TypeModelCompleted, s, &event.ModelCompleted{
			ModelRequestID: st.request(), StopReason: stop, Usage: event.Usage{InputTokens: tokens}, Message: m,
		})
	}
}

func fails(turn, category string, retryable bool) step {
	return func(st *story) {
		s := in(turn)
		s.ModelRequestID = st.request()
		st.foldFact(event.TypeModelFailed, s, &event.ModelFailed{ModelRequestID: st.request(), ErrorCategory: category, Message: "m", Retryable: retryable})
	}
}

func judged(turn, tool, name, decision string) step {
	return newStep(event.TypePermissionEvaluated, inTool(turn, tool), &event.PermissionEvaluated{
		Decision: decision, DecisionSource: "mode", DecisionReason: "r", RuleRefs: []string{}, Scope: event.Raw(`{}`), ToolName: name,
	})
}

// waitingCall is a call that waits for the action of the same name.
func waitingCall(turn, tool, name, kind string, expires time.Time) step {
	return func(st *story) {
		s := inTool(turn, tool)
		s.ActionID = "action_" + tool
		st.foldFact(event.TypePermissionRequested, s, &event.PermissionRequested{ToolName: name, ActionID: s.ActionID, Reason: "r"})
		st.foldFact(event.TypeActionRequired, s, &event.ActionRequired{ActionType: kind, Decisions: []string{"allow", "deny"}, ToolName: name, ExpiresAt: expires})
	}
}

func decided(turn, tool, name, decision string) step {
	return func(st *story) {
		s := inTool(turn, tool)
		s.ActionID = "action_" + tool
		st.foldFact(event.TypeActionResolved, s, &event.ActionResolved{Decision: decision, Status: "resolved", DecisionSource: "human"})
		st.foldFact(event.TypePermissionResolved, s, &event.PermissionResolved{Decision: decision, DecisionSource: "human", ActionID: s.ActionID, ToolName: name})
	}
}

// starts has a call run. It is asked for before, unless it was.
func starts(turn, tool, name string, readOnly bool) step {
	return func(st *story) {
		if c := st.call(turn, tool); c == nil || c.StartSequence == 0 {
			st.foldFact(event.TypeToolStarted, inTool(turn, tool), &event.ToolStarted{ToolName: name, Policy: event.PolicyPending, IsReadOnly: readOnly})
		}
		st.foldFact(event.TypeToolProgress, inTool(turn, tool), &event.ToolProgress{ToolName: name, Phase: event.PhaseRunning, Policy: "allowed"})
	}
}

// startsAsBefore is how older versions recorded that a call runs.
func startsAsBefore(turn, tool, name string, readOnly bool) step {
	return newStep(event.TypeToolStarted, inTool(turn, tool), &event.ToolStarted{ToolName: name, Policy: "allowed", IsReadOnly: readOnly})
}

// loses has nobody run a call any more; it is run again.
func loses(turn, tool, name string) step {
	return newStep(event.TypeToolProgress, inTool(turn, tool), &event.ToolProgress{ToolName: name, Phase: event.PhaseLost})
}

// call returns a call of a turn's last answer; nil if it isn't known.
func (st *story) call(turn, tool string) *state.ToolCall {
	if th := st.s.Thread("th"); th != nil && th.Turn(turn) != nil {
		return findCall(th.Turn(turn), tool)
	}
	return nil
}

func done(turn, tool, name string) step {
	return newStep(event.TypeToolResult, inTool(turn, tool), &event.ToolResult{ToolName: name, Status: "ok", Preview: "p"})
}

func broken(turn, tool, name, category string) step {
	return newStep(event.TypeToolFailed, inTool(turn, tool), &event.ToolFailed{ToolName: name, ErrorCategory: category, Message: "m"})
}

// question is request_input: it starts, and then it asks.
func question(turn, tool string, expires time.Time) step {
	return func(st *story) {
		starts(turn, tool, "request_input", false)(st)
		s := inTool(turn, tool)
		s.ActionID = "action_" + tool
		st.foldFact(event.TypeActionRequired, s, &event.ActionRequired{ActionType: "structured_input", Decisions: []string{"submit"}, ExpiresAt: expires})
	}
}

func answered(turn, tool string) step {
	s := inTool(turn, tool)
	s.ActionID = "action_" + tool
	return newStep(event.TypeActionResolved, s, &event.ActionResolved{Decision: "submit", Status: "resolved", DecisionSource: "human"})
}

func interrupt(turn string) step {
	return newStep(event.TypeTurnInterruptRequested, in(turn), &event.TurnInterruptRequested{Reason: "enough", Queue: "keep"})
}

func steer(turn string) step {
	return newStep(event.TypeTurnSteered, in(turn), &event.TurnSteered{Input: event.Raw(`[]`)})
}

func block(status string) step {
	return newStep(event.TypeThreadUpdated, event.Scope{ThreadID: "th"}, &event.ThreadUpdated{Status: status, Reason: "because"})
}

func compacting(turn, trigger string, attempt int64) step {
	return newStep(event.TypeContextCompactionStarted, in(turn), &event.CompactionStarted{CompactionID: "compaction_a", Trigger: trigger, AffectedTurns: []string{}, Attempt: attempt})
}

func compactFailed(turn, trigger string) step {
	return newStep(event.TypeContextCompactionFailed, in(turn), &event.CompactionFailed{
		CompactionID: "compaction_a", Trigger: trigger, Error: event.Failure{Message: "m", Category: "internal"},
	})
}

func compactDone(turn, trigger string, tokens int64) step {
	return newStep(event.TypeContextCompactionCompleted, in(turn), &event.CompactionCompleted{
		CompactionID: "compaction_a", Trigger: trigger, AffectedTurns: []string{}, SummaryRef: "ref", TokensAfter: tokens,
		Preserved: event.Preserved{Actions: []string{}, Incidents: []string{}, EvidenceRefs: []string{}, ArtifactRefs: []string{}},
	})
}

func hooked(turn, point, decision string) step {
	return newStep(event.TypeHookCompleted, in(turn), &event.HookCompleted{HookRunID: "hook_a", Point: point, HandlerRef: "h", Decision: decision, Reason: "no"})
}

func ended(turn string) step {
	return newStep(event.TypeTurnCompleted, in(turn), &event.TurnCompleted{Status: "completed", Outcome: "end_turn"})
}

var _ fataler = (*testing.T)(nil)
