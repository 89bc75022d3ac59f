package channel

import (
	"context"
	"unicode/utf8"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// maxMessageInFact bounds what a fact holds of a peer's message; a longer one is
// behind a reference, with its beginning in the fact.
const maxMessageInFact = 4 << 10

// sendMessage records a peer's message that is not a turn.
func (h *Hub) sendMessage(ctx context.Context, caller command.Caller, p *command.SendChannelMessage) (*command.SendChannelMessageResult, error) {
	c, sessionID, writer, err := h.writerOnChannel(ctx, caller, p.ChannelID, p.SessionID)
	if err != nil {
		return nil, err
	}
	return session.Write(ctx, h.m, writer, p, sessionID, event.ByChannel, func(tx *session.Tx) (*command.SendChannelMessageResult, error) {
		if x := tx.State.Channels.Find(c.ID); x == nil || x.Status != state.ChannelConnected {
			return nil, fault.New(fault.Conflict, "channel %s is not connected in session %s: use reconnect_channel", c.ID, sessionID)
		}
		res := &command.SendChannelMessageResult{ChannelID: c.ID, SessionID: sessionID, Sequence: tx.Sequence()}
		tx.Emit(event.Event{Type: event.TypeChannelMessage, Scope: event.Scope{ChannelID: c.ID}, Payload: h.messageFact(tx, p)})
		return res, nil
	})
}

// messageFact is a peer's message without secrets, and no longer than a fact may be.
func (h *Hub) messageFact(tx *session.Tx, p *command.SendChannelMessage) *event.ChannelMessage {
	m := &event.ChannelMessage{
		Direction: "in", Kind: p.Kind, Text: h.redactText(p.Text), NativeID: h.redactText(p.NativeID), Body: h.redactJSON(p.Body),
	}
	if m.Kind == "" {
		m.Kind = "message"
	}
	if len(m.Body) > maxMessageInFact {
		m.MessageRef, m.Body = tx.Blob(m.Body, "application/json"), nil
	}
	if len(m.Text) <= maxMessageInFact {
		return m
	}
	if m.MessageRef == "" {
		m.MessageRef = tx.Blob([]byte(m.Text), "text/plain; charset=utf-8")
	}
	cut := maxMessageInFact
	for cut > 0 && !utf8.RuneStart(m.Text[cut]) {
		cut--
	}
	m.Text = m.Text[:cut]
	return m
}
