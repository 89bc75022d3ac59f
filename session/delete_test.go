package session_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

func shortInputs(o *session.Options) { o.InlineBytes, o.SnapshotEvery = 8, 4 }

// toDelete makes a session with finished turns and an input behind a reference.
func toDelete(k *kit) (turn *command.SubmitTurnResult, ref string) {
	k.Helper()
	call[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_gone", Title: "confidential"})
	for range 25 {
		turn = k.submit(command.SubmitTurn{SessionID: "sess_gone", Input: event.Raw(`"confidential and long enough"`)})
		k.finish(turn)
	}
	for _, e := range k.events("sess_gone") {
		if p, ok := e.Payload.(*event.TurnSubmitted); ok {
			ref = p.InputRef
		}
	}
	if ref == "" {
		k.Fatal("no input is behind a reference")
	}
	return turn, ref
}

// TestDeletedSessionIsGone: for every command, in lists, by references; its id is not
// used again, the runtime's own session has the fact, and nothing that it said is left.
func TestDeletedSessionIsGone(t *testing.T) {
	k := newKit(t, shortInputs)
	turn, ref := toDelete(k)
	other := k.submit(command.SubmitTurn{SessionID: "sess_stays", Create: true})
	k.finish(other)
	p := &command.DeleteSession{SessionID: "sess_gone", Reason: "over", Mutation: command.Mutation{IdempotencyKey: "key"}}
	if res := call[command.DeleteSessionResult](k, p); !res.Deleted || res.Events == 0 || res.KeptForForks {
		t.Errorf("%+v", res)
	}
	check := func() {
		t.Helper()
		for _, gone := range []command.Params{
			&command.GetSession{SessionID: "sess_gone"},
			&command.GetThreadRead{SessionID: "sess_gone", ThreadID: turn.ThreadID},
			&command.SubmitTurn{SessionID: "sess_gone", Input: event.Raw(`"x"`)},
			&command.UpdateSession{SessionID: "sess_gone", Pinned: new(true)},
			&command.DeleteSession{SessionID: "sess_gone"},
			&command.ForkThread{SessionID: "sess_gone", ThreadID: turn.ThreadID, AtSequence: 1},
			atSequenceOf("sess_gone", 1),
		} {
			k.refused(admin, gone, fault.NotFound)
		}
		k.refused(admin, &command.CreateSession{SessionID: "sess_gone"}, fault.Conflict)
		if _, _, err := k.m.Events(context.Background(), admin, "sess_gone", 0, 10); fault.KindOf(err) != fault.NotFound {
			t.Errorf("its events: %v", err)
		}
		if blob, _, err := k.m.Output(context.Background(), admin, ref); err == nil {
			_ = blob.Close()
			t.Errorf("%s can still be read", ref)
		}
		if res := call[command.ListSessionsResult](k, &command.ListSessions{Query: "sess_"}); res.Total != 2 {
			t.Errorf("listed: %+v", res)
		}
		if again := call[command.DeleteSessionResult](k, p); !again.Deleted {
			t.Errorf("the same call again: %+v", again)
		}
		k.verified()
	}
	check()
	k.reopen(shortInputs)
	check()

	if n := countDeletions(k); n != 1 {
		t.Errorf("the runtime's own session says %d times that a session was deleted", n)
	}
	base, err := k.store.Base(context.Background(), "sess_gone")
	if err != nil || bytes.Contains(base.Data, []byte("confidential")) {
		t.Errorf("what stands for the facts: %s (%v)", base.Data, err)
	}
	left := 0
	for rec, err := range k.store.Read(context.Background(), "sess_gone", store.Range{After: base.Sequence}) {
		if left++; err != nil || left > 1 || !bytes.Contains(rec.Data, []byte("session.deleted")) {
			t.Errorf("left of its facts: %s (%v)", rec.Data, err)
		}
	}
	for s, err := range k.store.Snapshots(context.Background(), "sess_gone") {
		if err != nil || bytes.Contains(s.Data, []byte("confidential")) {
			t.Errorf("the record %s: %s (%v)", s.Name, s.Data, err)
		}
	}
	for _, kind := range []string{"session", "turn", "task", "task_of", "mark", "ref", "ref_kept", "output", "output_at", "open"} {
		for e, err := range k.store.Scan(context.Background(), store.Scan{Kind: kind}) {
			if err != nil || strings.Contains(e.Key+string(e.Value), "sess_gone") {
				t.Errorf("%s %s: %s (%v)", kind, e.Key, e.Value, err)
			}
		}
	}
}

func atSequenceOf(sessionID string, n uint64) *command.GetSession {
	return &command.GetSession{SessionID: sessionID, AtSequence: &n}
}

func countDeletions(k *kit) int {
	n := 0
	for _, e := range k.events(event.RuntimeSession) {
		if p, ok := e.Payload.(*event.SessionDeleted); ok && p.DeletedSessionID == "sess_gone" && p.Reason == "over" {
			n++
		}
	}
	return n
}

// TestSessionInUseIsNotDeleted, nor one that the caller may not see, nor the runtime's.
func TestSessionInUseIsNotDeleted(t *testing.T) {
	k := newKit(t, nil)
	running := k.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	if why := k.refusal(admin, &command.DeleteSession{SessionID: "sess_a"}, fault.Conflict); !strings.Contains(why.Error(), "unfinished work") {
		t.Error(why)
	}
	k.refused(command.Caller{Account: "other"}, &command.DeleteSession{SessionID: "sess_a"}, fault.NotFound)
	k.refused(admin, &command.DeleteSession{SessionID: "sess_nowhere"}, fault.NotFound)
	k.refused(admin, &command.DeleteSession{SessionID: event.RuntimeSession}, fault.InvalidParams)
	k.finish(running)
	call[command.DeleteSessionResult](k, &command.DeleteSession{SessionID: "sess_a"})
}

// TestForkOutlivesItsOrigin: what it continues from stays, and nobody can read it as the
// deleted session.
func TestForkOutlivesItsOrigin(t *testing.T) {
	k := newKit(t, nil)
	turn := k.submit(command.SubmitTurn{SessionID: "sess_gone", Create: true})
	k.finish(turn)
	fork := call[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_gone", ThreadID: turn.ThreadID, AtSequence: turn.Sequence})
	facts := len(k.events("sess_gone"))
	if res := call[command.DeleteSessionResult](k, &command.DeleteSession{SessionID: "sess_gone"}); !res.Deleted || !res.KeptForForks {
		t.Errorf("%+v", res)
	}
	k.reopen(nil)
	k.refused(admin, &command.GetSession{SessionID: "sess_gone"}, fault.NotFound)
	if _, _, err := k.m.Events(context.Background(), admin, "sess_gone", 0, 10); fault.KindOf(err) != fault.NotFound {
		t.Errorf("its events: %v", err)
	}
	call[session.GetSessionResult](k, &command.GetSession{SessionID: fork.SessionID})
	k.finish(k.submit(command.SubmitTurn{SessionID: fork.SessionID}))
	if n := len(k.events("sess_gone")); n != facts+1 {
		t.Errorf("%d facts, were %d", n, facts)
	}
	k.verified()
}

// cutStore stops writing after a number of appends, as if the process were killed.
type cutStore struct {
	store.Store
	left int
}

func (c *cutStore) Append(ctx context.Context, batches []*store.Batch) []error {
	if c.left--; c.left < 0 {
		out := make([]error, len(batches))
		for i := range out {
			out[i] = store.ErrFailed
		}
		return out
	}
	return c.Store.Append(ctx, batches)
}

// heldStore holds up the append of a deletion until it is told to go on.
type heldStore struct {
	store.Store
	held, release chan struct{}
}

func (h *heldStore) Append(ctx context.Context, batches []*store.Batch) []error {
	if slices.ContainsFunc(batches, func(b *store.Batch) bool { return b.SessionID == "sess_gone" && b.Trim != nil }) {
		h.held <- struct{}{}
		<-h.release
	}
	return h.Store.Append(ctx, batches)
}

// TestReadingBesideADeletion: a command that comes before the deletion is durable waits for
// it, and takes nothing from it.
func TestReadingBesideADeletion(t *testing.T) {
	mem := storetest.NewMem()
	k := newKitOn(t, mem, shortInputs)
	toDelete(k)
	k.closeManager()
	held := &heldStore{Store: mem, held: make(chan struct{}, 8), release: make(chan struct{})}
	m := session.New(session.Options{Store: held, RuntimeID: "runtime_test"})
	deleted, read := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := runCommand(m, admin, &command.DeleteSession{SessionID: "sess_gone", Reason: "over"})
		deleted <- err
	}()
	<-held.held
	go func() {
		_, err := runCommand(m, admin, &command.GetSession{SessionID: "sess_gone"})
		read <- err
	}()
	select {
	case err := <-read:
		t.Errorf("a command was answered before the deletion was durable: %v", err)
		read <- err
	case <-time.After(50 * time.Millisecond): // it waits, or comes later
	}
	close(held.release)
	if err := <-deleted; err != nil {
		t.Errorf("the deletion: %v", err)
	}
	if err := <-read; fault.KindOf(err) != fault.NotFound {
		t.Errorf("the command beside it: %v, want that there is no such session", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDeletionThatIsCutOff is not begun, or is completed after a restart, wherever the
// writes end; Verify is content either way.
func TestDeletionThatIsCutOff(t *testing.T) {
	for left := range 8 {
		mem := storetest.NewMem()
		k := newKitOn(t, mem, shortInputs)
		toDelete(k)
		k.closeManager()
		m := session.New(session.Options{Store: &cutStore{mem, left}, RuntimeID: "runtime_test"})
		_, err := runCommand(m, admin, &command.DeleteSession{SessionID: "sess_gone", Reason: "over"})
		_ = m.Close(context.Background()) // the store is cut
		k.m = session.New(session.Options{Store: k.store, RuntimeID: "runtime_test"})
		if ferr := k.m.FinishDeletions(context.Background()); ferr != nil {
			t.Fatal(ferr)
		}
		if left == 0 {
			if err == nil {
				t.Error("acknowledged, although nothing was written")
			}
			call[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_gone"})
		} else {
			if err != nil {
				t.Errorf("%d writes: %v", left, err)
			}
			k.refused(admin, &command.GetSession{SessionID: "sess_gone"}, fault.NotFound)
			if n := countDeletions(k); n != 1 {
				t.Errorf("%d writes: told %d times", left, n)
			}
		}
		k.verified()
	}
}
