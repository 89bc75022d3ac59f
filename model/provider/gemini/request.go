package gemini

import (
	"encoding/json"
	"strconv"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// noSignature is what the vendor wants in place of a signature for a call that
// none of its models made.
const noSignature = "skip_thought_signature_validator"

// body is the request in the vendor's form.
func (p *Provider) body(r *model.Request) httpstream.Body {
	o := p.conn.NewObject()
	if r.System != "" {
		b := appendText([]byte(`{"parts":[`), r.System)
		o.Raw("systemInstruction", append(b, "]}"...))
	}
	if len(r.Tools) > 0 {
		o.Raw("tools", p.conn.Tools("", r.Tools, encodeTools))
	}
	o.Pieces("contents", p.contents(r))
	if config := generationConfig(r); len(config) > 2 {
		o.Raw("generationConfig", config)
	}
	return o.Body()
}

func encodeTools(specs []model.ToolSpec) []byte {
	b := []byte(`[{"functionDeclarations":[`)
	for i := range specs {
		t := &specs[i]
		b = httpstream.AppendString(append(httpstream.Separated(b), `{"name":`...), httpstream.ToolName(t.Name))
		b = httpstream.AppendString(append(b, `,"description":`...), t.Description)
		b = append(append(append(b, `,"parametersJsonSchema":`...), httpstream.ToolSchema(t)...), '}')
	}
	return append(b, "]}]"...)
}

func generationConfig(r *model.Request) []byte {
	b := []byte{'{'}
	member := func(name string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(httpstream.AppendString(b, name), ':'), value...)
	}
	if r.MaxOutputTokens > 0 {
		member("maxOutputTokens", strconv.AppendInt(nil, r.MaxOutputTokens, 10))
	}
	if len(r.OutputSchema) > 0 {
		member("responseMimeType", []byte(`"application/json"`))
		if isSubset(r.OutputSchema) {
			member("responseSchema", r.OutputSchema)
		} else {
			member("responseJsonSchema", r.OutputSchema)
		}
	}
	if thinks(r.Model) {
		member("thinkingConfig", []byte(`{"includeThoughts":true}`))
	}
	return append(b, '}')
}

// isSubset tells schemas that the older form can say.
func isSubset(schema []byte) bool {
	var v map[string]any
	return json.Unmarshal(schema, &v) == nil && subset(v)
}

// subsetKeys are the keywords of the older form, with what they hold.
var subsetKeys = map[string]string{
	"type": "type", "title": "", "description": "", "format": "", "nullable": "", "enum": "", "required": "", "default": "", "example": "",
	"maxItems": "", "minItems": "", "maxProperties": "", "minProperties": "", "minLength": "", "maxLength": "", "pattern": "",
	"minimum": "", "maximum": "", "propertyOrdering": "", "properties": "map", "items": "schema", "anyOf": "list",
}

func subset(v map[string]any) bool {
	for key, value := range v {
		holds, known := subsetKeys[key]
		if !known || !subsetValue(holds, value) {
			return false
		}
	}
	return true
}

func subsetValue(holds string, value any) bool {
	switch holds {
	case "type":
		_, one := value.(string)
		return one
	case "schema":
		s, ok := value.(map[string]any)
		return ok && subset(s)
	case "map":
		props, ok := value.(map[string]any)
		for _, p := range props {
			ok = ok && subsetValue("schema", p)
		}
		return ok
	case "list":
		list, ok := value.([]any)
		for _, e := range list {
			ok = ok && subsetValue("schema", e)
		}
		return ok
	}
	return true
}

// contents is the conversation, in pieces. Neighbours of one role become one: the
// results of parallel calls have to.
func (p *Provider) contents(r *model.Request) [][]byte {
	g := httpstream.Grouped{Form: "gemini/" + p.Name(), Assistant: "model", Blocks: "parts", Encode: p.encode}
	if signs(r.Model) {
		g.Form, g.Encode = "gemini-signed/"+p.Name(), p.encodeSigned
	}
	joined := g.Join(r)
	if len(joined) == 0 {
		return [][]byte{[]byte("[]")}
	}
	return [][]byte{[]byte("["), joined, []byte(httpstream.GroupedEnd + "]")}
}

func appendText(b []byte, text string) []byte {
	return append(httpstream.AppendString(append(b, `{"text":`...), text), '}')
}

func (p *Provider) encode(m *model.Message) []byte       { return p.parts(m, false) }
func (p *Provider) encodeSigned(m *model.Message) []byte { return p.parts(m, true) }

// parts returns the parts of a message, with commas between them.
func (p *Provider) parts(m *model.Message, signed bool) []byte {
	switch m.Role {
	case model.RoleAssistant:
		return p.assistant(m, signed)
	case model.RoleTool:
		return appendMedia(toolResult(m), m.Media)
	}
	b := appendMedia(nil, m.Media)
	if m.Text != "" || len(b) == 0 {
		b = appendText(httpstream.Separated(b), m.Text)
	}
	return b
}

func (p *Provider) assistant(m *model.Message, signed bool) []byte {
	if m.NativeBy == p.Name() {
		if b := nativeParts(m.Native); b != nil {
			return b
		}
	}
	var b []byte
	if m.Text != "" {
		b = appendText(b, m.Text)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		b = append(httpstream.Separated(b), '{')
		if signed && i == 0 {
			b = append(b, `"thoughtSignature":"`+noSignature+`",`...)
		}
		b = httpstream.AppendString(append(b, `"functionCall":{"name":`...), httpstream.ToolName(c.Name))
		b = appendID(b, c.ProviderID)
		b = append(append(append(b, `,"args":`...), httpstream.Arguments(c)...), "}}"...)
	}
	return b
}

func appendID(b []byte, id string) []byte {
	if id == "" || httpstream.IsMade(id) {
		return b
	}
	return httpstream.AppendString(append(b, `,"id":`...), id)
}

// nativeParts are the parts that the decoder kept; nil if they are not a list.
func nativeParts(native []byte) []byte {
	var list []json.RawMessage
	if json.Unmarshal(native, &list) != nil || len(list) == 0 {
		return nil
	}
	var b []byte
	for _, part := range list {
		b = append(httpstream.Separated(b), part...)
	}
	return b
}

func toolResult(m *model.Message) []byte {
	b := httpstream.AppendString([]byte(`{"functionResponse":{"name":`), httpstream.ToolName(m.ToolName))
	b = appendID(b, m.ToolCallID)
	key := "output"
	if m.IsError {
		key = "error"
	}
	b = httpstream.AppendString(append(b, `,"response":{"`+key+`":`...), m.Text)
	return append(b, "}}}"...)
}

func appendMedia(b []byte, media []model.Media) []byte {
	for i := range media {
		m := &media[i]
		b = httpstream.Separated(b)
		kind := httpstream.MediaKind(m)
		switch {
		case kind == httpstream.KindText || kind == httpstream.KindOther:
			b = appendText(b, httpstream.MediaText(m))
		case m.Data != nil:
			b = httpstream.AppendString(append(b, `{"inlineData":{"mimeType":`...), m.MediaType)
			b = append(httpstream.AppendBase64(append(b, `,"data":`...), m.Data), "}}"...)
		default:
			b = httpstream.AppendString(append(b, `{"fileData":{"mimeType":`...), m.MediaType)
			b = append(httpstream.AppendString(append(b, `,"fileUri":`...), m.URL), "}}"...)
		}
	}
	return b
}
