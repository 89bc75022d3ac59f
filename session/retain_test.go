package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
	"agentd/store"
)

// TestRetainEvents sweeps: old sessions at rest lose their events once, the others
// keep them.
func TestRetainEvents(t *testing.T) {
	c := newClock()
	k := newKit(t, func(o *session.Options) { o.Clock = c.now })
	k.turns("sess_old", 2)
	k.turns("sess_source", 1)
	k.submit(command.SubmitTurn{SessionID: "sess_busy", Create: true})
	thread := ""
	k.view("sess_source", func(s *state.Session) { thread = s.MainThread().ThreadID })
	fork := call[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_source", ThreadID: thread, AtSequence: 3})
	if err := k.m.Report(t.Context(), event.TypeRuntimeWarning, &event.RuntimeNotice{Code: "x", Message: "y"}); err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(100 * time.Hour)
	k.turns("sess_young", 1)
	old, fresh := k.last("sess_old"), k.last(fork.SessionID)
	sweep := func(age time.Duration) session.Retained {
		t.Helper()
		got, err := k.m.RetainEvents(t.Context(), c.at.Add(-age))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := sweep(101 * time.Hour); got != (session.Retained{}) {
		t.Errorf("nothing is that old: %+v", got)
	}
	if got := sweep(99 * time.Hour); got != (session.Retained{Sessions: 2, Events: int(old + fresh), Kept: 1}) {
		t.Errorf("got %+v", got)
	}
	for id, want := range map[string]uint64{"sess_old": old + 1, fork.SessionID: fresh + 1, "sess_source": 1, "sess_busy": 1, "sess_young": 1, event.RuntimeSession: 1} {
		if got := k.oldest(id); got != want {
			t.Errorf("session %s begins at %d, want %d", id, got, want)
		}
	}
	// The fact that tells of the removal is not removed in its turn, and the fork that
	// lost its first fact still counts.
	c.at = c.at.Add(100 * time.Hour)
	if got := sweep(99 * time.Hour); got != (session.Retained{Sessions: 1, Events: int(k.oldestOfYoung()), Kept: 1}) {
		t.Errorf("the next sweep: %+v", got)
	}
	if f := k.m.Figures(); f.TrimmedSessions != 3 || f.TrimmedEvents != old+fresh+k.oldestOfYoung() || f.TrimmedBytes == 0 {
		t.Errorf("figures: %+v", f)
	}
	k.verified()
}

// oldestOfYoung is the number of events that sess_young lost.
func (k *kit) oldestOfYoung() uint64 { return k.oldest("sess_young") - 1 }

// TestRetainByItself runs a manager with a short time: nobody has to ask.
func TestRetainByItself(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.RetainEvents = time.Millisecond })
	k.turns("sess_a", 1)
	feed := k.feed(admin, "")
	defer feed.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	for k.oldest("sess_a") == 1 {
		if _, err := feed.Next(ctx); err != nil && !errors.Is(err, store.ErrTrimmed) {
			t.Fatal(err)
		}
	}
}
