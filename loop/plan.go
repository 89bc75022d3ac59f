package loop

import (
	"encoding/json"

	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// planAction is the type of the action that asks whether a plan is approved.
const planAction = "plan_approval"

// planAnswer is what may come with the approval of a plan.
var planAnswer = func() event.Raw {
	var modes []string
	for _, m := range permission.Modes() {
		if m != permission.ModePlan {
			modes = append(modes, m)
		}
	}
	b, err := json.Marshal(map[string]any{
		"type": "object", "additionalProperties": false, "properties": map[string]any{
			"permissionMode": map[string]any{
				"type": "string", "enum": modes, "default": permission.ModeDefault, "description": "The permission mode that the plan is carried out in.",
			},
		},
	})
	if err != nil {
		panic(err) // texts always encode
	}
	return b
}()

// planPreview bounds how much of a plan its question shows; the whole of it is in
// the arguments or behind their reference.
const planPreview = 4000

// mayPlan reports whether a turn can hand its plan over: it is in mode plan, and there
// is a person who can be asked. A child works on what its parent's plan says.
func (l *Loop) mayPlan(mode string, t *state.Thread, turn *state.Turn) bool {
	if l.opt.NobodyToAsk || (t != nil && t.SubagentID != "") {
		return false
	}
	if mode == permission.ModePlan {
		return true
	}
	// The mode may have been changed while the plan waited for its answer.
	if turn != nil {
		for _, c := range turn.Tools {
			if toolkind.Of(c.ToolName) == toolkind.PresentPlan && c.Status == state.ToolRequested && c.ActionID != "" {
				return true
			}
		}
	}
	return false
}

// leavePlan ends present_plan, which was approved: the session, or the turn where
// the turn alone was in mode plan, goes on in the mode that the approver chose, with
// the tools that it offers.
func (r *toolRun) leavePlan(tx *session.Tx) {
	t := tx.State.Thread(r.k.thread)
	turn := t.Active
	a := tx.State.Actions.Find(r.call.ActionID)
	if a == nil {
		r.emitFailed(tx, tool.Errorf(tool.Denied, "the plan was not approved in time"))
		return
	}
	mode := r.l.modeOf(tx.State, t, turn)
	if mode == permission.ModePlan {
		mode = chosenMode(a)
		tx.Emit(r.planLeft(tx, t, mode, a))
		tx.Emit(event.Event{Type: event.TypeToolCatalogResolved, Scope: catalogueScope(t), Payload: r.offerTools(tx, t, mode)})
	}
	says := "The plan was approved"
	if a.DecisionReason != "" {
		says += ": " + a.DecisionReason
	}
	says += "\nThe permission mode is " + mode + " now. Carry the plan out."
	result, _ := json.Marshal(map[string]any{"approved": true, "permissionMode": mode}) //nolint:errchkjson // plain values
	scope := r.scope
	scope.ActionID = a.ActionID
	tx.Emit(event.Event{Type: event.TypeToolResult, Scope: scope, Payload: &event.ToolResult{
		ToolName: string(toolkind.PresentPlan), Status: "ok", Preview: says, StructuredContent: result, DurationMs: a.ResolvedAt.Sub(a.CreatedAt).Milliseconds(),
		Links: linksOf(r.links),
	}})
}

// chosenMode is the mode that the approver chose.
func chosenMode(a *state.Action) string {
	var answer struct {
		PermissionMode string `json:"permissionMode"`
	}
	if len(a.Payload) == 0 || json.Unmarshal(a.Payload, &answer) != nil || answer.PermissionMode == "" {
		return permission.ModeDefault
	}
	return answer.PermissionMode
}

// planLeft is the fact that the mode plan ended: of the turn if its options asked for
// it, of the session otherwise, whose rules stay.
func (r *toolRun) planLeft(tx *session.Tx, t *state.Thread, mode string, a *state.Action) event.Event {
	scope := r.scope
	scope.ActionID = a.ActionID
	p := &event.PolicyChanged{
		Source: "session", Mode: mode, Rules: []event.PolicyRule{}, Reason: "the plan was approved", ChangedBy: a.ResolvedBy, ApprovalActionID: a.ActionID,
	}
	if optionsOf(t.Active).PermissionMode != "" || t.PermissionMode != "" {
		p.Source = "turn"
	} else {
		for _, old := range tx.State.Permission.Policies {
			if old.Source == "session" {
				p.Rules = append(p.Rules, old.Rules...)
			}
		}
	}
	return event.Event{Type: event.TypePolicyChanged, Scope: scope, Payload: p}
}

// catalogueScope is the ids of the fact that a turn is offered other tools.
func catalogueScope(t *state.Thread) event.Scope {
	scope := scopeOf(t, t.Active)
	scope.StepID, scope.ToolCallID = event.NotApplicable, event.NotApplicable
	return scope
}

// offerTools is what the model is offered from now on.
func (r *toolRun) offerTools(tx *session.Tx, t *state.Thread, mode string) *event.ToolCatalogResolved {
	sel := r.l.selectionIn(mode, tx.State, t, t.Active)
	sel.Planning = false
	p := preparation{inventory: r.l.opt.Tools.Resolve(sel)}
	return p.catalogue(tx, t)
}

// planRefusal is the error of a plan that was not approved. The mode stays.
func planRefusal(a *state.Action) *tool.Error {
	err := tool.Errorf(tool.Denied, "the plan was not approved")
	switch {
	case a.Status == state.ActionExpired:
		err.Message = "the plan was not decided on in time"
	case a.DecisionReason != "":
		err.Message += ": " + a.DecisionReason
	}
	err.Advice = "You are still in plan mode. Change the plan and present it again, or answer without it."
	return err
}
