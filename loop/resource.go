package loop

import (
	"agentd/event"
	"agentd/internal/clip"
	"agentd/model"
	"agentd/session"
	"agentd/state"
)

// askResume asks a person to mend what keeps the turn's model from answering, and to say
// when that is done. The turn waits, with all that it has done so far.
func (l *Loop) askResume(tx *session.Tx, t *state.Thread) {
	c := t.Active.Call
	scope := scopeOf(t, t.Active)
	scope.ActionID, scope.ModelRequestID = tx.NewID(event.PrefixAction), c.ModelRequestID
	mend := "check the key of provider " + c.Provider
	if c.ErrorCategory == model.RateLimited {
		mend = "raise the quota of the account at provider " + c.Provider + ", or wait until it is renewed"
	}
	p := &event.ActionRequired{
		ActionType: state.ActionResume, Decisions: permissionAnswers(), Reason: c.ErrorCategory + ": " + c.Message,
		Prompt: "Ask " + c.Provider + "/" + c.Model + " again? It refused: " + clip.Text(c.Message, 500) + ". First " + mend + "; to deny ends the turn.",
	}
	if after := l.opt.ActionTimeout; after > 0 {
		p.ExpiresAt, p.OnTimeout = tx.Now().Add(after), "deny"
	}
	tx.Emit(event.Event{Type: event.TypeActionRequired, Scope: scope, Payload: p})
	scope.ActionID = ""
	emitRunStatus(tx, scope, "waiting_resource", "the model can't be used for now", mend)
}
