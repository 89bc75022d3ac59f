package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	errClosed  = errors.New("the client is closed")
	errTimeout = errors.New("the call timed out")
)

// server keeps the connection to one server. Its run method is the only one that
// connects.
type server struct {
	cfg  Server
	opts Options
	// prefix of its tools' names.
	prefix string
	// settled is closed when the first attempt ended.
	settled chan struct{}
	// retired counts connections that wait for their last calls.
	retired sync.WaitGroup

	mu sync.Mutex
	// changed is closed and replaced whenever something below changes.
	changed  chan struct{}
	state    State
	reason   string
	link     *link
	tools    []*remote
	skipped  []string
	connects int
	stderr   *tail
	// chosen is the reference of the credential in use, rejected the one that the
	// server didn't take, choices how often one was chosen. refuses says that the
	// server answered 401 since it was connected last, asks that sign_in is offered.
	chosen, rejected string
	choices          int
	refuses, asks    bool
	// wake ends the pause before the next attempt.
	wake chan struct{}
}

func newServer(cfg Server, opts Options) *server {
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = defaultStartTimeout
	}
	if cfg.Cwd == "" {
		cfg.Cwd = opts.Root
	}
	opts.Logger = opts.Logger.With("mcpServer", cfg.ID)
	return &server{
		cfg: cfg, opts: opts, prefix: serverPrefix(cfg.ID),
		settled: make(chan struct{}), changed: make(chan struct{}), wake: make(chan struct{}, 1), state: Starting,
	}
}

// runConnection connects, and connects again when the connection is lost, until ctx ends.
func (s *server) runConnection(ctx context.Context) {
	defer s.changeState(Closed, "")
	defer s.retired.Wait()
	settle := sync.OnceFunc(func() { close(s.settled) })
	defer settle()
	var (
		attempt int
		legacy  bool
		wait    time.Duration
	)
	for waitBeforeRetry(ctx, s.wake, wait) {
		s.changeState(Starting, "")
		began, chosen := time.Now(), s.chosenSoFar()
		l, err := s.connect(ctx, legacy)
		if err == nil {
			s.adoptLink(l)
			settle()
			s.attendConnection(ctx, l)
			err = s.retireLink(ctx, l)
		} else if _, ok := errors.AsType[*handshakeError](err); ok {
			// A server that is lost or hangs on the first request of the newer
			// revision may know only the older one: the revisions take turns.
			legacy = !legacy
		}
		if attempt++; time.Since(began) >= s.cfg.StartTimeout+stable {
			attempt = 1
		}
		if wait = s.opts.pause(attempt); chosen != s.chosenSoFar() {
			wait = 0 // the attempt was made with a credential that was replaced since
		}
		if s.recordMiss(ctx, err, wait) {
			settle()
		}
	}
}

// chosenSoFar counts how often a credential was chosen.
func (s *server) chosenSoFar() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choices
}

// waitBeforeRetry waits before an attempt, or until it is woken; it says false if ctx ended.
func waitBeforeRetry(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-wake:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryDelay after failed attempts grows from half a second to a minute. After the
// first one there is none: a server that crashed, or forgot its session, is had
// again at once if it can be. Half of it is chance, so that many runtimes don't
// come back to a server at the same moment.
func retryDelay(attempt int) time.Duration {
	if attempt <= 1 {
		return 0
	}
	full := time.Minute
	if attempt < 9 {
		full = min(full, 500*time.Millisecond<<(attempt-2))
	}
	return full/2 + rand.N(full/2+1) //nolint:gosec // Spreads load; guessing it gains nothing.
}

// connect opens a connection that has listed its tools.
func (s *server) connect(ctx context.Context, legacy bool) (*link, error) {
	start, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	l, err := s.dial(ctx, start, legacy)
	if err != nil {
		return nil, err
	}
	if err := s.listTools(start, l); err != nil {
		if start.Err() != nil && ctx.Err() == nil {
			err = s.late()
		}
		l.end(err)
		return nil, fmt.Errorf("list the tools: %w", err)
	}
	return l, nil
}

// listTools reads the tools of a connection and keeps them.
func (s *server) listTools(ctx context.Context, l *link) error {
	listed, skipped, err := l.list(ctx)
	if err != nil {
		return err
	}
	tools, refused := s.describeTools(listed)
	skipped = append(skipped, refused...)
	if len(skipped) > maxSkipped {
		skipped = append(skipped[:maxSkipped], fmt.Sprintf("and %d more", len(skipped)-maxSkipped))
	}
	s.mu.Lock()
	same := slices.EqualFunc(s.tools, tools, func(a, b *remote) bool { return reflect.DeepEqual(a.info, b.info) })
	s.tools, s.skipped = tools, skipped
	s.mu.Unlock()
	if !same && s.opts.OnChange != nil {
		s.opts.OnChange()
	}
	return nil
}

// attendConnection follows changes of the tools until the connection is lost or ctx ends.
func (s *server) attendConnection(ctx context.Context, l *link) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.down:
			return
		case <-l.relist:
			listing, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
			err := s.listTools(listing, l)
			cancel()
			if err != nil && ctx.Err() == nil {
				l.lost(fmt.Errorf("list the changed tools: %w", err))
			}
		}
	}
}

// adoptLink makes a connection the one that calls use.
func (s *server) adoptLink(l *link) {
	s.mu.Lock()
	s.link = l
	s.connects++
	s.refuses = false
	s.mu.Unlock()
	s.changeState(Ready, "")
}

// retireLink takes a connection out of use and returns why. Calls that still run on
// it may go on: they fail by themselves if nothing is to come any more.
func (s *server) retireLink(ctx context.Context, l *link) error {
	s.mu.Lock()
	s.link = nil
	s.mu.Unlock()
	if ctx.Err() != nil {
		l.end(context.Cause(ctx))
		return context.Cause(ctx)
	}
	why := errors.New(l.reason())
	s.retired.Go(func() {
		select {
		case <-l.idle():
		case <-ctx.Done():
		}
		l.end(why)
	})
	return why
}

// recordMiss records that the server was lost or not reached. It says whether the
// server counts as unavailable, which it doesn't if the next attempt is at once.
func (s *server) recordMiss(ctx context.Context, err error, wait time.Duration) bool {
	if ctx.Err() != nil {
		return true
	}
	s.opts.Logger.Warn("MCP server not available", "reason", s.hideQuery(err.Error()), "nextAttempt", wait)
	state := Unavailable
	if wait <= 0 {
		state = Starting
	}
	s.changeState(state, err.Error())
	return state == Unavailable
}

// changeState changes the state and tells.
func (s *server) changeState(state State, reason string) {
	reason = clipText(s.hideQuery(reason), maxNote)
	s.mu.Lock()
	// An attempt under way keeps the reason why one was needed.
	if state == Starting && reason == "" {
		reason = s.reason
	}
	same := s.state == state && s.reason == reason
	wasAvailable := s.state == Ready
	s.state, s.reason = state, reason
	close(s.changed)
	s.changed = make(chan struct{})
	offers := len(s.tools) > 0
	asked := s.asks
	s.asks = s.wantsCredential()
	asks := s.asks != asked
	s.mu.Unlock()
	if !same && s.opts.OnState != nil {
		s.opts.OnState(s.cfg.ID, state, reason)
	}
	if (asks || !same && offers && wasAvailable != (state == Ready)) && s.opts.OnChange != nil {
		s.opts.OnChange()
	}
}

// hideQuery hides the query of the server's address in a text: keys are found there.
func (s *server) hideQuery(text string) string {
	if _, query, ok := strings.Cut(s.cfg.URL, "?"); ok && query != "" {
		text = strings.ReplaceAll(text, query, "[hidden]")
	}
	return text
}

// currentLink returns the connection to call on. It waits while an attempt is under
// way, and returns an error if the server can't be had. A connection that the
// caller found dead is not returned again.
func (s *server) currentLink(ctx context.Context, dead *link) (*link, error) {
	for {
		s.mu.Lock()
		l, state, reason, changed := s.link, s.state, s.reason, s.changed
		s.mu.Unlock()
		switch {
		case l != nil && l != dead && !l.isDown():
			return l, nil
		case state == Closed:
			return nil, errClosed
		case state == Unavailable:
			return nil, fmt.Errorf("the server is unavailable: %s", reason)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// isAvailable says whether a call can be made now.
func (s *server) isAvailable() (ok bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Ready {
		return true, ""
	}
	if s.reason != "" {
		return false, s.reason
	}
	return false, "the server is " + string(s.state)
}

func (s *server) snapshot() []*remote {
	s.mu.Lock()
	defer s.mu.Unlock()
	tools := slices.Clone(s.tools)
	if s.asks {
		tools = append(tools, s.signIn())
	}
	return tools
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		ID: s.cfg.ID, State: s.state, Reason: s.reason,
		Tools: len(s.tools), Skipped: slices.Clone(s.skipped), Connects: s.connects,
	}
	if s.stderr != nil {
		st.Stderr = s.stderr.String()
	}
	if s.link != nil {
		st.Name, st.Version, st.Protocol = s.link.serverInfo()
	}
	return st
}
