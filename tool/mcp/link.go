package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The revisions that the runtime speaks; the SDK settles for older ones.
const (
	revisionLegacy = "2025-11-25"
	revisionNewest = "2026-07-28"
)

// carrier is what a connection runs on: a process or HTTP.
type carrier interface {
	sdk.Transport
	// stop ends it and waits; it leaves a moment for closed, when the session has
	// said goodbye. It may be called more than once.
	stop(closed <-chan struct{})
	// abort gives up what hangs in a handshake that took too long.
	abort()
	// because explains the end of the connection, if it can.
	because() string
	// reached says whether something answers at the other end.
	reached() bool
}

// handshakeError is a server that was reached and didn't complete the handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// link is one connection to a server, from handshake to end.
type link struct {
	carrier carrier
	session *sdk.ClientSession
	roots   rootList
	// ctx ends the calls on it, with the cause.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// down is closed when it is of no more use; relist gets a token when the server
	// says that its tools changed.
	down   chan struct{}
	relist chan struct{}
	// watch waits for the goroutine that waits for the session.
	watch sync.WaitGroup

	mu       sync.Mutex
	why      error
	calls    int
	idlers   []chan struct{}
	ended    bool
	tokens   int
	progress map[string]*sink
}

// dial connects and shakes hands before start ends.
func (s *server) dial(ctx, start context.Context, legacy bool) (*link, error) {
	l := &link{down: make(chan struct{}), relist: make(chan struct{}, 1), progress: map[string]*sink{}}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	c, err := s.prepareCarrier(l)
	if err != nil {
		l.cancel(err)
		return nil, err
	}
	l.carrier = c
	l.roots = rootsOf(s.opts.Root)
	client := s.newClient(l)
	kept := &keeper{Transport: c}
	// The SDK says goodbye after a failed handshake, and waits for the answer.
	inTime := context.AfterFunc(start, c.abort)
	l.session, err = client.Connect(start, kept, &sdk.ClientSessionOptions{ProtocolVersion: revision(s.cfg.Protocol, legacy)})
	if err != nil {
		err = s.explainHandshake(ctx, start, c, err)
		l.cancel(err)
		kept.close()
		c.stop(nil)
		return nil, err
	}
	if !inTime() {
		err := s.late()
		l.end(err)
		return nil, err
	}
	l.watch.Go(func() {
		err := l.session.Wait()
		l.lost(err)
	})
	return l, nil
}

// prepareCarrier prepares what the connection runs on. It starts nothing yet.
func (s *server) prepareCarrier(l *link) (carrier, error) {
	switch {
	case len(s.cfg.Command) > 0 && s.cfg.URL != "":
		return nil, errors.New("give either a command or a URL, not both")
	case len(s.cfg.Command) > 0:
		p := newProcess(s.cfg, s.opts, l.lost)
		s.mu.Lock()
		s.stderr = p.tail
		s.mu.Unlock()
		return p, nil
	case s.cfg.URL != "":
		return newHTTP(s, l.lost), nil
	default:
		return nil, errors.New("give a command or a URL")
	}
}

func revision(configured string, legacy bool) string {
	switch {
	case configured != "":
		return configured
	case legacy:
		return revisionLegacy
	default:
		return revisionNewest
	}
}

// explainHandshake says why a handshake failed.
func (s *server) explainHandshake(ctx, start context.Context, c carrier, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if start.Err() != nil {
		err = s.late()
	}
	reached := c.reached()
	if why := c.because(); why != "" {
		err = fmt.Errorf("%w (%s)", err, why)
	}
	if reached {
		return &handshakeError{err}
	}
	return err
}

func (s *server) late() error {
	return fmt.Errorf("the server didn't answer within %v", s.cfg.StartTimeout)
}

// newClient returns the SDK's client for one connection. It has no capability to
// sample or to ask a person: servers that ask anyway get an error.
func (s *server) newClient(l *link) *sdk.Client {
	client := sdk.NewClient(
		&sdk.Implementation{Name: "agentd", Version: s.opts.Version},
		&sdk.ClientOptions{
			Capabilities:                l.roots.capabilities(),
			ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { l.changed() },
			ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { l.progressed(r.Params) },
			// The rounds are ours: a request for input must end the call with a
			// reason that isn't mistaken for a complaint about the arguments.
			MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		})
	l.roots.installRoots(client)
	client.AddSendingMiddleware(hurryDiscovery(s.cfg.StartTimeout / 3))
	return client
}

// hurryDiscovery leaves time for the handshake of the older revision if a server
// ignores the request that only the newer one knows.
func hurryDiscovery(limit time.Duration) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "server/discover" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			return next(ctx, method, req)
		}
	}
}

// keeper remembers the connection of a transport: the SDK doesn't close it after
// every kind of failed handshake.
type keeper struct {
	sdk.Transport

	conn sdk.Connection
}

func (k *keeper) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := k.Transport.Connect(ctx)
	k.conn = conn
	return conn, err
}

func (k *keeper) close() {
	if k.conn != nil {
		_ = k.conn.Close()
	}
}

// list reads the tools, page by page.
func (l *link) list(ctx context.Context) (tools []*sdk.Tool, skipped []string, err error) {
	if r := l.session.InitializeResult(); r == nil || r.Capabilities == nil || r.Capabilities.Tools == nil {
		return nil, []string{"the server offers no tools"}, nil
	}
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := l.session.ListTools(ctx, params)
		if err != nil {
			return nil, nil, err
		}
		tools = append(tools, page.Tools...)
		if len(tools) > maxTools {
			skipped = append(skipped, fmt.Sprintf("%d tools beyond the first %d, and all later pages", len(tools)-maxTools, maxTools))
			return tools[:maxTools], skipped, nil
		}
		if page.NextCursor == "" {
			return tools, skipped, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return tools, []string{fmt.Sprintf("all pages after the first %d", maxPages)}, nil
}

// changed notes that the tools are to be listed again.
func (l *link) changed() {
	select {
	case l.relist <- struct{}{}:
	default:
	}
}

// lost notes that the connection is of no more use. The first reason counts.
func (l *link) lost(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.down:
	default:
		l.why = err
		close(l.down)
	}
}

func (l *link) isDown() bool {
	select {
	case <-l.down:
		return true
	default:
		return false
	}
}

// reason says why the connection was lost.
func (l *link) reason() string {
	l.mu.Lock()
	err := l.why
	l.mu.Unlock()
	how := l.carrier.because()
	switch {
	case err == nil, errors.Is(err, io.EOF) && how != "":
		return cmp.Or(how, "connection lost")
	case how == "":
		return "connection lost: " + err.Error()
	default:
		return err.Error() + "; " + how
	}
}

// serverInfo returns what the server calls itself, and the revision.
func (l *link) serverInfo() (name, version, protocol string) {
	r := l.session.InitializeResult()
	if r == nil {
		return "", "", ""
	}
	if r.ServerInfo != nil {
		name, version = cleanText(r.ServerInfo.Name, maxNote), cleanText(r.ServerInfo.Version, maxNote)
	}
	return name, version, r.ProtocolVersion
}

// enter counts a call in; it says false after the end.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.calls++
	return true
}

// leave counts a call out.
func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls--; l.calls == 0 {
		for _, c := range l.idlers {
			close(c)
		}
		l.idlers = nil
	}
}

// idle returns a channel that is closed when no call runs any more.
func (l *link) idle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	if l.calls == 0 {
		close(c)
	} else {
		l.idlers = append(l.idlers, c)
	}
	return c
}

// end ends the calls, the session and what it runs on, and waits for all three.
func (l *link) end(cause error) {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.cancel(cause)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = l.session.Close() // An error tells how the server ended, which is said already.
	}()
	l.carrier.stop(closed)
	<-closed
	<-l.idle()
	l.watch.Wait()
}
