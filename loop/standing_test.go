package loop_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/store/storetest"
	"agentd/tool"
)

// specification.md, standard event classes: limit.changed says that a budget was set or
// changed, once for each change.
func TestBudgetIsTold(t *testing.T) {
	usd := 5.0
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Loop.Budget = model.Budget{SessionCostUSD: usd} }, slices.Repeat([]script.Answer{runtimetest.Says("done")}, 5)...)
	told := func() []*event.LimitChanged { return runtimetest.Payloads[*event.LimitChanged](k, "sess_a") }
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_a", "two"))
	if p := told(); len(p) != 1 || p[0].Kind != "budget" || *p[0].Limit != 5 || p[0].Unit != "USD" {
		t.Fatalf("%+v", p)
	}
	for _, change := range []float64{9, 0} {
		k.Close()
		usd = change
		k.Open()
		k.Completes(k.Submit("sess_a", "more"))
	}
	if p := told(); len(p) != 3 || *p[1].Limit != 9 || p[2].Limit != nil {
		t.Errorf("%+v", p)
	}
	if l := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}).RoutingLimitSummary.Limits.Limits; len(l) != 1 || l[0].Limit != nil {
		t.Errorf("%+v", l)
	}
}

// specification.md, standard event classes: runtime.error is a fatal error of the runtime.
func TestAbandonedTurnIsARuntimeError(t *testing.T) {
	weak := &unreadable{Store: storetest.NewMem()}
	k := &runtimetest.Kit{T: t, Store: weak, Dir: t.TempDir(), Script: &script.Script{Answers: []script.Answer{}}, Change: func(o *agentd.Options) { o.Loop.MaxTranscripts = 1 }}
	k.Open()
	t.Cleanup(k.Close)
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_b", "takes the place of the other conversation"))
	weak.left.Store(1)
	r := k.Submit("sess_a", "two")
	failed := k.Fails(r, "internal")
	e := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeRuntimeError, r.TurnID))
	if p := e.Payload.(*event.RuntimeNotice); p.Message != failed.Error.Message || p.Code == "" || p.Advice == "" {
		t.Errorf("%+v", p)
	}
	for _, i := range k.Thread(r).Incidents {
		if i.Active {
			t.Errorf("%+v stands in the way of a thread that goes on", i)
		}
	}
}

// execution-environment.md, recovery: a restart tells what is not known. history.md: a
// partial recovery is marked degraded, and what blocks a thread is an active incident.
func TestLostCallDegradesTheSession(t *testing.T) {
	began := make(chan struct{})
	hangs := runtimetest.WritingTool("hang", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	dying := runtimetest.NewDyingStore(storetest.NewMem(), -1, false)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.OnDyingStore(dying), runtimetest.WithTools(t, hangs), runtimetest.InMode("bypass")), runtimetest.CallsTool("hang", nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	<-began
	k.Crash(dying)
	k.Open()
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeHistoryReconstructed })
	if p := runtimetest.Payloads[*event.HistoryReconstructed](k, "sess_a")[0]; !p.Degraded || len(p.Missing) != 1 || !strings.Contains(p.Missing[0], "hang") {
		t.Errorf("%+v", p)
	}
	snap := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"})
	if !snap.Degraded || snap.Status != "degraded" {
		t.Errorf("degraded %v, status %s", snap.Degraded, snap.Status)
	}
	active := func() (n int) {
		for _, i := range k.Thread(r).Incidents {
			if i.Active {
				n++
			}
		}
		return n
	}
	if active() != 1 {
		t.Errorf("%+v", k.Thread(r).Incidents)
	}
	runtimetest.Do[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.Completes(r)
	if active() != 0 {
		t.Errorf("%+v", k.Thread(r).Incidents)
	}
	changes := runtimetest.Payloads[*event.SessionUpdated](k, "sess_a")
	if len(changes) != 2 || changes[0].Status != "degraded" || changes[1].Status != "open" || changes[1].ChangedBy == nil {
		t.Errorf("%+v", changes)
	}
}

// context.md: what goes into the context is referred to, the instructions too.
func TestInstructionsHaveARefAndADigest(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("one"), runtimetest.Says("two"))
	k.Completes(k.Submit("sess_a", "go"))
	k.Completes(k.Submit("sess_a", "on"))
	all := runtimetest.Payloads[*event.ContextResolved](k, "sess_a")
	first := all[0].Items[0]
	if first.Kind != "instructions" || !strings.HasPrefix(first.Digest, "sha256:") || !strings.Contains(k.ReadOutput(first.Ref), "You are an agent") {
		t.Errorf("%+v", first)
	}
	if all[1].Items[0] != first {
		t.Errorf("the second turn has %+v", all[1].Items[0])
	}
	for _, item := range all[0].Items {
		if item.Digest != "" && !strings.HasPrefix(item.Digest, "sha256:") {
			t.Errorf("the digest of %s is %s", item.Kind, item.Digest)
		}
	}
}

// agent-task.md: a plan is a progress hint; the thread's read model shows it.
func TestPlanIsInTheReadModel(t *testing.T) {
	plan := map[string]any{"items": []any{map[string]any{"step": "look", "status": "completed"}, map[string]any{"step": "paint"}}}
	k := runtimetest.New(t, runtimetest.CallsTool("update_plan", plan), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.Completes(r)
	k.Close()
	k.Open()
	p := k.Thread(r).Plan
	if p == nil || len(p.Items) != 2 || p.Items[0].Step != "look" || p.Items[0].Status != "completed" || p.Items[1].Status != "pending" || p.TurnID != r.TurnID {
		t.Errorf("%+v", p)
	}
}

// hooks-and-policy.md, hook input: it has transcript, routing and policy refs.
func TestHooksAreReferredToWhatTheyArentSent(t *testing.T) {
	h := &runtimetest.Hooks{Points: hook.Points(), Answer: runtimetest.AlwaysAnswer(`{}`)}
	k := runtimetest.NewWith(t, h.Use(t), runtimetest.CallsTool("list_files", map[string]any{"path": "."}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	for i, in := range h.Inputs {
		point := h.Told[i]
		if !strings.HasPrefix(in.TranscriptRef, "/v1/sessions/sess_a/events?after=") {
			t.Errorf("%s: the transcript is at %q", point, in.TranscriptRef)
		}
		begun := point != "session_start" && point != "user_prompt_submit"
		if (in.RoutingRef != "") != begun || (len(in.PolicyRefs) > 0) != begun {
			t.Errorf("%s: routing %q, policies %v", point, in.RoutingRef, in.PolicyRefs)
		}
	}
	last := h.Inputs[len(h.Inputs)-1]
	if !strings.Contains(k.ReadOutput(last.PolicyRefs[0]), `"limits"`) {
		t.Error("the policy's reference leads nowhere")
	}
}
