package a2a

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
	"agentd/internal/wire"
	"agentd/state"
)

// Bounds of ids that a peer gives.
const maxID = 256

// checkMessage refuses a message that can't be meant.
func (s *Server) checkMessage(m *proto.Message) error {
	switch {
	case m == nil:
		return badParam("message", "is missing")
	case m.ID == "":
		return badParam("message.messageId", "is missing")
	case !plainID(m.ID):
		return badParam("message.messageId", "is longer than %d bytes or has control characters", maxID)
	case m.ContextID != "" && !plainID(m.ContextID):
		return badParam("message.contextId", "is longer than %d bytes or has control characters", maxID)
	case len(m.TaskID) > maxID:
		return noTask(string(m.TaskID))
	case m.Role != proto.MessageRoleUser:
		return badParam("message.role", "must be ROLE_USER")
	case len(m.Parts) == 0:
		return badParam("message.parts", "is empty")
	case len(m.Parts) > s.opt.MaxParts:
		return badParam("message.parts", "has %d parts; the maximum is %d", len(m.Parts), s.opt.MaxParts)
	}
	for i, p := range m.Parts {
		if p == nil {
			return badParam(fmt.Sprintf("message.parts[%d]", i), "is null")
		}
		if err := checkPart(i, p); err != nil {
			return err
		}
	}
	return nil
}

func plainID(s string) bool {
	return len(s) <= maxID && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}

// checkPart refuses what the agent can't read.
func checkPart(i int, p *proto.Part) error {
	if u := string(p.URL()); u != "" && !webURL(u) {
		return badParam(fmt.Sprintf("message.parts[%d].url", i), "is not an http or https URL")
	}
	if p.MediaType == "" {
		return nil
	}
	name, _, err := mime.ParseMediaType(p.MediaType)
	if err == nil && (strings.HasPrefix(name, "text/") || slices.Contains(inputModes, name)) {
		return nil
	}
	f := errorf(contentType, "message.parts[%d]: the media type %q is not supported", i, wire.Clip(p.MediaType))
	f.metadata = map[string]string{"supported": strings.Join(inputModes, ", ")}
	return f
}

// webURL reports whether a text is an absolute address with http or https.
func webURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// turnInput is a message as a turn takes it.
func turnInput(m *proto.Message, extra string) (event.Raw, error) {
	var parts []command.Part
	for _, p := range m.Parts {
		parts = append(parts, inputPart(p)...)
	}
	if extra != "" {
		parts = append(parts, command.Part{Type: "text", Text: extra})
	}
	if len(parts) == 0 {
		return nil, badParam("message.parts", "has no content")
	}
	return json.Marshal(parts)
}

func inputPart(p *proto.Part) []command.Part {
	media := "file"
	if strings.HasPrefix(p.MediaType, "image/") {
		media = "image"
	}
	switch c := p.Content.(type) {
	case proto.Text:
		if c == "" {
			return nil
		}
		return []command.Part{{Type: "text", Text: string(c)}}
	case proto.Raw:
		if len(c) == 0 {
			return nil
		}
		return []command.Part{{Type: media, Data: base64.StdEncoding.EncodeToString(c), Name: p.Filename, MediaType: p.MediaType}}
	case proto.URL:
		return []command.Part{{Type: media, URL: string(c), Name: p.Filename, MediaType: p.MediaType}}
	case proto.Data:
		b, err := json.Marshal(c.Value)
		if err != nil {
			return nil
		}
		return []command.Part{{Type: "text", Text: string(b)}}
	}
	return nil
}

// keepRaw is the largest content of a file that stays in a task's history.
const keepRaw = 16 << 10

// recordedMessage is a message as the facts keep it: what the turn has of a large file already
// isn't kept twice.
func recordedMessage(m *proto.Message) (event.Raw, error) {
	c := *m
	c.Parts = slices.Clone(m.Parts)
	for i, p := range c.Parts {
		if raw := p.Raw(); len(raw) > keepRaw {
			note := *p
			note.Content = proto.Text(fmt.Sprintf("[a file of %d bytes]", len(raw)))
			c.Parts[i] = &note
		}
	}
	return json.Marshal(&c)
}

// statusMessage is what the agent says with a new state, or nil.
func (v *view) statusMessage(e *event.Event) *proto.Message {
	var parts proto.ContentParts
	switch p := e.Payload.(type) {
	case *event.ActionRequired:
		parts = askParts(e.ActionID, p)
	case *event.TurnCompleted:
		if v.peer.Status == state.PeerRejected && v.answer != "" {
			parts = textParts(v.answer)
		}
	case *event.TurnFailed:
		parts = textParts(v.turn.End.Reason())
	case *event.ActionResolved:
		if waiting := v.actions(); len(waiting) > 0 && isInterrupted(theirState(v.peer.Status)) {
			parts = askParts(waiting[0].ID, waiting[0].ActionRequired)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return &proto.Message{
		ID: shortID("msg_", "message", v.peer.TurnID, e.ID), Role: proto.MessageRoleAgent, TaskID: v.task.ID, ContextID: v.task.ContextID, Parts: parts,
	}
}

// askParts put a question to the peer: for people, and as data that says which
// answers there are.
func askParts(actionID string, p *event.ActionRequired) proto.ContentParts {
	text := orElse(p.Prompt, p.Reason)
	data := map[string]any{"actionId": actionID, "actionType": p.ActionType, "decisions": p.Decisions}
	for name, raw := range map[string]event.Raw{"schema": p.Schema, "safeArgs": p.SafeArgs} {
		var value any
		if len(raw) > 0 && json.Unmarshal(raw, &value) == nil {
			data[name] = value
		}
	}
	for name, value := range map[string]string{"toolName": p.ToolName, "reason": p.Reason, "credentialRef": p.CredentialRef} {
		if value != "" {
			data[name] = value
		}
	}
	if !p.ExpiresAt.IsZero() {
		data["expiresAt"] = p.ExpiresAt.UTC()
	}
	ask := proto.NewDataPart(data)
	ask.MediaType = "application/json"
	if text == "" {
		text = "An answer is needed: " + p.ActionType
	}
	return append(textParts(text), ask)
}
