package loop_test

import (
	"testing"
	"time"

	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
)

// model-routing-limits.md, routing decision: a fallback is explained. Where a provider
// asks to be left alone for longer than two seconds, the next model is asked at once.
func TestAWaitOfAnHourFallsBackAtOnce(t *testing.T) {
	wait := func(d time.Duration) script.Answer {
		return script.Answer{Error: &script.Error{Category: "rate_limited", Message: "slow down", Retryable: true, RetryAfter: d}}
	}
	second := &script.Script{Answers: []script.Answer{runtimetest.Says("from two")}, Repeat: true}
	k := runtimetest.NewWith(t, models(&script.Script{Answers: []script.Answer{wait(time.Hour)}}, second))
	k.Completes(k.Submit("sess_a", "go"))
	asked := runtimetest.Payloads[*event.ModelRequested](k, "sess_a")
	if len(asked) != 2 || asked[0].Provider != "one" || asked[1].Provider != "two" {
		t.Errorf("asked %+v", asked)
	}
	if p := runtimetest.Payloads[*event.RateLimitHit](k, "sess_a"); len(p) != 1 || *p[0].RetryAfterMs != time.Hour.Milliseconds() {
		t.Errorf("%+v", p)
	}
	// A short wait is waited for: the same model answers.
	first := &script.Script{Answers: []script.Answer{wait(time.Millisecond), runtimetest.Says("from one")}}
	k = runtimetest.NewWith(t, models(first, second))
	k.Completes(k.Submit("sess_a", "go"))
	if n := k.CountFacts("sess_a", event.TypeRoutingFallbackApplied); n != 0 {
		t.Errorf("fell back %d times", n)
	}
}
