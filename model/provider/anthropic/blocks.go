package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
)

// block is one block of the answer's content.
type block struct {
	kind string
	// as is the block as it began: what is unknown here goes back so.
	as                         json.RawMessage
	id, name, signature, input string
	text                       strings.Builder
	joiner                     httpstream.Joiner
	stopped                    bool
	call                       model.ToolCall
}

// blocks are the blocks of an answer by their index, and in their order.
type blocks struct {
	byIndex map[int]*block
	order   []*block
}

// maxBlocks bounds what a server can make us keep.
const maxBlocks = 4096

func (bs *blocks) start(index int, raw json.RawMessage, a *httpstream.Answer) error {
	if len(bs.order) >= maxBlocks {
		return &model.Error{Category: model.Malformed, Message: "the answer holds too many blocks"}
	}
	var v struct {
		Type      string          `json:"type"`
		Text      httpstream.Text `json:"text"`
		Thinking  httpstream.Text `json:"thinking"`
		Signature string          `json:"signature"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	}
	if err := httpstream.Unmarshal(raw, &v); err != nil {
		return err
	}
	b := &block{kind: v.Type, as: append(json.RawMessage(nil), raw...), id: v.ID, name: v.Name, signature: v.Signature}
	if v.Type == "tool_use" && len(v.Input) > 0 {
		b.input = string(v.Input)
	}
	if bs.byIndex == nil {
		bs.byIndex = map[int]*block{}
	}
	bs.byIndex[index] = b
	bs.order = append(bs.order, b)
	b.add(v.Text+v.Thinking, a)
	return nil
}

func (bs *blocks) delta(ev *streamEvent, a *httpstream.Answer) error {
	b := bs.byIndex[ev.Index]
	if b == nil || b.stopped {
		// A server that leaves the start out still sends its text.
		a.Text(ev.Delta.Text)
		a.Reasoning(ev.Delta.Thinking)
		return nil
	}
	b.signature += ev.Delta.Signature
	b.add(ev.Delta.Text+ev.Delta.Thinking+ev.Delta.PartialJSON, a)
	return nil
}

// add takes a piece of the block's text, whatever the text is.
func (b *block) add(t httpstream.Text, a *httpstream.Answer) {
	if t == "" {
		return
	}
	b.text.WriteString(b.joiner.Add(t))
	switch b.kind {
	case "text":
		a.Text(t)
	case "thinking":
		a.Reasoning(t)
	}
}

func (bs *blocks) stop(index int, a *httpstream.Answer) {
	if b := bs.byIndex[index]; b != nil {
		b.stop(a)
	}
}

// stopAll ends the blocks whose end didn't come.
func (bs *blocks) stopAll(a *httpstream.Answer) {
	for _, b := range bs.order {
		b.stop(a)
	}
}

func (b *block) stop(a *httpstream.Answer) {
	if b.stopped {
		return
	}
	b.stopped = true
	b.text.WriteString(b.joiner.Flush())
	if b.kind == "tool_use" {
		input := b.text.String()
		if input == "" && b.input != "{}" { // which is also what a block begins with
			input = b.input // it came whole with the start
		}
		b.call = a.ToolCall(b.id, b.name, input)
	}
}

// native is the answer's content as it has to come back, if it holds more than
// text and tool calls; otherwise nil.
func (bs *blocks) native() event.Raw {
	if !slices.ContainsFunc(bs.order, func(b *block) bool { return b.kind != "text" && b.kind != "tool_use" }) {
		return nil
	}
	out := []byte{'['}
	for _, b := range bs.order {
		if one := b.native(); one != nil {
			out = append(httpstream.Separated(out), one...)
		}
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, ']')
}

func (b *block) native() []byte {
	switch b.kind {
	case "text":
		if strings.TrimSpace(b.text.String()) == "" {
			return nil
		}
		return appendText(nil, b.text.String())
	case "thinking":
		if b.signature == "" {
			return nil // without its signature the API refuses it
		}
		out := httpstream.AppendString([]byte(`{"type":"thinking","thinking":`), b.text.String())
		out = httpstream.AppendString(append(out, `,"signature":`...), b.signature)
		return append(out, '}')
	case "tool_use":
		out := httpstream.AppendString([]byte(`{"type":"tool_use","id":`), httpstream.CallID(b.call.ProviderID))
		out = httpstream.AppendString(append(out, `,"name":`...), b.name)
		out = append(append(out, `,"input":`...), httpstream.Arguments(&b.call)...)
		return append(out, '}')
	case "redacted_thinking":
		return b.as
	}
	return nil // a block of a tool that the server ran itself can't go back in part
}
