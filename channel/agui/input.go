package agui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// input is what a client asks a run for.
type input struct {
	ThreadID    string            `json:"threadId"`
	RunID       string            `json:"runId"`
	ParentRunID string            `json:"parentRunId"`
	State       json.RawMessage   `json:"state"`
	Messages    []inMessage       `json:"messages"`
	Tools       []json.RawMessage `json:"tools"`
	Context     []struct {
		Description string `json:"description"`
		Value       string `json:"value"`
	} `json:"context"`
	ForwardedProps props    `json:"forwardedProps"`
	Resume         []answer `json:"resume"`
}

// props are the properties that have a meaning here.
type props struct {
	// Model as "provider/model" and PermissionMode are those of the turn.
	Model          string `json:"model"`
	PermissionMode string `json:"permissionMode"`
	// OnDisconnect "continue" lets the turn go on when the client goes away.
	OnDisconnect string `json:"onDisconnect"`
}

// UnmarshalJSON reads the properties of an object; anything else has none.
func (p *props) UnmarshalJSON(b []byte) error {
	type plain props
	var read plain
	if json.Unmarshal(b, &read) == nil {
		*p = props(read)
	}
	return nil
}

// answer is an answer to an interrupt.
type answer struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"`
	Payload     json.RawMessage `json:"payload"`
}

// inMessage is a message of the client's history.
type inMessage struct {
	ID      string          `json:"id"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// parts reads the content of a message.
func (m *inMessage) parts(at string) ([]command.Part, error) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []command.Part{{Type: "text", Text: text}}, nil
	}
	var list []struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Source struct {
			Type     string `json:"type"`
			Value    string `json:"value"`
			MimeType string `json:"mimeType"`
		} `json:"source"`
	}
	if json.Unmarshal(m.Content, &list) != nil {
		return nil, fault.Param(at, "is neither a string nor a list of parts")
	}
	var out []command.Part
	for i := range list {
		c := &list[i]
		p := command.Part{MediaType: c.Source.MimeType}
		switch c.Type {
		case "text":
			p = command.Part{Type: "text", Text: c.Text}
		case "image":
			p.Type = "image"
		case "document":
			p.Type = "file"
		default:
			return nil, fault.Param(fmt.Sprintf("%s[%d].type", at, i), "%.40q is not supported; use text, image or document", c.Type)
		}
		switch c.Source.Type {
		case "data":
			p.Data = c.Source.Value
		case "url":
			p.URL = c.Source.Value
		}
		out = append(out, p)
	}
	return out, nil
}

// turnInput makes the input of a turn out of a run's messages; nil if nothing is
// new. Of a conversation that the session has already only what comes after its
// last answer is.
func (in *input) turnInput(known bool) (event.Raw, error) {
	last := -1
	for i := range in.Messages {
		switch in.Messages[i].Role {
		case "assistant", "tool", "reasoning", "activity":
			last = i
		}
	}
	var fresh []command.Part
	var rules, before []string
	for i := range in.Messages {
		m := &in.Messages[i]
		parts, err := m.parts(fmt.Sprintf("messages[%d].content", i))
		if m.Role == "activity" {
			continue // its content is the front end's own
		}
		if err != nil {
			return nil, err
		}
		switch text := textOf(parts); {
		case m.Role == "system" || m.Role == "developer":
			if !known || i > last {
				rules = append(rules, text)
			}
		case i > last && m.Role == "user":
			fresh = append(fresh, parts...)
		case !known && text != "" && (m.Role == "user" || m.Role == "assistant"):
			before = append(before, m.Role+": "+text)
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	return json.Marshal(append(in.head(rules, before), fresh...))
}

// head is what stands before the new messages.
func (in *input) head(rules, before []string) []command.Part {
	var out []command.Part
	add := func(title string, lines []string) {
		if len(lines) > 0 {
			out = append(out, command.Part{Type: "text", Text: title + "\n" + strings.Join(lines, "\n\n") + "\n"})
		}
	}
	add("Instructions for this conversation:", rules)
	var about []string
	for _, c := range in.Context {
		about = append(about, c.Description+": "+c.Value)
	}
	add("What the application tells:", about)
	add("The conversation so far:", before)
	return out
}

func textOf(parts []command.Part) string {
	var out []string
	for i := range parts {
		if parts[i].Type == "text" {
			out = append(out, parts[i].Text)
		}
	}
	return strings.Join(out, "\n")
}

// decision turns an answer into ours. Whatever isn't a clear yes is none.
func (x *answer) decision(act *turnview.Action) *command.RespondAction {
	r := &command.RespondAction{ActionID: x.InterruptID}
	switch {
	case x.Status == "cancelled" && slices.Contains(act.Decisions, "cancel"):
		r.Decision = "cancel"
	case x.Status != "resolved":
		r.Decision = "deny"
	case act.WantsValue():
		r.Decision, r.Payload = "submit", x.Payload
	default:
		r.Decision, r.Scope, r.Reason = x.approval()
		if act.ActionType == planApproval && r.Decision == "allow" {
			r.Scope, r.Payload = "", x.mode()
		}
	}
	return r
}

// mode is what the approval of a plan says about how it is carried out.
func (x *answer) mode() event.Raw {
	var p struct {
		PermissionMode string `json:"permissionMode"`
	}
	if json.Unmarshal(x.Payload, &p) != nil || p.PermissionMode == "" {
		return nil
	}
	b, err := json.Marshal(&p)
	if err != nil {
		return nil // a text always encodes
	}
	return b
}

// approval reads a yes or a no: true, {"approved": true} or {"decision": "allow"}. What
// can't be read as a whole, or says both, is no yes.
func (x *answer) approval() (decision, scope, reason string) {
	var yes bool
	if json.Unmarshal(x.Payload, &yes) == nil {
		if yes {
			return "allow", "", ""
		}
		return "deny", "", ""
	}
	var p struct {
		Approved *bool  `json:"approved"`
		Decision string `json:"decision"`
		Scope    string `json:"scope"`
		Reason   string `json:"reason"`
	}
	if json.Unmarshal(x.Payload, &p) != nil {
		return "deny", "", ""
	}
	approved := p.Approved == nil || *p.Approved
	decided := p.Decision == "" || p.Decision == "allow"
	if approved && decided && (p.Approved != nil || p.Decision != "") {
		return "allow", p.Scope, p.Reason
	}
	return "deny", "", p.Reason
}
