package loop

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"agentd/command"
	"agentd/model"
)

// Offer is what turns can be routed to.
type Offer struct {
	Models []model.Info
	// DefaultModel and Fallback are as in [Options].
	DefaultModel string
	Fallback     []string
}

// SetOffer replaces the models that turns can be routed to, as a start with other
// options does: a turn whose model is gone is given another when it asks next. Their
// providers must be among those of the options.
func (l *Loop) SetOffer(o Offer) {
	for _, i := range o.Models {
		l.limiter.Set(i.ID(), i.Limits)
	}
	l.offer.Store(&o)
}

// Statuses of a model in a list.
const (
	modelReady        = "ready"
	modelNoCredential = "no_credential" //nolint:gosec // it says that there is none
)

// modelOrders are the orders of a list of models.
var modelOrders = command.Orders[*model.Info]{
	"id":      func(i *model.Info) string { return i.ID() },
	"context": func(i *model.Info) string { return command.NumberKey(float64(i.ContextWindow)) },
	"price": func(i *model.Info) string {
		if i.Price == nil {
			return ""
		}
		return command.NumberKey(i.Price.InputPerMTok + i.Price.OutputPerMTok)
	},
}

// listModels lists what turns can be routed to now.
func (l *Loop) listModels(_ context.Context, _ command.Caller, p *command.ListModels) (*command.ListModelsResult, error) {
	page, err := command.NewOrderedPage(&p.Page, cmp.Or(p.Sort, "id"), p.Order, modelOrders, func(i *model.Info) string { return i.ID() })
	if err != nil {
		return nil, err
	}
	offer := l.offer.Load()
	for n := range offer.Models {
		if i := &offer.Models[n]; listsModel(p, i) {
			page.Offer(i)
		}
	}
	res := &command.ListModelsResult{Models: []command.ModelRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, i := range page.Things() {
		res.Models = append(res.Models, offer.record(i))
	}
	return res, nil
}

func listsModel(p *command.ListModels, i *model.Info) bool {
	lacks := func(capability string) bool { return !i.Can(capability) }
	switch {
	case p.Provider != "" && i.Provider != p.Provider,
		p.Status != "" && modelStatus(i) != p.Status,
		slices.ContainsFunc(p.Capabilities, lacks):
		return false
	}
	return strings.Contains(strings.ToLower(i.ID()), strings.ToLower(p.Query))
}

func modelStatus(i *model.Info) string {
	if i.NeedsCredential && !i.HasCredential {
		return modelNoCredential
	}
	return modelReady
}

// record is a model of the offer as commands tell it.
func (o *Offer) record(i *model.Info) command.ModelRecord {
	out := command.ModelRecord{
		ModelID: i.ID(), Provider: i.Provider, Model: i.Model, Default: o.DefaultModel == i.ID() || o.DefaultModel == i.Model,
		FallbackRank: int64(slices.Index(o.Fallback, i.ID()) + 1), Status: modelStatus(i), Capabilities: append([]string{}, i.Capabilities...),
		ContextWindow: i.ContextWindow, MaxOutputTokens: i.MaxOutputTokens,
	}
	if out.Status == modelNoCredential {
		out.CredentialHint = i.CredentialHint
	}
	if i.Price != nil {
		price := command.ModelPrice(i.Price.Rates)
		out.Price = &price
	}
	return out
}
