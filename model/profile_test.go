package model_test

import (
	"slices"
	"testing"

	"agentd/event"
	"agentd/model"
)

// model-routing-limits.md: the choice is made across what the task requires, and what it
// lacks is told.
func TestWaivableCapabilities(t *testing.T) {
	tools := []string{model.CapTools}
	offered := model.Ask{}.Needing(tools, tools, 0)
	plain := fleet()[4:]
	if r := model.Route(plain, offered); r.Selected == nil || r.CapabilityGap != "tools" || !r.Decision().RequiresUserOverride {
		t.Errorf("the only model: %+v", r)
	}
	if r := model.Route(fleet(), offered); r.Selected.ID() != "a/big" || r.CapabilityGap != "none" || r.Decision().RequiresUserOverride {
		t.Errorf("one of many: %+v", r)
	}
	// A model that rests and can use tools is waited for.
	if r := model.Route(fleet()[2:], model.Ask{Resting: resting(model.RateLimited, "b/small"), Now: noon}.Needing(tools, tools, 0)); r.Selected.ID() != "b/small" || r.RestUntil.IsZero() {
		t.Errorf("all that can rest: %+v", r)
	}
	// What one part waives and another requires is required.
	for _, ask := range []model.Ask{offered.Needing(tools, nil, 0), (model.Ask{}).Needing(tools, nil, 0).Needing(tools, tools, 0)} {
		if r := model.Route(plain, ask); r.Selected != nil || r.CapabilityGap != "tools" || len(ask.Waivable) > 0 {
			t.Errorf("tools that were asked for: %+v", r)
		}
	}
}

func TestAskForTask(t *testing.T) {
	base := model.Ask{Default: "a/big", Fallback: []string{"b/small"}, LastModel: "a/small"}
	if got := base.ForTask(nil); got.ProfileSource != "" || len(got.Fallback) != 1 {
		t.Errorf("without a profile: %+v", got)
	}
	for _, c := range []struct {
		name    string
		profile event.TaskProfile
		want    string
	}{
		{"cheap", event.TaskProfile{BudgetClass: "low"}, "b/small"},
		{"keep", event.TaskProfile{Continuity: "keep"}, "a/small"},
		{"size", event.TaskProfile{EstimatedInputTokens: 50_000, Continuity: "none", RequiredCapabilities: []string{model.CapVision}}, "a/big"},
	} {
		r := model.Route(fleet(), base.ForTask(&c.profile))
		if r.Selected == nil || r.Selected.ID() != c.want {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	r := model.Route(fleet(), base.ForTask(&event.TaskProfile{FallbackPolicy: "none"}))
	if len(r.FallbackChain) > 0 {
		t.Errorf("the chain is %v", r.FallbackChain)
	}
	p := base.ForTask(&event.TaskProfile{Kind: "coding", LatencyTarget: "low", RequiredCapabilities: []string{"tools"}}).Profile()
	if p.Kind != "coding" || p.Source != event.ProfileFromTask || p.LatencyTarget != "low" || !slices.Equal(p.RequiredCapabilities, []string{"tools"}) {
		t.Errorf("%+v", p)
	}
}
