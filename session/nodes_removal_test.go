package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/pgtest"
	"agentd/internal/s3test"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/s3"
)

// sharedNode is a node on a database in which something happens once, in the middle of a
// read.
type sharedNode struct {
	*postgres.Store
	cut interrupted
}

func (s *sharedNode) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return s.cut.Read(ctx, sessionID, r)
}

// sharedKit returns a manager that is a node on a database.
func sharedKit(t *testing.T, url string, objects store.Objects) (*kit, *sharedNode) {
	t.Helper()
	pg, err := postgres.Open(t.Context(), url, &postgres.Options{LeaseTTL: time.Hour, AllowUnsafe: true, Objects: objects, ObjectsFrom: 1, ObjectsKept: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	s := &sharedNode{Store: pg, cut: interrupted{Store: pg}}
	k := &kit{T: t, store: s, m: session.New(session.Options{Store: s, RuntimeID: "runtime_test", InlineBytes: 4})}
	t.Cleanup(func() {
		k.closeManager()
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, s
}

// restart gives all claims of a node back, as a node does with sessions that rest.
func (k *kit) restart() {
	k.Helper()
	k.reopen(func(o *session.Options) { o.InlineBytes = 4 })
}

// forkOf returns the command that forks a session at its end.
func forkOf(k *kit, sessionID string) *command.ForkThread {
	k.Helper()
	p := &command.ForkThread{SessionID: sessionID}
	k.view(sessionID, func(s *state.Session) { p.ThreadID, p.AtSequence = s.MainThread().ThreadID, s.Sequence })
	return p
}

// TestForkBesideARemovalOnAnotherNode makes forks on one node and removes events on the
// other: the history that a fork refers to is there.
func TestForkBesideARemovalOnAnotherNode(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, nodeA := sharedKit(t, url, nil)
	b, nodeB := sharedKit(t, url, nil)
	remove := map[string]func(id string) error{
		"trim": func(id string) error {
			_, err := b.m.Trim(context.Background(), id, session.TrimOptions{})
			return err
		},
		"delete": func(id string) error {
			res, err := runCommand(b.m, admin, &command.DeleteSession{SessionID: id})
			if err == nil && res.(*command.DeleteSessionResult).KeptForForks {
				err = fault.New(fault.Conflict, "kept")
			}
			return err
		},
	}
	for name, remove := range remove {
		// The removal has looked for forks; then one is made, and its node lets the origin go.
		first := "sess_first_" + name
		b.turns(first, 2)
		when := wholeRead(first)
		if name == "delete" {
			when = func(id string, r store.Range) bool { return id == first && r.Before != 0 && !r.Reverse }
		}
		fork := forkOf(b, first)
		b.restart()
		nodeB.cut.on(when, func() {
			if _, err := runCommand(a.m, admin, fork); err != nil {
				t.Error(err)
			}
			a.restart()
		})
		if err := remove(first); fault.KindOf(err) != fault.Conflict || a.oldest(first) != 1 {
			t.Errorf("%s: %v, and the session begins at %d", name, err, a.oldest(first))
		}
		// The fork has looked at its origin; then a removal comes.
		second := "sess_second_" + name
		b.turns(second, 2)
		fork = forkOf(b, second)
		b.restart()
		nodeA.cut.on(readBack(second), func() {
			if err := remove(second); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			b.restart()
		})
		made, err := runCommand(a.m, admin, fork)
		if err == nil {
			t.Errorf("%s: %+v was made of a session whose events are gone", name, made)
		} else if k := fault.KindOf(err); k != fault.Conflict && k != fault.NotFound {
			t.Errorf("%s: the fork: %v", name, err)
		}
	}
}

// TestForkThatNeverCame has a fork announced that isn't there: while its node lives it may
// come, and the events stay; afterwards it can't, and they go.
func TestForkThatNeverCame(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, nodeA := sharedKit(t, url, nil)
	b, _ := sharedKit(t, url, nil)
	b.turns("sess_origin", 2)
	b.restart()
	ctx := context.Background()
	fork, err := nodeA.Claim(ctx, "sess_fork")
	if err != nil {
		t.Fatal(err)
	}
	claim, err := nodeA.Claim(ctx, "sess_origin")
	if err != nil {
		t.Fatal(err)
	}
	put := &store.Batch{SessionID: "sess_origin", Epoch: claim.Epoch, Index: []store.IndexOp{{Entry: store.Entry{Kind: "fork", Key: "sess_origin/sess_fork"}}}}
	if err := nodeA.Append(ctx, []*store.Batch{put})[0]; err != nil {
		t.Fatal(err)
	}
	if err := nodeA.Release(ctx, "sess_origin", claim.Epoch); err != nil {
		t.Fatal(err)
	}
	if _, err := b.m.Trim(ctx, "sess_origin", session.TrimOptions{}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("while a fork may come: %v", err)
	}
	if err := nodeA.Release(ctx, "sess_fork", fork.Epoch); err != nil {
		t.Fatal(err)
	}
	if res, err := b.m.Trim(ctx, "sess_origin", session.TrimOptions{}); err != nil || res.Events == 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := b.store.Get(ctx, "fork", "sess_origin/sess_fork"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the announcement: %v", err)
	}
	if a.oldest("sess_origin") == 1 {
		t.Error("nothing was removed")
	}
}

// TestContentDeletedBesideOtherNodes deletes on one node what the other stores again, refers
// to with a command, or has just stored.
func TestContentDeletedBesideOtherNodes(t *testing.T) {
	t.Parallel()
	t.Run("in the database", func(t *testing.T) {
		t.Parallel()
		deleteBesideOtherNodes(t, nil)
	})
	t.Run("in a bucket", func(t *testing.T) {
		t.Parallel()
		server := s3test.Shared(t)
		bucket, err := s3.Open(&s3.Options{Endpoint: server.URL, Bucket: server.Bucket(t), Keys: func() (s3.Keys, error) {
			return s3.Keys{Access: s3test.AccessKey, Secret: s3test.SecretKey}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		deleteBesideOtherNodes(t, bucket)
	})
}

func deleteBesideOtherNodes(t *testing.T, objects store.Objects) {
	t.Helper()
	url := pgtest.Quick(t).Database(t)
	a, _ := sharedKit(t, url, objects)
	b, nodeB := sharedKit(t, url, objects)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	age := func() {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `UPDATE agentd.blobs SET touched = touched - interval '1 day'`); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	there := func(ref string, want bool) {
		t.Helper()
		blob, err := a.store.OpenBlob(ctx, ref)
		if err == nil {
			_, err = io.Copy(io.Discard, blob)
		}
		if want != (err == nil) || (err != nil && !errors.Is(err, store.ErrNotFound)) {
			t.Errorf("the content is there: %v, %v, want %v", err == nil, err, want)
		}
	}
	// begin deletes a session with an input, and returns the reference of that input.
	begin := func(id, input string) string {
		t.Helper()
		r := b.submit(command.SubmitTurn{SessionID: id, Create: true, Input: event.Raw(`"` + input + `"`)})
		b.finish(r)
		var ref string
		for _, rec := range b.records(id) {
			if refs := store.RefsIn(rec.Data, 9); len(refs) > 0 && strings.Contains(string(rec.Data), `"inputRef"`) {
				ref = refs[0]
			}
		}
		if ref == "" {
			t.Fatal("the input has no reference")
		}
		if _, err := nodeB.MoveBlobs(ctx); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	end := func(id string) { call[command.DeleteSessionResult](b, &command.DeleteSession{SessionID: id}) }
	sweep := func() {
		t.Helper()
		if err := b.m.FinishDeletions(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := nodeB.MoveBlobs(ctx); err != nil { // it deletes objects, too
			t.Fatal(err)
		}
	}

	// Nobody needs it: it goes once nobody can come for it any more.
	ref := begin("sess_one", "input one")
	end("sess_one")
	there(ref, true)
	age()
	sweep()
	there(ref, false)

	// The other node stores it ahead of its fact.
	ref = begin("sess_two", "input two")
	age()
	blob, err := a.store.OpenBlob(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := a.m.PutOutput(ctx, blob); err != nil || same != ref {
		t.Fatalf("%s, %v, want %s", same, err, ref)
	}
	end("sess_two")
	there(ref, true)
	a.submit(command.SubmitTurn{SessionID: "sess_two_more", Create: true, Input: event.Raw(`"input two"`)})
	age()
	sweep()
	there(ref, true)

	// Both at once, again and again: a fact that is there has its content.
	for i := range 10 {
		input := fmt.Sprint("input three ", i)
		id := fmt.Sprint("sess_three_", i)
		ref = begin(id, input)
		age()
		var both sync.WaitGroup
		both.Go(func() { end(id) })
		both.Go(func() {
			a.submit(command.SubmitTurn{SessionID: id + "_more", Create: true, Input: event.Raw(`"` + input + `"`)})
		})
		both.Wait()
		there(ref, true)
		age()
		sweep()
		there(ref, true)
	}
}
