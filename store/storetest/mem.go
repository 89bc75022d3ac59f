package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"agentd/store"
)

// Mem is a store in memory, one node on data that other nodes may share. It is
// made to be obviously right, not quick: one mutex guards everything. Nothing
// survives the process, and nothing is ever damaged.
type Mem struct {
	name string
	data *memData

	// What follows is guarded by data.mu.

	closed bool
	// expired makes the node's claims look to other nodes as if their leases
	// had ended.
	expired bool
	// done is closed with the node.
	done chan struct{}
}

// memData is what nodes share.
type memData struct {
	mu        sync.Mutex
	nodes     int
	sessions  map[string]*memSession
	index     map[string]map[string][]byte
	blobs     map[string][]byte
	meta      map[string][]byte
	followers map[*follower]struct{}
	// changes are all writes of records, in order.
	changes []store.Change
}

type memSession struct {
	epoch uint64
	// owner made the newest claim; nil after its release.
	owner *Mem
	// base stands for the records that were removed; nil if all are there.
	base      *store.Snapshot
	records   []store.Record
	snapshots map[string]store.Snapshot
}

var _ store.Store = (*Mem)(nil)

// The encoder of chunks makes its channels when it is used for the first time. In a test
// with synctest that must not happen within a bubble: other tests share it.
var _, _ = store.DecodeChunk(store.EncodeChunk(nil, []byte("before any bubble")))

// NewMem returns a node on new, empty data.
func NewMem() *Mem {
	return (&memData{
		sessions:  map[string]*memSession{},
		index:     map[string]map[string][]byte{},
		blobs:     map[string][]byte{},
		meta:      map[string][]byte{},
		followers: map[*follower]struct{}{},
	}).open()
}

func (d *memData) open() *Mem {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes++
	return &Mem{name: "mem" + strconv.Itoa(d.nodes), data: d, done: make(chan struct{})}
}

// Node returns another node on the same data. It serves as a second node beside
// m, and as the store opened again after m was closed.
func (m *Mem) Node() *Mem { return m.data.open() }

// Expire lets other nodes claim what m owns, as if m's leases had ended. m goes
// on and finds out only when it appends.
func (m *Mem) Expire() {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	m.expired = true
}

// enter begins a call: it locks the data, or says why the call can't be made.
func (m *Mem) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.data.mu.Lock()
	if m.closed {
		m.data.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

func (m *Mem) leave() { m.data.mu.Unlock() }

// session returns a session for reading; an absent one is empty.
func (d *memData) session(id string) *memSession {
	if s := d.sessions[id]; s != nil {
		return s
	}
	return &memSession{}
}

func (s *memSession) head() store.Head { return HeadOf(s.records) }

// Claim implements [store.Store].
func (m *Mem) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	if err := m.enter(ctx); err != nil {
		return store.Claim{}, err
	}
	defer m.leave()
	s := m.data.session(sessionID)
	if o := s.owner; o != nil && o != m && !o.closed && !o.expired {
		return store.Claim{}, &store.OwnedError{SessionID: sessionID, Owner: o.name}
	}
	s.epoch++
	s.owner = m
	m.data.sessions[sessionID] = s
	return store.Claim{Epoch: s.epoch, Head: s.head()}, nil
}

// Release implements [store.Store].
func (m *Mem) Release(ctx context.Context, sessionID string, epoch uint64) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	if s := m.data.session(sessionID); s.epoch == epoch {
		s.owner = nil
	}
	return nil
}

// Append implements [store.Store].
func (m *Mem) Append(ctx context.Context, batches []*store.Batch) []error {
	errs := make([]error, len(batches))
	if err := m.enter(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	defer m.leave()
	failed := map[string]bool{}
	for i, b := range batches {
		errs[i] = m.judge(b, failed[b.SessionID])
		if errs[i] != nil {
			failed[b.SessionID] = true
			continue
		}
		m.apply(b)
	}
	return errs
}

// judge decides whether a batch may be written. It changes nothing.
func (m *Mem) judge(b *store.Batch, afterFailure bool) error {
	if afterFailure {
		return fmt.Errorf("an earlier batch of session %s failed: %w", b.SessionID, store.ErrConflict)
	}
	s := m.data.session(b.SessionID)
	if s.owner != m || s.epoch != b.Epoch {
		return store.ErrFenced
	}
	for i, r := range b.Records {
		if want := s.head().Sequence + 1 + uint64(i); r.Sequence != want {
			return fmt.Errorf("session %s: sequence %d where %d is next: %w", b.SessionID, r.Sequence, want, store.ErrConflict)
		}
	}
	if err := s.judgeTrim(b); err != nil {
		return err
	}
	return m.data.judgeIndex(b.Index)
}

// judgeTrim checks a removal against what is stored.
func (s *memSession) judgeTrim(b *store.Batch) error {
	if b.Trim == nil {
		return nil
	}
	at := slices.IndexFunc(s.records, func(r store.Record) bool { return r.Sequence == b.Trim.Through })
	if at < 0 || s.records[at].Hash != b.Trim.Hash || at+1 == len(s.records)+len(b.Records) {
		return fmt.Errorf("session %s: can't be removed through %d: %w", b.SessionID, b.Trim.Through, store.ErrConflict)
	}
	return nil
}

// judgeIndex walks the operations in order: a key may come and go in one batch.
func (d *memData) judgeIndex(ops []store.IndexOp) error {
	type id struct{ kind, key string }
	there := map[id]bool{}
	for _, op := range ops {
		k := id{op.Kind, op.Key}
		exists, touched := there[k]
		if !touched {
			_, exists = d.index[op.Kind][op.Key]
		}
		if op.IfAbsent && exists {
			return fmt.Errorf("%s %q: %w", op.Kind, op.Key, store.ErrExists)
		}
		there[k] = !op.Delete
	}
	return nil
}

// apply writes a batch that was judged.
func (m *Mem) apply(b *store.Batch) {
	s := m.data.sessions[b.SessionID]
	for _, r := range b.Records {
		s.records = append(s.records, cloneRecord(r))
	}
	if t := b.Trim; t != nil {
		s.records = slices.DeleteFunc(slices.Clone(s.records), func(r store.Record) bool { return r.Sequence <= t.Through })
		s.base = &store.Snapshot{SessionID: b.SessionID, Sequence: t.Through, Hash: t.Hash, Data: slices.Clone(t.Data)}
	}
	for _, snap := range b.Snapshots {
		if s.snapshots == nil {
			s.snapshots = map[string]store.Snapshot{}
		}
		snap.SessionID = b.SessionID
		snap.Data = slices.Clone(snap.Data)
		s.snapshots[snap.Name] = snap
	}
	for _, op := range b.Index {
		m.data.applyIndex(op)
	}
	for _, content := range b.Blobs {
		m.data.putBlob(slices.Clone(content))
	}
	if len(b.Records) > 0 {
		m.data.noteChange(b)
		m.data.hint(m, store.Appended{SessionID: b.SessionID, Sequence: s.head().Sequence, First: b.Records[0].Sequence})
	}
}

func (d *memData) applyIndex(op store.IndexOp) {
	if op.Delete {
		delete(d.index[op.Kind], op.Key)
		return
	}
	if d.index[op.Kind] == nil {
		d.index[op.Kind] = map[string][]byte{}
	}
	d.index[op.Kind][op.Key] = slices.Clone(op.Value)
}

func cloneRecord(r store.Record) store.Record {
	r.Data = slices.Clone(r.Data)
	return r
}

// Meta implements [store.Store].
func (m *Mem) Meta(ctx context.Context) (store.Meta, error) {
	if err := m.enter(ctx); err != nil {
		return store.Meta{}, err
	}
	defer m.leave()
	return store.Meta{Engine: "mem", Version: 1, Location: "memory"}, nil
}

// SetMeta implements [store.Store].
func (m *Mem) SetMeta(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.leave()
	if _, ok := m.data.meta[name]; !ok {
		m.data.meta[name] = slices.Clone(value)
	}
	return slices.Clone(m.data.meta[name]), nil
}

// Err implements [store.Store]. Memory doesn't fail.
func (m *Mem) Err() error { return nil }

// Close implements [store.Store]. The data stays for other nodes.
func (m *Mem) Close() error {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.done)
	}
	return nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
