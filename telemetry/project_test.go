package telemetry_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/command"
	"agentd/event"
	"agentd/event/eventtest"
	"agentd/hook"
	"agentd/model/provider/script"
	"agentd/telemetry"
	"agentd/tool"
)

// caller is the trace context that a caller sends.
var caller = event.Trace{TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331"}

// everything is a session with a retry, hooks, a command, a refused call, a subagent
// that has to be approved, and an export.
func everything(t *testing.T, tr event.Trace) (*kit, []*event.Event) {
	t.Helper()
	k := newKit(t, world{
		mode: "default", shell: true, points: []hook.Point{hook.UserPromptSubmit, hook.PreToolUse, hook.PostToolUse}, env: []string{"TRACEPARENT"},
		answers: []script.Answer{
			{Error: &script.Error{Category: "overloaded", Message: "busy", Retryable: true}},
			asks("shell", map[string]any{"command": "echo \"$TRACEPARENT\"; exit 3"}),
			asks("no_such_tool", map[string]any{}),
			asks("spawn_agent", map[string]any{"role": "helper", "input": "CHILD"}),
			{Text: "done", Usage: &script.Usage{InputTokens: 100, OutputTokens: 20, CachedInputTokens: 40}},
			{When: &script.When{Contains: "CHILD"}, Text: "child is done"},
		},
	})
	r := k.submit(tr, "go")
	a := k.until(func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	k.runCommand(command.Local(), &command.RespondAction{ActionID: a.ActionID, Decision: "allow"})
	k.ends(r)
	k.runCommand(command.Local(), &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_a"}})
	return k, k.facts()
}

// TestTree checks the spans of a session against the tree that a person expects.
func TestTree(t *testing.T) {
	_, facts := everything(t, event.Trace{})
	spans, _, open := project(facts)
	want := `invoke_agent
  hook_run user_prompt_submit
  task_run
    resolve_context
    chat test !overloaded
    chat test
    execute_tool shell
      hook_run pre_tool_use
      process_exec sh !nonzero_exit
      hook_run post_tool_use
    chat test
    execute_tool no_such_tool !not_found
    chat test
    execute_tool spawn_agent
      hook_run pre_tool_use
      wait tool_permission
      invoke_agent helper
        hook_run user_prompt_submit
        task_run
          resolve_context
          chat test
    chat test
evidence_export evidence
`
	if diff := cmp.Diff(want, tree(spans)); diff != "" {
		t.Errorf("the spans differ (-want +got):\n%s", diff)
	}
	if open != 0 {
		t.Errorf("%d spans are open after everything ended", open)
	}
	inside(t, spans)
}

// inside checks that a turn's spans are in one trace, and within their parents.
func inside(t *testing.T, spans []telemetry.Span) {
	t.Helper()
	by := map[string]*telemetry.Span{}
	for i := range spans {
		by[spans[i].SpanID] = &spans[i]
	}
	for _, s := range spans {
		p := by[s.ParentID]
		if p == nil {
			continue
		}
		if p.TraceID != s.TraceID {
			t.Errorf("%s is in another trace than its parent %s", s.Name, p.Name)
		}
		if s.Start.Before(p.Start) || s.End.After(p.End) {
			t.Errorf("%s (%v to %v) is not within %s (%v to %v)", s.Name, s.Start, s.End, p.Name, p.Start, p.End)
		}
	}
}

// TestAttributes checks what the conventions and our own ids demand of each span.
func TestAttributes(t *testing.T) {
	_, facts := everything(t, event.Trace{})
	spans, _, _ := project(facts)
	chats := named(spans, "chat test")
	if len(chats) != 6 {
		t.Fatalf("%d model calls have a span, want 6: each attempt and the child's", len(chats))
	}
	var last *telemetry.Span
	for i := range chats {
		if chats[i].Get(telemetry.AttrInputTokens) == int64(100) {
			last = &chats[i]
		}
	}
	if last == nil {
		t.Fatal("no model call carries its usage")
	}
	turn := named(spans, "invoke_agent")[0]
	for _, c := range []struct {
		of   *telemetry.Span
		want map[string]any
	}{
		{last, map[string]any{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "script", "gen_ai.request.model": "test", "gen_ai.response.model": "test",
			"gen_ai.usage.output_tokens": int64(20), "gen_ai.usage.cache_read.input_tokens": int64(40), "gen_ai.conversation.id": "sess_a",
			"agentruntime.session.id": "sess_a", "agentruntime.runtime.id": "runtime_test", "agentruntime.attempt": int64(1),
		}},
		{&chats[0], map[string]any{"error.type": "overloaded", "agentruntime.attempt": int64(1), "agentruntime.retryable": true}},
		{&chats[1], map[string]any{"agentruntime.attempt": int64(2), "agentruntime.step": int64(1)}},
		{&turn, map[string]any{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "script", "agentruntime.status": "completed", "agentruntime.source": "user",
		}},
		{&named(spans, "execute_tool shell")[0], map[string]any{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shell", "gen_ai.tool.type": "function", "agentruntime.status": "ok",
		}},
		{&named(spans, "process_exec sh")[0], map[string]any{"process.exit.code": int64(3), "process.executable.name": "sh"}},
		{&named(spans, "wait tool_permission")[0], map[string]any{"agentruntime.decision": "allow", "agentruntime.action.type": "tool_permission"}},
		{&named(spans, "invoke_agent helper")[0], map[string]any{"gen_ai.agent.name": "helper", "agentruntime.source": "subagent"}},
	} {
		for key, want := range c.want {
			if got := c.of.Get(key); got != want {
				t.Errorf("%s: %s is %v, want %v", c.of.Name, key, got, want)
			}
		}
	}
	for _, s := range spans {
		if s.Kind == telemetry.Client != strings.HasPrefix(s.Name, "chat") {
			t.Errorf("%s is of kind %d", s.Name, s.Kind)
		}
	}
}

// TestTraceOfTheCaller checks that a turn hangs below the span that its caller sent,
// and that everything in it, the subagent too, is in the caller's trace.
func TestTraceOfTheCaller(t *testing.T) {
	_, facts := everything(t, caller)
	spans, _, _ := project(facts)
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "evidence") {
			continue // another command, without a trace
		}
		if s.TraceID != caller.TraceID {
			t.Errorf("%s is in trace %s", s.Name, s.TraceID)
		}
	}
	if turn := named(spans, "invoke_agent")[0]; turn.ParentID != caller.SpanID {
		t.Errorf("the turn's parent is %q", turn.ParentID)
	}
	for _, e := range facts {
		if strings.HasPrefix(string(e.Type), "model.") && e.TraceID != caller.TraceID {
			t.Errorf("%s doesn't carry the caller's trace", e.Type)
		}
	}
}

// TestToldIsExported checks that providers, hooks and commands are told the ids
// that the exported spans have.
func TestToldIsExported(t *testing.T) {
	for name, tr := range map[string]event.Trace{"own": {}, "caller's": caller} {
		t.Run(name, func(t *testing.T) {
			k, facts := everything(t, tr)
			spans, _, _ := project(facts)
			ids := map[string]string{}
			for _, s := range spans {
				ids["00-"+s.TraceID+"-"+s.SpanID+"-01"] = s.Name
			}
			for who, prefix := range map[string]string{"model": "chat ", "hook": "hook_run "} {
				all := k.told.all(who)
				for _, tp := range all {
					if !strings.HasPrefix(ids[tp], prefix) {
						t.Errorf("%s was told %q, which is %q", who, tp, ids[tp])
					}
				}
				if len(all) < 4 {
					t.Errorf("%s was told only %d times", who, len(all))
				}
			}
			for _, e := range facts {
				if p, ok := e.Payload.(*event.ToolResult); ok && p.ToolName == "shell" && !strings.HasPrefix(ids[firstLine(p.Preview)], "process_exec") {
					t.Errorf("the command was told %q", p.Preview)
				}
			}
		})
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// remote is a tool that remembers the trace context of its calls.
type remote struct{ told []string }

func (*remote) Info() event.ToolInfo {
	return event.ToolInfo{
		ToolName: "remote", Description: "is elsewhere", InputSchema: event.Raw(`{"type":"object"}`), RuntimeOwner: "mcp_server",
		IsReadOnly: true, InterruptBehavior: "cancel",
	}
}

func (r *remote) Run(_ context.Context, c *tool.Call) (*tool.Result, error) {
	r.told = append(r.told, c.TraceParent)
	return &tool.Result{Output: []byte("done")}, nil
}

// TestToolIsTold checks that a tool, which may be a server elsewhere, is told its span.
func TestToolIsTold(t *testing.T) {
	r := &remote{}
	k := newKit(t, world{mode: "bypass", tools: []tool.Tool{r}, answers: []script.Answer{asks("remote", map[string]any{}), {Text: "done"}}})
	k.ends(k.submit(caller, "go"))
	spans, _, _ := project(k.facts())
	s := named(spans, "execute_tool remote")
	if len(s) != 1 || len(r.told) != 1 || r.told[0] != (event.Trace{TraceID: caller.TraceID, SpanID: s[0].SpanID}).Parent() {
		t.Errorf("the tool was told %v", r.told)
	}
}

// TestEnvironmentStaysClean checks that a command sees no trace unless the sandbox's
// settings say so.
func TestEnvironmentStaysClean(t *testing.T) {
	k := newKit(t, world{mode: "bypass", shell: true, answers: []script.Answer{
		asks("shell", map[string]any{"command": "env"}), {Text: "done"},
	}})
	k.ends(k.submit(caller, "go"))
	for _, e := range k.facts() {
		if p, ok := e.Payload.(*event.ToolResult); ok && (strings.Contains(p.Preview, "TRACEPARENT") || !strings.Contains(p.Preview, "PATH=")) {
			t.Errorf("the environment is %s", p.Preview)
		}
	}
}

// TestSameFactsSameSpans checks that projecting again, in other pieces or after an
// interruption, gives the same.
func TestSameFactsSameSpans(t *testing.T) {
	_, facts := everything(t, event.Trace{})
	first, measures, _ := project(facts)
	again, measuresAgain, _ := project(facts)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("a second projection differs:\n%s", diff)
	}
	if len(measures) != len(measuresAgain) {
		t.Errorf("%d measures, then %d", len(measures), len(measuresAgain))
	}
	twice := make([]*event.Event, 0, 2*len(facts))
	for i, e := range facts {
		twice = append(twice, e, facts[max(i-3, 0)])
	}
	if repeated, _, _ := project(twice); !cmp.Equal(first, repeated) {
		t.Error("facts that are delivered again give spans again")
	}
}

// TestHoles checks that missing facts never break the rest, and are told.
func TestHoles(t *testing.T) {
	_, facts := everything(t, event.Trace{})
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var kept []*event.Event
		for _, e := range facts {
			if random.IntN(4) > 0 {
				kept = append(kept, e)
			}
		}
		spans, _, _ := project(kept)
		sound(t, spans)
	}
	var ends []*event.Event
	for _, e := range facts {
		if e.Type != event.TypeModelRequested {
			ends = append(ends, e)
		}
	}
	spans, _, _ := project(ends)
	for _, s := range named(spans, "chat test") {
		if s.Get(telemetry.AttrCorrelation) != telemetry.MissingCorrelation {
			t.Errorf("a model call without a beginning says %v", s.Get(telemetry.AttrCorrelation))
		}
	}
}

type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// sound checks what holds for every span.
func sound(t failer, spans []telemetry.Span) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range spans {
		trace, err := hex.DecodeString(s.TraceID)
		span, err2 := hex.DecodeString(s.SpanID)
		if err != nil || err2 != nil || len(trace) != 16 || len(span) != 8 {
			t.Errorf("%s has the ids %q and %q", s.Name, s.TraceID, s.SpanID)
		}
		if s.SpanID == s.ParentID || s.End.Before(s.Start) || s.Name == "" || s.Kind == 0 {
			t.Errorf("%+v is no span", s)
		}
		if s.Failed != (s.Get(telemetry.AttrErrorType) != nil) {
			t.Errorf("%s: status and error.type don't agree", s.Name)
		}
		seen[s.SpanID] = true
	}
}

// TestAnyFacts feeds facts of any type with any payload: nothing panics, every span
// is sound, and no text of a payload that isn't a name gets out.
func TestAnyFacts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := telemetry.New("sess_a")
		for i := range rapid.IntRange(1, 30).Draw(rt, "n") {
			e := eventtest.Event(rt, eventtest.Type().Draw(rt, "type"))
			e.Sequence, e.TraceID, e.SpanID = uint64(i)+1, "", ""
			if rapid.Bool().Draw(rt, "same turn") {
				e.TurnID, e.ThreadID, e.ToolCallID, e.RunID = "turn_a", "thread_a", "tool_a", "run_a"
			}
			out := p.Apply(e)
			sound(rt, out.Spans)
			if !telemetry.Shows(e.Type) && len(out.Spans)+len(out.Measures) > 0 {
				rt.Errorf("%s shows something", e.Type)
			}
			for _, s := range out.Spans {
				if strings.ContainsAny(s.Name, "\n\"{}") {
					rt.Errorf("the name %q is content", s.Name)
				}
			}
		}
	})
}

// TestNoContent plants a secret wherever a caller, a model, a tool or a hook can put
// one, without any redaction, and looks for it in everything that is exported.
func TestNoContent(t *testing.T) {
	secret := strings.Join([]string{"plant", "ed", " secret", " value"}, "")
	k := newKit(t, world{
		mode: "bypass", shell: true, points: []hook.Point{hook.PreToolUse, hook.UserPromptSubmit}, reason: secret,
		answers: []script.Answer{
			{Text: secret, Reasoning: secret, Tools: []script.Tool{{Name: "shell", Arguments: map[string]any{"command": "echo '" + secret + "'"}}}},
			asks("write_file", map[string]any{"path": secret, "content": secret}),
			asks("read_file", map[string]any{"path": secret + "/none"}),
			asks(secret, map[string]any{"a": secret}),
			asks("spawn_agent", map[string]any{"role": secret, "input": secret + " CHILD"}),
			{Error: &script.Error{Category: "invalid_request", Message: secret}},
			{When: &script.When{Contains: "CHILD"}, Text: secret},
		},
	})
	k.ends(k.submit(event.Trace{}, secret))
	facts := k.facts()
	spans, measures, _ := project(facts)
	if len(spans) < 12 || len(measures) < 10 {
		t.Fatalf("only %d spans and %d measures", len(spans), len(measures))
	}
	var meter telemetry.Meter
	meter.Add(measures)
	traces, err := telemetry.TracesJSON(telemetry.Resource{}, spans)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := telemetry.MetricsJSON(telemetry.Resource{}, meter.Snapshot(facts[0].Time, facts[0].Time))
	if err != nil {
		t.Fatal(err)
	}
	planted := 0
	for _, e := range facts {
		if strings.Contains(string(event.AppendJSON(nil, e)), secret) {
			planted++
		}
	}
	if planted < 10 {
		t.Fatalf("the secret is in only %d facts; the test proves little", planted)
	}
	for what, data := range map[string][]byte{"spans": traces, "metrics": metrics} {
		if i := bytes.Index(data, []byte("planted")); i >= 0 {
			t.Errorf("the secret is in the %s: …%s…", what, data[max(i-80, 0):min(i+40, len(data))])
		}
	}
}

// TestMetrics checks the measures of a session. Tokens are those that the provider
// counted: one call says how many.
func TestMetrics(t *testing.T) {
	_, facts := everything(t, event.Trace{})
	_, measures, _ := project(facts)
	counts := map[string]int{}
	for _, m := range measures {
		counts[m.Instrument.Name]++
	}
	want := map[string]int{
		"gen_ai.client.operation.duration": 6, "gen_ai.client.token.usage": 2, "agentruntime.turn.duration": 2, "agentruntime.task.duration": 2,
		"agentruntime.model.retries": 1, "agentruntime.tool.duration": 3, "agentruntime.hook.duration": 5, "agentruntime.queue.wait": 2,
		"agentruntime.permission.wait": 1, "agentruntime.process.runtime": 1, "agentruntime.cost.unpriced": 5, "agentruntime.evidence.exports": 1,
	}
	for name, n := range want {
		if counts[name] != n {
			t.Errorf("%s was measured %d times, want %d", name, counts[name], n)
		}
	}
	if t.Failed() {
		t.Log(fmt.Sprint(counts))
	}
}
