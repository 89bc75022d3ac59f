package loop_test

import (
	"context"
	"strings"
	"testing"

	"agentd"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/redact"
)

// events.md, provider adaptation and ordering: reasoning and text are told in the order in
// which the provider sent them, also what redaction holds back of the reasoning.
func TestReasoningComesBeforeTheTextThatFollowsIt(t *testing.T) {
	words := []string{"I ", "wonder", "about th", "e key sk"} // it may be the beginning of a secret
	says := &runtimetest.FakeModel{ProviderName: "thinker", Answer: func(_ context.Context, _ *model.Request, send func(model.Chunk) bool) error {
		for _, w := range words {
			send(model.Chunk{Reasoning: w})
		}
		for _, w := range []string{"The", " answer", " is", " 42"} {
			send(model.Chunk{Text: w})
		}
		send(runtimetest.AnswerEnd("end_turn", 1, 1))
		return nil
	}}
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Provider, o.Model = says, "m"
		o.Loop.Redact = redact.New(redact.Options{Values: []string{"skeleton-key-of-the-house"}})
	})
	k.Completes(k.Submit("sess_a", "go"))
	var reasoning strings.Builder
	text := false
	for _, e := range k.Facts("sess_a") {
		switch p := e.Payload.(type) {
		case *event.ReasoningDelta:
			reasoning.WriteString(p.Text)
			if text {
				t.Errorf("%q comes after text", p.Text)
			}
		case *event.ModelDelta:
			text = true
		}
	}
	if reasoning.String() != strings.Join(words, "") || !text {
		t.Errorf("the reasoning is %q", reasoning.String())
	}
}

// specification.md, standard event classes: reasoning.summary is reasoning outside of the
// final text. It is told where the provider gives a summary.
func TestSummaryOfReasoningIsAFact(t *testing.T) {
	long := strings.Repeat("because ", 1000)
	k := runtimetest.New(t,
		script.Answer{Text: "yes", Reasoning: "in short: yes", ReasoningSummarised: true},
		script.Answer{Text: "yes", Reasoning: long, ReasoningSummarised: true},
		script.Answer{Text: "yes", Reasoning: "step by step"},
	)
	for range 3 {
		k.Completes(k.Submit("sess_a", "well?"))
	}
	got := runtimetest.Payloads[*event.ReasoningSummary](k, "sess_a")
	if len(got) != 2 || got[0].Text != "in short: yes" || got[0].SummaryRef != "" {
		t.Fatalf("%+v", got)
	}
	if len(got[1].Text) > 5000 || k.ReadOutput(got[1].SummaryRef) != long {
		t.Errorf("the long one has %d bytes and reference %q", len(got[1].Text), got[1].SummaryRef)
	}
}
