package a2a

import (
	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/state"
)

// states maps how a task stands here to the protocol's states. What isn't here a
// peer never sees.
var states = []struct {
	ours   string
	theirs proto.TaskState
}{
	{state.PeerIdle, proto.TaskStateSubmitted},
	{state.PeerRunning, proto.TaskStateWorking},
	{state.PeerWaitingInput, proto.TaskStateInputRequired},
	{state.PeerWaitingPermission, proto.TaskStateAuthRequired},
	{state.PeerCompleted, proto.TaskStateCompleted},
	{state.PeerFailed, proto.TaskStateFailed},
	{state.PeerCancelled, proto.TaskStateCanceled},
	{state.PeerRejected, proto.TaskStateRejected},
}

// theirState is a status in the protocol's words.
func theirState(ours string) proto.TaskState {
	for _, s := range states {
		if s.ours == ours {
			return s.theirs
		}
	}
	return proto.TaskStateUnspecified
}

// ourState is a state of the protocol in our words; false if there is none.
func ourState(theirs proto.TaskState) (string, bool) {
	for _, s := range states {
		if s.theirs == theirs {
			return s.ours, true
		}
	}
	return "", false
}

// isInterrupted reports whether a task waits for its peer.
func isInterrupted(s proto.TaskState) bool {
	return s == proto.TaskStateInputRequired || s == proto.TaskStateAuthRequired
}
