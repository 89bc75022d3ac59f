package command

import "agentd/fault"

// Explain answers why something was allowed, blocked, routed or failed.
type Explain struct {
	// SessionID of what is asked about.
	SessionID string `json:"sessionId" check:"id"`
	// ToolCallID asks about a tool call.
	ToolCallID string `json:"toolCallId,omitempty" check:"id"`
	// ActionID asks about an action.
	ActionID string `json:"actionId,omitempty" check:"id"`
	// TurnID asks about a turn.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// TaskID asks about a task.
	TaskID string `json:"taskId,omitempty" check:"id"`
}

// Command implements [Params].
func (*Explain) Command() Name { return "explain" }

// Validate implements [Params].
func (p *Explain) Validate() error {
	given := 0
	for _, id := range []string{p.ToolCallID, p.ActionID, p.TurnID, p.TaskID} {
		if id != "" {
			given++
		}
	}
	if err := check(p); err != nil {
		return err
	}
	switch given {
	case 0:
		return fault.Param("toolCallId", "is missing: one of toolCallId, actionId, turnId and taskId is needed")
	case 1:
		return nil
	default:
		return fault.Param("toolCallId", "only one of toolCallId, actionId, turnId and taskId can be asked about")
	}
}

// ExplainResult is the chain of facts that answers the question.
type ExplainResult struct {
	// Answer in words, made of the facts alone.
	Answer string `json:"answer"`
	// Facts in the order in which they happened.
	Facts []ExplainedFact `json:"facts"`
}

// ExplainedFact is one fact of an answer.
type ExplainedFact struct {
	// EventID of the fact.
	EventID string `json:"eventId"`
	// Sequence of the fact in its session.
	Sequence uint64 `json:"sequence"`
	// Type of the fact.
	Type string `json:"type"`
	// Says is what the fact contributes.
	Says string `json:"says"`
}
