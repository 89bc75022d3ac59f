package work

import (
	"agentd/event"
	"agentd/state"
)

// permissionAction is the type of the action for a peer's request for permission.
const permissionAction = "tool_permission"

// wantsPermission reports whether the peer asks to be allowed something.
func (r *peerReport) wantsPermission() bool {
	return r.p.Question != nil && r.p.Question.Permission != ""
}

// bridgeRequest emits that a peer's request for permission crossed the channel to us:
// the decision is made here.
func (r *peerReport) bridgeRequest(actionID, stepID, target string) {
	scope := r.actionScope(actionID, stepID)
	r.e.emitScoped(event.TypePermissionRequested, scope, &event.PermissionRequested{
		ToolName: target, ActionID: actionID, Reason: "the peer " + r.e.t.Peer + " asks", AskedOf: "human",
	})
	scope.ChannelID = r.p.ChannelID
	r.e.emitScoped(event.TypeChannelPermissionForwarded, scope, &event.ChannelPermissionForwarded{
		ActionID: actionID, RequestedBy: &event.Actor{Kind: "agent", ID: r.e.t.Peer}, Target: target, FinalDecider: "local",
	})
}

// bridgeAnswer emits that the answer to a peer's request went back, with the report
// that the peer has it.
func (r *peerReport) bridgeAnswer() {
	a := lastAnswered(r.e.tx.State, r.e.t.TaskID, r.a.RunID)
	if a == nil || a.ActionType != permissionAction || r.p.RemoteMessageID != messageOfAnswer(a.ActionID) {
		return
	}
	scope := r.actionScope(a.ActionID, a.StepID)
	scope.ChannelID = r.p.ChannelID
	p := &event.ChannelPermissionReturned{
		ActionID: a.ActionID, Decision: a.Decision, AnswerSource: "user", DecidedBy: a.ResolvedBy, FinalDecider: "local", Reason: a.DecisionReason,
	}
	switch {
	case a.Status == state.ActionExpired:
		p.Decision, p.AnswerSource = "timeout", "timeout"
	case a.DecisionSource == "host_policy":
		p.AnswerSource = "policy"
	}
	if p.Decision == "submit" {
		p.Decision = "allow"
	}
	r.e.emitScoped(event.TypeChannelPermissionReturned, scope, p)
}
