package session_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"agentd/command"
	"agentd/session"
	"agentd/store"
)

func jsonNumber(s string) json.Number { return json.Number(s) }

// tampered is a store whose contents look different to a reader.
type tampered struct {
	store.Store
	record   func(*store.Record)
	snapshot func(*store.Snapshot) bool
	entry    func(kind, key string, v []byte) ([]byte, error)
}

func (s *tampered) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for rec, err := range s.Store.Read(ctx, id, r) {
			if s.record != nil {
				s.record(&rec)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

func (s *tampered) Snapshot(ctx context.Context, id, name string) (store.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx, id, name)
	if err == nil && s.snapshot != nil && !s.snapshot(&snap) {
		return snap, store.ErrNotFound
	}
	return snap, err
}

func (s *tampered) Snapshots(ctx context.Context, id string) iter.Seq2[store.Snapshot, error] {
	return func(yield func(store.Snapshot, error) bool) {
		for snap, err := range s.Store.Snapshots(ctx, id) {
			if s.snapshot != nil && !s.snapshot(&snap) {
				continue
			}
			if !yield(snap, err) {
				return
			}
		}
	}
}

func (s *tampered) Get(ctx context.Context, kind, key string) ([]byte, error) {
	v, err := s.Store.Get(ctx, kind, key)
	if s.entry != nil {
		return s.entry(kind, key, v)
	}
	return v, err
}

// TestVerifyFindsWhatDiffers changes one thing at a time and expects to be told
// what and where.
func TestVerifyFindsWhatDiffers(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.SnapshotEvery = 4 })
	for range 30 { // so that turns leave the working set
		k.finish(k.submit(command.SubmitTurn{SessionID: "sess_v", Create: true}))
	}
	open := k.submit(command.SubmitTurn{SessionID: "sess_v"})
	k.closeManager()
	k.verified()

	flip := func(b []byte, old, replacement string) []byte {
		return []byte(strings.Replace(string(b), old, replacement, 1))
	}
	cases := []struct {
		name, what, detail string
		sequence           uint64
		s                  *tampered
	}{
		{"a fact was changed", "chain", "hash", 7, &tampered{record: func(r *store.Record) {
			if r.Sequence == 7 {
				r.Data = flip(r.Data, "completed", "failed")
			}
		}}},
		{"a hash was changed", "chain", "hash", 9, &tampered{record: func(r *store.Record) {
			if r.Sequence == 9 {
				r.Hash[3] ^= 1
			}
		}}},
		{"a fact is missing", "fact", "missing", 9, &tampered{record: func(r *store.Record) {
			if r.Sequence >= 9 {
				r.Sequence++
			}
		}}},
		{"the state was changed", "snapshot", "fold to", 0, &tampered{snapshot: func(s *store.Snapshot) bool {
			if s.Name == "state" {
				plain, err := session.UnpackState(s.Data)
				if err != nil {
					t.Error(err)
				}
				s.Data = flip(plain, `"turnCount":`, `"turnCount":1`)
			}
			return true
		}}},
		{"the state was cut off", "snapshot", "cut off", 0, &tampered{snapshot: func(s *store.Snapshot) bool {
			if s.Name == "state" {
				s.Data = s.Data[:len(s.Data)/2]
			}
			return true
		}}},
		{"a record was changed", "snapshot", "turn/", 0, &tampered{snapshot: func(s *store.Snapshot) bool {
			if strings.HasPrefix(s.Name, "turn/") {
				s.Data = flip(s.Data, "completed", "failed")
			}
			return true
		}}},
		{"a record is missing", "snapshot", "is missing", 0, &tampered{snapshot: func(s *store.Snapshot) bool {
			return !strings.HasPrefix(s.Name, "turn/")
		}}},
		{"an index entry is missing", "index", open.TurnID, 0, &tampered{entry: func(kind, key string, v []byte) ([]byte, error) {
			if kind == "turn" && strings.HasSuffix(key, open.TurnID) {
				return nil, store.ErrNotFound
			}
			return v, nil
		}}},
		{"an index entry was changed", "index", "open", 0, &tampered{entry: func(kind, _ string, v []byte) ([]byte, error) {
			if kind == "open" {
				return nil, store.ErrNotFound
			}
			return v, nil
		}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.s.Store = k.store
			report, err := session.Verify(context.Background(), c.s, session.VerifyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range report.Problems {
				if p.What == c.what && strings.Contains(p.Detail, c.detail) && (c.sequence == 0 || p.Sequence == c.sequence) {
					return
				}
			}
			t.Errorf("not found; the report has %v", report.Problems)
		})
	}
}
