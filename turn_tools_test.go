package agentd_test

import (
	"context"
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
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/tool"
)

// TestModesDecide runs the same three calls in each mode: a read, a write, a
// command. What is asked is denied, so that each turn ends.
func TestModesDecide(t *testing.T) {
	needsSandbox(t)
	want := map[string][3]string{ // read_file, write_file, shell
		"default": {"allow", "ask", "ask"}, "untrusted": {"allow", "ask", "ask"}, "auto": {"allow", "allow", "allow"},
		"on_request": {"allow", "allow", "allow"}, "on_failure": {"allow", "allow", "allow"}, "never": {"allow", "allow", "allow"},
		"plan": {"allow", "deny", "deny"}, "bypass": {"allow", "allow", "allow"},
	}
	k := newKitWith(t, withShell, script.Answer{Tools: []script.Tool{
		{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}},
		{Name: "write_file", Arguments: map[string]any{"path": "b.txt", "content": "b"}},
		{Name: "shell", Arguments: map[string]any{"command": "touch c.txt"}},
	}}, says("done"))
	k.write("a.txt", "a")
	for m, decisions := range want {
		id := "sess_" + m
		r := k.ask(id, "go", &event.TurnOptions{PermissionMode: m})
		asks := 0
		for _, d := range decisions {
			if d == "ask" {
				asks++
				action, p := k.required(id, asks)
				if p.ActionType != "tool_permission" || p.Reason == "" || p.Prompt == "" {
					t.Errorf("%s: asked %+v", m, p)
				}
				k.respond(action, "deny")
			}
		}
		k.completes(r)
		for i, p := range payloads[*event.PermissionEvaluated](k, id) {
			if p.Decision != decisions[i] || p.PermissionMode != m || p.DecisionReason == "" {
				t.Errorf("%s: %s: %s (%s), want %s", m, p.ToolName, p.Decision, p.DecisionReason, decisions[i])
			}
		}
		started := k.count(id, event.TypeToolStarted)
		if want := 3 - strings.Count(fmt.Sprint(decisions), "deny") - asks; started != want {
			t.Errorf("%s: %d calls started, want %d", m, started, want)
		}
	}
}

func TestEveryDecisionComesBeforeItsCall(t *testing.T) {
	k := newKitWith(t, mode("bypass"), wants("write_file", map[string]any{"path": "a", "content": "x"}), says("done"))
	k.completes(k.submit("sess_a", "go"))
	var order []event.Type
	for _, e := range k.facts("sess_a") {
		if e.ToolCallID != "" && e.ToolCallID != event.NotApplicable {
			order = append(order, e.Type)
		}
	}
	want := []event.Type{event.TypePermissionEvaluated, event.TypeSandboxApplied, event.TypeToolStarted, event.TypeToolResult}
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("facts of the call: %v", order)
	}
}

func TestApprovalAllowsOnce(t *testing.T) {
	k := newKit(
		t,
		wants("write_file", map[string]any{"path": "a", "content": "1"}),
		wants("write_file", map[string]any{"path": "a", "content": "2"}), says("done"),
	)
	r := k.submit("sess_a", "go")
	first, _ := k.required("sess_a", 1)
	if got := k.thread(r); got.Status != "blocked" || got.Phase != "waiting_permission" {
		t.Errorf("the thread is %s, %s", got.Status, got.Phase)
	}
	if k.file("a") != "-" {
		t.Error("it was written before anybody allowed it")
	}
	k.respond(first, "allow")
	k.respond(first, "allow") // the same answer again is fine
	refused(k, &command.RespondAction{ActionID: first, Decision: "deny"}, fault.Conflict)
	second, _ := k.required("sess_a", 2)
	if k.file("a") != "1" {
		t.Errorf("the file has %q", k.file("a"))
	}
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: second, Decision: "deny", Reason: "not that"})
	k.completes(r)
	failed := payloads[*event.ToolFailed](k, "sess_a")
	if k.file("a") != "1" || len(failed) != 1 || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Message, "not that") {
		t.Errorf("%q, %+v", k.file("a"), failed)
	}
}

func TestGrantHoldsForTheSession(t *testing.T) {
	k := newKit(
		t,
		wants("write_file", map[string]any{"path": "a", "content": "1"}),
		wants("write_file", map[string]any{"path": "a", "content": "2"}), says("done"),
		wants("write_file", map[string]any{"path": "a", "content": "3"}), says("done"),
	)
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "allow", Scope: "session"})
	k.completes(r)
	k.close()
	k.open() // a grant survives a restart
	k.completes(k.submit("sess_a", "again"))
	if n := k.count("sess_a", event.TypeActionRequired); n != 1 || k.file("a") != "3" {
		t.Errorf("asked %d times, the file has %q", n, k.file("a"))
	}
	k.script.Answers[0], k.script.Answers[1] = wants("write_file", map[string]any{"path": "a", "content": "4"}), says("done")
	other := k.submit("sess_b", "another session")
	action, _ = k.required("sess_b", 1) // is asked for itself
	k.respond(action, "deny")
	k.completes(other)
}

func TestUnansweredApprovalExpires(t *testing.T) {
	k := newKitWith(t, func(o *agentd.Options) { o.Loop.ActionTimeout = 30 * time.Millisecond },
		wants("write_file", map[string]any{"path": "a", "content": "1"}), says("done"))
	k.completes(k.submit("sess_a", "go"))
	failed := payloads[*event.ToolFailed](k, "sess_a")
	resolved := payloads[*event.ActionResolved](k, "sess_a")
	if len(failed) != 1 || failed[0].ErrorCategory != "denied" || !strings.Contains(failed[0].Message, "not answered in time") {
		t.Errorf("%+v", failed)
	}
	if len(resolved) != 1 || resolved[0].Status != "expired" || resolved[0].DecisionSource != "timeout" || k.file("a") != "-" {
		t.Errorf("%+v", resolved)
	}
}

func TestApprovalExpiresWhileNobodyRuns(t *testing.T) {
	k := newKitWith(t, func(o *agentd.Options) { o.Loop.ActionTimeout = time.Hour },
		wants("write_file", map[string]any{"path": "a", "content": "1"}), says("done"))
	r := k.submit("sess_a", "go")
	k.required("sess_a", 1)
	k.close()
	k.change = func(o *agentd.Options) {
		o.Clock = func() time.Time { return time.Now().Add(2 * time.Hour) }
	}
	k.open()
	k.completes(r)
	if p := payloads[*event.ActionResolved](k, "sess_a"); len(p) != 1 || p[0].Status != "expired" {
		t.Errorf("%+v", p)
	}
}

func TestNobodyToAsk(t *testing.T) {
	k := newKitWith(
		t, func(o *agentd.Options) { o.Loop.NobodyToAsk = true },
		wants("write_file", map[string]any{"path": "a", "content": "1"}),
		script.Answer{Ask: &script.Ask{Prompt: "Which?"}}, says("done"),
	)
	k.completes(k.submit("sess_a", "go"))
	failed := payloads[*event.ToolFailed](k, "sess_a")
	if len(failed) != 2 || failed[0].ErrorCategory != "denied" || failed[1].ErrorCategory != "denied" || k.count("sess_a", event.TypeActionRequired) != 0 {
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
	var heard listener
	k := newKitWith(t, all(withTools(t, reads("meet", meet)), listened(&heard)), three, says("done"))
	k.completes(k.submit("sess_a", "go"))
	got := transcript(heard.heard()[1])
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
	k := newKitWith(t, all(mode("bypass"), withTools(t, writes("alone", alone))),
		script.Answer{Tools: []script.Tool{{Name: "alone"}, {Name: "alone"}, {Name: "alone"}, {Name: "alone"}}}, says("done"))
	k.completes(k.submit("sess_a", "go"))
	if most.Load() != 1 || runs.Load() != 4 {
		t.Errorf("%d runs, %d at once", runs.Load(), most.Load())
	}
}

func TestWrongCallsAreExplainedToTheModel(t *testing.T) {
	var heard listener
	k := newKitWith(t, all(mode("bypass"), listened(&heard), withTools(t, reads("empty", func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }))), script.Answer{Tools: []script.Tool{
		{Name: "read_file", Arguments: map[string]any{"path": 7}},
		{Name: "no_such_tool"},
		{Name: "read_file", Malformed: `{"path": `},
		{Name: "read_file", Arguments: map[string]any{"path": "absent.txt"}},
		{Name: "empty"},
	}}, says("done"))
	k.completes(k.submit("sess_a", "go"))
	failed := payloads[*event.ToolFailed](k, "sess_a")
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
	said := transcript(heard.heard()[1])
	for _, p := range failed {
		if !strings.Contains(said, p.Message) {
			t.Errorf("the model was not told %q:\n%s", p.Message, said)
		}
	}
}

func TestQuestionWithASchema(t *testing.T) {
	schema := map[string]any{"type": "object", "required": []any{"n"}, "properties": map[string]any{"n": map[string]any{"type": "integer"}}}
	k := newKit(t, script.Answer{Ask: &script.Ask{Prompt: "How many?", Schema: schema}}, says("thanks"))
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	for _, bad := range []event.Raw{event.Raw(`{"n":"three"}`), event.Raw(`{}`), event.Raw(`3`), nil} {
		refused(k, &command.RespondAction{ActionID: action, Decision: "submit", Payload: bad}, fault.InvalidParams)
	}
	if got := k.thread(r); got.Phase != "waiting_input" {
		t.Errorf("the thread is %s", got.Phase)
	}
	do[command.RespondActionResult](k, &command.RespondAction{ActionID: action, Decision: "submit", Payload: event.Raw(`{"n": 3}`)})
	k.completes(r)
	if p := payloads[*event.ToolResult](k, "sess_a"); len(p) != 1 || string(p[0].StructuredContent) != `{"n":3}` {
		t.Errorf("%+v", p)
	}
}

func TestQuestionThatIsCancelled(t *testing.T) {
	k := newKit(t, script.Answer{Ask: &script.Ask{Prompt: "Really?"}}, says("then not"))
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	k.respond(action, "cancel")
	k.completes(r)
	if p := payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "denied" {
		t.Errorf("%+v", p)
	}
}

// TestFirstAnswerWins: many clients answer one question in different ways.
func TestFirstAnswerWins(t *testing.T) {
	k := newKit(t, wants("write_file", map[string]any{"path": "a", "content": "1"}), says("done"))
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	var won atomic.Int64
	var wg sync.WaitGroup
	var decided sync.Map
	for i := range 16 {
		decision := []string{"allow", "deny"}[i%2]
		wg.Go(func() {
			_, err := k.r.Do(context.Background(), command.Local(), &command.RespondAction{ActionID: action, Decision: decision})
			if err == nil {
				won.Add(1)
				decided.Store(decision, true)
			} else if fault.KindOf(err) != fault.Conflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	k.completes(r)
	n := 0
	decided.Range(func(any, any) bool { n++; return true })
	if n != 1 || won.Load() == 0 || k.count("sess_a", event.TypeActionResolved) != 1 {
		t.Errorf("%d answers were taken, of %d kinds", won.Load(), n)
	}
}

func TestInterruptOfAWaitingApproval(t *testing.T) {
	k := newKit(t, wants("write_file", map[string]any{"path": "a", "content": "1"}), says("next"))
	r := k.submit("sess_a", "go")
	action, _ := k.required("sess_a", 1)
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "no"})
	if p := k.fails(r, "interrupted"); p.Status != "cancelled" {
		t.Errorf("%+v", p)
	}
	refused(k, &command.RespondAction{ActionID: action, Decision: "allow"}, fault.Conflict)
	if k.file("a") != "-" {
		t.Error("the call ran after the interrupt")
	}
	k.completes(k.submit("sess_a", "and now"))
}

func TestInterruptOfARunningTool(t *testing.T) {
	begun := make(chan struct{})
	forever := func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	k := newKitWith(t, withTools(t, reads("forever", forever)), wants("forever", nil))
	r := k.submit("sess_a", "go")
	<-begun
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.fails(r, "interrupted")
	if p := payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "interrupted" {
		t.Errorf("%+v", p)
	}
}

// TestInterruptWaitsForAToolThatBlocksIt: such a tool finishes what it began.
func TestInterruptWaitsForAToolThatBlocksIt(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	slow := writes("careful", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(begun)
		<-release
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return &tool.Result{Output: []byte("whole")}, nil
	})
	slow.(*fakeTool).info.InterruptBehavior = "block"
	k := newKitWith(t, all(mode("bypass"), withTools(t, slow)), wants("careful", nil))
	r := k.submit("sess_a", "go")
	<-begun
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	close(release)
	k.fails(r, "interrupted")
	if p := payloads[*event.ToolResult](k, "sess_a"); len(p) != 1 || p[0].Preview != "whole" {
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
	k := newKitWith(t, withTools(t, reads("busy", busy)), wants("busy", nil), says("done"))
	r := k.submit("sess_a", "go")
	p := k.until("sess_a", is(event.TypeToolProgress, r.TurnID)).Payload.(*event.ToolProgress)
	close(told)
	k.completes(r)
	if p.Message != "half" || p.Text != "some text" || *p.Fraction != 0.5 {
		t.Errorf("%+v", p)
	}
}

func TestCallsAreLimitedToTheTurnsTools(t *testing.T) {
	k := newKitWith(t, mode("bypass"), wants("write_file", map[string]any{"path": "a", "content": "1"}), says("done"))
	k.completes(k.ask("sess_a", "go", &event.TurnOptions{Tools: []string{"read_file"}}))
	if p := payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || k.file("a") != "-" {
		t.Errorf("%+v", p)
	}
	refused(k, &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"x"`), Options: &event.TurnOptions{Tools: []string{"nope"}}}, fault.InvalidParams)
	if read := do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: "sess_a", ThreadID: k.ask("sess_a", "x", nil).ThreadID}); read.ThreadID == "" {
		t.Error("no thread")
	}
}
