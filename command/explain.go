package command

import (
	"cmp"

	"agentd/fault"
)

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
	// SubagentID asks about a child.
	SubagentID string `json:"subagentId,omitempty" check:"id"`
	// JobID asks about a job, or with itemId about one of its items.
	JobID string `json:"jobId,omitempty" check:"id"`
	// ItemID asks about an item of a job.
	ItemID string `json:"itemId,omitempty" check:"id"`
	// EventID asks about a fact, such as a hook's answer or a change of the policy, and
	// what it belongs to.
	EventID string `json:"eventId,omitempty" check:"id"`
}

// Command implements [Params].
func (*Explain) Command() Name          { return "explain" }
func (*Explain) returns(*ExplainResult) {}

// Validate implements [Params].
func (p *Explain) Validate() error {
	const ids = "toolCallId, actionId, turnId, taskId, subagentId, jobId, itemId and eventId"
	given := 0
	for _, id := range []string{p.ToolCallID, p.ActionID, p.TurnID, p.TaskID, p.SubagentID, cmp.Or(p.ItemID, p.JobID), p.EventID} {
		if id != "" {
			given++
		}
	}
	if err := check(p); err != nil {
		return err
	}
	switch given {
	case 0:
		return fault.Param("toolCallId", "is missing: one of %s is needed", ids)
	case 1:
		return nil
	default:
		return fault.Param("toolCallId", "only one of %s can be asked about; jobId may come with itemId", ids)
	}
}

// Asked is the id that is asked about.
func (p *Explain) Asked() string {
	return cmp.Or(p.ToolCallID, p.ActionID, p.TurnID, p.TaskID, p.SubagentID, p.ItemID, p.JobID, p.EventID)
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
