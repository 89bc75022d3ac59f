package command

import "agentd/fault"

// GetDiff returns what a turn, a tool call or a range of events changed in the
// workspace.
type GetDiff struct {
	// SessionID is the session's id.
	SessionID string `json:"sessionId" check:"id"`
	// TurnID asks for what a turn changed.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// ToolCallID asks for what a tool call changed.
	ToolCallID string `json:"toolCallId,omitempty" check:"id"`
	// FromSequence is the first event of the range that is asked for; with toSequence
	// alone it is the oldest.
	FromSequence *uint64 `json:"fromSequence,omitempty" min:"1"`
	// ToSequence is the last event of the range; with fromSequence alone it is the newest.
	ToSequence *uint64 `json:"toSequence,omitempty" min:"1"`
}

// Command implements [Params].
func (*GetDiff) Command() Name          { return "get_diff" }
func (*GetDiff) returns(*GetDiffResult) {}

// Validate implements [Params].
func (p *GetDiff) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	given := 0
	for _, asked := range []bool{p.TurnID != "", p.ToolCallID != "", p.FromSequence != nil || p.ToSequence != nil} {
		if asked {
			given++
		}
	}
	switch {
	case given == 0:
		return fault.Param("turnId", "is missing: give turnId, toolCallId, or fromSequence and toSequence")
	case given > 1:
		return fault.Param("turnId", "give only one of turnId, toolCallId, or fromSequence and toSequence")
	case p.FromSequence != nil && p.ToSequence != nil && *p.FromSequence > *p.ToSequence:
		return fault.Param("fromSequence", "%d is after toSequence, %d", *p.FromSequence, *p.ToSequence)
	}
	return nil
}

// GetDiffResult is what was changed.
type GetDiffResult struct {
	// Files are the paths that are not as they were, ordered by path.
	Files []ChangedFile `json:"files"`
	// Diff is the change as a unified diff, redacted. What can't be shown is named.
	Diff string `json:"diff"`
	// Truncated says that diff is only the beginning.
	Truncated bool `json:"truncated,omitempty"`
	// DiffRef has the diff whole, if diff is only the beginning.
	DiffRef string `json:"diffRef,omitempty"`
}

// ChangedFile is a path that was changed.
type ChangedFile struct {
	// Path relative to the workspace.
	Path string `json:"path"`
	// Change from the state before to the state after.
	Change string `json:"change" enum:"@fileChange"`
	// Note says why the contents are not shown.
	Note string `json:"note,omitempty"`
}
