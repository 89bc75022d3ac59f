package state

import (
	"time"

	"agentd/event"
)

// keepItems bounds the items, omissions and turns that a context lists.
const keepItems = 50

// Contexts counts what happened to the contexts of the session's threads. What
// is known of one thread's context is in [Thread.Context].
type Contexts struct {
	Resolved          int64 `json:"resolved,omitempty"`
	Compactions       int64 `json:"compactions,omitempty"`
	FailedCompactions int64 `json:"failedCompactions,omitempty"`
}

// ThreadContext is what is known of a thread's context.
type ThreadContext struct {
	// Resolved is the context of the newest turn that got one.
	Resolved *ResolvedContext `json:"resolved,omitempty"`
	// Boundary is the last completed compaction.
	Boundary *Compaction `json:"boundary,omitempty"`
	// Running is the compaction under way.
	Running *Compaction `json:"running,omitempty"`
	// Failures counts the failed compactions since the last completed one.
	Failures    int64              `json:"failures,omitempty"`
	LastFailure *CompactionFailure `json:"lastFailure,omitempty"`
	Compactions int64              `json:"compactions,omitempty"`
}

// ResolvedContext says what went into the context of a turn.
type ResolvedContext struct {
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId"`
	// Items that went in, as many as are kept.
	Items []event.ContextItem `json:"items,omitempty"`
	// Left are what was left out, as many as are kept.
	Left []event.ContextOmission `json:"omissions,omitempty"`
	// ItemCount counts all that went in; the list is bounded.
	ItemCount int64 `json:"itemCount"`
	// OmissionCount counts all that was left out.
	OmissionCount int64 `json:"omissionCount,omitempty"`
	// MissingFacts says what could not be found.
	MissingFacts []string `json:"missingFacts,omitempty"`
	// EstimatedTokens is its size, as far as it was estimated.
	EstimatedTokens int64 `json:"estimatedTokens,omitempty"`
	// ContextWindow is what the model can take, in tokens.
	ContextWindow int64 `json:"contextWindow,omitempty"`
	// ContextRef is where the context is whole.
	ContextRef string `json:"contextRef,omitempty"`
	// At is when it was put together.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Compaction is the replacement of earlier turns by a summary.
type Compaction struct {
	// CompactionID is the compaction's id.
	CompactionID string `json:"compactionId"`
	// TurnID is the turn that it came in, if it came in one.
	TurnID string `json:"turnId,omitempty"`
	// Trigger says who or what asked for it.
	Trigger string `json:"trigger"`
	// Attempt counts the attempts, from 1.
	Attempt int64 `json:"attempt,omitempty"`
	// AffectedTurns are the turns that the summary stands for, as many as are kept.
	AffectedTurns []string `json:"affectedTurns,omitempty"`
	// AffectedCount counts all affected turns; the list is bounded.
	AffectedCount int64 `json:"affectedCount,omitempty"`
	// SummaryRef is where the summary is.
	SummaryRef string `json:"summaryRef,omitempty"`
	// SummaryPreview is the beginning of the summary.
	SummaryPreview string `json:"summaryPreview,omitempty"`
	// ContinuationRef is where the text is with which the thread goes on.
	ContinuationRef string `json:"continuationRef,omitempty"`
	// ModelRequestID is the request for the summary, once it was made.
	ModelRequestID string `json:"modelRequestId,omitempty"`
	// StepID is the step of the request for the summary.
	StepID string `json:"stepId,omitempty"`
	// TokensBefore is the size of the conversation before.
	TokensBefore int64 `json:"tokensBefore"`
	// TokensAfter is the size of the conversation after.
	TokensAfter int64 `json:"tokensAfter,omitempty"`
	// ThroughSequence is the last event that the summary covers.
	ThroughSequence uint64 `json:"throughSequence,omitempty"`
	// PreservedActions are the pending actions that it kept in sight.
	PreservedActions []string `json:"preservedActions,omitempty"`
	// PreservedIncidents are the incidents that it kept in sight.
	PreservedIncidents []string `json:"preservedIncidents,omitempty"`
	// PreservedEvidence is the evidence that it kept in sight.
	PreservedEvidence []string `json:"preservedEvidence,omitempty"`
	// PreservedArtifacts are the artifacts that it kept in sight.
	PreservedArtifacts []string `json:"preservedArtifacts,omitempty"`
	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// CompletedAt is when it was completed.
	CompletedAt time.Time `json:"completedAt,omitzero"`
	// Sequence is where the newest fact of the compaction is found.
	Sequence uint64 `json:"sequence"`
	// Stale says that a rollback removed turns that the summary covers.
	Stale bool `json:"stale,omitempty"`
}

// CompactionFailure is a compaction that left the thread as it was.
type CompactionFailure struct {
	// CompactionID is the compaction's id.
	CompactionID string `json:"compactionId"`
	// Trigger says who or what asked for it.
	Trigger string `json:"trigger"`
	// Attempt counts the attempts, from 1.
	Attempt int64 `json:"attempt,omitempty"`
	// Error is why it failed.
	Error event.Failure `json:"error"`
	// WillRetry says that it is tried again.
	WillRetry bool `json:"willRetry,omitempty"`
	// TurnID is the turn in which it failed.
	TurnID string `json:"turnId,omitempty"`
	// Tokens is the size of the conversation then.
	Tokens int64 `json:"tokens,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// context folds the facts of a thread's context.
func (f *fold) context() {
	f.countContext()
	t := f.s.Thread(f.e.ThreadID)
	if t == nil {
		return
	}
	if t.Context == nil {
		t.Context = &ThreadContext{}
	}
	c := t.Context
	switch p := f.e.Payload.(type) {
	case *event.ContextResolved:
		c.Resolved = f.resolvedContext(p)
	case *event.CompactionStarted:
		c.Running = &Compaction{
			CompactionID: p.CompactionID, TurnID: f.e.TurnID, Trigger: p.Trigger, Attempt: p.Attempt,
			AffectedTurns: firstN(p.AffectedTurns, keepItems), AffectedCount: int64(len(p.AffectedTurns)),
			TokensBefore: p.TokensBefore, StartedAt: f.e.Time, Sequence: f.e.Sequence,
		}
	case *event.CompactionCompleted:
		f.compactionCompleted(c, p)
	case *event.CompactionFailed:
		c.endRunning(p.CompactionID)
		c.Failures++
		c.LastFailure = &CompactionFailure{
			CompactionID: p.CompactionID, Trigger: p.Trigger, Attempt: p.Attempt, Error: p.Error, WillRetry: p.WillRetry,
			TurnID: f.e.TurnID, Tokens: t.Size(), At: f.e.Time, Sequence: f.e.Sequence,
		}
	}
}

// summaryRequested notes which request a compaction waits for.
func (f *fold) summaryRequested(p *event.ModelRequested) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil || t.Context == nil || t.Context.Running == nil {
		return
	}
	running := *t.Context.Running
	running.ModelRequestID, running.StepID = p.ModelRequestID, f.e.StepID
	t.Context.Running = &running
}

func (f *fold) countContext() {
	c := &f.s.Context
	switch f.e.Payload.(type) {
	case *event.ContextResolved:
		c.Resolved++
	case *event.CompactionCompleted:
		c.Compactions++
	case *event.CompactionFailed:
		c.FailedCompactions++
	}
}

// endRunning forgets the compaction under way if it is the one that ended.
func (c *ThreadContext) endRunning(id string) {
	if c.Running != nil && c.Running.CompactionID == id {
		c.Running = nil
	}
}

func (f *fold) resolvedContext(p *event.ContextResolved) *ResolvedContext {
	return &ResolvedContext{
		TurnID: f.e.TurnID, Items: firstN(p.Items, keepItems), Left: firstN(p.Omissions, keepItems),
		ItemCount: int64(len(p.Items)), OmissionCount: int64(len(p.Omissions)), MissingFacts: firstN(p.MissingFacts, keepItems),
		EstimatedTokens: p.EstimatedTokens, ContextWindow: p.ContextWindow, ContextRef: p.ContextRef,
		At: f.e.Time, Sequence: f.e.Sequence,
	}
}

func (f *fold) compactionCompleted(c *ThreadContext, p *event.CompactionCompleted) {
	b := &Compaction{
		CompactionID: p.CompactionID, TurnID: f.e.TurnID, Trigger: p.Trigger,
		AffectedTurns: firstN(p.AffectedTurns, keepItems), AffectedCount: int64(len(p.AffectedTurns)),
		SummaryRef: p.SummaryRef, SummaryPreview: preview(p.SummaryPreview), ContinuationRef: p.ContinuationRef,
		TokensBefore: p.TokensBefore, TokensAfter: p.TokensAfter, ThroughSequence: p.ThroughSequence,
		PreservedActions:   firstN(p.Preserved.Actions, keepRefs),
		PreservedIncidents: firstN(p.Preserved.Incidents, keepRefs),
		PreservedEvidence:  firstN(p.Preserved.EvidenceRefs, keepRefs),
		PreservedArtifacts: firstN(p.Preserved.ArtifactRefs, keepRefs),
		CompletedAt:        f.e.Time, Sequence: f.e.Sequence,
	}
	if r := c.Running; r != nil && r.CompactionID == p.CompactionID {
		b.StartedAt, b.Attempt = r.StartedAt, r.Attempt
	}
	c.endRunning(p.CompactionID)
	c.Boundary, c.Failures = b, 0
	if t := f.s.Thread(f.e.ThreadID); t != nil {
		t.ContextTokens = p.TokensAfter
	}
	c.Compactions++
}

// Size is how large the thread's context is, in tokens: what the last answered
// call took and gave or, where it is more, what the newest turn was estimated at.
func (t *Thread) Size() int64 {
	if t.Context == nil || t.Context.Resolved == nil {
		return t.ContextTokens
	}
	return max(t.ContextTokens, t.Context.Resolved.EstimatedTokens)
}

// staleBoundary marks the boundary of a thread whose history now ends before
// what the summary covers.
func (t *Thread) staleBoundary(baseline uint64) {
	if t.Context == nil || t.Context.Boundary == nil || t.Context.Boundary.ThroughSequence <= baseline {
		return
	}
	b := *t.Context.Boundary
	b.Stale = true
	t.Context.Boundary = &b
}
