package session

import (
	"context"
	"errors"
	"fmt"

	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/state"
	"agentd/store"
)

// importGroup is the number of facts that are written at once.
const importGroup = 256

// Imported says what an import found and did.
type Imported struct {
	// Events are those of the file, Written those that were not here yet.
	Events, Written uint64
	// OpenWork says that the session has work that isn't finished.
	OpenWork bool
	// Permissions are those that the session has of its own, in words: they were given
	// elsewhere and would apply here.
	Permissions []string
	// Foreign is the place that the session has by a fact of the other runtime; nil if it has
	// none, or one of this runtime.
	Foreign *event.WorkspacePlace
}

// ImportCheck reads a session that another runtime wrote and finds out why it
// can't be taken over, without changing anything: a fact that this release doesn't
// know, a session or an id that is here already with another content.
type ImportCheck struct {
	m     *Manager
	head  store.Head
	state *state.Session
	// peers are the keys of the peers' tasks that were linked to the session.
	peers map[string]bool
	// placedBy is the runtime that gave the session the place that it has.
	placedBy string
}

// CheckImport begins to check a session.
func (m *Manager) CheckImport(ctx context.Context, sessionID string) (*ImportCheck, error) {
	if sessionID == event.RuntimeSession {
		return nil, fault.New(fault.InvalidParams, "%s is the other runtime's own session and stays there", sessionID)
	}
	if !event.ValidID(sessionID) {
		return nil, fault.New(fault.InvalidParams, "%q is not a valid session id", sessionID)
	}
	head, err := m.opt.Store.Head(ctx, sessionID)
	if err != nil {
		return nil, storeFault(err)
	}
	return &ImportCheck{m: m, head: head, state: state.New(sessionID), peers: map[string]bool{}}, nil
}

// Add checks the next fact.
//
// Contents opens the whole payload of a fact that shows only a part of it.
func (c *ImportCheck) Add(ctx context.Context, contents store.Contents, rec *store.Record) error {
	e, err := importedFact(ctx, c.state, contents, rec)
	if err != nil {
		return err
	}
	if err := c.checkOwnFact(e); err != nil {
		return err
	}
	c.noteForeignPlace(e)
	if rec.Sequence <= c.head.Sequence {
		return c.m.sameFact(ctx, e.SessionID, rec)
	}
	return c.m.checkImported(ctx, c.state, e)
}

// Done says what an import would do.
func (c *ImportCheck) Done() (Imported, error) {
	got := Imported{Events: c.state.Sequence, OpenWork: c.state.HasOpenWork(), Permissions: permissionsOf(c.state)}
	if c.state.Sequence == 0 {
		return got, fault.New(fault.InvalidParams, "the session has no facts")
	}
	if p := c.state.Place; p != nil && c.placedBy != c.m.opt.RuntimeID {
		foreign := *p
		got.Foreign = &foreign
	}
	if c.head.Sequence < got.Events && len(c.state.Environment.Active) > 0 {
		// What the facts say of it would be looked for here, and ended.
		return got, fault.New(fault.Conflict, "process %s of session %s still runs where the session comes from, and can't move: end it there first", c.state.Environment.Active[0].ProcessID, c.state.SessionID)
	}
	if c.head.Sequence < got.Events {
		got.Written = got.Events - c.head.Sequence
	}
	return got, nil
}

// importedFact decodes, checks and folds a fact of another runtime.
func importedFact(ctx context.Context, st *state.Session, contents store.Contents, rec *store.Record) (*event.Event, error) {
	e, err := store.DecodeFact(ctx, contents, rec.Data)
	if err == nil {
		err = event.Check(e)
	}
	if err == nil && (e.SessionID != st.SessionID || e.Sequence != rec.Sequence) {
		err = fmt.Errorf("it claims to be fact %d of session %s", e.Sequence, e.SessionID)
	}
	if err == nil {
		_, err = st.Apply(e)
	}
	if err != nil {
		return nil, fault.Wrap(fault.InvalidParams, err, "fact %d can't be imported", rec.Sequence)
	}
	return e, nil
}

// sameFact reports a fact that is here with another content.
func (m *Manager) sameFact(ctx context.Context, sessionID string, rec *store.Record) error {
	for have, err := range m.opt.Store.Read(ctx, sessionID, store.Range{After: rec.Sequence - 1, Limit: 1}) {
		if err != nil {
			return storeFault(err)
		}
		if have.Hash == rec.Hash {
			return nil
		}
	}
	return fault.New(fault.Conflict, "session %s already exists here with a different fact %d", sessionID, rec.Sequence)
}

// Import takes over a session that another runtime wrote: its facts as they are,
// with their chain, and the index and read models that follow from them. What an
// earlier import wrote before it was cut off is not written again. The session is
// owned by the import until Close; check it with [Manager.CheckImport] first.
type Import struct {
	w     *writer
	batch store.Batch
	got   Imported
	// here is the last fact of the file that is here already.
	here   store.Record
	closed bool
	// forked is called at the end if the session is a fork, see [forkGuard].
	forked func(made bool)
}

// importMark takes the place of a session's state while not all of an import is
// stored. If that is cut off, the part that is here looks like a session: code that
// went on with it would keep the rest out, or do what was done elsewhere.
const importMark = "an import is under way"

// errMarked says that a session's state is [importMark].
var errMarked = errors.New("session: " + importMark)

// errPartial refuses to go on with a session.
func errPartial(sessionID string) error {
	return fault.New(fault.Conflict, "the import of session %s stopped part-way and only its first events are here: import the same file again", sessionID)
}

// BeginImport begins to take over a session.
func (m *Manager) BeginImport(ctx context.Context, sessionID string) (*Import, error) {
	w, err := m.acquireWriter(sessionID)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	if err := w.ensureLoaded(withoutPlace(ctx), true); err != nil {
		w.mu.Unlock()
		m.releaseWriter(w)
		return nil, err
	}
	w.known.all = false // what is imported doesn't pass through what the writer remembers
	return &Import{w: w}, nil
}

// Add takes the next fact.
func (i *Import) Add(ctx context.Context, rec *store.Record) error {
	i.got.Events = rec.Sequence
	if rec.Sequence <= i.w.state.Sequence {
		// Here already. CheckImport compared them, but others may have written since:
		// the last one is compared again, and its hash covers those before.
		i.here = store.Record{Sequence: rec.Sequence, Hash: rec.Hash}
		return nil
	}
	if err := i.foldRecord(ctx, rec); err != nil {
		return err
	}
	if len(i.batch.Records) < importGroup {
		return nil
	}
	return i.write(ctx, i.mark)
}

// mark says that what is written isn't all yet.
func (i *Import) mark(b *store.Batch) {
	if !i.w.partial { // else it was said, and is so until all is here
		b.Snapshots = append(b.Snapshots, store.Snapshot{SessionID: i.w.id, Name: stateSnapshot, Data: []byte(importMark)})
	}
	i.w.partial = true
	i.w.addMarkInPassing(b)
}

// Close writes what is left, unless the import failed before, and gives the
// session free. It may be called again.
func (i *Import) Close(ctx context.Context, failed error) (Imported, error) {
	if i.closed {
		return i.got, failed
	}
	i.closed = true
	w := i.w
	if failed == nil && i.here.Sequence > 0 {
		failed = w.m.sameFact(ctx, w.id, &i.here)
	}
	if failed == nil && w.partial && i.got.Events < w.state.Sequence {
		failed = errPartial(w.id) // by an older file, which isn't the one that was cut off
	}
	if failed == nil {
		failed = i.finishImport(ctx)
	}
	if failed != nil {
		w.failed = true // its state may be ahead of the store
		w.m.dropWriter(w)
	}
	i.got.OpenWork = w.state.HasOpenWork()
	if i.forked != nil {
		i.forked(true)
	}
	w.mu.Unlock()
	w.m.releaseWriter(w)
	return i.got, failed
}

// refersTo announces a fork, and looks again whether its origin is still as it was
// when the file was checked.
func (i *Import) refersTo(ctx context.Context, p *event.SessionCreated) error {
	if p.ForkedFrom == nil {
		return nil
	}
	i.forked = i.w.m.forks.beginFork(p.ForkedFrom.SessionID)
	if err := i.w.m.checkForkPoint(ctx, p.Account, p.ForkedFrom); err != nil {
		return err
	}
	return i.w.m.announceFork(ctx, p.ForkedFrom.SessionID, i.w.id)
}

// foldRecord folds a fact and collects what follows from it, as the writer does with its own.
func (i *Import) foldRecord(ctx context.Context, rec *store.Record) error {
	w := i.w
	e, err := store.DecodeFact(ctx, w.m.opt.Store, rec.Data)
	if err != nil {
		return fault.Wrap(fault.InvalidParams, err, "fact %d can't be imported", rec.Sequence)
	}
	if p, ok := e.Payload.(*event.SessionCreated); ok {
		if i.forked == nil {
			if err := i.refersTo(ctx, p); err != nil {
				return err
			}
		}
		if err := i.open(ctx, p.Account); err != nil {
			return err
		}
	}
	evicted, err := w.state.Apply(e)
	if err != nil {
		return fault.Wrap(fault.InvalidParams, err, "fact %d can't be imported", rec.Sequence)
	}
	if w.chain.Next(rec.Data) != rec.Hash {
		return fault.New(fault.Conflict, "fact %d doesn't continue where session %s ends", rec.Sequence, w.id)
	}
	b := &i.batch
	if b.Index, err = indexFact(b.Index, w.state, e, changesSummary(e.Payload)); err != nil {
		return fault.Wrap(fault.Internal, err, "fact %d can't be indexed", rec.Sequence)
	}
	if b.Index, err = indexOutputs(b.Index, e); err != nil {
		return fault.Wrap(fault.Internal, err, "fact %d can't be indexed", rec.Sequence)
	}
	if b.Index, err = indexPeers(b.Index, w.state, e); err != nil {
		return fault.Wrap(fault.Internal, err, "fact %d can't be indexed", rec.Sequence)
	}
	b.Index = indexPayload(indexKept(b.Index, e, rec.Data), e)
	for _, x := range evicted {
		data, err := x.Encode()
		if err != nil {
			return fault.Wrap(fault.Internal, err, "record %s can't be encoded", x.Name)
		}
		b.Snapshots = append(b.Snapshots, store.Snapshot{SessionID: w.id, Name: x.Name, Sequence: e.Sequence, Data: data})
	}
	b.Records = append(b.Records, *rec)
	return nil
}

// open counts the session among those of its account.
func (i *Import) open(ctx context.Context, account string) error {
	usage, err := i.w.m.usageOf(ctx, account)
	if err == nil {
		err = i.w.m.checkQuota(ctx, usage, quota.Sessions, func() error { return usage.Reserve(quota.Sessions, 1) })
	}
	if err != nil {
		return i.w.m.refuseAtQuota(ctx, "", err)
	}
	i.w.usage = usage
	return nil
}

// finishImport writes what is left, and whether the session has unfinished work, now that all
// of it is here. Until then it only seems so, and a search for such sessions would
// go on with what ended elsewhere.
func (i *Import) finishImport(ctx context.Context) error {
	w := i.w
	w.open = w.state.HasOpenWork()
	i.batch.Index = append(i.batch.Index, openEntry(w.id, w.open))
	state := w.addSnapshotIfDue
	if w.partial {
		state = w.addSnapshot // in the place of the mark
	}
	if err := i.write(ctx, state); err != nil {
		return err
	}
	w.partial = false
	return nil
}

// write appends what was collected, with what stands for the state.
func (i *Import) write(ctx context.Context, state func(*store.Batch)) error {
	w, b := i.w, &i.batch
	b.SessionID, b.Epoch = w.id, w.epoch
	size := 0
	for j := range b.Records {
		size += len(b.Records[j].Data)
	}
	w.trackIndex(b, len(b.Records), size)
	state(b)
	if err := w.m.opt.Store.Append(ctx, []*store.Batch{b})[0]; err != nil {
		return storeFault(err)
	}
	w.last = w.state.UpdatedAt
	if w.usage != nil {
		w.usage.Add(quota.StoredBytes, int64(size))
		w.recordStanding()
	}
	if len(b.Records) > 0 {
		// Subscribers get them; nothing may act on what happened elsewhere.
		w.m.topics.publish(w.id, b.Records)
	}
	clear(w.claims)
	i.got.Written += uint64(len(b.Records))
	i.batch = store.Batch{}
	return nil
}
