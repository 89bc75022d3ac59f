package command

import "agentd/event"

// ExportScope says what is exported: a session, or a part of it.
type ExportScope struct {
	// SessionID of what is exported.
	SessionID string `json:"sessionId" check:"id"`
	// ThreadID narrows the export to a thread.
	ThreadID string `json:"threadId,omitempty" check:"id"`
	// TurnID narrows the export to a turn.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// TaskID narrows the export to a task.
	TaskID string `json:"taskId,omitempty" check:"id"`
}

// ExportEvidence exports an evidence pack.
type ExportEvidence struct {
	Mutation
	ExportScope
}

// Command implements [Params].
func (*ExportEvidence) Command() Name         { return "export_evidence" }
func (*ExportEvidence) returns(*ExportResult) {}

// Validate implements [Params].
func (p *ExportEvidence) Validate() error { return check(p) }

// ExportReplay exports a replay case.
type ExportReplay struct {
	Mutation
	ExportScope
}

// Command implements [Params].
func (*ExportReplay) Command() Name         { return "export_replay" }
func (*ExportReplay) returns(*ExportResult) {}

// Validate implements [Params].
func (p *ExportReplay) Validate() error { return check(p) }

// ExportReview exports a review.
type ExportReview struct {
	Mutation
	ExportScope
}

// Command implements [Params].
func (*ExportReview) Command() Name         { return "export_review" }
func (*ExportReview) returns(*ExportResult) {}

// Validate implements [Params].
func (p *ExportReview) Validate() error { return check(p) }

// ExportResult is an exported pack.
type ExportResult struct {
	// EvidenceID is the export's id.
	EvidenceID string `json:"evidenceId"`
	// Ref is where the pack's bytes are.
	Ref string `json:"ref"`
	// Pack is the pack itself.
	Pack event.Raw `json:"pack" as:"object"`
}
