package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agentd/event"
	"agentd/tool"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// remote is a tool of a server.
type remote struct {
	server *server
	// original is its name at the server.
	original string
	// signsIn says that it is none of the server's: it connects to it.
	signsIn bool
	info    event.ToolInfo
	// output is the schema of its structured result, if it has one.
	output *tool.Schema
}

var (
	_ tool.Tool         = (*remote)(nil)
	_ tool.Availability = (*remote)(nil)
	_ tool.Bounded      = (*remote)(nil)
)

// describeTools turns what a server listed into tools, and says what it left out.
func (s *server) describeTools(listed []*sdk.Tool) (tools []*remote, skipped []string) {
	seen := map[string]bool{}
	var originals []string
	for _, t := range listed {
		if t == nil || t.Name == "" || seen[t.Name] {
			skipped = append(skipped, "a tool without a name, or with the name of another")
			continue
		}
		schema, err := inputSchema(t.InputSchema)
		if err != nil {
			skipped = append(skipped, fmt.Sprintf("tool %s: input schema: %s", cleanText(t.Name, 100), cleanText(err.Error(), 300)))
			continue
		}
		seen[t.Name] = true
		originals = append(originals, t.Name)
		r := &remote{server: s, original: t.Name, info: toolInfo(s.cfg, t, schema)}
		if t.OutputSchema != nil {
			if _, r.output, err = compileSchema(t.OutputSchema); err != nil {
				skipped = append(skipped, fmt.Sprintf("output schema of tool %s: %s", cleanText(t.Name, 100), cleanText(err.Error(), 300)))
			}
		}
		tools = append(tools, r)
	}
	for i, name := range toolNames(s.prefix, originals) {
		tools[i].info.ToolName = name
	}
	slices.SortFunc(tools, func(a, b *remote) int { return strings.Compare(a.info.ToolName, b.info.ToolName) })
	return tools, skipped
}

// toolInfo describes a tool but for its name. A server's word that a tool destroys is
// a warning, and believed from any server; its word that a tool is harmless isn't.
func toolInfo(cfg Server, t *sdk.Tool, schema event.Raw) event.ToolInfo {
	i := event.ToolInfo{
		Description:       cleanText(t.Description, maxDescription),
		InputSchema:       schema,
		Capabilities:      []string{"mcp:" + cfg.ID},
		RuntimeOwner:      "mcp_server",
		InterruptBehavior: "cancel",
	}
	if i.Description == "" {
		i.Description = cleanText(t.Title, maxDescription)
	}
	a := t.Annotations
	if a == nil {
		return i
	}
	i.IsReadOnly = cfg.TrustHints && a.ReadOnlyHint
	i.IsConcurrencySafe = i.IsReadOnly
	switch {
	case i.IsReadOnly:
	case a.DestructiveHint != nil:
		i.IsDestructive = *a.DestructiveHint
	default:
		// The protocol's default, where the annotations are to be believed.
		i.IsDestructive = cfg.TrustHints
	}
	return i
}

// Info implements [tool.Tool].
func (r *remote) Info() event.ToolInfo { return r.info }

// Boundary implements [tool.Bounded].
func (r *remote) Boundary() *event.SandboxApplied { return r.server.cfg.Boundary }

// Available implements [tool.Availability].
func (r *remote) Available() (ok bool, reason string) {
	if r.signsIn {
		return true, ""
	}
	return r.server.isAvailable()
}

// Run implements [tool.Tool].
func (r *remote) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.server.cfg.Timeout, errTimeout)
	defer cancel()
	r.server.useCredential(call.Credentials[r.server.credentialName()])
	if r.signsIn {
		return r.connect(ctx)
	}
	var dead *link
	for {
		l, err := r.server.currentLink(ctx, dead)
		if err != nil {
			return nil, r.notReached(ctx, err)
		}
		sent := &delivery{}
		res, err := l.call(withDelivery(ctx, sent), r, call)
		if err == nil {
			return convert(r, res, call.MaxOutput), nil
		}
		// What the server never got, or refused because it forgot the session, it is
		// safe to ask again.
		if dead == nil && ctx.Err() == nil && sent.stale() {
			l.lost(err)
			dead = l
			continue
		}
		return nil, r.failure(ctx, l, err, sent)
	}
}

// notReached is the error of a call that was never sent.
func (r *remote) notReached(ctx context.Context, err error) *tool.Error {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout) {
		return r.ended(ctx)
	}
	e := &tool.Error{
		Category: tool.Unavailable, Retryable: !errors.Is(err, errClosed),
		Message: fmt.Sprintf("the MCP server %q was not reached: %s", r.server.cfg.ID, r.server.hideQuery(cleanText(err.Error(), maxNote))),
		Advice:  "Go on without this tool, or try it again later.",
	}
	if r.server.refusesAll() {
		e.Credential = r.server.credentialNeed()
	}
	return e
}

// ended is the error of a call whose context ended.
func (r *remote) ended(ctx context.Context) *tool.Error {
	if errors.Is(context.Cause(ctx), errTimeout) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e := tool.Errorf(tool.Timeout, "the MCP server %q didn't answer in time (its limit is %v); it was told to cancel", r.server.cfg.ID, r.server.cfg.Timeout)
		if !r.info.IsReadOnly {
			e.Advice = "The call may have had effects: look before it is repeated."
		}
		return e
	}
	return tool.Errorf(tool.Interrupted, "the call was interrupted; the MCP server %q was told to cancel", r.server.cfg.ID)
}

// failure decides what an error of the SDK means. What matters most is whether
// the tool may have run.
func (r *remote) failure(ctx context.Context, l *link, err error, sent *delivery) *tool.Error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return r.ended(ctx)
	}
	if sent.undone() {
		return r.notReached(ctx, err)
	}
	status := sent.httpStatus()
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		e := tool.Errorf(tool.Unavailable, "the MCP server %q refuses the runtime's credentials: HTTP status %d", r.server.cfg.ID, status)
		if status == http.StatusUnauthorized {
			e.Credential = r.server.credentialNeed()
		}
		return e
	}
	if e := serverError(err); e != nil && status < http.StatusInternalServerError {
		return r.refused(e)
	}
	return r.gone(l, err)
}

// Codes that the SDK itself gives to the end of a connection, and to requests
// that a transport didn't deliver.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeRejected      = -32005
)

// serverError returns the error that a server sent, nil if the error is another one.
func serverError(err error) *jsonrpc.Error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code == codeClientClosing || e.Code == codeServerClosing || e.Code == codeRejected {
		return nil
	}
	return e
}

// refused is the error of a call that the server answered with one.
func (r *remote) refused(e *jsonrpc.Error) *tool.Error {
	category := tool.Execution
	switch e.Code {
	case jsonrpc.CodeInvalidParams:
		category = tool.InvalidInput
	case jsonrpc.CodeMethodNotFound:
		category = tool.NotFound
	}
	return tool.Errorf(category, "the MCP server %q answered: %s (code %d)", r.server.cfg.ID, cleanText(e.Message, maxNote), e.Code)
}

// gone is the error of a call whose server was lost before it answered.
func (r *remote) gone(l *link, err error) *tool.Error {
	e := tool.Errorf(tool.Lost, "the MCP server %q was lost during the call: %s", r.server.cfg.ID, r.server.hideQuery(cleanText(err.Error(), maxNote)))
	if p, ok := l.carrier.(*process); ok && p.limited() {
		e.Boundary = "limit"
		e.Message = fmt.Sprintf("a limit of its sandbox ended the MCP server %q during the call: %s", r.server.cfg.ID, cleanText(p.tail.last(500), maxNote))
	}
	if r.info.IsReadOnly {
		e.Category, e.Retryable = tool.Unavailable, true
		return e
	}
	e.Advice = "It is not known how far the call came: look before it is repeated."
	return e
}

// callArguments are the call's input; an object in any case.
func callArguments(input event.Raw) json.RawMessage {
	if len(input) == 0 {
		return json.RawMessage(`{}`)
	}
	return input
}
