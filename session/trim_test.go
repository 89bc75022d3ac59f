package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)} }

// turns lets a session have so many finished turns.
func (k *kit) turns(sessionID string, n int) {
	k.Helper()
	for range n {
		k.finish(k.submit(command.SubmitTurn{SessionID: sessionID, Create: true}))
	}
}

func (k *kit) trim(sessionID string, opt session.TrimOptions) *session.Trimmed {
	k.Helper()
	res, err := k.m.Trim(context.Background(), sessionID, opt)
	if err != nil {
		k.Fatal(err)
	}
	return res
}

// kept fails unless a session keeps its events, for a reason that contains why.
func (k *kit) kept(sessionID, why string) {
	k.Helper()
	before := k.last(sessionID)
	_, err := k.m.Trim(context.Background(), sessionID, session.TrimOptions{})
	if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), why) {
		k.Errorf("trim of %s: %v, want a conflict that says %q", sessionID, err, why)
	}
	if k.last(sessionID) != before || k.oldest(sessionID) != 1 {
		k.Errorf("session %s was changed", sessionID)
	}
}

func (k *kit) last(sessionID string) uint64 {
	k.Helper()
	h, err := k.store.Head(context.Background(), sessionID)
	if err != nil {
		k.Fatal(err)
	}
	return h.Sequence
}

func (k *kit) oldest(sessionID string) uint64 {
	k.Helper()
	at, err := k.m.Oldest(context.Background(), sessionID)
	if err != nil {
		k.Fatal(err)
	}
	return at
}

// state returns a session's state as it is stored.
func (k *kit) state(sessionID string) string {
	k.Helper()
	var out string
	k.view(sessionID, func(s *state.Session) { out = string(s.Encode()) })
	return out
}

// TestTrimKeepsTheState removes all of a session's events: its state is what it was,
// also after a restart, the session goes on, and verify checks what is left against
// what stands for the rest.
func TestTrimKeepsTheState(t *testing.T) {
	k := newKit(t, nil)
	k.turns("sess_a", 30) // so that turns left the working set
	k.turns("sess_other", 2)
	last := k.last("sess_a")
	res := k.trim("sess_a", session.TrimOptions{})
	if res.From != 1 || res.Through != last || res.Events != last || res.Bytes == 0 {
		t.Errorf("got %+v, the session had %d events", res, last)
	}
	var left []*event.Event
	for rec, err := range k.store.Read(t.Context(), "sess_a", store.Range{After: last}) {
		e, bad := event.Decode(rec.Data)
		if err != nil || bad != nil {
			t.Fatal(err, bad)
		}
		left = append(left, e)
	}
	if len(left) != 1 || left[0].Type != event.TypeSnapshotRepaired {
		t.Fatalf("left are %v", left)
	}
	want := event.SnapshotRepaired{Reason: "retention", GapFrom: 1, GapTo: last, RecoveryMode: "snapshot_repair", SnapshotSequence: last, Status: "unavailable"}
	if p, ok := left[0].Payload.(*event.SnapshotRepaired); !ok || *p != want {
		t.Errorf("the fact says %+v", left[0].Payload)
	}
	was := k.state("sess_a")
	k.reopen(nil)
	if got := k.state("sess_a"); got != was || !strings.Contains(got, `"turnCount":30`) {
		t.Errorf("the state after a restart is\n%s\nit was\n%s", got, was)
	}
	k.turns("sess_a", 25)
	k.verifiedTrimmed(1, int64(last))
	// Further on, with a part that stays.
	end := k.last("sess_a")
	res = k.trim("sess_a", session.TrimOptions{Before: last + 50})
	if res.From != last+1 || res.Through != last+49 || k.oldest("sess_a") != last+50 || k.last("sess_a") != end+1 {
		t.Errorf("got %+v; the session begins at %d and ends at %d", res, k.oldest("sess_a"), k.last("sess_a"))
	}
	was = k.state("sess_a")
	k.reopen(nil)
	if k.state("sess_a") != was {
		t.Error("the state after a restart is another one")
	}
	k.verifiedTrimmed(1, int64(last+49))
}

// verifiedTrimmed fails unless the store fits, and says so many sessions begin late.
func (k *kit) verifiedTrimmed(sessions, removed int64) {
	k.Helper()
	report, err := session.Verify(context.Background(), k.store, session.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 || report.Trimmed != sessions || report.Removed != removed {
		k.Errorf("verify: %+v, %v, want %d sessions without their first %d events", report, err, sessions, removed)
	}
}

// TestTrimByTimeAndForShow removes what is older than a time; a dry run removes
// nothing, and neither does a bound before the first event.
func TestTrimByTimeAndForShow(t *testing.T) {
	c := newClock()
	k := newKit(t, func(o *session.Options) { o.Clock = c.now })
	k.turns("sess_a", 3)
	first := k.last("sess_a")
	c.at = c.at.Add(48 * time.Hour)
	k.turns("sess_a", 3)
	cut := c.at.Add(-time.Hour)
	want := session.Trimmed{SessionID: "sess_a", From: 1, Through: first, Events: first, DryRun: true}
	dry := k.trim("sess_a", session.TrimOptions{OlderThan: cut, DryRun: true})
	if dry.Bytes == 0 || k.oldest("sess_a") != 1 {
		t.Errorf("got %+v, the session begins at %d", dry, k.oldest("sess_a"))
	}
	if want.Bytes = dry.Bytes; *dry != want {
		t.Errorf("got %+v", dry)
	}
	want.DryRun = false
	if res := k.trim("sess_a", session.TrimOptions{OlderThan: cut}); *res != want || k.oldest("sess_a") != first+1 {
		t.Errorf("got %+v, the session begins at %d", res, k.oldest("sess_a"))
	}
	end := k.last("sess_a")
	for _, opt := range []session.TrimOptions{{OlderThan: cut}, {Before: 1}, {Before: first + 1}} {
		if res := k.trim("sess_a", opt); res.Events != 0 || res.Through != 0 || k.last("sess_a") != end {
			t.Errorf("%+v: got %+v, the session ends at %d", opt, res, k.last("sess_a"))
		}
	}
	if _, err := k.m.Trim(t.Context(), "sess_none", session.TrimOptions{}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a session that doesn't exist: %v", err)
	}
}

// TestTrimLeavesWhatIsNeeded tries to remove the events of sessions that something
// still needs.
func TestTrimLeavesWhatIsNeeded(t *testing.T) {
	k := newKit(t, nil)
	k.submit(command.SubmitTurn{SessionID: "sess_busy", Create: true})
	k.kept("sess_busy", "unfinished work")
	k.turns("sess_source", 1)
	thread := ""
	k.view("sess_source", func(s *state.Session) { thread = s.MainThread().ThreadID })
	call[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_source", ThreadID: thread, AtSequence: 3})
	k.kept("sess_source", "a fork refers to")
	k.turns("sess_peer", 1)
	k.connect("sess_peer", "chan_1")
	k.kept("sess_peer", "channel chan_1 is connected")
	if err := k.m.Report(t.Context(), event.TypeRuntimeWarning, &event.RuntimeNotice{Code: "x", Message: "y"}); err != nil {
		t.Fatal(err)
	}
	k.kept(event.RuntimeSession, "own session")
}

// connect lets a peer follow a session.
func (k *kit) connect(sessionID, channelID string) {
	k.Helper()
	if err := k.m.Emit(context.Background(), sessionID, event.ByChannel, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypeChannelConnected, Scope: event.Scope{ChannelID: channelID}, Payload: &event.ChannelConnected{
			Transport: "websocket", PeerRole: "client", ResumeTokenRef: "ref", Sessions: []string{sessionID},
		}})
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}

// acknowledge moves a peer's cursor.
func (k *kit) acknowledge(sessionID, channelID string, at uint64) {
	k.Helper()
	if err := k.m.Emit(context.Background(), sessionID, event.ByChannel, func(tx *session.Tx) error {
		tx.SetChannelCursor(channelID, at)
		return nil
	}); err != nil {
		k.Fatal(err)
	}
}

// TestTrimAfterThePeerHasRead removes what a connected peer acknowledged.
func TestTrimAfterThePeerHasRead(t *testing.T) {
	k := newKit(t, nil)
	k.turns("sess_a", 1)
	k.connect("sess_a", "chan_1")
	last := k.last("sess_a")
	k.acknowledge("sess_a", "chan_1", last-1)
	k.kept("sess_a", "not acknowledged")
	k.acknowledge("sess_a", "chan_1", last)
	if res := k.trim("sess_a", session.TrimOptions{}); res.Through != last {
		t.Errorf("got %+v", res)
	}
	if at, err := k.m.Readable(t.Context(), "sess_a", 2); err != nil || at != last+1 {
		t.Errorf("after 2 the session can be read from %d, %v", at, err)
	}
}

// TestReadingATrimmedSession asks for what is gone in every way that a manager
// answers.
func TestReadingATrimmedSession(t *testing.T) {
	k := newKit(t, nil)
	owner := command.Caller{Account: "ann"}
	create := &command.CreateSession{SessionID: "sess_a", Title: "t"}
	made := callAs[command.CreateSessionResult](k, owner, create)
	k.turns("sess_a", 4)
	k.turns("sess_a", 1)
	last := k.last("sess_a")
	k.trim("sess_a", session.TrimOptions{Before: 11})
	k.reopen(nil) // nothing is remembered
	_, _, err := k.m.Events(t.Context(), admin, "sess_a", 3, 10)
	if fault.KindOf(err) != fault.NotFound || !errors.Is(err, store.ErrTrimmed) || !strings.Contains(err.Error(), "through 10 were removed by retention") {
		t.Errorf("a page of what is gone: %v", err)
	}
	if page, end, err := k.m.Events(t.Context(), owner, "sess_a", 10, 3); err != nil || end != last+1 || len(page) != 3 || page[0].Sequence != 11 {
		t.Errorf("a page of what is left: %d events through %d, %v", len(page), end, err)
	}
	if err := k.m.See(t.Context(), command.Caller{Account: "bob"}, "sess_a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another account: %v", err)
	}
	h := callAs[session.GetSessionResult](k, owner, &command.GetSession{SessionID: "sess_a", Limit: new(500)}).History
	if len(h.Events) != int(last+1-10) || h.RemovedThrough != 10 || !h.Truncated || h.Cursor != "" {
		t.Errorf("the history has %d events, removed through %d, truncated %v, cursor %q", len(h.Events), h.RemovedThrough, h.Truncated, h.Cursor)
	}
	h = callAs[session.GetSessionResult](k, owner, &command.GetSession{SessionID: "sess_a", Before: jsonNumber("11")}).History
	if len(h.Events) != 0 || h.RemovedThrough != 10 || !h.Truncated || h.Cursor != "" {
		t.Errorf("the history before what is left: %+v", h)
	}
	if again := callAs[command.CreateSessionResult](k, owner, create); *again != *made {
		t.Errorf("created again: %+v, before %+v", again, made)
	}
	k.refused(owner, &command.CreateSession{SessionID: "sess_a", Title: "other"}, fault.Conflict)
	why := k.refusal(owner, &command.ForkThread{SessionID: "sess_a", ThreadID: made.ThreadID, AtSequence: last}, fault.Conflict)
	if !strings.Contains(why.Error(), "removed by retention") {
		t.Errorf("a fork is refused with %v", why)
	}
	sub, err := k.m.Subscribe(t.Context(), "sess_a", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if _, err := sub.Next(t.Context()); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("a stream of what is gone: %v", err)
	}
}

// TestTrimRefusesWhatDoesNotFit has a session whose facts were changed in the store:
// removing them would remove the proof.
func TestTrimRefusesWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(*store.Record){
		"a fact": func(r *store.Record) { r.Data = []byte(strings.Replace(string(r.Data), "sess_a", "sess_b", 1)) },
		"a hash": func(r *store.Record) { r.Hash[0] ^= 1 },
	} {
		s := &tampered{Store: storetest.NewMem()}
		k := newKitOn(t, s, nil)
		k.turns("sess_a", 3)
		s.record = func(r *store.Record) {
			if r.Sequence == 9 {
				change(r)
			}
		}
		if _, err := k.m.Trim(t.Context(), "sess_a", session.TrimOptions{}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s was changed: %v, want ErrCorrupt", name, err)
		}
		s.record = nil
		if k.oldest("sess_a") != 1 {
			t.Errorf("%s was changed: the events are gone", name)
		}
	}
}

// based is a store whose bases look different to a reader.
type based struct {
	store.Store
	change func(*store.Snapshot)
}

func (s *based) Base(ctx context.Context, id string) (store.Snapshot, error) {
	b, err := s.Store.Base(ctx, id)
	if err == nil && s.change != nil {
		s.change(&b)
	}
	return b, err
}

// TestVerifyFindsAChangedBase changes what stands for removed facts.
func TestVerifyFindsAChangedBase(t *testing.T) {
	s := &based{Store: storetest.NewMem()}
	k := newKitOn(t, s, nil)
	k.turns("sess_a", 3)
	k.trim("sess_a", session.TrimOptions{Before: 6})
	k.closeManager()
	for what, change := range map[string]func(*store.Snapshot){
		"chain": func(b *store.Snapshot) { b.Hash[5] ^= 1 },
		"base":  func(b *store.Snapshot) { b.Data = b.Data[:len(b.Data)/2] },
		"snapshot": func(b *store.Snapshot) {
			b.Data = []byte(strings.Replace(string(b.Data), `"turnCount":`, `"turnCount":1`, 1))
		},
	} {
		s.change = change
		report, err := session.Verify(t.Context(), k.store, session.VerifyOptions{})
		if err != nil || len(report.Problems) == 0 || report.Problems[0].What != what {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
	}
}

// unread is a store whose snapshots can't be used, as after an upgrade.
type unread struct{ store.Store }

func (s unread) Snapshot(ctx context.Context, id, name string) (store.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx, id, name)
	if name == "state" {
		snap.Data = []byte(`{"version":1}`)
	}
	return snap, err
}

// TestTrimmedSessionIsFoldedFromItsBase opens a session whose newest snapshot can't be
// used, or is gone: it is folded again from what stands for the facts that are gone.
func TestTrimmedSessionIsFoldedFromItsBase(t *testing.T) {
	mem := storetest.NewMem()
	k := newKitOn(t, mem, nil)
	k.turns("sess_a", 3)
	k.trim("sess_a", session.TrimOptions{})
	k.turns("sess_a", 2)
	want := k.state("sess_a")
	k.closeManager()
	for _, s := range []store.Store{unread{mem}, unstored{mem}} {
		again := newKitOn(t, s, nil)
		if got := again.state("sess_a"); got != want {
			t.Errorf("%T: got\n%s\nwant\n%s", s, got, want)
		}
	}
}

// TestTrimCutOff has the write of a removal fail, before and after it was done: the
// session is as it was, or it is trimmed.
func TestTrimCutOff(t *testing.T) {
	for _, after := range []bool{false, true} {
		f := &frail{Store: storetest.NewMem(), after: after}
		k := newKitOn(t, f, nil)
		k.turns("sess_a", 2)
		last := k.last("sess_a")
		f.mu.Lock()
		f.armed = true
		f.mu.Unlock()
		if _, err := k.m.Trim(t.Context(), "sess_a", session.TrimOptions{}); !errors.Is(err, errCut) {
			t.Fatalf("got %v", err)
		}
		f.mu.Lock()
		f.armed = false
		f.mu.Unlock()
		if got, want := k.oldest("sess_a"), map[bool]uint64{false: 1, true: last + 1}[after]; got != want {
			t.Errorf("after the write: %v: the session begins at %d, want %d", after, got, want)
		}
		k.turns("sess_a", 1)
		k.verified()
	}
}

// TestTrimBesideCommands trims a session again and again while turns come: every
// event is read once and in order by whoever reads what is left, and the state fits.
func TestTrimBesideCommands(t *testing.T) {
	k := newKit(t, nil)
	k.turns("sess_a", 1)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := k.m.Trim(context.Background(), "sess_a", session.TrimOptions{}); err != nil && fault.KindOf(err) != fault.Conflict {
				stopped <- err
				return
			}
		}
	}()
	k.turns("sess_a", 20)
	close(stop)
	if err := within(t, stopped); err != nil {
		t.Fatal(err)
	}
	k.turns("sess_a", 1)
	end := k.last("sess_a")
	if res := k.trim("sess_a", session.TrimOptions{}); res.Through != end {
		t.Errorf("at rest: %+v, the session ended at %d", res, end)
	}
	k.turns("sess_a", 1)
	k.verified()
	sum := 0
	for rec, err := range k.store.Read(t.Context(), "sess_a", store.Range{After: k.oldest("sess_a") - 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if sum++; rec.Sequence != k.oldest("sess_a")+uint64(sum)-1 {
			t.Errorf("event %d at place %d", rec.Sequence, sum)
		}
	}
}
