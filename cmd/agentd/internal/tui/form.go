package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
)

// form asks for a value that a schema describes: one field for a plain value, a field
// for each property of an object.
type form struct {
	fields []*field
	at     int
	// single says that the value is that of the only field, not an object.
	single bool
}

// field is one line of a form.
type field struct {
	name, kind, help string
	required         bool
	choices          []any
	// chosen is the place in choices, -1 for none.
	chosen int
	typed  editor
	wrong  string
}

// schema is as much of JSON Schema as a form can ask for.
type schema struct {
	Type        any             `json:"type"`
	Enum        []any           `json:"enum"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Required    []string        `json:"required"`
	Properties  json.RawMessage `json:"properties"`
}

func newForm(q *turntext.Question) *form {
	var s schema
	_ = json.Unmarshal(q.Required.Schema, &s) // without one it is a text
	names := propertyNames(s.Properties)
	if len(names) == 0 {
		f := newField("", &s)
		f.required = true
		return &form{fields: []*field{f}, single: true}
	}
	var properties map[string]*schema
	_ = json.Unmarshal(s.Properties, &properties) // names are there, so it is an object
	out := &form{}
	for _, name := range names {
		f := newField(name, properties[name])
		f.required = slices.Contains(s.Required, name)
		out.fields = append(out.fields, f)
	}
	// What is needed comes first, otherwise the order is the schema's.
	slices.SortStableFunc(out.fields, func(a, b *field) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return out
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

func newField(name string, s *schema) *field {
	f := &field{name: name, chosen: -1}
	if s == nil {
		return f
	}
	f.kind, _ = s.Type.(string)
	f.help = strings.TrimSpace(s.Title + " " + s.Description)
	if f.choices = s.Enum; f.kind == "boolean" {
		f.choices = []any{true, false}
	}
	var given any
	if json.Unmarshal(s.Default, &given) == nil && given != nil {
		if f.chosen = slices.IndexFunc(f.choices, func(x any) bool { return fmt.Sprint(x) == fmt.Sprint(given) }); f.chosen < 0 {
			f.typed.set(fieldText(given, s.Default))
		}
	}
	return f
}

func fieldText(v any, raw json.RawMessage) string {
	if text, ok := v.(string); ok {
		return text
	}
	return string(raw)
}

// press takes a key, and reports whether the form is filled in.
func (f *form) press(k tea.Key) bool {
	x := f.fields[f.at]
	switch name := k.Keystroke(); name {
	case "enter":
		if f.at < len(f.fields)-1 {
			f.at++
			return false
		}
		return true
	case "tab":
		f.at = (f.at + 1) % len(f.fields)
	case "shift+tab":
		f.at = (f.at + len(f.fields) - 1) % len(f.fields)
	case "up", "down":
		f.move(x, map[string]int{"up": -1, "down": 1}[name])
	case "left", "right", "space":
		if len(x.choices) == 0 {
			x.typed.press(k)
			break
		}
		x.choose(map[string]int{"left": -1, "right": 1, "space": 1}[name])
	default:
		x.wrong = ""
		if len(x.choices) > 0 {
			x.chooseBy(k.Text)
			break
		}
		x.typed.press(k)
	}
	return false
}

// move goes to another field; in a form with one list it goes through the list.
func (f *form) move(x *field, by int) {
	if len(f.fields) == 1 && len(x.choices) > 0 {
		x.choose(by)
		return
	}
	f.at = min(max(f.at+by, 0), len(f.fields)-1)
}

func (x *field) choose(by int) {
	if x.chosen < 0 && by < 0 {
		x.chosen = 0
	}
	x.chosen = (x.chosen + by + len(x.choices)) % len(x.choices)
	x.wrong = ""
}

// chooseBy chooses by a number, or by the first letters of a value.
func (x *field) chooseBy(text string) {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(x.choices) {
		x.chosen = n - 1
		return
	}
	for i, v := range x.choices {
		if text != "" && strings.HasPrefix(strings.ToLower(fmt.Sprint(v)), strings.ToLower(text)) {
			x.chosen = i
			return
		}
	}
}

func (f *form) paste(text string) {
	if x := f.fields[f.at]; len(x.choices) == 0 {
		x.typed.insert(text)
	}
}

// value is what the field says, as JSON; nothing if it is left out.
func (x *field) value() (v event.Raw, wrong string) {
	text := x.typed.value()
	switch {
	case len(x.choices) > 0 && x.chosen >= 0:
		return turntext.MarshalValue(x.choices[x.chosen]), ""
	case len(x.choices) > 0 || strings.TrimSpace(text) == "":
		if x.required {
			return nil, "is needed"
		}
		return nil, ""
	}
	switch x.kind {
	case "string":
		return turntext.MarshalValue(text), ""
	case "integer":
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return nil, "must be a whole number"
		}
		return turntext.MarshalValue(n), ""
	case "number":
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return nil, "must be a number"
		}
		return turntext.MarshalValue(n), ""
	case "array":
		return listValue(text), ""
	}
	return turntext.InputValue(text), ""
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
	return turntext.MarshalValue(parts)
}

// answer is the filled-in form, or what is wrong with it.
func (f *form) answer(q *turntext.Question) (*command.RespondAction, string) {
	r := &command.RespondAction{ActionID: q.ID, Decision: "submit"}
	object := map[string]json.RawMessage{}
	for i, x := range f.fields {
		v, wrong := x.value()
		if x.wrong = wrong; wrong != "" {
			f.at = i
			return nil, strings.TrimSpace(x.name + " " + wrong)
		}
		if v != nil {
			object[x.name] = v
		}
		r.Payload = v
	}
	if !f.single {
		r.Payload = turntext.MarshalValue(object)
	}
	return r, ""
}

func (f *form) draw(k terminal.Ink, cols int) (lines []string, row, col int) {
	row = -1
	wide := 0
	for _, x := range f.fields {
		wide = max(wide, len([]rune(terminal.Plain(x.name))))
	}
	wide = min(wide, cols/3)
	for i, x := range f.fields {
		lead := "› "
		if wide > 0 {
			mark := "  "
			if i == f.at {
				mark = "▸ "
			}
			need := " "
			if x.required {
				need = "*"
			}
			lead = mark + fmt.Sprintf("%-*s", wide, terminal.Clip(terminal.Plain(x.name), wide)) + need + " "
		}
		if len(x.choices) > 0 {
			if i == f.at {
				row, col = len(lines), ansi.StringWidth(lead)
			}
			lines = append(lines, lead+x.drawChoices(k))
		} else {
			typed, r, at := x.typed.seen(lead, cols)
			if i == f.at {
				row, col = len(lines)+r, at
			}
			lines = append(lines, typed...)
		}
		if i == f.at && x.help != "" {
			lines = append(lines, k.Paint(terminal.Dim, "    "+terminal.Clip(terminal.Plain(x.help), max(cols-6, 10))))
		}
	}
	return lines, row, col
}

func (x *field) drawChoices(k terminal.Ink) string {
	var parts []string
	for i, v := range x.choices {
		text := strconv.Itoa(i+1) + " " + terminal.Plain(fmt.Sprint(v))
		if i == x.chosen {
			parts = append(parts, k.Paint(terminal.Bold, "["+text+"]"))
		} else {
			parts = append(parts, " "+text+" ")
		}
	}
	return strings.Join(parts, " ")
}
