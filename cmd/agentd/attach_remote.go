package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
)

// newOwnRemote returns the user's server of a note, and follows it wherever it goes.
func newOwnRemote(a *app, c *config.Config, n *serverNote, root, cwd string) (*remoteFacts, error) {
	f := &followServer{app: a, config: c, note: n, root: root}
	f.next = &http.Transport{
		DialContext:         f.dial,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DisableCompression: true, TLSClientConfig: pinnedTo(f.current),
	}
	base := "http://localhost"
	if n.Socket == "" { // one that was started with "agentd serve"
		base = strings.TrimSuffix(n.base(), "/")
	}
	r, err := newRemote(base, "", n.Token, nil)
	if err != nil {
		return nil, err
	}
	r.http.Transport = f
	r.own, r.root, r.cwd, r.socket = true, root, cwd, n.Socket
	return r, nil
}

// Workspace is the project that "the last session" is about; empty if it is any.
func (r *remoteFacts) Workspace() string { return r.root }

// Cwd is the folder within the project that the command was started in; empty if it is
// the project's root, or the server isn't the user's own.
func (r *remoteFacts) Cwd() string {
	if r.cwd == r.root {
		return ""
	}
	rel, err := filepath.Rel(r.root, r.cwd)
	if err != nil || strings.HasPrefix(rel, "..") {
		return ""
	}
	return rel
}

// currentFolder is the folder within its project that a command on the user's own server
// was started in; empty if it is the project's root.
func currentFolder(f facts.Source) string {
	if r, ok := f.(*remoteFacts); ok && r.own {
		return r.Cwd()
	}
	return ""
}

// repeatable marks requests that may be sent again if the connection broke before an
// answer.
type repeatable struct{}

// keyed gives a command a key, so that one that was under way when its server ended is carried
// out once. The key is taken off again by done: the parameters are the caller's.
func (r *remoteFacts) keyed(ctx context.Context, p command.Params) (_ context.Context, done func()) {
	if !r.own && !r.repeats {
		return ctx, func() {}
	}
	done = func() {}
	if m, ok := p.(interface {
		command.Mutating
		SetKey(key string)
	}); ok && m.Key() == "" {
		m.SetKey("cli_" + rand.Text())
		done = func() { m.SetKey("") }
	}
	return context.WithValue(ctx, repeatable{}, true), done
}

// followServer sends requests to the user's server, also to the next one when it was
// restarted, replaced or killed; if none runs it starts one.
type followServer struct {
	app    *app
	config *config.Config
	next   *http.Transport
	root   string

	mu   sync.Mutex
	note *serverNote
}

// errNotSent says that a request reached no server.
type errNotSent struct{ error }

func (e errNotSent) Unwrap() error { return e.error }

func (f *followServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c, err := dialNoted(ctx, f.current())
	if err != nil {
		return nil, errNotSent{err}
	}
	return c, nil
}

func (f *followServer) current() *serverNote {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.note
}

// RoundTrip implements [http.RoundTripper].
func (f *followServer) RoundTrip(req *http.Request) (*http.Response, error) {
	used := f.current()
	res, err := f.next.RoundTrip(f.addressed(req, used))
	ends := err == nil && res.StatusCode == http.StatusServiceUnavailable && res.Close
	if err == nil && !ends && res.StatusCode != http.StatusUnauthorized {
		return res, nil
	}
	ctx := req.Context()
	var notSent errNotSent
	again := err == nil && !ends || errors.As(err, &notSent) || req.Method == http.MethodGet || ctx.Value(repeatable{}) != nil
	if ctx.Err() != nil || !again || (req.Body != nil && req.GetBody == nil) {
		return res, err
	}
	wait := time.Duration(0)
	switch {
	case ends:
		wait = startWithin
	case err == nil:
		wait = noteWithin
	}
	now, renewErr := f.renew(ctx, used, wait)
	if renewErr != nil {
		if err == nil {
			return res, nil
		}
		return nil, errors.Join(renewErr, ctx.Err())
	}
	if now == used && err == nil {
		return res, nil
	}
	repeat := req.Clone(ctx)
	if req.GetBody != nil {
		if repeat.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	if res != nil {
		_ = res.Body.Close()
	}
	return f.next.RoundTrip(f.addressed(repeat, now))
}

// noteWithin is how long a server that doesn't know the noted token may take to leave its own
// note: it listens where the one before did.
const noteWithin = 10 * time.Second

// renew returns the note of the server that answers now. If that of another one has to come, it
// waits for it.
func (f *followServer) renew(ctx context.Context, used *serverNote, wait time.Duration) (*serverNote, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.note != used {
		return f.note, nil // another request was quicker
	}
	n, err := f.app.ensureServer(ctx, f.config, false)
	if wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for err == nil && n.Token == used.Token {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-tick.C: // it hasn't closed its door yet, or left its note
			}
			n, err = f.app.ensureServer(ctx, f.config, false)
		}
	}
	if err != nil {
		return nil, err
	}
	if n.Token != used.Token {
		f.next.CloseIdleConnections()
		f.note = n
	}
	return f.note, nil
}

// isGoing reports whether the server of a note has ended or is about to.
func (f *followServer) isGoing(ctx context.Context, n *serverNote) bool {
	if kept, err := trustedNote(f.config.Local()); err != nil || kept == nil || kept.Token != n.Token {
		return true
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/readyz", http.NoBody)
	if err != nil {
		return false
	}
	res, err := f.next.RoundTrip(f.addressed(req, n))
	if err != nil {
		return ctx.Err() == nil
	}
	_ = res.Body.Close() // only its header counts
	return res.Close
}

// addressed prepares a request for the server of a note.
func (f *followServer) addressed(req *http.Request, n *serverNote) *http.Request {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+n.Token)
	if f.root != "" {
		req.Header.Set(workspaceHeader, url.PathEscape(f.root))
	}
	req.URL.Scheme, req.URL.Host, req.Host = "http", "localhost", ""
	scheme, host, _ := strings.Cut(n.base(), "://")
	if strings.HasPrefix(scheme, "https") {
		req.URL.Scheme = "https"
	}
	if n.Socket == "" { // which is known by its address, and by nothing else
		req.URL.Host = strings.TrimSuffix(host, "/")
	}
	return req
}

// CloseIdleConnections gives up connections that are kept open for reuse.
func (f *followServer) CloseIdleConnections() { f.next.CloseIdleConnections() }
