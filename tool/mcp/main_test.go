//go:build unix

package mcp

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/event"
	"agentd/internal/leaktest"
	"agentd/tool"
)

// modeVariable makes the test binary a server instead: its value names which.
const modeVariable = "AGENTD_TEST_MCP_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		os.Exit(serve(mode))
	}
	leaktest.Main(m)
}

// patience is how long something may take that happens by itself. It is no limit
// that a test is about.
const patience = 3 * time.Minute

// self is a server that runs in a process of its own.
func self(t *testing.T, id, mode string, args ...string) Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Server{
		ID: id, Command: append([]string{exe}, args...), Env: []string{modeVariable + "=" + mode},
		Timeout: patience, StartTimeout: patience,
	}
}

// recorder keeps the states that a client tells.
type recorder struct {
	mu     sync.Mutex
	states []string
	moved  chan struct{}
	tools  int
}

func newRecorder() *recorder { return &recorder{moved: make(chan struct{})} }

func (r *recorder) options() Options {
	return Options{
		OnState: func(_ string, s State, reason string) {
			r.record(func() { r.states = append(r.states, string(s)+": "+reason) })
		},
		OnChange: func() {
			r.record(func() { r.tools++ })
		},
		pause: func(attempt int) time.Duration {
			if attempt <= 1 {
				return 0
			}
			return 20 * time.Millisecond
		},
	}
}

func (r *recorder) record(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.moved)
	r.moved = make(chan struct{})
}

// until waits until ok says yes; it is asked after each thing that was told.
func (r *recorder) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		moved := r.moved
		r.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-moved:
		case <-limit:
			t.Fatalf("%s didn't happen; states: %q", what, r.all())
		}
	}
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.states)
}

// open opens a client that is closed at the end of the test.
func open(t *testing.T, opts Options, servers ...Server) *Client {
	t.Helper()
	c := Open(t.Context(), servers, opts)
	t.Cleanup(c.Close)
	if err := c.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// findTool returns a tool by its name.
func findTool(t *testing.T, c *Client, name string) tool.Tool {
	t.Helper()
	for _, tl := range c.Tools() {
		if tl.Info().ToolName == name {
			return tl
		}
	}
	t.Fatalf("no tool %s among %q; status %+v", name, names(c), c.Status())
	return nil
}

func names(c *Client) []string {
	var all []string
	for _, tl := range c.Tools() {
		all = append(all, tl.Info().ToolName)
	}
	return all
}

// host is a tool.Host that keeps the progress.
type host struct {
	mu       sync.Mutex
	progress []string
	fraction []float64
	told     chan struct{}
}

func newHost() *host { return &host{told: make(chan struct{}, 1000)} }

func (h *host) Progress(message string, fraction float64, _ string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress, h.fraction = append(h.progress, message), append(h.fraction, fraction)
	h.told <- struct{}{}
}
func (*host) Changing(context.Context, string) error { return nil }
func (*host) Command(context.Context, *tool.Command) (*tool.Exit, error) {
	return nil, errors.New("no commands here")
}

func callOf(input string) *tool.Call { return &tool.Call{Input: event.Raw(input), Host: newHost()} }

// run calls a tool and expects a result.
func run(t *testing.T, c *Client, name, input string) *tool.Result {
	t.Helper()
	res, err := findTool(t, c, name).Run(t.Context(), callOf(input))
	if err != nil {
		t.Fatalf("%s %s: %v", name, input, err)
	}
	return res
}

// category of a failed call.
func category(t *testing.T, err error) *tool.Error {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok {
		t.Fatalf("%v is no *tool.Error", err)
	}
	return e
}

// wantText fails unless s holds all parts.
func wantText(t *testing.T, s string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(s, p) {
			t.Errorf("%q doesn't hold %q", s, p)
		}
	}
}

// eventually asks again and again: for what no signal tells.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s didn't happen", what)
		}
	}
}
