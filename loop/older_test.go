package loop_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/session"
	"agentd/tool"
)

// older is a session whose second turn was recorded by an older version: there a call
// had no fact when the model asked for it, and its tool.started said that it runs.
type older struct {
	*runtimetest.Kit
	turn *command.SubmitTurnResult
	runs atomic.Int64
	// judged is a decision as this version records it.
	judged event.PermissionEvaluated
}

const olderCall, olderStep = "tool_older", "step_older"

// newOlder plays a turn with a call of the tool, and stops in the next one when the
// model was asked.
func newOlder(t *testing.T, toolName, mode string) *older {
	t.Helper()
	o := &older{}
	ran := func(context.Context, *tool.Call) (*tool.Result, error) {
		o.runs.Add(1)
		return &tool.Result{Output: []byte("ok")}, nil
	}
	s := silentAt("again")
	tools := runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", ran), runtimetest.WritingTool("change", ran))
	k, dies := newMortal(t, runtimetest.AllOf(s.wrapProvider, tools, runtimetest.InMode(mode)),
		runtimetest.CallsTool(toolName, map[string]any{}), runtimetest.Says("done"), runtimetest.Says("never said"), runtimetest.Says("done"))
	o.Kit, k.Older = k, true
	first := k.Submit("sess_a", "go")
	if mode == "default" && toolName == "change" {
		action, _ := k.WaitForAction("sess_a", 1)
		k.Respond(action, "allow")
	}
	k.Completes(first)
	o.judged = *runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")[0]
	o.judged.ConfigurationRef, o.judged.ConfinementRef, o.judged.ApprovalActionID = "", "", ""
	o.turn = k.Submit("sess_a", "again")
	s.silence(k, first.RunID)
	dies()
	s.goesOn.Store(true)
	o.runs.Store(0)
	return o
}

// record writes the model's answer with a call, and facts of the call.
func (o *older) record(toolName string, facts ...event.Event) {
	o.Helper()
	scope := event.Scope{ThreadID: o.turn.ThreadID, TurnID: o.turn.TurnID, TaskID: o.turn.TaskID, RunID: o.turn.RunID}
	answered := scope
	for _, e := range o.Facts("sess_a") {
		if e.Type == event.TypeModelRequested && e.TurnID == o.turn.TurnID {
			answered.ModelRequestID = e.ModelRequestID
		}
	}
	m := session.New(session.Options{Store: o.Store, RuntimeID: "runtime_older"})
	err := m.Emit(context.Background(), "sess_a", event.ByLoop, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypeModelCompleted, Scope: answered, Payload: &event.ModelCompleted{
			ModelRequestID: answered.ModelRequestID, StopReason: "tool_use", Message: &event.ModelMessage{
				ToolCalls: []event.ToolCallRequest{{ToolCallID: olderCall, ToolName: toolName, Arguments: event.Raw("{}")}},
			},
		}})
		for _, e := range facts {
			action := e.ActionID
			e.Scope = scope
			e.ToolCallID, e.StepID, e.ActionID = olderCall, olderStep, action
			tx.Emit(e)
		}
		return nil
	})
	if err = errors.Join(err, m.Close(context.Background())); err != nil {
		o.Fatal(err)
	}
}

func (o *older) allowed() event.Event {
	p := o.judged
	return event.Event{Type: event.TypePermissionEvaluated, Payload: &p}
}

func olderStart(toolName string, readOnly bool, attempt int64) event.Event {
	return event.Event{Type: event.TypeToolStarted, Payload: &event.ToolStarted{
		ToolName: toolName, SafeArgs: event.Raw("{}"), Policy: "allowed", IsReadOnly: readOnly, AttemptCount: attempt,
	}}
}

// ends counts the starts and the ends of the call, and returns its steps.
func (o *older) ends() (starts, ends int, steps map[string]bool) {
	steps = map[string]bool{}
	for _, e := range o.Facts("sess_a") {
		if e.ToolCallID != olderCall {
			continue
		}
		if e.StepID != "" {
			steps[e.StepID] = true
		}
		switch e.Type {
		case event.TypeToolStarted:
			starts++
		case event.TypeToolResult, event.TypeToolFailed:
			ends++
		}
	}
	return starts, ends, steps
}

// TestLostCallsOfOlderVersions: events.md, recovery. A session that an older version
// left while a call ran is recovered as before: its tool.started says that the call may
// have happened. What only reads is run again, everything else waits for a person.
func TestLostCallsOfOlderVersions(t *testing.T) {
	t.Run("a read", func(t *testing.T) {
		o := newOlder(t, "look", "bypass")
		o.record("look", o.allowed(), olderStart("look", true, 1))
		o.Open()
		o.Completes(o.turn)
		if starts, ends, _ := o.ends(); starts != 1 || ends != 1 || o.runs.Load() != 1 {
			t.Errorf("%d starts, %d ends, ran %d times", starts, ends, o.runs.Load())
		}
	})
	t.Run("a read whose loss was recorded", func(t *testing.T) {
		o := newOlder(t, "look", "bypass")
		o.record("look", o.allowed(), olderStart("look", true, 1), event.Event{Type: event.TypeToolFailed, Payload: &event.ToolFailed{
			ToolName: "look", ErrorCategory: tool.Lost, Message: "the runtime stopped while the call was under way", Retryable: true,
		}})
		o.Open()
		o.Completes(o.turn)
		if starts, ends, _ := o.ends(); starts != 1 || ends != 2 || o.runs.Load() != 1 {
			t.Errorf("%d starts, %d ends, ran %d times", starts, ends, o.runs.Load())
		}
	})
	t.Run("a write", func(t *testing.T) {
		o := newOlder(t, "change", "bypass")
		o.record("change", o.allowed(), olderStart("change", false, 1))
		o.Open()
		o.WaitFor("sess_a", func(e *event.Event) bool {
			p, ok := e.Payload.(*event.ThreadUpdated)
			return ok && p.Code == "tool_lost"
		})
		runtimetest.Do[command.ResumeThreadResult](o.Kit, &command.ResumeThread{SessionID: "sess_a", ThreadID: o.turn.ThreadID})
		o.Completes(o.turn)
		if starts, ends, _ := o.ends(); starts != 1 || ends != 1 || o.runs.Load() != 0 {
			t.Errorf("%d starts, %d ends, ran %d times", starts, ends, o.runs.Load())
		}
	})
}

// TestUnjudgedCallsOfOlderVersions: an answer without the facts of its calls, and a
// call that waits for a person. Nothing of either has happened, and both get the start
// that they lack, in the step that they have.
func TestUnjudgedCallsOfOlderVersions(t *testing.T) {
	t.Run("asked for", func(t *testing.T) {
		o := newOlder(t, "change", "bypass")
		o.record("change")
		o.Open()
		o.Completes(o.turn)
		if starts, ends, steps := o.ends(); starts != 1 || ends != 1 || len(steps) != 1 || o.runs.Load() != 1 {
			t.Errorf("%d starts, %d ends, steps %v, ran %d times", starts, ends, steps, o.runs.Load())
		}
	})
	t.Run("waiting", func(t *testing.T) {
		o := newOlder(t, "change", "default")
		p := o.judged
		p.ApprovalActionID = "action_older"
		o.record("change", event.Event{Type: event.TypePermissionEvaluated, Payload: &p},
			event.Event{Type: event.TypePermissionRequested, Scope: event.Scope{ActionID: "action_older"}, Payload: &event.PermissionRequested{ToolName: "change", ActionID: "action_older", Reason: "it writes", AskedOf: "human"}},
			event.Event{Type: event.TypeActionRequired, Scope: event.Scope{ActionID: "action_older"}, Payload: &event.ActionRequired{
				ActionType: "tool_permission", Prompt: "Allow change?", Decisions: []string{"allow", "deny", "cancel"}, Scope: p.Scope, ToolName: "change", SafeArgs: event.Raw("{}"),
			}})
		o.Open()
		o.Respond("action_older", "allow")
		o.Completes(o.turn)
		starts, ends, steps := o.ends()
		if starts != 1 || ends != 1 || len(steps) != 1 || !steps[olderStep] || o.runs.Load() != 1 {
			t.Errorf("%d starts, %d ends, steps %v, ran %d times", starts, ends, steps, o.runs.Load())
		}
	})
}
