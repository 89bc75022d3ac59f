package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The revisions that are told apart: from statelessSince on every request stands
// for itself; before it, a session is opened first.
const statelessSince = "2026-07-28"

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	nameHeader    = "Mcp-Name"
)

// door sends a request to the handler of its revision.
type door struct {
	s *Server
	// stateless serves the newer revision, sessions the older ones, in which a server
	// may ask its client back.
	stateless, sessions http.Handler
}

// newHandler returns the HTTP door. It leaves Host and Origin to the server that
// mounts it.
func (s *Server) newHandler() http.Handler {
	common := mcp.StreamableHTTPOptions{Logger: s.sdkLog(), MaxRequestBodyBytes: s.opt.MaxBody, DisableLocalhostProtection: true}
	stateless := common
	stateless.Stateless = true
	// In this revision a client cancels a request by closing its stream.
	stateless.PropagateRequestCancellation = true
	sessions := common
	sessions.SessionTimeout = s.opt.SessionTimeout
	// A client that lost its stream reads the rest of the answer with Last-Event-ID.
	sessions.EventStore = mcp.NewMemoryEventStore(nil)
	d := &door{s: s, stateless: mcp.NewStreamableHTTPHandler(s.serverFor, &stateless), sessions: mcp.NewStreamableHTTPHandler(s.serverFor, &sessions)}
	return auth.RequireBearerToken(s.verifyToken, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(d)
}

// verifyToken asks who sent a request. The token itself was checked before: what is kept
// here binds a session to the identity that opened it.
func (s *Server) verifyToken(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
	if s.opt.Identify == nil {
		return nil, auth.ErrInvalidToken
	}
	id, ok := s.opt.Identify(r)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	tools, err := SplitTools(r.URL.Query().Get("tools"))
	if err != nil {
		return nil, fmt.Errorf("%w: tools: %w", auth.ErrOAuth, err) // answered with 400
	}
	id.Tools = tools
	return &auth.TokenInfo{UserID: userOf(&id), Extra: map[string]any{identityExtra: &id}}, nil
}

// userOf names an identity within this process.
func userOf(id *Identity) string {
	return string(id.Role) + "\x00" + id.Caller.Account + "\x00" + id.Caller.Actor.ID
}

// serverFor returns the server with the tools of the caller's role.
func (s *Server) serverFor(r *http.Request) *mcp.Server {
	info := auth.TokenInfoFromContext(r.Context())
	if info == nil {
		return nil
	}
	id, _ := info.Extra[identityExtra].(*Identity)
	if build := s.byRole[id.Role]; build != nil {
		return build()
	}
	return nil
}

// newSessionID makes the id of a session of the older revisions. It says which node has it.
func (s *Server) newSessionID() string {
	id := rand.Text()
	if s.opt.Node != "" {
		id += "-" + s.opt.Node
	}
	return id
}

// passOn has the node that has a request's session answer it, and reports whether that is
// another one.
func (s *Server) passOn(r *http.Request) bool {
	_, node, marked := strings.Cut(r.Header.Get(sessionHeader), "-")
	return marked && s.opt.PassOn != nil && node != s.opt.Node && s.opt.PassOn(r, node)
}

// Refuse answers a request that could not be passed on to the node that has its session: with
// the status that says whether a client tries again or opens another session, and with an
// error of the protocol.
func (s *Server) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	id := &Identity{}
	if s.opt.Identify != nil {
		if known, ok := s.opt.Identify(r); ok {
			id = &known
		}
	}
	m := new(message)
	if body, unread := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opt.MaxBody)); unread == nil {
		_ = json.Unmarshal(body, m) // for its id
	}
	p := problemOf(err, id.Caller.RequestID)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	m.writeError(w, p.Status, protocolError(err, id))
}

// writeError answers a message with an error.
func (m *message) writeError(w http.ResponseWriter, status int, err error) {
	id := m.ID
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encodeJSON(map[string]any{"jsonrpc": "2.0", "id": id, "error": err})) // a client that went away needs no answer
}

// ServeHTTP implements [http.Handler].
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.s.passOn(r) {
		return
	}
	if id := r.Header.Get(sessionHeader); id != "" && d.s.isOthers(id, auth.TokenInfoFromContext(r.Context()).UserID) {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	modern, handler := r.Header.Get(versionHeader) >= statelessSince, d.sessions
	streams := r.Method == http.MethodGet
	if r.Method == http.MethodPost {
		m, err := d.peek(w, r)
		if err != nil {
			status := http.StatusBadRequest
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "the body can't be read: "+err.Error(), status)
			return
		}
		modern = modern || m.version() >= statelessSince
		if modern && !d.named(w, r, m) {
			return
		}
		streams = m.Method == "tools/call" || m.Method == methodListen
		if modern && m.listens() && plainListen(r, m) {
			serveBeating(d.listenTo(m), w, r, d.s.opt.Heartbeat)
			return
		}
	}
	switch {
	case modern:
		handler = d.stateless
	case r.Method == http.MethodPost && r.Header.Get(sessionHeader) == "":
		done, why, status := d.s.openSession(auth.TokenInfoFromContext(r.Context()).UserID)
		if done == nil {
			w.Header().Set("Retry-After", "60")
			http.Error(w, why, status)
			return
		}
		defer func() { done(w.Header().Get(sessionHeader)) }()
	case r.Method == http.MethodDelete:
		d.s.sessions.end(callKey(r.Header.Get(sessionHeader), auth.TokenInfoFromContext(r.Context()).UserID))
	}
	if streams {
		serveBeating(handler, w, r, d.s.opt.Heartbeat)
		return
	}
	handler.ServeHTTP(w, r)
}

// message is what the door looks at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		TaskID        *string        `json:"taskId"`
		Meta          map[string]any `json:"_meta"`
		Notifications struct {
			TaskIDs []string `json:"taskIds"`
		} `json:"notifications"`
	} `json:"params"`
}

// version is the revision that a request says it is of.
func (m *message) version() string {
	v, _ := m.Params.Meta[mcp.MetaKeyProtocolVersion].(string)
	return v
}

// listens reports whether a request subscribes to tasks.
func (m *message) listens() bool {
	return m.Method == methodListen && len(m.ID) > 0 && len(m.Params.Notifications.TaskIDs) > 0
}

// peek reads the body and leaves it for the next reader. What isn't a message is
// left to the handler to refuse.
func (d *door) peek(w http.ResponseWriter, r *http.Request) (*message, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, d.s.opt.MaxBody))
	if err != nil {
		return nil, err
	}
	// A deadline for the body would end a call that waits long after it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	m := new(message)
	_ = json.Unmarshal(body, m)
	return m, nil
}

// named holds the routing header of the tasks extension to the body, as the SDK
// does for the methods that it knows. It reports whether the request may go on.
func (d *door) named(w http.ResponseWriter, r *http.Request, m *message) bool {
	if !isTaskMethod(m.Method) || m.Params.TaskID == nil {
		return true
	}
	name := strings.TrimSpace(r.Header.Get(nameHeader))
	if encoded, ok := strings.CutPrefix(name, "=?base64?"); ok {
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?=")); err == nil {
			name = string(raw)
		}
	}
	if name == *m.Params.TaskID {
		return true
	}
	m.writeError(w, http.StatusBadRequest, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "the header Mcp-Name must be the taskId of the body"})
	return false
}

// sessionCalls are the calls that wait, by the session of an older revision that
// they belong to: a client that ends its session ends them.
type sessionCalls struct {
	mu    sync.Mutex
	calls map[string]map[*waitingCall]struct{}
}

type waitingCall struct{ cancel context.CancelCauseFunc }

// errSessionEnded is why a call ends with its session.
var errSessionEnded = errors.New("the client ended its session")

func callKey(session, user string) string { return session + "\x00" + user }

// add returns a context that ends with the session, too.
func (c *sessionCalls) add(ctx context.Context, key string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	call := &waitingCall{cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]map[*waitingCall]struct{}{}
	}
	if c.calls[key] == nil {
		c.calls[key] = map[*waitingCall]struct{}{}
	}
	c.calls[key][call] = struct{}{}
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.calls[key], call); len(c.calls[key]) == 0 {
			delete(c.calls, key)
		}
	}
}

// end ends the calls of a session.
func (c *sessionCalls) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call := range c.calls[key] {
		call.cancel(errSessionEnded)
	}
}
