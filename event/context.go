package event

import "time"

// ContextItem is something that was selected for the model's context.
type ContextItem struct {
	// Kind of the item.
	Kind string `json:"kind" enum:"instructions history file memory knowledge source browser policy tool_inventory summary other"`
	// Ref is where the item is.
	Ref string `json:"ref,omitempty"`
	// Title for people.
	Title string `json:"title,omitempty"`
	// Tokens is its size as far as it is known.
	Tokens int64 `json:"tokens,omitempty"`
	// Digest identifies the content.
	Digest string `json:"digest,omitempty"`
}

// ContextOmission is something that was left out, or is missing, and why.
type ContextOmission struct {
	// Kind of what was left out.
	Kind string `json:"kind" check:"nonempty"`
	// Ref is where it is.
	Ref string `json:"ref,omitempty"`
	// Reason says why it was left out.
	Reason string `json:"reason" check:"nonempty"`
}

// ContextResolved says what went into the context of a turn's model calls.
type ContextResolved struct {
	// Items are what was selected.
	Items []ContextItem `json:"items"`
	// Omissions are what was left out, with reasons.
	Omissions []ContextOmission `json:"omissions,omitempty"`
	// MissingFacts names what would be needed and is not there.
	MissingFacts []string `json:"missingFacts,omitempty"`
	// EstimatedTokens is what was said so far, the input and the files; instructions and
	// the descriptions of tools are not in it, but in what a provider counts.
	EstimatedTokens int64 `json:"estimatedTokens,omitempty"`
	// ContextWindow is how many tokens the model takes at most.
	ContextWindow int64 `json:"contextWindow,omitempty"`
	// ContextRef is where the whole selection is.
	ContextRef string `json:"contextRef,omitempty"`
}

// CompactionStarted opens a compaction.
type CompactionStarted struct {
	// CompactionID is the compaction's id.
	CompactionID string `json:"compactionId" check:"nonempty"`
	// Trigger says who or what asked for it.
	Trigger string `json:"trigger" enum:"@compactionTrigger"`
	// AffectedTurns are the turns that are to be summed up.
	AffectedTurns []string `json:"affectedTurns"`
	// TokensBefore is the size of the conversation before.
	TokensBefore int64 `json:"tokensBefore"`
	// Attempt counts the tries of this compaction, from 1.
	Attempt int64 `json:"attempt,omitempty"`
}

// Preserved lists what a compaction must not lose.
type Preserved struct {
	// Actions are the pending actions.
	Actions []string `json:"actions"`
	// Incidents are the incidents that are still of interest.
	Incidents []string `json:"incidents"`
	// EvidenceRefs point to evidence.
	EvidenceRefs []string `json:"evidenceRefs"`
	// ArtifactRefs point to artifacts.
	ArtifactRefs []string `json:"artifactRefs"`
}

// CompactionCompleted replaces earlier turns by a summary in the context.
type CompactionCompleted struct {
	// CompactionID is the compaction's id.
	CompactionID string `json:"compactionId" check:"nonempty"`
	// Trigger says who or what asked for it.
	Trigger string `json:"trigger" enum:"@compactionTrigger"`
	// AffectedTurns are the turns that the summary stands for.
	AffectedTurns []string `json:"affectedTurns"`
	// SummaryRef is where the summary is.
	SummaryRef string `json:"summaryRef" check:"nonempty"`
	// SummaryPreview is the beginning of the summary.
	SummaryPreview string `json:"summaryPreview,omitempty"`
	// ContinuationRef is where the text is with which the thread goes on.
	ContinuationRef string `json:"continuationRef,omitempty"`
	// TokensBefore is the size of the conversation before.
	TokensBefore int64 `json:"tokensBefore"`
	// TokensAfter is the size of the conversation after.
	TokensAfter int64 `json:"tokensAfter"`
	// Preserved lists what was kept.
	Preserved Preserved `json:"preserved"`
	// ThroughSequence is the last event that the summary covers.
	ThroughSequence uint64 `json:"throughSequence"`
}

// CompactionFailed leaves the thread as it was.
type CompactionFailed struct {
	// CompactionID is the compaction's id.
	CompactionID string `json:"compactionId" check:"nonempty"`
	// Trigger says who or what asked for it.
	Trigger string `json:"trigger" enum:"@compactionTrigger"`
	// Error says what went wrong.
	Error Failure `json:"error"`
	// Attempt counts the tries of this compaction, from 1.
	Attempt int64 `json:"attempt,omitempty"`
	// WillRetry says that it is tried again.
	WillRetry bool `json:"willRetry"`
}

// ArtifactChanged says that a deliverable was observed or produced.
type ArtifactChanged struct {
	// Change says what became of the artifact.
	Change string `json:"change" enum:"@artifactChange"`
	// Title is its name, for people.
	Title string `json:"title,omitempty"`
	// Kind says what it is, such as file or report.
	Kind string `json:"kind,omitempty"`
	// URI is where it is.
	URI string `json:"uri,omitempty"`
	// VersionID is the version of it that this is about.
	VersionID string `json:"versionId,omitempty"`
	// ReadRef is where its content can be read.
	ReadRef string `json:"readRef,omitempty"`
	// PreviewRef is where a short form of it is.
	PreviewRef string `json:"previewRef,omitempty"`
	// DiffRef is where the difference from the version before is.
	DiffRef string `json:"diffRef,omitempty"`
	// MediaType is the type of its content.
	MediaType string `json:"mediaType,omitempty"`
	// SizeBytes is the size of its content in bytes.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Hash is the hash of its content.
	Hash string `json:"hash,omitempty"`
	// ValidationIssues counts known problems; absent means not validated.
	ValidationIssues *int64 `json:"validationIssues,omitempty"`
}

// VerificationOutcome is one verdict of an evidence system.
type VerificationOutcome struct {
	// Name of the check.
	Name string `json:"name" check:"nonempty"`
	// Status is the verdict, such as passed or failed.
	Status string `json:"status" check:"nonempty"`
	// Ref is where the details are.
	Ref string `json:"ref,omitempty"`
}

// EvidenceChanged says that evidence, a replay case or a review was exported or observed.
type EvidenceChanged struct {
	// Kind says what was exported or observed.
	Kind string `json:"kind" enum:"evidence replay review benchmark_trial verification note"`
	// PackRef is where the evidence pack is.
	PackRef string `json:"packRef,omitempty"`
	// ReplayRef is where the replay case is.
	ReplayRef string `json:"replayRef,omitempty"`
	// ReviewRef is where the review is.
	ReviewRef string `json:"reviewRef,omitempty"`
	// TraceRef is where the trace is.
	TraceRef string `json:"traceRef,omitempty"`
	// VerificationOutcomes are the verdicts.
	VerificationOutcomes []VerificationOutcome `json:"verificationOutcomes,omitempty"`
	// Note is a remark, for people.
	Note string `json:"note,omitempty"`
	// RecordedBy is who put a verdict or a note in.
	RecordedBy *Actor `json:"recordedBy,omitempty"`
	// ChainSequence is the last event that the evidence covers.
	ChainSequence uint64 `json:"chainSequence,omitempty"`
	// ChainHash is the chain's hash at that event, in hex.
	ChainHash string `json:"chainHash,omitempty"`
	// DurationMs is how long the export took.
	DurationMs int64 `json:"durationMs,omitempty"`
}

// HistoryWindowLoaded says that a part of an old session was loaded for recovery.
type HistoryWindowLoaded struct {
	// FromSequence is the first event of the part.
	FromSequence uint64 `json:"fromSequence"`
	// ToSequence is the last event of the part.
	ToSequence uint64 `json:"toSequence"`
	// Truncated says that there are earlier events that were not loaded.
	Truncated bool `json:"truncated"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Turns are the newest ones that a fork inherits, oldest first; their facts are in
	// the sessions that they name. MoreTurns says that there are older ones.
	Turns []InheritedTurn `json:"turns,omitempty"`
	// MoreTurns says that there are older turns.
	MoreTurns bool `json:"moreTurns,omitempty"`
}

// InheritedTurn refers to a turn of another session that belongs to a fork's history.
type InheritedTurn struct {
	// TurnID is the turn.
	TurnID string `json:"turnId" check:"nonempty"`
	// SessionID is the session that has its facts.
	SessionID string `json:"sessionId" check:"nonempty"`
	// ThreadID is its thread over there.
	ThreadID string `json:"threadId" check:"nonempty"`
	// TaskID is its task over there.
	TaskID string `json:"taskId,omitempty"`
	// RunID is its run over there.
	RunID string `json:"runId,omitempty"`
	// Status is how the turn ended; stale, if it had not ended at the fork: how it went
	// on is not part of the fork.
	Status string `json:"status" enum:"completed failed cancelled stale"`
	// Source says what it came from.
	Source string `json:"source,omitempty"`
	// Preview is the beginning of its input, for people.
	Preview string `json:"preview,omitempty"`
	// Outcome says how it ended.
	Outcome string `json:"outcome,omitempty"`
	// FailureCategory says of what kind its failure is.
	FailureCategory string `json:"failureCategory,omitempty"`
	// Steps counts its model calls.
	Steps int64 `json:"steps,omitempty"`
	// Usage counts its tokens.
	Usage *Usage `json:"usage,omitempty"`
	// CostUSD is what it cost in US dollars, as far as prices are known.
	CostUSD float64 `json:"costUSD,omitempty"`
	// SubmittedSequence and EndSequence are where its facts begin and end over there.
	SubmittedSequence uint64 `json:"submittedSequence,omitempty"`
	// EndSequence is the last of its facts over there.
	EndSequence uint64 `json:"endSequence,omitempty"`
	// SubmittedAt is when it was submitted.
	SubmittedAt time.Time `json:"submittedAt,omitzero"`
	// StartedAt is when it began to run.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// CompletedAt is when it ended.
	CompletedAt time.Time `json:"completedAt,omitzero"`
}

// HistoryReconstructed says how a session was rebuilt from its facts.
type HistoryReconstructed struct {
	// FromSnapshot is the event that the snapshot covers from which it was rebuilt; 0 without
	// one.
	FromSnapshot uint64 `json:"fromSnapshot"`
	// ReplayedEvents counts the events that were read after that.
	ReplayedEvents int64 `json:"replayedEvents"`
	// Degraded says that something is lost or unknown.
	Degraded bool `json:"degraded"`
	// Missing names what is lost.
	Missing []string `json:"missing,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Recovered lists what was in flight and became facts.
	Recovered []string `json:"recovered,omitempty"`
}

// RollbackStarted records the intent to take turns back.
type RollbackStarted struct {
	// RollbackID is the rollback's id.
	RollbackID string `json:"rollbackId" check:"nonempty"`
	// ToTurnID is the turn that stays; not_applicable when all turns go.
	ToTurnID string `json:"toTurnId" check:"nonempty"`
	// RemovedTurns are the turns that are taken back, oldest first.
	RemovedTurns []string `json:"removedTurns"`
	// Files says whether files are restored too.
	Files string `json:"files" enum:"@rollbackFiles"`
	// Force says that files are restored even if someone else changed them since.
	Force bool `json:"force,omitempty"`
	// BaselineSequence is the last event of the turn that stays.
	BaselineSequence uint64 `json:"baselineSequence,omitempty"`
	// Origin and InheritedTurns are as in [RollbackCompleted].
	Origin *ForkPoint `json:"origin,omitempty"`
	// InheritedTurns counts those of the removed turns that are the origin's.
	InheritedTurns int64 `json:"inheritedTurns,omitempty"`
	// RequestedBy is who wants it.
	RequestedBy *Actor `json:"requestedBy,omitempty"`
}

// RollbackFile is what a rollback did with one file.
type RollbackFile struct {
	// Path relative to the workspace.
	Path string `json:"path" check:"nonempty"`
	// Change that was made, or would be.
	Change string `json:"change" enum:"@rollbackChange"`
	// Reason says why the file is left as it is.
	Reason string `json:"reason,omitempty"`
}

// RollbackCompleted says what a rollback removed, kept and repaired.
type RollbackCompleted struct {
	// RollbackID is the rollback's id.
	RollbackID string `json:"rollbackId" check:"nonempty"`
	// ToTurnID is the turn that stays; not_applicable when all turns go.
	ToTurnID string `json:"toTurnId" check:"nonempty"`
	// RemovedTurns are the turns that were taken back, oldest first.
	RemovedTurns []string `json:"removedTurns"`
	// BaselineSequence is the last event of the turn that stays.
	BaselineSequence uint64 `json:"baselineSequence"`
	// Origin is set when a fork goes back behind its beginning: where in another
	// session its history ends now, at sequence 0 if nothing of it is left. The first
	// InheritedTurns of the removed ones are that session's, which stays as it is.
	Origin *ForkPoint `json:"origin,omitempty"`
	// InheritedTurns counts those of the removed turns that are the origin's.
	InheritedTurns int64 `json:"inheritedTurns,omitempty"`
	// AffectedTools are the calls of the removed turns.
	AffectedTools []string `json:"affectedTools,omitempty"`
	// AffectedArtifacts are the artifacts of the removed turns.
	AffectedArtifacts []string `json:"affectedArtifacts,omitempty"`
	// AffectedSubagents are the subagents of the removed turns.
	AffectedSubagents []string `json:"affectedSubagents,omitempty"`
	// AffectedJobs are the jobs of the removed turns.
	AffectedJobs []string `json:"affectedJobs,omitempty"`
	// Files say what became of each file.
	Files []RollbackFile `json:"files,omitempty"`
	// ReadModelRepaired says that the read model no longer has the removed turns.
	ReadModelRepaired bool `json:"readModelRepaired"`
}

// SnapshotRepaired marks a gap: what can't be redelivered was replaced by a snapshot.
type SnapshotRepaired struct {
	// Reason is why there is a gap, such as retention.
	Reason string `json:"reason" check:"nonempty"`
	// GapFrom is the first event that is not there.
	GapFrom uint64 `json:"gapFrom"`
	// GapTo is the last event that is not there.
	GapTo uint64 `json:"gapTo"`
	// RecoveryMode is snapshot_repair.
	RecoveryMode string `json:"recoveryMode" enum:"snapshot_repair"`
	// SnapshotSequence is the last event that the snapshot has.
	SnapshotSequence uint64 `json:"snapshotSequence"`
	// Status says what became of what was lost.
	Status string `json:"status" enum:"stale unavailable repaired"`
}
