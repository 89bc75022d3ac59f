package loop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// lifeOf returns the types of a call's facts of tool, permission, sandbox and action, in
// order; tool.progress with its phase.
func lifeOf(k *runtimetest.Kit, toolCallID string) string {
	k.Helper()
	var out []string
	for _, e := range k.Facts("sess_a") {
		if e.ToolCallID != toolCallID || strings.HasPrefix(string(e.Type), "hook.") {
			continue
		}
		name := string(e.Type)
		if p, ok := e.Payload.(*event.ToolProgress); ok {
			name += ":" + p.Phase
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// callsOf returns the calls of a session in the order in which they were asked for.
func callsOf(k *runtimetest.Kit) []string {
	k.Helper()
	var out []string
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeToolStarted {
			out = append(out, e.ToolCallID)
		}
	}
	return out
}

// TestToolStartedIsWrittenWhenTheModelAsks: events.md, provider adaptation: tool.started
// and tool.args when the provider asks for a tool call; CONTRACT "Changed" 1. It comes
// before the decision and also where the call never runs.
func TestToolStartedIsWrittenWhenTheModelAsks(t *testing.T) {
	write := runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "x"})
	said := func(answer string) *runtimetest.Hooks {
		return &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: runtimetest.AlwaysAnswer(answer)}
	}
	for _, c := range []struct {
		name   string
		call   script.Answer
		change func(*agentd.Options)
		// answer is what a person says; empty if no one is asked.
		answer, want string
	}{
		{"runs", write, runtimetest.InMode("bypass"), "", "tool.started permission.evaluated sandbox.applied tool.progress:running tool.result"},
		{"only reads", runtimetest.CallsTool("list_files", map[string]any{"path": "."}), nil, "", "tool.started permission.evaluated tool.progress:running tool.result"},
		{"refused by the mode", write, runtimetest.InMode("plan"), "", "tool.started permission.evaluated tool.failed"},
		{"allowed by a person", write, nil, "allow", "tool.started permission.evaluated permission.requested action.required action.resolved permission.resolved sandbox.applied tool.progress:running tool.result"},
		{"denied by a person", write, nil, "deny", "tool.started permission.evaluated permission.requested action.required action.resolved permission.resolved tool.failed"},
		{"blocked by a hook", write, said(`{"decision":"block","reason":"no"}`).Use(t), "", "tool.started permission.evaluated tool.failed"},
		{"rewritten by a hook", write, runtimetest.AllOf(runtimetest.InMode("bypass"), said(`{"decision":"continue","updatedInput":{"path":"b","content":"y"}}`).Use(t)), "", "tool.started tool.args permission.evaluated sandbox.applied tool.progress:running tool.result"},
		{"outside of the workspace", runtimetest.CallsTool("read_file", map[string]any{"path": "../x"}), runtimetest.InMode("bypass"), "", "tool.started permission.evaluated sandbox.violation tool.failed"},
		{"rewritten by a hook to lead out", write, runtimetest.AllOf(runtimetest.InMode("bypass"), said(`{"decision":"continue","updatedInput":{"path":"../b","content":"y"}}`).Use(t)), "", "tool.started tool.args permission.evaluated sandbox.violation tool.failed"},
		{"invalid", runtimetest.CallsTool("write_file", map[string]any{"nothing": 1}), nil, "", "tool.started tool.failed"},
		{"unknown", runtimetest.CallsTool("nothing", nil), nil, "", "tool.started tool.failed"},
		{"malformed", script.Answer{Tools: []script.Tool{{Name: "write_file", Malformed: `{"path":`}}}, nil, "", "tool.started tool.failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := runtimetest.NewWith(t, c.change, c.call, runtimetest.Says("done"))
			r := k.Submit("sess_a", "go")
			if c.answer != "" {
				action, _ := k.WaitForAction("sess_a", 1)
				k.Respond(action, c.answer)
			}
			k.Completes(r)
			calls := callsOf(k)
			if len(calls) != 1 || lifeOf(k, calls[0]) != c.want {
				t.Fatalf("%v: %s", calls, lifeOf(k, calls[0]))
			}
			p := runtimetest.Payloads[*event.ToolStarted](k, "sess_a")[0]
			if p.Policy != event.PolicyPending || len(p.SafeArgs) == 0 && p.InputRef == "" {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestCallNamesWhatItRestsOn: tool-context.md, tool invocation: policy decision and
// approval links, permission and sandbox refs, the concurrency flag; and
// permission-and-sandbox.md, permission decision: updated_input_ref and expires_at.
func TestCallNamesWhatItRestsOn(t *testing.T) {
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: runtimetest.AlwaysAnswer(`{"decision":"continue","updatedInput":{"path":"b","content":"y"}}`)}
	write := runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "x"})
	k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText("seen"))), func(o *agentd.Options) { o.Loop.ActionTimeout = time.Hour }), write, write, runtimetest.CallsTool("look", map[string]any{}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	first, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: first, Decision: "allow", Scope: "session", ExpiresInMs: 1 << 30})
	k.Completes(r)
	facts := k.Facts("sess_a")
	find := func(call string, typ event.Type) *event.Event {
		for _, e := range slices.Backward(facts) {
			if e.ToolCallID == call && e.Type == typ {
				return e
			}
		}
		t.Fatalf("call %s has no %s", call, typ)
		return nil
	}
	calls := callsOf(k)
	asked, granted := find(calls[0], event.TypePermissionEvaluated), find(calls[1], event.TypePermissionEvaluated)
	for i, p := range []*event.PermissionEvaluated{asked.Payload.(*event.PermissionEvaluated), granted.Payload.(*event.PermissionEvaluated)} {
		rewritten := find(calls[i], event.TypeToolArgs).Payload.(*event.ToolArgs)
		if p.UpdatedInputRef == "" || p.UpdatedInputRef != rewritten.InputRef || p.ExpiresAt.IsZero() {
			t.Errorf("decision %d: %+v", i, p)
		}
	}
	want := event.ToolLinks{PermissionEventID: asked.ID, ApprovalActionID: first, SandboxEventID: find(calls[0], event.TypeSandboxApplied).ID}
	running, result := find(calls[0], event.TypeToolProgress).Payload.(*event.ToolProgress), find(calls[0], event.TypeToolResult).Payload.(*event.ToolResult)
	if running.Links == nil || *running.Links != want || result.Links == nil || *result.Links != want || running.Policy != "asked" {
		t.Errorf("%+v, %+v; want %+v", running, result, want)
	}
	if started := find(calls[2], event.TypeToolStarted).Payload.(*event.ToolStarted); !started.IsConcurrencySafe || !started.IsReadOnly {
		t.Errorf("%+v", started)
	}
}

// TestEveryItemHasOneStep: events.md, ids: a step is an ordered item such as a message, a
// tool or an action. A call has the same one before and after its approval, and so have
// the requests to a model.
func TestEveryItemHasOneStep(t *testing.T) {
	k := runtimetest.New(t, runtimetest.CallsTool("write_file", map[string]any{"path": "a", "content": "x"}), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	action, _ := k.WaitForAction("sess_a", 1)
	k.Close()
	k.Open()
	k.Respond(action, "allow")
	k.Completes(r)
	steps := map[string]string{}
	for _, e := range k.Facts("sess_a") {
		var item string
		switch {
		case e.ToolCallID != "" && e.ToolCallID != event.NotApplicable:
			item = e.ToolCallID
		case e.ModelRequestID != "":
			item = e.ModelRequestID
		case e.ActionID != "":
			item = e.ActionID
		default:
			continue
		}
		if e.StepID == "" || e.StepID == event.NotApplicable {
			t.Errorf("fact %d (%s) has no step", e.Sequence, e.Type)
		} else if was := steps[item]; was != "" && was != e.StepID {
			t.Errorf("fact %d (%s): %s is in step %s and in %s", e.Sequence, e.Type, item, was, e.StepID)
		}
		steps[item] = e.StepID
	}
	items := map[string]string{}
	for item, step := range steps {
		if other := items[step]; other != "" {
			t.Errorf("%s and %s share step %s", item, other, step)
		}
		items[step] = item
	}
	if len(steps) != 3 { // two requests and a call
		t.Errorf("%v", steps)
	}
}
