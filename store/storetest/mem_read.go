package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"agentd/store"
)

// Head implements [store.Store].
func (m *Mem) Head(ctx context.Context, sessionID string) (store.Head, error) {
	if err := m.enter(ctx); err != nil {
		return store.Head{}, err
	}
	defer m.leave()
	return m.data.session(sessionID).head(), nil
}

// Read implements [store.Store].
func (m *Mem) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		var removed error
		whole := true
		for rec, err := range yieldAll(ctx, func() (list []store.Record, err error) {
			if err := m.enter(ctx); err != nil {
				return nil, err
			}
			defer m.leave()
			list, removed = m.data.session(sessionID).selected(sessionID, r)
			return list, nil
		}, cloneRecord) {
			if whole = err == nil; !yield(rec, err) {
				return
			}
		}
		if removed != nil && whole {
			yield(store.Record{}, removed)
		}
	}
}

// selected returns the records that a range selects, and an error if it also
// selects records that were removed: then a read that goes up yields none.
func (s *memSession) selected(id string, r store.Range) ([]store.Record, error) {
	list := inRange(s.records, r)
	if s.base == nil || r.After >= s.base.Sequence || (r.Before != 0 && r.Before <= r.After+1) {
		return list, nil
	}
	removed := &store.TrimmedError{SessionID: id, Through: s.base.Sequence}
	switch {
	case !r.Reverse:
		return nil, removed
	case r.Limit > 0 && len(list) == r.Limit:
		return list, nil
	}
	return list, removed
}

// Base implements [store.Store].
func (m *Mem) Base(ctx context.Context, sessionID string) (store.Snapshot, error) {
	if err := m.enter(ctx); err != nil {
		return store.Snapshot{}, err
	}
	defer m.leave()
	base := m.data.session(sessionID).base
	if base == nil {
		return store.Snapshot{}, fmt.Errorf("base of session %s: %w", sessionID, store.ErrNotFound)
	}
	return cloneSnapshot(*base), nil
}

// inRange returns the records that a range selects. It is the reference for
// reads: it looks at every record.
func inRange(records []store.Record, r store.Range) []store.Record {
	var in []store.Record
	for _, rec := range records {
		if rec.Sequence > r.After && (r.Before == 0 || rec.Sequence < r.Before) {
			in = append(in, rec)
		}
	}
	return cutRange(in, r.Reverse, r.Limit)
}

// cutRange turns and shortens what a range or a scan selected.
func cutRange[V any](list []V, reverse bool, limit int) []V {
	if reverse {
		slices.Reverse(list)
	}
	if limit > 0 && limit < len(list) {
		list = list[:limit]
	}
	return list
}

// yieldAll yields clones of what list returns, which is called for each
// iteration.
func yieldAll[V any](ctx context.Context, list func() ([]V, error), clone func(V) V) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var zero V
		all, err := list()
		if err != nil {
			yield(zero, err)
			return
		}
		for _, v := range all {
			if err := ctx.Err(); err != nil {
				yield(zero, err)
				return
			}
			if !yield(clone(v), nil) {
				return
			}
		}
	}
}

// Snapshot implements [store.Store].
func (m *Mem) Snapshot(ctx context.Context, sessionID, name string) (store.Snapshot, error) {
	if err := m.enter(ctx); err != nil {
		return store.Snapshot{}, err
	}
	defer m.leave()
	snap, ok := m.data.session(sessionID).snapshots[name]
	if !ok {
		return store.Snapshot{}, fmt.Errorf("snapshot %s of session %s: %w", name, sessionID, store.ErrNotFound)
	}
	return cloneSnapshot(snap), nil
}

// Snapshots implements [store.Store].
func (m *Mem) Snapshots(ctx context.Context, sessionID string) iter.Seq2[store.Snapshot, error] {
	return yieldAll(ctx, func() ([]store.Snapshot, error) {
		if err := m.enter(ctx); err != nil {
			return nil, err
		}
		defer m.leave()
		all := m.data.session(sessionID).snapshots
		var list []store.Snapshot
		for _, name := range sortedKeys(all) {
			list = append(list, all[name])
		}
		return list, nil
	}, cloneSnapshot)
}

func cloneSnapshot(s store.Snapshot) store.Snapshot {
	s.Data = slices.Clone(s.Data)
	return s
}

// Get implements [store.Store].
func (m *Mem) Get(ctx context.Context, kind, key string) ([]byte, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.leave()
	value, ok := m.data.index[kind][key]
	if !ok {
		return nil, fmt.Errorf("%s %q: %w", kind, key, store.ErrNotFound)
	}
	return slices.Clone(value), nil
}

// Scan implements [store.Store].
func (m *Mem) Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
	return yieldAll(ctx, func() ([]store.Entry, error) {
		if err := m.enter(ctx); err != nil {
			return nil, err
		}
		defer m.leave()
		return scanMap(m.data.index[s.Kind], s), nil
	}, cloneEntry)
}

func cloneEntry(e store.Entry) store.Entry {
	e.Value = slices.Clone(e.Value)
	return e
}

// scanMap returns the entries that a scan selects from a kind's map. It is the
// reference for scans: it looks at every key.
func scanMap(kind map[string][]byte, s store.Scan) []store.Entry {
	var in []store.Entry
	for _, key := range sortedKeys(kind) {
		after := s.After == "" || key > s.After
		if s.Reverse {
			after = s.After == "" || key < s.After
		}
		if after && strings.HasPrefix(key, s.Prefix) {
			in = append(in, store.Entry{Kind: s.Kind, Key: key, Value: kind[key]})
		}
	}
	return cutRange(in, s.Reverse, s.Limit)
}

// Sessions implements [store.Store].
func (m *Mem) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	return yieldAll(ctx, func() ([]string, error) {
		if err := m.enter(ctx); err != nil {
			return nil, err
		}
		defer m.leave()
		var ids []string
		for _, id := range sortedKeys(m.data.sessions) {
			if id > after && len(m.data.sessions[id].records) > 0 {
				ids = append(ids, id)
			}
		}
		return ids, nil
	}, func(id string) string { return id })
}

// PutBlob implements [store.Store].
func (m *Mem) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	if err := ctx.Err(); err != nil {
		return store.BlobInfo{}, err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return store.BlobInfo{}, fmt.Errorf("read the blob's content: %w", err)
	}
	if err := m.enter(ctx); err != nil {
		return store.BlobInfo{}, err
	}
	defer m.leave()
	return store.BlobInfo{Ref: m.data.putBlob(content), Size: int64(len(content))}, nil
}

func (d *memData) putBlob(content []byte) (ref string) {
	ref = store.RefOf(sha256.Sum256(content))
	d.blobs[ref] = content
	return ref
}

// OpenBlob implements [store.Store].
func (m *Mem) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.leave()
	if _, err := store.ParseRef(ref); err != nil {
		return nil, err
	}
	content, ok := m.data.blobs[ref]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", ref, store.ErrNotFound)
	}
	return memBlob{Reader: bytes.NewReader(content), ref: ref}, nil
}

// DeleteBlob implements [store.Store].
func (m *Mem) DeleteBlob(ctx context.Context, ref string) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	if _, err := store.ParseRef(ref); err != nil {
		return err
	}
	delete(m.data.blobs, ref)
	return nil
}

type memBlob struct {
	*bytes.Reader
	ref string
}

// Info implements [store.Blob].
func (b memBlob) Info() store.BlobInfo { return store.BlobInfo{Ref: b.ref, Size: b.Size()} }

// Close implements [store.Blob].
func (memBlob) Close() error { return nil }
