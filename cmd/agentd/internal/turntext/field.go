package turntext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
)

// Field is a value that a person fills in, as a schema describes it.
type Field struct {
	// Name is the property's; a value that is no part of an object has none.
	Name string
	// Kind is the type of JSON Schema, if there is one.
	Kind, Help string
	Required   bool
	// Choices are the only values, if there are some.
	Choices []any
	// Default is what the schema proposes; nil for nothing.
	Default event.Raw
}

// schema is as much of JSON Schema as can be asked for.
type schema struct {
	Type        any             `json:"type"`
	Enum        []any           `json:"enum"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Required    []string        `json:"required"`
	Properties  json.RawMessage `json:"properties"`
}

// Fields are what a question asks for: the properties of an object, those that are needed
// first, or one field for a value that is no object.
func (q *Question) Fields() (fields []Field, isObject bool) {
	var s schema
	_ = json.Unmarshal(q.Required.Schema, &s) // without one it is a text
	names := propertyNames(s.Properties)
	if len(names) == 0 {
		f := newField("", &s)
		f.Required = true
		return []Field{f}, false
	}
	var properties map[string]*schema
	_ = json.Unmarshal(s.Properties, &properties) // names are there, so it is an object
	for _, name := range names {
		f := newField(name, properties[name])
		f.Required = slices.Contains(s.Required, name)
		fields = append(fields, f)
	}
	slices.SortStableFunc(fields, func(a, b Field) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return fields, true
}

// propertyNames are the names in the order in which the schema has them.
func propertyNames(object json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out []string
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var skip json.RawMessage
		if err != nil || !ok || d.Decode(&skip) != nil {
			return nil
		}
		out = append(out, name)
	}
	return out
}

func newField(name string, s *schema) Field {
	f := Field{Name: name}
	if s == nil {
		return f
	}
	f.Kind, _ = s.Type.(string)
	f.Help = strings.TrimSpace(s.Title + " " + s.Description)
	if f.Choices = s.Enum; f.Kind == "boolean" {
		f.Choices = []any{true, false}
	}
	if len(s.Default) > 0 && string(s.Default) != "null" {
		f.Default = s.Default
	}
	return f
}

// DefaultText is the default as a person would type it; empty for none.
func (f *Field) DefaultText() string {
	return rawText(f.Default)
}

// rawText is a value of JSON, a text without its quotes.
func rawText(raw []byte) string {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text
	}
	return string(raw)
}

// ChoiceText is one of the values of a schema, as a person reads and types it.
func ChoiceText(v any) string { return rawText(MarshalValue(v)) }

// Chosen is the place of a choice that is called by its number or its text; -1 for none.
func (f *Field) Chosen(text string) int {
	if text == "" {
		return -1
	}
	for i, v := range f.Choices {
		if strings.EqualFold(ChoiceText(v), text) {
			return i
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(f.Choices) {
		return n - 1
	}
	return -1
}

// Value is what was typed, as JSON; nothing if the field is left out.
func (f *Field) Value(text string) (v event.Raw, wrong string) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "" && f.Required:
		return nil, "is needed"
	case trimmed == "":
		return nil, ""
	case len(f.Choices) > 0:
		i := f.Chosen(trimmed)
		if i < 0 {
			return nil, fmt.Sprintf("must be 1 to %d, or one of the values", len(f.Choices))
		}
		return MarshalValue(f.Choices[i]), ""
	}
	switch f.Kind {
	case "string":
		return MarshalValue(text), ""
	case "integer":
		n, err := strconv.ParseInt(trimmed, 10, 64)
		if err != nil {
			return nil, "must be a whole number"
		}
		return MarshalValue(n), ""
	case "number":
		n, err := strconv.ParseFloat(trimmed, 64)
		if err != nil {
			return nil, "must be a number"
		}
		return MarshalValue(n), ""
	case "array":
		return listValue(text), ""
	}
	return InputValue(text), ""
}

// listValue reads a list: JSON, or texts with commas between them.
func listValue(text string) event.Raw {
	var list []any
	if json.Unmarshal([]byte(text), &list) == nil {
		return event.Raw(text)
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return MarshalValue(parts)
}

// ObjectValue is the object of values by their fields, in that order; those without a
// value are left out.
func ObjectValue(fields []Field, values []event.Raw) event.Raw {
	var members []string
	for i := range fields {
		if values[i] != nil {
			members = append(members, string(MarshalValue(fields[i].Name))+":"+string(values[i]))
		}
	}
	return event.Raw("{" + strings.Join(members, ",") + "}")
}

// sayValue is a value as people write it: a text without quotes, an object as its names
// and values in their order. What is nested deeper stays JSON.
func sayValue(raw event.Raw) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	first, err := d.Token()
	isObject := first == json.Delim('{')
	if err != nil || !isObject && first != json.Delim('[') {
		return rawText(raw)
	}
	var parts []string
	for d.More() {
		name := ""
		if isObject {
			key, _ := d.Token() // a text: the value was checked when it was made
			name, _ = key.(string)
			name += ": "
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return string(raw)
		}
		parts = append(parts, name+rawText(value))
	}
	return strings.Join(parts, ", ")
}

// MarshalValue returns a value as JSON.
func MarshalValue(v any) event.Raw {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // what JSON was made of can be made JSON again
	}
	return b
}

// InputValue returns a text as JSON: as it is if it is JSON already.
func InputValue(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil
	}
	return quoted
}

// filling asks for the properties of an object one after the other, each in a line.
type filling struct {
	fields   []Field
	isObject bool
	values   []event.Raw
}

// asksFields says that a question is answered by the lines of several fields.
func (q *Question) asksFields() bool {
	if !q.IsInput() || len(q.Choices()) > 0 {
		return false
	}
	if q.filling == nil {
		q.filling = &filling{}
		q.filling.fields, q.filling.isObject = q.Fields()
	}
	return q.filling.isObject
}

// prompt is what stands before the line of the next field.
func (f *filling) prompt() string {
	x := &f.fields[len(f.values)]
	says := []string{map[string]string{"integer": "a whole number", "number": "a number", "array": "a list, with commas"}[x.Kind]}
	var choices []string
	for i, c := range x.Choices {
		choices = append(choices, strconv.Itoa(i+1)+" "+terminal.Plain(ChoiceText(c)))
	}
	says = append(says, strings.Join(choices, ", "), terminal.Plain(x.Help))
	switch text := terminal.Plain(x.DefaultText()); {
	case text != "":
		says = append(says, "nothing means "+text)
	case !x.Required:
		says = append(says, "may be left empty")
	}
	says = slices.DeleteFunc(says, func(s string) bool { return s == "" })
	if name := terminal.Plain(x.Name); len(says) > 0 {
		return name + " (" + strings.Join(says, "; ") + "): "
	}
	return terminal.Plain(x.Name) + ": "
}

// takeLine takes the line of the next field, or all of the object as JSON. The value is there
// once nothing is left to ask for; then it begins again, for an answer that is refused.
func (f *filling) takeLine(line string) (v event.Raw, wrong string) {
	var whole map[string]json.RawMessage
	if len(f.values) == 0 && json.Unmarshal([]byte(line), &whole) == nil && whole != nil {
		return event.Raw(line), ""
	}
	x := &f.fields[len(f.values)]
	if strings.TrimSpace(line) == "" && x.Default != nil {
		line = x.DefaultText()
	}
	v, wrong = x.Value(line)
	if wrong != "" {
		return nil, strings.TrimSpace(terminal.Plain(x.Name) + " " + wrong)
	}
	if f.values = append(f.values, v); len(f.values) < len(f.fields) {
		return nil, ""
	}
	v = ObjectValue(f.fields, f.values)
	f.values = nil
	return v, ""
}
