package evidence_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/hook"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/tool"
)

// waiting is a tool that gives a result when it is let go, or ends with its turn.
type waiting struct {
	name string
	let  chan struct{}
}

func (w *waiting) Info() event.ToolInfo {
	return event.ToolInfo{
		ToolName: w.name, Description: "waits", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "local", IsReadOnly: true, InterruptBehavior: "cancel",
	}
}

func (w *waiting) Run(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
	select {
	case <-w.let:
		return &tool.Result{Output: []byte("waited")}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// slow is a provider whose n-th answer comes when it is let go, or is cut off.
type slow struct {
	model.Provider
	n    int64
	let  chan struct{}
	call atomic.Int64
}

func (s *slow) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	if s.call.Add(1) == s.n {
		select {
		case <-s.let:
		case <-ctx.Done():
		}
	}
	return s.Provider.Stream(ctx, r)
}

// with gives a runtime more tools.
func with(t testing.TB, more ...tool.Tool) func(*agentd.Options) {
	t.Helper()
	r, err := tool.NewRegistry(append(tool.Builtins(nil), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *agentd.Options) { o.Loop.Tools = r }
}

// submit begins a turn.
func (k *kit) submit(sessionID, text string, o *event.TurnOptions) *command.SubmitTurnResult {
	k.Helper()
	return do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: event.Raw(`"` + text + `"`), Options: o})
}

// sees waits for a fact of a turn.
func (k *kit) sees(r *command.SubmitTurnResult, of event.Type) *event.Event {
	k.Helper()
	return k.until(r.SessionID, func(e *event.Event) bool { return e.TurnID == r.TurnID && e.Type == of })
}

// act is the first act of a kind.
func act(c *evidence.Case, kind string) *evidence.CaseAct {
	i := slices.IndexFunc(c.Acts, func(a evidence.CaseAct) bool { return a.Kind == kind })
	return &c.Acts[i]
}

// undone takes an act out of a case: what came after it comes at once.
func undone(c *evidence.Case, i int) {
	c.Acts = slices.Delete(c.Acts, i, i+1)
	less := func(n *int) {
		if *n > i {
			*n--
		}
	}
	for j := range c.Answers {
		less(&c.Answers[j].Acts)
	}
	for j := range c.Results {
		less(&c.Results[j].Acts)
	}
	for j := range c.Decisions {
		less(&c.Decisions[j].Acts)
	}
}

// without takes the first act of a kind out of a case.
func without(kind string) func(*evidence.Case) {
	return func(c *evidence.Case) {
		undone(c, slices.IndexFunc(c.Acts, func(a evidence.CaseAct) bool { return a.Kind == kind }))
	}
}

// TestReplaySteersAgain: input that came while a tool ran, and while the last answer
// streamed, is taken up in the same step again; another text, or none, shows.
func TestReplaySteersAgain(t *testing.T) {
	tools, p := &waiting{"wait", make(chan struct{})}, &slow{n: 2, let: make(chan struct{})}
	answers := []script.Answer{wants("wait", nil), {Text: "first"}, {Text: "second"}}
	p.Provider = script.New("script", &script.Script{Answers: answers})
	k := newKit(t, func(o *agentd.Options) { with(t, tools)(o); o.Provider = p })
	r := k.submit("sess_steer", "go", nil)
	steer := func(text string) {
		do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_steer", Input: event.Raw(`"` + text + `"`), Options: &event.TurnOptions{QueuePolicy: "steer"}})
	}
	k.sees(r, event.TypeToolStarted)
	steer("in a tool")
	close(tools.let)
	n := 0
	k.until("sess_steer", func(e *event.Event) bool {
		if e.Type == event.TypeModelRequested {
			n++
		}
		return n == 2
	})
	steer("in an answer")
	close(p.let)
	k.sees(r, event.TypeTurnCompleted)
	finds(k, "sess_steer", map[string]mutant{
		"another text":   {func(c *evidence.Case) { c.Acts[0].Input = event.Raw(`"other"`) }, "turn 1: turn.steered: input was"},
		"nothing said":   {without(evidence.ActSteer), "turn 1: the recording has turn.steered"},
		"nothing at all": {func(c *evidence.Case) { undone(c, 0); undone(c, 0) }, "turn.steered"},
	})
}

// TestReplayInterruptsAgain: a turn that was stopped in a model call, in a tool, in a
// question and while it waited to ask again ends there again, and so does one that was
// taken from the queue behind it.
func TestReplayInterruptsAgain(t *testing.T) {
	tools, p := &waiting{"wait", make(chan struct{})}, &slow{n: 1, let: make(chan struct{})}
	p.Provider = script.New("script", &script.Script{Answers: []script.Answer{
		wants("wait", nil), wants("request_input", map[string]any{"prompt": "which?"}),
		{Error: &script.Error{Category: "overloaded", Message: "busy", Retryable: true}},
		{Text: "done"},
	}})
	k := newKit(t, func(o *agentd.Options) {
		with(t, tools)(o)
		o.Provider, o.Loop.Backoff = p, model.Backoff{Base: time.Hour, Max: time.Hour}
	})
	stop := func(r *command.SubmitTurnResult, queue string) {
		do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: r.SessionID, TurnID: r.TurnID, Reason: "enough", Queue: queue})
		k.sees(r, event.TypeTurnFailed)
	}
	r := k.submit("sess_stop", "model", nil)
	k.sees(r, event.TypeModelRequested)
	stop(r, "")
	for _, at := range []event.Type{event.TypeToolStarted, event.TypeActionRequired} {
		r = k.submit("sess_stop", "go", nil)
		k.sees(r, at)
		k.submit("sess_stop", "behind it", nil)
		stop(r, "clear")
	}
	r = k.submit("sess_stop", "again", nil)
	k.until("sess_stop", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.RunStatus)
		return ok && p.Phase == "retrying"
	})
	stop(r, "")
	k.turn("sess_stop", "the end", nil)
	finds(k, "sess_stop", map[string]mutant{
		"another reason":  {func(c *evidence.Case) { act(c, evidence.ActInterrupt).Reason = "other" }, "turn.interrupt_requested: reason was"},
		"nobody stops it": {without(evidence.ActInterrupt), "the recording has turn.interrupt_requested"},
	})
}

// TestReplayChangesRulesAgain: rules and modes of a session hold from where they were
// set, also within a turn; others show in what is decided.
func TestReplayChangesRulesAgain(t *testing.T) {
	tools := &waiting{"wait", make(chan struct{})}
	write := wants("write_file", map[string]any{"path": "a.txt", "content": "a"})
	k := newKit(t, with(t, tools), write, script.Answer{Text: "one"}, write, wants("wait", nil), write, script.Answer{Text: "two"}, write, script.Answer{Text: "three"})
	rule := func(decision string) {
		do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_rules", Rules: []event.PolicyRule{{RuleID: "mine", Decision: decision, Tool: "write_file", Reason: "so"}}})
	}
	k.turn("sess_rules", "one", nil)
	rule("deny")
	r := k.submit("sess_rules", "two", nil)
	k.sees(r, event.TypeToolStarted)
	rule("allow")
	close(tools.let)
	k.sees(r, event.TypeTurnCompleted)
	do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_rules", Rules: []event.PolicyRule{}, Mode: "plan"})
	k.turn("sess_rules", "three", nil)
	finds(k, "sess_rules", map[string]mutant{
		"another rule":    {func(c *evidence.Case) { c.Acts[0].Policy.Rules[0].Decision = "ask" }, "policy.changed: rules was"},
		"nothing is set":  {without(evidence.ActPolicy), "the recording has policy.changed"},
		"it is set later": {func(c *evidence.Case) { c.Acts[0].Turns, c.Acts[0].After = 2, c.Acts[1].After }, "policy.changed"},
	})
	for _, turn := range caseOf(k, command.ExportScope{SessionID: "sess_rules"}).Turns {
		c := caseOf(k, command.ExportScope{SessionID: "sess_rules", TurnID: turn.TurnID})
		if d := replayed(t, c); d != nil || len(c.Limits) > 0 {
			t.Errorf("%s alone: %v %+v", turn.TurnID, c.Limits, d)
		}
	}
}

// TestReplayCompactsAndTakesBackAgain: a compaction on request and a rollback come
// between the same turns again.
func TestReplayCompactsAndTakesBackAgain(t *testing.T) {
	write := wants("write_file", map[string]any{"path": "a.txt", "content": "a"})
	k := newKit(t, nil, script.Answer{Text: "one"}, write, script.Answer{Text: "two"}, script.Answer{Text: "summary"}, script.Answer{Text: "three"}, script.Answer{Text: "four"})
	first := k.turn("sess_back", "one", nil)
	k.turn("sess_back", "two", nil)
	thread := k.facts("sess_back")[len(k.facts("sess_back"))-1].ThreadID
	do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_back", ThreadID: thread})
	k.turn("sess_back", "three", nil)
	do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: "sess_back", ThreadID: thread, ToTurnID: first})
	k.turn("sess_back", "four", nil)
	finds(k, "sess_back", map[string]mutant{
		"no compaction": {without(evidence.ActCompact), "purpose compaction"},
		"no rollback":   {without(evidence.ActRollback), "the recording has history.rollback.completed"},
		"another turn":  {func(c *evidence.Case) { act(c, evidence.ActRollback).TurnID = c.Turns[1].TurnID }, "history.rollback.completed: files was"},
	})
}

// TestReplayLetsTimePass: a turn that ran out of time in a tool ends there again,
// whatever time the replay takes.
func TestReplayLetsTimePass(t *testing.T) {
	k := newKit(t, with(t, &waiting{"wait", make(chan struct{})}), wants("wait", nil))
	reached := false
	for limit := int64(200); !reached; limit *= 4 { // until this machine is in the tool by then
		r := k.submit(fmt.Sprintf("sess_time%d", limit), "wait", &event.TurnOptions{TimeoutMs: limit})
		k.sees(r, event.TypeTurnFailed)
		if reached = slices.ContainsFunc(k.facts(r.SessionID), func(e *event.Event) bool { return e.Type == event.TypeToolStarted }); reached {
			finds(k, r.SessionID, map[string]mutant{"nobody is in a hurry": {without(evidence.ActDeadline), "the recording has turn.failed (category timed_out, steps 1)"}})
		}
	}
}

// TestReplayLetsQuestionsExpire: a question that nobody answered in time isn't answered
// again.
func TestReplayLetsQuestionsExpire(t *testing.T) {
	k := newKit(t, func(o *agentd.Options) { o.Loop.ActionTimeout = time.Millisecond },
		wants("request_input", map[string]any{"prompt": "which?"}), script.Answer{Text: "nobody was there"})
	k.turn("sess_ask", "ask", nil)
	finds(k, "sess_ask", map[string]mutant{"somebody answered": {func(c *evidence.Case) {
		c.Decisions[0].Status, c.Decisions[0].Decision = "", "submit"
	}, "action.resolved: decision was \"cancel\" and is \"submit\""}})
}

// TestReplayEndsWithTheRecording: of a turn that has not ended as much is run again as
// was recorded, and it is compared.
func TestReplayEndsWithTheRecording(t *testing.T) {
	tools := &waiting{"wait", make(chan struct{})}
	k := newKit(t, with(t, tools), script.Answer{Text: "one"}, wants("wait", nil), wants("request_input", map[string]any{"prompt": "which?"}))
	k.turn("sess_open", "one", nil)
	r := k.submit("sess_open", "two", nil)
	k.sees(r, event.TypeToolStarted)
	finds(k, "sess_open", map[string]mutant{
		"another call": {func(c *evidence.Case) { c.Answers[1].Message.ToolCalls[0].ToolName = "read_file" }, "call 1 was"},
	})
	close(tools.let)
	k.sees(r, event.TypeActionRequired)
	finds(k, "sess_open", map[string]mutant{
		"another end": {func(c *evidence.Case) { c.Answers[2].Message.ToolCalls = nil }, "call 1 was"},
	})
}

// TestACaseSaysWhatCantBeDoneAgain: input that was added to a turn before it started
// isn't added again, and the case says so.
func TestACaseSaysWhatCantBeDoneAgain(t *testing.T) {
	k := newKit(t, heldAt(t, hook.UserPromptSubmit))
	r := k.submit("sess_limit", "one", nil)
	k.untilHeld("sess_limit")
	do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_limit", Input: event.Raw(`"more"`), Options: &event.TurnOptions{QueuePolicy: "steer"}})
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: r.SessionID, TurnID: r.TurnID})
	k.sees(r, event.TypeTurnFailed)
	c := caseOf(k, command.ExportScope{SessionID: "sess_limit"})
	if c.Determinism != "approximate" || !slices.Contains(c.Limits, "a turn was steered before it started") {
		t.Errorf("%s, limits %v", c.Determinism, c.Limits)
	}
}

// TestACaseSaysThatTheHostsRulesChanged: they are no facts of the session, so when they
// began to hold isn't told.
func TestACaseSaysThatTheHostsRulesChanged(t *testing.T) {
	write := wants("write_file", map[string]any{"path": "a.txt", "content": "a"})
	k := newKit(t, nil, write, script.Answer{Text: "one"}, write, script.Answer{Text: "two"})
	k.turn("sess_host", "one", nil)
	if c := caseOf(k, command.ExportScope{SessionID: "sess_host"}); c.Determinism != "deterministic" {
		t.Errorf("before: %v", c.Limits)
	}
	do[command.PolicyResult](k, &command.SetPolicy{Rules: []event.PolicyRule{{RuleID: "late", Decision: "deny", Tool: "write_file", Reason: "so"}}})
	k.turn("sess_host", "two", nil)
	if c := caseOf(k, command.ExportScope{SessionID: "sess_host"}); !slices.Contains(c.Limits, "the host's rules changed after the session began") {
		t.Errorf("after: %v", c.Limits)
	}
}
