package postgres_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
)

// agedSQL has all blobs look as if nobody had stored or held them for a day.
const agedSQL = `UPDATE agentd.blobs SET touched = touched - interval '1 day'`

// refer has a session refer to a blob, and perhaps store it with that.
func refer(tb testing.TB, s *postgres.Store, sessionID, ref string, contents ...[]byte) {
	tb.Helper()
	c, err := s.Claim(tb.Context(), sessionID)
	if err != nil {
		tb.Fatal(err)
	}
	b := &store.Batch{SessionID: sessionID, Epoch: c.Epoch, Blobs: contents, Index: []store.IndexOp{{Entry: store.Entry{Kind: "kept", Key: ref + "/" + sessionID}}}}
	if err := s.Append(tb.Context(), []*store.Batch{b})[0]; err != nil {
		tb.Fatal(err)
	}
}

// TestSweep: a blob goes if nothing needs it and nobody, on whichever node, stored or held
// it lately.
func TestSweep(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, b := openStore(t, url, nil), openStore(t, url, nil)
	defer shut(t, a)
	defer shut(t, b)
	conn := connect(t, url)
	content := []byte("some content")
	ref := store.RefOf(sha256.Sum256(content))
	sweep := func(want store.Swept) {
		t.Helper()
		got, err := b.SweepBlob(t.Context(), &store.Sweep{Ref: ref, Unless: []string{"other", "kept"}, Unused: time.Hour})
		if err != nil || got != want {
			t.Errorf("SweepBlob = %+v, %v, want %+v", got, err, want)
		}
	}
	size := int64(len(content))
	sweep(store.Swept{})
	if err := a.HoldBlob(t.Context(), ref); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("HoldBlob of none: %v", err)
	}
	for name, again := range map[string]func() error{
		"put":  func() error { _, err := a.PutBlob(t.Context(), bytes.NewReader(content)); return err },
		"hold": func() error { return a.HoldBlob(t.Context(), ref) },
		"append": func() error {
			refer(t, a, "s", "another", content)
			return nil
		},
	} {
		putBlob(t, a, content)
		execute(t, conn, agedSQL)
		if err := again(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		sweep(store.Swept{Size: size, Awaited: true})
		execute(t, conn, agedSQL)
		sweep(store.Swept{Size: size, Deleted: true})
		sweep(store.Swept{})
	}
	// A large one is stored chunk by chunk.
	large := bytes.Repeat([]byte("large"), 5*store.ChunkSize)
	ref, size = putBlob(t, a, large), int64(len(large))
	execute(t, conn, agedSQL)
	putBlob(t, a, large)
	sweep(store.Swept{Size: size, Awaited: true})
	refer(t, a, "s", ref)
	execute(t, conn, agedSQL)
	sweep(store.Swept{Size: size})
	if _, err := readBlob(t, b, ref); err != nil {
		t.Error(err)
	}
	if _, err := b.SweepBlob(t.Context(), &store.Sweep{Ref: "none"}); err == nil {
		t.Error("what is no reference was swept")
	}
}

// TestSweepBesidePuts sweeps on one node what the other stores again at that moment: what
// a batch refers to, and what was put or held, is there afterwards.
func TestSweepBesidePuts(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, b := openStore(t, url, nil), openStore(t, url, nil)
	defer shut(t, a)
	defer shut(t, b)
	conn := connect(t, url)
	lost, kept := 0, 0
	for round := range 40 {
		content := []byte(strings.Repeat(fmt.Sprint("round ", round), 100))
		ref := store.RefOf(sha256.Sum256(content))
		putBlob(t, a, content)
		execute(t, conn, agedSQL)
		var both sync.WaitGroup
		var swept store.Swept
		both.Go(func() {
			var err error
			if swept, err = b.SweepBlob(t.Context(), &store.Sweep{Ref: ref, Unless: []string{"kept"}, Unused: time.Hour}); err != nil {
				t.Error(err)
			}
		})
		held := true
		both.Go(func() {
			switch round % 3 {
			case 0:
				refer(t, a, "s", ref, content)
			case 1:
				putBlob(t, a, content)
			default:
				held = a.HoldBlob(t.Context(), ref) == nil
			}
		})
		both.Wait()
		if swept.Deleted {
			lost++
		} else {
			kept++
		}
		if _, err := readBlob(t, a, ref); held != (err == nil) {
			t.Errorf("round %d: held %v, the sweep says %+v, the read %v", round, held, swept, err)
		}
	}
	t.Logf("%d sweeps were first, %d were not", lost, kept)
}
