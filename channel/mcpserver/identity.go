package mcpserver

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// Identity is the caller, and which tools it wants to see.
type Identity struct {
	// Caller as commands know it.
	Caller command.Caller
	// Role says which commands it may call.
	Role command.Role
	// Tools are globs over the names of tools; nil shows all that the role allows.
	Tools []string
	// Elsewhere has the node that owns a session carry out a command that failed with
	// err here because it doesn't. It returns the result, or err if it names no such
	// node; again tries here once more, for a session that comes here. It is nil where
	// there is one node.
	Elsewhere func(ctx context.Context, p command.Params, err error, again func() (any, error)) (any, error)
}

// wants reports whether a tool is among those that were chosen.
func (id *Identity) wants(name string) bool {
	if len(id.Tools) == 0 {
		return true
	}
	for _, glob := range id.Tools {
		if ok, err := path.Match(glob, name); ok && err == nil {
			return true
		}
	}
	return false
}

// may reports why the identity may not carry out a command, or nil.
func (id *Identity) may(p command.Params) error {
	if need := command.Need(p); !id.Role.Allows(need) {
		return fault.New(fault.Forbidden, "%s needs a token with the role %s; this one has the role %s", p.Command(), need, id.Role)
	}
	return nil
}

// SplitTools reads a list of globs with commas between them.
func SplitTools(list string) ([]string, error) {
	var globs []string
	for glob := range strings.SplitSeq(list, ",") {
		if glob = strings.TrimSpace(glob); glob == "" {
			continue
		}
		if _, err := path.Match(glob, ""); err != nil {
			return nil, fmt.Errorf("%q is not a valid tool name pattern", glob)
		}
		globs = append(globs, glob)
	}
	return globs, nil
}

type contextKey int

const (
	identityKey contextKey = iota
	slotKey
)

// identityFrom returns the caller's identity. The middleware put it there.
func identityFrom(ctx context.Context) *Identity {
	return ctx.Value(identityKey).(*Identity)
}

// identityExtra is where the HTTP door leaves the identity of a request.
const identityExtra = "agentd.identity"

// identify finds out who sent a request, and takes over its trace context.
func (s *Server) identify(local *Identity) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			id := local
			if id == nil {
				if x := req.GetExtra(); x != nil && x.TokenInfo != nil {
					id, _ = x.TokenInfo.Extra[identityExtra].(*Identity)
				}
			}
			if id == nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the caller's identity is unknown"}
			}
			own := *id
			if t, ok := traceContext(req); ok {
				own.Caller.TraceID, own.Caller.SpanID, own.Caller.TraceState = t.TraceID, t.SpanID, t.State
			}
			return next(context.WithValue(ctx, identityKey, &own), method, req)
		}
	}
}

// chosenTools keeps to the tools that the client chose.
func chosenTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		id := identityFrom(ctx)
		if call, ok := req.(*mcp.CallToolRequest); ok && !id.wants(call.Params.Name) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", wire.Clip(call.Params.Name))}
		}
		res, err := next(ctx, method, req)
		if list, ok := res.(*mcp.ListToolsResult); ok && err == nil && len(id.Tools) > 0 {
			kept := make([]*mcp.Tool, 0, len(list.Tools))
			for _, t := range list.Tools {
				if id.wants(t.Name) {
					kept = append(kept, t)
				}
			}
			list.Tools = kept
		}
		return res, err
	}
}

// traceContext reads the W3C trace context that the protocol carries in _meta.
func traceContext(req mcp.Request) (event.Trace, bool) {
	meta := metaOf(req.GetParams())
	value, _ := meta["traceparent"].(string)
	t, ok := event.ParseTraceParent(value)
	if ok {
		value, _ = meta["tracestate"].(string)
		t.State = event.ParseTraceState(value)
	}
	return t, ok
}

// metaOf returns the _meta of parameters. Those of a request without any are a nil
// pointer in an interface.
func metaOf(p mcp.Params) map[string]any {
	if p == nil || reflect.ValueOf(p).IsNil() {
		return nil
	}
	return p.GetMeta()
}
