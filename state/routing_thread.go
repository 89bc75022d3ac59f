package state

import (
	"time"

	"agentd/event"
)

// ThreadRouting is how a thread's model was chosen.
type ThreadRouting struct {
	Profile    *event.TaskProfile `json:"taskProfile,omitempty"`
	Candidates *CandidateSet      `json:"candidates,omitempty"`
	// Decision is the last choice; nil when the last word is that none is possible.
	Decision *RoutingDecision `json:"decision,omitempty"`
	// SingleCandidate says that the last choice had nothing to choose from.
	SingleCandidate bool `json:"singleCandidate,omitempty"`
	// CapabilityGap is what the last choice lacked; "none" when nothing.
	CapabilityGap string `json:"capabilityGap,omitempty"`
	// NotPossible says why no model can do the work.
	NotPossible string `json:"notPossible,omitempty"`
	Fallbacks   int64  `json:"fallbacks,omitempty"`
	// Sequence is where the newest of these facts is found.
	Sequence uint64 `json:"sequence"`
}

// CandidateSet is the set of models that a turn could choose from.
type CandidateSet struct {
	// TurnID is the turn that chooses.
	TurnID string `json:"turnId,omitempty"`
	// CandidateCount counts the models that could be chosen.
	CandidateCount int64 `json:"candidateCount"`
	// Candidates are the models that could be chosen.
	Candidates []event.Candidate `json:"candidates,omitempty"`
	// Excluded are the models that could not, and why.
	Excluded []event.Exclusion `json:"excluded,omitempty"`
	// HardConstraints are what a model must have.
	HardConstraints []string `json:"hardConstraints,omitempty"`
	// Preferences are what a model should have.
	Preferences []string `json:"preferences,omitempty"`
	// TaskKind of the task that the model is for.
	TaskKind string `json:"taskKind,omitempty"`
	// At is when it was resolved.
	At time.Time `json:"at"`
}

// RoutingDecision is the choice of a model.
type RoutingDecision struct {
	// TurnID is the turn that the model is for.
	TurnID string `json:"turnId,omitempty"`
	// CandidateCount counts the models that could be chosen.
	CandidateCount int64 `json:"candidateCount"`
	// SelectedProvider that was chosen.
	SelectedProvider string `json:"selectedProvider"`
	// SelectedModel that was chosen.
	SelectedModel string `json:"selectedModel"`
	// RequestedProvider that was asked for.
	RequestedProvider string `json:"requestedProvider,omitempty"`
	// RequestedModel that was asked for.
	RequestedModel string `json:"requestedModel,omitempty"`
	// RoutingMode says how the choice is made.
	RoutingMode string `json:"routingMode,omitempty"`
	// DecisionSource says who or what decided.
	DecisionSource string `json:"decisionSource"`
	// DecisionReason says why.
	DecisionReason string `json:"decisionReason"`
	// CapabilityGap is what the choice lacks; none when nothing.
	CapabilityGap string `json:"capabilityGap"`
	// FallbackChain are the models that come next if this one fails.
	FallbackChain []string `json:"fallbackChain,omitempty"`
	// RequiresUserOverride says that only a person can choose otherwise.
	RequiresUserOverride bool `json:"requiresUserOverride,omitempty"`
	// LimitState is what was left of budget, quota and rate then.
	LimitState *event.LimitState `json:"limitStateSnapshot,omitempty"`
	// FromModel is the model that a fallback leaves.
	FromModel string `json:"fromModel,omitempty"`
	// Cause of a fallback.
	Cause string `json:"cause,omitempty"`
	// Failed lists the models that the turn fell back from, oldest first.
	Failed []string `json:"failed,omitempty"`
	// At is when it was chosen.
	At time.Time `json:"at"`
}

// threadRouting returns a copy of the thread's routing to change, with the fact's
// place in it; nil when the fact belongs to no thread that is known.
func (f *fold) threadRouting() *ThreadRouting {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return nil
	}
	r := &ThreadRouting{}
	if t.Routing != nil {
		*r = *t.Routing
	}
	r.Sequence = f.e.Sequence
	t.Routing = r
	return r
}

// GivenProfile is what the task's creator said that it needs; nil if nothing.
func (t *Task) GivenProfile() *event.TaskProfile {
	if t.TaskProfile == nil || t.TaskProfile.Source == event.ProfileFromRuntime {
		return nil
	}
	return t.TaskProfile
}

// profileResolved notes what the work needs, on its thread and on a task that no one
// gave a profile.
func (f *fold) profileResolved(p *event.TaskProfile) {
	if task := f.s.Tasks.Find(f.e.TaskID); task != nil && task.GivenProfile() == nil {
		task.TaskProfile = p
	}
	if r := f.threadRouting(); r != nil {
		r.Profile = p
	}
}

// candidatesResolved notes the set of candidates; with routing.not_possible it
// is the last word on the choice.
func (f *fold) candidatesResolved(p *event.RoutingCandidates) {
	r := f.threadRouting()
	if f.e.Type == event.TypeRoutingNotPossible {
		f.s.Routing.Impossible++
		f.incident("routing_not_possible", p.DecisionReason, false)
	}
	if r == nil {
		return
	}
	r.Candidates = &CandidateSet{
		TurnID: f.e.TurnID, CandidateCount: p.CandidateCount, Candidates: firstN(p.Candidates, keepItems), Excluded: firstN(p.Excluded, keepItems),
		HardConstraints: firstN(p.HardConstraints, keepItems), Preferences: firstN(p.Preferences, keepItems), TaskKind: p.TaskKind, At: f.e.Time,
	}
	if f.e.Type == event.TypeRoutingNotPossible {
		r.Decision, r.SingleCandidate = nil, false
		r.NotPossible, r.CapabilityGap = p.DecisionReason, p.CapabilityGap
	}
}

func (f *fold) routingDecided(p *event.RoutingDecision) {
	f.s.Routing.Decisions++
	fallback := f.e.Type == event.TypeRoutingFallbackApplied
	if fallback {
		f.s.Routing.Fallbacks++
	}
	r := f.threadRouting()
	if r == nil {
		return
	}
	if fallback {
		r.Fallbacks++
	}
	var failed []string
	if fallback {
		if r.Decision != nil && r.Decision.TurnID == f.e.TurnID {
			failed = append(failed, r.Decision.Failed...)
		}
		failed = recent(failed, p.FromModel, keepItems)
	}
	r.SingleCandidate = f.e.Type == event.TypeRoutingSingleCandidate
	r.CapabilityGap, r.NotPossible = p.CapabilityGap, ""
	r.Candidates = f.decidedFrom(r.Candidates, p)
	r.Decision = &RoutingDecision{
		TurnID: f.e.TurnID, CandidateCount: p.CandidateCount, SelectedProvider: p.SelectedProvider, SelectedModel: p.SelectedModel,
		RequestedProvider: p.RequestedProvider, RequestedModel: p.RequestedModel, RoutingMode: p.RoutingMode,
		DecisionSource: p.DecisionSource, DecisionReason: p.DecisionReason, CapabilityGap: p.CapabilityGap,
		FallbackChain: firstN(p.FallbackChain, keepItems), RequiresUserOverride: p.RequiresUserOverride, LimitState: p.LimitState,
		FromModel: p.FromModel, Cause: p.Cause, Failed: failed, At: f.e.Time,
	}
}

// decidedFrom returns the candidates that a decision names, with what an earlier
// fact of the same turn said besides.
func (f *fold) decidedFrom(have *CandidateSet, p *event.RoutingDecision) *CandidateSet {
	set := &CandidateSet{TurnID: f.e.TurnID}
	if have != nil && have.TurnID == f.e.TurnID {
		*set = *have
	}
	set.CandidateCount, set.Candidates, set.Excluded = p.CandidateCount, firstN(p.Candidates, keepItems), firstN(p.Excluded, keepItems)
	setIf(&set.TaskKind, p.TaskKind)
	set.At = f.e.Time
	return set
}
