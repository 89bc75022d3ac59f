package evidence

import (
	"slices"
	"strings"

	"agentd/event"
)

// CaseCatalog is what a runtime knew of models and money when the case was made.
type CaseCatalog struct {
	Models []CaseModel `json:"models"`
	// Default is what a turn that names no model uses, Fallback what is tried next.
	Default  string   `json:"default,omitempty"`
	Fallback []string `json:"fallback,omitempty"`
	// BudgetUSD bounds what a session may cost, LowAt is the part of it from which it
	// counts as low.
	BudgetUSD float64 `json:"budgetUSD,omitempty"`
	LowAt     float64 `json:"lowAt,omitempty"`
}

// CaseModel is a model as the runtime knew it.
type CaseModel struct {
	Provider        string   `json:"provider"`
	Model           string   `json:"model"`
	Capabilities    []string `json:"capabilities,omitempty"`
	ContextWindow   int64    `json:"contextWindow,omitempty"`
	MaxOutputTokens int64    `json:"maxOutputTokens,omitempty"`
	NeedsCredential bool     `json:"needsCredential,omitempty"`
	HasCredential   bool     `json:"hasCredential,omitempty"`
	// Price is what its tokens cost, in the runtime's own form; absent if nobody
	// knows.
	Price event.Raw `json:"price,omitempty"`
}

// resting begins the reason of an exclusion by an earlier failure, perhaps one of
// another session.
const resting = "it rests "

// excluded notes a model that could not be asked, unless the catalog says why.
func (r *recording) excluded(x event.Exclusion) {
	switch x.Category {
	case "credential", "quota", "network":
		if r.c.Environment.Catalog == nil || strings.HasPrefix(x.Reason, resting) {
			r.limit("a model could not be asked")
		}
	}
}

// catalogued reports whether models are those of the catalog; without one, nobody knows
// of others.
func (r *recording) catalogued(ids []string) bool {
	if r.c.Environment.Catalog == nil {
		return r.models == nil
	}
	var known []string
	for _, m := range r.c.Environment.Catalog.Models {
		known = append(known, m.Provider+"/"+m.Model)
	}
	slices.Sort(known)
	return slices.Equal(known, ids)
}

// spent notes that a budget ended a turn. What other turns spent is not in the case
// of one.
func (r *recording) spent() {
	if c := r.c.Environment.Catalog; c == nil || c.BudgetUSD <= 0 || !r.scope.whole() {
		r.limit("a budget kept a model from being asked")
	}
}
