package work

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// workerPeer is the kind of worker that another agent is. Its attempts are like
// those of an external worker, but the runtime itself speaks to it.
const workerPeer = "peer"

// Why a task waits for its peer, in the words of this runtime.
const (
	byPeerDown    = "peer_unreachable"
	byPeerUnknown = "peer_unknown"
	byReconciling = "peer_reconciling"
)

// Peers are the other agents that work can be given to. Their client
// implements it, and drives get_peer_work, link_peer_task and update_peer_task.
type Peers interface {
	// Check refuses a peer that nothing can be given to.
	Check(peer string) error
	// Wake says that a task of a peer may have changed. It returns at once.
	Wake(sessionID, taskID string)
}

// checkPeer refuses a peer that nothing can be given to.
func (w *Work) checkPeer(peer string) error {
	if peer == "" || w.opt.Peers == nil {
		return nil
	}
	if err := w.opt.Peers.Check(peer); err != nil {
		return fault.Param("peer", "%s", err)
	}
	return nil
}

// workerKind is who works on a task that is to be.
func workerKind(p *command.CreateTask) string {
	if p.Peer != "" {
		return workerPeer
	}
	return orElse(p.Worker, "runtime")
}

// messageOfRun is the id of the message that gives an attempt to a peer: the same
// whenever it is asked for.
func messageOfRun(runID string) string { return "agentd-" + runID }

// messageOfAnswer is the id of the message that carries an answer to a peer.
func messageOfAnswer(actionID string) string { return "agentd-" + actionID }

// sentToPeer reports whether an attempt's message was about to be sent.
func sentToPeer(t *state.Task, runID string) bool {
	return slices.ContainsFunc(t.Delegations, func(d state.Delegation) bool {
		return d.To == workerPeer && d.RemoteMessageID == messageOfRun(runID)
	})
}

// atPeer reports whether a peer may be at work on an attempt.
func (e *edit) atPeer(a *state.Attempt) bool {
	return e.t.WorkerKind == workerPeer && sentToPeer(&e.t, a.RunID)
}

// heldByPeer reports whether the task was given up on because of its peer.
func (e *edit) heldByPeer() bool {
	return e.t.Status == state.TaskBlocked && e.t.WorkerKind == workerPeer && underWay(&e.t) != nil &&
		(e.t.NativeStatus == byPeerDown || e.t.NativeStatus == byPeerUnknown)
}

// peerLink returns what joins an attempt to a peer's task, or nil.
func peerLink(st *state.Session, taskID, runID string) *state.PeerTask {
	for _, p := range slices.Backward(st.Channels.PeersOf(taskID)) {
		if p.RunID == runID && p.Direction == "outbound" {
			return p
		}
	}
	return nil
}

// askedBy is the mark of an action that a peer asked for.
type askedBy struct {
	Peer         string `json:"peer"`
	RunID        string `json:"runId"`
	RemoteTaskID string `json:"remoteTaskId,omitempty"`
	// MessageID is the peer's message that asks.
	MessageID string `json:"messageId,omitempty"`
}

// ofRun reports whether an action is a peer's question about an attempt.
func ofRun(a *state.Action, taskID, runID string) bool {
	return a.TaskID == taskID && markOf(a).RunID == runID
}

// markOf is the mark of an action; empty if no peer asked for it.
func markOf(a *state.Action) askedBy {
	var by askedBy
	if len(a.Scope) == 0 || json.Unmarshal(a.Scope, &by) != nil || by.Peer == "" {
		return askedBy{}
	}
	return by
}

// lastAnswered is the peer's question about an attempt that was answered last, or
// nil: also if it was taken back since.
func lastAnswered(st *state.Session, taskID, runID string) *state.Action {
	for _, a := range slices.Backward(st.Actions.Recent) {
		if !ofRun(a, taskID, runID) {
			continue
		}
		if a.DecisionSource == "runtime" {
			return nil
		}
		return a
	}
	return nil
}

func (w *Work) getPeerWork(ctx context.Context, caller command.Caller, p *command.GetPeerWork) (*command.PeerWork, error) {
	f, err := w.findVisibleTask(ctx, caller, p.TaskID)
	if err != nil {
		return nil, err
	}
	if f.task.Peer == "" {
		return nil, conflict(f.task, "it is not delegated to a peer")
	}
	var out *command.PeerWork
	err = w.m.ViewAs(ctx, caller, f.sessionID, func(st *state.Session) error {
		t := st.Tasks.Find(p.TaskID)
		if t == nil {
			t = f.task
		}
		out, err = peerWork(st, t)
		return err
	})
	return out, err
}

// peerWork is what is known of a delegated task.
func peerWork(st *state.Session, t *state.Task) (*command.PeerWork, error) {
	out := &command.PeerWork{
		TaskID: t.TaskID, SessionID: st.SessionID, Account: st.Account, Peer: t.Peer, Status: t.Status, NativeStatus: t.NativeStatus,
	}
	for i := range t.Artifacts {
		out.Artifacts = append(out.Artifacts, t.Artifacts[i].ArtifactID)
	}
	a := currentAttempt(t)
	if a == nil {
		return out, nil
	}
	out.RunID, out.Active, out.StartedAt = a.RunID, a.EndedAt.IsZero() && t.WorkerKind == workerPeer, a.StartedAt
	out.MessageID, out.Sent, out.InputRef = messageOfRun(a.RunID), sentToPeer(t, a.RunID), t.ObjectiveRef
	if out.InputRef == "" {
		var err error
		if out.Input, err = textParts(taskPrompt(t, false)); err != nil {
			return nil, err
		}
	}
	link := peerLink(st, t.TaskID, a.RunID)
	if link == nil {
		return out, nil
	}
	out.Link = &command.PeerLink{
		RemoteTaskID: link.RemoteTaskID, RemoteContextID: link.RemoteContextID, DeliveryMechanism: link.DeliveryMechanism,
		Status: link.Status, RemoteStatus: link.RemoteStatus, LastMessageID: link.LastMessageID, Recovery: link.Recovery(),
	}
	out.Answer = unsentAnswer(st, t.TaskID, a.RunID, link)
	return out, nil
}

// unsentAnswer is the answer to a peer's last question, unless it waits for one or
// was told.
func unsentAnswer(st *state.Session, taskID, runID string, link *state.PeerTask) *command.PeerAnswer {
	if slices.ContainsFunc(st.Actions.Pending, func(a *state.Action) bool { return ofRun(a, taskID, runID) }) {
		return nil
	}
	a := lastAnswered(st, taskID, runID)
	if a == nil || link.LastMessageID == messageOfAnswer(a.ActionID) {
		return nil
	}
	return &command.PeerAnswer{
		ActionID: a.ActionID, MessageID: messageOfAnswer(a.ActionID), Decision: a.Decision, Payload: a.Payload, PayloadRef: a.PayloadRef,
		Reason: a.DecisionReason, Question: a.SafeArgs,
	}
}

// peerRun returns the attempt that a report about a peer's work is about.
func (e *edit) peerRun(runID string) (*state.Attempt, error) {
	if e.t.Peer == "" {
		return nil, conflict(&e.t, "it is not delegated to a peer")
	}
	if a := attemptOfRun(&e.t, runID); a != nil {
		return a, nil
	}
	return nil, fault.New(fault.NotFound, "task %s has no run %s", e.t.TaskID, runID)
}

func (w *Work) linkPeerTask(ctx context.Context, caller command.Caller, p *command.LinkPeerTask) (*command.TaskResult, error) {
	return w.changeTask(ctx, caller, p, p.TaskID, func(e *edit) error {
		a, err := e.peerRun(p.RunID)
		if err != nil {
			return err
		}
		if p.RemoteTaskID == "" {
			return e.aboutToSend(a, p)
		}
		e.linkPeer(a, p)
		return nil
	})
}

// aboutToSend records that an attempt's message is about to go to the peer. Once the
// task is being cancelled it is too late for that.
func (e *edit) aboutToSend(a *state.Attempt, p *command.LinkPeerTask) error {
	switch {
	case !a.EndedAt.IsZero():
		return conflict(&e.t, "run %s is %s", a.RunID, a.Status)
	case e.t.Status == state.TaskCancelling:
		return conflict(&e.t, "nothing more can be sent")
	case p.RemoteMessageID != messageOfRun(a.RunID):
		return fault.Param("remoteMessageId", "is not the message of run %s", a.RunID)
	case sentToPeer(&e.t, a.RunID):
		return nil
	}
	e.emitScoped(event.TypeTaskDelegated, e.attemptScope(a), &event.TaskDelegated{
		To: workerPeer, TargetID: e.t.Peer, NativeProtocol: p.NativeProtocol, RemoteMessageID: p.RemoteMessageID, Reason: p.Reason,
	})
	return nil
}

// linkPeer joins an attempt to a peer's task; again, if the peer is followed in
// another way.
func (e *edit) linkPeer(a *state.Attempt, p *command.LinkPeerTask) {
	have := peerLink(e.tx.State, e.t.TaskID, a.RunID)
	if have != nil && have.RemoteTaskID == p.RemoteTaskID && have.DeliveryMechanism == p.DeliveryMechanism {
		return
	}
	linked := &event.PeerTaskLinked{
		NativeProtocol: p.NativeProtocol, Direction: "outbound", RemoteTaskID: p.RemoteTaskID, RemoteContextID: p.RemoteContextID,
		RemoteAgentRef: p.RemoteAgentRef, DeliveryMechanism: p.DeliveryMechanism, RemoteMessageID: p.RemoteMessageID,
	}
	switch {
	case len(p.Card) > 0:
		linked.AgentCardRef = e.tx.Blob(p.Card, "application/json")
	case have != nil:
		linked.AgentCardRef = have.AgentCardRef
	}
	e.emitScoped(event.TypeChannelPeerTaskLinked, e.peerScope(a, p.ChannelID), linked)
}

func (e *edit) peerScope(a *state.Attempt, channelID string) event.Scope {
	s := e.attemptScope(a)
	s.ChannelID = channelID
	return s
}

// cleanText takes secrets out of a text.
func (w *Work) cleanText(s string) string {
	if s == "" || w.opt.Redact == nil {
		return s
	}
	b, err := json.Marshal(s)
	if err != nil {
		return s
	}
	var out string
	if json.Unmarshal(w.opt.Redact(b), &out) != nil {
		return "(removed)"
	}
	return out
}

// cleanContent takes secrets out of content that is text.
func (w *Work) cleanContent(content []byte, mediaType string) []byte {
	if strings.HasPrefix(mediaType, "text/") {
		return []byte(w.cleanText(string(content)))
	}
	if mediaType == "application/json" && w.opt.Redact != nil && json.Valid(content) {
		return w.opt.Redact(content)
	}
	return content
}
