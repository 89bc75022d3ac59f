package work

import (
	"context"
	"encoding/json"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// factOfPeer is one row of what a peer's status means for the local task.
type factOfPeer struct {
	// fact and status are what the task becomes while its attempt goes on.
	fact   event.Type
	status string
	native string
	// asks is the type of the action that the task then waits for.
	asks string
	// ends is the attempt's status if the peer's ends it, category why.
	ends, category string
}

// peerFacts maps how a task stands at a peer to how it stands here. Unreachable and
// unknown end nothing by themselves.
var peerFacts = map[string]factOfPeer{
	"running":                {fact: event.TypeTaskResumed, status: state.TaskRunning},
	"idle":                   {fact: event.TypeTaskResumed, status: state.TaskRunning},
	"waiting_input":          {fact: event.TypeTaskWaiting, status: state.TaskWaitingInput, asks: "structured_input"},
	"waiting_permission":     {fact: event.TypeTaskWaiting, status: state.TaskWaitingPermission, asks: "credential"},
	"completed_unreconciled": {fact: event.TypeTaskWaiting, status: state.TaskWaitingResource, native: byReconciling},
	"unreachable":            {fact: event.TypeTaskWaiting, status: state.TaskWaitingResource, native: byPeerDown},
	"unknown":                {fact: event.TypeTaskBlocked, status: state.TaskBlocked, native: byPeerUnknown},
	"completed":              {ends: state.AttemptCompleted},
	"failed":                 {ends: state.AttemptFailed, category: "peer_failed"},
	"rejected":               {ends: state.AttemptFailed, category: "peer_rejected"},
	"cancelled":              {ends: state.AttemptCancelled, category: "interrupted"},
	"missing":                {ends: state.AttemptUnknown, category: state.TaskLost},
}

// peerReport is a report about a peer's work that is being decided on.
type peerReport struct {
	w    *Work
	e    *edit
	a    *state.Attempt
	link *state.PeerTask
	p    *command.UpdatePeerTask
	// reason and message are the report's, without secrets.
	reason  string
	message event.Raw
}

func (w *Work) updatePeerTask(ctx context.Context, caller command.Caller, p *command.UpdatePeerTask) (*command.TaskResult, error) {
	return w.changeTask(ctx, caller, p, p.TaskID, func(e *edit) error {
		a, err := e.peerRun(p.RunID)
		if err != nil {
			return err
		}
		r := &peerReport{w: w, e: e, a: a, link: peerLink(e.tx.State, p.TaskID, p.RunID), p: p, reason: w.cleanText(p.Reason)}
		if len(p.Message) > 0 && len(p.Message) <= 4*factBytes {
			r.message = w.m.Redact(p.Message)
		}
		if r.answered() {
			return nil // it goes on asking until it has the answer
		}
		r.emitUpdate()
		if !a.EndedAt.IsZero() {
			return nil // the answer is no longer needed
		}
		return r.follow()
	})
}

// emitUpdate emits what the peer delivered and how the task stands there, if that is new.
func (r *peerReport) emitUpdate() {
	if r.link != nil && r.link.Recovery() == "settled" {
		return // a peer that repeats its last word
	}
	refs := r.store()
	if r.link == nil {
		return
	}
	settled := r.settles()
	same := r.link.Status == r.p.Status && r.link.Reason == r.reason && len(refs) == 0 && !settled &&
		(r.p.RemoteStatus == "" || r.p.RemoteStatus == r.link.RemoteStatus) && (r.p.RemoteMessageID == "" || r.p.RemoteMessageID == r.link.LastMessageID)
	if same || !r.link.EndedAt.IsZero() && r.link.Status == r.p.Status {
		return
	}
	r.e.emitScoped(event.TypeChannelPeerTaskUpdated, r.e.peerScope(r.a, r.p.ChannelID), &event.PeerTaskUpdated{
		NativeProtocol: r.link.NativeProtocol, Direction: "outbound", RemoteTaskID: r.link.RemoteTaskID, RemoteContextID: r.link.RemoteContextID,
		RemoteStatus: orElse(orElse(r.p.RemoteStatus, r.link.RemoteStatus), state.Unknown), Status: r.p.Status, Reason: r.reason,
		RemoteArtifactRefs: refs, RemoteMessageID: r.p.RemoteMessageID, Message: r.message, Settled: settled,
	})
	r.bridgeAnswer()
}

// answered reports whether the peer asks what was answered here, and has the answer
// not yet, or didn't get to it.
func (r *peerReport) answered() bool {
	if peerFacts[r.p.Status].asks == "" || r.link == nil {
		return false
	}
	if unsentAnswer(r.e.tx.State, r.e.t.TaskID, r.a.RunID, r.link) != nil {
		return true
	}
	a := lastAnswered(r.e.tx.State, r.e.t.TaskID, r.a.RunID)
	return a != nil && r.p.RemoteMessageID != "" && markOf(a).MessageID == r.p.RemoteMessageID
}

// settles reports whether nothing is to be done about the peer's task any more.
func (r *peerReport) settles() bool {
	return peerFacts[r.p.Status].ends != "" || r.p.Final && r.e.t.Status == state.TaskCancelling
}

// store keeps what the peer delivered and returns the peer's names of all of it.
func (r *peerReport) store() []string {
	var refs []string
	if r.link != nil {
		refs = slices.Clone(r.link.RemoteArtifactRefs)
	}
	added := false
	for i := range r.p.Artifacts {
		d := &r.p.Artifacts[i]
		if !slices.Contains(refs, d.RemoteArtifactID) && d.RemoteArtifactID != "" {
			refs, added = append(refs, d.RemoteArtifactID), true
		}
		if slices.ContainsFunc(r.e.t.Artifacts, func(x event.ArtifactLink) bool { return x.ArtifactID == d.ArtifactID }) {
			continue
		}
		r.deliver(d)
	}
	if !added {
		return nil
	}
	return refs
}

// deliver emits one deliverable; it becomes an edge of the task.
func (r *peerReport) deliver(d *command.PeerDelivery) {
	scope := r.e.peerScope(r.a, r.p.ChannelID)
	scope.ArtifactID = d.ArtifactID
	out := &event.ArtifactChanged{Change: "created", Kind: "output", Title: r.w.cleanText(d.Title), URI: r.w.cleanText(d.URI), MediaType: d.MediaType}
	if content, err := d.Bytes(); err == nil && len(content) > 0 { // checked before
		content = r.w.cleanContent(content, d.MediaType)
		out.ReadRef, out.SizeBytes = r.e.tx.Blob(content, orElse(d.MediaType, "application/octet-stream")), int64(len(content))
	}
	r.e.emitScoped(event.TypeArtifactChanged, scope, out)
	r.e.t.Artifacts = append(slices.Clone(r.e.t.Artifacts), event.ArtifactLink{ArtifactID: d.ArtifactID, URI: out.URI, MediaType: d.MediaType})
}

// follow brings the local task to where the peer's status takes it.
func (r *peerReport) follow() error {
	row := peerFacts[r.p.Status]
	if row.asks == "" {
		r.withdraw()
	}
	stopping := r.e.t.Status == state.TaskCancelling
	switch {
	case row.ends == state.AttemptCompleted:
		return r.complete(stopping)
	case row.ends != "":
		return r.end(row.ends, r.failure(row), stopping)
	case r.p.Final && r.p.Status == "unreachable" && !sentToPeer(&r.e.t, r.a.RunID):
		return r.end(state.AttemptFailed, newFailure(orElse(r.p.Category, byPeerDown), true, "%s", orElse(r.reason, "the peer can't be reached")), stopping)
	case stopping && (r.p.Final || r.p.Status == "unknown"):
		return r.end(state.AttemptUnknown, newFailure(state.TaskLost, false, "%s", orElse(r.reason, "it is not known what became of the task there")), true)
	case stopping, r.e.t.Status == state.TaskPaused:
		return nil
	}
	if r.p.Final && r.p.Status == "unreachable" {
		row.fact, row.status = event.TypeTaskBlocked, state.TaskBlocked
	}
	return r.stand(row)
}

func (r *peerReport) failure(row factOfPeer) *event.Failure {
	why := map[string]string{
		"failed": "the peer's task failed", "rejected": "the peer refused the task", "cancelled": "the peer cancelled the task", "missing": "the peer no longer knows the task",
	}[r.p.Status]
	// A task that the peer has lost is given to it again if the policy says so.
	again := r.p.Retryable || row.ends == state.AttemptUnknown
	return newFailure(orElse(r.p.Category, row.category), again, "%s", orElse(r.reason, why))
}

// stand gives the task a status, and the question that belongs to it.
func (r *peerReport) stand(row factOfPeer) error {
	var blockers []string
	reason := r.reason
	if row.asks != "" && r.wantsPermission() {
		row.status, row.asks = state.TaskWaitingPermission, permissionAction
	}
	if row.asks != "" {
		blockers = r.ask(row.asks)
		reason = orElse(reason, "the peer waits for an answer")
	}
	t := &r.e.t
	if t.Status == row.status && t.NativeStatus == row.native && (t.StatusReason == reason || row.status == state.TaskRunning) && slices.Equal(t.Blockers, blockers) {
		return nil
	}
	if row.status == state.TaskRunning {
		reason = ""
	}
	return r.e.becomeStatus(row.fact, &event.TaskStatusChanged{Status: row.status, NativeStatus: row.native, StatusReason: reason, Blockers: blockers})
}

// ask makes the peer's question an action, once, and returns its id.
func (r *peerReport) ask(actionType string) []string {
	for _, a := range r.e.tx.State.Actions.Pending {
		if ofRun(a, r.e.t.TaskID, r.a.RunID) {
			return []string{a.ActionID}
		}
	}
	q := r.p.Question
	if q == nil {
		q = &command.PeerQuestion{Prompt: orElse(r.reason, "The peer waits for an answer.")}
	}
	decisions := q.Decisions
	if len(decisions) == 0 {
		decisions = []string{"submit", "cancel"}
	}
	mark, err := json.Marshal(askedBy{Peer: r.e.t.Peer, RunID: r.a.RunID, RemoteTaskID: r.p.RemoteTaskID, MessageID: r.p.RemoteMessageID})
	if err != nil {
		return nil // strings always encode
	}
	id, step := r.e.tx.NewID(event.PrefixAction), r.e.tx.NewID(event.PrefixStep)
	// An answer holds for what the peer asks now: its tools are not ours.
	r.e.emitScoped(event.TypeActionRequired, r.actionScope(id, step), &event.ActionRequired{
		ActionType: actionType, Prompt: r.w.cleanText(q.Prompt), Schema: q.Schema, Decisions: decisions, Scope: mark, SafeArgs: r.message,
		Reason: "the peer " + r.e.t.Peer + " asks", ToolName: r.w.cleanText(q.Permission), OnceOnly: actionType == permissionAction,
	})
	if actionType == permissionAction {
		r.bridgeRequest(id, step, r.w.cleanText(q.Permission))
	}
	return []string{id}
}

// actionScope is the ids of a fact about a question. It belongs to no turn here.
func (r *peerReport) actionScope(actionID, stepID string) event.Scope {
	s := r.e.scope(r.a.RunID)
	s.StepID = stepID
	s.ActionID, s.ThreadID, s.TurnID = actionID, event.NotApplicable, event.NotApplicable
	return s
}

// withdraw takes back questions that the peer doesn't wait for any more.
func (r *peerReport) withdraw() {
	for _, a := range r.e.tx.State.Actions.Pending {
		if ofRun(a, r.e.t.TaskID, r.a.RunID) && (r.p.Status != "unreachable" || r.p.Final) {
			r.e.emitScoped(event.TypeActionResolved, r.actionScope(a.ActionID, a.StepID), &event.ActionResolved{
				Decision: "cancel", Status: "cancelled", DecisionSource: "runtime", ActionType: a.ActionType, Reason: "the peer no longer waits for it", ResolvedBy: r.e.by,
			})
		}
	}
}

// complete ends the attempt well, and the task if nothing is open.
func (r *peerReport) complete(stopping bool) error {
	summary := r.w.cleanText(r.p.Summary)
	r.e.emitScoped(event.TypeTaskAttemptCompleted, r.e.attemptScope(r.a), &event.TaskAttemptCompleted{
		Status: state.AttemptCompleted, CompletionSummary: summary, DurationMs: since(r.e.tx.Now(), r.a.StartedAt),
	})
	r.e.endAttempt(r.a.RunID, state.AttemptCompleted, nil)
	if stopping {
		return nil // it settles when everything under it has
	}
	if native, _ := unreconciled(&r.e.t, r.e.t.DeliveryState); native != "" {
		return r.e.afterSuccess()
	}
	return r.e.completeTask(&event.TaskCompleted{Summary: summary, Artifacts: r.e.t.Artifacts, DeliveryState: delivered(&r.e.t)})
}

// end ends the attempt otherwise and decides what follows.
func (r *peerReport) end(status string, f *event.Failure, stopping bool) error {
	if status == state.AttemptUnknown && !stopping {
		return r.w.loseAttempt(r.e, r.a, f)
	}
	r.e.failAttempt(r.a, status, f, "")
	if stopping {
		return nil
	}
	return r.w.decideOutcome(r.e, attemptOfRun(&r.e.t, r.a.RunID))
}
