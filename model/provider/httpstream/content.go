package httpstream

import (
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/event"
	"agentd/model"
)

// Kinds of media that vendors treat differently.
const (
	KindImage = "image"
	KindAudio = "audio"
	KindPDF   = "pdf"
	KindText  = "text"
	KindOther = "other"
)

// MediaKind says how a piece of media can be given to a model. Text that isn't
// there, only its address, is other.
func MediaKind(m *model.Media) string {
	base, _, err := mime.ParseMediaType(m.MediaType)
	if err != nil {
		base = strings.ToLower(m.MediaType)
	}
	switch {
	case strings.HasPrefix(base, "image/"):
		return KindImage
	case strings.HasPrefix(base, "audio/"):
		return KindAudio
	case base == "application/pdf":
		return KindPDF
	case m.Data != nil && utf8.Valid(m.Data) && (strings.HasPrefix(base, "text/") || textTypes[base] || base == ""):
		return KindText
	}
	return KindOther
}

var textTypes = map[string]bool{
	"application/json": true, "application/xml": true, "application/yaml": true, "application/x-yaml": true, "application/toml": true,
	"application/javascript": true, "application/x-sh": true, "application/sql": true,
}

// MediaText is media as text: the content of a text file with its name, or for
// what a model can't be given, a note that says so. Nothing is left out silently.
func MediaText(m *model.Media) string {
	name := m.Name
	if name == "" {
		name = "file"
	}
	switch {
	case MediaKind(m) == KindText:
		return fmt.Sprintf("%s:\n%s", name, m.Data)
	case m.Data == nil && m.URL != "":
		return fmt.Sprintf("[%s, %s, at %s: not shown to this model]", name, m.MediaType, m.URL)
	}
	return fmt.Sprintf("[%s, %s, %d bytes: not shown to this model]", name, m.MediaType, len(m.Data))
}

// ResultText is the text of a tool's result for vendors that have no mark for
// errors.
func ResultText(m *model.Message) string {
	if m.IsError && !strings.HasPrefix(strings.ToLower(m.Text), "error") {
		return "Error: " + m.Text
	}
	return m.Text
}

// Arguments of a call as they are given back: an object, also where the model
// sent something else.
func Arguments(c *model.ToolCall) []byte {
	if len(c.Arguments) == 0 {
		return []byte("{}")
	}
	return c.Arguments
}

// ToolSchema is the schema of a tool's arguments; one without is an object
// without properties.
func ToolSchema(t *model.ToolSpec) []byte {
	if len(t.Schema) == 0 {
		return []byte(`{"type":"object","properties":{}}`)
	}
	return t.Schema
}

// IsStrict tells whether a schema satisfies what vendors ask of one that they
// promise to keep to: each object lists all its properties as required and allows
// no others.
func IsStrict(schema event.Raw) bool {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return false
	}
	root, ok := v.(map[string]any)
	return ok && root["type"] == "object" && strict(v)
}

func strict(v any) bool {
	switch v := v.(type) {
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !strict(e) })
	case map[string]any:
		if !strictObject(v) {
			return false
		}
		for key, e := range v {
			if looseKeys[key] || !strict(e) {
				return false
			}
		}
	}
	return true
}

// looseKeys are keywords that strict schemas don't have.
var looseKeys = map[string]bool{
	"allOf": true, "oneOf": true, "not": true, "if": true, "then": true, "else": true, "patternProperties": true,
	"dependentRequired": true, "dependentSchemas": true, "unevaluatedProperties": true, "propertyNames": true,
}

func strictObject(v map[string]any) bool {
	props, has := v["properties"].(map[string]any)
	if !has {
		return v["type"] != "object"
	}
	required, _ := v["required"].([]any)
	for name := range props {
		if !slices.Contains(required, any(name)) {
			return false
		}
	}
	return v["additionalProperties"] == false
}
