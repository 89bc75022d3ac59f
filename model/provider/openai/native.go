package openai

import (
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

// raw is an object whose members belong to the assistant's message; nil if there
// are none.
func (n *native) raw(tools bool) event.Raw {
	members := map[string]any{}
	switch {
	case len(n.details) > 0:
		members["reasoning_details"] = n.details
	case tools && len(n.contentText) > 0:
		members["reasoning_content"] = string(n.contentText)
	case tools && len(n.plainText) > 0:
		members["reasoning"] = string(n.plainText)
	default:
		return nil
	}
	b, err := json.Marshal(members)
	if err != nil {
		return nil // what was read as JSON can be written
	}
	return b
}
