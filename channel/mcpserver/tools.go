package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/channel"
	"agentd/command"
)

// schemaSet holds the schemas of tools by the command's name, ready to be sent.
type schemaSet struct {
	params, results map[command.Name]json.RawMessage
	// submit and problem are used in schemas of our own.
	submit, problem map[string]any
}

// readSchemas prepares the schemas of all commands that can be called.
func readSchemas(schema func(string) ([]byte, bool)) (schemaSet, error) {
	s := schemaSet{params: map[command.Name]json.RawMessage{}, results: map[command.Name]json.RawMessage{}}
	var err error
	if s.problem, err = readSchema(schema, "problem"); err != nil {
		return s, err
	}
	for _, d := range command.Catalog() {
		if !d.Available {
			continue
		}
		params, err := readSchema(schema, "command."+string(d.Name)+".params")
		if err != nil {
			return s, err
		}
		if d.Name == "submit_turn" {
			s.submit = params
		}
		result, err := readSchema(schema, "command."+string(d.Name)+".result")
		if err != nil {
			return s, err
		}
		s.params[d.Name] = encodeJSON(params)
		s.results[d.Name] = encodeJSON(orProblem(result, s.problem))
	}
	return s, nil
}

// readSchema reads a schema without what a client has no use for.
func readSchema(schema func(string) ([]byte, bool), name string) (map[string]any, error) {
	data, ok := schema(name)
	if !ok {
		return nil, fmt.Errorf("mcpserver: there is no schema %s", name)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("mcpserver: schema %s: %w", name, err)
	}
	for _, key := range []string{"$schema", "$id", "title", "description"} {
		delete(m, key)
	}
	return m, nil
}

// orProblem returns the schema of a tool's structured content: the result, or the
// problem when the tool failed. Clients hold both to the one schema that a tool has.
// The definitions move to the root, where the references look for them.
func orProblem(result, problem map[string]any) map[string]any {
	defs := map[string]any{}
	without := func(schema map[string]any) map[string]any {
		inner := maps.Clone(schema)
		if own, ok := inner["$defs"].(map[string]any); ok {
			maps.Copy(defs, own) // a name stands for the same in all schemas
			delete(inner, "$defs")
		}
		return inner
	}
	root := map[string]any{"type": "object", "anyOf": []any{without(result), without(problem)}}
	if len(defs) > 0 {
		root["$defs"] = defs
	}
	return root
}

// encodeJSON encodes a value that came from JSON.
func encodeJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing else than JSON values goes in
	}
	return data
}

// annotations tell a client what to expect of a command.
func annotations(d *command.Def) *mcp.ToolAnnotations {
	harm, world := d.Destructive, d.Destructive
	return &mcp.ToolAnnotations{
		ReadOnlyHint:    !d.Mutates,
		DestructiveHint: &harm,
		IdempotentHint:  !d.Mutates || d.Repeatable,
		OpenWorldHint:   &world,
	}
}

// addCommands offers the commands that a role allows.
func (s *Server) addCommands(srv *mcp.Server, role command.Role) {
	for _, d := range command.Catalog() {
		if !d.Available || !role.Allows(d.Scope) || d.ShowsSecret && d.Scope == command.RoleAdmin { // no model should see a token of the server
			continue
		}
		srv.AddTool(&mcp.Tool{
			Name: string(d.Name), Description: d.Means + " " + d.Doc,
			InputSchema: s.schemas.params[d.Name], OutputSchema: s.schemas.results[d.Name],
			Annotations: annotations(&d),
		}, s.commandTool(d.Name))
	}
}

// commandTool carries out a command.
func (s *Server) commandTool(name command.Name) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		id := identityFrom(ctx)
		p, err := command.Decode(name, req.Params.Arguments)
		if err != nil {
			return s.failedResult(err, id), nil
		}
		result, err := s.runCommand(ctx, id, p)
		if err != nil {
			return s.failedResult(err, id), nil
		}
		return commandResult(result), nil
	}
}

// runCommand carries out a command that the identity may call.
func (s *Server) runCommand(ctx context.Context, id *Identity, p command.Params) (any, error) {
	if err := id.may(p); err != nil {
		return nil, err
	}
	here := func() (any, error) { return s.opt.Runtime.Do(ctx, id.Caller, p) }
	res, err := here()
	if err == nil || id.Elsewhere == nil {
		return res, err
	}
	return id.Elsewhere(ctx, p, err, here)
}

// runCommandAs carries out a command and reads its result into another type, which has part
// of the result's fields.
func runCommandAs[R any](ctx context.Context, s *Server, id *Identity, p command.Params) (*R, error) {
	return channel.ResultOf[R](s.runCommand(ctx, id, p))
}
