package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/state"
	"agentd/store"
)

// A session is deleted by one atomic write to it: its facts are removed and a state that
// says nothing stands for them, its index entries go, the bytes of its outputs are noted
// to be deleted, and one fact says so. That fact stays, so that the id is never used
// again. The runtime's own session gets the same fact; a note in the index makes sure
// that it does, also after a crash between the two.
const (
	// kindDeleted: session id → nothing, once the session was deleted.
	kindDeleted = "deleted"
	// kindDeleting: session id → the fact, until the runtime's own session has it.
	kindDeleting = "deleting"
)

func (r *request) deleteSession(ctx context.Context, p *command.DeleteSession) (*command.DeleteSessionResult, error) {
	d := &deletion{fact: event.SessionDeleted{
		DeletedSessionID: p.SessionID, Reason: r.m.redactText(p.Reason), DeletedBy: r.actor(),
	}}
	// Before anything that takes time: who may not, or can't, is told at once.
	if err := r.viewSession(ctx, p.SessionID, d.checkDeletable); err != nil {
		return nil, err
	}
	defer r.m.forks.beginRemoval()()
	forks, err := r.m.forkedSessions(ctx)
	if err != nil {
		return nil, err
	}
	d.forked = forks[p.SessionID]
	if err := d.collect(ctx, r.m.opt.Store, p.SessionID); err != nil {
		return nil, storeFault(err)
	}
	res, err := mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.DeleteSessionResult, error) {
		forked, err := tx.hasForks()
		if err != nil {
			return nil, err
		}
		d.forked = d.forked || forked
		return d.decide(tx)
	})
	if err != nil {
		return nil, err
	}
	r.m.sessionDeleted(ctx, d)
	return res, nil
}

// deletion is what goes with a session.
type deletion struct {
	fact event.SessionDeleted
	// forked says that forks refer to the facts, so that they stay.
	forked bool
	// sequence is the last fact, account whose the session is.
	sequence uint64
	account  string
	index    []store.IndexOp
	records  []string
}

// checkDeletable refuses a session that is in use.
func (d *deletion) checkDeletable(s *state.Session) error {
	d.sequence, d.account = s.Sequence, s.Account
	d.index = []store.IndexOp{removeOp(kindSession, sessionKey(s)), removeOp(kindOpen, s.SessionID)}
	if s.Place != nil {
		d.index = append(d.index, removeOp(kindPlace, s.SessionID))
	}
	if s.Account != "" {
		d.index = append(d.index, removeOp(accountSessions(s.Account), sessionKey(s)))
	}
	switch {
	case s.HasOpenWork():
		return fault.New(fault.Conflict, "session %s has unfinished work and can't be deleted yet; interrupt its turns, answer or cancel its actions, and cancel its tasks, jobs and schedules first", s.SessionID)
	case len(s.Channels.Connected) > 0:
		return fault.New(fault.Conflict, "channel %s is connected to session %s; use disconnect_channel first", s.Channels.Connected[0].ChannelID, s.SessionID)
	}
	return nil
}

// ownedEntries says how the entries of a kind name the session that they are of.
type ownedEntries struct {
	kind string
	of   func(e *store.Entry, sessionID string) bool
	// prefixed says that the keys begin with the session: only those are read.
	prefixed bool
}

// derivedEntries are the kinds of entries that go with a session, beside those of
// sessions themselves.
func derivedEntries() []ownedEntries {
	first := func(e *store.Entry, id string) bool { return strings.HasPrefix(e.Key, id+"/") }
	last := func(e *store.Entry, id string) bool { return strings.HasSuffix(e.Key, "/"+id) }
	value := func(e *store.Entry, id string) bool {
		owner, _, _ := strings.Cut(string(e.Value), "/")
		return owner == id
	}
	inside := func(e *store.Entry, id string) bool {
		if !bytes.Contains(e.Value, []byte(id)) { // ids are written as they are
			return false
		}
		var v struct {
			SessionID string `json:"sessionId"`
			Action    struct {
				SessionID string `json:"sessionId"`
			} `json:"action"`
		}
		return json.Unmarshal(e.Value, &v) == nil && (v.SessionID == id || v.Action.SessionID == id)
	}
	var out []ownedEntries
	add := func(of func(*store.Entry, string) bool, kinds ...string) {
		for _, kind := range kinds {
			out = append(out, ownedEntries{kind: kind, of: of})
		}
	}
	for _, kind := range []string{
		kindTurn, kindTaskOf, kindMark, kindChannelUp, members(KindSubagent), members(KindJob), members(KindSchedule), members(KindTrial), members(kindChannel),
	} {
		out = append(out, ownedEntries{kind: kind, of: first, prefixed: true})
	}
	add(last, kindRef, kindOutput, kindOutputAt, kindKept, kindExpired, kindChannelLink, kindCursor, kindFork)
	add(value, kindTask, kindPending, kindProcess, KindSubagent, KindJob, KindSchedule, KindTrial, kindChannel)
	add(inside, kindAction, kindPeer)
	return out
}

// collect finds what goes. Nothing is added meanwhile, or decide notices.
func (d *deletion) collect(ctx context.Context, s store.Store, sessionID string) error {
	for _, k := range derivedEntries() {
		scan := store.Scan{Kind: k.kind}
		if k.prefixed {
			scan.Prefix = sessionID + "/"
		}
		for e, err := range s.Scan(ctx, scan) {
			if err != nil {
				return err
			}
			if !k.of(&e, sessionID) {
				continue
			}
			d.index = append(d.index, removeOp(k.kind, e.Key))
			switch k.kind {
			case kindRef:
				ref, _, _ := strings.Cut(e.Key, "/")
				d.index = append(d.index, putOp(kindDoomed, ref+"/"+sessionID, nil))
			case kindPeer:
				d.index = append(d.index, removeOp(kindPeerOpen, e.Key))
			}
		}
	}
	for _, kind := range cardKinds() {
		for e, err := range s.Scan(ctx, store.Scan{Kind: kind.entryKind(), Prefix: cardPrefix(d.account, sessionID)}) {
			if err != nil {
				return err
			}
			d.index = append(d.index, removeOp(e.Kind, e.Key))
		}
	}
	for snap, err := range s.Snapshots(ctx, sessionID) {
		if err != nil {
			return err
		}
		if snap.Name != stateSnapshot {
			d.records = append(d.records, snap.Name)
		}
	}
	base, err := s.Base(ctx, sessionID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for rec, err := range s.Read(ctx, sessionID, store.Range{After: base.Sequence, Before: d.sequence + 1}) {
		if err != nil {
			return err
		}
		d.fact.Events++
		d.fact.Bytes += int64(len(rec.Data))
	}
	return nil
}

// decide makes the one write that deletes the session.
func (d *deletion) decide(tx *Tx) (*command.DeleteSessionResult, error) {
	if tx.State.Sequence != d.sequence {
		return nil, fault.New(fault.Conflict, "session %s is still active; try again when it is at rest", tx.State.SessionID)
	}
	d.fact.Account, d.fact.KeptForForks = tx.State.Account, d.forked
	if d.forked {
		d.fact.Events, d.fact.Bytes = 0, 0
	} else {
		tx.entomb(d.records)
	}
	note, err := json.Marshal(&d.fact)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the deletion could not be encoded")
	}
	tx.index = append(tx.index, d.index...)
	tx.index = append(tx.index, putOp(kindDeleting, tx.State.SessionID, note))
	fact := d.fact
	tx.Emit(event.Event{Type: event.TypeSessionDeleted, Payload: &fact})
	return &command.DeleteSessionResult{Deleted: true, Events: d.fact.Events, KeptForForks: d.forked}, nil
}

// entomb removes all facts that there are. What stands for them, and for the records
// that followed from them, says nothing.
func (tx *Tx) entomb(records []string) {
	tomb := tx.State.Tombstone()
	tx.trim = &store.Trim{Through: tomb.Sequence, Hash: tx.w.chain.Last(), Data: tomb.Encode()}
	tx.tombstone = tomb
	for _, name := range records {
		tx.emptied = append(tx.emptied, store.Snapshot{SessionID: tomb.SessionID, Name: name, Sequence: tomb.Sequence, Data: []byte{}})
	}
}

// sessionDeleted does what follows once a deletion is durable. What it can't do now is
// done at the next start.
func (m *Manager) sessionDeleted(ctx context.Context, d *deletion) {
	ctx = context.WithoutCancel(ctx)
	m.owners.clear()
	if usage, err := m.usageOf(ctx, d.account); err == nil {
		usage.Add(quota.Sessions, -1)
		usage.Add(quota.StoredBytes, -d.fact.Bytes)
	}
	if err := m.FinishDeletions(ctx); err != nil {
		m.opt.Logger.Warn("a session was deleted; what is left of it goes at the next start", "sessionId", d.fact.DeletedSessionID, "error", err)
	}
}

// FinishDeletions does what is left to do after sessions were deleted: the runtime's own
// session is told, and the bytes of outputs that are no longer needed go. It may be cut
// off at any point and called again.
func (m *Manager) FinishDeletions(ctx context.Context) error {
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindDeleting}) {
		if err != nil {
			return storeFault(err)
		}
		fact := &event.SessionDeleted{}
		if err := json.Unmarshal(e.Value, fact); err != nil {
			return storeFault(errors.Join(store.ErrCorrupt, err))
		}
		if err := m.WriteInRuntime(ctx, func(tx *Tx) error {
			if _, open, err := tx.Lookup(kindDeleting, e.Key); err != nil || !open {
				return err // it was told in the meantime
			}
			tx.Emit(event.Event{Type: event.TypeSessionDeleted, Payload: fact})
			tx.index = append(tx.index, removeOp(kindDeleting, e.Key))
			return nil
		}); err != nil {
			return err
		}
	}
	m.outputs.sweeping.Lock()
	defer m.outputs.sweeping.Unlock()
	return m.deleteDoomed(ctx, &Swept{})
}

// WriteInRuntime runs a decision in the runtime's own session, which is opened if it
// doesn't exist. All nodes write there, so what follows from what is recorded has to be
// decided from the state of the decision: what a node knows may be older.
func (m *Manager) WriteInRuntime(ctx context.Context, decide func(*Tx) error) error {
	return m.writeDecision(ctx, event.RuntimeSession, event.BySession|event.ByRuntime, true, func(tx *Tx) error {
		if tx.State.Sequence == 0 {
			openRuntime(tx)
		}
		return decide(tx)
	})
}
