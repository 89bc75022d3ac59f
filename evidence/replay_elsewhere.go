package evidence

import (
	"slices"

	"agentd/command"
	"agentd/event"
)

// CaseStep is a step in the work of another agent: one of these commands, with the ids
// of the recording.
type CaseStep struct {
	EventID string `json:"eventId"`
	// Link says that the work is given away and which task it is there, Report how it
	// stands there.
	Link   *command.LinkPeerTask   `json:"link,omitempty"`
	Report *command.UpdatePeerTask `json:"report,omitempty"`
	// Answer is what a question of the agent was answered, Close the wish to do without
	// the agent.
	Answer *command.RespondAction `json:"answer,omitempty"`
	Close  *command.CloseSubagent `json:"close,omitempty"`
}

// MessagePrefix begins the ids of messages that this runtime sends to other agents; what
// follows is the id of the attempt or of the question that the message is about.
const MessagePrefix = "agentd-"

// peerDown is how a task stands natively whose agent can't be reached.
const peerDown = "peer_unreachable"

// elsewhere is what a recording remembers of another agent.
type elsewhere struct {
	// at is its place among the agents of the case.
	at int
	// sent and linked say how far its work was given away, attempts how often it was.
	sent, linked bool
	attempts     int
	// asked is the question that it waits for.
	asked string
	// report is the last one until its task was told to stand so.
	report *command.UpdatePeerTask
	// delivered is what came since the last report, refs how much the agent named.
	delivered []command.PeerDelivery
	refs      int
	// stopping says that somebody wants the work stopped, closed that it was by closing
	// the agent.
	stopping, closed bool
}

// spawnedElsewhere takes the start of another agent.
func (r *recording) spawnedElsewhere(e *event.Event, p *event.SubagentSpawned, call string) {
	if call == "" {
		r.spawnedOutside(e, p)
	} else {
		r.parties().Agents = append(r.parties().Agents, CaseAgent{EventID: e.ID, SubagentID: e.SubagentID, ToolCallID: call})
	}
	if r.party.elsewhere == nil {
		r.party.elsewhere = map[string]*elsewhere{}
	}
	at := len(r.c.Parties.Agents) - 1
	r.c.Parties.Agents[at].Peer = p.Peer
	r.party.elsewhere[e.SubagentID] = &elsewhere{at: at}
	r.party.open[e.SubagentID] = true
}

// step appends a step of another agent.
func (r *recording) step(x *elsewhere, e *event.Event, s CaseStep) {
	s.EventID = e.ID
	a := &r.c.Parties.Agents[x.at]
	a.Steps = append(a.Steps, s)
	x.report = s.Report
}

// doneElsewhere takes a fact of another agent.
func (r *recording) doneElsewhere(x *elsewhere, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TaskAttemptStarted:
		if x.attempts++; x.attempts > 1 {
			r.limit(limitAgentChanged) // nobody else tries again
		}
	case *event.TaskDelegated:
		x.sent = true
		r.step(x, e, CaseStep{Link: &command.LinkPeerTask{RunID: e.RunID, NativeProtocol: p.NativeProtocol, RemoteMessageID: p.RemoteMessageID, Reason: p.Reason}})
	case *event.PeerTaskLinked:
		x.linked = true
		r.step(x, e, CaseStep{Link: &command.LinkPeerTask{
			RunID: e.RunID, NativeProtocol: p.NativeProtocol, RemoteAgentRef: p.RemoteAgentRef, RemoteMessageID: p.RemoteMessageID,
			RemoteTaskID: p.RemoteTaskID, RemoteContextID: p.RemoteContextID, DeliveryMechanism: p.DeliveryMechanism,
		}})
	case *event.PeerTaskUpdated:
		r.reported(x, e, p)
	case *event.ArtifactChanged:
		x.delivered = append(x.delivered, command.PeerDelivery{ArtifactID: e.ArtifactID, Title: p.Title, MediaType: p.MediaType, URI: p.URI})
	case *event.ActionRequired:
		if x.asked = e.ActionID; x.report != nil {
			x.report.Question = &command.PeerQuestion{Prompt: p.Prompt, Decisions: p.Decisions, Schema: p.Schema}
		}
	case *event.ActionResolved:
		r.answeredElsewhere(x, e, p)
	case *event.TaskStatusChanged:
		r.standsElsewhere(x, e, p)
	default:
		r.endsElsewhere(x, e)
	}
}

// reported takes how the work stands at another agent.
func (r *recording) reported(x *elsewhere, e *event.Event, p *event.PeerTaskUpdated) {
	u := &command.UpdatePeerTask{
		RunID: e.RunID, RemoteTaskID: p.RemoteTaskID, Status: p.Status, RemoteStatus: p.RemoteStatus, Reason: p.Reason,
		RemoteMessageID: p.RemoteMessageID, Message: p.Message, Artifacts: x.delivered, Final: p.Settled && !endsWork(p.Status),
	}
	for i, ref := range p.RemoteArtifactRefs[min(x.refs, len(p.RemoteArtifactRefs)):] {
		if i < len(u.Artifacts) {
			u.Artifacts[i].RemoteArtifactID = ref
		}
	}
	x.refs, x.delivered = max(x.refs, len(p.RemoteArtifactRefs)), nil
	r.step(x, e, CaseStep{Report: u})
}

// endsWork reports whether a status at another agent ends its work.
func endsWork(status string) bool {
	return slices.Contains([]string{"completed", "failed", "rejected", "cancelled", "missing"}, status)
}

// answeredElsewhere takes the end of a question. One that nobody answered was taken
// back by a report.
func (r *recording) answeredElsewhere(x *elsewhere, e *event.Event, p *event.ActionResolved) {
	x.asked = ""
	switch {
	case p.Status == "resolved" && p.DecisionSource == "human":
		a := &command.RespondAction{ActionID: e.ActionID, Decision: p.Decision, Payload: p.Payload, Reason: p.Reason}
		if !r.readInto(p.PayloadRef, &a.Payload) {
			r.limit("a large answer is only behind its reference")
		}
		r.step(x, e, CaseStep{Answer: a})
	case p.Status != "cancelled" || x.report == nil:
		r.limit("a question of a subagent was not answered")
	}
}

// standsElsewhere takes how the task of another agent stands. What no report says was
// done from outside.
func (r *recording) standsElsewhere(x *elsewhere, e *event.Event, p *event.TaskStatusChanged) {
	switch e.Type {
	case event.TypeTaskStarted, event.TypeTaskFailed, event.TypeTaskLost, event.TypeTaskCancelled:
		return // what came before says it
	case event.TypeTaskCancelRequested:
		x.stopping = true
		return
	case event.TypeTaskWaiting, event.TypeTaskBlocked, event.TypeTaskResumed:
	default:
		r.limit(limitAgentChanged)
		return
	}
	u := x.report
	if u == nil && !x.linked && p.NativeStatus == peerDown { // without a link nothing tells of the report
		u = &command.UpdatePeerTask{RunID: e.RunID, Status: "unreachable", Reason: p.StatusReason}
		r.step(x, e, CaseStep{Report: u})
	}
	if u == nil {
		r.limit(limitAgentChanged)
		return
	}
	u.Final = u.Final || e.Type == event.TypeTaskBlocked && u.Status == "unreachable"
	x.report = nil
}

// endsElsewhere takes the end of an attempt, or of the agent.
func (r *recording) endsElsewhere(x *elsewhere, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TaskAttemptCompleted:
		if x.report == nil {
			r.limit(limitAgentChanged)
			return
		}
		x.report.Summary = p.CompletionSummary
	case *event.TaskAttemptFailed:
		r.failedElsewhere(x, e, p)
	case *event.SubagentEnded:
		delete(r.party.open, e.SubagentID)
		if p.Status != "closed" {
			return
		}
		if !x.sent || x.asked != "" { // what is then given up comes in its own time
			r.limit(limitAgentChanged)
		}
		x.closed = true
		r.step(x, e, CaseStep{Close: &command.CloseSubagent{SubagentID: e.SubagentID, Reason: p.Reason}})
	}
}

// failedElsewhere takes an attempt that failed.
func (r *recording) failedElsewhere(x *elsewhere, e *event.Event, p *event.TaskAttemptFailed) {
	switch u := x.report; {
	case u != nil && endsWork(u.Status):
		u.Category, u.Retryable = p.FailureCategory, p.Retryable
	case u != nil && x.stopping:
		u.Final = true
	case u == nil && !x.linked && p.Error != nil:
		r.step(x, e, CaseStep{Report: &command.UpdatePeerTask{
			RunID: e.RunID, Status: "unreachable", Final: true, Category: p.FailureCategory, Retryable: p.Retryable, Reason: p.Error.Message,
		}})
	default:
		r.limit(limitAgentChanged)
	}
}

// elsewhereEnd notes work that was stopped by something else than the end of its agent.
func (r *recording) elsewhereEnd() {
	for _, x := range r.party.elsewhere {
		if x.stopping && !x.closed {
			r.limit(limitAgentChanged)
		}
	}
}

// collectElsewhere adds a fact of another agent: what it was given and reported, what
// was asked and answered. How it ended is told in its own time, so that comes last.
func (p *Projection) collectElsewhere(e *event.Event) {
	if p.reached == nil {
		p.reached = map[string]int{}
	}
	if says := comparedEnd(e); says != nil {
		p.ended = append(p.ended, Fact{Type: e.Type, Says: says, Of: "end", EventID: e.ID})
		p.reaches("end")
		return
	}
	if says := comparedElsewhere(e); says != nil {
		p.told = append(p.told, Fact{Type: e.Type, Says: says, Of: "task", EventID: e.ID})
		p.reaches("task")
	}
}

// comparedEnd returns what is compared of how another agent ended; nil if a fact doesn't
// tell.
func comparedEnd(e *event.Event) map[string]string {
	switch p := e.Payload.(type) {
	case *event.SubagentMessage:
		if e.Type == event.TypeSubagentOutput {
			return map[string]string{"text": p.Text}
		}
	case *event.SubagentEnded:
		says := map[string]string{"status": p.Status}
		if p.Error != nil {
			says["category"] = p.Error.Category
		}
		return says
	}
	return nil
}

// comparedElsewhere returns what is compared of a fact of another agent; nil if it isn't.
func comparedElsewhere(e *event.Event) map[string]string {
	switch p := e.Payload.(type) {
	case *event.TaskDelegated:
		return map[string]string{"to": p.TargetID}
	case *event.PeerTaskLinked:
		return map[string]string{"protocol": p.NativeProtocol, "task": p.RemoteTaskID}
	case *event.PeerTaskUpdated:
		return map[string]string{"status": p.Status, "remote": p.RemoteStatus, "reason": p.Reason}
	case *event.ArtifactChanged:
		return map[string]string{"title": p.Title, "media": p.MediaType}
	case *event.ActionRequired:
		return map[string]string{"action": p.ActionType, "prompt": p.Prompt}
	case *event.ActionResolved:
		return map[string]string{"decision": p.Decision, "status": p.Status}
	case *event.TaskAttemptCompleted:
		return map[string]string{"summary": p.CompletionSummary}
	case *event.TaskAttemptFailed:
		return map[string]string{"status": p.Status, "category": p.FailureCategory}
	case *event.TaskStatusChanged:
		if e.Type == event.TypeTaskWaiting || e.Type == event.TypeTaskBlocked || e.Type == event.TypeTaskResumed {
			return map[string]string{"status": p.Status, "native": p.NativeStatus}
		}
	}
	return nil
}
