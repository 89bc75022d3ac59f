package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/command"
)

func commands(t *testing.T) *commandModel {
	t.Helper()
	m, err := loadModel(repository + "/event")
	if err != nil {
		t.Fatal(err)
	}
	m.root = repository
	c, err := loadCommands(m)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func made(t *testing.T, outputs ...func(*commandModel, files) error) files {
	t.Helper()
	out := files{}
	c := commands(t)
	for _, output := range outputs {
		if err := output(c, out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestFieldsWithoutACommentAreRefused holds for everything that commands take and answer.
func TestFieldsWithoutACommentAreRefused(t *testing.T) {
	c := commands(t)
	if err := c.undocumented(); err != nil {
		t.Error(err)
	}
	if len(c.structs) < 250 {
		t.Errorf("only %d structs", len(c.structs))
	}
	c.structs = append(c.structs, &commandStruct{name: "Bare", fields: []commandField{{wire: "a", source: "agentd/state.Bare.A"}}})
	if err := c.undocumented(); err == nil || !strings.Contains(err.Error(), "agentd/state.Bare.A") || !strings.Contains(err.Error(), "Bare") {
		t.Errorf("got %v", err)
	}
}

// compile returns the validator of one generated schema.
func compile(t *testing.T, out files, name string) *jsonschema.Schema {
	t.Helper()
	content, ok := out["internal/gen/schemas/"+name]
	if !ok {
		t.Fatalf("%s is not generated", name)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schemaBase+name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schemaBase + name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, body string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// TestSchemasAgreeWithTheCommands checks the generated schemas against what
// package command itself says of each example, and of each with one member taken
// away, made null, or of another type.
func TestSchemasAgreeWithTheCommands(t *testing.T) {
	out := made(t, commandSchemas)
	for _, d := range command.Catalog() {
		schema := compile(t, out, fmt.Sprintf("command.%s.params.schema.json", d.Name))
		compile(t, out, fmt.Sprintf("command.%s.result.schema.json", d.Name))
		if err := validate(t, schema, d.Example); err != nil {
			t.Errorf("%s: the example: %v", d.Name, err)
		}
		for what, body := range variants(t, d.Example) {
			p, err := command.Decode(d.Name, []byte(body))
			if err == nil {
				err = p.Validate()
			}
			ours, theirs := err == nil, validate(t, schema, body) == nil
			if theirs && !ours && !beyondSchema(what) && (d.Name != "start_replay" || what != "without sessionId") { // or ref
				t.Errorf("%s, %s: the schema takes what the command refuses (%v): %s", d.Name, what, err, body)
			}
			if ours && !theirs {
				t.Errorf("%s, %s: the command takes what the schema refuses: %s", d.Name, what, body)
			}
		}
	}
}

// beyondSchema are the variants that break a rule between several members.
func beyondSchema(what string) bool {
	return slices.Contains([]string{"without data", "without toolCallId", "without turnId", "without toTurnId", "without cron", "without job", "an object for job", "without sessionIds", "without actionIds", "without filter", "without limits", "without account"}, what)
}

// variants changes each member of an example in turn.
func variants(t *testing.T, example string) map[string]string {
	t.Helper()
	list := map[string]string{"unknown member": `{"noSuchParameter":1}`}
	if example != "{}" {
		list["unknown member"] = `{"noSuchParameter":1,` + strings.TrimPrefix(example, "{")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(example), &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		for what, value := range map[string]string{
			"without": "", "a boolean for": "true", "a number for": "-7", "a list for": `[[]]`, "an object for": `{"noSuchMember":1}`, "nothing in": `""`,
			"a long text for": long,
		} {
			changed := maps.Clone(members)
			if delete(changed, name); value != "" {
				changed[name] = json.RawMessage(value)
			}
			if unlimited(name, value) {
				continue
			}
			body, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			list[what+" "+name] = string(body)
		}
	}
	return list
}

// unlimited are values that mean something for some commands and nothing for
// others: an empty text counts as absent, and raw JSON takes anything.
func unlimited(name, value string) bool {
	switch value {
	case `""`:
		return true
	case long:
		return name == "objective" || name == "instruction" || name == "summary" || name == "data" || name == "input"
	default:
		return name == "metadata" || name == "input" || name == "configuration"
	}
}

// long is over the bound of every text but those that are meant to be long.
var long = `"` + strings.Repeat("x", 64<<10+1) + `"`

func TestOpenAPIHoldsTogether(t *testing.T) {
	var doc any
	if err := json.Unmarshal(made(t, openAPI)["internal/gen/openapi.json"], &doc); err != nil {
		t.Fatal(err)
	}
	root := doc.(map[string]any)
	paths := root["paths"].(map[string]any)
	for _, d := range command.Catalog() {
		if _, ok := paths["/v1/commands/"+string(d.Name)]; !ok {
			t.Errorf("%s has no path", d.Name)
		}
	}
	ids, refs := map[string]bool{}, 0
	walk(doc, func(o map[string]any) {
		if ref, ok := o["$ref"].(string); ok {
			refs++
			if lookup(root, ref) == nil {
				t.Errorf("%s leads nowhere", ref)
			}
		}
		if id, ok := o["operationId"].(string); ok {
			if ids[id] {
				t.Errorf("the operation %s is there twice", id)
			}
			ids[id] = true
		}
	})
	if refs < 500 || len(ids) < len(command.Catalog())+10 {
		t.Errorf("only %d references and %d operations", refs, len(ids))
	}
}

func walk(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, inner := range v {
			walk(inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(inner, visit)
		}
	}
}

// lookup follows a reference within the document.
func lookup(root map[string]any, ref string) any {
	var at any = root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		o, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = o[name]
	}
	return at
}

// TestOpenAPISchemasCompile validates the examples against the document's own
// components, as a contract-checking proxy does.
func TestOpenAPISchemasCompile(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(made(t, openAPI)["internal/gen/openapi.json"]))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	model := commands(t)
	for i := range model.defs {
		d := &model.defs[i]
		for _, s := range []*commandStruct{model.params(d), model.result(d)} {
			schema, err := c.Compile("openapi.json" + openAPIRefs + s.name)
			if err != nil {
				t.Fatal(err)
			}
			if s == model.params(d) {
				if err := validate(t, schema, d.Example); err != nil {
					t.Errorf("%s: %v", d.Name, err)
				}
			}
		}
	}
}

func TestTypeScriptNamesEveryCommand(t *testing.T) {
	ts := string(made(t, commandTypeScript)["internal/gen/types/commands.ts"])
	for _, d := range command.Catalog() {
		if !strings.Contains(ts, fmt.Sprintf("  %s: { params: ", d.Name)) {
			t.Errorf("%s is not in the map of commands", d.Name)
		}
	}
	for _, broken := range []string{"/**  */", "undefined", ": ;"} {
		if strings.Contains(ts, broken) {
			t.Errorf("there is %q in the types", broken)
		}
	}
}

func TestNamesThatClashAreRefused(t *testing.T) {
	c := &commandModel{byType: map[reflect.Type]*commandStruct{}, structs: []*commandStruct{{name: "A"}, {name: "B"}, {name: "A"}}}
	if err := c.uniqueNames(); err == nil || !strings.Contains(err.Error(), "A") {
		t.Errorf("got %v", err)
	}
}

func TestCommentsReadWithoutGo(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{structDoc("CreateSession", "CreateSession opens a session."), "Opens a session."},
		{structDoc("Part", "Part is one piece."), "One piece."},
		{structDoc("Part", "What else."), "What else."},
		{fieldDoc("SessionID", "sessionId", "SessionID is the session's id."), "The session's id."},
		{fieldDoc("Title", "title", "Title for people."), "Title for people."},
		{fieldDoc("AtSequence", "atSequence", "AtSequence says where."), "atSequence says where."},
		{fieldDoc("URL", "url", ""), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
