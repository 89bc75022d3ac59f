package session

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"agentd/event"
	"agentd/quota"
	"agentd/state"
	"agentd/store"
)

// Tx is one decision: it reads the state and collects the facts that follow.
// It is valid only while the decision runs.
type Tx struct {
	// State is the session's state. A decision must not change it.
	State *state.Session

	w     *writer
	ctx   context.Context //nolint:containedctx // a Tx lives within one call
	now   time.Time
	facts []event.Event
	index []store.IndexOp
	blobs [][]byte
	// blobRefs has the reference of each of the blobs that callers may read.
	blobRefs []string
	// trim removes facts in the same write; nil for most decisions.
	trim *store.Trim
	// tombstone takes the place of the state before the facts are folded, and emptied
	// that of records, when the session is deleted.
	tombstone *state.Session
	emptied   []store.Snapshot
	// referred is the size of content that was stored ahead of the decision, opens
	// says that room for a session was reserved, and tightens that little is left of a
	// quota of which the decision takes some.
	referred        int64
	opens, tightens bool
	// payer is the account that the decision's storage counts for, if it isn't the
	// session's own.
	payer *quota.Account
}

// Emit adds a fact. The writer sets its id, time, sequence, runtime and session.
func (tx *Tx) Emit(e event.Event) {
	e.ID = ""
	tx.facts = append(tx.facts, e)
}

// EmitNamed is Emit for a fact that another fact of the decision names: it returns the
// id that the fact will have.
func (tx *Tx) EmitNamed(e event.Event) string {
	e.ID = tx.NewID(event.PrefixEvent)
	tx.facts = append(tx.facts, e)
	return e.ID
}

// Facts returns what was emitted so far.
func (tx *Tx) Facts() []event.Event { return tx.facts }

// Now returns the time that the decision's facts will carry.
func (tx *Tx) Now() time.Time { return tx.now }

// NewID returns a new id.
func (tx *Tx) NewID(p event.Prefix) string { return tx.w.m.NewID(p) }

// Sequence returns the sequence that the next emitted fact will have.
func (tx *Tx) Sequence() uint64 { return tx.State.Sequence + uint64(len(tx.facts)) + 1 }

// Blob stores content together with the facts and returns its reference.
func (tx *Tx) Blob(content []byte, mediaType string) string {
	tx.blobs = append(tx.blobs, content)
	ref := store.RefOf(sha256.Sum256(content))
	tx.blobRefs = append(tx.blobRefs, ref)
	tx.index = append(tx.index, refEntry(ref, tx.w.id, mediaType))
	return ref
}

// storePayload stores the whole payload of a fact that can't show all of it. The fact
// itself is what lets callers read it: see indexPayload.
func (tx *Tx) storePayload(payload []byte) string {
	ref := store.RefOf(sha256.Sum256(payload))
	tx.blobs, tx.blobRefs = append(tx.blobs, payload), append(tx.blobRefs, ref)
	return ref
}

// Keep stores content together with the facts that callers can't read by its
// reference, such as a sealed earlier content of a file.
func (tx *Tx) Keep(content []byte) {
	tx.blobs, tx.blobRefs = append(tx.blobs, content), append(tx.blobRefs, "")
}

// Lookup returns an index entry, those of batches under way included.
func (tx *Tx) Lookup(kind, key string) ([]byte, bool, error) {
	if v, ok := tx.w.claims[store.IndexKey{Kind: kind, Key: key}]; ok {
		return v, true, nil
	}
	v, err := tx.w.m.opt.Store.Get(tx.ctx, kind, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	return v, err == nil, err
}

// Claim adds an index entry that must not exist yet; if it does, none of the
// decision's facts are written and the error is store.ErrExists.
func (tx *Tx) Claim(kind, key string, value []byte) {
	tx.index = append(tx.index, store.IndexOp{Entry: store.Entry{Kind: kind, Key: key, Value: value}, IfAbsent: true})
}

func (tx *Tx) empty() bool { return len(tx.facts) == 0 && len(tx.index) == 0 && len(tx.blobs) == 0 }

// Context returns the context of the call that decides.
func (tx *Tx) Context() context.Context { return tx.ctx }
