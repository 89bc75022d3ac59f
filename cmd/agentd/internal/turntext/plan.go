package turntext

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
	"agentd/permission"
	"agentd/tool"
)

// planPrompt is what stands before the answer to a plan.
const planPrompt = "[y] approve, ask before each change  [a] approve, continue in mode auto  [n] keep planning, say why: "

// IsPlan says that a plan waits for approval.
func (q *Question) IsPlan() bool { return q.Required.ActionType == "plan_approval" }

// PlanText is the plan that a request shows: all of it, or its beginning where the
// arguments are behind a reference.
func PlanText(prompt string, args event.Raw) string {
	if text := tool.PlanText(args); text != "" {
		return text
	}
	_, text, _ := strings.Cut(prompt, "\n\n")
	return text
}

// planPanel shows a plan as it was written.
func (q *Question) planPanel(k terminal.Ink, cols int) []string {
	out := []string{k.Paint(terminal.Yellow, "? ") + k.Paint(terminal.Bold, "Approve this plan?"), ""}
	m := &markdown{}
	text := terminal.PlainBlock(PlanText(q.Required.Prompt, q.Required.SafeArgs))
	for _, block := range append(m.append(text), m.finish()...) {
		for _, line := range renderBlock(k, block, cols-2) {
			out = append(out, "  "+line)
		}
		out = append(out, "")
	}
	if q.Required.SafeArgs == nil && q.Required.InputRef != "" {
		out = append(out, k.Paint(terminal.Dim, "  This is its beginning; all of it: agentd actions "+q.ID), "")
	}
	return out
}

// parsePlan reads the answer to a plan: yes, in which mode, or no and why.
func (q *Question) parsePlan(r *command.RespondAction, word, rest string) (*command.RespondAction, string) {
	const wrong = "answer y, a, a permission mode, or n with what to change"
	mode := map[string]string{"y": permission.ModeDefault, "yes": permission.ModeDefault, "a": permission.ModeAuto}[word]
	if word != permission.ModePlan && slices.Contains(permission.Modes(), word) {
		mode = word
	}
	switch {
	case mode != "" && rest == "":
		r.Decision, r.Payload = "allow", PlanChoice(mode)
	case word == "n" || word == "no":
		r.Decision, r.Reason = "deny", rest
	default:
		return r, wrong
	}
	return r, ""
}

// PlanChoice is what comes with the approval of a plan.
func PlanChoice(mode string) event.Raw {
	return MarshalValue(map[string]string{"permissionMode": mode})
}

// ApprovedMode is the mode in which work goes on after an answer that approves a plan;
// empty if it approves none.
func (q *Question) ApprovedMode(r *command.RespondAction) string {
	if !q.IsPlan() || r.Decision != "allow" {
		return ""
	}
	var chosen struct {
		PermissionMode string `json:"permissionMode"`
	}
	_ = json.Unmarshal(r.Payload, &chosen) // without one it is the default
	return cmp.Or(chosen.PermissionMode, permission.ModeDefault)
}

// describePlan says what the answer to a plan was.
func (q *Question) describePlan(r *command.RespondAction) string {
	switch r.Decision {
	case "allow":
		return terminal.JoinDots("plan approved", "mode "+q.ApprovedMode(r))
	case "deny":
		return terminal.JoinDots("plan sent back", r.Reason)
	}
	return "cancelled"
}
