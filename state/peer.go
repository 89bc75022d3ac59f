package state

import (
	"time"

	"agentd/event"
)

// PeerTask joins a peer's task to a local one.
type PeerTask struct {
	// TaskID is the local task.
	TaskID string `json:"taskId"`
	// ChannelID is the channel to the peer.
	ChannelID string `json:"channelId"`
	// NativeProtocol is the peer's protocol.
	NativeProtocol string `json:"nativeProtocol"`
	// Direction is inbound for work that the peer asked for, outbound for work that it was
	// asked to do.
	Direction string `json:"direction"`
	// RemoteTaskID is the peer's task.
	RemoteTaskID string `json:"remoteTaskId"`
	// RemoteContextID is the peer's conversation.
	RemoteContextID string `json:"remoteContextId,omitempty"`
	// RemoteAgentRef names the peer.
	RemoteAgentRef string `json:"remoteAgentRef,omitempty"`
	// AgentCardRef is where the peer's agent card is.
	AgentCardRef string `json:"agentCardRef,omitempty"`
	// DeliveryMechanism says how the peer tells of changes.
	DeliveryMechanism string `json:"deliveryMechanism,omitempty"`
	// Status is the peer's state in our words.
	Status string `json:"status"`
	// RemoteStatus is the peer's state in its own words.
	RemoteStatus string `json:"remoteStatus,omitempty"`
	// Reason of the status.
	Reason string `json:"reason,omitempty"`
	// RemoteArtifactRefs are the peer's deliverables.
	RemoteArtifactRefs []string `json:"remoteArtifactRefs,omitempty"`
	// LastMessageRef is where the last message is.
	LastMessageRef string `json:"lastMessageRef,omitempty"`
	// RunID is the attempt that an outbound task is.
	RunID string `json:"runId,omitempty"`
	// LastMessageID is the last message that went to the peer or came from it.
	LastMessageID string `json:"lastMessageId,omitempty"`
	// ThreadID is the thread that works on an inbound task.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that works on an inbound task.
	TurnID string `json:"turnId,omitempty"`
	// Sequence of the fact that joined the two.
	Sequence uint64 `json:"sequence,omitempty"`
	// Waiting are the pending actions of an inbound task.
	Waiting []PeerWait `json:"waiting,omitempty"`
	// StatusAt is when the task got its status.
	StatusAt time.Time `json:"statusAt,omitzero"`
	// LinkedAt is when the two tasks were joined.
	LinkedAt time.Time `json:"linkedAt"`
	// UpdatedAt is when its newest fact happened.
	UpdatedAt time.Time `json:"updatedAt"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

// Recovery states of a peer's task: what is to be done about it here. None of
// them means that the task failed.
const (
	PeerRunning      = "running"
	PeerIdle         = "idle"
	PeerWaiting      = "waiting"
	PeerUnreconciled = "unreconciled"
	PeerMissing      = "missing"
	PeerUnreachable  = "unreachable"
)

// Recovery returns the peer task's recovery state: one of the six, "settled"
// when nothing is to be done any more, or [Unknown].
func (p *PeerTask) Recovery() string {
	switch p.Status {
	case "running":
		return PeerRunning
	case "idle":
		return PeerIdle
	case "waiting_input", "waiting_permission":
		return PeerWaiting
	case "completed_unreconciled":
		return PeerUnreconciled
	case "missing":
		return PeerMissing
	case "unreachable":
		return PeerUnreachable
	case "completed", "failed", "cancelled", "rejected":
		return "settled"
	}
	return Unknown
}

func (f *fold) findPeerTask(remoteID string) *PeerTask {
	all := &f.s.Channels
	for _, list := range [...][]*PeerTask{all.PeerTasks, all.RecentPeerTasks} {
		if i := indexWhere(list, func(x *PeerTask) bool { return x.TaskID == f.e.TaskID && x.RemoteTaskID == remoteID }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

func (f *fold) peerTaskLinked(p *event.PeerTaskLinked) {
	t := f.findPeerTask(p.RemoteTaskID)
	if t == nil {
		t = &PeerTask{TaskID: f.e.TaskID, RemoteTaskID: p.RemoteTaskID, Status: Unknown, LinkedAt: f.e.Time}
		f.s.Channels.PeerTasks = append(f.s.Channels.PeerTasks, t)
	}
	t.ChannelID, t.NativeProtocol, t.Direction = f.e.ChannelID, p.NativeProtocol, p.Direction
	t.RemoteContextID, t.RemoteAgentRef, t.AgentCardRef = p.RemoteContextID, p.RemoteAgentRef, p.AgentCardRef
	t.DeliveryMechanism, t.UpdatedAt = p.DeliveryMechanism, f.e.Time
	t.ThreadID, t.TurnID, t.Sequence = f.e.ThreadID, f.e.TurnID, f.e.Sequence
	if p.Direction != PeerInbound {
		t.RunID = f.e.RunID
		setIf(&t.LastMessageID, p.RemoteMessageID)
	}
	if p.Direction == PeerInbound && t.Status == Unknown {
		t.Status, t.StatusAt = PeerIdle, f.e.Time
	}
}

func (f *fold) peerTaskUpdated(p *event.PeerTaskUpdated) {
	t := f.findPeerTask(p.RemoteTaskID)
	if t == nil {
		return
	}
	t.RemoteStatus, t.UpdatedAt = p.RemoteStatus, f.e.Time
	if t.Direction != PeerInbound {
		// An inbound task stands as its turn does, see Follow.
		t.Status, t.Reason, t.StatusAt = p.Status, p.Reason, f.e.Time
	}
	if len(p.RemoteArtifactRefs) > 0 {
		t.RemoteArtifactRefs = firstN(p.RemoteArtifactRefs, keepRefs)
	}
	setIf(&t.LastMessageRef, p.MessageRef)
	if t.Direction != PeerInbound {
		setIf(&t.LastMessageID, p.RemoteMessageID)
	}
	if t.Recovery() == "settled" {
		f.endPeerTask(t)
	}
}

// settlePeerTasks ends the peer tasks of a local task that ended: no one waits
// for them here any more. What the peer last said of them stays.
func (f *fold) settlePeerTasks(taskID string) {
	var ended []*PeerTask
	for _, t := range f.s.Channels.PeerTasks {
		if t.TaskID == taskID {
			ended = append(ended, t)
		}
	}
	for _, t := range ended {
		f.endPeerTask(t)
	}
}

func (f *fold) endPeerTask(t *PeerTask) {
	all := &f.s.Channels
	i := indexWhere(all.PeerTasks, func(x *PeerTask) bool { return x == t })
	if i < 0 {
		return
	}
	t.EndedAt = f.e.Time
	all.PeerTasks = removed(all.PeerTasks, i)
	if len(all.RecentPeerTasks) == keepRecent {
		old := all.RecentPeerTasks[0]
		f.evict("peer_task/"+old.TaskID+"/"+old.RemoteTaskID, old)
	}
	all.RecentPeerTasks = recent(all.RecentPeerTasks, t, keepRecent)
}
