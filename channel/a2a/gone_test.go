package a2a

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// bare is a runtime that has lost its outputs and knows one task.
type bare struct {
	command.Runtime
	err   error
	facts []command.Delivered
}

func (b bare) Events(_ context.Context, _ command.Caller, _ string, after uint64, _ int) ([]command.Delivered, uint64, error) {
	return b.facts[after:], uint64(len(b.facts)), nil
}

func (b bare) Output(_ context.Context, _ command.Caller, ref string) (*command.Output, error) {
	return nil, fault.New(fault.NotFound, "there is no output %s", ref)
}

func (b bare) Do(_ context.Context, _ command.Caller, p command.Params) (any, error) {
	switch p := p.(type) {
	case *command.ListPeerTasks:
		return &command.ListPeerTasksResult{}, b.err
	case *command.ListPeerPushes:
		return &command.ListPeerPushesResult{Pushes: []command.PeerPushRecord{{RemoteTaskID: "orphan"}, {RemoteTaskID: "there"}}}, nil
	case *command.GetPeerTask:
		if p.RemoteTaskID == "there" {
			return &command.PeerTaskRecord{RemoteTaskID: "there", SessionID: "sess_a", TaskID: "task_a", Sequence: 1}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "there is no such thing")
}

func bareServer(t *testing.T, b bare, log *strings.Builder) *Server {
	t.Helper()
	s, err := New(Options{
		Runtime: b, Push: PushOptions{Key: []byte(strings.Repeat("k", 32))}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Caller: func(context.Context) (command.Caller, command.Role, bool) {
			return command.Local(), command.RoleAdmin, true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestATaskWhoseContentIsGone: what expired, or didn't come along with an import,
// must not take the task with it, nor the list in which it is.
func TestATaskWhoseContentIsGone(t *testing.T) {
	s := bareServer(t, bare{}, &strings.Builder{})
	v := newView(&command.PeerTaskRecord{RemoteTaskID: "remote", TaskID: "task_a", TurnID: "turn_a", Sequence: 1}, fixtureOptions{})
	read := s.referenceReader(t.Context(), command.Local())
	for i, p := range []event.Payload{
		&event.PeerTaskLinked{NativeProtocol: Protocol, Direction: "inbound", RemoteTaskID: "remote", MessageRef: "sha256:gone"},
		&event.ModelCompleted{MessageRef: "sha256:gone"},
		&event.ArtifactChanged{Change: "created", ReadRef: "sha256:gone", SizeBytes: 3},
		&event.TurnCompleted{Status: "completed", Outcome: "end_turn"},
	} {
		e := &event.Event{Sequence: uint64(i + 1), Time: time.Unix(1, 0), Scope: event.Scope{TaskID: "task_a", TurnID: "turn_a", ArtifactID: "artifact_a"}, Payload: p}
		if _, ok := p.(*event.TurnCompleted); ok {
			e.Type = event.TypeTurnCompleted
		}
		if err := v.apply(e, read); err != nil {
			t.Fatalf("%T: %v", p, err)
		}
	}
	if got := v.snapshot(nil); got.Status.State != proto.TaskStateCompleted || len(got.History) != 0 || len(got.Artifacts) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestAnOrphanedWishKeepsNobodyFromBeingTold: one entry that leads nowhere must not
// end the taking up of all others.
func TestAnOrphanedWishKeepsNobodyFromBeingTold(t *testing.T) {
	s := bareServer(t, bare{}, &strings.Builder{})
	if err := s.teller.takeUp(t.Context(), func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if len(s.teller.byTask) != 1 || s.teller.byTask["\x00there"] == nil {
		t.Errorf("told of %v", s.teller.byTask)
	}
}

// TestFailuresOfOursAreLogged: a peer learns nothing of what went wrong inside, so
// the log has to.
func TestFailuresOfOursAreLogged(t *testing.T) {
	var log strings.Builder
	s := bareServer(t, bare{err: errors.New("the disk is on fire")}, &log)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, RESTPath+"/tasks", nil)
	r.Header.Set("A2A-Version", Version)
	w := httptest.NewRecorder()
	s.RESTHandler().ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "fire") || !strings.Contains(log.String(), "fire") {
		t.Errorf("told %d %s, logged %s", w.Code, w.Body, log.String())
	}
}

// TestLargeViewsAreNotKept: what peers sent must not stay in memory because they
// asked for it once.
func TestLargeViewsAreNotKept(t *testing.T) {
	for size, kept := range map[int]bool{10: true, 2 * maxViewSize: false} {
		e := &event.Event{
			ID: "evt_a", Type: event.TypeChannelPeerTaskLinked, SessionID: "sess_a", Sequence: 1, RuntimeID: "runtime_a", Time: time.Unix(1, 0).UTC(),
			Scope: event.Scope{TaskID: "task_a", TurnID: "turn_a", ThreadID: "thread_a", ChannelID: "chan_a"},
			Payload: &event.PeerTaskLinked{
				NativeProtocol: Protocol, Direction: "inbound", RemoteTaskID: "remote",
				Message: event.Raw(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"` + strings.Repeat("x", size) + `"}]}`),
			},
		}
		s := bareServer(t, bare{facts: []command.Delivered{{SessionID: "sess_a", Sequence: 1, Data: event.AppendJSON(nil, e)}}}, &strings.Builder{})
		rec := &command.PeerTaskRecord{RemoteTaskID: "remote", SessionID: "sess_a", TaskID: "task_a", TurnID: "turn_a", Sequence: 1}
		got, err := s.taskNow(t.Context(), command.Local(), rec, nil)
		if err != nil || len(got.History) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if v := s.views.viewOf("", "remote").v; (v != nil) != kept {
			t.Errorf("a message of %d bytes: kept %v", size, v != nil)
		}
	}
}
