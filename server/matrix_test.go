//go:build !race

// Every parameter of every command is left out and mistyped, one request after the other.
// The race detector would take a quarter of a minute for that and has nothing to find.

package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/internal/wire"
)

// TestEveryParameterOfEveryTypeIsAnswered gives every command of the catalogue, over
// HTTP and as its published schema describes it, each parameter with each type that it
// must not have, and leaves out each set of required ones. All are refused with a
// problem that names the parameter: a door that panics, blames itself or takes
// something else than it says it takes is found here. What is named is always a
// parameter of that command, not of another one that checks the same thing.
func TestEveryParameterOfEveryTypeIsAnswered(t *testing.T) {
	r := runLive(t)
	asked := 0
	for _, d := range command.Catalog() {
		m := matrix{t: t, r: r, name: string(d.Name)}
		r.getPath("/v1/schemas/command."+m.name+".params.schema.json").decode(t, &m.root)
		m.example = decoded(t, d.Example)
		m.leaveOut(nil, &m.root)
		m.mistype(nil, &m.root)
		asked += m.asked
	}
	t.Logf("%d requests", asked)
}

// schema is the part of a JSON Schema that parameters are described with.
type schema struct {
	Ref                  string            `json:"$ref"`
	Defs                 map[string]schema `json:"$defs"`
	Type                 types             `json:"type"`
	AnyOf                []schema          `json:"anyOf"`
	Enum                 []string          `json:"enum"`
	Pattern              string            `json:"pattern"`
	MinLength            int               `json:"minLength"`
	Required             []string          `json:"required"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Items                *schema           `json:"items"`
	Minimum              *float64          `json:"minimum"`
	Maximum              *float64          `json:"maximum"`
}

// types are the JSON types that a schema allows: one, or a list.
type types []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *types) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(t))
	}
	*t = types{""}
	return json.Unmarshal(b, &(*t)[0])
}

func (t types) has(name string) bool { return slices.Contains(t, name) }

// matrix asks for one command in every wrong way.
type matrix struct {
	t       *testing.T
	r       *running
	name    string
	root    schema
	example any
	asked   int
}

// wrongValues has a value of each JSON type, and more that only some types refuse.
var wrongValues = map[string]any{
	"empty": "", "huge": 9e18,
	"null": nil, "boolean": true, "number": 1.5, "negative": -1.0, "string": "no such value!", "array": []any{[]any{}}, "object": map[string]any{"no such": 1.0},
}

// leaveOut removes each set of an object's required members.
func (m *matrix) leaveOut(path []string, s *schema) {
	s = m.resolve(s)
	for set := 1; set < 1<<len(s.Required); set++ {
		var missing []string
		for i, name := range s.Required {
			if set&(1<<i) != 0 {
				missing = append(missing, name)
			}
		}
		for _, value := range []any{absent{}, nil} {
			body := m.example
			for _, name := range missing {
				body = m.withValueAt(&m.root, body, append(slices.Clone(path), name), value)
			}
			p := m.refused(fmt.Sprintf("without %v of %v", missing, path), body, missing...)
			if !strings.Contains(p.Detail, ": is missing") {
				m.t.Errorf("%s without %v of %v isn't said to lack anything: %s", m.name, missing, path, p.Detail)
			}
		}
	}
	m.inside(path, s, m.leaveOut)
}

// mistype gives each member of an object, however deep, each type that isn't its own.
func (m *matrix) mistype(path []string, s *schema) {
	s = m.resolve(s)
	m.inside(path, s, func(at []string, member *schema) {
		for _, kind := range slices.Sorted(maps.Keys(wrongValues)) {
			if m.takes(member, kind) {
				m.answered(fmt.Sprintf("%s with a %s", strings.Join(at, "."), kind), m.withValueAt(&m.root, m.example, at, wrongValues[kind]))
				continue
			}
			what := fmt.Sprintf("%s with %s", strings.Join(at, "."), kind)
			name := at[len(at)-1]
			if kind == "null" {
				if len(path) == 0 && !slices.Contains(s.Required, name) {
					m.answered(what, m.withValueAt(&m.root, m.example, at, nil))
				}
				continue
			}
			m.refused(what, m.withValueAt(&m.root, m.example, at, wrongValues[kind]), fieldOf(at))
			m.refused(what+" alone", m.withValueAt(&m.root, map[string]any{}, at, wrongValues[kind]), append(slices.Clone(m.root.Required), fieldOf(at))...)
		}
		m.mistype(at, member)
	})
}

// inside visits what an object or a list is made of.
func (m *matrix) inside(path []string, s *schema, visit func([]string, *schema)) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member := s.Properties[name]
		visit(append(slices.Clone(path), name), &member)
	}
	if s.Items != nil {
		visit(append(slices.Clone(path), "[0]"), s.Items)
	}
	var values schema
	if json.Unmarshal(s.AdditionalProperties, &values) == nil && values.Type != nil {
		visit(append(slices.Clone(path), "some"), &values)
	}
}

// resolve follows references, and of several forms takes the most structured one.
func (m *matrix) resolve(s *schema) *schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		def, ok := m.root.Defs[name]
		if !ok {
			m.t.Fatalf("%s: no definition %s", m.name, s.Ref)
		}
		return m.resolve(&def)
	}
	for i := range s.AnyOf {
		if form := m.resolve(&s.AnyOf[i]); form.Type.has("object") || form.Type.has("array") {
			return form
		}
	}
	return s
}

// takes reports whether a value of that kind fits a schema.
func (m *matrix) takes(s *schema, kind string) bool {
	if len(s.AnyOf) > 0 {
		return slices.ContainsFunc(s.AnyOf, func(form schema) bool { return m.takes(&form, kind) })
	}
	if s.Ref != "" {
		return m.takes(m.resolve(s), kind)
	}
	switch {
	case s.Type == nil: // anything but nothing
		return kind != "null"
	case kind == "negative":
		return s.Type.has("number") || (s.Type.has("integer") && (s.Minimum == nil || *s.Minimum < 0))
	case kind == "huge":
		return (s.Type.has("number") || s.Type.has("integer")) && (s.Maximum == nil || *s.Maximum >= 9e18)
	case (kind == "string" || kind == "empty") && s.Type.has("string"):
		return s.Enum == nil && s.Pattern == "" && (kind == "string" || s.MinLength == 0)
	case kind == "empty":
		return false
	case kind == "object" && s.Type.has("object"):
		return string(s.AdditionalProperties) != "false"
	case kind == "array" && s.Type.has("array"):
		return s.Items == nil || m.takes(s.Items, "array")
	}
	return s.Type.has(kind)
}

// absent stands for a member that isn't there.
type absent struct{}

// withValueAt returns a copy of a body with a value at a path. What lies on the way there and
// isn't in the body is made as its schema wants it.
func (m *matrix) withValueAt(s *schema, body any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	s = m.resolve(s)
	if path[0] == "[0]" {
		list, _ := body.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list = slices.Clone(list)
		items := &schema{}
		if s.Items != nil {
			items = s.Items
		}
		list[0] = m.withValueAt(items, list[0], path[1:], value)
		return list
	}
	object, ok := body.(map[string]any)
	if !ok {
		object, _ = m.sample(s).(map[string]any)
	}
	object = maps.Clone(object)
	if object == nil {
		object = map[string]any{}
	}
	member := s.Properties[path[0]]
	if object[path[0]] = m.withValueAt(&member, object[path[0]], path[1:], value); object[path[0]] == (absent{}) {
		delete(object, path[0])
	}
	return object
}

// sample is a value that fits a schema, with what is required alone.
func (m *matrix) sample(s *schema) any {
	s = m.resolve(s)
	switch {
	case s.Type.has("object"):
		out := map[string]any{}
		for _, name := range s.Required {
			member := s.Properties[name]
			out[name] = m.sample(&member)
		}
		return out
	case s.Type.has("array"):
		return []any{m.sample(s.Items)}
	case s.Type.has("integer"), s.Type.has("number"):
		return 1.0
	case s.Type.has("boolean"):
		return false
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	return "x"
}

// fieldOf is the last name in a path.
func fieldOf(path []string) string {
	for _, step := range slices.Backward(path) {
		if step != "[0]" {
			return step
		}
	}
	return ""
}

func (m *matrix) ask(body any) answer {
	m.t.Helper()
	m.asked++
	text, err := json.Marshal(body)
	if err != nil {
		m.t.Fatal(err)
	}
	req := m.r.request(http.MethodPost, "/v1/commands/"+m.name, string(text))
	req.Header.Set("Authorization", "Bearer admin-token")
	return m.r.sendRequest(req)
}

// refused wants a fault of the parameters that names one of these.
func (m *matrix) refused(what string, body any, names ...string) (p wire.Problem) {
	m.t.Helper()
	a := m.ask(body)
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusBadRequest || p.Code != "invalid_params" {
		m.t.Errorf("%s %s: %d %.300s", m.name, what, a.status, a.body)
		return p
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(p.Param, name) && strings.Contains(p.Detail, name) }) {
		m.t.Errorf("%s %s: none of %v is named: %.300s", m.name, what, names, a.body)
	}
	m.namesItsOwn(what, &p)
	return p
}

// answered wants an answer that doesn't blame the server.
func (m *matrix) answered(what string, body any) {
	m.t.Helper()
	a := m.ask(body)
	if a.status >= http.StatusInternalServerError && a.status != http.StatusServiceUnavailable {
		m.t.Errorf("%s %s: %d %.300s", m.name, what, a.status, a.body)
	}
	var p wire.Problem
	if a.status == http.StatusBadRequest && json.Unmarshal(a.body, &p) == nil {
		m.namesItsOwn(what, &p)
	}
}

// namesItsOwn wants a problem about a parameter to name one that the command has, and to
// speak of it, not of the body.
func (m *matrix) namesItsOwn(what string, p *wire.Problem) {
	m.t.Helper()
	if p.Param == "" || strings.Contains(p.Detail, "unknown parameter") {
		return
	}
	if strings.Contains(p.Detail, "the body") {
		m.t.Errorf("%s %s: %s", m.name, what, p.Detail)
	}
	s := &m.root
	for _, step := range strings.FieldsFunc(p.Param, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		s = m.resolve(s)
		member, known := s.Properties[step]
		switch {
		case known:
			s = &member
		case s.Items != nil:
			s = s.Items
		case s.Properties == nil || string(s.AdditionalProperties) != "false":
			return // what is below it has no names of its own
		default:
			m.t.Errorf("%s %s: it has no parameter %s: %s", m.name, what, p.Param, p.Detail)
			return
		}
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
