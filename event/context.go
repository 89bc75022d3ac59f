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
	Items        []ContextItem     `json:"items"`
	Omissions    []ContextOmission `json:"omissions,omitempty"`
	MissingFacts []string          `json:"missingFacts,omitempty"`
	// EstimatedTokens is what was said so far, the input and the files; instructions and
	// the descriptions of tools are not in it, but in what a provider counts.
	EstimatedTokens int64  `json:"estimatedTokens,omitempty"`
	ContextWindow   int64  `json:"contextWindow,omitempty"`
	ContextRef      string `json:"contextRef,omitempty"`
}

// CompactionStarted opens a compaction.
type CompactionStarted struct {
	CompactionID  string   `json:"compactionId" check:"nonempty"`
	Trigger       string   `json:"trigger" enum:"@compactionTrigger"`
	AffectedTurns []string `json:"affectedTurns"`
	TokensBefore  int64    `json:"tokensBefore"`
	Attempt       int64    `json:"attempt,omitempty"`
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
	CompactionID string  `json:"compactionId" check:"nonempty"`
	Trigger      string  `json:"trigger" enum:"@compactionTrigger"`
	Error        Failure `json:"error"`
	Attempt      int64   `json:"attempt,omitempty"`
	WillRetry    bool    `json:"willRetry"`
}

// ArtifactChanged says that a deliverable was observed or produced.
type ArtifactChanged struct {
	Change     string `json:"change" enum:"@artifactChange"`
	Title      string `json:"title,omitempty"`
	Kind       string `json:"kind,omitempty"`
	URI        string `json:"uri,omitempty"`
	VersionID  string `json:"versionId,omitempty"`
	ReadRef    string `json:"readRef,omitempty"`
	PreviewRef string `json:"previewRef,omitempty"`
	DiffRef    string `json:"diffRef,omitempty"`
	MediaType  string `json:"mediaType,omitempty"`
	SizeBytes  int64  `json:"sizeBytes,omitempty"`
	Hash       string `json:"hash,omitempty"`
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
	Kind                 string                `json:"kind" enum:"evidence replay review benchmark_trial verification note"`
	PackRef              string                `json:"packRef,omitempty"`
	ReplayRef            string                `json:"replayRef,omitempty"`
	ReviewRef            string                `json:"reviewRef,omitempty"`
	TraceRef             string                `json:"traceRef,omitempty"`
	VerificationOutcomes []VerificationOutcome `json:"verificationOutcomes,omitempty"`
	Note                 string                `json:"note,omitempty"`
	// RecordedBy is who put a verdict or a note in.
	RecordedBy    *Actor `json:"recordedBy,omitempty"`
	ChainSequence uint64 `json:"chainSequence,omitempty"`
	ChainHash     string `json:"chainHash,omitempty"`
	// DurationMs is how long the export took.
	DurationMs int64 `json:"durationMs,omitempty"`
}

// HistoryWindowLoaded says that a part of an old session was loaded for recovery.
type HistoryWindowLoaded struct {
	FromSequence uint64 `json:"fromSequence"`
	ToSequence   uint64 `json:"toSequence"`
	Truncated    bool   `json:"truncated"`
	Reason       string `json:"reason,omitempty"`
	// Turns are the newest ones that a fork inherits, oldest first; their facts are in
	// the sessions that they name. MoreTurns says that there are older ones.
	Turns     []InheritedTurn `json:"turns,omitempty"`
	MoreTurns bool            `json:"moreTurns,omitempty"`
}

// InheritedTurn refers to a turn of another session that belongs to a fork's history.
type InheritedTurn struct {
	TurnID    string `json:"turnId" check:"nonempty"`
	SessionID string `json:"sessionId" check:"nonempty"`
	ThreadID  string `json:"threadId" check:"nonempty"`
	TaskID    string `json:"taskId,omitempty"`
	RunID     string `json:"runId,omitempty"`
	// Status is how the turn ended; stale, if it had not ended at the fork: how it went
	// on is not part of the fork.
	Status          string  `json:"status" enum:"completed failed cancelled stale"`
	Source          string  `json:"source,omitempty"`
	Preview         string  `json:"preview,omitempty"`
	Outcome         string  `json:"outcome,omitempty"`
	FailureCategory string  `json:"failureCategory,omitempty"`
	Steps           int64   `json:"steps,omitempty"`
	Usage           *Usage  `json:"usage,omitempty"`
	CostUSD         float64 `json:"costUSD,omitempty"`
	// SubmittedSequence and EndSequence are where its facts begin and end over there.
	SubmittedSequence uint64    `json:"submittedSequence,omitempty"`
	EndSequence       uint64    `json:"endSequence,omitempty"`
	SubmittedAt       time.Time `json:"submittedAt,omitzero"`
	StartedAt         time.Time `json:"startedAt,omitzero"`
	CompletedAt       time.Time `json:"completedAt,omitzero"`
}

// HistoryReconstructed says how a session was rebuilt from its facts.
type HistoryReconstructed struct {
	FromSnapshot   uint64   `json:"fromSnapshot"`
	ReplayedEvents int64    `json:"replayedEvents"`
	Degraded       bool     `json:"degraded"`
	Missing        []string `json:"missing,omitempty"`
	Reason         string   `json:"reason,omitempty"`
	// Recovered lists what was in flight and became facts.
	Recovered []string `json:"recovered,omitempty"`
}

// RollbackStarted records the intent to take turns back.
type RollbackStarted struct {
	RollbackID string `json:"rollbackId" check:"nonempty"`
	// ToTurnID is the turn that stays; not_applicable when all turns go.
	ToTurnID     string   `json:"toTurnId" check:"nonempty"`
	RemovedTurns []string `json:"removedTurns"`
	Files        string   `json:"files" enum:"@rollbackFiles"`
	// Force says that files are restored even if someone else changed them since.
	Force bool `json:"force,omitempty"`
	// BaselineSequence is the last event of the turn that stays.
	BaselineSequence uint64 `json:"baselineSequence,omitempty"`
	// Origin and InheritedTurns are as in [RollbackCompleted].
	Origin         *ForkPoint `json:"origin,omitempty"`
	InheritedTurns int64      `json:"inheritedTurns,omitempty"`
	RequestedBy    *Actor     `json:"requestedBy,omitempty"`
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
	RollbackID       string   `json:"rollbackId" check:"nonempty"`
	ToTurnID         string   `json:"toTurnId" check:"nonempty"`
	RemovedTurns     []string `json:"removedTurns"`
	BaselineSequence uint64   `json:"baselineSequence"`
	// Origin is set when a fork goes back behind its beginning: where in another
	// session its history ends now, at sequence 0 if nothing of it is left. The first
	// InheritedTurns of the removed ones are that session's, which stays as it is.
	Origin            *ForkPoint     `json:"origin,omitempty"`
	InheritedTurns    int64          `json:"inheritedTurns,omitempty"`
	AffectedTools     []string       `json:"affectedTools,omitempty"`
	AffectedArtifacts []string       `json:"affectedArtifacts,omitempty"`
	AffectedSubagents []string       `json:"affectedSubagents,omitempty"`
	AffectedJobs      []string       `json:"affectedJobs,omitempty"`
	Files             []RollbackFile `json:"files,omitempty"`
	ReadModelRepaired bool           `json:"readModelRepaired"`
}

// SnapshotRepaired marks a gap: what can't be redelivered was replaced by a snapshot.
type SnapshotRepaired struct {
	Reason           string `json:"reason" check:"nonempty"`
	GapFrom          uint64 `json:"gapFrom"`
	GapTo            uint64 `json:"gapTo"`
	RecoveryMode     string `json:"recoveryMode" enum:"snapshot_repair"`
	SnapshotSequence uint64 `json:"snapshotSequence"`
	Status           string `json:"status" enum:"stale unavailable repaired"`
}
