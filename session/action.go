package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

func (r *request) respondAction(ctx context.Context, p *command.RespondAction) (*command.RespondActionResult, error) {
	rec, err := r.findAction(ctx, p.ActionID)
	if err != nil {
		return nil, err
	}
	return mutate(ctx, r, rec.Action.SessionID, false, func(tx *Tx) (*command.RespondActionResult, error) {
		a := tx.State.Actions.Find(p.ActionID)
		if a == nil {
			a = rec.Action // resolved long ago
		}
		if a.Status != state.ActionPending {
			return checkSameAnswer(a, p, r.m.redact(p.Payload))
		}
		if len(a.Decisions) > 0 && !slices.Contains(a.Decisions, p.Decision) {
			return nil, fault.Param("decision", "%q is not one of the decisions that action %s offers: %v", p.Decision, a.ActionID, a.Decisions)
		}
		if err := r.checkChannel(tx.State, a, p.ChannelID); err != nil {
			return nil, err
		}
		if err := r.checkAnswer(a, p); err != nil {
			return nil, err
		}
		r.resolveAction(tx, a, p, answerSource(p))
		res := &command.RespondActionResult{ActionID: a.ActionID, Status: state.ActionResolved}
		if p.Scope == scopeProject {
			var err error
			if res.KeptRules, err = r.keepProjectRules(tx, a); err != nil {
				return nil, err
			}
		}
		return res, nil
	})
}

// resolvePermission answers a request for permission as the host's policy.
func (r *request) resolvePermission(ctx context.Context, p *command.ResolvePermission) (*command.RespondActionResult, error) {
	rec, err := r.findAction(ctx, p.ActionID)
	if err != nil {
		return nil, err
	}
	answer := &command.RespondAction{ActionID: p.ActionID, Decision: p.Decision, Reason: p.Reason, ChannelID: p.ChannelID}
	return mutate(ctx, r, rec.Action.SessionID, false, func(tx *Tx) (*command.RespondActionResult, error) {
		a := tx.State.Actions.Find(p.ActionID)
		if a == nil {
			a = rec.Action // resolved long ago
		}
		switch {
		case !state.AsksPermission(a.ActionType):
			return nil, fault.New(fault.Conflict, "action %s asks for %s, not for a permission; use respond_action", a.ActionID, a.ActionType)
		case a.Status != state.ActionPending && a.Decision == p.Decision && a.DecisionSource == "host_policy":
			return &command.RespondActionResult{ActionID: a.ActionID, Status: a.Status}, nil
		case a.Status != state.ActionPending:
			return nil, fault.New(fault.Conflict, "action %s is already %s: %s (%s)", a.ActionID, a.Status, a.Decision, a.DecisionSource)
		}
		if err := r.checkChannel(tx.State, a, p.ChannelID); err != nil {
			return nil, err
		}
		r.resolveAction(tx, a, answer, "host_policy")
		return &command.RespondActionResult{ActionID: a.ActionID, Status: state.ActionResolved}, nil
	})
}

// checkAnswer checks a submitted answer against the action's schema.
func (r *request) checkAnswer(a *state.Action, p *command.RespondAction) error {
	if err := checkProjectScope(a, p); err != nil {
		return err
	}
	switch {
	case a.OnceOnly && p.Scope == "session":
		return fault.Param("scope", "action %s can be approved once, not for the session: what it runs may change between two calls", a.ActionID)
	case a.ActionType == "credential" && a.CredentialRef != "":
		return checkReference(a, p)
	case a.ActionType == planApproval && p.Decision == "allow":
		return checkChoice(a, p)
	}
	if p.Decision != "submit" || len(a.Schema) == 0 || r.m.opt.CheckAnswer == nil {
		return nil
	}
	if len(p.Payload) == 0 {
		return fault.Param("payload", "is missing: action %s needs an answer that matches its schema", a.ActionID)
	}
	if err := r.m.opt.CheckAnswer(a.Schema, p.Payload); err != nil {
		return fault.Within("payload", "the action's schema", err)
	}
	return nil
}

// checkReference checks the answer to the request for a credential against the
// references that the action offers. What isn't one of them may be the credential
// itself, so it is neither stored nor repeated.
func checkReference(a *state.Action, p *command.RespondAction) error {
	if p.Decision != "submit" {
		if len(p.Payload) > 0 {
			return fault.Param("payload", "is only allowed with decision submit")
		}
		return nil
	}
	var offered struct {
		Enum []string `json:"enum"`
	}
	var ref string
	if json.Unmarshal(a.Schema, &offered) != nil || json.Unmarshal(p.Payload, &ref) != nil || !slices.Contains(offered.Enum, ref) {
		return fault.Param("payload", "must be a credential reference, one of %s; never send the credential itself", strings.Join(offered.Enum, ", "))
	}
	return nil
}

// planApproval is the type of the action that asks whether a plan is approved.
const planApproval = "plan_approval"

// planChoice is what may come with the approval of a plan.
type planChoice struct {
	PermissionMode string `json:"permissionMode"`
}

// checkChoice checks the mode that an approver chose against those that the action
// offers. It is done here whether or not a schema checker is configured: what
// the agent may do next hangs on it.
func checkChoice(a *state.Action, p *command.RespondAction) error {
	if len(p.Payload) == 0 {
		return nil
	}
	var offered struct {
		Properties struct {
			PermissionMode struct {
				Enum []string `json:"enum"`
			} `json:"permissionMode"`
		} `json:"properties"`
	}
	var chosen planChoice
	d := json.NewDecoder(bytes.NewReader(p.Payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&chosen); err != nil {
		return fault.Param("payload", "must be an object with permissionMode and nothing else: %s", err)
	}
	if err := json.Unmarshal(a.Schema, &offered); err != nil {
		return fault.Wrap(fault.Internal, err, "the schema of action %s can't be read", a.ActionID)
	}
	modes := offered.Properties.PermissionMode.Enum
	if chosen.PermissionMode != "" && !slices.Contains(modes, chosen.PermissionMode) {
		return fault.Param("payload.permissionMode", "%q is not one of %s", chosen.PermissionMode, strings.Join(modes, ", "))
	}
	return nil
}

// planMode is the permission mode that an approved plan is carried out in.
func planMode(a *state.Action, p *command.RespondAction) string {
	if a.ActionType != planApproval || p.Decision != "allow" {
		return ""
	}
	var chosen planChoice
	if json.Unmarshal(p.Payload, &chosen) != nil || chosen.PermissionMode == "" {
		return "default"
	}
	return chosen.PermissionMode
}

// resolveAction emits the answer to a pending action and, where a permission was asked
// for, what follows for it.
func (r *request) resolveAction(tx *Tx, a *state.Action, p *command.RespondAction, source string) {
	payload, reason := r.m.redact(p.Payload), r.m.redactText(p.Reason)
	out := &event.ActionResolved{
		Decision: p.Decision, Status: "resolved", DecisionSource: source, ActionType: a.ActionType,
		Scope: p.Scope, Reason: reason, ResolvedBy: r.actor(),
	}
	if len(payload) > r.m.opt.InlineBytes {
		out.PayloadRef = tx.Blob(payload, "application/json")
	} else {
		out.Payload = payload
	}
	scope := event.Scope{
		ThreadID: a.ThreadID, TurnID: a.TurnID, TaskID: a.TaskID, RunID: tx.State.RunOf(a),
		ActionID: a.ActionID, StepID: a.StepID, ToolCallID: a.ToolCallID, SubagentID: a.SubagentID, ChannelID: answerThrough(a, p),
	}
	forwardToPeer(tx, a, scope, p.Peer)
	tx.Emit(event.Event{Type: event.TypeActionResolved, Scope: scope, Payload: out})
	r.stepOfPeer(tx, scope, p.Peer, "the peer answered")
	if !state.AsksPermission(a.ActionType) {
		return
	}
	resolved := &event.PermissionResolved{
		Decision: p.Decision, DecisionSource: source, DecisionReason: reason, ActionID: a.ActionID, ToolName: a.ToolName,
		Scope: reasonOr(p.Scope, "once"), ResolvedBy: r.actor(), ChannelID: scope.ChannelID, PermissionMode: planMode(a, p),
	}
	if a.ActionType == planApproval {
		resolved.Scope = "once" // of this plan, whatever comes after it
	}
	if p.Decision == "submit" {
		resolved.Decision = "allow"
	}
	if resolved.Decision == "allow" && resolved.Scope == "session" {
		resolved.GrantID = tx.NewID(event.PrefixGrant)
		if p.ExpiresInMs > 0 {
			resolved.ExpiresAt = tx.Now().Add(time.Duration(p.ExpiresInMs) * time.Millisecond)
		}
	}
	tx.Emit(event.Event{Type: event.TypePermissionResolved, Scope: scope, Payload: resolved})
}

// checkSameAnswer tells the same answer, which is fine, from another one.
func checkSameAnswer(a *state.Action, p *command.RespondAction, payload event.Raw) (*command.RespondActionResult, error) {
	kept := p.Scope != scopeProject || a.GrantScope == scopeProject
	if kept && a.Decision == p.Decision && a.DecisionSource == answerSource(p) && (a.PayloadRef != "" || sameJSON(a.Payload, payload)) {
		return &command.RespondActionResult{ActionID: a.ActionID, Status: a.Status}, nil
	}
	return nil, fault.New(fault.Conflict, "action %s is already %s: %s (%s)", a.ActionID, a.Status, a.Decision, a.DecisionSource)
}

// sameJSON compares two values without regard to white space.
func sameJSON(a, b event.Raw) bool {
	compact := func(v event.Raw) []byte {
		var buf bytes.Buffer
		if len(v) > 0 && json.Compact(&buf, v) != nil {
			return v
		}
		return buf.Bytes()
	}
	return bytes.Equal(compact(a), compact(b))
}

// findAction returns an action's record from the index, if the caller may see it.
func (r *request) findAction(ctx context.Context, actionID string) (*actionRecord, error) {
	v, err := r.m.opt.Store.Get(ctx, kindAction, actionID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "there is no action %s", actionID)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	var rec actionRecord
	if err := json.Unmarshal(v, &rec); err != nil || rec.Action == nil {
		return nil, storeFault(fmt.Errorf("%w: action %s in the index", store.ErrCorrupt, actionID))
	}
	if !r.caller.Sees(rec.Account) {
		return nil, fault.New(fault.NotFound, "there is no action %s", actionID)
	}
	return &rec, nil
}

func (r *request) listActions(ctx context.Context, p *command.ListActions) (*command.ListActionsResult, error) {
	kind := ActionCards
	if p.Status == state.ActionPending {
		kind = PendingCards // the few that are pending, not all that ever were
	}
	page, err := r.m.ListCards(ctx, r.caller, &CardQuery{
		Kind: kind, Page: &p.Page, Narrow: &p.Narrowing, SessionID: p.SessionID, Status: p.Status, Type: p.Type, Tool: p.Tool, Sort: p.Sort,
	})
	if err != nil {
		return nil, err
	}
	res := &command.ListActionsResult{Actions: []event.Raw{}, Total: page.Total, NextCursor: page.Next()}
	for _, c := range page.Things() {
		rec, err := r.findAction(ctx, c.ID)
		if fault.KindOf(err) == fault.NotFound {
			continue // its session was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(rec.Action)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "an action could not be encoded")
		}
		res.Actions = append(res.Actions, v)
	}
	return res, nil
}
