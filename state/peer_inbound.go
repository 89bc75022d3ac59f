package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"agentd/event"
)

// PeerInbound is the direction of work that a peer gave us.
const PeerInbound = "inbound"

// Statuses of an inbound peer task beyond those that a recovery state names.
const (
	PeerWaitingInput      = "waiting_input"
	PeerWaitingPermission = "waiting_permission"
	PeerCompleted         = "completed"
	PeerFailed            = "failed"
	PeerCancelled         = "cancelled"
	PeerRejected          = "rejected"
)

// PeerWait is a pending action of an inbound peer task.
type PeerWait struct {
	// ActionID is the action that waits.
	ActionID string `json:"actionId"`
	// ActionType says what kind of answer is asked for.
	ActionType string `json:"actionType"`
}

// Follow brings an inbound peer task to where a fact of its turn takes it, and
// reports whether its status changed. The read model and the protocol's adapter
// both go by it, so that a list and a stream never differ.
func (p *PeerTask) Follow(e *event.Event) bool {
	if e.TaskID != p.TaskID || p.Direction != PeerInbound {
		return false
	}
	var status, reason string
	switch x := e.Payload.(type) {
	case *event.TurnStarted:
		status = p.waitingFor()
	case *event.ActionRequired:
		if !AsksPeer(x.ActionType) {
			return false
		}
		p.Waiting = append(slices.Clone(p.Waiting), PeerWait{e.ActionID, x.ActionType})
		status, reason = p.waitingFor(), x.Prompt
	case *event.ActionResolved:
		p.Waiting = slices.DeleteFunc(slices.Clone(p.Waiting), func(w PeerWait) bool { return w.ActionID == e.ActionID })
		if len(p.Waiting) == 0 {
			p.Waiting = nil
		}
		status = p.waitingFor()
	case *event.TurnCompleted:
		p.Waiting, status = nil, PeerCompleted
		if x.Outcome == "refusal" {
			status = PeerRejected
		}
	case *event.TurnFailed:
		p.Waiting, status = nil, failedPeer(x)
		if x.Error != nil {
			reason = x.Error.Message
		}
	default:
		return false
	}
	p.UpdatedAt = e.Time
	if status == p.Status {
		return false
	}
	p.Status, p.Reason, p.StatusAt = status, reason, e.Time
	return true
}

// AsksPeer reports whether an action of that type is a question to the peer that
// gave us the work. Tools of a channel are carried out by that channel.
func AsksPeer(actionType string) bool { return actionType != "client_tool" }

// waitingFor is the status of a task whose turn runs: a credential is asked for
// before anything else can be answered.
func (p *PeerTask) waitingFor() string {
	if len(p.Waiting) == 0 {
		return PeerRunning
	}
	for _, w := range p.Waiting {
		if w.ActionType == "credential" {
			return PeerWaitingPermission
		}
	}
	return PeerWaitingInput
}

func failedPeer(p *event.TurnFailed) string {
	switch {
	case p.Status == TurnCancelled:
		return PeerCancelled
	case p.FailureCategory == "hook_blocked":
		return PeerRejected
	}
	return PeerFailed
}

// followPeers brings the inbound tasks of the fact's task to where it takes them.
func (f *fold) followPeers() {
	switch f.e.Payload.(type) {
	case *event.TurnStarted, *event.ActionRequired, *event.ActionResolved, *event.TurnCompleted, *event.TurnFailed:
		for _, t := range f.s.Channels.PeersOf(f.e.TaskID) {
			t.Follow(f.e)
		}
	}
}

// AnswerArtifactID is the id of the artifact that holds the answer of a turn which works
// on a peer's task: the same wherever it is asked for.
func AnswerArtifactID(turnID string) string {
	h := sha256.New()
	for _, text := range [...]string{"artifact", turnID} {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return "artifact_a2a_" + hex.EncodeToString(h.Sum(nil)[:13])
}

// InboundOf returns the peer's task that a turn works on, or nil.
func (c *Channels) InboundOf(turn *Turn) *PeerTask {
	for _, p := range c.PeersOf(turn.TaskID) {
		if p.Direction == PeerInbound && p.TurnID == turn.TurnID {
			return p
		}
	}
	return nil
}

// PeersOf returns the peers' tasks that are joined to a local one.
func (c *Channels) PeersOf(taskID string) []*PeerTask {
	var out []*PeerTask
	if taskID == "" {
		return nil
	}
	for _, list := range [...][]*PeerTask{c.PeerTasks, c.RecentPeerTasks} {
		for _, t := range list {
			if t.TaskID == taskID {
				out = append(out, t)
			}
		}
	}
	return out
}
