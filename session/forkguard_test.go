package session_test

import (
	"context"
	"iter"
	"sync"
	"testing"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// interrupted is a store in which something happens once, in the middle of a read.
type interrupted struct {
	store.Store
	mu   sync.Mutex
	when func(sessionID string, r store.Range) bool
	then func()
}

func (s *interrupted) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	s.mu.Lock()
	then := func() {}
	if s.when != nil && s.when(sessionID, r) {
		then, s.when = s.then, nil
	}
	s.mu.Unlock()
	then()
	return s.Store.Read(ctx, sessionID, r)
}

// on has something happen before the next such read.
func (s *interrupted) on(when func(string, store.Range) bool, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.when, s.then = when, then
}

// wholeRead is the read of a session from its first fact to its last.
func wholeRead(id string) func(string, store.Range) bool {
	return func(sessionID string, r store.Range) bool { return sessionID == id && r == store.Range{} }
}

// readBack is the read of a session from a fact to its first one.
func readBack(id string) func(string, store.Range) bool {
	return func(sessionID string, r store.Range) bool { return sessionID == id && r.Reverse && r.Limit == 0 }
}

func (k *kit) fork(sessionID string) (*command.ForkThreadResult, error) {
	k.Helper()
	var p command.ForkThread
	k.view(sessionID, func(s *state.Session) {
		p = command.ForkThread{SessionID: sessionID, ThreadID: s.MainThread().ThreadID, AtSequence: s.Sequence}
	})
	res, err := runCommand(k.m, admin, &p)
	if err != nil {
		return nil, err
	}
	return res.(*command.ForkThreadResult), nil
}

// TestForkBesideARemoval makes a fork while the events of its origin are about to be
// removed, and removes them while a fork is being made: the history that a fork
// refers to is there.
func TestForkBesideARemoval(t *testing.T) {
	s := &interrupted{Store: storetest.NewMem()}
	k := newKitOn(t, s, nil)
	for _, id := range []string{"sess_a", "sess_b", "sess_c", "sess_d"} {
		k.turns(id, 2)
	}
	refused := func(id string, err error) {
		t.Helper()
		if fault.KindOf(err) != fault.Conflict || k.oldest(id) != 1 {
			t.Errorf("%s begins at %d, %v", id, k.oldest(id), err)
		}
	}

	// The removal has looked for forks; then one is made.
	s.on(wholeRead("sess_a"), func() {
		if _, err := k.fork("sess_a"); err != nil {
			t.Error(err)
		}
	})
	_, err := k.m.Trim(t.Context(), "sess_a", session.TrimOptions{})
	refused("sess_a", err)
	_, err = k.m.Trim(t.Context(), "sess_a", session.TrimOptions{})
	refused("sess_a", err)

	// The same in a sweep.
	s.on(wholeRead("sess_b"), func() {
		if _, err := k.fork("sess_b"); err != nil {
			t.Error(err)
		}
	})
	if got, err := k.m.RetainEvents(t.Context(), k.m.Now().AddDate(1, 0, 0)); err != nil || got.Kept == 0 || k.oldest("sess_b") != 1 {
		t.Errorf("%+v, %v, sess_b begins at %d", got, err, k.oldest("sess_b"))
	}
	if k.oldest("sess_c") == 1 {
		t.Error("the sweep removed nothing")
	}

	// The fork has looked at its origin; then a removal comes.
	k.turns("sess_e", 2)
	s.on(readBack("sess_e"), func() {
		_, err := k.m.Trim(t.Context(), "sess_e", session.TrimOptions{})
		refused("sess_e", err)
	})
	if _, err := k.fork("sess_e"); err != nil {
		t.Error(err)
	}

	// A fork that was refused leaves nothing behind that keeps the events.
	k.turns("sess_f", 1)
	if _, err := runCommand(k.m, admin, &command.ForkThread{SessionID: "sess_f", ThreadID: "thread_none", AtSequence: 1}); err == nil {
		t.Error("a thread that isn't there was forked")
	}
	if _, err := k.m.Trim(t.Context(), "sess_f", session.TrimOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := k.fork("sess_f"); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a session without its beginning was forked: %v", err)
	}
}

// records returns a session's records.
func (k *kit) records(sessionID string) (out []store.Record) {
	k.Helper()
	for rec, err := range k.store.Read(context.Background(), sessionID, store.Range{}) {
		if err != nil {
			k.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

// importRecords imports records after they were checked; between is called in between.
func (k *kit) importRecords(sessionID string, list []store.Record, between func()) (session.Imported, error) {
	k.Helper()
	ctx := context.Background()
	check, err := k.m.CheckImport(ctx, sessionID)
	for i := 0; err == nil && i < len(list); i++ {
		err = check.Add(ctx, k.store, &list[i])
	}
	if err == nil {
		_, err = check.Done()
	}
	if err != nil {
		return session.Imported{}, err
	}
	between()
	in, err := k.m.BeginImport(ctx, sessionID)
	if err != nil {
		return session.Imported{}, err
	}
	for i := 0; err == nil && i < len(list); i++ {
		err = in.Add(ctx, &list[i])
	}
	return in.Close(ctx, err)
}

// TestImportOfAForkBesideARemoval removes the events of an origin when an import has
// found them there, and when it is half done.
func TestImportOfAForkBesideARemoval(t *testing.T) {
	from := newKit(t, nil)
	from.turns("sess_origin", 2)
	fork, err := from.fork("sess_origin")
	if err != nil {
		t.Fatal(err)
	}
	origin, forked := from.records("sess_origin"), from.records(fork.SessionID)

	to := newKit(t, nil)
	if _, err := to.importRecords("sess_origin", origin, func() {}); err != nil {
		t.Fatal(err)
	}
	in, err := to.m.BeginImport(t.Context(), fork.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Add(t.Context(), &forked[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := to.m.Trim(t.Context(), "sess_origin", session.TrimOptions{}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("removed while a fork is half here: %v", err)
	}
	for i := range forked[1:] {
		if err := in.Add(t.Context(), &forked[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.Close(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	other := newKit(t, nil)
	if _, err := other.importRecords("sess_origin", origin, func() {}); err != nil {
		t.Fatal(err)
	}
	_, err = other.importRecords(fork.SessionID, forked, func() {
		if _, err := other.m.Trim(t.Context(), "sess_origin", session.TrimOptions{}); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		t.Error("a fork was taken over whose history is gone")
	}
	if h, err := other.store.Head(t.Context(), fork.SessionID); err != nil || h.Sequence != 0 {
		t.Errorf("the fork has %d facts, %v", h.Sequence, err)
	}
}

// TestImportBesideAnother has another session of the same id come between the check
// and the import: that isn't the file's, so it is said.
func TestImportBesideAnother(t *testing.T) {
	from := newKit(t, nil)
	from.turns("sess_a", 1)
	file := from.records("sess_a")
	to := newKit(t, nil)
	for _, turns := range []int{1, 3} {
		to = newKit(t, nil)
		got, err := to.importRecords("sess_a", file, func() { to.turns("sess_a", turns) })
		if fault.KindOf(err) != fault.Conflict {
			t.Errorf("with %d turns that are another's: %+v, %v", turns, got, err)
		}
	}
	// The other one is as it was, and goes on.
	to.turns("sess_a", 1)
	verified, err := session.Verify(t.Context(), to.store, session.VerifyOptions{})
	if err != nil || len(verified.Problems) > 0 {
		t.Errorf("%+v, %v", verified, err)
	}
	// One that comes twice at the same time is taken over once.
	twice := newKit(t, nil)
	got, err := twice.importRecords("sess_a", file, func() {
		if first, err := twice.importRecords("sess_a", file, func() {}); err != nil || first.Written != uint64(len(file)) {
			t.Errorf("%+v, %v", first, err)
		}
	})
	if err != nil || got.Written != 0 || got.Events != uint64(len(file)) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestDamageKeepsOneSessionsEvents has a session whose last fact can't be read: the
// sweep leaves it alone, and no other.
func TestDamageKeepsOneSessionsEvents(t *testing.T) {
	s := &damagedEnd{Store: storetest.NewMem(), session: "sess_a"}
	k := newKitOn(t, s, nil)
	k.turns("sess_a", 1)
	k.turns("sess_b", 1)
	got, err := k.m.RetainEvents(t.Context(), k.m.Now().AddDate(1, 0, 0))
	if err != nil || got.Sessions != 1 || got.Kept != 1 || k.oldest("sess_a") != 1 || k.oldest("sess_b") == 1 {
		t.Errorf("%+v, %v; they begin at %d and %d", got, err, k.oldest("sess_a"), k.oldest("sess_b"))
	}
}

// damagedEnd is a store whose session can't be read from its end.
type damagedEnd struct {
	store.Store
	session string
}

func (s *damagedEnd) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	if sessionID != s.session || !r.Reverse {
		return s.Store.Read(ctx, sessionID, r)
	}
	return func(yield func(store.Record, error) bool) { yield(store.Record{}, store.ErrCorrupt) }
}

// unstored is a store without snapshots.
type unstored struct{ store.Store }

func (unstored) Snapshot(context.Context, string, string) (store.Snapshot, error) {
	return store.Snapshot{}, store.ErrNotFound
}
