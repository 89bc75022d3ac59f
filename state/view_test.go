package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/event"
	"agentd/event/eventtest"
)

func TestApplyRefusesWhatDoesNotFollow(t *testing.T) {
	s := New(testSession)
	first := &event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{Title: "one"}}
	stamp(first, 1)
	apply(t, s, []*event.Event{first})
	before := stateBytes(t, s)
	next := func(change func(*event.Event)) *event.Event {
		title := "other"
		e := &event.Event{Type: event.TypeSessionUpdated, Payload: &event.SessionUpdated{Title: &title}}
		stamp(e, 2)
		change(e)
		return e
	}
	for name, e := range map[string]*event.Event{
		"a gap":           next(func(e *event.Event) { e.Sequence = 3 }),
		"the same again":  next(func(e *event.Event) { e.Sequence = 1 }),
		"another session": next(func(e *event.Event) { e.SessionID = "sess_other" }),
	} {
		if _, err := s.Apply(e); err == nil {
			t.Errorf("%s was applied", name)
		}
		if now := stateBytes(t, s); now != before {
			t.Errorf("%s changed the state", name)
		}
	}
	if _, err := s.Apply(next(func(*event.Event) {})); err != nil || s.Title != "other" {
		t.Errorf("the fact that follows: %v", err)
	}
}

func TestDecodeRefusesOtherVersions(t *testing.T) {
	s := New(testSession)
	s.Version = Version + 1
	if _, err := Decode([]byte(stateBytes(t, s))); err == nil {
		t.Error("a state of another version was taken")
	}
	if _, err := Decode([]byte("{")); err == nil {
		t.Error("a torn state was taken")
	}
	// What stands for removed facts is all there is of them, so that of an earlier version
	// is read; it is folded on as of this one.
	for version, fits := range map[int]bool{oldestBase - 1: false, oldestBase: true, Version: true, Version + 1: false} {
		s.Version = version
		base, err := DecodeBase([]byte(stateBytes(t, s)))
		if (err == nil) != fits || fits && base.Version != Version {
			t.Errorf("a base of version %d: %v", version, err)
		}
	}
}

func TestQueueView(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	for i := 2; i <= 3; i++ {
		scope := event.Scope{ThreadID: "thread_1", TurnID: fmt.Sprintf("turn_%d", i), TaskID: "task_q", RunID: "run_q"}
		p := &event.TurnSubmitted{Status: "queued", Source: "channel", Input: event.Raw(`"x"`), Position: int64(i - 1)}
		if i == 3 {
			p.Options = &event.TurnOptions{QueuePolicy: "steer"}
		}
		st.addFact(event.TypeTurnSubmitted, scope, p)
	}
	m := st.s.ThreadRead("thread_1")
	if len(m.QueuedTurns) != 2 || m.QueuedTurns[0].Position != 1 || m.QueuedTurns[0].Policy != "queue" || m.QueuedTurns[0].Source != "channel" {
		t.Errorf("queued %+v", m.QueuedTurns)
	}
	// contracts: the queue snapshot has turn ids, order, source, policy and resume state.
	if a, b := m.QueuedTurns[0], m.QueuedTurns[1]; a.ResumeState != "behind_turn" || b.ResumeState != "behind_turn" {
		t.Errorf("what the queued turns wait for: %q, %q", a.ResumeState, b.ResumeState)
	}
	if q := m.QueuedTurns[1]; q.Position != 2 || q.Policy != "steer" || q.TurnID != "turn_3" {
		t.Errorf("queued %+v", q)
	}
	s := st.s.Snapshot()
	if s.Queue.Length != 2 || s.Queue.Threads[0].ResumeState != "behind_turn" || !slices.Equal(s.ActiveThreadIDs, []string{"thread_1"}) {
		t.Errorf("queue %+v", s.Queue)
	}
	st.addFact(event.TypeThreadUpdated, event.Scope{ThreadID: "thread_1"}, &event.ThreadUpdated{Status: "blocked", Reason: "tool lost", Code: "tool_lost"})
	if s := st.s.Snapshot(); s.Queue.Threads[0].ResumeState != "blocked" || s.Threads[0].Status != ThreadBlocked || s.Threads[0].Block.Code != "tool_lost" {
		t.Errorf("blocked %+v", s.Threads[0])
	}
}

// Every status that a turn can have, and the thread's word for it.
func TestTurnStatuses(t *testing.T) {
	end := func(status string) func(*story) {
		return func(st *story) {
			st.startTurn()
			if status == TurnCompleted {
				st.addFact(event.TypeTurnCompleted, inTurn(), &event.TurnCompleted{Status: status, Outcome: "done"})
				return
			}
			st.addFact(event.TypeTurnFailed, inTurn(), &event.TurnFailed{Status: status, Outcome: "x", FailureCategory: "interrupted", Error: &event.Failure{Message: "x"}})
		}
	}
	schema := eventtest.StrictSnapshot(t)
	for _, c := range []struct {
		name, turn, thread, phase string
		tell                      func(*story)
	}{
		{"none", "", ThreadIdle, "idle", func(*story) {}},
		{"accepted", TurnAccepted, ThreadRunning, "accepted", func(st *story) {
			st.addFact(event.TypeTurnSubmitted, inTurn(), &event.TurnSubmitted{Status: "accepted", Source: "user", InputRef: "r"})
		}},
		{"queued", TurnQueued, ThreadQueued, "queued", func(st *story) {
			st.addFact(event.TypeTurnSubmitted, inTurn(), &event.TurnSubmitted{Status: "queued", Source: "user", InputRef: "r"})
		}},
		{"running", TurnRunning, ThreadRunning, "preparing", (*story).startTurn},
		{"retrying", TurnRunning, ThreadRunning, "retrying", func(st *story) {
			st.startTurn()
			st.addFact(event.TypeRunStatus, inTurn(), &event.RunStatus{Phase: "retrying"})
		}},
		{"completed", TurnCompleted, ThreadCompleted, "completed", end(TurnCompleted)},
		{"failed", TurnFailed, ThreadFailed, "failed", end(TurnFailed)},
		{"cancelled", TurnCancelled, ThreadCancelled, "cancelled", end(TurnCancelled)},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := newStory(t)
			c.tell(st)
			m := st.s.ThreadRead("thread_1")
			if m.Status != c.thread || m.Phase != c.phase {
				t.Errorf("thread is %s, %s", m.Status, m.Phase)
			}
			if c.turn != "" && m.Turns[0].Status != c.turn {
				t.Errorf("turn is %s", m.Turns[0].Status)
			}
			schema.Accept(t, []byte(marshal(t, st.s.Snapshot())))
		})
	}
}

func TestSnapshotShell(t *testing.T) {
	st := newStory(t)
	title := "renamed"
	st.addFact(event.TypeSessionUpdated, event.Scope{}, &event.SessionUpdated{
		Title: &title, Workspace: &event.Workspace{WorkspaceID: "ws", Root: "/w"}, PinnedThreads: []string{"thread_1"},
	})
	s := st.s.Snapshot()
	if s.SchemaVersion != "lime-profile-0.4.0" || s.Title != title || s.WorkspaceID != "ws" || s.Sequence != 3 || !slices.Equal(s.PinnedThreadIDs, []string{"thread_1"}) {
		t.Errorf("%+v", s)
	}
	if s.Truncated {
		t.Error("nothing is left out, but the snapshot says so")
	}
	st.addFact(event.TypeThreadUpdated, event.Scope{ThreadID: "thread_1"}, &event.ThreadUpdated{Status: "archived"})
	s = st.s.Snapshot()
	if !s.Truncated || len(s.Threads) != 1 || s.Threads[0].ThreadID != event.NotApplicable || s.Threads[0].Status != Unknown {
		t.Errorf("without threads: %+v", s.Threads[0])
	}
	eventtest.StrictSnapshot(t).Accept(t, []byte(marshal(t, s)))
	if st.s.ThreadRead("thread_1") != nil || st.s.ThreadRead("thread_x") != nil {
		t.Error("a thread that isn't there has a read model")
	}
}

// No list of a read model is null: a client may range over all of them.
func TestSnapshotHasNoNullLists(t *testing.T) {
	for _, s := range []*Session{New(testSession), newStory(t).s} {
		snap := s.Snapshot()
		eventtest.StrictSnapshot(t).Accept(t, []byte(marshal(t, snap)))
		var v any
		if err := json.Unmarshal([]byte(marshal(t, snap)), &v); err != nil {
			t.Fatal(err)
		}
		nulls(t, "", v)
	}
}

func nulls(t *testing.T, path string, v any) {
	switch v := v.(type) {
	case nil:
		// The one value that is null on purpose: a sum that nobody knows.
		if !strings.HasSuffix(path, ".totalUSD") {
			t.Errorf("%s is null", path)
		}
	case map[string]any:
		for k, x := range v {
			nulls(t, path+"."+k, x)
		}
	case []any:
		for i, x := range v {
			nulls(t, fmt.Sprintf("%s[%d]", path, i), x)
		}
	}
}

// A snapshot may be encoded while its session goes on. The race detector is the
// judge.
func TestSnapshotIsIndependent(t *testing.T) {
	s := New(testSession)
	var sequence uint64
	put := func(e *event.Event) {
		sequence++
		stamp(e, sequence)
		if _, err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	put(&event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{}})
	put(&event.Event{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: "thread_1"}, Payload: &event.ThreadStarted{Role: "main"}})
	var wait sync.WaitGroup
	defer wait.Wait()
	// More rounds than a state keeps; the snapshots fall on different facts each time.
	for i := range 2*keepRecent + 5 {
		for _, e := range lifecycle(i) {
			put(e)
			if sequence%53 == 0 {
				snap := s.Snapshot()
				wait.Go(func() {
					if _, err := json.Marshal(snap); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
