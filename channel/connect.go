package channel

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
)

// Bounds of the tools that one channel offers.
const (
	maxDescription = 8 << 10
	maxSchema      = 32 << 10
	maxToolBytes   = 256 << 10
	// maxToolTimeoutMs is a day.
	maxToolTimeoutMs = 24 * 60 * 60 * 1000
)

// opened is what is kept of connect_channel for a repetition: the token isn't.
type opened struct {
	ChannelID string `json:"channelId"`
}

// connectChannel opens a channel.
func (h *Hub) connectChannel(ctx context.Context, caller command.Caller, p *command.ConnectChannel) (*opened, error) {
	id := p.ChannelID
	if id == "" {
		id = h.m.NewID(event.PrefixChannel)
	}
	fact, err := h.enrolment(caller, id, p)
	if err != nil {
		return nil, err
	}
	home := p.SessionID
	if home == "" {
		home = event.RuntimeSession
	}
	if p.ChannelID != "" {
		known, err := h.m.Channel(ctx, id)
		if err == nil {
			return reopened(known, home, fact)
		}
		if fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
	}
	fact.NodeID = h.nodeIn(home)
	writer := caller
	if p.SessionID == "" {
		writer = runtimeAs(caller, home)
	}
	h.opt.Offer(fact.Tools)
	arrived := h.registerArrival(id, home)
	res, err := session.Write(ctx, h.m, writer, p, home, event.ByChannel|event.BySession, func(tx *session.Tx) (*opened, error) {
		if err := tx.ClaimChannel(id, fact); err != nil {
			return nil, err
		}
		tx.Emit(event.Event{Type: event.TypeChannelConnected, Scope: event.Scope{ChannelID: id}, Payload: fact})
		return &opened{ChannelID: id}, nil
	})
	arrived.settle(context.WithoutCancel(ctx), err)
	return res, err
}

// showToken answers connect_channel with the channel's resume token, which isn't kept.
func (h *Hub) showToken(_ context.Context, _ command.Caller, _ *command.ConnectChannel, kept *opened) (*command.ConnectChannelResult, error) {
	return &command.ConnectChannelResult{ChannelID: kept.ChannelID, ResumeToken: h.resumeToken(kept.ChannelID)}, nil
}

// reopened answers the opening of a channel that exists.
func reopened(known *session.Channel, home string, fact *event.ChannelConnected) (*opened, error) {
	if known.Home != home || known.Account() != fact.ConnectedBy.Account || known.Opened.EnrolledRole != fact.EnrolledRole || !sameConnection(&known.Opened, fact) {
		return nil, fault.New(fault.Conflict, "channel %s already exists with different parameters; choose another id, or repeat the same parameters", known.ID)
	}
	return &opened{ChannelID: known.ID}, nil
}

// sameConnection compares what a caller chooses.
func sameConnection(a, b *event.ChannelConnected) bool {
	chosen := func(c event.ChannelConnected) []byte {
		c.ConnectedBy, c.ResumeTokenRef, c.NodeID = nil, "", ""
		out, _ := json.Marshal(c) //nolint:errchkjson // it was encoded before
		return out
	}
	return bytes.Equal(chosen(*a), chosen(*b))
}

// enrolment is the fact that opens a channel.
func (h *Hub) enrolment(caller command.Caller, id string, p *command.ConnectChannel) (*event.ChannelConnected, error) {
	fact := &event.ChannelConnected{
		Transport: p.Transport, PeerRole: p.PeerRole, AccountRef: h.redactText(p.AccountRef), NativeProtocol: p.NativeProtocol,
		Capabilities: slices.Clone(p.Capabilities), ResumeTokenRef: tokenRef(h.resumeToken(id)),
		ConnectedBy: session.ActorOf(caller), EnrolledRole: roleOf(caller),
	}
	if p.SessionID != "" {
		fact.Sessions = []string{p.SessionID}
	}
	var err error
	fact.Tools, err = h.checkTools(p.Tools)
	return fact, err
}

// roleOf is the role of a caller that may change something.
func roleOf(caller command.Caller) string {
	if caller.Admin {
		return "admin"
	}
	return "client"
}

// checkTools checks the tools of a peer.
func (h *Hub) checkTools(given []event.ChannelTool) ([]event.ChannelTool, error) {
	var out []event.ChannelTool
	names := map[string]bool{}
	size := 0
	for i := range given {
		t, err := h.checkTool(given[i])
		switch {
		case err != nil:
			return nil, err
		case names[t.ToolName]:
			return nil, fault.Param("tools", "tool %s is listed twice", t.ToolName)
		}
		names[t.ToolName] = true
		if size += len(t.Description) + len(t.InputSchema); size > maxToolBytes {
			return nil, fault.Param("tools", "descriptions and schemas together exceed %d bytes", maxToolBytes)
		}
		out = append(out, t)
	}
	return out, nil
}

func (h *Hub) checkTool(t event.ChannelTool) (event.ChannelTool, error) {
	switch {
	case len(t.Description) > maxDescription:
		return t, fault.Param("tools", "the description of %s is longer than %d bytes", t.ToolName, maxDescription)
	case len(t.InputSchema) > maxSchema:
		return t, fault.Param("tools", "the schema of %s is longer than %d bytes", t.ToolName, maxSchema)
	case t.TimeoutMs > maxToolTimeoutMs:
		return t, fault.Param("tools", "the time limit of %s is longer than a day", t.ToolName)
	}
	if len(t.InputSchema) == 0 {
		t.InputSchema = event.Raw(`{"type":"object"}`)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, h.redactJSON(t.InputSchema)); err != nil {
		return t, fault.Param("tools", "the schema of %s is not JSON: %s", t.ToolName, err)
	}
	t.InputSchema, t.Description = compact.Bytes(), h.redactText(t.Description)
	if h.opt.CheckTool != nil {
		if err := h.opt.CheckTool(&t); err != nil {
			return t, fault.Param("tools", "%s can't be offered: %s", t.ToolName, err)
		}
	}
	return t, nil
}

// resumeToken is a channel's resume token: 256 bits that can't be guessed without the
// key, and that need not be stored.
func (h *Hub) resumeToken(id string) string {
	mac := hmac.New(sha256.New, h.opt.Key)
	mac.Write([]byte("resume token\n" + id))
	return "rt_" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// tokenRef names a token in facts: its hash.
func tokenRef(token string) string {
	sum := sha256.Sum256([]byte("agentd resume token\n" + token))
	return "resume:" + hex.EncodeToString(sum[:])
}

// tokenMatchesRef reports whether a token is the one that a reference names.
func tokenMatchesRef(token, ref string) bool {
	return subtle.ConstantTimeCompare([]byte(tokenRef(token)), []byte(ref)) == 1
}

// redactJSON takes secrets out of a JSON value.
func (h *Hub) redactJSON(v event.Raw) event.Raw {
	if h.opt.Redact == nil || len(v) == 0 {
		return v
	}
	return h.opt.Redact(v)
}

// redactText takes secrets out of a text.
func (h *Hub) redactText(s string) string {
	if h.opt.Redact == nil || s == "" {
		return s
	}
	v, err := json.Marshal(s)
	if err != nil {
		return s
	}
	var out string
	if json.Unmarshal(h.opt.Redact(v), &out) != nil {
		return ""
	}
	return out
}
