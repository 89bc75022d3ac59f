package command

import "time"

// ListExports lists what was exported.
type ListExports struct {
	Page
	// SessionID keeps the exports of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Type keeps the exports of this kind.
	Type string `json:"type,omitempty" enum:"@exportKind"`
	// TurnID keeps the exports of this turn alone.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// TaskID keeps the exports of this task alone.
	TaskID string `json:"taskId,omitempty" check:"id"`
	Narrowing
	// Sort is what the exports are ordered by; default id.
	Sort string `json:"sort,omitempty" enum:"id created"`
}

// Command implements [Params].
func (*ListExports) Command() Name              { return "list_exports" }
func (*ListExports) returns(*ListExportsResult) {}

// Validate implements [Params].
func (p *ListExports) Validate() error { return checkNarrowing(p, &p.Narrowing) }

// ListExportsResult is a page of exports.
type ListExportsResult struct {
	// Exports of this page.
	Exports []ExportRecord `json:"exports"`
	// Total counts the exports that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ExportRecord is one export. It says what was exported, not whether the bytes behind
// its reference are still there.
type ExportRecord struct {
	// EvidenceID is the export's id.
	EvidenceID string `json:"evidenceId"`
	// Type is the kind of the export.
	Type string `json:"type" enum:"@exportKind"`
	// SessionID of what was exported.
	SessionID string `json:"sessionId"`
	// ThreadID that the export was narrowed to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID that the export was narrowed to.
	TurnID string `json:"turnId,omitempty"`
	// TaskID that the export was narrowed to.
	TaskID string `json:"taskId,omitempty"`
	// Ref is where the pack's bytes are.
	Ref string `json:"ref"`
	// ThroughSequence is the last fact that the export takes in.
	ThroughSequence uint64 `json:"throughSequence,omitempty"`
	// CreatedAt is when it was exported.
	CreatedAt time.Time `json:"createdAt"`
}
