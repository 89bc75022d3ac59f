package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agentd/event"
	"agentd/tool/toolkind"
)

// maxPlanItems bounds a plan; a longer one is no plan any more.
const maxPlanItems = 100

const updatePlanSchema = `{
	"type": "object",
	"properties": {
		"items": {
			"type": "array",
			"maxItems": 100,
			"description": "The whole plan in order; it replaces the one before.",
			"items": {
				"type": ["object", "string"],
				"minLength": 1,
				"maxLength": 500,
				"properties": {
					"step": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What is to be done, in a few words."},
					"status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"], "description": "Default pending."}
				}
			}
		}
	},
	"required": ["items"],
	"additionalProperties": false
}`

// PlanItem is one step of a plan.
type PlanItem struct {
	Step string `json:"step"`
	// Status is pending, in_progress, completed or cancelled.
	Status string `json:"status"`
}

// UnmarshalJSON implements [json.Unmarshaler]. A plan is harmless, and models write
// them in the forms that they have learnt: a step alone is one that is pending, and
// the step may have another of the usual names.
func (p *PlanItem) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		p.Status = planPending
		return json.Unmarshal(b, &p.Step)
	}
	var as struct {
		Step        string `json:"step"`
		Text        string `json:"text"`
		Title       string `json:"title"`
		Content     string `json:"content"`
		Description string `json:"description"`
		Task        string `json:"task"`
		Name        string `json:"name"`
		Status      string `json:"status"`
	}
	if err := json.Unmarshal(b, &as); err != nil {
		return err
	}
	p.Step = cmp.Or(as.Step, as.Text, as.Title, as.Content, as.Description, as.Task, as.Name)
	p.Status = cmp.Or(as.Status, planPending)
	return nil
}

const planPending = "pending"

// Plan is the structured result of update_plan.
type Plan struct {
	Items []PlanItem `json:"items"`
	// Counts of the items by status.
	Pending    int `json:"pending"`
	InProgress int `json:"inProgress"`
	Completed  int `json:"completed"`
	Cancelled  int `json:"cancelled"`
}

func newUpdatePlan() *builtin {
	return define(toolkind.UpdatePlan, event.ToolInfo{
		Description: "Records your plan, so that the person sees what you are about to do and how far you are. " +
			"Give the whole list each time. Keep one step in_progress while you work, and mark it completed " +
			"as soon as it is. For work of a single step no plan is needed.",
		Capabilities:      []string{CapPlan},
		IsReadOnly:        true,
		InterruptBehavior: interruptBlock,
	}, updatePlanSchema, updatePlan)
}

func updatePlan(_ context.Context, call *Call) (*Result, error) {
	var plan Plan
	if err := decodeInput(call, &plan); err != nil {
		return nil, err
	}
	if err := plan.check(); err != nil {
		return nil, err
	}
	plan.count()
	return &Result{Output: []byte(plan.text()), Structured: encodeStructured(&plan)}, nil
}

// check says what is wrong with a plan beyond its schema.
func (p *Plan) check() error {
	if len(p.Items) > maxPlanItems {
		return Errorf(InvalidInput, "items: at most %d steps, got %d", maxPlanItems, len(p.Items))
	}
	seen := make(map[string]int, len(p.Items))
	for i, item := range p.Items {
		step := strings.TrimSpace(item.Step)
		if step == "" {
			return Errorf(InvalidInput, "items[%d].step: is missing or blank; say what is to be done", i)
		}
		if first, twice := seen[step]; twice {
			return Errorf(InvalidInput, "items[%d].step: %q is already items[%d]; name each step once", i, step, first)
		}
		seen[step] = i
		if _, ok := planMarks[item.Status]; !ok {
			return Errorf(InvalidInput, "items[%d].status: %q is not one of pending, in_progress, completed, cancelled", i, item.Status)
		}
		p.Items[i].Step = step
	}
	if p.Items == nil {
		p.Items = []PlanItem{}
	}
	return nil
}

var planMarks = map[string]string{planPending: "[ ]", "in_progress": "[~]", "completed": "[x]", "cancelled": "[-]"}

func (p *Plan) count() {
	p.Pending, p.InProgress, p.Completed, p.Cancelled = 0, 0, 0, 0
	for _, item := range p.Items {
		switch item.Status {
		case planPending:
			p.Pending++
		case "in_progress":
			p.InProgress++
		case "completed":
			p.Completed++
		default:
			p.Cancelled++
		}
	}
}

// text is the plan as a list that people and models read.
func (p *Plan) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Plan recorded: %d of %d steps completed.\n", p.Completed, len(p.Items))
	for _, item := range p.Items {
		fmt.Fprintf(&b, "%s %s\n", planMarks[item.Status], item.Step)
	}
	return b.String()
}
