package runtimetest

import (
	"context"
	"fmt"
	"testing"

	"agentd/event"
	"agentd/store"
)

// CheckCalls holds the facts of every tool call in a store against the life of a call:
// it is asked for once, before anything else is said of it; it runs after the decision
// and after its boundary is known; it has one step and at most one end, and exactly one
// once its turn is over. Calls of older versions, whose start says that they run, are
// passed over.
func CheckCalls(tb testing.TB, s store.Store) {
	tb.Helper()
	for id, err := range s.Sessions(context.Background(), "") {
		if err != nil {
			tb.Error(err)
			return
		}
		facts := FactsOf(tb, s, id)
		if len(facts) == 0 || facts[0].Sequence != 1 {
			continue // the beginning was removed
		}
		for _, problem := range CallProblems(facts) {
			tb.Errorf("session %s: %s", id, problem)
		}
	}
}

// callLife is what facts said of a call so far.
type callLife struct {
	turnID, stepID                  string
	starts, runs, ends              int
	judged, older, toBegin, running bool
}

// CallProblems says what is wrong in the lives of the tool calls of a session.
func CallProblems(facts []*event.Event) []string {
	c := callCheck{calls: map[string]*callLife{}, over: map[string]bool{}}
	for _, e := range facts {
		c.addFact(e)
	}
	for id, l := range c.calls {
		if !l.older && c.over[l.turnID] && l.ends != 1 {
			c.reportf("call %s has %d ends, and its turn is over", id, l.ends)
		}
	}
	return c.problems
}

type callCheck struct {
	calls    map[string]*callLife
	over     map[string]bool
	problems []string
}

func (c *callCheck) reportf(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *callCheck) addFact(e *event.Event) {
	switch e.Payload.(type) {
	case *event.TurnCompleted, *event.TurnFailed:
		c.over[e.TurnID] = true
	}
	if e.ToolCallID == "" || e.ToolCallID == event.NotApplicable {
		return
	}
	l := c.calls[e.ToolCallID]
	if l == nil {
		l = &callLife{turnID: e.TurnID, stepID: e.StepID}
		c.calls[e.ToolCallID] = l
	}
	bad := func(wrong bool, format string, args ...any) {
		if wrong && !l.older {
			c.reportf("fact %d (%s) of call %s: %s", e.Sequence, e.Type, e.ToolCallID, fmt.Sprintf(format, args...))
		}
	}
	started, isStart := e.Payload.(*event.ToolStarted)
	l.older = l.older || isStart && started.Runs()
	bad(!isStart && l.starts == 0, "nothing asked for the call before")
	bad(e.StepID != "" && e.StepID != l.stepID, "its step is %s, and the call's is %s", e.StepID, l.stepID)
	if !l.followFact(e, bad) {
		return
	}
	bad(l.toBegin && l.ends > 0, "it got a boundary and didn't run")
	switch p := e.Payload.(type) {
	case *event.ToolResult, *event.ToolFailed:
		bad(l.ends > 1, "it has another end")
	case *event.ActionRequired:
		bad(l.ends > 0, "it comes after the end")
		if p.ActionType != "structured_input" && p.ActionType != "client_tool" {
			l.running = false // it waits, and runs again with the answer
		}
	default:
		bad(l.ends > 0, "it comes after the end")
	}
}

// followFact learns what a fact says of the call. It reports false for one that may also come
// when the call has ended.
func (l *callLife) followFact(e *event.Event, bad func(wrong bool, format string, args ...any)) bool {
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		l.starts++
		bad(l.starts > 1, "it is asked for again")
		bad(e.StepID == "" || e.StepID == event.NotApplicable, "it has no step")
	case *event.ToolArgs, *event.PermissionRequested, *event.ActionRequired:
	case *event.PermissionEvaluated, *event.PermissionResolved, *event.ActionResolved:
		l.judged = true
	case *event.SandboxApplied:
		if p.HookRunID != "" {
			return false
		}
		l.toBegin = true
		bad(l.running, "the boundary comes after the call runs")
	case *event.ToolProgress:
		l.progress(p, bad)
	case *event.ProcessStarted:
		bad(l.runs == 0, "it doesn't run")
		return false
	case *event.ToolResult:
		bad(l.runs == 0, "it has a result and never ran")
		l.ends++
	case *event.ToolFailed:
		bad(p.ErrorCategory == "lost" && l.runs == 0, "it is lost and never ran")
		l.ends++
	default:
		return false
	}
	return true
}

// progress takes a phase or a sign of life.
func (l *callLife) progress(p *event.ToolProgress, bad func(wrong bool, format string, args ...any)) {
	switch p.Phase {
	case event.PhaseRunning:
		bad(!l.judged, "it runs, and nothing was decided")
		l.runs, l.judged, l.toBegin, l.running = l.runs+1, false, false, true
		bad(p.AttemptCount != int64(l.runs), "attempt %d is called %d", l.runs, p.AttemptCount)
	case event.PhaseLost:
		bad(!l.running, "it is lost and doesn't run")
		l.running = false
	default:
		bad(!l.running, "it doesn't run")
	}
}

// Runs matches the fact that a tool call of a turn begins to run.
func Runs(turnID string) func(*event.Event) bool {
	return func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ToolProgress)
		return ok && p.Phase == event.PhaseRunning && (turnID == "" || e.TurnID == turnID)
	}
}

// CountRuns counts how often tool calls of a session began to run.
func (k *Kit) CountRuns(sessionID string) int {
	k.Helper()
	n := 0
	for _, e := range k.Facts(sessionID) {
		if Runs("")(e) {
			n++
		}
	}
	return n
}
