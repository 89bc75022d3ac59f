package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// session is what the engine keeps in memory of a claimed session.
type session struct {
	epoch uint64
	// head is the durable one; the store's view guards it.
	head store.Head
	// next is the head with what is staged; the store's commit lock guards it.
	next store.Head
	// trimmed is the last record that is removed or staged to be; 0 if that was not
	// done under this claim. The commit lock guards it.
	trimmed uint64
}

// Claim makes the caller the one writer of a session. Claims of one process
// follow each other: the newest counts.
func (s *Store) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return store.Claim{}, err
	}
	defer done()
	if err := checkName("session id", sessionID); err != nil {
		return store.Claim{}, err
	}
	// The lock keeps an append of the former owner from being under way.
	s.commit.Lock()
	defer s.commit.Unlock()
	head, err := s.durableHead(sessionID)
	if err != nil {
		return store.Claim{}, fmt.Errorf("pebble: claim session %s: %w", sessionID, err)
	}
	c := &session{epoch: s.ids.next(), head: head, next: head}
	s.view.Lock()
	s.sessions[sessionID] = c
	s.view.Unlock()
	return store.Claim{Epoch: c.epoch, Head: head}, nil
}

// Release gives a claim up.
func (s *Store) Release(ctx context.Context, sessionID string, epoch uint64) error {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	s.commit.Lock()
	defer s.commit.Unlock()
	s.view.Lock()
	defer s.view.Unlock()
	if c := s.sessions[sessionID]; c != nil && c.epoch == epoch {
		delete(s.sessions, sessionID)
	}
	return nil
}

// Append writes batches with one sync for all.
func (s *Store) Append(ctx context.Context, batches []*store.Batch) []error {
	errs := make([]error, len(batches))
	done, err := s.calls.enter(ctx)
	if err != nil {
		return fillErrors(errs, err)
	}
	defer done()
	s.commit.Lock()
	defer s.commit.Unlock()
	if err := s.writable(ctx); err != nil {
		return fillErrors(errs, err)
	}
	b := s.db.NewBatchWithSize(batchSize(batches))
	s.stageAll(b, batches, errs)
	if err := s.putChanges(b); err != nil {
		return fillErrors(errs, errors.Join(err, b.Close()))
	}
	if b.Empty() {
		s.touched = s.touched[:0]
		if err := b.Close(); err != nil {
			return fillErrors(errs, err)
		}
		return errs
	}
	if err := s.write(b); err != nil {
		return fillErrors(errs, err)
	}
	return errs
}

// fillErrors gives err to every batch that has no error of its own.
func fillErrors(errs []error, err error) []error {
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// write commits a batch, waits until it is durable and shows it to readers. The
// commit lock is held. The outcome of a failed write is unknown: the log may
// have taken it before the failure.
func (s *Store) write(b *pdb.Batch) error {
	err := s.db.Apply(b, pdb.Sync)
	if failed := s.Err(); failed != nil {
		err = failed
	}
	if err != nil {
		s.touched = s.touched[:0]
		return fmt.Errorf("pebble: write: %w: %w", store.ErrUnknownOutcome, err)
	}
	s.publish()
	return b.Close()
}

// publish makes the state that is durable now the one that is read.
func (s *Store) publish() {
	fresh := s.db.NewSnapshot()
	s.view.Lock()
	old := s.snap
	s.snap = fresh
	for _, c := range s.touched {
		c.head = c.next
	}
	s.view.Unlock()
	s.touched = s.touched[:0]
	s.retire(old)
}

// oldestFor is how long the oldest snapshot is kept.
const oldestFor = time.Second

// retire closes a snapshot that isn't in use: readers hold the lock while they use
// it, and what they made of it doesn't need it. When the oldest one goes, Pebble looks
// for tables that can be compacted now, at each commit if there is no other. So one is
// kept for a while that is older than the rest. Close fails only for a closed one.
func (s *Store) retire(old *pdb.Snapshot) {
	now := time.Now()
	if s.oldest != nil && now.Sub(s.kept) < oldestFor {
		_ = old.Close()
		return
	}
	if s.oldest != nil {
		_ = s.oldest.Close()
	}
	s.oldest, s.kept = old, now
}

// batchSize is what the batches will take, so that they are copied once.
func batchSize(batches []*store.Batch) int {
	n := 64
	for _, b := range batches {
		n += 3*binary.MaxVarintLen16 + len(b.SessionID)
		for i := range b.Records {
			n += len(b.SessionID) + eventKeyExtra + eventHeader + len(b.Records[i].Data) + 8
		}
		for i := range b.Snapshots {
			n += len(b.SessionID) + len(b.Snapshots[i].Name) + snapHeader + len(b.Snapshots[i].Data) + 16
		}
		for i := range b.Index {
			n += len(b.Index[i].Kind) + len(b.Index[i].Key) + len(b.Index[i].Value) + 16
		}
	}
	return n
}

// stageAll puts into b what passes.
func (s *Store) stageAll(b *pdb.Batch, batches []*store.Batch, errs []error) {
	clear(s.overlay)
	var failed map[string]bool
	track := needsOverlay(batches)
	for i, in := range batches {
		if failed[in.SessionID] {
			errs[i] = fmt.Errorf("%w: an earlier batch of session %s failed", store.ErrConflict, in.SessionID)
			continue
		}
		if errs[i] = s.stage(b, in, track); errs[i] != nil {
			if failed == nil {
				failed = map[string]bool{}
			}
			failed[in.SessionID] = true
		}
	}
}

// stage checks one batch and puts it into b. A batch that fails leaves nothing.
func (s *Store) stage(b *pdb.Batch, in *store.Batch, track bool) error {
	c := s.sessions[in.SessionID] // written under both locks, so one is enough
	if c == nil || c.epoch != in.Epoch {
		return fmt.Errorf("%w: session %s, epoch %d", store.ErrFenced, in.SessionID, in.Epoch)
	}
	if err := checkSequence(in, c.next.Sequence); err != nil {
		return err
	}
	if err := checkAux(in); err != nil {
		return err
	}
	if in.Trim != nil {
		if err := s.checkTrim(in, c); err != nil {
			return err
		}
	}
	if track {
		if err := s.checkIndex(in.Index); err != nil {
			return err
		}
	}
	if len(in.Blobs) > 0 {
		if err := s.putBlobs(b, in.Blobs); err != nil {
			return err
		}
	}
	if in.Trim != nil {
		if err := putTrim(b, in.SessionID, in.Trim); err != nil {
			return err
		}
		c.trimmed = in.Trim.Through
	}
	for i := range in.Records {
		putRecord(b, in.SessionID, &in.Records[i])
	}
	for i := range in.Snapshots {
		putSnapshot(b, in.SessionID, &in.Snapshots[i])
	}
	if err := putIndex(b, in.Index); err != nil {
		return err
	}
	if n := len(in.Records); n > 0 {
		c.next = store.Head{Sequence: in.Records[n-1].Sequence, Hash: in.Records[n-1].Hash}
		s.touched = append(s.touched, c)
		s.stageChange(in)
	}
	return nil
}

// checkSequence checks the records against the head.
func checkSequence(in *store.Batch, head uint64) error {
	for i := range in.Records {
		if want := head + 1 + uint64(i); in.Records[i].Sequence != want {
			return fmt.Errorf("%w: session %s, record %d follows, the batch has %d", store.ErrConflict, in.SessionID, want, in.Records[i].Sequence)
		}
	}
	return nil
}

// checkAux reports names that can't be stored.
func checkAux(in *store.Batch) error {
	for i := range in.Snapshots {
		if id := in.Snapshots[i].SessionID; id != "" && id != in.SessionID {
			return fmt.Errorf("pebble: a batch of session %s has a snapshot of session %s", in.SessionID, id)
		}
	}
	for i := range in.Index {
		if err := checkName("index kind", in.Index[i].Kind); err != nil {
			return err
		}
	}
	return nil
}

// needsOverlay reports whether any batch depends on an index key's absence.
func needsOverlay(batches []*store.Batch) bool {
	for _, b := range batches {
		for i := range b.Index {
			if b.Index[i].IfAbsent {
				return true
			}
		}
	}
	return false
}

// checkIndex checks the index operations against the index as the batches before
// left it, and takes them into the overlay if all pass.
func (s *Store) checkIndex(ops []store.IndexOp) error {
	var own map[string]bool
	for i := range ops {
		op := &ops[i]
		key := string(pairKey(keyIndex, op.Kind, op.Key))
		if op.IfAbsent {
			there, err := s.indexed(own, key)
			if err != nil {
				return err
			}
			if there {
				return fmt.Errorf("%w: %s %q", store.ErrExists, op.Kind, op.Key)
			}
		}
		if own == nil {
			own = make(map[string]bool, len(ops))
		}
		own[key] = !op.Delete
	}
	maps.Copy(s.overlay, own)
	return nil
}

// indexed reports whether an index key exists, with what is staged.
func (s *Store) indexed(own map[string]bool, key string) (bool, error) {
	if there, ok := own[key]; ok {
		return there, nil
	}
	if there, ok := s.overlay[key]; ok {
		return there, nil
	}
	return hasKey(s.db, []byte(key))
}

func putRecord(b *pdb.Batch, session string, r *store.Record) {
	op := b.SetDeferred(len(session)+eventKeyExtra, eventHeader+len(r.Data))
	putEventKey(op.Key, session, r.Sequence)
	op.Value[0] = valueFormat
	copy(op.Value[1:], r.Hash[:])
	copy(op.Value[eventHeader:], r.Data)
	// Finish fails only for batches with an index.
	_ = op.Finish()
}

func putSnapshot(b *pdb.Batch, session string, sn *store.Snapshot) {
	op := b.SetDeferred(len(session)+len(sn.Name)+2, snapHeader+len(sn.Data))
	op.Key[0] = keySnapshot
	n := 1 + copy(op.Key[1:], session)
	op.Key[n] = 0
	copy(op.Key[n+1:], sn.Name)
	putSnapshotValue(op.Value, sn.Sequence, sn.Hash, sn.Data)
	_ = op.Finish()
}

func putIndex(b *pdb.Batch, ops []store.IndexOp) error {
	for i := range ops {
		op := &ops[i]
		key := pairKey(keyIndex, op.Kind, op.Key)
		var err error
		if op.Delete {
			err = b.Delete(key, nil)
		} else {
			err = b.Set(key, op.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasKey reports whether a key exists.
func hasKey(r pdb.Reader, key []byte) (bool, error) {
	_, closer, err := r.Get(key)
	if errors.Is(err, pdb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, readError(err)
	}
	return true, closer.Close()
}
