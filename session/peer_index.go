package session

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// Kinds of index entries about the tasks of peers, all derived from facts. Their
// keys begin with the protocol, the direction, the account and the peer's task.
const (
	// kindPeer: a peer's task → what it is joined to and how it stands.
	kindPeer = "peer_task"
	// kindPeerOpen: a peer's task → nothing, until its end is reconciled.
	kindPeerOpen = "peer_task_open"
	// kindPush: a peer's task and a configuration → where notifications go.
	kindPush = "peer_push"
	// kindPushed: the same key → how far the peer was notified.
	kindPushed = "peer_pushed"
	// kindPushOpen: the same key → nothing, while something is left to tell.
	kindPushOpen = "peer_push_open"
)

// peerPrefix is what the keys of all tasks of one account begin with.
func peerPrefix(protocol, direction, account string) string {
	return peerProtocol(protocol, direction) + url.PathEscape(account) + "/"
}

func peerProtocol(protocol, direction string) string {
	return url.PathEscape(protocol) + "/" + direction + "/"
}

func peerKey(protocol, direction, account, remoteID string) string {
	return peerPrefix(protocol, direction, account) + url.PathEscape(remoteID)
}

func pushKey(protocol, account, remoteID, configID string) string {
	return peerKey(protocol, state.PeerInbound, account, remoteID) + "/" + url.PathEscape(configID)
}

// isPushOf reports whether a key is that of a push configuration of a peer's task, whichever
// account's it is.
func isPushOf(key, remoteID string) bool {
	parts := strings.Split(key, "/")
	return len(parts) == pushKeyParts && parts[pushKeyParts-2] == url.PathEscape(remoteID)
}

// pushKeyParts are protocol, direction, account, task and configuration.
const pushKeyParts = 5

// peerEntry is what the index keeps of a peer's task.
type peerEntry struct {
	RemoteTaskID    string    `json:"remoteTaskId"`
	RemoteContextID string    `json:"remoteContextId,omitempty"`
	Account         string    `json:"account,omitempty"`
	SessionID       string    `json:"sessionId"`
	ThreadID        string    `json:"threadId,omitempty"`
	TurnID          string    `json:"turnId,omitempty"`
	TaskID          string    `json:"taskId"`
	ChannelID       string    `json:"channelId"`
	Status          string    `json:"status"`
	StatusAt        time.Time `json:"statusAt"`
	Sequence        uint64    `json:"sequence"`
}

// record is the entry as callers see it.
func (x *peerEntry) record(protocol, direction string) command.PeerTaskRecord {
	return command.PeerTaskRecord{
		NativeProtocol: protocol, Direction: direction, RemoteTaskID: x.RemoteTaskID, RemoteContextID: x.RemoteContextID,
		Account: x.Account, SessionID: x.SessionID, ThreadID: x.ThreadID, TurnID: x.TurnID, TaskID: x.TaskID, ChannelID: x.ChannelID,
		Status: x.Status, StatusAt: x.StatusAt, Sequence: x.Sequence,
	}
}

// pushEntry is what the index keeps of a push configuration.
type pushEntry struct {
	RemoteTaskID string `json:"remoteTaskId"`
	Account      string `json:"account,omitempty"`
	ConfigID     string `json:"configId"`
	Target       string `json:"target"`
	Sealed       string `json:"sealed"`
}

// pushedEntry is how far a peer was notified.
type pushedEntry struct {
	Outcome string `json:"outcome"`
	Through uint64 `json:"through"`
	Final   bool   `json:"final,omitempty"`
}

// indexPeers appends the entries about peers' tasks that follow from a fact, given
// the state after it.
func indexPeers(ops []store.IndexOp, st *state.Session, e *event.Event) ([]store.IndexOp, error) {
	switch p := e.Payload.(type) {
	case *event.PeerTaskLinked:
		ops = append(ops, putOp(kindPeerOpen, peerKey(p.NativeProtocol, p.Direction, st.Account, p.RemoteTaskID), nil))
		return indexPeerTasks(ops, st, e.TaskID)
	case *event.TurnStarted, *event.TurnCompleted, *event.TurnFailed, *event.ActionRequired, *event.ActionResolved:
		return indexPeerTasks(ops, st, e.TaskID)
	case *event.PeerTaskUpdated:
		return indexPeerUpdate(ops, st, e.TaskID, p)
	case *event.PeerPushConfigured, *event.PeerPushRemoved, *event.PeerPushReported:
		return indexPush(ops, st.Account, p)
	}
	return ops, nil
}

func indexPeerTasks(ops []store.IndexOp, st *state.Session, taskID string) ([]store.IndexOp, error) {
	for _, t := range st.Channels.PeersOf(taskID) {
		v, err := json.Marshal(peerEntry{
			RemoteTaskID: t.RemoteTaskID, RemoteContextID: t.RemoteContextID, Account: st.Account, SessionID: st.SessionID,
			ThreadID: t.ThreadID, TurnID: t.TurnID, TaskID: t.TaskID, ChannelID: t.ChannelID,
			Status: t.Status, StatusAt: t.StatusAt, Sequence: t.Sequence,
		})
		if err != nil {
			return nil, fmt.Errorf("session: peer's task: %w", err)
		}
		ops = append(ops, putOp(kindPeer, peerKey(t.NativeProtocol, t.Direction, st.Account, t.RemoteTaskID), v))
	}
	return ops, nil
}

// indexPeerUpdate keeps what a peer said of a task, and takes a reconciled one out
// of those that are open. A task that left the working set stays as it is.
func indexPeerUpdate(ops []store.IndexOp, st *state.Session, taskID string, p *event.PeerTaskUpdated) ([]store.IndexOp, error) {
	if p.Settled {
		ops = append(ops, removeOp(kindPeerOpen, peerKey(p.NativeProtocol, p.Direction, st.Account, p.RemoteTaskID)))
	}
	return indexPeerTasks(ops, st, taskID)
}

func indexPush(ops []store.IndexOp, account string, payload event.Payload) ([]store.IndexOp, error) {
	switch p := payload.(type) {
	case *event.PeerPushConfigured:
		v, err := json.Marshal(pushEntry{p.RemoteTaskID, account, p.ConfigID, p.Target, p.Sealed})
		if err != nil {
			return nil, fmt.Errorf("session: push: %w", err)
		}
		key := pushKey(p.NativeProtocol, account, p.RemoteTaskID, p.ConfigID)
		return append(ops, putOp(kindPush, key, v), removeOp(kindPushed, key), putOp(kindPushOpen, key, nil)), nil
	case *event.PeerPushRemoved:
		key := pushKey(p.NativeProtocol, account, p.RemoteTaskID, p.ConfigID)
		return append(ops, removeOp(kindPush, key), removeOp(kindPushed, key), removeOp(kindPushOpen, key)), nil
	case *event.PeerPushReported:
		v, err := json.Marshal(pushedEntry{p.Outcome, p.Through, p.Final})
		if err != nil {
			return nil, fmt.Errorf("session: push: %w", err)
		}
		key := pushKey(p.NativeProtocol, account, p.RemoteTaskID, p.ConfigID)
		ops = append(ops, putOp(kindPushed, key, v))
		if p.Final {
			ops = append(ops, removeOp(kindPushOpen, key))
		}
	}
	return ops, nil
}
