package a2a

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"agentd/command"
	"agentd/state"
)

// Ids that a peer doesn't give follow from its account and its message, so that the
// same message leads to the same task. They are no secrets: who may reach what is
// decided by the account, not by knowing an id.

// sum is a fingerprint of texts, each apart from the next.
func sum(texts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:", len(t))
		_, _ = io.WriteString(h, t) // a hash takes everything
	}
	var out [sha256.Size]byte
	h.Sum(out[:0])
	return out
}

// uuid has the form that peers expect of ids: a UUID of version 8, whose bits are
// the maker's own.
func uuid(s [sha256.Size]byte) string {
	b := s[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func shortID(prefix string, texts ...string) string {
	s := sum(texts...)
	return prefix + hex.EncodeToString(s[:13])
}

// contextOf is the context of a message that names none.
func contextOf(account, messageID string) string { return uuid(sum("context", account, messageID)) }

// taskOf is the task that a message begins.
func taskOf(account, contextID, messageID string) string {
	return uuid(sum("task", account, contextID, messageID))
}

// sessionOf is the session of a context.
func sessionOf(account, contextID string) string {
	return shortID("sess_a2a_", "session", account, contextID)
}

// turnOf is the turn of a task.
func turnOf(account, taskID string) string { return shortID("turn_a2a_", "turn", account, taskID) }

// channelOf is the channel of all peers that come with the tokens of an account. Those
// of admins have another one: a channel belongs to one role.
func channelOf(c command.Caller) string {
	if c.Admin {
		return shortID("chan_a2a_", "channel", c.Account, "admin")
	}
	return shortID("chan_a2a_", "channel", c.Account)
}

// artifactOf is the artifact that holds a turn's answer.
func artifactOf(turnID string) string { return state.AnswerArtifactID(turnID) }

// random is an id that nothing leads to.
func random() string {
	var s [sha256.Size]byte
	_, _ = rand.Read(s[:]) // it never fails
	return uuid(s)
}
