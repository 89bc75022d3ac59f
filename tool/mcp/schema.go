package mcp

import (
	"encoding/json"
	"errors"
	"fmt"

	"agentd/event"
	"agentd/tool"
)

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

// compileSchema checks a schema and returns it as JSON and ready to use. The schema is
// the server's and so is what it is held against: package tool bounds what that costs.
func compileSchema(v any) (event.Raw, *tool.Schema, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	if len(raw) > maxSchema {
		return nil, nil, fmt.Errorf("it has %d bytes, more than %d", len(raw), maxSchema)
	}
	schema, err := tool.CompileSchema(raw)
	if err != nil {
		return nil, nil, err
	}
	return raw, schema, nil
}

// check says how a value contradicts a schema; empty if it doesn't.
func check(schema *tool.Schema, raw []byte) string {
	if err := schema.Validate(raw); err != nil {
		return cleanText(err.Error(), maxNote)
	}
	return ""
}
