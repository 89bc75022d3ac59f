package replay

import (
	"bytes"
	"encoding/json"

	"agentd/event"
	"agentd/loop"
	"agentd/model"
	"agentd/state"
)

// resting are the models that were left alone, as routing takes them.
func resting(list []event.RestingModel) map[string]model.Rest {
	out := map[string]model.Rest{}
	for _, r := range list {
		out[r.Model] = model.Rest{Until: r.Until, Category: r.Category}
	}
	return out
}

// checkCandidates chooses a turn's model again; the fact of the choice comes next.
func (w *walk) checkCandidates(e *event.Event, t *state.Thread, p *event.RoutingCandidates) {
	if e.Type == event.TypeRoutingNotPossible {
		w.checkChoice(e, p, p.ConfigurationRef)
		return
	}
	turn := t.Turn(e.TurnID)
	if turn == nil || t.Routing == nil || t.Routing.Profile == nil || !w.hasConfiguration() {
		return
	}
	ask := w.configuration.Ask(w.s, t, turn, resting(p.Resting), e.Time)
	profile := t.Routing.Profile
	if profile.Source == event.ProfileFromTask { // otherwise the task had none, or an earlier version passed it over
		ask = ask.ForTask(loop.TaskProfile(w.s, turn))
	}
	ask.InputTokens, ask.Required, ask.Waivable = profile.EstimatedInputTokens, profile.RequiredCapabilities, profile.WaivableCapabilities
	routing := w.decide.Route(w.configuration.Models, ask)
	w.routings[e.TurnID] = &routing
	expected := routing.CandidateSet()
	expected.Resting, expected.ConfigurationRef = p.Resting, p.ConfigurationRef
	w.comparePayloads(e, expected, p)
}

// checkRouting compares a choice.
func (w *walk) checkRouting(e *event.Event, t *state.Thread, p *event.RoutingDecision) {
	if e.Type != event.TypeRoutingFallbackApplied {
		w.checkChoice(e, p, p.ConfigurationRef)
		return
	}
	if !w.hasConfiguration() {
		return
	}
	if next, found := w.nextEffect(e), (loop.Fallback{TurnID: e.TurnID, Cause: p.Cause}); next != found {
		w.reportDifference(e, describeEffect(next), describeEffect(found))
		return
	}
	routing, ok := w.configuration.FallbackFor(w.s, t, p.Cause, resting(p.Resting), e.Time)
	if !ok {
		w.reportDifference(e, "no other model", p.SelectedProvider+"/"+p.SelectedModel)
		return
	}
	expected := routing.Decision()
	expected.Resting, expected.ConfigurationRef = p.Resting, p.ConfigurationRef
	w.comparePayloads(e, expected, p)
}

// checkChoice compares the choice that candidates led to.
func (w *walk) checkChoice(e *event.Event, found event.Payload, configurationRef string) {
	routing := w.routings[e.TurnID]
	if routing == nil || configurationRef != "" {
		return
	}
	delete(w.routings, e.TurnID)
	kind, expected := routing.Event()
	if kind != e.Type {
		w.reportDifference(e, string(kind), string(e.Type))
		return
	}
	w.comparePayloads(e, expected, found)
}

// comparePayloads compares payloads.
func (w *walk) comparePayloads(e *event.Event, expected, found event.Payload) {
	want, err := json.Marshal(expected)
	got, err2 := json.Marshal(found)
	if err != nil || err2 != nil || !bytes.Equal(want, got) {
		w.reportDifference(e, string(want), string(got))
	}
}
