package storetest

import (
	"context"
	"io"
	"iter"

	"agentd/store"
)

// hooked is a store some of whose methods do something else: what a broken
// engine would do. The hooks of a new one are the methods of the store below.
type hooked struct {
	store.Store
	claim      func(ctx context.Context, id string) (store.Claim, error)
	release    func(ctx context.Context, id string, epoch uint64) error
	append     func(ctx context.Context, batches []*store.Batch) []error
	head       func(ctx context.Context, id string) (store.Head, error)
	read       func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error]
	base       func(ctx context.Context, id string) (store.Snapshot, error)
	snapshot   func(ctx context.Context, id, name string) (store.Snapshot, error)
	snapshots  func(ctx context.Context, id string) iter.Seq2[store.Snapshot, error]
	get        func(ctx context.Context, kind, key string) ([]byte, error)
	scan       func(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error]
	sessions   func(ctx context.Context, after string) iter.Seq2[string, error]
	putBlob    func(ctx context.Context, r io.Reader) (store.BlobInfo, error)
	openBlob   func(ctx context.Context, ref string) (store.Blob, error)
	deleteBlob func(ctx context.Context, ref string) error
	follow     func(ctx context.Context) iter.Seq2[store.Appended, error]
	changes    func(ctx context.Context, after string) iter.Seq2[store.Change, error]
	position   func(ctx context.Context) (string, error)
	meta       func(ctx context.Context) (store.Meta, error)
	setMeta    func(ctx context.Context, name string, value []byte) ([]byte, error)
	close      func() error
}

func newHooked(s store.Store) *hooked {
	return &hooked{
		Store: s, claim: s.Claim, release: s.Release, append: s.Append, head: s.Head, read: s.Read, base: s.Base,
		snapshot: s.Snapshot, snapshots: s.Snapshots, get: s.Get, scan: s.Scan, sessions: s.Sessions,
		putBlob: s.PutBlob, openBlob: s.OpenBlob, deleteBlob: s.DeleteBlob, follow: s.Follow,
		changes: s.Changes, position: s.Position,
		meta: s.Meta, setMeta: s.SetMeta, close: s.Close,
	}
}

func (h *hooked) Claim(ctx context.Context, id string) (store.Claim, error) {
	return h.claim(ctx, id)
}

func (h *hooked) Release(ctx context.Context, id string, epoch uint64) error {
	return h.release(ctx, id, epoch)
}

func (h *hooked) Append(ctx context.Context, batches []*store.Batch) []error {
	return h.append(ctx, batches)
}

func (h *hooked) Head(ctx context.Context, id string) (store.Head, error) {
	return h.head(ctx, id)
}

func (h *hooked) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	return h.read(ctx, id, r)
}

func (h *hooked) Base(ctx context.Context, id string) (store.Snapshot, error) {
	return h.base(ctx, id)
}

func (h *hooked) Snapshot(ctx context.Context, id, name string) (store.Snapshot, error) {
	return h.snapshot(ctx, id, name)
}

func (h *hooked) Snapshots(ctx context.Context, id string) iter.Seq2[store.Snapshot, error] {
	return h.snapshots(ctx, id)
}

func (h *hooked) Get(ctx context.Context, kind, key string) ([]byte, error) {
	return h.get(ctx, kind, key)
}

func (h *hooked) Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error] {
	return h.scan(ctx, s)
}

func (h *hooked) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	return h.sessions(ctx, after)
}

func (h *hooked) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	return h.putBlob(ctx, r)
}

func (h *hooked) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	return h.openBlob(ctx, ref)
}

func (h *hooked) DeleteBlob(ctx context.Context, ref string) error {
	return h.deleteBlob(ctx, ref)
}

func (h *hooked) Follow(ctx context.Context) iter.Seq2[store.Appended, error] {
	return h.follow(ctx)
}

func (h *hooked) Meta(ctx context.Context) (store.Meta, error) {
	return h.meta(ctx)
}

func (h *hooked) SetMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	return h.setMeta(ctx, name, value)
}

func (h *hooked) Close() error { return h.close() }

// brokenEngine breaks each store that it opens.
type brokenEngine struct {
	mem    *memEngine
	breaks func(h *hooked, e *brokenEngine)
	// opened counts the stores opened before.
	opened int
}

func (e *brokenEngine) wrap(s store.Store) store.Store {
	h := newHooked(s)
	e.breaks(h, e)
	e.opened++
	return h
}

func (e *brokenEngine) Open() store.Store { return e.wrap(e.mem.Open()) }

func (e *brokenEngine) Second() (store.Store, bool) {
	s, ok := e.mem.Second()
	return e.wrap(s), ok
}

func (h *hooked) Changes(ctx context.Context, after string) iter.Seq2[store.Change, error] {
	return h.changes(ctx, after)
}

func (h *hooked) Position(ctx context.Context) (string, error) { return h.position(ctx) }
