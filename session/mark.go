package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// A mark is the folded state at one place of a session's history. The newest state is
// stored by itself and replaced again and again; marks stay, so that the read models
// as they were at any fact can be folded from close by. They are compressed, and their
// distance grows with the size of the state: they take a few hundredths of the bytes
// of the facts. Like every snapshot a mark is only a shortcut: without one, or with
// one that this version can't use, an earlier one serves, or the first fact.

const (
	// markStepBytes is what a fact is counted with when the distance is chosen.
	markStepBytes = 512
	// markRatio is how many times the size of the state lies between two marks.
	markRatio = 4
)

// markStep returns the distance of marks for states of a size, at least half of that of
// snapshots: what is folded from a mark is most of what a look back costs. Marks are due
// where a multiple of it is crossed, which needs no memory of where the last one stands.
func markStep(least, size int) uint64 {
	step := max(uint64(least)/2, 1)
	for step*markStepBytes < uint64(size)*markRatio {
		step *= 2
	}
	return step
}

// markDue reports whether a state of a size becomes a mark, given where the one before
// it was stored.
func (w *writer) markDue(size int) bool {
	step := markStep(w.m.opt.SnapshotEvery, size)
	return w.state.Sequence/step > w.snapshotSequence/step
}

// markKey orders the marks of a session by their facts.
func markKey(sessionID string, sequence uint64) string {
	return markPrefix(sessionID) + fmt.Sprintf("%016x", sequence)
}

func markPrefix(sessionID string) string { return sessionID + "/" }

// markSequence returns the fact that a mark's key names.
func markSequence(sessionID, key string) (uint64, error) {
	n, err := strconv.ParseUint(key[min(len(key), len(markPrefix(sessionID))):], 16, 64)
	if err != nil || markKey(sessionID, n) != key {
		return 0, fmt.Errorf("%w: the mark %q of session %s", store.ErrCorrupt, key, sessionID)
	}
	return n, nil
}

// packedMark is the first byte of a packed state; a plain one begins with a brace.
const packedMark = 1

// packState compresses an encoded state, in pieces that each stand behind their length.
func packState(data []byte) []byte {
	scratch := packing.Get().(*[]byte)
	defer packing.Put(scratch)
	out := make([]byte, 1, len(data)/8+64)
	out[0] = packedMark
	for len(data) > 0 {
		n := min(len(data), store.ChunkSize)
		*scratch = store.EncodeChunk((*scratch)[:0], data[:n])
		out = binary.AppendUvarint(out, uint64(len(*scratch)))
		out = append(out, *scratch...)
		data = data[n:]
	}
	return out
}

// packing has buffers for pieces of packed states.
var packing = sync.Pool{New: func() any { return new(make([]byte, 0, maxScratch)) }}

// unpackState returns the encoded state in what is stored: packed, or as releases before
// stored it.
func unpackState(stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != packedMark {
		return stored, nil
	}
	return joinPieces(stored[1:])
}

func joinPieces(rest []byte) ([]byte, error) {
	var data []byte
	for len(rest) > 0 {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return nil, fmt.Errorf("%w: a stored state is cut off", store.ErrCorrupt)
		}
		piece, err := store.DecodeChunk(rest[size : size+int(n)])
		if err != nil {
			return nil, err
		}
		data = append(data, piece...)
		rest = rest[size+int(n):]
	}
	return data, nil
}

// storedState returns the state that is stored, and its size.
func storedState(stored []byte) (*state.Session, int, error) {
	data, err := unpackState(stored)
	if err != nil {
		return nil, 0, err
	}
	st, err := state.Decode(data)
	return st, len(data), err
}

// encodeMark is a mark as the index keeps it: the hash of the chain, then the pieces of
// the packed state.
func encodeMark(hash store.Hash, packed []byte) []byte {
	return append(bytes.Clone(hash[:]), packed[1:]...)
}

// decodeMark returns the hash of the chain and the encoded state in a mark.
func decodeMark(value []byte) (store.Hash, []byte, error) {
	var hash store.Hash
	data, err := joinPieces(value[copy(hash[:], value):])
	return hash, data, err
}

// addMarkIfDue adds a mark to a batch that stores the state, which is packed and of a
// size. No one asks for a deleted session's.
func (w *writer) addMarkIfDue(b *store.Batch, packed []byte, size int) {
	if w.state.Status != state.SessionDeleted && w.markDue(size) {
		b.Index = append(b.Index, putOp(kindMark, markKey(w.id, w.state.Sequence), encodeMark(w.chain.Last(), packed)))
	}
}

// addMarkInPassing adds a mark to a batch that doesn't store the state.
func (w *writer) addMarkInPassing(b *store.Batch) {
	if !w.markDue(w.snapshotBytes) {
		return
	}
	scratch := w.m.scratch.Get().(*[]byte)
	defer w.m.scratch.Put(scratch)
	data := w.state.AppendTo((*scratch)[:0])
	if cap(data) <= maxScratch {
		*scratch = data
	}
	w.addMarkIfDue(b, packState(data), len(data))
	w.snapshotBytes, w.snapshotSequence = len(data), w.state.Sequence
}

// removeMarks removes the marks of facts that go.
func (tx *Tx) removeMarks(through uint64) error {
	for e, err := range tx.w.m.opt.Store.Scan(tx.ctx, store.Scan{Kind: kindMark, Prefix: markPrefix(tx.w.id)}) {
		if err != nil {
			return storeFault(err)
		}
		if e.Key > markKey(tx.w.id, through) {
			break
		}
		tx.index = append(tx.index, removeOp(kindMark, e.Key))
	}
	return nil
}

// stateAt returns a session's state as it was after a fact, for a caller who may see
// the session. It claims nothing. Where the session begins and ends is far from most of
// its facts: it is asked only to say why there is no such fact. The newest facts through
// that one are left in a window, which may be nil.
func (r *request) stateAt(ctx context.Context, sessionID string, sequence uint64, w *factWindow) (*state.Session, error) {
	if err := r.seeHistory(ctx, sessionID); err != nil {
		return nil, err
	}
	st, err := r.m.foldAt(ctx, sessionID, sequence, w)
	if err == nil && st.Sequence > 0 {
		return st, nil
	}
	return nil, r.whyNotAt(ctx, sessionID, sequence, err)
}

// seeHistory is [Manager.See] without a look at the first fact, which says whose a session
// is, for one who sees every session. One that never was is found out later.
func (r *request) seeHistory(ctx context.Context, sessionID string) error {
	if !r.caller.Admin || sessionID == event.RuntimeSession {
		return r.m.See(ctx, r.caller, sessionID)
	}
	switch _, err := r.m.opt.Store.Get(ctx, kindDeleted, sessionID); {
	case err == nil:
		return noSession(sessionID)
	case !errors.Is(err, store.ErrNotFound):
		return storeFault(err)
	}
	return nil
}

// factWindow is the newest facts through one of a session's, as far as they were read to
// fold the session through it: reading them a second time would cost a third of that.
type factWindow struct {
	size   uint64
	first  uint64 // the first fact of the window
	events []event.Raw
}

// after returns behind which fact is read, for a fold that begins behind a state. Facts
// before the origin are gone: then there is no window.
func (w *factWindow) after(behind, origin, through uint64) uint64 {
	if w == nil || w.size == 0 || through-min(through, w.size) < origin {
		return behind
	}
	w.first = through - min(through, w.size) + 1
	return min(behind, w.first-1)
}

// keepFact keeps a fact that is in the window.
func (w *factWindow) keepFact(rec *store.Record) {
	if w.first > 0 && rec.Sequence >= w.first {
		w.events = append(w.events, rec.Data)
	}
}

// foldAt folds a session through a fact, from the last mark before it.
func (m *Manager) foldAt(ctx context.Context, sessionID string, sequence uint64, w *factWindow) (*state.Session, error) {
	st, hash, err := origin(ctx, m.opt.Store, sessionID)
	if err != nil {
		return nil, err
	}
	if sequence < st.Sequence {
		return nil, &store.TrimmedError{SessionID: sessionID, Through: st.Sequence}
	}
	begin := st.Sequence
	if st, hash, err = m.nearestMark(ctx, st, hash, sequence); err != nil {
		return nil, err
	}
	return st, foldThrough(ctx, m.opt.Store, st, store.NewChain(hash), w.after(st.Sequence, begin, sequence), sequence, w)
}

// whyNotAt says why a session can't be folded through a fact: there is no such fact, or
// else what went wrong.
func (r *request) whyNotAt(ctx context.Context, sessionID string, sequence uint64, failed error) error {
	head, err := r.m.opt.Store.Head(ctx, sessionID)
	if err != nil {
		return storeFault(err)
	}
	st, _, err := origin(ctx, r.m.opt.Store, sessionID)
	if err != nil {
		return storeFault(err)
	}
	first := max(st.Sequence, 1)
	switch {
	case head.Sequence == 0 && sessionID == event.RuntimeSession:
		return fault.Param("atSequence", "session %s has no events yet", sessionID)
	case head.Sequence == 0:
		return noSession(sessionID)
	case sequence > head.Sequence || sequence == 0:
		return fault.Param("atSequence", "session %s ends at %d; use %d to %d", sessionID, head.Sequence, first, head.Sequence)
	case sequence < st.Sequence:
		return fault.New(fault.NotFound, "the events of session %s through %d were removed by retention; atSequence can be %d to %d", sessionID, st.Sequence, first, head.Sequence)
	}
	return storeFault(failed)
}

// nearestMark returns the last usable mark through a fact, or else the origin that is
// given, with the hash of the chain there.
func (m *Manager) nearestMark(ctx context.Context, origin *state.Session, hash store.Hash, sequence uint64) (*state.Session, store.Hash, error) {
	id := origin.SessionID
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindMark, Prefix: markPrefix(id), After: markKey(id, sequence+1), Reverse: true}) {
		if err != nil {
			return nil, hash, fmt.Errorf("session: marks of %s: %w", id, err)
		}
		if e.Key <= markKey(id, origin.Sequence) {
			break
		}
		if st, at, err := markState(id, &e); err == nil {
			return st, at, nil
		}
	}
	return origin, hash, nil
}

// markState returns the state in a mark, and the hash of the chain there.
func markState(sessionID string, e *store.Entry) (*state.Session, store.Hash, error) {
	sequence, err := markSequence(sessionID, e.Key)
	if err != nil {
		return nil, store.Hash{}, err
	}
	hash, data, err := decodeMark(e.Value)
	if err != nil {
		return nil, hash, err
	}
	st, err := state.Decode(data)
	if err != nil {
		return nil, hash, err
	}
	if st.SessionID != sessionID || st.Sequence != sequence {
		return nil, hash, fmt.Errorf("%w: the mark at %d is of fact %d of session %s", store.ErrCorrupt, sequence, st.Sequence, st.SessionID)
	}
	return st, hash, nil
}

// loadMarks reads the marks of a session that is to be verified.
func (f *refold) loadMarks() {
	for e, err := range f.store.Scan(f.ctx, store.Scan{Kind: kindMark, Prefix: markPrefix(f.id)}) {
		if err != nil {
			f.problemf(0, "mark", "can't be read: %v", err)
			return
		}
		sequence, err := markSequence(f.id, e.Key)
		switch {
		case err != nil:
			f.problemf(0, "mark", "%v", err)
		case sequence <= f.base:
			f.problemf(sequence, "mark", "the fact was removed, and the state there should be gone")
		default:
			f.marks[sequence] = e
		}
	}
}

// compareMark checks the mark at the fact that was folded last, if there is one.
func (f *refold) compareMark(rec *store.Record) {
	e, ok := f.marks[rec.Sequence]
	if !ok {
		return
	}
	delete(f.marks, rec.Sequence)
	f.report.Entries++
	hash, data, err := decodeMark(e.Value)
	if err != nil {
		f.problemf(rec.Sequence, "mark", "%v", err)
		return
	}
	if hash != rec.Hash {
		f.problemf(rec.Sequence, "mark", "the state was stored with another hash than the fact has")
	}
	f.compareEncoded(rec.Sequence, "mark", data)
}

// leftMarks reports the marks that no fact was found for.
func (f *refold) leftMarks() {
	for sequence := range f.marks {
		f.problemf(sequence, "mark", "it follows from no fact: the last one is %d", f.state.Sequence)
	}
}

// foldThrough folds the facts that follow the state through one of them. It reads from
// behind a fact that the state may have, for the window.
func foldThrough(ctx context.Context, s store.Store, st *state.Session, chain *store.Chain, after, through uint64, w *factWindow) error {
	if through == after {
		return nil
	}
	var seen func(*store.Record)
	if w != nil {
		seen = w.keepFact
	}
	if _, err := foldRange(ctx, s, st, chain, store.Range{After: after, Before: through + 1}, seen); err != nil {
		return err
	}
	if st.Sequence != through {
		return fmt.Errorf("%w: session %s: fact %d is missing", store.ErrCorrupt, st.SessionID, st.Sequence+1)
	}
	return nil
}
