package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// choose picks one of the candidates, of which there is at least one.
func (r *Routing) choose(lock string) {
	a := r.ask
	switch {
	case lock != "":
		r.byLock(lock)
	case a.BudgetClass == "low" && a.Default != "":
		r.Mode, r.Source = ModeAutomatic, SourceTaskConstraint
		r.Reason = "the task asks for a cheap model, and " + r.cheapest()
	case r.pick(a.Default):
		r.Mode, r.Source, r.Reason = ModeDefault, SourceExplicitDefault, "it is the configured default"
	case r.fromList():
		r.Mode, r.Source = ModeFallback, SourceFallback
		r.Reason = "it is the first of the fallback list that can be used"
		if a.Default != "" {
			r.Reason = fmt.Sprintf("the default %s can't be used (%s), and %s", a.Default, r.why(a.Default), r.Reason)
		}
	default:
		r.automatic()
	}
	if len(r.Candidates) == 1 {
		r.Reason += "; there is no other candidate"
	}
	r.noteGap()
	if rest, ok := a.Resting[r.Selected.ID()]; ok && rest.Until.After(a.Now) {
		r.RestUntil = rest.Until
		r.Reason += fmt.Sprintf("; all candidates rest, this one until %s", rest.Until.UTC().Format(time.RFC3339))
	}
	r.FallbackChain = r.chain()
}

// pick selects a candidate by name.
func (r *Routing) pick(name string) bool {
	if name == "" {
		return false
	}
	found := Find(r.Candidates, "", name)
	if len(found) == 0 {
		return false
	}
	r.Selected = &r.Candidates[found[0]]
	return true
}

// fromList selects the first of the fallback list that is a candidate.
func (r *Routing) fromList() bool { return slices.ContainsFunc(r.ask.Fallback, r.pick) }

// byLock selects within a lock. A lock on a provider leaves a choice: the host's
// own order decides it.
func (r *Routing) byLock(lock string) {
	a := r.ask
	if !r.pick(a.Default) && !r.fromList() && !r.pick(a.LastModel) {
		r.Selected = r.best()
	}
	r.Mode, r.Source = ModeLocked, SourceUserLock
	r.Reason = "the turn asks for " + lock
	if a.Model == "" && a.Provider == "" {
		r.Source, r.Reason = SourceTaskConstraint, "the thread was started with "+lock
	}
}

// automatic selects when no one said which.
func (r *Routing) automatic() {
	r.Mode, r.Source = ModeAutomatic, SourceAutomatic
	if len(r.ask.Allow) > 0 {
		r.Source = SourceHostPolicy
	}
	switch {
	case r.ask.wantsCheap():
		r.Reason = r.cheapest()
	case r.pick(r.ask.LastModel):
		r.Reason = "the thread used it last"
	default:
		r.Selected = r.best()
		r.Reason = "it is the first candidate that is configured"
	}
	if r.ask.Default != "" {
		r.Reason = fmt.Sprintf("the default %s can't be used (%s), and %s", r.ask.Default, r.why(r.ask.Default), r.Reason)
	}
}

// cheapest selects the cheapest candidate and says so.
func (r *Routing) cheapest() string {
	r.Selected = r.best()
	if cost, _ := EstimateCost(*r.Selected, 1, 1); cost == nil {
		return "no candidate has a known price, and it is configured first"
	}
	return "it is the cheapest candidate with a known price"
}

func (a Ask) wantsCheap() bool { return a.Cost == BudgetLow || a.BudgetClass == "low" }

// best returns the first candidate, or the cheapest if that is what is wanted;
// one without a price is dearer than any with.
func (r *Routing) best() *Info {
	if !r.ask.wantsCheap() {
		return &r.Candidates[0]
	}
	order := make([]int, len(r.Candidates))
	for i := range order {
		order[i] = i
	}
	return &r.Candidates[slices.MinFunc(order, func(x, y int) int {
		a, b := r.estimate(r.Candidates[x]), r.estimate(r.Candidates[y])
		switch {
		case a == nil && b == nil:
			return cmp.Compare(x, y)
		case a == nil:
			return 1
		case b == nil:
			return -1
		}
		return cmp.Or(cmp.Compare(*a, *b), cmp.Compare(x, y))
	})]
}

// estimate is what the next request would cost with a model. Without a size the
// comparison is that of equal parts.
func (r *Routing) estimate(m Info) *float64 {
	in, out := r.ask.InputTokens, r.ask.OutputTokens
	if in+out == 0 {
		in, out = 1000, 1000
	}
	usd, _ := EstimateCost(m, in, out)
	return usd
}

// why returns the reason for which a named model is not a candidate.
func (r *Routing) why(name string) string {
	for _, i := range Find(r.models, "", name) {
		for _, e := range r.Excluded {
			if e.Model == r.models[i].ID() {
				return e.Reason
			}
		}
	}
	return "it is not configured"
}

// chain lists what comes after the selected model.
func (r *Routing) chain() []string {
	chain := []string{}
	if r.ask.locksModel() {
		return chain
	}
	for _, name := range r.ask.Fallback {
		for _, i := range Find(r.Candidates, "", name) {
			id := r.Candidates[i].ID()
			if id != r.Selected.ID() && !slices.Contains(chain, id) {
				chain = append(chain, id)
			}
		}
	}
	return chain
}

// locksModel reports whether one model is asked for. It has no chain: who asks
// for a model doesn't want another.
func (a Ask) locksModel() bool { return a.Model != "" || a.Provider == "" && a.ThreadModel != "" }

// Fallback chooses the next model of the host's fallback list after the ones in
// failed, oldest first, of which the last just failed with cause. One that rests
// is passed over if a later one doesn't. It reports false if the host doesn't fall
// back on that cause, the list is used up or the turn wants no other model: then
// the failure stands.
//
// Prev may be the routing that led to the failure or one that was made again
// since, after a restart for instance: it counts for its models and its ask.
func Fallback(prev Routing, failed []string, cause string) (Routing, bool) {
	ask := prev.ask
	if len(failed) == 0 || ask.locksModel() || !slices.Contains(ask.FallbackOn, cause) {
		return Routing{}, false
	}
	next := route(prev.models, ask, failed, cause)
	if !next.fromList() {
		// What is left of the list may only rest, while a model that isn't in it is
		// awake.
		awake := ask
		awake.Resting = nil
		next = route(prev.models, awake, failed, cause)
		if !next.fromList() {
			return Routing{}, false
		}
		next.ask = ask
	}
	from := failed[len(failed)-1]
	next.Mode, next.Source = ModeFallback, SourceFallback
	next.FromModel, next.Cause = from, cause
	next.Reason = fmt.Sprintf("%s failed (%s), and this is the next of the fallback list", from, cause)
	next.noteGap()
	next.RestUntil = time.Time{}
	if rest, ok := ask.Resting[next.Selected.ID()]; ok && rest.Until.After(ask.Now) {
		next.RestUntil = rest.Until
		next.Reason += fmt.Sprintf("; it rests until %s", rest.Until.UTC().Format(time.RFC3339))
	}
	next.FallbackChain = next.chain()
	return next, true
}
