package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// body is the request in the vendor's form.
func (p *Provider) body(r *model.Request) httpstream.Body {
	o := p.conn.NewObject()
	o.String("model", r.Model)
	o.Pieces("messages", p.messages(r))
	if len(r.Tools) > 0 {
		o.Raw("tools", p.conn.Tools("", r.Tools, encodeTools))
	}
	if len(r.OutputSchema) > 0 {
		o.Raw("response_format", responseFormat(r.OutputSchema))
	}
	if r.MaxOutputTokens > 0 {
		name := "max_tokens"
		if p.vendor {
			name = "max_completion_tokens"
		}
		o.Raw(name, strconv.AppendInt(nil, r.MaxOutputTokens, 10))
	}
	if p.vendor && r.CacheKey != "" {
		o.String("prompt_cache_key", r.CacheKey)
	}
	o.Raw("stream", []byte("true"))
	o.Raw("stream_options", []byte(`{"include_usage":true}`))
	return o.Body()
}

// messages is the list of messages, in pieces. The media of tools' results follow
// the last result of a group: nothing may stand between results of one answer.
func (p *Provider) messages(r *model.Request) [][]byte {
	out := [][]byte{[]byte("[")}
	if r.System != "" {
		out = append(out, append(closed(httpstream.AppendString([]byte(`{"role":"system","content":`), r.System)), ','))
	}
	out = append(out, r.Joined(p.form, func(dst []byte, i int) []byte { return p.join(dst, r.Messages, i) }))
	for _, m := range lastResults(r.Messages) {
		out = append(out, p.media(nil, m))
	}
	// Each of them ends with a comma.
	last := &out[len(out)-1]
	for len(*last) == 0 && len(out) > 2 {
		out = out[:len(out)-1]
		last = &out[len(out)-1]
	}
	*last = bytes.TrimSuffix(*last, comma)
	return append(out, []byte("]"))
}

// join appends the i-th message, and before it the media of the results that end
// with it.
func (p *Provider) join(dst []byte, messages []*model.Message, i int) []byte {
	m := messages[i]
	if m.Role != model.RoleTool {
		for _, result := range lastResults(messages[:i]) {
			dst = p.media(dst, result)
		}
	}
	first, _, _ := bytes.Cut(p.encode(m), newline)
	return append(append(dst, first...), ',')
}

// media appends the media of a result, if it has some.
func (p *Provider) media(dst []byte, m *model.Message) []byte {
	if len(m.Media) == 0 {
		return dst
	}
	_, second, ok := bytes.Cut(p.encode(m), newline)
	if !ok || len(second) == 0 {
		return dst
	}
	return append(append(dst, second...), ',')
}

// lastResults returns the results of tools at the end.
func lastResults(messages []*model.Message) []*model.Message {
	n := len(messages)
	for n > 0 && messages[n-1].Role == model.RoleTool {
		n--
	}
	return messages[n:]
}

var comma = []byte(",")

// newline parts a tool's result from its media in the encoded form. JSON as it is
// written here holds none.
var newline = []byte("\n")

func closed(b []byte) []byte { return append(b, '}') }

// encode returns a message in the vendor's form.
func (p *Provider) encode(m *model.Message) []byte {
	switch m.Role {
	case model.RoleAssistant:
		return p.assistant(m)
	case model.RoleTool:
		b := httpstream.AppendString([]byte(`{"role":"tool","tool_call_id":`), p.callID(m.ToolCallID))
		b = httpstream.AppendString(append(b, `,"content":`...), httpstream.ResultText(m))
		b = closed(b)
		if len(m.Media) > 0 {
			b = append(b, newline...)
			b = append(b, user("From "+m.ToolName+":", m.Media)...)
		}
		return b
	}
	return user(m.Text, m.Media)
}

// callID keeps the ids of compatible servers, some of which read them.
func (p *Provider) callID(id string) string {
	if p.vendor || id == "" {
		return httpstream.CallID(id)
	}
	return id
}

func (p *Provider) assistant(m *model.Message) []byte {
	b := []byte(`{"role":"assistant","content":`)
	if m.Text == "" && len(m.ToolCalls) > 0 {
		b = append(b, "null"...)
	} else {
		b = httpstream.AppendString(b, m.Text)
	}
	var members []byte
	var extras []callExtra
	if m.NativeBy == p.Name() {
		members, extras = parted(m.Native)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = httpstream.AppendString(append(b, `{"type":"function","id":`...), p.callID(c.ProviderID))
		b = httpstream.AppendString(append(b, `,"function":{"name":`...), httpstream.ToolName(c.Name))
		b = closed(httpstream.AppendString(append(b, `,"arguments":`...), string(httpstream.Arguments(c))))
		if len(extras) == len(m.ToolCalls) && json.Valid(extras[i].Extra) {
			b = append(append(b, `,"extra_content":`...), extras[i].Extra...)
		}
		b = closed(b)
	}
	if len(m.ToolCalls) > 0 {
		b = append(b, ']')
	}
	return closed(appendMembers(b, members))
}

// appendMembers adds the members of an object that the decoder made.
func appendMembers(b, native []byte) []byte {
	native = bytes.TrimSpace(native)
	if len(native) <= 2 || native[0] != '{' || !json.Valid(native) {
		return b
	}
	var flat bytes.Buffer
	if json.Compact(&flat, native) != nil {
		return b
	}
	b = append(b, ',')
	return append(b, flat.Bytes()[1:flat.Len()-1]...)
}

// user is a user's message: a bare text, which every server takes, or parts.
func user(text string, media []model.Media) []byte {
	b := []byte(`{"role":"user","content":`)
	if len(media) == 0 {
		return closed(httpstream.AppendString(b, text))
	}
	b = append(b, '[')
	if text != "" {
		b = appendText(b, text)
	}
	for i := range media {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = appendMedia(b, &media[i])
	}
	return append(b, "]}"...)
}

func appendText(b []byte, text string) []byte {
	return closed(httpstream.AppendString(append(b, `{"type":"text","text":`...), text))
}

func appendMedia(b []byte, m *model.Media) []byte {
	switch kind := httpstream.MediaKind(m); {
	case kind == httpstream.KindImage:
		b = append(b, `{"type":"image_url","image_url":{"url":`...)
		if m.Data != nil {
			b = httpstream.AppendDataURL(b, m.MediaType, m.Data)
		} else {
			b = httpstream.AppendString(b, m.URL)
		}
		return append(b, "}}"...)
	case kind == httpstream.KindAudio && m.Data != nil:
		b = httpstream.AppendBase64(append(b, `{"type":"input_audio","input_audio":{"data":`...), m.Data)
		b = httpstream.AppendString(append(b, `,"format":`...), audioFormat(m.MediaType))
		return append(b, "}}"...)
	case kind == httpstream.KindPDF && m.Data != nil:
		name := m.Name
		if name == "" {
			name = "file.pdf"
		}
		b = httpstream.AppendString(append(b, `{"type":"file","file":{"filename":`...), name)
		b = httpstream.AppendDataURL(append(b, `,"file_data":`...), m.MediaType, m.Data)
		return append(b, "}}"...)
	}
	return appendText(b, httpstream.MediaText(m))
}

func audioFormat(mediaType string) string {
	if strings.Contains(mediaType, "wav") {
		return "wav"
	}
	return "mp3"
}

func encodeTools(specs []model.ToolSpec) []byte {
	b := []byte{'['}
	for i := range specs {
		t := &specs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = httpstream.AppendString(append(b, `{"type":"function","function":{"name":`...), httpstream.ToolName(t.Name))
		b = httpstream.AppendString(append(b, `,"description":`...), t.Description)
		b = append(append(b, `,"parameters":`...), httpstream.ToolSchema(t)...)
		b = append(b, "}}"...)
	}
	return append(b, ']')
}

func responseFormat(schema []byte) []byte {
	b := []byte(`{"type":"json_schema","json_schema":{"name":"answer","strict":`)
	b = strconv.AppendBool(b, httpstream.IsStrict(schema))
	b = append(append(b, `,"schema":`...), schema...)
	return append(b, "}}"...)
}
