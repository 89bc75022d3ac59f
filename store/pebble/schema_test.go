package pebble

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// later is the schema of a version to come: it renames a value.
func later(step error) schema {
	return schema{version: currentSchema().version + 1, steps: append(currentSchema().steps,
		func(db *pdb.DB, b *pdb.Batch) error {
			v, err := getCopy(db, nameKey(keyValue, "old"))
			if err != nil {
				return err
			}
			if err := b.Set(nameKey(keyValue, "new"), v, nil); err != nil {
				return err
			}
			if err := b.Delete(nameKey(keyValue, "old"), nil); err != nil {
				return err
			}
			return step
		},
	)}
}

func TestMigration(t *testing.T) {
	o := (&Options{FS: vfs.NewMem()}).withDefaults()
	s, err := openStore("store", o, currentSchema())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetMeta(t.Context(), "old", []byte("value")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	broken := errors.New("broken step")
	if _, err := openStore("store", o, later(broken)); !errors.Is(err, broken) {
		t.Fatalf("open with a broken step: %v", err)
	}
	s, err = openStore("store", o, later(nil))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.getDurable(nameKey(keyValue, "new")); err != nil || string(v) != "value" {
		t.Errorf("after the migration: %q %v", v, err)
	}
	if _, err := s.getDurable(nameKey(keyValue, "old")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the old value: %v, want ErrNotFound", err)
	}
	if m, err := s.Meta(t.Context()); err != nil || m.Version != later(nil).version {
		t.Errorf("Meta: %+v %v, want version %d", m, err, later(nil).version)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refusesNewer(t, o)
}

// refusesNewer opens data of a newer version, with and without the ledger that
// says so too.
func refusesNewer(t *testing.T, o Options) {
	t.Helper()
	for range 2 {
		_, err := openStore("store", o, currentSchema())
		if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "install the newer agentd") {
			t.Errorf("open: %v, want ErrNewer and what to do", err)
		}
		if err := o.FS.Remove("store/ledger"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNewerPebble meets files whose format Pebble doesn't know.
func TestNewerPebble(t *testing.T) {
	o := (&Options{FS: vfs.NewMem()}).withDefaults()
	s, err := openStore("store", o, currentSchema())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := o.FS.List("store/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, "marker.format-version.") {
			if err := o.FS.Rename("store/db/"+n, "store/db/marker.format-version.000099.999"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := openStore("store", o, currentSchema()); !errors.Is(err, store.ErrNewer) {
		t.Errorf("open: %v, want ErrNewer", err)
	}
}

// TestDamagedValues meets values that aren't what the engine writes.
func TestDamagedValues(t *testing.T) {
	o := (&Options{FS: vfs.NewMem()}).withDefaults()
	s, err := openStore("store", o, currentSchema())
	if err != nil {
		t.Fatal(err)
	}
	sum := store.Hash{1}
	for _, key := range [][]byte{eventKey("s", 1), pairKey(keySnapshot, "s", "n"), blobKey(sum)} {
		if err := s.db.Set(key, []byte{9}, pdb.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Set(eventKey("gap", 2), append([]byte{valueFormat}, make([]byte, 40)...), pdb.Sync); err != nil {
		t.Fatal(err)
	}
	s.publish()
	ctx := t.Context()
	_, snap := s.Snapshot(ctx, "s", "n")
	_, head := s.Head(ctx, "s")
	_, blob := s.OpenBlob(ctx, store.RefOf(sum))
	for what, err := range map[string]error{
		"Snapshot": snap, "Head": head, "OpenBlob": blob,
		"Read":         readErr(ctx, s, "s", store.Range{}),
		"Read a gap":   readErr(ctx, s, "gap", store.Range{}),
		"Read it back": readErr(ctx, s, "gap", store.Range{Reverse: true}),
	} {
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", what, err)
		}
	}
	if err := s.db.Set(nameKey(keyMeta, metaVersion), []byte{1}, pdb.Sync); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore("store", o, currentSchema()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("open with a damaged version: %v, want ErrCorrupt", err)
	}
}

func readErr(ctx context.Context, s *Store, id string, r store.Range) error {
	for _, err := range s.Read(ctx, id, r) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestEpochsGrow over restarts, also without anything written between.
func TestEpochsGrow(t *testing.T) {
	o := (&Options{FS: vfs.NewMem()}).withDefaults()
	var last uint64
	for range 5 {
		s, err := openStore("store", o, currentSchema())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			c, err := s.Claim(t.Context(), "s")
			if err != nil || c.Epoch <= last {
				t.Fatalf("epoch %d after %d: %v", c.Epoch, last, err)
			}
			last = c.Epoch
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStagedLeftovers: a blob whose writing was cut off leaves nothing behind
// after the next open.
func TestStagedLeftovers(t *testing.T) {
	o := (&Options{FS: vfs.NewMem()}).withDefaults()
	s, err := openStore("store", o, currentSchema())
	if err != nil {
		t.Fatal(err)
	}
	st := &staging{s: s, ctx: t.Context(), id: atID(s.ids.next())}
	for range 3 {
		if err := st.put(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = openStore("store", o, currentSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []byte{keyChunk, keyStaged} {
		it, err := s.iterate(t.Context(), []byte{prefix}, []byte{prefix + 1})
		if err != nil {
			t.Fatal(err)
		}
		if it.First() {
			t.Errorf("%q is left", it.Key())
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLedgerLines: what is written is read, and a changed line isn't believed.
func TestLedgerLines(t *testing.T) {
	fs := vfs.NewMem()
	l, err := newLedger(fs, "", []string{"store 1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.add("log 7", "log 8", "gone 7", manifestLine("MANIFEST-000001", extent{10, 0xab}), finalLine(8, extent{3, 4}), "clean"); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	st, found, err := readLedger(fs, "ledger")
	if err != nil || !found || !st.clean || st.version != 1 || len(st.logs) != 1 || st.logs[8] != (extent{3, 4}) || st.manifests["MANIFEST-000001"] != (extent{10, 0xab}) {
		t.Errorf("read %+v %v %v", st, found, err)
	}
	if st.apply(strings.Replace(ledgerLine("log 9"), "9", "8", 1)) || st.apply(strings.TrimSpace(ledgerLine("unheard of"))) {
		t.Error("a line that can't be right was believed")
	}
}
