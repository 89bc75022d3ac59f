package loop_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/loop"
	"agentd/model"
	"agentd/model/provider/script"
)

// judge is a reviewer that answers by a function; the turn's own model is the script.
type judge struct {
	// answer gives the text of a verdict.
	answer func(ctx context.Context, asked string) (string, error)
	loop.Reviewer

	mu    sync.Mutex
	asked []*model.Request
}

func (j *judge) installReviewer(o *agentd.Options) {
	play := o.Provider
	o.Provider = &runtimetest.FakeModel{ProviderName: play.Name(), Answer: func(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if r.CacheKey != "reviewer" {
			for c, err := range play.Stream(ctx, r) {
				if err != nil {
					return err
				}
				send(c)
			}
			return nil
		}
		j.mu.Lock()
		j.asked = append(j.asked, r)
		j.mu.Unlock()
		text, err := j.answer(ctx, r.Messages[0].Text)
		if err != nil {
			return err
		}
		send(model.Chunk{Text: text})
		send(runtimetest.AnswerEnd("end_turn", 100, 10))
		return nil
	}}
	rv := j.Reviewer
	rv.Model, rv.Destructive = play.Name()+"/test", true // nothing here brings back what is overwritten
	o.Loop.Reviewer = &rv
}

func says(text string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) { return text, nil }
}

const (
	allowVerdict = `{"decision":"allow","reason":"it is what was asked for"}`
	askVerdict   = `{"decision":"ask","reason":"it is not clear why"}`
)

// TestReviewerAnswers: a verdict that allows takes the place of the question. It is a
// fact with its reason and its cost, the decision names it, and why tells it.
func TestReviewerAnswers(t *testing.T) {
	j := &judge{answer: says(allowVerdict)}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("default"), j.installReviewer), slicesConcat(writesWhen("Write a.", "src/a"))...)
	turn := k.Submit("sess_a", "Write a. Ignore the rest.")
	k.Completes(turn)
	reviews := runtimetest.Payloads[*event.PermissionReviewed](k, "sess_a")
	if len(reviews) != 1 || reviews[0].Verdict != "allow" || reviews[0].Reason != "it is what was asked for" || reviews[0].Usage == nil || reviews[0].ModelRequestID == "" {
		t.Fatalf("%+v", reviews)
	}
	judged := runtimetest.Payloads[*event.PermissionEvaluated](k, "sess_a")
	if len(judged) != 1 || judged[0].Decision != "allow" || judged[0].DecisionSource != "classifier" || !strings.Contains(judged[0].DecisionReason, "it is what was asked for") {
		t.Errorf("%+v", judged[0])
	}
	costs := 0
	for _, p := range runtimetest.Payloads[*event.CostRecorded](k, "sess_a") {
		if p.ModelRequestID == reviews[0].ModelRequestID {
			costs++
		}
	}
	if costs != 1 {
		t.Errorf("%d costs of the review", costs)
	}
	var call string
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypePermissionReviewed {
			call = e.ToolCallID
		}
	}
	if why := k.Why(&command.Explain{SessionID: "sess_a", ToolCallID: call}); !strings.Contains(why.Answer, "reviewer") {
		t.Errorf("why says %s", why.Answer)
	}
	shown := j.asked[0].Messages[0].Text
	if !strings.Contains(shown, "Write a. Ignore the rest.") || !strings.Contains(shown, "src/a") || strings.Contains(shown, "done") {
		t.Errorf("the reviewer was shown %s", shown)
	}
}

func slicesConcat(lists ...[]script.Answer) []script.Answer {
	var out []script.Answer
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// TestReviewerFailsClosed: whatever goes wrong, the person is asked.
func TestReviewerFailsClosed(t *testing.T) {
	for name, tc := range map[string]struct {
		judge    *judge
		verdict  string
		category string
	}{
		"it asks":       {&judge{answer: says(askVerdict)}, "ask", ""},
		"an error":      {&judge{answer: func(context.Context, string) (string, error) { return "", errors.New("no") }}, "failed", "model"},
		"a model error": {&judge{answer: func(context.Context, string) (string, error) { return "", &model.Error{Category: model.Overloaded} }}, "failed", "model"},
		"a timeout": {&judge{Reviewer: loop.Reviewer{Timeout: time.Millisecond}, answer: func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return allowVerdict, ctx.Err()
		}}, "failed", "timeout"},
		"prose":            {&judge{answer: says("Sure, allow it.")}, "failed", "malformed"},
		"an empty answer":  {&judge{answer: says("")}, "failed", "malformed"},
		"no reason":        {&judge{answer: says(`{"decision":"allow"}`)}, "failed", "malformed"},
		"another word":     {&judge{answer: says(`{"decision":"ALLOW","reason":"x"}`)}, "failed", "malformed"},
		"more members":     {&judge{answer: says(`{"decision":"allow","reason":"x","also":"y"}`)}, "failed", "malformed"},
		"two verdicts":     {&judge{answer: says(askVerdict + allowVerdict)}, "failed", "malformed"},
		"twice a decision": {&judge{answer: says(`{"decision":"ask","decision":"allow","reason":"x"}`)}, "failed", "malformed"},
		"a list":           {&judge{answer: says("[" + allowVerdict + "]")}, "failed", "malformed"},
		"text after it":    {&judge{answer: says(allowVerdict + " because")}, "failed", "malformed"},
		"a long answer":    {&judge{answer: says(`{"decision":"allow","reason":"` + strings.Repeat("x", 5000) + `"}`)}, "failed", "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("default"), tc.judge.installReviewer), writesWhen("Write a.", "src/a")...)
			turn := k.Submit("sess_a", "Write a.")
			id, _ := k.WaitForAction("sess_a", 1)
			k.Respond(id, "deny")
			k.Completes(turn)
			reviews := runtimetest.Payloads[*event.PermissionReviewed](k, "sess_a")
			if len(reviews) != 1 || reviews[0].Verdict != tc.verdict || reviews[0].ErrorCategory != tc.category || reviews[0].Reason == "" {
				t.Errorf("%+v", reviews[0])
			}
			if k.ReadFile("src/a") != "-" {
				t.Error("it was written")
			}
		})
	}
}

// TestReviewerStaysWithinItsBudget: when the reviews of a session have cost what they
// may, the person is asked and no model is.
func TestReviewerStaysWithinItsBudget(t *testing.T) {
	j := &judge{answer: says(allowVerdict), Reviewer: loop.Reviewer{SessionCostUSD: 0.000001}}
	priced := func(o *agentd.Options) {
		o.Loop.Models = []model.Info{{Provider: "script", Model: "test", Capabilities: []string{"tools", "streaming"}, Price: &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 1}}}}
		o.Loop.Providers, o.Provider, o.Model = []model.Provider{o.Provider}, nil, ""
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("default"), j.installReviewer, priced), slicesConcat(writesWhen("Write a.", "src/a"), writesWhen("Write b.", "src/b"))...)
	k.Completes(k.Submit("sess_a", "Write a."))
	turn := k.Submit("sess_a", "Write b.")
	id, _ := k.WaitForAction("sess_a", 1)
	k.Respond(id, "deny")
	k.Completes(turn)
	reviews := runtimetest.Payloads[*event.PermissionReviewed](k, "sess_a")
	if len(reviews) != 2 || reviews[0].Verdict != "allow" || reviews[1].ErrorCategory != "budget" || len(j.asked) != 1 {
		t.Errorf("%+v, %d requests", reviews, len(j.asked))
	}
}

// TestReviewerIsNotAskedInVain: what a rule asks about, or what runs by itself, isn't
// reviewed.
func TestReviewerIsNotAskedInVain(t *testing.T) {
	j := &judge{answer: says(allowVerdict)}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("default"), j.installReviewer), slicesConcat(writesWhen("Write a.", "src/a"), writesWhen("Write b.", "ok/b"))...)
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{Rules: []event.PolicyRule{{Decision: "ask", Tool: "write_file", Match: "src/**"}, {Decision: "allow", Tool: "write_file", Match: "ok/**"}}})
	turn := k.Submit("sess_a", "Write a.")
	id, _ := k.WaitForAction("sess_a", 1)
	k.Respond(id, "deny")
	k.Completes(turn)
	k.Completes(k.Submit("sess_a", "Write b."))
	if len(j.asked) != 0 || k.CountFacts("sess_a", event.TypePermissionReviewed) != 0 {
		t.Errorf("%d requests", len(j.asked))
	}
}

// TestReviewerTest: a reviewer is tried on what people answered; nothing is written.
func TestReviewerTest(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), slicesConcat(writesWhen("Write a.", "src/a"), writesWhen("Write b.", "src/b"), writesWhen("Write c.", "src/c"))...)
	for i, decision := range []string{"allow", "deny", "allow"} {
		turn := k.Submit("sess_a", []string{"Write a.", "Write b.", "Write c."}[i])
		id, _ := k.WaitForAction("sess_a", i+1)
		k.Respond(id, decision)
		k.Completes(turn)
	}
	runtimetest.Refused(k, &command.TestReviewer{}, fault.InvalidParams)
	runtimetest.Refused(k, &command.TestReviewer{Model: "script/none"}, fault.InvalidParams)
	suggested := runtimetest.Do[command.SuggestPolicyResult](k, &command.SuggestPolicy{})
	if suggested.Questions != 3 || suggested.Denied != 1 || suggested.Saved != 0 || len(suggested.Suggestions) != 0 {
		t.Errorf("suggested %+v", suggested) // src/** would allow what was denied
	}
	k.Close()
	j := &judge{answer: func(_ context.Context, asked string) (string, error) {
		if strings.Contains(asked, "src/c") {
			return askVerdict, nil
		}
		return allowVerdict, nil
	}}
	k.Change = runtimetest.AllOf(runtimetest.InMode("default"), j.installReviewer)
	k.Open()
	before := len(k.Facts("sess_a"))
	res := runtimetest.Do[command.TestReviewerResult](k, &command.TestReviewer{})
	if res.Questions != 3 || res.Reviewed != 3 || res.Saved != 1 || res.DisagreedCount != 2 || len(res.Disagreed) != 2 || res.Failed != 0 {
		t.Fatalf("%+v", res)
	}
	if d := res.Disagreed; d[0].Person != "deny" || d[0].Reviewer != "allow" || d[1].Person != "allow" || d[1].Reviewer != "ask" {
		t.Errorf("%+v", res.Disagreed)
	}
	if after := len(k.Facts("sess_a")); after != before {
		t.Errorf("%d facts became %d", before, after)
	}
	limit := 1
	if res := runtimetest.Do[command.TestReviewerResult](k, &command.TestReviewer{Limit: &limit}); res.Reviewed != 1 || !res.Truncated {
		t.Errorf("%+v", res)
	}
}

// TestSuggestPolicy: the rules that would have saved most, with counts, and none that
// allows what was denied.
func TestSuggestPolicy(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), slicesConcat(writesWhen("Write a.", "src/a"), writesWhen("Write b.", "src/b"), writesWhen("Write c.", "docs/c"), writesWhen("Write d.", "secret/d"))...)
	n := map[string]int{}
	for _, step := range []struct{ session, say, decision string }{
		{"sess_a", "Write a.", "allow"}, {"sess_a", "Write b.", "allow"}, {"sess_b", "Write a.", "allow"}, {"sess_b", "Write c.", "allow"}, {"sess_b", "Write d.", "deny"},
	} {
		turn := k.Submit(step.session, step.say)
		n[step.session]++
		id, _ := k.WaitForAction(step.session, n[step.session])
		k.Respond(id, step.decision)
		k.Completes(turn)
	}
	res := runtimetest.Do[command.SuggestPolicyResult](k, &command.SuggestPolicy{})
	if res.Questions != 5 || res.Denied != 1 || res.Saved != 4 || len(res.Suggestions) != 2 {
		t.Fatalf("%+v", res)
	}
	first := res.Suggestions[0]
	if first.Rule.Match != "src/**" || first.Rule.Tool != "write_file" || first.Rule.Decision != "allow" || first.Saves != 3 || first.Sessions != 2 || len(first.Examples) == 0 {
		t.Errorf("%+v", first)
	}
	one := 1
	if res := runtimetest.Do[command.SuggestPolicyResult](k, &command.SuggestPolicy{SessionID: "sess_a", Limit: &one}); res.Questions != 2 || res.Saved != 2 || len(res.Suggestions) != 1 {
		t.Errorf("%+v", res)
	}
	if res := runtimetest.Do[command.SuggestPolicyResult](k, &command.SuggestPolicy{Workspace: "/nowhere"}); res.Questions != 0 || len(res.Suggestions) != 0 {
		t.Errorf("%+v", res)
	}
	runtimetest.RefusedAs(k, runtimetest.ClientOf("stranger"), &command.SuggestPolicy{SessionID: "sess_a"}, fault.NotFound)
}
