package responses

import (
	"bytes"
	"strconv"
	"strings"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// body is the request in the vendor's form.
func (p *Provider) body(r *model.Request) httpstream.Body {
	o := p.conn.NewObject()
	o.String("model", r.Model)
	if r.System != "" {
		o.String("instructions", r.System)
	}
	o.Pieces("input", p.input(r))
	if len(r.Tools) > 0 {
		o.Raw("tools", p.conn.Tools("", r.Tools, encodeTools))
	}
	if len(r.OutputSchema) > 0 {
		o.Raw("text", textFormat(r.OutputSchema))
	}
	if r.MaxOutputTokens > 0 {
		o.Raw("max_output_tokens", strconv.AppendInt(nil, r.MaxOutputTokens, 10))
	}
	if r.CacheKey != "" {
		o.String("prompt_cache_key", r.CacheKey)
	}
	if reasons(r.Model) {
		o.Raw("include", []byte(`["reasoning.encrypted_content"]`))
	}
	o.Raw("store", []byte("false"))
	o.Raw("stream", []byte("true"))
	return o.Body()
}

// reasons tells models that take a request for encrypted reasoning; the older
// ones refuse it.
func reasons(name string) bool {
	name = strings.ToLower(name)
	for _, old := range []string{"gpt-3", "gpt-4", "chatgpt-"} {
		if strings.HasPrefix(name, old) {
			return false
		}
	}
	return !strings.Contains(name, "-chat")
}

// input is the list of items, in pieces; one message may be several items, or none.
func (p *Provider) input(r *model.Request) [][]byte {
	items := r.Joined(p.form, func(dst []byte, i int) []byte {
		b := p.encode(r.Messages[i])
		if len(b) == 0 {
			return dst
		}
		return append(append(dst, b...), ',')
	})
	return [][]byte{[]byte("["), bytes.TrimSuffix(items, []byte(",")), []byte("]")}
}

// encode returns the items of a message, with commas between them.
func (p *Provider) encode(m *model.Message) []byte {
	switch m.Role {
	case model.RoleAssistant:
		return p.assistant(m)
	case model.RoleTool:
		return toolResult(m)
	}
	b := []byte(`{"type":"message","role":"user","content":[`)
	if m.Text != "" || len(m.Media) == 0 {
		b = appendText(b, m.Text)
	}
	b = appendMedia(b, m.Media)
	return append(b, "]}"...)
}

func appendText(b []byte, text string) []byte {
	return append(httpstream.AppendString(append(b, `{"type":"input_text","text":`...), text), '}')
}

func (p *Provider) assistant(m *model.Message) []byte {
	if m.NativeBy == p.Name() {
		if b := httpstream.Elements(m.Native); b != nil {
			return b
		}
	}
	var b []byte
	if m.Text != "" {
		b = append(b, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":`...)
		b = append(httpstream.AppendString(b, m.Text), "}]}"...)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		b = httpstream.AppendString(append(httpstream.Separated(b), `{"type":"function_call","call_id":`...), httpstream.CallID(c.ProviderID))
		b = httpstream.AppendString(append(b, `,"name":`...), httpstream.ToolName(c.Name))
		b = append(httpstream.AppendString(append(b, `,"arguments":`...), string(httpstream.Arguments(c))), '}')
	}
	return b
}

// toolResult is a text where that is enough, which every server takes.
func toolResult(m *model.Message) []byte {
	b := httpstream.AppendString([]byte(`{"type":"function_call_output","call_id":`), httpstream.CallID(m.ToolCallID))
	b = append(b, `,"output":`...)
	if len(m.Media) == 0 {
		return append(httpstream.AppendString(b, httpstream.ResultText(m)), '}')
	}
	b = append(b, '[')
	if m.Text != "" {
		b = appendText(b, httpstream.ResultText(m))
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
	switch kind := httpstream.MediaKind(m); {
	case kind == httpstream.KindImage && m.Data != nil:
		return append(httpstream.AppendDataURL(append(b, `{"type":"input_image","image_url":`...), m.MediaType, m.Data), '}')
	case kind == httpstream.KindImage:
		return append(httpstream.AppendString(append(b, `{"type":"input_image","image_url":`...), m.URL), '}')
	case kind == httpstream.KindPDF && m.Data != nil:
		name := m.Name
		if name == "" {
			name = "file.pdf"
		}
		b = httpstream.AppendString(append(b, `{"type":"input_file","filename":`...), name)
		return append(httpstream.AppendDataURL(append(b, `,"file_data":`...), m.MediaType, m.Data), '}')
	case kind == httpstream.KindPDF:
		return append(httpstream.AppendString(append(b, `{"type":"input_file","file_url":`...), m.URL), '}')
	}
	return appendText(b, httpstream.MediaText(m))
}

// encodeTools says that the schemas are not strict: the API would otherwise refuse
// those with optional properties.
func encodeTools(specs []model.ToolSpec) []byte {
	b := []byte{'['}
	for i := range specs {
		t := &specs[i]
		b = httpstream.AppendString(append(httpstream.Separated(b), `{"type":"function","strict":false,"name":`...), httpstream.ToolName(t.Name))
		b = httpstream.AppendString(append(b, `,"description":`...), t.Description)
		b = append(append(append(b, `,"parameters":`...), httpstream.ToolSchema(t)...), '}')
	}
	return append(b, ']')
}

func textFormat(schema []byte) []byte {
	b := strconv.AppendBool([]byte(`{"format":{"type":"json_schema","name":"answer","strict":`), httpstream.IsStrict(schema))
	b = append(append(b, `,"schema":`...), schema...)
	return append(b, "}}"...)
}
