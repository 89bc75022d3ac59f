package loop

import (
	"encoding/json"
	"fmt"
	"time"

	"agentd/event"
	"agentd/permission"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
)

// credentialAction is the type of the action that asks for a credential.
const credentialAction = "credential"

// credentialsOf are the references that people gave in a session, by what they are
// for.
func credentialsOf(s *state.Session) map[string]string {
	if len(s.Credentials) == 0 {
		return nil
	}
	out := make(map[string]string, len(s.Credentials))
	for _, c := range s.Credentials {
		out[c.Name] = c.Reference
	}
	return out
}

// askCredential asks which credential a call that was refused for want of one is to
// use. It reports false where no one can be asked; then the error says so.
func (r *toolRun) askCredential(tx *session.Tx, t *state.Thread, failed *tool.Error) bool {
	need := failed.Credential
	if need == nil || len(need.References) == 0 {
		return false
	}
	mode := r.l.modeOf(tx.State, t, t.Active)
	switch {
	case r.l.opt.NobodyToAsk:
		failed.Message += "; no one can be asked for one"
		return false
	case mode == permission.ModeNever || mode == permission.ModePlan:
		failed.Message += "; mode " + mode + " can't ask for one"
		return false
	}
	schema, err := json.Marshal(map[string]any{"type": "string", "enum": need.References})
	if err != nil {
		return false // texts always encode
	}
	scope := r.scope
	scope.ActionID = tx.NewID(event.PrefixAction)
	about, _ := json.Marshal(map[string]string{"tool": r.request.ToolName, "credential": need.Name}) //nolint:errchkjson // plain values
	a := &event.ActionRequired{
		ActionType: credentialAction, CredentialRef: need.Name, ToolName: r.request.ToolName, Schema: schema, Scope: about,
		Prompt:    fmt.Sprintf("Which credential is to be used for %s? Answer with its reference, never with the credential itself.", need.For),
		Reason:    r.l.redactText(failed.Message),
		Decisions: []string{"submit", "cancel"},
	}
	a.SafeArgs, a.InputRef = r.safeArgs(tx)
	if after := r.l.opt.ActionTimeout; after > 0 {
		a.ExpiresAt, a.OnTimeout = tx.Now().Add(after), "cancel"
	}
	tx.Emit(event.Event{Type: event.TypeActionRequired, Scope: scope, Payload: a})
	return true
}

// byRule is the source of a decision that an explicit rule took.
const byRule = "rule"

// wasRevoked reports whether a call that waited for an answer is denied by now, and
// records it. Who gave a credential was not asked for the permission, so whatever
// denies it counts; who allowed the call has the last word, except over a rule that
// denies it: such rules hold in any case.
func (r *toolRun) wasRevoked(tx *session.Tx, t *state.Thread) bool {
	a := tx.State.Actions.Find(r.call.ActionID)
	if a == nil {
		return false
	}
	q := r.permissionQuestion(tx, t)
	d := permission.Decide(q)
	if a.ActionType == "sandbox_escape" && !approvedStill(a, q, &d) {
		err := tool.Errorf(tool.Denied, "a file that the command names changed after it was approved to run outside the sandbox")
		err.Advice = "Ask again: the approval was for the content that the person saw."
		r.emitFailed(tx, err)
		return true
	}
	if d.Decision != permission.Deny || d.CannotAsk || a.ActionType != credentialAction && d.DecisionSource != byRule {
		return false
	}
	r.emitDecision(tx, &d)
	return true
}

// approvedStill says that the approval to leave the sandbox is for what would run now:
// the same line, and the same content of the files that it names. The call may have
// been asked about before it ran, or after it hit the sandbox.
func approvedStill(a *state.Action, q permission.Question, now *permission.Decision) bool {
	approved, ok := permission.GrantFrom("", a.ToolName, a.Scope, time.Time{})
	if !ok || approved.Key == now.Key {
		return ok
	}
	q.Outside = true
	return approved.Key == permission.Decide(q).Key
}

// offerAnew offers the turn the tools that came with a credential.
func (r *toolRun) offerAnew(tx *session.Tx, t *state.Thread) {
	if a := tx.State.Actions.Find(r.call.ActionID); a == nil || a.ActionType != credentialAction || t.Inventory == nil {
		return
	}
	p := preparation{inventory: r.l.opt.Tools.Resolve(r.l.toolSelection(tx.State, t, t.Active))}
	if p.inventory.Digest != t.Inventory.Digest {
		tx.Emit(event.Event{Type: event.TypeToolCatalogResolved, Scope: catalogueScope(t), Payload: p.catalogue(tx, t)})
	}
}

// noCredential is the error of a call that got no credential.
func noCredential(a *state.Action) *tool.Error {
	err := tool.Errorf(tool.Unavailable, "no credential was given for %s", a.CredentialRef)
	switch {
	case a.Status == state.ActionExpired:
		err.Message = "no credential was chosen for " + a.CredentialRef + " in time"
	case a.DecisionReason != "":
		err.Message += ": " + a.DecisionReason
	}
	err.Advice = "Go on without this tool, or say what it is needed for."
	return err
}
