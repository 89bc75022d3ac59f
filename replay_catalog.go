package agentd

import (
	"encoding/json"
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
	o.DefaultModel, o.Fallback = c.Default, c.Fallback
	o.Budget = model.Budget{SessionCostUSD: c.BudgetUSD, LowAt: c.LowAt}
	for _, m := range c.Models {
		info := model.Info{
			Provider: m.Provider, Model: m.Model, Capabilities: m.Capabilities, ContextWindow: m.ContextWindow, MaxOutputTokens: m.MaxOutputTokens,
			NeedsCredential: m.NeedsCredential, HasCredential: m.HasCredential,
		}
		if len(m.Price) > 0 {
			info.Price = &model.Price{}
			if err := json.Unmarshal(m.Price, info.Price); err != nil { //nolint:musttag // the form that the export wrote
				return err
			}
		}
		if !slices.ContainsFunc(o.Providers, func(x model.Provider) bool { return x.Name() == m.Provider }) {
			o.Providers = append(o.Providers, &recordedModel{p, m.Provider})
		}
		o.Models = append(o.Models, info)
	}
	return nil
}

// hasMore reports whether the case has tools that a turn didn't have. Only then the
// turn names its own: who names tools asks for a model that can call them.
func (p *replaying) hasMore(tools []string) bool {
	return slices.ContainsFunc(p.c.Tools, func(t event.ToolInfo) bool { return !slices.Contains(tools, t.ToolName) }) ||
		p.c.Parties != nil && len(p.c.Parties.Peers) > 0
}
