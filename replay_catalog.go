package agentd

import (
	"encoding/json"
	"errors"
	"slices"

	"agentd/event"
	"agentd/evidence"
	"agentd/loop"
	"agentd/model"
)

// catalogOf is what a runtime knows of models and money, for a case.
func catalogOf(o *loop.Options) *evidence.CaseCatalog {
	c := &evidence.CaseCatalog{Default: o.DefaultModel, Fallback: o.Fallback, BudgetUSD: o.Budget.SessionCostUSD, LowAt: o.Budget.LowAt}
	for _, m := range o.Models {
		x := evidence.CaseModel{
			Provider: m.Provider, Model: m.Model, Capabilities: m.Capabilities, ContextWindow: m.ContextWindow, MaxOutputTokens: m.MaxOutputTokens,
			NeedsCredential: m.NeedsCredential, HasCredential: m.HasCredential,
		}
		if m.Price != nil {
			x.Price, _ = json.Marshal(m.Price) //nolint:errchkjson,musttag // plain values, in a form that only a replay reads
		}
		c.Models = append(c.Models, x)
	}
	return c
}

// catalog gives a replay the models, the prices and the budget of the recording. Its
// own limits on how often a model is asked are left out: nobody is asked.
func (p *replaying) catalog(o *loop.Options) error {
	c := p.c.Environment.Catalog
	o.Budget = model.Budget{SessionCostUSD: c.BudgetUSD, LowAt: c.LowAt}
	first, err := p.offer(p.c.Environment.Earlier)
	if err != nil {
		return err
	}
	o.Models, o.DefaultModel, o.Fallback = first.Models, first.DefaultModel, first.Fallback
	all := slices.Concat(c.Models, p.c.Environment.Earlier)
	for i := range p.c.Acts {
		all = append(all, p.c.Acts[i].Models...)
	}
	for _, m := range all {
		if !slices.ContainsFunc(o.Providers, func(x model.Provider) bool { return x.Name() == m.Provider }) {
			o.Providers = append(o.Providers, &recordedModel{p, m.Provider})
		}
	}
	return nil
}

// offer is what turns can be routed to if the recording names models, or else names
// none, which are those of its catalog.
func (p *replaying) offer(models []evidence.CaseModel) (loop.Offer, error) {
	c := p.c.Environment.Catalog
	var out loop.Offer
	switch {
	case len(models) > 0:
		out.DefaultModel = models[0].Provider + "/" + models[0].Model
	case c == nil:
		return out, errors.New("the case doesn't say which models there were")
	default:
		models, out.DefaultModel, out.Fallback = c.Models, c.Default, c.Fallback
	}
	for i := range models {
		info, err := infoOf(&models[i])
		if err != nil {
			return out, err
		}
		out.Models = append(out.Models, info)
	}
	return out, nil
}

// infoOf is a model of a case as a runtime knows it.
func infoOf(m *evidence.CaseModel) (model.Info, error) {
	info := model.Info{
		Provider: m.Provider, Model: m.Model, Capabilities: m.Capabilities, ContextWindow: m.ContextWindow, MaxOutputTokens: m.MaxOutputTokens,
		NeedsCredential: m.NeedsCredential, HasCredential: m.HasCredential,
	}
	if len(m.Price) == 0 {
		return info, nil
	}
	info.Price = &model.Price{}
	return info, json.Unmarshal(m.Price, info.Price) //nolint:musttag // the form that the export wrote
}

// hasMore reports whether the case has tools that a turn didn't have. Only then the
// turn names its own: who names tools asks for a model that can call them.
func (p *replaying) hasMore(tools []string) bool {
	return slices.ContainsFunc(p.c.Tools, func(t event.ToolInfo) bool { return !slices.Contains(tools, t.ToolName) }) ||
		p.c.Parties != nil && len(p.c.Parties.Peers) > 0
}
