package model

import (
	"slices"

	"agentd/event"
)

// noGap is the capability gap of a choice that lacks nothing.
const noGap = "none"

// ForTask returns the ask with what the turn's task says that it needs: its capabilities
// and size add to the turn's own, its budget class, fallback policy and continuity hold
// where the turn and its thread name no model. A nil profile changes nothing.
func (a Ask) ForTask(p *event.TaskProfile) Ask {
	if p == nil {
		return a
	}
	a = a.Needing(p.RequiredCapabilities, p.WaivableCapabilities, p.EstimatedInputTokens)
	a.ProfileSource, a.ProfileKind = event.ProfileFromTask, p.Kind
	a.LatencyTarget, a.BudgetClass = p.LatencyTarget, p.BudgetClass
	if p.FallbackPolicy == "none" {
		a.Fallback = nil
	}
	switch p.Continuity {
	case "none":
		a.LastModel = ""
	case "keep":
		if a.ThreadModel == "" {
			a.ThreadModel = a.LastModel
		}
	}
	return a
}

// Needing returns the ask with more capabilities, and an input of at least so many
// tokens. A capability that one part of the work waives and another requires is required.
func (a Ask) Needing(required, waivable []string, inputTokens int64) Ask {
	strict := a.indispensable()
	for _, c := range required {
		if !slices.Contains(waivable, c) {
			strict = append(strict, c)
		}
	}
	var all, may []string
	for _, c := range slices.Concat(a.Required, required, waivable) {
		if slices.Contains(all, c) {
			continue
		}
		all = append(all, c)
		if !slices.Contains(strict, c) {
			may = append(may, c)
		}
	}
	a.Required, a.Waivable = all, may
	a.InputTokens = max(a.InputTokens, inputTokens)
	return a
}

// indispensable lists the required capabilities that can't be waived.
func (a Ask) indispensable() []string {
	var out []string
	for _, c := range a.Required {
		if !slices.Contains(a.Waivable, c) {
			out = append(out, c)
		}
	}
	return out
}

// capable leaves the models that have all capabilities, the waivable ones too. If none
// has, all are left: an answer without tools is better than none.
func (r *Routing) capable(usable []Info) []Info {
	var capable []Info
	var lacking []event.Exclusion
	for _, m := range usable {
		if gap := missingCapabilities(m, r.ask.Waivable); gap != "" {
			lacking = append(lacking, event.Exclusion{Model: m.ID(), Category: ExcludedCapability, Reason: "it lacks " + gap})
			continue
		}
		capable = append(capable, m)
	}
	if len(capable) == 0 {
		return usable
	}
	r.Excluded = append(r.Excluded, lacking...)
	return capable
}

// noteGap says what the selected model lacks.
func (r *Routing) noteGap() {
	r.CapabilityGap = noGap
	if gap := missingCapabilities(*r.Selected, r.ask.Required); gap != "" {
		r.CapabilityGap = gap
		r.Reason += "; it lacks " + gap + ", as every model does that can be used"
	}
}
