package hook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"agentd/event"
)

// TestBoundaryIsToldFirst: what confines a command is a fact of its run before any of
// it runs, and nothing runs if that can't be recorded.
func TestBoundaryIsToldFirst(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	for _, failed := range []error{nil, errors.New("no disk")} {
		_ = os.Remove(ran)
		h := Hook{Point: PreToolUse, Command: script(t, "touch "+ran)}
		r, err := New(Options{Hooks: []Hook{h}, Exec: direct, NewID: func() string { return "hook_1" }})
		if err != nil {
			t.Fatal(err)
		}
		n := &notes{unbound: failed}
		out, err := r.Run(t.Context(), PreToolUse, Input{Workspace: t.TempDir()}, n)
		if err != nil {
			t.Fatal(err)
		}
		b := n.bounds[1] // after hook.started
		if b == nil || b.HookRunID != "hook_1" || b.Mode != "none" || len(b.NotEnforced) == 0 {
			t.Fatalf("%+v", n.bounds)
		}
		e := event.Event{Type: event.TypeSandboxApplied, Payload: b}
		e.SessionID, e.ThreadID, e.TurnID = "sess_1", "thread_1", "turn_1"
		if err := event.Check(&e); err != nil {
			t.Error(err)
		}
		_, missing := os.Stat(ran)
		if (missing == nil) != (failed == nil) || out.Failed != (failed != nil) {
			t.Errorf("recording: %v; ran: %v; %+v", failed, missing == nil, out)
		}
	}
}

// TestCallsHaveNoBoundary: an HTTP hook is no process of ours.
func TestCallsHaveNoBoundary(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	r, err := New(Options{Hooks: []Hook{{Point: Stop, URL: srv.URL}}, HTTP: srv.Client(), NewID: func() string { return "hook_1" }})
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	if _, err := r.Run(t.Context(), Stop, Input{}, n); err != nil || len(n.facts) != 2 || n.bounds != nil {
		t.Errorf("%v: %s %+v", err, n.kinds(), n.bounds)
	}
}
