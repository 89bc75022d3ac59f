package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// scheme of the resources' addresses.
const scheme = "agentd"

// The shapes of the resources' addresses.
const (
	sessionTemplate = scheme + "://sessions/{sessionId}"
	eventsTemplate  = scheme + "://sessions/{sessionId}/events{?after,limit}"
	outputTemplate  = scheme + "://outputs/{ref}{?offset,length}"
)

const (
	jsonType = "application/json"
	// maxPart is how much of an output one read returns.
	maxPart = 8 << 20
	// codeNotFound is what the older revisions say of a resource that isn't there.
	codeNotFound = -32002
)

// addTemplates tells clients how addresses are made. Reading is in [Server.read].
func (s *Server) addTemplates(srv *mcp.Server) {
	for _, t := range []*mcp.ResourceTemplate{
		{Name: "session", Title: "Session", URITemplate: sessionTemplate, MIMEType: jsonType, Description: "A session's snapshot with its newest events."},
		{Name: "session events", Title: "Events of a session", URITemplate: eventsTemplate, MIMEType: jsonType, Description: "A session's events after a sequence, at most 1000, oldest first; continue with nextAfter."},
		{Name: "output", Title: "Output", URITemplate: outputTemplate, Description: "The bytes behind a reference that agentd made, such as an outputRef; at most 8 MiB from offset on. The reference is escaped as a part of a URL."},
	} {
		srv.AddResourceTemplate(t, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return nil, mcp.ResourceNotFoundError(req.Params.URI) // the middleware answers before
		})
	}
}

// resources answers for what is agentd's.
func (s *Server) resources(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ListResourcesRequest:
			return s.listSessions(ctx, method, r, next)
		case *mcp.ReadResourceRequest:
			if !strings.HasPrefix(r.Params.URI, scheme+"://") {
				res, err := next(ctx, method, req)
				return res, olderNotFound(r, err)
			}
			id := identityFrom(ctx)
			res, err := s.readResource(ctx, id, r.Params.URI)
			if err != nil {
				return nil, notRead(r, id, err)
			}
			return newReadResult(r, res), nil
		}
		return next(ctx, method, req)
	}
}

// listSessions lists sessions, page by page. The fixtures' resources come first.
func (s *Server) listSessions(ctx context.Context, method string, r *mcp.ListResourcesRequest, next mcp.MethodHandler) (mcp.Result, error) {
	id := identityFrom(ctx)
	cursor := ""
	if r.Params != nil {
		cursor, r.Params.Cursor = r.Params.Cursor, ""
	}
	res, err := next(ctx, method, r) // an empty list, with what the SDK adds to one
	if err != nil {
		return nil, err
	}
	list := res.(*mcp.ListResourcesResult)
	if cursor != "" {
		list.Resources = []*mcp.Resource{}
	}
	page, err := runCommandAs[command.ListSessionsResult](ctx, s, id, &command.ListSessions{Page: command.Page{Cursor: cursor}})
	if err != nil {
		return nil, protocolError(err, id)
	}
	for i := range page.Sessions {
		list.Resources = append(list.Resources, sessionResource(&page.Sessions[i]))
	}
	list.NextCursor = page.NextCursor
	return list, nil
}

func sessionResource(v *command.SessionSummary) *mcp.Resource {
	title := v.Title
	if title == "" {
		title = v.SessionID
	}
	return &mcp.Resource{
		URI: scheme + "://sessions/" + url.PathEscape(v.SessionID), Name: v.SessionID, Title: title, MIMEType: jsonType,
		Description: fmt.Sprintf("A session, %s, with %d turns.", v.Status, v.TurnCount),
		Annotations: &mcp.Annotations{LastModified: v.UpdatedAt.UTC().Format("2006-01-02T15:04:05Z")},
	}
}

// readResource returns the content at an address.
func (s *Server) readResource(ctx context.Context, id *Identity, uri string) (*mcp.ResourceContents, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fault.New(fault.NotFound, "%s is not an address", wire.Clip(uri))
	}
	query := u.Query()
	// The host of an address is its first part.
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	name, err := url.PathUnescape(parts[0])
	if err != nil || name == "" {
		return nil, fault.New(fault.NotFound, "there is nothing at %s", wire.Clip(uri))
	}
	switch {
	case u.Host == "sessions" && len(parts) == 1:
		return s.readSession(ctx, id, name)
	case u.Host == "sessions" && len(parts) == 2 && parts[1] == "events":
		return s.readEvents(ctx, id, name, query)
	case u.Host == "outputs":
		ref, err := url.PathUnescape(strings.TrimPrefix(u.EscapedPath(), "/"))
		if err != nil {
			return nil, fault.New(fault.NotFound, "there is nothing at %s", wire.Clip(uri))
		}
		return s.readOutput(ctx, id, ref, query)
	}
	return nil, fault.New(fault.NotFound, "there is nothing at %s", wire.Clip(uri))
}

func (s *Server) readSession(ctx context.Context, id *Identity, sessionID string) (*mcp.ResourceContents, error) {
	if !event.ValidID(sessionID) {
		return nil, fault.New(fault.NotFound, "there is no session %s", wire.Clip(sessionID))
	}
	res, err := s.runCommand(ctx, id, &command.GetSession{SessionID: sessionID})
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(res)
	if err != nil {
		return nil, fmt.Errorf("mcpserver: session: %w", err)
	}
	return &mcp.ResourceContents{MIMEType: jsonType, Text: string(data)}, nil
}

// eventsPage is a page of events, as over HTTP.
type eventsPage struct {
	Events       []json.RawMessage `json:"events"`
	LastSequence uint64            `json:"lastSequence"`
	NextAfter    uint64            `json:"nextAfter"`
}

func (s *Server) readEvents(ctx context.Context, id *Identity, sessionID string, query url.Values) (*mcp.ResourceContents, error) {
	after, err := queryNumber(query, "after", 0)
	if err != nil {
		return nil, err
	}
	limit, err := queryNumber(query, "limit", 200)
	if err != nil || limit == 0 || limit > command.MaxPage {
		return nil, fault.Param("limit", "is a number from 1 to %d", command.MaxPage)
	}
	events, last, err := s.opt.Runtime.Events(ctx, id.Caller, sessionID, after, int(limit))
	if err != nil {
		return nil, err
	}
	page := eventsPage{Events: make([]json.RawMessage, len(events)), LastSequence: last, NextAfter: after}
	for i, e := range events {
		page.Events[i], page.NextAfter = e.Data, e.Sequence
	}
	return &mcp.ResourceContents{MIMEType: jsonType, Text: string(encodeJSON(page))}, nil
}

func (s *Server) readOutput(ctx context.Context, id *Identity, ref string, query url.Values) (*mcp.ResourceContents, error) {
	offset, err := queryNumber(query, "offset", 0)
	if err != nil {
		return nil, err
	}
	length, err := queryNumber(query, "length", maxPart)
	if err != nil {
		return nil, err
	}
	out, err := s.opt.Runtime.Output(ctx, id.Caller, ref)
	if err != nil {
		return nil, err
	}
	data, err := readPart(out.Content, int64(offset), int64(min(length, maxPart)))
	if err = errors.Join(err, out.Content.Close()); err != nil {
		return nil, fmt.Errorf("mcpserver: output: %w", err)
	}
	c := &mcp.ResourceContents{MIMEType: out.MediaType, Meta: mcp.Meta{"agentd/size": out.Size, "agentd/offset": offset}}
	if c.MIMEType == "" {
		c.MIMEType = "application/octet-stream"
	}
	if isText(c.MIMEType) && utf8.Valid(data) {
		c.Text = string(data)
		return c, nil
	}
	c.Blob = data
	return c, nil
}

func readPart(r io.ReadSeeker, offset, length int64) ([]byte, error) {
	if offset > 0 {
		if _, err := r.Seek(offset, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(r, length))
}

func isText(mediaType string) bool {
	base, _, _ := strings.Cut(mediaType, ";")
	return strings.HasPrefix(base, "text/") || base == jsonType || strings.HasSuffix(base, "+json") || strings.HasSuffix(base, "+xml")
}

// queryNumber reads a number of an address.
func queryNumber(query url.Values, name string, otherwise uint64) (uint64, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return 0, fault.Param(name, "%s is not a number", wire.Clip(text))
	}
	return n, nil
}

// notRead is the error of a resource that can't be read.
func notRead(r *mcp.ReadResourceRequest, id *Identity, err error) error {
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Forbidden:
		return olderNotFound(r, mcp.ResourceNotFoundError(r.Params.URI))
	default:
		return protocolError(err, id)
	}
}

// olderNotFound gives the error of a missing resource the code of the request's
// revision.
func olderNotFound(r *mcp.ReadResourceRequest, err error) error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || r.ProtocolVersion() >= statelessSince || e.Message != "Resource not found" {
		return err
	}
	return &jsonrpc.Error{Code: codeNotFound, Message: e.Message, Data: e.Data}
}

// readResult is a resource's content, as the SDK's own type would be sent.
type readResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string                  `json:"resultType,omitempty"`
	Contents   []*mcp.ResourceContents `json:"contents"`
}

// newReadResult wraps a content for the request's revision.
func newReadResult(r *mcp.ReadResourceRequest, c *mcp.ResourceContents) *readResult {
	c.URI = r.Params.URI
	if c.Text == "" && c.Blob == nil {
		c.Blob = []byte{} // a content has one or the other
	}
	res := &readResult{Cacheable: mcp.Cacheable{CacheScope: "private"}, Contents: []*mcp.ResourceContents{c}}
	if r.ProtocolVersion() >= statelessSince {
		res.ResultType = "complete"
	}
	return res
}

// completeAddress suggests sessions for addresses.
func (s *Server) completeAddress(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	res := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	if req.Params.Ref.Type != "ref/resource" || req.Params.Argument.Name != "sessionId" || !strings.HasPrefix(req.Params.Ref.URI, scheme+"://sessions/") {
		return res, nil
	}
	id := identityFrom(ctx)
	page, err := runCommandAs[command.ListSessionsResult](ctx, s, id, &command.ListSessions{Page: command.Page{Limit: 100}, Query: req.Params.Argument.Value})
	if err != nil {
		return nil, protocolError(err, id)
	}
	for i := range page.Sessions {
		res.Completion.Values = append(res.Completion.Values, page.Sessions[i].SessionID)
	}
	res.Completion.HasMore = page.NextCursor != ""
	return res, nil
}
