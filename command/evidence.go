package command

import (
	"agentd/event"
	"agentd/fault"
)

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
	// GraderInstructions tell the judge of a replay what to look at; they become a
	// part of the case.
	GraderInstructions string `json:"graderInstructions,omitempty" max:"65536"`
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

// RecordReview puts what others found out about the work into the session's facts.
type RecordReview struct {
	Mutation
	ExportScope
	// VerificationOutcomes are verdicts of checks.
	VerificationOutcomes []event.VerificationOutcome `json:"verificationOutcomes,omitempty" max:"100"`
	// Note of a reviewer, for people.
	Note string `json:"note,omitempty" max:"10000"`
	// ReviewRef is where the whole review is.
	ReviewRef string `json:"reviewRef,omitempty" max:"2048"`
}

// Command implements [Params].
func (*RecordReview) Command() Name         { return "record_review" }
func (*RecordReview) returns(*ReviewResult) {}

// Validate implements [Params].
func (p *RecordReview) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	if len(p.VerificationOutcomes) == 0 && p.Note == "" && p.ReviewRef == "" {
		return fault.Param("note", "is missing: give a note, verificationOutcomes or a reviewRef")
	}
	return nil
}

// ReviewResult says under which id a review was recorded.
type ReviewResult struct {
	// EvidenceID is what the fact and the read models call it.
	EvidenceID string `json:"evidenceId"`
	// Sequence of the fact.
	Sequence uint64 `json:"sequence"`
}

// ExportResult is an exported pack.
type ExportResult struct {
	// EvidenceID is the export's id.
	EvidenceID string `json:"evidenceId"`
	// Ref is where the pack's bytes are.
	Ref string `json:"ref"`
	// Pack is the pack itself.
	Pack event.Raw `json:"pack" as:"object"`
}
