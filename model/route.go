package model

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"agentd/event"
)

// Categories of an exclusion.
const (
	ExcludedCapability = "capability"
	ExcludedCredential = "credential"
	ExcludedQuota      = "quota"
	ExcludedNetwork    = "network"
	ExcludedPolicy     = "policy"
	ExcludedContext    = "context"
	ExcludedLock       = "lock"
	ExcludedUnknown    = "unknown"
)

// Modes of a routing decision.
const (
	ModeLocked    = "locked"
	ModeDefault   = "default"
	ModeAutomatic = "automatic"
	ModeFallback  = "fallback"
)

// Sources of a routing decision.
const (
	SourceUserLock        = "user_lock"
	SourceExplicitDefault = "explicit_default"
	SourceHostPolicy      = "host_policy"
	SourceAutomatic       = "automatic"
	SourceFallback        = "fallback"
	SourceTaskConstraint  = "task_constraint"
)

// Ask is what a turn asks of routing. Models are named "provider/model", or by
// the model's name alone.
type Ask struct {
	// Provider and Model are the user's lock; either may be empty.
	Provider string
	Model    string
	// ThreadModel is what the thread was started with, such as a subagent's model.
	// It locks like the user's, but the turn's own lock wins.
	ThreadModel string
	// LastModel answered the thread's last turn. It is kept when nothing else
	// decides.
	LastModel string

	// Required are the capabilities that the turn needs. It goes on without those that
	// are Waivable if no model has them.
	Required []string
	Waivable []string
	// InputTokens and OutputTokens are what the request is expected to have.
	InputTokens  int64
	OutputTokens int64

	// Default and Fallback are the host's, FallbackOn the categories of failure
	// after which the next of the chain is asked.
	Default    string
	Fallback   []string
	FallbackOn []string

	// Allow and Deny are the host's policy, as globs over "provider/model". An
	// empty Allow allows all; Deny wins.
	Allow []string
	Deny  []string

	// Cost is the budget's standing; see [BudgetStanding]. Empty is not_applicable.
	Cost string
	// Resting are models that are to be left alone for now, by id.
	Resting map[string]Rest
	// Now decides which of the resting still do.
	Now time.Time

	// TaskKind, LatencyTarget and BudgetClass describe the work; budget class
	// "low" prefers cheap models.
	TaskKind      string
	LatencyTarget string
	BudgetClass   string
	// ProfileKind and ProfileSource are set by [Ask.ForTask].
	ProfileKind   string
	ProfileSource string
}

// Rest says until when a model is left alone, and why.
type Rest struct {
	Until time.Time
	// Category is that of the failure, such as [RateLimited] or [Network].
	Category string
}

// Routing is a choice of a model with all that led to it.
type Routing struct {
	// Candidates can do the work. They and Excluded together are all models.
	Candidates []Info
	Excluded   []event.Exclusion
	// Selected is the choice, one of Candidates; nil if there is none.
	Selected *Info
	// Mode, Source and Reason say how it was chosen.
	Mode   string
	Source string
	Reason string
	// CapabilityGap is what is missing, "none" if nothing is.
	CapabilityGap string
	// FallbackChain are the models that are asked next when this one fails in a
	// way that the host named, in order, none of them tried before.
	FallbackChain []string
	// RestUntil is when the selected model may be asked: it rests, and so do all
	// others. Zero if it may be asked at once.
	RestUntil time.Time
	// FromModel and Cause are set on a fallback.
	FromModel string
	Cause     string

	models []Info
	ask    Ask
}

// Route chooses a model. It is a pure function: the same models and the same ask
// give the same answer.
//
// What can't be bent comes first: the lock, policy, credential, capabilities,
// context window, budget. Of those left, the ones that lack a waivable capability are
// excluded as long as another has it. Then the ones that rest are excluded as long
// as another isn't resting; when all rest they stay candidates, because to wait
// is better than to fail. Then: the lock, the default, the fallback list in its
// order, and what the thread used last or, with little money left, the cheapest,
// or else the first that is configured.
func Route(models []Info, ask Ask) Routing {
	return route(models, ask, nil, "")
}

// route is [Route] without the models in failed, which failed for cause.
func route(models []Info, ask Ask, failed []string, cause string) Routing {
	r := Routing{CapabilityGap: noGap, models: models, ask: ask}
	locked, lock := ask.lock(models)
	var usable, awake, resting []Info
	var restingWhy []event.Exclusion
	for i, m := range models {
		if why, ok := ask.excludes(m, lock, locked != nil && !slices.Contains(locked, i), failed, cause); ok {
			r.Excluded = append(r.Excluded, why)
			continue
		}
		usable = append(usable, m)
	}
	for _, m := range r.capable(usable) {
		if why, ok := ask.rests(m); ok {
			resting, restingWhy = append(resting, m), append(restingWhy, why)
			continue
		}
		awake = append(awake, m)
	}
	r.Candidates = awake
	if len(awake) > 0 {
		r.Excluded = append(r.Excluded, restingWhy...)
	} else {
		r.Candidates = resting
	}
	if len(r.Candidates) == 0 {
		r.impossible(lock)
		return r
	}
	r.choose(lock)
	return r
}

// lock returns the models that a lock leaves, nil if there is no lock, and the
// lock's name.
func (a Ask) lock(models []Info) (left []int, name string) {
	left = []int{}
	switch {
	case a.Model != "":
		name = a.Model
		if a.Provider != "" && !strings.HasPrefix(name, a.Provider+"/") {
			name = a.Provider + "/" + name
		}
		return append(left, Find(models, a.Provider, a.Model)...), name
	case a.Provider != "":
		for i, m := range models {
			if m.Provider == a.Provider {
				left = append(left, i)
			}
		}
		return left, a.Provider
	case a.ThreadModel != "":
		return append(left, Find(models, "", a.ThreadModel)...), a.ThreadModel
	}
	return nil, ""
}

// excludes says why a model can't be used, whatever the others are. The order
// of the checks is the order in which a person would ask.
func (a Ask) excludes(m Info, lock string, outside bool, failed []string, cause string) (event.Exclusion, bool) {
	why := func(category, format string, args ...any) (event.Exclusion, bool) {
		return event.Exclusion{Model: m.ID(), Category: category, Reason: fmt.Sprintf(format, args...)}, true
	}
	if outside {
		return why(ExcludedLock, "the choice is locked to %s", lock)
	}
	if pattern, denied := a.denies(m); denied {
		return why(ExcludedPolicy, "the host's policy denies it (%s)", pattern)
	}
	if m.NeedsCredential && !m.HasCredential {
		return why(ExcludedCredential, "no credential: %s", capabilityHint(m))
	}
	if m.OnlyByName != "" && lock == "" {
		return why(ExcludedPolicy, "%s", m.OnlyByName)
	}
	if gap := missingCapabilities(m, a.indispensable()); gap != "" {
		return why(ExcludedCapability, "it lacks %s", gap)
	}
	if need, over := a.overflows(m); over {
		return why(ExcludedContext, "about %d tokens are needed and its window has %d", need, m.ContextWindow)
	}
	if a.Cost == BudgetBlocked && !free(m) {
		return why(ExcludedQuota, "the session's budget is spent")
	}
	if slices.Contains(failed, m.ID()) {
		return why(categoryOf(cause), "it failed: %s", cause)
	}
	return event.Exclusion{}, false
}

func capabilityHint(m Info) string {
	if m.CredentialHint != "" {
		return m.CredentialHint
	}
	return "none is configured for " + m.Provider
}

// denies returns the pattern by which policy denies a model.
func (a Ask) denies(m Info) (string, bool) {
	for _, p := range a.Deny {
		if matches(p, m) {
			return "denied: " + p, true
		}
	}
	if len(a.Allow) == 0 {
		return "", false
	}
	for _, p := range a.Allow {
		if matches(p, m) {
			return "", false
		}
	}
	return "allowed: " + strings.Join(a.Allow, ", "), true
}

// matches reports whether a glob names a model: by id, by name, or by provider.
// A star doesn't stop at slashes, because models' names hold them. A pattern that
// is no glob is compared as it is.
func matches(pattern string, m Info) bool {
	for _, name := range []string{m.ID(), m.Model} {
		if pattern == name {
			return true
		}
		// path.Match stops at slashes; no name holds a NUL.
		ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
		if err == nil && ok {
			return true
		}
	}
	return false
}

// missingCapabilities lists the required capabilities that a model lacks, in their order.
func missingCapabilities(m Info, required []string) string {
	var gap []string
	for _, c := range required {
		if !m.Can(c) && !slices.Contains(gap, c) {
			gap = append(gap, c)
		}
	}
	return strings.Join(gap, ", ")
}

// overflows reports whether a request doesn't fit a model's window.
func (a Ask) overflows(m Info) (need int64, over bool) {
	need = a.InputTokens + 1 // an answer has at least one token
	return need, m.ContextWindow > 0 && a.InputTokens > 0 && need > m.ContextWindow
}

// free reports whether a model is known to cost nothing.
func free(m Info) bool {
	return m.Price != nil && m.Price.InputPerMTok == 0 && m.Price.OutputPerMTok == 0 && m.Price.Long == nil
}

// rests says that a model is left alone for now.
func (a Ask) rests(m Info) (event.Exclusion, bool) {
	rest, ok := a.Resting[m.ID()]
	if !ok || !rest.Until.After(a.Now) {
		return event.Exclusion{}, false
	}
	return event.Exclusion{
		Model: m.ID(), Category: categoryOf(rest.Category),
		Reason: fmt.Sprintf("it rests after %s until %s", rest.Category, rest.Until.UTC().Format(time.RFC3339)),
	}, true
}

// categoryOf maps a failure to the category of an exclusion.
func categoryOf(cause string) string {
	switch cause {
	case RateLimited:
		return ExcludedQuota
	case Auth:
		return ExcludedCredential
	case ContextOverflow:
		return ExcludedContext
	case Network, Timeout, Overloaded, ServerError, Interrupted:
		return ExcludedNetwork
	}
	return ExcludedUnknown
}

// impossible says why there is no candidate.
func (r *Routing) impossible(lock string) {
	r.CapabilityGap = gapOf(r.models, r.ask, r.Excluded)
	switch {
	case len(r.models) == 0:
		r.Reason = "no model is configured"
	case lock != "":
		r.Reason = "the choice is locked to " + lock
		if why := firstOther(r.Excluded); why != nil {
			r.Reason += ", and " + why.Model + " can't be used: " + why.Reason
		} else {
			r.Reason += ", which is not configured"
		}
	default:
		r.Reason = "no model can do the work: " + summariseExclusions(r.Excluded)
	}
}

// firstOther returns the first exclusion that isn't the lock's own.
func firstOther(excluded []event.Exclusion) *event.Exclusion {
	for i := range excluded {
		if excluded[i].Category != ExcludedLock {
			return &excluded[i]
		}
	}
	return nil
}

// summariseExclusions tells the exclusions in a sentence, bounded.
func summariseExclusions(excluded []event.Exclusion) string {
	const most = 3
	var parts []string
	for _, e := range excluded[:min(most, len(excluded))] {
		parts = append(parts, e.Model+": "+e.Reason)
	}
	if n := len(excluded) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(parts, "; ")
}

// gapOf returns the capabilities that the closest of the models lacks: the one
// that fails by capability alone and lacks fewest. "context_window" stands for
// windows that are too small, "none" says that nothing of that kind is missing.
func gapOf(models []Info, ask Ask, excluded []event.Exclusion) string {
	best, context := "", false
	for _, e := range excluded {
		switch e.Category {
		case ExcludedContext:
			context = true
		case ExcludedCapability:
			i := slices.IndexFunc(models, func(m Info) bool { return m.ID() == e.Model })
			gap := missingCapabilities(models[i], ask.Required)
			if best == "" || strings.Count(gap, ",") < strings.Count(best, ",") {
				best = gap
			}
		}
	}
	switch {
	case best != "":
		return best
	case context:
		return "context_window"
	}
	return noGap
}
