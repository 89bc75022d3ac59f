package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentd/event"
)

// form is a question as the protocol's forms put it: an object of simple values.
type form struct {
	schema event.Raw
	// single says that the form wraps one value, which is the answer.
	single bool
}

// property is the part of a schema that forms understand.
type property struct {
	Type        string          `json:"type"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	MinLength   *int            `json:"minLength,omitempty"`
	MaxLength   *int            `json:"maxLength,omitempty"`
	Pattern     string          `json:"pattern,omitempty"`
	Format      string          `json:"format,omitempty"`
	Minimum     *json.Number    `json:"minimum,omitempty"`
	Maximum     *json.Number    `json:"maximum,omitempty"`
}

// objectSchema is a schema of simple values.
type objectSchema struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
}

// wrapped is the name of the only value of a form that wraps one.
const wrapped = "value"

// formOf returns a question's form; false if the protocol's forms can't put it.
func formOf(schema event.Raw) (*form, bool) {
	var o objectSchema
	single := true
	var p property
	switch {
	case len(schema) == 0:
		o.Properties = map[string]property{wrapped: {Type: "string"}}
	case json.Unmarshal(schema, &p) != nil:
		return nil, false
	case p.Type == "object":
		single = false
		if json.Unmarshal(schema, &o) != nil || len(o.Properties) == 0 {
			return nil, false
		}
	default:
		if p.Type == "" && len(p.Enum) > 0 {
			p.Type = "string"
		}
		o.Properties = map[string]property{wrapped: p}
	}
	for name, p := range o.Properties {
		if !slices.Contains([]string{"string", "number", "integer", "boolean"}, p.Type) {
			return nil, false
		}
		if !slices.Contains([]string{"email", "uri", "date", "date-time"}, p.Format) {
			p.Format = ""
			o.Properties[name] = p
		}
	}
	o.Type = "object"
	if single {
		o.Required = []string{wrapped}
	}
	b, err := marshalPlain(&o)
	if err != nil {
		return nil, false
	}
	return &form{schema: b, single: single}, true
}

// payload is the answer that a filled form gives.
func (f *form) payload(content map[string]event.Raw) event.Raw {
	if f.single {
		return content[wrapped]
	}
	if content == nil {
		content = map[string]event.Raw{}
	}
	b, err := marshalPlain(content)
	if err != nil {
		return nil
	}
	return b
}

// choicesOf lists the values that a question takes, if it takes a few.
func choicesOf(schema event.Raw) []string {
	var p struct {
		Enum []json.RawMessage `json:"enum"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &p) != nil {
		return nil
	}
	var out []string
	for _, v := range p.Enum {
		out = append(out, strings.Trim(string(v), `"`))
	}
	return out
}

// valueOf turns a text into the value that a question wants: the text itself, or
// the JSON in it.
func valueOf(schema event.Raw, text string) (event.Raw, error) {
	var p struct {
		Type json.RawMessage `json:"type"`
	}
	if len(schema) > 0 {
		_ = json.Unmarshal(schema, &p) // a schema without a type takes a text
	}
	trimmed := strings.TrimSpace(text)
	if kind := string(p.Type); kind != "" && kind != `"string"` && json.Valid([]byte(trimmed)) {
		return event.Raw(trimmed), nil
	}
	b, err := marshalPlain(text)
	if err != nil {
		return nil, fmt.Errorf("acp: answer: %w", err)
	}
	return b, nil
}
