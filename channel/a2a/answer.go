package a2a

import (
	"encoding/json"
	"slices"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel/turnview"
	"agentd/event"
	"agentd/internal/wire"
)

// reply is a peer's answer to an action.
type reply struct {
	ActionID string    `json:"actionId"`
	Decision string    `json:"decision"`
	Scope    string    `json:"scope"`
	Payload  event.Raw `json:"payload"`
	Reason   string    `json:"reason"`
}

// words are plain texts that decide about an approval.
var words = map[string]string{
	"allow": "allow", "approve": "allow", "approved": "allow", "yes": "allow",
	"deny": "deny", "denied": "deny", "no": "deny",
	"cancel": "cancel",
}

// wantsValue says that the message itself is the answer: to a question, and the
// reference of a credential.
func wantsValue(a *turnview.Action) bool {
	return a.ActionType == "structured_input" || a.ActionType == "credential"
}

// replyTo reads a message as the answer to one of the actions that wait. The answer
// to a question is the message itself; an approval needs a clear word.
func replyTo(m *proto.Message, waiting []turnview.Action) (*reply, error) {
	r := &reply{}
	text, data := messageContent(m)
	structured := data != nil && r.read(data)
	a := waiting[0]
	if r.ActionID != "" {
		i := slices.IndexFunc(waiting, func(x turnview.Action) bool { return x.ID == r.ActionID })
		if i < 0 {
			return nil, badParam("message.parts", "names the action %s, which is not waiting for an answer", wire.Clip(r.ActionID))
		}
		a = waiting[i]
	}
	r.ActionID = a.ID
	if structured {
		return r, r.check(&a)
	}
	word := words[strings.ToLower(strings.Trim(text, " .!\n\t"))]
	switch {
	case a.ActionType == "credential" && data == nil && word == "cancel":
		r.Decision = word
	case wantsValue(&a) && data != nil:
		b, err := json.Marshal(data)
		if err != nil {
			return nil, badParam("message.parts", "has data that can't be read")
		}
		r.Decision, r.Payload = "submit", b
	case a.ActionType == "credential":
		r.Decision, r.Payload = "submit", typed(strings.TrimSpace(text), a.Schema)
	case wantsValue(&a):
		r.Decision, r.Payload = "submit", typed(text, a.Schema)
	default:
		r.Decision = word
	}
	return r, r.check(&a)
}

// read takes a data part that is an answer: an object with a decision.
func (r *reply) read(data any) bool {
	fields, ok := data.(map[string]any)
	if !ok || (fields["decision"] == nil && fields["actionId"] == nil) {
		return false
	}
	b, err := json.Marshal(fields)
	return err == nil && json.Unmarshal(b, r) == nil
}

func (r *reply) check(a *turnview.Action) error {
	if r.Decision == "" && len(r.Payload) > 0 {
		r.Decision = "submit"
	}
	if slices.Contains(a.Decisions, r.Decision) || (len(a.Decisions) == 0 && r.Decision != "") {
		return nil
	}
	return badParam("message.parts", "doesn't answer the open question (%s): send one of the words %s, or a data part {\"actionId\": %q, \"decision\": …}",
		a.ActionType, strings.Join(a.Decisions, ", "), a.ID)
}

// messageContent returns a message's text, and the value of its first data part.
func messageContent(m *proto.Message) (text string, data any) {
	var texts []string
	for _, p := range m.Parts {
		switch c := p.Content.(type) {
		case proto.Text:
			texts = append(texts, string(c))
		case proto.Data:
			if data == nil {
				data = c.Value
			}
		}
	}
	return strings.Join(texts, "\n"), data
}

// typed is a text as an answer with a schema: JSON, where the schema doesn't ask for
// a text and the text is JSON.
func typed(text string, schema event.Raw) event.Raw {
	var s struct {
		Type any `json:"type"`
	}
	if len(schema) > 0 && json.Unmarshal(schema, &s) == nil && s.Type != nil && s.Type != "string" && json.Valid([]byte(text)) {
		return event.Raw(text)
	}
	b, err := json.Marshal(text)
	if err != nil {
		return nil // a text always encodes
	}
	return b
}
