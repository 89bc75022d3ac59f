package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"agentd/event"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaURL names a schema while it is compiled. It leads nowhere.
const schemaURL = "urn:agentd:mcp-schema"

// inputSchema checks the schema of a tool's arguments. One without a type is that
// of an object, which is what arguments are.
func inputSchema(v any) (event.Raw, error) {
	if v == nil {
		return event.Raw(`{"type":"object"}`), nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	switch m["type"] {
	case "object":
	case nil:
		m["type"] = "object"
	default:
		return nil, fmt.Errorf("its type is %v, not object", m["type"])
	}
	raw, _, err := compileSchema(m)
	return raw, err
}

// compileSchema checks a schema and returns it as JSON and ready to use.
func compileSchema(v any) (event.Raw, *jsonschema.Schema, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	if len(raw) > maxSchema {
		return nil, nil, fmt.Errorf("it has %d bytes, more than %d", len(raw), maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(lenientRegexp)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, nil, err
	}
	schema, err := c.Compile(schemaURL)
	if err != nil {
		return nil, nil, err
	}
	return raw, schema, nil
}

// check says how a value contradicts a schema; empty if it doesn't.
func check(schema *jsonschema.Schema, raw []byte) string {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err.Error()
	}
	if err := schema.Validate(v); err != nil {
		return cleanText(err.Error(), maxNote)
	}
	return ""
}

// noLoader never fetches a schema: not from the network, and not from a file.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is not part of the schema, and nothing is fetched", clipText(url, 200))
}

// lenientRegexp accepts what only other engines understand, such as looking ahead,
// and then lets everything match: the server checks its arguments itself.
func lenientRegexp(s string) (jsonschema.Regexp, error) {
	if re, err := regexp.Compile(s); err == nil {
		return re, nil
	}
	return anything(s), nil
}

// anything is a pattern that matches all.
type anything string

// MatchString implements jsonschema.Regexp.
func (anything) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (a anything) String() string { return string(a) }
