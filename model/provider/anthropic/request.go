package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// body is the request in the vendor's form.
func (p *Provider) body(r *model.Request) httpstream.Body {
	o := p.conn.NewObject()
	o.String("model", r.Model)
	limit := r.MaxOutputTokens
	if limit <= 0 {
		limit = defaultMaxTokens
	}
	o.Raw("max_tokens", strconv.AppendInt(nil, limit, 10))
	if len(r.Tools) > 0 {
		mark := r.System == ""
		o.Raw("tools", p.conn.Tools(strconv.FormatBool(mark), r.Tools, func(specs []model.ToolSpec) []byte { return encodeTools(specs, mark) }))
	}
	if system := system(r); system != nil {
		o.Raw("system", system)
	}
	o.Pieces("messages", p.messages(r))
	o.Raw("stream", []byte("true"))
	return o.Body()
}

// cacheMark makes the API keep everything before it.
const cacheMark = `,"cache_control":{"type":"ephemeral"}}`

// system is the system text, marked for the cache, and the schema of the answer.
func system(r *model.Request) []byte {
	b := []byte{'['}
	if strings.TrimSpace(r.System) != "" {
		b = marked(appendText(b, r.System))
	}
	if len(r.OutputSchema) > 0 {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendText(b, "Answer with one JSON value that satisfies this JSON Schema, and with nothing else:\n"+string(r.OutputSchema))
	}
	if len(b) == 1 {
		return nil
	}
	return append(b, ']')
}

// marked puts the mark into the object at the end of b.
func marked(b []byte) []byte { return append(b[:len(b)-1], cacheMark...) }

func encodeTools(specs []model.ToolSpec, mark bool) []byte {
	b := []byte{'['}
	for i := range specs {
		t := &specs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = httpstream.AppendString(append(b, `{"name":`...), httpstream.ToolName(t.Name))
		b = httpstream.AppendString(append(b, `,"description":`...), t.Description)
		b = append(append(b, `,"input_schema":`...), httpstream.ToolSchema(t)...)
		b = append(b, '}')
	}
	if mark {
		b = marked(b)
	}
	return append(b, ']')
}

// messages is the conversation, in pieces. The ends of the last two entries of the
// user are marked: the first of them is where the request before this one ended.
func (p *Provider) messages(r *model.Request) [][]byte {
	g := httpstream.Grouped{Form: p.form, Assistant: "assistant", Blocks: "content", Encode: p.encode, Before: notShown}
	joined := g.Join(r)
	if len(joined) == 0 {
		return [][]byte{[]byte("[]")}
	}
	out := [][]byte{[]byte("[")}
	from := 0
	for _, end := range slices.Backward(g.UserEnds(joined, r.Messages, 2)) {
		out = append(out, joined[from:end-1], []byte(cacheMark))
		from = end
	}
	return append(out, joined[from:], []byte(httpstream.GroupedEnd+"]"))
}

// notShown is what a conversation begins with that the model would begin: the API
// wants the user to.
var notShown = appendText(nil, "(The beginning of the conversation is not shown.)")

// encode returns the blocks of a message, with commas between them; nothing for
// a message that says nothing, which the API refuses.
func (p *Provider) encode(m *model.Message) []byte {
	switch m.Role {
	case model.RoleAssistant:
		return p.assistant(m)
	case model.RoleTool:
		return toolResult(m)
	}
	b := appendMedia(nil, m.Media)
	if strings.TrimSpace(m.Text) != "" || len(b) == 0 {
		b = appendText(httpstream.Separated(b), orEmpty(m.Text))
	}
	return b
}

// orEmpty replaces a text without characters, which the API refuses.
func orEmpty(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(empty)"
	}
	return s
}

func appendText(b []byte, text string) []byte {
	return append(httpstream.AppendString(append(b, `{"type":"text","text":`...), text), '}')
}

func (p *Provider) assistant(m *model.Message) []byte {
	if m.NativeBy == p.Name() {
		if b := httpstream.Elements(m.Native); b != nil {
			return b
		}
	}
	var b []byte
	if strings.TrimSpace(m.Text) != "" {
		b = appendText(b, m.Text)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		b = httpstream.AppendString(append(httpstream.Separated(b), `{"type":"tool_use","id":`...), httpstream.CallID(c.ProviderID))
		b = httpstream.AppendString(append(b, `,"name":`...), httpstream.ToolName(c.Name))
		b = append(append(append(b, `,"input":`...), httpstream.Arguments(c)...), '}')
	}
	return b
}

func toolResult(m *model.Message) []byte {
	b := httpstream.AppendString([]byte(`{"type":"tool_result","tool_use_id":`), httpstream.CallID(m.ToolCallID))
	if m.IsError {
		b = append(b, `,"is_error":true`...)
	}
	b = append(b, `,"content":[`...)
	if strings.TrimSpace(m.Text) != "" || len(m.Media) == 0 {
		b = appendText(b, orEmpty(m.Text))
	}
	b = appendMedia(b, m.Media)
	return append(b, "]}"...)
}

func appendMedia(b []byte, media []model.Media) []byte {
	for i := range media {
		b = appendOneMedia(httpstream.Separated(b), &media[i])
	}
	return b
}

func appendOneMedia(b []byte, m *model.Media) []byte {
	var block string
	switch httpstream.MediaKind(m) {
	case httpstream.KindImage:
		block = "image"
	case httpstream.KindPDF:
		block = "document"
	default:
		return appendText(b, httpstream.MediaText(m))
	}
	b = append(append(append(b, `{"type":"`...), block...), `","source":{`...)
	if m.Data == nil {
		b = httpstream.AppendString(append(b, `"type":"url","url":`...), m.URL)
		return append(b, "}}"...)
	}
	b = httpstream.AppendString(append(b, `"type":"base64","media_type":`...), m.MediaType)
	b = httpstream.AppendBase64(append(b, `,"data":`...), m.Data)
	return append(b, "}}"...)
}
