package state

import (
	"time"

	"agentd/event"
)

// PeerTask joins a peer's task to a local one.
type PeerTask struct {
	TaskID            string `json:"taskId"`
	ChannelID         string `json:"channelId"`
	NativeProtocol    string `json:"nativeProtocol"`
	Direction         string `json:"direction"`
	RemoteTaskID      string `json:"remoteTaskId"`
	RemoteContextID   string `json:"remoteContextId,omitempty"`
	RemoteAgentRef    string `json:"remoteAgentRef,omitempty"`
	AgentCardRef      string `json:"agentCardRef,omitempty"`
	DeliveryMechanism string `json:"deliveryMechanism,omitempty"`
	// Status is the peer's state in our words, RemoteStatus in its own.
	Status             string   `json:"status"`
	RemoteStatus       string   `json:"remoteStatus,omitempty"`
	Reason             string   `json:"reason,omitempty"`
	RemoteArtifactRefs []string `json:"remoteArtifactRefs,omitempty"`
	LastMessageRef     string   `json:"lastMessageRef,omitempty"`
	// RunID is the attempt that an outbound task is, LastMessageID the last message
	// that went to the peer or came from it.
	RunID         string `json:"runId,omitempty"`
	LastMessageID string `json:"lastMessageId,omitempty"`
	// ThreadID and TurnID are the turn that works on an inbound task, Sequence the
	// fact that joined the two.
	ThreadID string `json:"threadId,omitempty"`
	TurnID   string `json:"turnId,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	// Waiting are the pending actions of an inbound task.
	Waiting []PeerWait `json:"waiting,omitempty"`
	// StatusAt is when the task got its status.
	StatusAt  time.Time `json:"statusAt,omitzero"`
	LinkedAt  time.Time `json:"linkedAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
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
