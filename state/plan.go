package state

import (
	"encoding/json"
	"time"

	"agentd/event"
	"agentd/tool/toolkind"
)

// keepSteps bounds the steps of a plan that are kept.
const keepSteps = 100

// Plan is what an agent said that it will do. It is a hint for people: what became of the
// work is said by tasks.
type Plan struct {
	// TurnID is the turn that wrote the plan.
	TurnID string `json:"turnId"`
	// ToolCallID is the call that wrote the plan.
	ToolCallID string `json:"toolCallId"`
	// Items are the steps in their order.
	Items []PlanStep `json:"items"`
	// StructuredRef is where a long plan is found whole.
	StructuredRef string `json:"structuredRef,omitempty"`
	// At is when it was written.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// PlanStep is one step of a plan.
type PlanStep struct {
	// Step is what is to be done.
	Step string `json:"step"`
	// Status of the step.
	Status string `json:"status"`
}

// planUpdated notes the plan that a call of update_plan gave.
func (f *fold) planUpdated(p *event.ToolResult) {
	t := f.s.Thread(f.e.ThreadID)
	if t == nil || p.ToolName != string(toolkind.UpdatePlan) || p.Status != "ok" {
		return
	}
	plan := &Plan{TurnID: f.e.TurnID, ToolCallID: f.e.ToolCallID, Items: []PlanStep{}, StructuredRef: p.StructuredRef, At: f.e.Time, Sequence: f.e.Sequence}
	var said struct {
		Items []PlanStep `json:"items"`
	}
	if len(p.StructuredContent) > 0 && json.Unmarshal(p.StructuredContent, &said) == nil { // otherwise it is behind the reference
		for _, s := range firstN(said.Items, keepSteps) {
			plan.Items = append(plan.Items, PlanStep{Step: preview(s.Step), Status: s.Status})
		}
	}
	t.Plan = plan
}
