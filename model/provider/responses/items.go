package responses

import (
	"bytes"
	"encoding/json"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
)

// item is one item of the answer's output.
type item struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments httpstream.Text `json:"arguments"`
	Phase     string          `json:"phase"`
	Encrypted string          `json:"encrypted_content"`
	Content   []part          `json:"content"`
	Summary   []part          `json:"summary"`
}

type part struct {
	Type    string          `json:"type"`
	Text    httpstream.Text `json:"text"`
	Refusal httpstream.Text `json:"refusal"`
}

// items follows the items of an answer.
type items struct {
	// came says that items came one by one.
	came    bool
	refused bool
	written map[int]bool
	summary map[int]int
	kept    [][]byte
	// special says that there is more than texts and calls can express.
	special bool
}

// wrote notes that text of the item came in pieces.
func (s *items) wrote(index int) {
	if s.written == nil {
		s.written = map[int]bool{}
	}
	if len(s.written) < httpstream.MaxToolCalls {
		s.written[index] = true
	}
}

// reasoned notes a piece of reasoning; true says that it begins a new part.
func (s *items) reasoned(index, part int) bool {
	s.wrote(index)
	if s.summary == nil {
		s.summary = map[int]int{}
	}
	before, known := s.summary[index]
	if len(s.summary) < httpstream.MaxToolCalls {
		s.summary[index] = part
	}
	return known && before != part
}

// done takes a finished item.
func (s *items) done(index int, raw json.RawMessage, a *httpstream.Answer) error {
	if len(s.kept) >= httpstream.MaxToolCalls {
		return &model.Error{Category: model.Malformed, Message: "the answer holds too many items"}
	}
	var it item
	if err := httpstream.Unmarshal(raw, &it); err != nil {
		return err
	}
	s.came = true
	switch it.Type {
	case "function_call":
		c := a.ToolCall(it.CallID, it.Name, string(it.Arguments))
		s.kept = append(s.kept, encodeCall(&c, &it))
		return nil
	case "message":
		s.message(index, &it, a)
	case "reasoning":
		if !s.written[index] {
			for _, p := range it.Summary {
				a.ReasoningSummary(p.Text)
			}
			for _, p := range it.Content {
				a.Reasoning(p.Text)
			}
		}
		if it.Encrypted == "" {
			return nil // the server keeps nothing, so it wouldn't know it again
		}
		s.special = true
	default:
		return nil // what the server did itself
	}
	s.kept = append(s.kept, stripped(raw))
	return nil
}

func (s *items) message(index int, it *item, a *httpstream.Answer) {
	s.special = s.special || it.Phase != ""
	for _, p := range it.Content {
		s.refused = s.refused || p.Type == "refusal"
		if !s.written[index] {
			a.Text(p.Text)
			a.Text(p.Refusal)
		}
	}
}

// encodeCall is a function call as it goes back: with the id under which its result
// comes, and with arguments that are an object.
func encodeCall(c *model.ToolCall, it *item) []byte {
	b := httpstream.AppendString([]byte(`{"type":"function_call","call_id":`), httpstream.CallID(c.ProviderID))
	b = httpstream.AppendString(append(b, `,"name":`...), it.Name)
	return append(httpstream.AppendString(append(b, `,"arguments":`...), string(httpstream.Arguments(c))), '}')
}

// stripped is an item without what only an answer has.
func stripped(raw json.RawMessage) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return bytes.Clone(raw)
	}
	delete(members, "status")
	b, err := json.Marshal(members)
	if err != nil {
		return bytes.Clone(raw)
	}
	return b
}

// native is the output as it has to come back, if it holds more than texts and
// calls; otherwise nil.
func (s *items) native() event.Raw {
	if !s.special {
		return nil
	}
	return append(append([]byte{'['}, bytes.Join(s.kept, []byte(","))...), ']')
}
