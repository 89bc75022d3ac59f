package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/tool"
)

// TestModesDecide runs the same three calls in each mode: a read, a write, a
// command. What is asked is denied, so that each turn ends.
func TestModesDecide(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	want := map[string][3]string{ // read_file, write_file, shell
		"default": {"allow", "ask", "ask"}, "untrusted": {"allow", "ask", "ask"}, "auto": {"allow", "allow", "allow"},
		"on_request": {"allow", "allow", "allow"}, "on_failure": {"allow", "allow", "allow"}, "never": {"allow", "allow", "allow"},
		"plan": {"allow", "deny", "deny"}, "bypass": {"allow", "allow", "allow"},
	}
	k := runtimetest.NewWith(t, runtimetest.WithShell, script.Answer{Tools: []script.Tool{
		{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}},
		{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "b"}},
		{Name: "shell", Arguments: map[string]any{"command": "touch c.txt"}},
	}}, runtimetest.Says("done"))
	k.WriteFile("a.txt", "a")
	for m, decisions := range want {
		id := "sess_" + m
		r := k.SubmitWith(id, "go", &event.TurnOptions{PermissionMode: m})
		asks := 0
		for _, d := range decisions {
			if d == "ask" {
				asks++
				action, p := k.WaitForAction(id, asks)
				if p.ActionType != "tool_permission" || p.Reason == "" || p.Prompt == "" {
					t.Errorf("%s: asked %+v", m, p)
				}
				k.Respond(action, "deny")
			}
		}
		k.Completes(r)
		for i, p := range runtimetest.Payloads[*event.PermissionEvaluated](k, id) {
			if p.Decision != decisions[i] || p.PermissionMode != m || p.DecisionReason == "" {
				t.Errorf("%s: %s: %s (%s), want %s", m, p.ToolName, p.Decision, p.DecisionReason, decisions[i])
			}
		}
		started := k.CountRuns(id)
		if want := 3 - strings.Count(fmt.Sprint(decisions), "deny") - asks; started != want {
			t.Errorf("%s: %d calls started, want %d", m, started, want)
		}
	}
}

func TestEveryDecisionComesBeforeItsCall(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("bypass"), runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "x"}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	var order []event.Type
	for _, e := range k.Facts("sess_a") {
		if e.ToolCallID != "" && e.ToolCallID != event.NotApplicable {
			order = append(order, e.Type)
		}
	}
	want := []event.Type{event.TypeToolStarted, event.TypePermissionEvaluated, event.TypeSandboxApplied, event.TypeToolProgress, event.TypeToolResult}
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("facts of the call: %v", order)
	}
}

func TestApprovalAllowsOnce(t *testing.T) {
	k := runtimetest.New(
		t,
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}),
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "2"}), runtimetest.Says("done"),
	)
	r := k.Submit("sess_a", "go")
	first, _ := k.WaitForAction("sess_a", 1)
	if got := k.Thread(r); got.Status != "blocked" || got.Phase != "waiting_permission" {
		t.Errorf("the thread is %s, %s", got.Status, got.Phase)
	}
	if k.ReadFile("a") != "-" {
		t.Error("it was written before anybody allowed it")
	}
	k.Respond(first, "allow")
	k.Respond(first, "allow") // the same answer again is fine
	runtimetest.Refused(k, &command.RespondAction{ActionID: first, Decision: "deny"}, fault.Conflict)
	second, _ := k.WaitForAction("sess_a", 2)
	if k.ReadFile("a") != "1" {
		t.Errorf("the file has %q", k.ReadFile("a"))
	}
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: second, Decision: "deny", Reason: "not that"})
	k.Completes(r)
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	if k.ReadFile("a") != "1" || len(failed) != 1 || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Message, "not that") {
		t.Errorf("%q, %+v", k.ReadFile("a"), failed)
	}
}

func TestGrantHoldsForTheSession(t *testing.T) {
	k := runtimetest.New(
		t,
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}),
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "2"}), runtimetest.Says("done"),
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "3"}), runtimetest.Says("done"),
	)
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "allow", Scope: "session"})
	k.Completes(r)
	k.Close()
	k.Open() // a grant survives a restart
	k.Completes(k.Submit("sess_a", "again"))
	if n := k.CountFacts("sess_a", event.TypeActionRequired); n != 1 || k.ReadFile("a") != "3" {
		t.Errorf("asked %d times, the file has %q", n, k.ReadFile("a"))
	}
	k.Script.Answers[0], k.Script.Answers[1] = runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "4"}), runtimetest.Says("done")
	other := k.Submit("sess_b", "another session")
	action, _ = k.WaitForAction("sess_b", 1) // is asked for itself
	k.Respond(action, "deny")
	k.Completes(other)
}

func TestUnansweredApprovalExpires(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Loop.ActionTimeout = 30 * time.Millisecond },
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	resolved := runtimetest.Payloads[*event.ActionResolved](k, "sess_a")
	if len(failed) != 1 || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Message, "not answered in time") {
		t.Errorf("%+v", failed)
	}
	if len(resolved) != 1 || resolved[0].Status != "expired" || resolved[0].DecisionSource != "timeout" || k.ReadFile("a") != "-" {
		t.Errorf("%+v", resolved)
	}
}

func TestApprovalExpiresWhileNobodyRuns(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Loop.ActionTimeout = time.Hour },
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.WaitForAction("sess_a", 1)
	k.Close()
	k.Change = func(o *agentd.Options) {
		o.Clock = func() time.Time { return time.Now().Add(2 * time.Hour) }
	}
	k.Open()
	k.Completes(r)
	if p := runtimetest.Payloads[*event.ActionResolved](k, "sess_a"); len(p) != 1 || p[0].Status != "expired" {
		t.Errorf("%+v", p)
	}
}

func TestNobodyToAsk(t *testing.T) {
	k := runtimetest.NewWith(
		t, func(o *agentd.Options) { o.Loop.NobodyToAsk = true },
		runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}),
		script.Answer{Ask: &script.Ask{Prompt: "Which?"}}, runtimetest.Says("done"),
	)
	k.Completes(k.Submit("sess_a", "go"))
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	if len(failed) != 2 || failed[0].ErrorCategory != "denied" || failed[1].ErrorCategory != "denied" || k.CountFacts("sess_a", event.TypeActionRequired) != 0 {
		t.Errorf("%+v", failed)
	}
}

// TestReadsRunSideBySide: each of three reads waits for the other two.
func TestReadsRunSideBySide(t *testing.T) {
	var together sync.WaitGroup
	together.Add(3)
	meet := func(context.Context, *tool.Call) (*tool.Result, error) {
		together.Done()
		together.Wait()
		return &tool.Result{Output: []byte("met")}, nil
	}
	three := script.Answer{Tools: []script.Tool{{Name: "meet", ID: "c"}, {Name: "meet", ID: "a"}, {Name: "meet", ID: "b"}}}
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.WithTools(t, runtimetest.ReadOnlyTool("meet", meet)), runtimetest.ListenedBy(&heard)), three, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	got := runtimetest.Conversation(heard.Heard()[1])
	if !strings.Contains(got, "[meet c]\ntool: met [meet a]\ntool: met [meet b]") {
		t.Errorf("the results are not in the order of the calls:\n%s", got)
	}
}

func TestWritesRunOneAtATime(t *testing.T) {
	var now, most, runs atomic.Int64
	alone := func(context.Context, *tool.Call) (*tool.Result, error) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(2 * time.Millisecond) // gives another one the chance to overlap
		now.Add(-1)
		runs.Add(1)
		return &tool.Result{Output: []byte("ok")}, nil
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithTools(t, runtimetest.WritingTool("alone", alone))),
		script.Answer{Tools: []script.Tool{{Name: "alone"}, {Name: "alone"}, {Name: "alone"}, {Name: "alone"}}}, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	if most.Load() != 1 || runs.Load() != 4 {
		t.Errorf("%d runs, %d at once", runs.Load(), most.Load())
	}
}

func TestWrongCallsAreExplainedToTheModel(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("empty", func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }))), script.Answer{Tools: []script.Tool{
		{Name: "read_file", Arguments: map[string]any{"path": 7}},
		{Name: "no_such_tool"},
		{Name: "read_file", Malformed: `{"path": `},
		{Name: "read_file", Arguments: map[string]any{"path": "absent.txt"}},
		{Name: "empty"},
	}}, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	var got []string
	for _, p := range failed {
		got = append(got, p.ErrorCategory)
		if p.Message == "" {
			t.Errorf("no message: %+v", p)
		}
	}
	slices.Sort(got[3:]) // these two ran side by side
	if fmt.Sprint(got) != "[invalid_input not_found invalid_input execution not_found]" {
		t.Errorf("got %v", got)
	}
	said := runtimetest.Conversation(heard.Heard()[1])
	for _, p := range failed {
		if !strings.Contains(said, p.Message) {
			t.Errorf("the model was not told %q:\n%s", p.Message, said)
		}
	}
}

func TestQuestionWithASchema(t *testing.T) {
	schema := map[string]any{"type": "object", "required": []any{"n"}, "properties": map[string]any{"n": map[string]any{"type": "integer"}, "m": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}}
	k := runtimetest.New(t, script.Answer{Ask: &script.Ask{Prompt: "How many?", Schema: schema}}, runtimetest.Says("thanks"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	for bad, want := range map[string]fault.Error{
		`{"n":"three","m":[7]}`: {Param: "payload.m[0]", Detail: `payload.m[0]: expected string, given 7; payload.n: expected integer, given the string "three"; see the action's schema`},
		`{}`:                    {Param: "payload.n", Detail: "payload.n: is missing (integer); see the action's schema"},
		`3`:                     {Param: "payload", Detail: "payload: expected object, given 3; see the action's schema"},
		``:                      {Param: "payload"},
	} {
		_, err := k.Runtime.Do(t.Context(), command.Local(), &command.RespondAction{ActionID: action, Decision: "submit", Payload: event.Raw(bad)})
		got, _ := errors.AsType[*fault.Error](err)
		if got == nil || got.Kind != fault.InvalidParams || got.Param != want.Param || want.Detail != "" && (got.Detail != want.Detail || len(got.Fields) != strings.Count(want.Detail, "; ")) {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	if got := k.Thread(r); got.Phase != "waiting_input" {
		t.Errorf("the thread is %s", got.Phase)
	}
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "submit", Payload: event.Raw(`{"n": 3}`)})
	k.Completes(r)
	if p := runtimetest.Payloads[*event.ToolResult](k, "sess_a"); len(p) != 1 || string(p[0].StructuredContent) != `{"n":3}` {
		t.Errorf("%+v", p)
	}
}

func TestQuestionThatIsCancelled(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Ask: &script.Ask{Prompt: "Really?"}}, runtimetest.Says("then not"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	k.Respond(action, "cancel")
	k.Completes(r)
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "denied" {
		t.Errorf("%+v", p)
	}
}

// TestFirstAnswerWins: many clients answer one question in different ways.
func TestFirstAnswerWins(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	var won atomic.Int64
	var wg sync.WaitGroup
	var decided sync.Map
	for i := range 16 {
		decision := []string{"allow", "deny"}[i%2]
		wg.Go(func() {
			_, err := k.Runtime.Do(context.Background(), command.Local(), &command.RespondAction{ActionID: action, Decision: decision})
			if err == nil {
				won.Add(1)
				decided.Store(decision, true)
			} else if fault.KindOf(err) != fault.Conflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	k.Completes(r)
	n := 0
	decided.Range(func(any, any) bool { n++; return true })
	if n != 1 || won.Load() == 0 || k.CountFacts("sess_a", event.TypeActionResolved) != 1 {
		t.Errorf("%d answers were taken, of %d kinds", won.Load(), n)
	}
}

func TestInterruptOfAWaitingApproval(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), runtimetest.Says("next"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "no"})
	if p := k.Fails(r, "interrupted"); p.Status != "cancelled" {
		t.Errorf("%+v", p)
	}
	runtimetest.Refused(k, &command.RespondAction{ActionID: action, Decision: "allow"}, fault.Conflict)
	if k.ReadFile("a") != "-" {
		t.Error("the call ran after the interrupt")
	}
	k.Completes(k.Submit("sess_a", "and now"))
}

func TestInterruptOfARunningTool(t *testing.T) {
	begun := make(chan struct{})
	forever := func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	k := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("forever", forever)), runtimetest.CallsTool("forever", nil))
	r := k.Submit("sess_a", "go")
	<-begun
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.Fails(r, "interrupted")
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "interrupted" {
		t.Errorf("%+v", p)
	}
}

// TestInterruptWaitsForAToolThatBlocksIt: such a tool finishes what it began.
func TestInterruptWaitsForAToolThatBlocksIt(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	slow := runtimetest.WritingTool("careful", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(begun)
		<-release
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return &tool.Result{Output: []byte("whole")}, nil
	})
	slow.(*runtimetest.FakeTool).ToolInfo.InterruptBehavior = "block"
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithTools(t, slow)), runtimetest.CallsTool("careful", nil))
	r := k.Submit("sess_a", "go")
	<-begun
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	close(release)
	k.Fails(r, "interrupted")
	if p := runtimetest.Payloads[*event.ToolResult](k, "sess_a"); len(p) != 1 || p[0].Preview != "whole" {
		t.Errorf("%+v", p)
	}
}

func TestProgressIsRecorded(t *testing.T) {
	told := make(chan struct{})
	busy := func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		c.Host.Progress("half", 0.5, "some text")
		<-told
		return &tool.Result{Output: []byte("ok")}, nil
	}
	k := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("busy", busy)), runtimetest.CallsTool("busy", nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	p := k.WaitFor("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ToolProgress)
		return ok && p.Phase == ""
	}).Payload.(*event.ToolProgress)
	close(told)
	k.Completes(r)
	if p.Message != "half" || p.Text != "some text" || *p.Fraction != 0.5 {
		t.Errorf("%+v", p)
	}
}

func TestCallsAreLimitedToTheTurnsTools(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("bypass"), runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "1"}), runtimetest.Says("done"))
	k.Completes(k.SubmitWith("sess_a", "go", &event.TurnOptions{Tools: []string{"read_file"}}))
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || k.ReadFile("a") != "-" {
		t.Errorf("%+v", p)
	}
	runtimetest.Refused(k, &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"x"`), Options: &event.TurnOptions{Tools: []string{"nope"}}}, fault.InvalidParams)
	if read := runtimetest.Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_a", ThreadID: k.SubmitWith("sess_a", "x", nil).ThreadID}); read.ThreadID == "" {
		t.Error("no thread")
	}
}
