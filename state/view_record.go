package state

import "agentd/event"

// TelemetrySummary says how facts are joined to traces.
type TelemetrySummary struct {
	// Status is joined, missing_correlation or unavailable.
	Status string `json:"status"`
	// JoinStatus is joined, missing_correlation or unavailable.
	JoinStatus string `json:"joinStatus"`
	// TraceIDs are the last traces.
	TraceIDs []string `json:"traceIds"`
	// LastSpanID is the newest span.
	LastSpanID string `json:"lastSpanId,omitempty"`
	// Traced counts the facts with a trace.
	Traced int64 `json:"traced"`
	// Untraced counts the facts without a trace.
	Untraced int64 `json:"untraced"`
}

// telemetrySummary is that of a thread, or of the session when t is nil.
func (s *Session) telemetrySummary(t *Thread) TelemetrySummary {
	c, thread := s.Telemetry.Correlation, ""
	if t != nil {
		c, thread = t.Correlation, t.ThreadID
	}
	v := TelemetrySummary{TraceIDs: []string{}, Traced: c.Traced, Untraced: c.Untraced, JoinStatus: c.Status()}
	for _, x := range s.Telemetry.Traces {
		if inView(thread, x.ThreadID) {
			v.TraceIDs = append(v.TraceIDs, x.TraceID)
			v.LastSpanID = x.LastSpanID
		}
	}
	v.Status = v.JoinStatus
	return v
}

// EvidenceSummary is what was exported or observed to prove what happened.
type EvidenceSummary struct {
	// Status is available, or unknown if no fact says anything yet.
	Status string `json:"status"`
	// EvidenceRefs are the ids of the entries.
	EvidenceRefs []string `json:"evidenceRefs"`
	// Entries are the last ones, oldest first.
	Entries []EvidenceEntry `json:"entries"`
	// VerificationOutcomes are the last verdicts, oldest first.
	VerificationOutcomes []Outcome `json:"verificationOutcomes"`
	// ReplayRefs are where the last replay cases are.
	ReplayRefs []string `json:"replayRefs"`
	// ReviewRefs are where the last reviews are.
	ReviewRefs []string `json:"reviewRefs"`
	// TraceRefs are where the last traces are.
	TraceRefs []string `json:"traceRefs"`
	// TraceIDs are the traces that the facts belong to.
	TraceIDs []string `json:"traceIds"`
	// AuditNotes are the last ones, oldest first.
	AuditNotes []AuditNote `json:"auditNotes"`
	// Counts counts all entries of the session by kind.
	Counts map[string]int64 `json:"counts"`
	// OutcomeCounts counts all verdicts of the session by status.
	OutcomeCounts map[string]int64 `json:"outcomeCounts"`
}

// evidenceSummary is that of a thread, or of the session. What was exported of
// the whole session is every thread's; the counts are the session's.
func (s *Session) evidenceSummary(thread string) EvidenceSummary {
	e := &s.Evidence
	mine := func(id string) bool { return inView(thread, id) || !isKnown(id) }
	v := EvidenceSummary{
		EvidenceRefs: []string{}, Entries: chosen(e.Recent, func(x *EvidenceEntry) bool { return mine(x.ThreadID) }),
		VerificationOutcomes: chosen(e.Outcomes, func(o *Outcome) bool { return mine(o.ThreadID) }),
		ReplayRefs:           listCopy(e.ReplayRefs), ReviewRefs: listCopy(e.ReviewRefs), TraceRefs: listCopy(e.TraceRefs), TraceIDs: []string{},
		AuditNotes: chosen(e.Notes, func(n *AuditNote) bool { return mine(n.ThreadID) }),
		Counts:     countsCopy(e.Counts), OutcomeCounts: countsCopy(e.OutcomeCounts),
	}
	if thread != "" {
		v.ReplayRefs, v.ReviewRefs, v.TraceRefs = v.refs()
	}
	seen := map[string]bool{}
	for _, x := range v.Entries {
		if !seen[x.EvidenceID] {
			seen[x.EvidenceID] = true
			v.EvidenceRefs = append(v.EvidenceRefs, x.EvidenceID)
		}
	}
	for _, x := range s.Telemetry.Traces {
		if inView(thread, x.ThreadID) {
			v.TraceIDs = append(v.TraceIDs, x.TraceID)
		}
	}
	v.Status = statusOf(len(v.Entries) > 0, Unknown)
	return v
}

// refs returns the references of the entries in view.
func (v *EvidenceSummary) refs() (replay, review, trace []string) {
	replay, review, trace = []string{}, []string{}, []string{}
	for _, x := range v.Entries {
		replay = appendRef(replay, x.ReplayRef)
		review = appendRef(review, x.ReviewRef)
		trace = appendRef(trace, x.TraceRef)
	}
	return replay, review, trace
}

func appendRef(list []string, ref string) []string {
	if ref == "" {
		return list
	}
	return append(list, ref)
}

// ArtifactSummary is the deliverables that changed last.
type ArtifactSummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Artifacts are those that changed last, the newest change last.
	Artifacts []Artifact `json:"artifacts"`
	// DiffRefs are where the last changes are.
	DiffRefs []string `json:"diffRefs"`
	// ValidationIssues sums the known problems.
	ValidationIssues int64 `json:"validationIssues"`
	// Unvalidated counts artifacts that were not validated, of which nothing is known.
	Unvalidated int64 `json:"unvalidated"`
	// Changes counts all changes of the session by kind.
	Changes map[string]int64 `json:"changes"`
}

// artifactSummary is that of a thread, or of the session; the counts of changes
// are the session's.
func (s *Session) artifactSummary(thread string) ArtifactSummary {
	v := ArtifactSummary{
		Artifacts: copied(func(a *Artifact) bool { return inView(thread, a.ThreadID) }, s.Artifacts.Recent),
		DiffRefs:  []string{}, Changes: countsCopy(s.Artifacts.Changes),
	}
	for _, a := range v.Artifacts {
		v.DiffRefs = appendRef(v.DiffRefs, a.DiffRef)
		if a.ValidationIssues == nil {
			v.Unvalidated++
		} else {
			v.ValidationIssues += *a.ValidationIssues
		}
	}
	v.Status = statusOf(len(v.Artifacts) > 0, NotApplicable)
	return v
}

// OutputSummary is the large outputs of a session.
type OutputSummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// Outputs are the last stored ones, oldest first.
	Outputs []Output `json:"outputs"`
	// Redactions are the last ones, oldest first.
	Redactions []Redaction `json:"redactions"`
	// Spilled counts the outputs that were stored beside their events.
	Spilled int64 `json:"spilled"`
	// Truncated counts the outputs of which not all was stored.
	Truncated int64 `json:"truncated"`
	// Redacted counts the facts that tell of a redaction.
	Redacted int64 `json:"redacted"`
	// Expired counts the outputs whose bytes are gone.
	Expired int64 `json:"expired"`
	// StoredBytes counts the bytes that were stored.
	StoredBytes int64 `json:"storedBytes"`
	// DroppedBytes counts the bytes that were not stored.
	DroppedBytes int64 `json:"droppedBytes"`
	// RedactedCount counts the secrets that were taken out.
	RedactedCount int64 `json:"redactedCount"`
}

func (s *Session) outputSummary() OutputSummary {
	o := &s.Outputs
	return OutputSummary{
		Status:  statusOf(o.Spilled+o.Truncated+o.Redacted+o.Expired > 0, NotApplicable),
		Outputs: copied(func(*Output) bool { return true }, o.Recent), Redactions: listCopy(o.Redactions),
		Spilled: o.Spilled, Truncated: o.Truncated, Redacted: o.Redacted, Expired: o.Expired,
		StoredBytes: o.StoredBytes, DroppedBytes: o.DroppedBytes, RedactedCount: o.RedactedCount,
	}
}

// HistorySummary is what happened to the record of a session.
type HistorySummary struct {
	// Status is available, or not_applicable if there is nothing of the kind.
	Status string `json:"status"`
	// LastSequence is the session's newest fact.
	LastSequence uint64 `json:"lastSequence"`
	// Window is the last part of the history that was loaded for recovery.
	Window *HistoryWindow `json:"window,omitempty"`
	// Reconstruction is the last rebuilding from facts.
	Reconstruction *Reconstruction `json:"reconstruction,omitempty"`
	// Reconstructions counts how often the session was rebuilt.
	Reconstructions int64 `json:"reconstructions"`
	// Rollbacks are the last completed ones, oldest first.
	Rollbacks []Rollback `json:"rollbacks"`
	// RunningRollbacks were started and are not completed.
	RunningRollbacks []Rollback `json:"runningRollbacks"`
	// Repairs are the last gaps that a snapshot bridged.
	Repairs []Repair `json:"repairs"`
	// RepairCount counts all gaps that a snapshot bridged.
	RepairCount int64 `json:"repairCount"`
	// Snapshot is the last read model that was written or that a stream went on from.
	Snapshot *SnapshotMark `json:"snapshot,omitempty"`
	// Degraded says that the last rebuilding was partial.
	Degraded bool `json:"degraded"`
}

// historySummary is that of a thread, or of the session: a thread shows its own
// rollbacks, the rest is the session's.
func (s *Session) historySummary(thread string) HistorySummary {
	h := &s.History
	mine := func(r *Rollback) bool { return inView(thread, r.ThreadID) }
	v := HistorySummary{
		LastSequence: s.Sequence, Window: h.Window, Reconstruction: h.Reconstruction, Reconstructions: h.Reconstructions,
		Rollbacks: chosen(h.Rollbacks, mine), RunningRollbacks: chosen(h.RunningRollbacks, mine),
		Repairs: listCopy(h.Repairs), RepairCount: h.RepairCount, Snapshot: h.Snapshot,
		Degraded: h.Reconstruction != nil && h.Reconstruction.Degraded,
	}
	has := h.Window != nil || h.Reconstruction != nil || h.Snapshot != nil || len(v.Rollbacks)+len(v.RunningRollbacks)+len(v.Repairs) > 0
	v.Status = statusOf(has, NotApplicable)
	return v
}

// ContextBoundary is what a thread's model calls see.
type ContextBoundary struct {
	// Status is unknown before the first fact, stale when a rollback removed what
	// the summary covers, preparing while a compaction runs.
	Status string `json:"status"`
	// ThreadID is the thread whose context it is.
	ThreadID string `json:"threadId,omitempty"`
	// Resolved is the context of the newest turn that got one.
	Resolved *ResolvedContext `json:"resolved,omitempty"`
	// Compaction is the last completed one.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Running is the compaction under way.
	Running *Compaction `json:"running,omitempty"`
	// Failures counts those that failed since the last completed one.
	Failures int64 `json:"failures"`
	// LastFailure is the last that failed.
	LastFailure *CompactionFailure `json:"lastFailure,omitempty"`
	// Compactions counts the completed ones.
	Compactions int64 `json:"compactions"`
	// Warnings are what was left out of the context.
	Warnings []event.ContextOmission `json:"warnings"`
	// MissingFacts says what could not be found for the context.
	MissingFacts []string `json:"missingFacts"`
}

// contextBoundary is that of a thread; t may be nil.
func contextBoundary(t *Thread) ContextBoundary {
	v := ContextBoundary{Status: Unknown, Warnings: []event.ContextOmission{}, MissingFacts: []string{}}
	if t == nil || t.Context == nil {
		return v
	}
	c := t.Context
	v.Status, v.ThreadID = Available, t.ThreadID
	v.Resolved, v.Compaction, v.Running = c.Resolved, c.Boundary, c.Running
	v.Failures, v.LastFailure, v.Compactions = c.Failures, c.LastFailure, c.Compactions
	if c.Resolved != nil {
		v.Warnings, v.MissingFacts = listCopy(c.Resolved.Left), listCopy(c.Resolved.MissingFacts)
	}
	switch {
	case c.Running != nil:
		v.Status = "preparing"
	case c.Boundary != nil && c.Boundary.Stale:
		v.Status = Stale
	}
	return v
}
