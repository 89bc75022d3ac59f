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
	TurnID string                  `json:"turnId"`
	Items  []event.ContextItem     `json:"items,omitempty"`
	Left   []event.ContextOmission `json:"omissions,omitempty"`
	// ItemCount and OmissionCount count all of them; the lists are bounded.
	ItemCount       int64     `json:"itemCount"`
	OmissionCount   int64     `json:"omissionCount,omitempty"`
	MissingFacts    []string  `json:"missingFacts,omitempty"`
	EstimatedTokens int64     `json:"estimatedTokens,omitempty"`
	ContextWindow   int64     `json:"contextWindow,omitempty"`
	ContextRef      string    `json:"contextRef,omitempty"`
	At              time.Time `json:"at"`
	Sequence        uint64    `json:"sequence"`
}

// Compaction is the replacement of earlier turns by a summary.
type Compaction struct {
	CompactionID  string   `json:"compactionId"`
	TurnID        string   `json:"turnId,omitempty"`
	Trigger       string   `json:"trigger"`
	Attempt       int64    `json:"attempt,omitempty"`
	AffectedTurns []string `json:"affectedTurns,omitempty"`
	// AffectedCount counts all affected turns; the list is bounded.
	AffectedCount   int64  `json:"affectedCount,omitempty"`
	SummaryRef      string `json:"summaryRef,omitempty"`
	SummaryPreview  string `json:"summaryPreview,omitempty"`
	ContinuationRef string `json:"continuationRef,omitempty"`
	// ModelRequestID is the request for the summary, once it was made.
	ModelRequestID string `json:"modelRequestId,omitempty"`
	StepID         string `json:"stepId,omitempty"`
	TokensBefore   int64  `json:"tokensBefore"`
	TokensAfter    int64  `json:"tokensAfter,omitempty"`
	// ThroughSequence is the last event that the summary covers.
	ThroughSequence uint64 `json:"throughSequence,omitempty"`
	// Preserved lists what the compaction kept.
	PreservedActions   []string  `json:"preservedActions,omitempty"`
	PreservedIncidents []string  `json:"preservedIncidents,omitempty"`
	PreservedEvidence  []string  `json:"preservedEvidence,omitempty"`
	PreservedArtifacts []string  `json:"preservedArtifacts,omitempty"`
	StartedAt          time.Time `json:"startedAt,omitzero"`
	CompletedAt        time.Time `json:"completedAt,omitzero"`
	// Sequence is where the newest fact of the compaction is found.
	Sequence uint64 `json:"sequence"`
	// Stale says that a rollback removed turns that the summary covers.
	Stale bool `json:"stale,omitempty"`
}

// CompactionFailure is a compaction that left the thread as it was.
type CompactionFailure struct {
	CompactionID string        `json:"compactionId"`
	Trigger      string        `json:"trigger"`
	Attempt      int64         `json:"attempt,omitempty"`
	Error        event.Failure `json:"error"`
	WillRetry    bool          `json:"willRetry,omitempty"`
	// TurnID is the turn in which it failed, Tokens the size of the thread then.
	TurnID   string    `json:"turnId,omitempty"`
	Tokens   int64     `json:"tokens,omitempty"`
	At       time.Time `json:"at"`
	Sequence uint64    `json:"sequence"`
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
