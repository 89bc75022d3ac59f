package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/state"
	"agentd/store"
	"agentd/store/storefault"
)

// stateSnapshot is the name under which a session's folded state is stored.
const stateSnapshot = "state"

// writer is the one writer of a session.
type writer struct {
	m  *Manager
	id string

	// Guarded by the manager's lock: the number of users, and the sweep at which there were some.
	users    int
	lastUsed uint64

	// ready says that the session is loaded, head is the last fact that was decided here,
	// and outrun says that another node wrote after it; see shared.go. term is that of the
	// node's lease under which the session was claimed.
	ready, outrun atomic.Bool
	head          atomic.Uint64
	term          uint64
	// away says that the session's files are out of this node's reach.
	away atomic.Bool

	mu     sync.Mutex
	loaded bool
	failed bool
	// unreached is why the session couldn't be loaded while the store was out of reach: those who
	// waited for that are told the same, and don't wait for the store one after the other.
	unreached error
	epoch     uint64
	state     *state.Session
	chain     *store.Chain
	open      bool
	last      time.Time
	// begun has the session's facts as long as they are those of its first batch, for who
	// follows it from the start.
	begun []store.Record
	// partial says that an import of the session was cut off: the session can't be used
	// but an import of the rest.
	partial bool
	// usage counts what the session's account uses; nil for the runtime's own session.
	usage *quota.Account

	// What was appended since the last snapshot, and how large that one was.
	sinceFacts, sinceBytes, snapshotBytes int
	// snapshotSequence is the fact that the last snapshot or mark is of.
	snapshotSequence uint64

	// Scratch of the decision that is being made, kept to spare the collector.
	tx   Tx
	ends []int

	// newest is the batch that was enqueued last; when it is done, all that the
	// state contains is durable.
	newest *pending
	// unattended are batches that no caller waits for and whose outcome wasn't checked.
	unattended []*pending
	// claims holds the index entries of batches under way, which the store
	// doesn't show yet.
	claims map[store.IndexKey][]byte
	known  knownRefs
}

// errStale says that a writer went out of service before it could be used.
var errStale = errors.New("session: the writer is out of service")

// decideAndCommit runs one decision and returns when its facts, or all facts that it saw, are
// durable.
func (w *writer) decideAndCommit(ctx context.Context, by event.Emitter, create bool, decide func(*Tx) error) error {
	w.mu.Lock()
	if err := w.ensureLoaded(ctx, create); err != nil {
		w.mu.Unlock()
		return err
	}
	p, err := w.decideBatch(ctx, by, decide)
	if p == nil {
		return w.settleUnchanged(err)
	}
	refers := refers(&p.batch)
	if refers {
		w.m.outputs.storing.RLock()
	}
	account, began := p.account, time.Now()
	tells := len(p.batch.Records) > 0 && w.id != event.RuntimeSession
	keyed := tells && bindsKey(&p.batch)
	lead := w.m.journal.enqueue(p)
	w.mu.Unlock()
	err = w.m.journal.finish(p, lead)
	w.m.journal.gate.Took(account, time.Since(began))
	if refers {
		w.m.outputs.storing.RUnlock()
	}
	if err != nil {
		w.finishBatch(p)
		w.m.dropWriter(w)
		return storeFault(err)
	}
	if shared := w.finishBatch(p); !shared {
		w.m.journal.recycle(p)
	}
	if tells {
		command.NoteDone(ctx, keyed)
	}
	return nil
}

// bindsKey reports whether a batch keeps a command's result under its idempotency key.
func bindsKey(b *store.Batch) bool {
	return slices.ContainsFunc(b.Index, func(op store.IndexOp) bool { return op.Entry.Kind == kindKey })
}

// doSoon runs one decision whose facts are made durable behind the caller's back.
// The batch is nil if there are none.
func (w *writer) doSoon(ctx context.Context, by event.Emitter, decide func(*Tx) error) (*pending, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ensureLoaded(ctx, false); err != nil {
		return nil, err
	}
	p, err := w.decideBatch(ctx, by, decide)
	if p == nil {
		return nil, err
	}
	p.unattended, p.settled = true, make(chan struct{})
	if refers(&p.batch) {
		w.m.outputs.storing.RLock()
		p.after = w.m.outputs.storing.RUnlock
	}
	w.unattended = append(w.unattended, p)
	w.m.journal.enqueueUnattended(p)
	return p, nil
}

// viewDurable looks at the state and returns when all of it is durable.
func (w *writer) viewDurable(ctx context.Context, view func(*state.Session) error) error {
	w.mu.Lock()
	if err := w.ensureLoaded(ctx, false); err != nil {
		w.mu.Unlock()
		return err
	}
	return w.settleUnchanged(view(w.state))
}

// endAtRest returns the session's last sequence, and begun, if all facts are durable and the
// writer isn't at work.
func (w *writer) endAtRest() (last uint64, begun []store.Record, rests bool) {
	if !w.mu.TryLock() {
		return 0, nil, false
	}
	defer w.mu.Unlock()
	if !w.loaded || w.failed || w.partial || w.state.Status == state.SessionDeleted {
		return 0, nil, false
	}
	if p := w.newest; p != nil && (!p.known || p.err != nil) {
		return 0, nil, false
	}
	return w.state.Sequence, w.begun, true
}

// peekState looks at the state, whether or not it is durable.
func (w *writer) peekState(ctx context.Context, view func(*state.Session) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ensureLoaded(ctx, false); err != nil {
		return err
	}
	return view(w.state)
}

// decideBatch runs a decision and makes a batch of its facts, which are part of the
// state from here on; nil if there are none.
func (w *writer) decideBatch(ctx context.Context, by event.Emitter, decide func(*Tx) error) (*pending, error) {
	if w.partial {
		return nil, errPartial(w.id)
	}
	p := w.m.journal.begin()
	tx := &w.tx
	*tx = Tx{State: w.state, w: w, ctx: ctx, now: w.now(), facts: p.room.facts}
	err := decide(tx)
	p.room.facts = tx.facts
	if err != nil || tx.empty() {
		w.m.journal.recycle(p)
		return nil, err
	}
	if err := w.reserveQuota(tx); err != nil {
		w.m.journal.recycle(p)
		return nil, err
	}
	tx.tellTurnTasks()
	if err := w.sealBatch(p, tx, by); err != nil {
		w.giveBack(tx)
		return nil, err
	}
	w.newest = p
	if p.account = runtimeAccount; w.usage != nil {
		p.account = w.usage.ID()
	}
	return p, nil
}

// ensureLoaded loads the session if need be.
func (w *writer) ensureLoaded(ctx context.Context, create bool) error {
	w.lookAfter()
	if w.failed {
		return cmp.Or(w.unreached, errStale)
	}
	if w.loaded && w.isOutdated() {
		w.failed = true
		w.m.dropWriter(w)
		return errStale
	}
	if !w.loaded {
		if err := w.loadSession(ctx, create); err != nil {
			w.failed = true
			w.m.dropWriter(w)
			told := storeFault(err)
			if ctx.Err() == nil && (errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnavailable)) {
				w.unreached = told
			}
			return told
		}
	}
	if w.away.Load() && w.m.IsAway(w.state) && !isUnplaced(ctx) {
		if err := w.m.checkPlace(ctx, w.id, w.state.Place, ownRoot(w.state)); err != nil {
			return storeFault(err)
		}
	}
	deleted := w.state.Status == state.SessionDeleted
	if deleted && create {
		return errTakenID(w.id)
	}
	if deleted && w.newest != nil {
		// To give up the claim would fence the deletion, which isn't durable yet.
		w.unlockAndAwait(w.newest)
		w.mu.Lock()
		return w.ensureLoaded(ctx, create)
	}
	if deleted || w.state.Sequence == 0 && !create {
		w.failed = true
		w.m.dropWriter(w)
		_ = w.m.opt.Store.Release(ctx, w.id, w.epoch) // the claim of a session that doesn't exist holds nothing
		return fault.New(fault.NotFound, "there is no session %s", w.id)
	}
	return nil
}

// unlockAndAwait gives the writer's lock back and waits for a batch.
func (w *writer) unlockAndAwait(p *pending) {
	settled := p.await()
	w.mu.Unlock()
	if p.unattended {
		w.m.journal.hurry()
	}
	<-settled
}

// settleUnchanged answers a decision that changed nothing once all that it saw is
// durable. It gives the writer's lock back.
func (w *writer) settleUnchanged(result error) error {
	p := w.newest
	if p == nil {
		w.mu.Unlock()
		return result
	}
	w.unlockAndAwait(p)
	if p.err != nil {
		return storeFault(p.err)
	}
	return result
}

// await returns a channel that is closed once the outcome is known. The caller
// holds the writer's lock.
func (p *pending) await() <-chan struct{} {
	if p.settled == nil {
		p.settled = make(chan struct{})
		if p.known {
			close(p.settled)
		}
	}
	return p.settled
}

// awaitOutcome waits for a batch that no caller waits for otherwise.
func (w *writer) awaitOutcome(p *pending) error {
	w.m.journal.hurry()
	<-p.settled
	if p.err != nil {
		return storeFault(p.err)
	}
	return nil
}

// finishBatch reports a batch's outcome to the goroutines that wait for it, and
// returns whether one of them still uses the batch; no new one can.
func (w *writer) finishBatch(p *pending) (shared bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.known = true
	if p.settled != nil {
		close(p.settled)
	}
	w.dropStored(p)
	return p.err != nil || p.settled != nil
}

// lookAfter checks how unattended batches ended.
func (w *writer) lookAfter() {
	for len(w.unattended) > 0 {
		p := w.unattended[0]
		select {
		case <-p.settled:
		default:
			return
		}
		w.unattended[0] = nil
		if w.unattended = w.unattended[1:]; len(w.unattended) == 0 {
			w.unattended = nil
		}
		w.dropStored(p)
	}
}

// dropStored drops what the store shows by itself now. A writer whose batch failed is out
// of service: its state ran ahead of the store.
func (w *writer) dropStored(p *pending) {
	if w.newest == p {
		w.newest = nil
	}
	if p.err != nil {
		w.failed = true
		if !errors.Is(p.err, store.ErrFailed) { // that takes nothing until the next start, which finds what is left
			w.m.noteStray(w.id)
		}
		return
	}
	for i := range p.batch.Index {
		id := p.batch.Index[i].Entry.ID()
		if v, ok := w.claims[id]; ok && bytes.Equal(v, p.batch.Index[i].Value) {
			delete(w.claims, id)
		}
	}
}

// now returns the session's time, which never goes back.
func (w *writer) now() time.Time {
	now := w.m.Now()
	if now.Before(w.last) {
		now = w.last
	}
	w.last = now
	return now
}

// sealBatch turns a decision into a batch: the facts are checked, numbered, encoded,
// chained and folded. An error before the first fold leaves the writer as it was.
func (w *writer) sealBatch(p *pending, tx *Tx, by event.Emitter) error {
	for i := range tx.facts {
		if err := w.checkEmitter(&tx.facts[i], by); err != nil {
			return fault.Wrap(fault.Internal, err, "a fact could not be recorded")
		}
	}
	b := &p.batch
	*b = store.Batch{SessionID: w.id, Epoch: w.epoch, Index: tx.index, Blobs: tx.blobs, Trim: tx.trim}
	if b.Records = p.oneRecord[:]; len(tx.facts) != 1 {
		b.Records = make([]store.Record, len(tx.facts))
	}
	b.Index = keepInside(b.Index, tx)
	if tx.tombstone != nil {
		w.state, b.Snapshots = tx.tombstone, tx.emptied
	}
	buf, err := w.encodeFacts(tx, b)
	if err != nil {
		w.failed = true
		w.m.dropWriter(w)
		if errors.Is(err, event.ErrTooLarge) {
			return fault.Wrap(fault.PayloadTooLarge, err, "%s", err.Error())
		}
		return fault.Wrap(fault.Internal, err, "a fact could not be folded")
	}
	b.Blobs = tx.blobs
	start := 0
	for i, end := range w.ends {
		data := buf[start:end:end]
		b.Records[i].Data = data
		b.Records[i].Hash = w.chain.Next(data)
		start = end
	}
	w.head.Store(w.state.Sequence)
	w.begun = nil
	if len(b.Records) > 0 && b.Records[0].Sequence == 1 {
		w.begun = slices.Clone(b.Records)
	}
	b.Index = w.known.leaveOut(b.Index)
	if w.begun != nil {
		markFirst(b.Index)
	}
	w.trackIndex(b, len(tx.facts), len(buf))
	w.addSnapshotIfDue(b)
	p.facts = tx.facts
	w.chargeBatch(p, tx, len(buf))
	return nil
}

func (w *writer) checkEmitter(e *event.Event, by event.Emitter) error {
	e.SessionID = w.id
	if err := event.Check(e); err != nil {
		return err
	}
	if d, _ := event.Lookup(e.Type); d.By&by == 0 {
		return fmt.Errorf("session: %s may not emit %s, only %s may", by, e.Type, d.By)
	}
	return nil
}

// maxScratch bounds the buffers for encoding that are kept.
const maxScratch = 256 << 10

// encodeFacts stamps, encodes and folds the facts and collects what follows from
// them: index entries, and records of what left the working set. It leaves the
// ends of the encoded facts in w.ends.
func (w *writer) encodeFacts(tx *Tx, b *store.Batch) ([]byte, error) {
	scratch := w.m.scratch.Get().(*[]byte)
	defer w.m.scratch.Put(scratch)
	buf := (*scratch)[:0]
	w.ends = w.ends[:0]
	summary, decidedFor := lastSummary(tx.facts), turnFact(tx.facts)
	for i := range tx.facts {
		e := &tx.facts[i]
		if e.ID == "" {
			e.ID = w.m.NewID(event.PrefixEvent)
		}
		e.Time, e.RuntimeID, e.Sequence = tx.now, w.m.opt.RuntimeID, w.state.Sequence+1
		w.traceFact(e, decidedFor)
		if t := w.state.Thread(e.ThreadID); t != nil && e.SubagentID == "" {
			e.SubagentID = t.SubagentID // a fact about a child's thread is about the child
		}
		start := len(buf)
		var err error
		if buf, err = event.AppendBounded(buf, e, tx.storePayload); err != nil {
			return nil, err
		}
		w.ends = append(w.ends, len(buf))
		b.Records[i].Sequence = e.Sequence
		evicted, err := w.state.Apply(e)
		if err != nil {
			return nil, err
		}
		if b.Index, err = indexFact(b.Index, w.state, e, i == summary); err != nil {
			return nil, err
		}
		if b.Index, err = indexOutputs(b.Index, e); err != nil {
			return nil, err
		}
		if b.Index, err = indexPeers(b.Index, w.state, e); err != nil {
			return nil, err
		}
		b.Index = indexPayload(indexKept(b.Index, e, buf[start:]), e)
		for _, x := range evicted {
			data, err := x.Encode()
			if err != nil {
				return nil, err
			}
			b.Snapshots = append(b.Snapshots, store.Snapshot{SessionID: w.id, Name: x.Name, Sequence: e.Sequence, Data: data})
		}
	}
	if open := w.state.HasOpenWork(); open != w.open {
		w.open = open
		b.Index = append(b.Index, openEntry(w.id, open))
	}
	if cap(buf) <= maxScratch {
		*scratch = buf
	}
	return bytes.Clone(buf), nil
}

// trackIndex remembers the index entries of a batch until the store shows them, and
// counts what the next snapshot will save.
func (w *writer) trackIndex(b *store.Batch, facts, size int) {
	for i := range b.Index {
		op := &b.Index[i]
		if w.claims == nil {
			w.claims = map[store.IndexKey][]byte{}
		}
		if op.IfAbsent || (!op.Delete && tracked(op.Kind)) {
			w.claims[op.Entry.ID()] = op.Value
		}
	}
	w.sinceFacts += facts
	w.sinceBytes += size
}

// tracked tells of which kinds a decision looks up what isn't durable yet.
func tracked(kind string) bool {
	return kind == kindTurn || kind == kindTask || kind == kindOutput || kind == kindKept || kind == kindCursor || kind == kindKey
}

// addSnapshotIfDue adds the folded state to the batch when enough was appended since the
// last one. A large state is written less often, so that its cost per fact stays
// the same. Between two of them a mark may be due.
func (w *writer) addSnapshotIfDue(b *store.Batch) {
	due := w.sinceFacts >= w.m.opt.SnapshotEvery && w.sinceBytes >= 8*w.snapshotBytes
	if due || b.Trim != nil { // then what was stored before may be of a fact that goes
		w.addSnapshot(b)
		return
	}
	w.addMarkInPassing(b)
}

func (w *writer) addSnapshot(b *store.Batch) {
	scratch := w.m.scratch.Get().(*[]byte)
	defer w.m.scratch.Put(scratch)
	data := w.state.AppendTo((*scratch)[:0])
	if cap(data) <= maxScratch {
		*scratch = data
	}
	packed := packState(data)
	b.Snapshots = append(b.Snapshots, store.Snapshot{
		SessionID: w.id, Name: stateSnapshot, Sequence: w.state.Sequence, Hash: w.chain.Last(), Data: packed,
	})
	w.addMarkIfDue(b, packed, len(data))
	w.sinceFacts, w.sinceBytes, w.snapshotBytes, w.snapshotSequence = 0, 0, len(data), w.state.Sequence
}

// loadSession claims the session and folds it from its snapshot and the facts after it.
func (w *writer) loadSession(ctx context.Context, create bool) error {
	away := false
	if !create {
		var err error
		if away, err = w.admitPlace(ctx); err != nil {
			return err
		}
	}
	if err := w.m.leaveToOthers(ctx, w.id); err != nil {
		return err
	}
	term, _ := w.m.term()
	claim, err := w.m.claimSession(ctx, w.id, create)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
			w.m.noteStray(w.id) // the claim may have been made, and only its answer is lost
		}
		return fmt.Errorf("session: claim %s: %w", w.id, err)
	}
	w.epoch, w.term = claim.Epoch, term
	w.head.Store(claim.Head.Sequence)
	defer func() {
		if w.ready.Store(w.loaded); !w.loaded {
			w.leaveUnloaded(ctx, away)
		}
	}()
	if claim.Head.Sequence == 0 {
		// Nothing was ever written, no snapshot either: there is nothing to look for.
		w.state, w.chain, w.loaded = state.New(w.id), store.NewChain(store.Genesis(w.id)), true
		w.known.all = true
		return nil
	}
	st, hash, size, err := loadState(ctx, w.m.opt.Store, w.id, claim.Head)
	if errors.Is(err, errMarked) {
		w.partial = true
		st, hash, err = origin(ctx, w.m.opt.Store, w.id)
	}
	if err != nil {
		return err
	}
	w.state, w.chain, w.snapshotBytes, w.snapshotSequence = st, store.NewChain(hash), size, st.Sequence
	tail, err := foldRecords(ctx, w.m.opt.Store, st, w.chain)
	if errors.Is(err, store.ErrTrimmed) && st.Sequence == 0 {
		st, tail, err = w.foldFromBase(ctx)
	}
	if err != nil {
		return err
	}
	if w.m.shared != nil && st.Sequence > claim.Head.Sequence {
		return fmt.Errorf("session: load %s: %w", w.id, store.ErrFenced) // another node claimed it and wrote meanwhile
	}
	if st.Sequence != claim.Head.Sequence || w.chain.Last() != claim.Head.Hash {
		return fmt.Errorf("%w: session %s ends at %d, its facts at %d", store.ErrCorrupt, w.id, claim.Head.Sequence, st.Sequence)
	}
	w.sinceFacts, w.sinceBytes = tail.facts, tail.bytes
	if w.id != event.RuntimeSession {
		if w.usage, err = w.m.usageOf(ctx, st.Account); err != nil {
			return err
		}
		w.recordStanding()
	}
	w.away.Store(w.m.IsAway(st))
	w.last, w.open, w.loaded = st.UpdatedAt, st.HasOpenWork(), true
	if w.m.shared != nil && w.open && !w.away.Load() && !isTakingUp(ctx) {
		// The command that needed the session may have been quicker than the takeover of what
		// its node was doing, which now finds a live owner: it is this node's to do.
		w.m.noteStray(w.id)
	}
	return nil
}

// leaveUnloaded sees to a session that was claimed and then couldn't be loaded. It has a live
// owner now, so that no other node goes on with it: this one does, or gives up a session whose
// files are out of its reach.
func (w *writer) leaveUnloaded(ctx context.Context, away bool) {
	if away && w.m.shared.Yield(context.WithoutCancel(ctx), w.id, w.epoch) == nil {
		return
	}
	w.m.noteStray(w.id)
}

// loadState returns the stored state, or an empty one if there is none that this
// version can use.
func loadState(ctx context.Context, s store.Store, id string, head store.Head) (*state.Session, store.Hash, int, error) {
	snap, err := s.Snapshot(ctx, id, stateSnapshot)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return state.New(id), store.Genesis(id), 0, nil
	case err != nil:
		return nil, store.Hash{}, 0, fmt.Errorf("session: snapshot of %s: %w", id, err)
	}
	if st, size, err := storedState(snap.Data); err == nil && snap.Sequence <= head.Sequence && st.Sequence == snap.Sequence {
		return st, snap.Hash, size, nil
	}
	if string(snap.Data) == importMark {
		return nil, store.Hash{}, 0, errMarked
	}
	// A snapshot is only a shortcut; the facts are the truth.
	st, hash, err := origin(ctx, s, id)
	return st, hash, 0, err
}

type foldedTail struct{ facts, bytes int }

// foldRecords folds all facts that follow the state.
func foldRecords(ctx context.Context, s store.Store, st *state.Session, chain *store.Chain) (foldedTail, error) {
	return foldRange(ctx, s, st, chain, store.Range{After: st.Sequence}, nil)
}

// foldRange folds the facts of a range that come after the state. All of them are shown to
// seen, if it isn't nil: also those that the state has.
func foldRange(ctx context.Context, s store.Store, st *state.Session, chain *store.Chain, r store.Range, seen func(*store.Record)) (foldedTail, error) {
	var n foldedTail
	var e event.Event // used again, with the ids that facts share
	for rec, err := range s.Read(ctx, st.SessionID, r) {
		if err != nil {
			return n, fmt.Errorf("session: read %s: %w", st.SessionID, err)
		}
		if seen != nil {
			seen(&rec)
		}
		if rec.Sequence <= st.Sequence {
			continue
		}
		if chain.Next(rec.Data) != rec.Hash {
			return n, fmt.Errorf("%w: session %s, fact %d: the hash chain is broken", store.ErrCorrupt, st.SessionID, rec.Sequence)
		}
		payload, err := event.DecodeHeader(rec.Data, &e)
		if err == nil && state.NeedsPayload(e.Type) {
			err = store.DecodeFactPayload(ctx, s, &e, payload)
		}
		if err != nil {
			return n, fmt.Errorf("%w: session %s, fact %d: %w", store.ErrCorrupt, st.SessionID, rec.Sequence, err)
		}
		if _, err := st.Apply(&e); err != nil {
			return n, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		n.facts++
		n.bytes += len(rec.Data)
	}
	return n, nil
}

// retireSession puts the session away: its state is stored if the tail grew long, and
// the claim is given back, unless there is work under it and the manager goes on. The
// writer must not be used afterwards.
func (w *writer) retireSession(ctx context.Context, stopping bool) error {
	if err := w.quiesce(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookAfter()
	if !w.loaded || w.failed {
		return nil
	}
	w.failed = true
	return errors.Join(w.appendLast(ctx), w.giveClaimBack(ctx, stopping))
}

// appendLast stores what spares work later: the state if the tail grew long, and the
// total of the session's account.
func (w *writer) appendLast(ctx context.Context) error {
	b := &store.Batch{SessionID: w.id, Epoch: w.epoch}
	if w.sinceFacts >= w.m.opt.SnapshotEvery/4 && !w.partial {
		w.addSnapshot(b)
	}
	keeps := false
	if w.usage != nil {
		var op store.IndexOp
		if op, keeps = keptUsage(w.usage, w.m, true); keeps {
			b.Index = append(b.Index, op)
		}
	}
	if len(b.Snapshots) == 0 && len(b.Index) == 0 {
		return nil
	}
	err := w.m.opt.Store.Append(ctx, []*store.Batch{b})[0]
	if keeps {
		w.usage.Kept(err == nil)
		if len(b.Snapshots) == 0 {
			return nil // another session of the account stores it later
		}
	}
	return err
}

// quiesce waits for the batches under way.
func (w *writer) quiesce() error {
	w.mu.Lock()
	return w.settleUnchanged(nil)
}

// storeFault classifies an error of the store for a caller.
func storeFault(err error) error {
	if f := storefault.Of(err); f != nil {
		return f
	}
	return fault.Wrap(fault.Unavailable, err, "the store rejected the write")
}
