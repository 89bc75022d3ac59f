package model_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/event"
	"agentd/model"
)

var capabilities = []string{"tools", "streaming", "vision", "reasoning", "structured_output"}

func drawModels(t *rapid.T) []model.Info {
	n := rapid.IntRange(0, 6).Draw(t, "models")
	out := make([]model.Info, n)
	for i := range out {
		out[i] = model.Info{
			Provider: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "provider"), Model: fmt.Sprintf("m%d", i),
			Capabilities:    rapid.SliceOfDistinct(rapid.SampledFrom(capabilities), rapid.ID[string]).Draw(t, "capabilities"),
			ContextWindow:   rapid.SampledFrom([]int64{0, 100, 1000}).Draw(t, "window"),
			NeedsCredential: rapid.Bool().Draw(t, "needs"), HasCredential: rapid.Bool().Draw(t, "has"),
		}
		if rapid.Bool().Draw(t, "priced") {
			out[i].Price = &model.Price{Rates: model.Rates{InputPerMTok: float64(rapid.IntRange(0, 3).Draw(t, "in")), OutputPerMTok: 1}}
		}
	}
	return out
}

func drawAsk(t *rapid.T) model.Ask {
	name := rapid.SampledFrom([]string{"", "", "a/m0", "b/m1", "m2", "a/m3", "m9"})
	ask := model.Ask{
		Model: name.Draw(t, "lock"), ThreadModel: name.Draw(t, "thread"), LastModel: name.Draw(t, "last"), Default: name.Draw(t, "default"),
		Provider:    rapid.SampledFrom([]string{"", "", "", "a"}).Draw(t, "provider"),
		Fallback:    rapid.SliceOfN(name, 0, 4).Draw(t, "fallback"),
		FallbackOn:  []string{model.Timeout},
		Required:    rapid.SliceOfN(rapid.SampledFrom(capabilities), 0, 2).Draw(t, "required"),
		InputTokens: rapid.SampledFrom([]int64{0, 99, 100, 5000}).Draw(t, "input"),
		Deny:        rapid.SliceOfN(rapid.SampledFrom([]string{"a/*", "b/m1", "["}), 0, 1).Draw(t, "deny"),
		Cost:        rapid.SampledFrom([]string{"", "ok", "low", "blocked"}).Draw(t, "cost"),
		Now:         noon, Resting: map[string]model.Rest{},
	}
	for _, id := range rapid.SliceOfN(rapid.SampledFrom([]string{"a/m0", "b/m1", "a/m2", "b/m2"}), 0, 3).Draw(t, "resting") {
		ask.Resting[id] = model.Rest{Until: noon.Add(time.Minute), Category: model.Network}
	}
	return ask
}

func ids(models []model.Info) []string {
	out := make([]string, len(models))
	for i, m := range models {
		out[i] = m.ID()
	}
	slices.Sort(out)
	return out
}

// checkPayload holds a payload to the catalogue.
func checkPayload(t interface{ Fatal(...any) }, typ event.Type, p event.Payload) {
	e := &event.Event{Type: typ, Payload: p}
	e.SessionID, e.ThreadID, e.TurnID, e.TaskID = "s", "t", "u", "k"
	if err := event.Check(e); err != nil {
		t.Fatal(err)
	}
}

func TestRouteProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models, ask := drawModels(t), drawAsk(t)
		r := model.Route(models, ask)

		all := ids(r.Candidates)
		for _, e := range r.Excluded {
			all = append(all, e.Model)
			if e.Reason == "" || e.Category == "" {
				t.Fatalf("an exclusion says nothing: %+v", e)
			}
		}
		slices.Sort(all)
		if d := cmp.Diff(ids(models), all, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); d != "" {
			t.Fatalf("candidates and excluded are not all models: %s", d)
		}
		if r.Possible() != (len(r.Candidates) > 0) {
			t.Fatalf("%d candidates, possible %v", len(r.Candidates), r.Possible())
		}
		typ, payload := r.Event()
		checkPayload(t, typ, payload)
		checkPayload(t, event.TypeRoutingCandidatesResolved, r.CandidateSet())
		checkPayload(t, event.TypeTaskProfileResolved, ask.Profile())
		if !r.Possible() {
			return
		}
		if !slices.Contains(ids(r.Candidates), r.Selected.ID()) {
			t.Fatal("the chosen one is no candidate")
		}
		if slices.Contains(r.FallbackChain, r.Selected.ID()) {
			t.Fatal("the chosen one is in its own chain")
		}
		checkFallbacks(t, r)
		if again := model.Route(models, ask); again.Selected.ID() != r.Selected.ID() || again.Reason != r.Reason {
			t.Fatal("the same ask gave another answer")
		}
	})
}

// checkFallbacks follows the chain to its end: each model once.
func checkFallbacks(t *rapid.T, r model.Routing) {
	failed := []string{r.Selected.ID()}
	for chain := len(r.FallbackChain); ; chain-- {
		next, ok := model.Fallback(r, failed, model.Timeout)
		if !ok {
			if chain > 0 {
				t.Fatalf("the chain ended with %d left", chain)
			}
			return
		}
		if slices.Contains(failed, next.Selected.ID()) || !slices.Contains(ids(next.Candidates), next.Selected.ID()) {
			t.Fatalf("fell back from %v to %s", failed, next.Selected.ID())
		}
		failed = append(failed, next.Selected.ID())
		r = next
	}
}

func TestMoreRequirementsNeverAddCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models, ask := drawModels(t), drawAsk(t)
		// A model that rests steps in when no other is left, so what is compared is
		// who could do the work.
		ask.Resting = nil
		before := ids(model.Route(models, ask).Candidates)
		ask.Required = append(ask.Required, rapid.SampledFrom(capabilities).Draw(t, "more"))
		if rapid.Bool().Draw(t, "longer") {
			ask.InputTokens += 500
		}
		for _, id := range ids(model.Route(models, ask).Candidates) {
			if !slices.Contains(before, id) {
				t.Fatalf("%s became a candidate by asking for more", id)
			}
		}
	})
}
