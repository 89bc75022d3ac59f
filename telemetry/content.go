package telemetry

import (
	"encoding/json"

	"agentd/event"
	"agentd/internal/clip"
)

// maxContent bounds one attribute with content, in bytes.
const maxContent = 8 << 10

// contentOf returns an attribute with content, or none where content isn't exported.
// Longer content is cut, and says so; JSON that was cut is JSON no more.
func (p *Projector) contentOf(key, text string) Attr {
	if !p.content || text == "" {
		return Attr{}
	}
	if len(text) > maxContent {
		text = clip.Text(text, maxContent) + " (cut)"
	}
	return Attr{key, text}
}

// The conventions' form of messages.
type (
	contentMessage struct {
		Role         string        `json:"role"`
		Parts        []contentPart `json:"parts"`
		FinishReason string        `json:"finish_reason,omitempty"`
	}
	contentPart struct {
		Type      string    `json:"type"`
		Content   string    `json:"content,omitempty"`
		ID        string    `json:"id,omitempty"`
		Name      string    `json:"name,omitempty"`
		Arguments event.Raw `json:"arguments,omitempty"`
	}
)

func (p *Projector) messages(key string, m contentMessage) Attr {
	if !p.content || len(m.Parts) == 0 {
		return Attr{}
	}
	b, err := json.Marshal([]contentMessage{m})
	if err != nil {
		return Attr{} // arguments that are no JSON
	}
	return p.contentOf(key, string(b))
}

// inputAttr is what a turn was asked. The fact's preview is text of every part.
func (p *Projector) inputAttr(x *event.TurnSubmitted) Attr {
	if x.Preview == "" {
		return Attr{}
	}
	return p.messages(AttrInputMessages, contentMessage{Role: "user", Parts: []contentPart{{Type: "text", Content: x.Preview}}})
}

// outputAttr is what a model answered.
func (p *Projector) outputAttr(x *event.ModelCompleted) Attr {
	if !p.content || (x.Message == nil && x.Preview == "") {
		return Attr{}
	}
	m := contentMessage{Role: "assistant", FinishReason: x.StopReason}
	if x.Preview != "" {
		m.Parts = append(m.Parts, contentPart{Type: "text", Content: x.Preview})
	}
	if x.Message == nil {
		return p.messages(AttrOutputMessages, m)
	}
	if x.Message.Reasoning != "" {
		m.Parts = append(m.Parts, contentPart{Type: "reasoning", Content: x.Message.Reasoning})
	}
	if x.Message.Text != "" {
		m.Parts = append(m.Parts, contentPart{Type: "text", Content: x.Message.Text})
	}
	for _, c := range x.Message.ToolCalls {
		m.Parts = append(m.Parts, contentPart{Type: "tool_call", ID: c.ToolCallID, Name: c.ToolName, Arguments: c.Arguments})
	}
	return p.messages(AttrOutputMessages, m)
}
