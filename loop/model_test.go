package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/tool"
)

func failing(category string, retryable bool) script.Answer {
	return script.Answer{Error: &script.Error{Category: category, Message: "no", Retryable: retryable}}
}

func TestSafeFailuresAreTriedAgain(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.QuickBackoff, failing("overloaded", true), script.Answer{Text: "half ", Error: &script.Error{Category: "server_error", Message: "no", Retryable: true}}, runtimetest.Says("at last"))
	r := k.Submit("sess_a", "go")
	k.Completes(r)
	var attempts []int64
	for _, p := range runtimetest.Payloads[*event.ModelRequested](k, "sess_a") {
		attempts = append(attempts, p.Attempt)
		if p.Step != 1 {
			t.Errorf("step %d", p.Step)
		}
	}
	if fmt.Sprint(attempts) != "[1 2 3]" {
		t.Errorf("attempts %v", attempts)
	}
	waits := runtimetest.Payloads[*event.RunStatus](k, "sess_a")
	if len(waits) != 2 || waits[0].Phase != "retrying" || waits[0].RetryAt.IsZero() {
		t.Errorf("%+v", waits)
	}
	if p := runtimetest.Payloads[*event.ModelFailed](k, "sess_a"); p[1].PartialText != "half " {
		t.Errorf("%+v", p[1])
	}
}

func TestTriesAreBounded(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.QuickBackoff, slices.Repeat([]script.Answer{failing("overloaded", true)}, 10)...)
	if p := k.Fails(k.Submit("sess_a", "go"), "model_failed"); !strings.Contains(p.Error.Message, "overloaded") {
		t.Errorf("%+v", p.Error)
	}
	if n := k.CountFacts("sess_a", event.TypeModelRequested); n != 4 {
		t.Errorf("asked %d times", n)
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.QuickBackoff, script.Answer{Error: &script.Error{Category: "rate_limited", Message: "slow", Retryable: true, RetryAfter: 80 * time.Millisecond}}, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	hits := runtimetest.Payloads[*event.RateLimitHit](k, "sess_a")
	if len(hits) == 0 || hits[0].Source != "provider" || *hits[0].RetryAfterMs != 80 || hits[0].ModelRequestID == "" {
		t.Errorf("%+v", hits)
	}
	var asked []time.Time
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeModelRequested {
			asked = append(asked, e.Time)
		}
	}
	if len(asked) != 2 || asked[1].Sub(asked[0]) < 80*time.Millisecond {
		t.Errorf("asked at %v", asked)
	}
}

func TestInterruptOfAWaitBetweenTries(t *testing.T) {
	k := runtimetest.NewWith(t, nil, script.Answer{Error: &script.Error{Category: "rate_limited", Message: "slow", Retryable: true, RetryAfter: time.Minute}})
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeRunStatus, r.TurnID))
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.Fails(r, "interrupted")
}

// models makes several models of the kit's script, each with its own provider.
func models(first, second *script.Script) func(*agentd.Options) {
	return func(o *agentd.Options) {
		o.Provider, o.Model = nil, ""
		for name, s := range map[string]*script.Script{"one": first, "two": second} {
			o.Loop.Providers = append(o.Loop.Providers, script.New(name, s))
		}
		caps := []string{model.CapTools, model.CapStreaming}
		o.Loop.Models = []model.Info{
			{Provider: "one", Model: "m", Capabilities: caps, HasCredential: true},
			{Provider: "two", Model: "m", Capabilities: caps, HasCredential: true},
			{Provider: "two", Model: "locked", Capabilities: caps, NeedsCredential: true, CredentialHint: "set TWO_KEY"},
		}
		o.Loop.DefaultModel, o.Loop.Fallback = "one/m", []string{"one/m", "two/m"}
		runtimetest.QuickBackoff(o)
	}
}

func TestFallback(t *testing.T) {
	first := &script.Script{Answers: []script.Answer{failing("overloaded", true)}, Repeat: true}
	second := &script.Script{Answers: []script.Answer{runtimetest.Says("from two")}, Repeat: true}
	k := runtimetest.NewWith(t, models(first, second))
	r := k.Submit("sess_a", "go")
	k.Completes(r)
	var decisions []*event.RoutingDecision
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeRoutingFallbackApplied {
			decisions = append(decisions, e.Payload.(*event.RoutingDecision))
		}
	}
	if len(decisions) != 1 || decisions[0].SelectedProvider != "two" || decisions[0].FromModel != "one/m" || decisions[0].Cause != "overloaded" {
		t.Errorf("%+v", decisions)
	}
	done := runtimetest.Payloads[*event.ModelCompleted](k, "sess_a")
	if len(done) != 1 || done[0].Message.Text != "from two" || done[0].Provider != "two" {
		t.Errorf("%+v", done)
	}
}

func TestFallbackThatFailsToo(t *testing.T) {
	bad := &script.Script{Answers: []script.Answer{failing("overloaded", true)}, Repeat: true}
	k := runtimetest.NewWith(t, models(bad, bad))
	k.Fails(k.Submit("sess_a", "go"), "model_failed")
	if n := k.CountFacts("sess_a", event.TypeRoutingFallbackApplied); n != 1 {
		t.Errorf("fell back %d times", n)
	}
	if n := k.CountFacts("sess_a", event.TypeModelRequested); n > 8 {
		t.Errorf("asked %d times", n)
	}
}

func TestLockedAndUnknownModels(t *testing.T) {
	bad := &script.Script{Answers: []script.Answer{failing("overloaded", true)}, Repeat: true}
	k := runtimetest.NewWith(t, models(bad, &script.Script{}))
	// A lock doesn't fall back.
	k.Fails(k.SubmitWith("sess_a", "go", &event.TurnOptions{Model: "one/m"}), "model_failed")
	if n := k.CountFacts("sess_a", event.TypeRoutingFallbackApplied); n != 0 {
		t.Errorf("a locked turn fell back %d times", n)
	}
	// A model that can't be used now is a matter of routing.
	failed := k.Fails(k.SubmitWith("sess_b", "go", &event.TurnOptions{Provider: "two", Model: "locked"}), "routing_not_possible")
	if !strings.Contains(failed.Error.Message, "TWO_KEY") && !strings.Contains(failed.Error.Message, "locked") {
		t.Errorf("%+v", failed.Error)
	}
	if n := k.CountFacts("sess_b", event.TypeRoutingNotPossible); n != 1 || k.CountFacts("sess_b", event.TypeModelRequested) != 0 {
		t.Errorf("%d", n)
	}
	// One that nobody knows is the caller's mistake, and leaves no turn.
	told := runtimetest.Refused(k, &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"x"`), Options: &event.TurnOptions{Model: "three/m"}}, fault.InvalidParams)
	if !strings.Contains(told, "three/m") || !strings.Contains(told, "two/m") {
		t.Error(told)
	}
	if n := k.CountFacts("sess_a", event.TypeTurnSubmitted); n != 1 {
		t.Errorf("%d turns", n)
	}
}

func TestClientSideRateLimit(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Loop.Models = []model.Info{{Provider: "script", Model: "limited", HasCredential: true, Limits: model.Limits{RequestsPerMinute: 2}}}
		o.Loop.DefaultModel = "script/limited"
		o.Loop.Providers = []model.Provider{o.Provider}
		o.Provider = nil
	})
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_a", "two"))
	r := k.Submit("sess_a", "three")
	hit := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeRateLimitHit, r.TurnID)).Payload.(*event.RateLimitHit)
	if hit.Source != "client" || hit.LimitName != model.LimitRequests || *hit.RetryAfterMs <= 0 {
		t.Errorf("%+v", hit)
	}
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeRunStatus, r.TurnID))
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a"})
	k.Fails(r, "interrupted")
}

func TestBudget(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Loop.Models = []model.Info{{Provider: "script", Model: "dear", HasCredential: true, Price: &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 1}}}}
		o.Loop.DefaultModel, o.Loop.Budget = "script/dear", model.Budget{SessionCostUSD: 1}
		o.Loop.Providers = []model.Provider{o.Provider}
		o.Provider = nil
	}, slices.Repeat([]script.Answer{{Text: "ok", Usage: &script.Usage{InputTokens: 400_000, OutputTokens: 20_000}}}, 5)...)
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_a", "two"))
	low := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeQuotaLow, "")).Payload.(*event.QuotaState)
	if *low.Limit != 1 || *low.Used < 0.83 || *low.Used > 0.85 {
		t.Errorf("%+v", low)
	}
	r := k.Submit("sess_a", "three")
	k.Completes(r)
	last := k.Submit("sess_a", "four")
	k.Fails(last, "quota_blocked")
	if k.CountFacts("sess_a", event.TypeQuotaBlocked) != 1 {
		t.Error("no quota.blocked")
	}
	if n := k.CountFacts("sess_a", event.TypeModelRequested); n != 3 {
		t.Errorf("asked %d times", n)
	}
	k.Completes(k.Submit("sess_b", "another session has its own"))
}

func TestBudgetWithinATurn(t *testing.T) {
	spend := &script.Usage{InputTokens: 1_000_000}
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Loop.Models = []model.Info{{Provider: "script", Model: "dear", Capabilities: []string{model.CapTools}, HasCredential: true, Price: &model.Price{Rates: model.Rates{InputPerMTok: 2, OutputPerMTok: 1}}}}
		o.Loop.DefaultModel, o.Loop.Budget = "script/dear", model.Budget{SessionCostUSD: 1}
		o.Loop.Providers = []model.Provider{o.Provider}
		o.Provider = nil
	}, script.Answer{Tools: []script.Tool{{Name: "list_files", Arguments: map[string]any{"path": "."}}}, Usage: spend}, runtimetest.Says("never said"))
	k.Fails(k.Submit("sess_a", "go"), "quota_blocked")
	if k.CountFacts("sess_a", event.TypeQuotaBlocked) != 1 || k.CountFacts("sess_a", event.TypeModelRequested) != 1 {
		t.Error("the second request was made")
	}
}

func TestStepLimit(t *testing.T) {
	k := runtimetest.New(t, slices.Repeat([]script.Answer{runtimetest.CallsTool("list_files", map[string]any{"path": "."})}, 9)...)
	k.WriteFile("changes", "")
	k.Fails(k.SubmitWith("sess_a", "go", &event.TurnOptions{MaxSteps: 2}), "step_limit")
	if n := k.CountFacts("sess_a", event.TypeModelRequested); n != 2 {
		t.Errorf("asked %d times", n)
	}
	if n := k.CountFacts("sess_a", event.TypeToolResult); n != 2 {
		t.Errorf("%d results: the last answer's calls were not carried out", n)
	}
}

func TestDeadline(t *testing.T) {
	hang := &runtimetest.FakeModel{ProviderName: "slow", Answer: func(ctx context.Context, _ *model.Request, send func(model.Chunk) bool) error {
		send(model.Chunk{Text: "and "})
		<-ctx.Done()
		return ctx.Err()
	}}
	runtimetest.InTime(t, 50*time.Millisecond, func(limit time.Duration) bool {
		k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Provider = hang })
		failed := k.Fails(k.SubmitWith("sess_a", "go", &event.TurnOptions{TimeoutMs: limit.Milliseconds()}), "timed_out")
		if !failed.Error.Retryable || failed.Status != "failed" {
			t.Errorf("%+v", failed)
		}
		if k.CountFacts("sess_a", event.TypeTaskTimedOut) != 1 {
			t.Error("the task didn't time out")
		}
		return k.CountFacts("sess_a", event.TypeModelDelta) > 0
	})
}

func TestDeadlineStopsATool(t *testing.T) {
	var began atomic.Bool
	forever := func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		began.Store(true)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	runtimetest.InTime(t, 50*time.Millisecond, func(limit time.Duration) bool {
		k := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("forever", forever)), runtimetest.CallsTool("forever", nil))
		k.Fails(k.SubmitWith("sess_a", "go", &event.TurnOptions{TimeoutMs: limit.Milliseconds()}), "timed_out")
		if !began.Load() {
			return false
		}
		if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "timeout" {
			t.Errorf("%+v", p)
		}
		return true
	})
}

// TestDeadlineOfATurnThatWaits: a question doesn't outlive its turn's time.
func TestDeadlineOfATurnThatWaits(t *testing.T) {
	runtimetest.InTime(t, 50*time.Millisecond, func(limit time.Duration) bool {
		k := runtimetest.New(t, script.Answer{Ask: &script.Ask{Prompt: "Well?"}})
		k.Fails(k.SubmitWith("sess_a", "go", &event.TurnOptions{TimeoutMs: limit.Milliseconds()}), "timed_out")
		asked := k.CountFacts("sess_a", event.TypeActionRequired)
		if p := runtimetest.Payloads[*event.ActionResolved](k, "sess_a"); len(p) != asked || asked == 1 && p[0].Status != "cancelled" {
			t.Errorf("%d questions, %+v", asked, p)
		}
		return asked == 1
	})
}

func TestRepeatedCallsAreWarnedAboutThenStopped(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(&heard), slices.Repeat([]script.Answer{runtimetest.CallsTool("list_files", map[string]any{"path": "."})}, 30)...)
	failed := k.Fails(k.Submit("sess_a", "go"), "step_limit")
	if !strings.Contains(failed.Error.Message, "repeats") {
		t.Errorf("%+v", failed.Error)
	}
	warned := runtimetest.Payloads[*event.RuntimeNotice](k, "sess_a")
	if len(warned) != 1 || warned[0].Code != "repeated_calls" {
		t.Errorf("%+v", warned)
	}
	told := 0
	for _, r := range heard.Heard() {
		if strings.Contains(r.Messages[len(r.Messages)-1].Text, "same tool calls") {
			told++
		}
	}
	if n := len(heard.Heard()); told != 1 || n > 10 {
		t.Errorf("told %d times in %d requests", told, n)
	}
}

func TestDifferentResultsAreNoRepetition(t *testing.T) {
	var n atomic.Int64
	counts := func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Output: fmt.Append(nil, n.Add(1))}, nil
	}
	answers := append(slices.Repeat([]script.Answer{runtimetest.CallsTool("counter", nil)}, 12), runtimetest.Says("done"))
	k := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("counter", counts)), answers...)
	k.Completes(k.Submit("sess_a", "poll"))
}

const numberSchema = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`

func TestStructuredOutput(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []string
		want    string // empty: the turn fails
		calls   int
	}{
		{"valid", []string{`{"n": 1}`}, `{"n":1}`, 1},
		{"in a code block", []string{"```json\n{\"n\": 2}\n```"}, `{"n":2}`, 1},
		{"repaired", []string{"It is three.", `{"n": 3}`}, `{"n":3}`, 2},
		{"failed", []string{"It is four.", `{"n": "four"}`, `{"n": 4}`}, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var heard runtimetest.Listener
			var answers []script.Answer
			for _, a := range c.answers {
				answers = append(answers, runtimetest.Says(a))
			}
			k := runtimetest.NewWith(t, runtimetest.ListenedBy(&heard), answers...)
			r := k.SubmitWith("sess_a", "how many", &event.TurnOptions{OutputSchema: event.Raw(numberSchema)})
			if c.want == "" {
				k.Fails(r, "model_failed")
			} else if p := k.Completes(r); string(p.StructuredOutput) != c.want {
				t.Errorf("%s", p.StructuredOutput)
			}
			requests := heard.Heard()
			if len(requests) != c.calls || !strings.Contains(requests[0].System, `"required":["n"]`) {
				t.Errorf("%d requests", len(requests))
			}
			if c.calls == 2 && !strings.Contains(requests[1].Messages[len(requests[1].Messages)-1].Text, "does not satisfy") {
				t.Errorf("the model was not told what is wrong:\n%s", runtimetest.Conversation(requests[1]))
			}
		})
	}
	k := runtimetest.New(t)
	runtimetest.Refused(k, &command.SubmitTurn{Input: event.Raw(`"x"`), Options: &event.TurnOptions{OutputSchema: event.Raw(`{"type":"no such type"}`)}}, fault.InvalidParams)
}

func TestOutputSchemaGoesToAModelThatKnowsIt(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), func(o *agentd.Options) {
		o.Loop.Models = []model.Info{{Provider: "script", Model: "strict", HasCredential: true, Capabilities: []string{model.CapStructuredOutput}}}
		o.Loop.Providers, o.Loop.DefaultModel = []model.Provider{o.Provider}, "script/strict"
		o.Provider = nil
	}), runtimetest.Says(`{"n":1}`))
	k.Completes(k.SubmitWith("sess_a", "x", &event.TurnOptions{OutputSchema: event.Raw(numberSchema)}))
	if r := heard.Heard()[0]; string(r.OutputSchema) != numberSchema || strings.Contains(r.System, "JSON Schema") {
		t.Errorf("%s", r.OutputSchema)
	}
}
