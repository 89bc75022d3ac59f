// Package answertest holds answers of commands against the schemas that are handed out,
// for tests that drive a runtime.
//
// # Contract
//
// The published schemas leave answers open: a client passes over members that it doesn't
// know. This build has no business with unknown ones, so the tests close every object:
// a member that is missing, and one that the schema lacks, are both mistakes.
//
// # Concurrency
//
// All functions may be called by many goroutines.
package answertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/command"
	"agentd/internal/gen"
)

// Check fails the test if a command's result isn't what its closed schema says.
func Check(tb testing.TB, name command.Name, result any) {
	tb.Helper()
	encoded, err := json.Marshal(result)
	if err != nil {
		tb.Errorf("%s: %v", name, err)
		return
	}
	if err := Problem(name, encoded); err != nil {
		tb.Error(err)
	}
}

// Problem says what is wrong with an encoded result.
func Problem(name command.Name, encoded []byte) error {
	return misfit(fmt.Sprintf("command.%s.result", name), encoded)
}

// ItemProblem says what is wrong with an encoded item event.
func ItemProblem(encoded []byte) error { return misfit("event.item", encoded) }

func misfit(name string, encoded []byte) error {
	schema, err := schemaOf(name)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, encoded)
	}
	return nil
}

// compiled are the schemas that were asked for, closed.
var (
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled = map[string]*jsonschema.Schema{}
)

func schemaOf(name string) (*jsonschema.Schema, error) {
	mu.Lock()
	defer mu.Unlock()
	if s, ok := compiled[name]; ok {
		return s, nil
	}
	if compiler == nil {
		c, err := newCompiler()
		if err != nil {
			return nil, err
		}
		compiler = c
	}
	s, err := compiler.Compile("https://agentd.example/schemas/" + name + ".schema.json")
	if err != nil {
		return nil, err
	}
	compiled[name] = s
	return s, nil
}

// newCompiler knows every schema, those of results and items closed.
func newCompiler() (*jsonschema.Compiler, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	names, err := fs.Glob(gen.Schemas(), "*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, _ := gen.Schema(name)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if strings.HasSuffix(name, ".result.schema.json") || name == "event.item.schema.json" {
			Close(doc)
		}
		if err := c.AddResource(doc.(map[string]any)["$id"].(string), doc); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Close has every object in a schema that lists its members refuse others.
func Close(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		_, listed := s["properties"].(map[string]any)
		if _, said := s["additionalProperties"]; listed && !said {
			s["additionalProperties"] = false
		}
		for _, inner := range s {
			Close(inner)
		}
	case []any:
		for _, inner := range s {
			Close(inner)
		}
	}
}
