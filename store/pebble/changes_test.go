package pebble

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"testing"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// changesAfter reads the changes after a number.
func changesAfter(t *testing.T, s *Store, after uint64) ([]store.Change, error) {
	t.Helper()
	var list []store.Change
	for c, err := range s.Changes(t.Context(), strconv.FormatUint(after, 10)) {
		if err != nil {
			return list, err
		}
		list = append(list, c)
	}
	return list, nil
}

// TestChangesShareAnEntry holds the changes of stores in which version 1 wrote some of
// them: reading goes on after any of them, also within a commit.
func TestChangesShareAnEntry(t *testing.T) {
	o := (&Options{FS: vfs.NewMem()}).withDefaults()
	s, err := openStore("store", o, currentSchema())
	if err != nil {
		t.Fatal(err)
	}
	old := func(number, first, last uint64, session string) {
		v := binary.BigEndian.AppendUint64([]byte{oneChange}, first)
		v = append(binary.BigEndian.AppendUint64(v, last), session...)
		if err := s.db.Set(changeKey(number), v, pdb.Sync); err != nil {
			t.Fatal(err)
		}
	}
	old(1, 1, 3, "a")
	old(2, 1, 1, "b")
	if err := s.countChanges(); err != nil {
		t.Fatal(err)
	}
	b := s.db.NewBatch()
	for _, in := range []*store.Batch{
		{SessionID: "c", Records: []store.Record{{Sequence: 1}}},
		{SessionID: "a", Records: []store.Record{{Sequence: 4}, {Sequence: 5}}},
		{SessionID: "long-" + string(slices.Repeat([]byte{'x'}, 200)), Records: []store.Record{{Sequence: 1 << 40}}},
	} {
		s.stageChange(in)
	}
	if err := errors.Join(s.putChanges(b), s.write(b)); err != nil {
		t.Fatal(err)
	}
	whole, err := changesAfter(t, s, 0)
	if err != nil || len(whole) != 5 {
		t.Fatalf("all changes: %+v %v, want 5", whole, err)
	}
	if c := whole[3]; c.SessionID != "a" || c.First != 4 || c.Last != 5 || c.Position != "4" {
		t.Errorf("the fourth change: %+v", c)
	}
	for n := range uint64(6) {
		if rest, err := changesAfter(t, s, n); err != nil || !slices.Equal(rest, whole[n:]) {
			t.Errorf("after %d: %+v %v, want %+v", n, rest, err, whole[n:])
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = openStore("store", o, currentSchema()); err != nil {
		t.Fatal(err)
	}
	if at, err := s.Position(t.Context()); err != nil || at != "5" {
		t.Errorf("the position after a restart: %q %v, want 5", at, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedChanges cuts an entry at every length and flips every byte: reading
// reports the damage or reads something, and never panics.
func TestDamagedChanges(t *testing.T) {
	o := (&Options{FS: vfs.NewMem()}).withDefaults()
	s, err := openStore("store", o, currentSchema())
	if err != nil {
		t.Fatal(err)
	}
	s.stageChange(&store.Batch{SessionID: "a", Records: []store.Record{{Sequence: 1}}})
	s.stageChange(&store.Batch{SessionID: "b", Records: []store.Record{{Sequence: 7}}})
	b := s.db.NewBatch()
	if err := errors.Join(s.putChanges(b), s.write(b)); err != nil {
		t.Fatal(err)
	}
	good, err := s.getDurable(changeKey(2))
	if err != nil {
		t.Fatal(err)
	}
	try := func(v []byte) error {
		if err := s.db.Set(changeKey(2), v, pdb.Sync); err != nil {
			t.Fatal(err)
		}
		s.publish()
		_, err := changesAfter(t, s, 0)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%x: %v, want ErrCorrupt", v, err)
		}
		return err
	}
	for n := range good {
		if try(good[:n]) == nil {
			t.Errorf("cut to %d of %d bytes: read without an error", n, len(good))
		}
		for _, flip := range []byte{1, 0x80, 0xff} {
			v := slices.Clone(good)
			v[n] ^= flip
			_ = try(v)
		}
	}
	if err := try(good); err != nil {
		t.Errorf("the entry as it was: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
