package openai

import (
	"bytes"
	"encoding/json"
	"reflect"

	"agentd/event"
	"agentd/model/provider/httpstream"
)

// native gathers what goes back with the answer.
type native struct {
	content, plain httpstream.Joiner
	contentText    []byte
	plainText      []byte
	details        []map[string]any
	// extras are what calls brought along, by their index.
	extras map[int]json.RawMessage
}

func (n *native) add(part *delta) {
	n.contentText = append(n.contentText, n.content.Add(part.ReasoningContent)...)
	n.plainText = append(n.plainText, n.plain.Add(part.Reasoning)...)
	for _, d := range part.ReasoningDetails {
		n.detail(d)
	}
}

// detail adds a piece of reasoning_details. Pieces of one detail follow each
// other and have its type and index.
func (n *native) detail(piece map[string]any) {
	if len(n.details) == 0 || !samePiece(n.details[len(n.details)-1], piece) {
		n.details = append(n.details, piece)
		return
	}
	whole := n.details[len(n.details)-1]
	for key, value := range piece {
		text, isText := value.(string)
		before, wasText := whole[key].(string)
		switch {
		case isText && wasText && (key == "text" || key == "summary" || key == "data"):
			whole[key] = before + text
		case value != nil:
			whole[key] = value
		}
	}
}

func samePiece(a, b map[string]any) bool {
	return b["index"] != nil && reflect.DeepEqual(a["type"], b["type"]) && reflect.DeepEqual(a["index"], b["index"])
}

// extra keeps what a call brings along; a later piece of it replaces an earlier one.
func (n *native) extra(index int, value json.RawMessage) {
	if len(value) == 0 || value[0] != '{' {
		return
	}
	if n.extras == nil {
		n.extras = map[int]json.RawMessage{}
	}
	n.extras[index] = bytes.Clone(value)
}

// callExtra is what goes back with one call.
type callExtra struct {
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

// extraOf returns what belongs to the calls with the indices, in their order; nil
// if none brought anything.
func (n *native) extraOf(calls []int) []callExtra {
	if len(n.extras) == 0 {
		return nil
	}
	out := make([]callExtra, len(calls))
	for i, index := range calls {
		out[i].Extra = n.extras[index]
	}
	return out
}

// extraMember holds what belongs to the calls, not to the message.
const extraMember = "tool_calls"

// raw is an object whose members belong to the assistant's message, but for
// extraMember; nil if there are none.
func (n *native) raw(calls []int) event.Raw {
	members := map[string]any{}
	switch tools := len(calls) > 0; {
	case len(n.details) > 0:
		members["reasoning_details"] = n.details
	case tools && len(n.contentText) > 0:
		members["reasoning_content"] = string(n.contentText)
	case tools && len(n.plainText) > 0:
		members["reasoning"] = string(n.plainText)
	}
	if extra := n.extraOf(calls); extra != nil {
		members[extraMember] = extra
	}
	if len(members) == 0 {
		return nil
	}
	b, err := json.Marshal(members)
	if err != nil {
		return nil // what was read as JSON can be written
	}
	return b
}

// parted is a native value, taken apart again.
func parted(raw []byte) (members []byte, extras []callExtra) {
	if !bytes.Contains(raw, []byte(`"`+extraMember+`"`)) {
		return raw, nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(all[extraMember], &extras) != nil {
		return raw, nil
	}
	delete(all, extraMember)
	members, err := json.Marshal(all)
	if err != nil {
		return nil, extras // what was read as JSON can be written
	}
	return members, extras
}
