package evidence

import (
	"slices"

	"agentd/event"
)

// limitModels says that turns of the case had other models than a replay can give them.
const limitModels = "the models that could be asked changed"

// candidates takes the models that could be asked.
func (r *recording) candidates(e *event.Event, p *event.RoutingCandidates) {
	var all []string
	for _, c := range p.Candidates {
		id := c.Provider + "/" + c.Model
		all = append(all, id)
		if !slices.Contains(r.c.Environment.Candidates, id) {
			r.c.Environment.Candidates = append(r.c.Environment.Candidates, id)
		}
	}
	for _, x := range p.Excluded {
		all = append(all, x.Model)
		r.excluded(x)
	}
	slices.Sort(all)
	if !slices.Equal(r.models, all) {
		r.offered(e, p, all)
	}
	r.models = all
}

// offered takes models that are not those of the turn before: the runtime was started
// again with others. Those of now are in the catalog. Of earlier ones the facts tell
// enough only where there was one alone: it was the default, and nothing was behind it.
func (r *recording) offered(e *event.Event, p *event.RoutingCandidates, all []string) {
	first, known := r.models == nil, r.catalogued(all)
	alone := len(p.Candidates) == 1 && len(p.Excluded) == 0
	switch c := r.c.Environment.Catalog; {
	case first && known:
	case c == nil || len(c.Models) == 0 || !known && (!alone || c.BudgetUSD > 0): // what it cost isn't told
		r.limit(limitModels)
	case first:
		r.c.Environment.Earlier = r.only(p)
	case known:
		r.switched(e, nil)
	default:
		r.switched(e, r.only(p))
	}
}

// only is the one model that could be asked, as the facts show it.
func (r *recording) only(p *event.RoutingCandidates) []CaseModel {
	c := p.Candidates[0]
	return []CaseModel{{Provider: c.Provider, Model: c.Model, Capabilities: c.Capabilities, ContextWindow: r.window, HasCredential: true}}
}

// switched takes a start with other models. A turn sees them when it asks next: so they
// come before what it got last, or before the turn if it got nothing yet.
func (r *recording) switched(e *event.Event, models []CaseModel) {
	f, a := &r.act, CaseAct{Kind: ActModels, Models: models}
	n := len(r.c.Acts)
	switch {
	case e.TurnID != f.running || r.waits():
		r.limit(limitModels)
	case f.before != nil && f.came() != nil:
		r.done(e, a, f.before)
		*f.came() = len(r.c.Acts)
	case f.before == nil && (n == 0 || r.c.Acts[n-1].Turns < f.started):
		r.done(e, a, nil)
		r.c.Acts[n].Turns--
	default:
		r.limit(limitModels)
	}
}

// modelsEnd notes what a replay can't do while models change: who names a model is
// refused where it isn't known, and when subagents ask is not told.
func (r *recording) modelsEnd() {
	if !slices.ContainsFunc(r.c.Acts, func(a CaseAct) bool { return a.Kind == ActModels }) {
		return
	}
	named := slices.ContainsFunc(r.c.Turns, func(t *CaseTurn) bool {
		return t.Options != nil && (t.Options.Model != "" || t.Options.Provider != "")
	})
	if named || r.c.Parties != nil && len(r.c.Parties.Agents) > 0 {
		r.limit(limitModels)
	}
}
