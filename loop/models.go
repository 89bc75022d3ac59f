package loop

import "agentd/model"

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
