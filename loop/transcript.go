package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"agentd/event"
	"agentd/model"
	"agentd/state"
	"agentd/store"
)

// transcripts keeps the conversations of the threads that were worked on lately.
type transcripts struct {
	store store.Store
	limit int

	mu   sync.Mutex
	byID map[string]map[string]*kept // session, thread
	// newest and oldest are the ends of the list by last use.
	newest, oldest *kept
	count          int
}

type kept struct {
	k            key
	c            *conversation
	newer, older *kept
}

func newTranscripts(s store.Store, limit int) *transcripts {
	return &transcripts{store: s, limit: limit, byID: map[string]map[string]*kept{}}
}

// offer hands committed facts to the conversations of their session.
func (t *transcripts) offer(sessionID string, facts []event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if removes(facts) {
		for _, k := range t.byID[sessionID] {
			t.drop(k)
		}
		return
	}
	if id := beginsWith(facts); id != "" && t.byID[sessionID] == nil {
		t.insert(key{sessionID, id}, newConversation())
	}
	for threadID, k := range t.byID[sessionID] {
		k.c.offer(threadID, facts)
	}
}

// beginsWith returns the main thread of a session that these facts are the beginning of, if
// no history comes before it. Its conversation needs no look into the journal.
func beginsWith(facts []event.Event) (threadID string) {
	if len(facts) < 2 || facts[0].Sequence != 1 || facts[1].Type != event.TypeThreadStarted {
		return ""
	}
	if p, ok := facts[0].Payload.(*event.SessionCreated); !ok || p.ForkedFrom != nil {
		return ""
	}
	return facts[1].ThreadID
}

// conversationAt returns the thread's conversation with all facts through the given one.
// It is for the thread's runner alone.
func (t *transcripts) conversationAt(ctx context.Context, k key, at position) (*conversation, error) {
	if c := t.findConversation(k); c != nil {
		ok, err := t.settle(ctx, c, k, at.last)
		if ok {
			return c, nil
		}
		t.forget(k) // what was pending may be lost
		if err != nil {
			return nil, err
		}
	}
	c := newConversation()
	c.through = at.through
	t.cacheConversation(k, c) // from now on it is offered what comes after
	err := t.load(ctx, c, k, at)
	ok := false
	if err == nil {
		ok, err = t.settle(ctx, c, k, at.last)
	}
	if !ok {
		t.forget(k)
		if err == nil {
			err = errMoved
		}
		return nil, fmt.Errorf("loop: the conversation of thread %s could not be derived: %w", k.thread, err)
	}
	return c, nil
}

// settle brings a conversation up to date with what it was offered.
func (t *transcripts) settle(ctx context.Context, c *conversation, k key, through uint64) (bool, error) {
	if gap, ok := c.takeGap(); ok {
		if err := t.foldRange(ctx, c, k, gap, nil); err != nil {
			return false, err
		}
	}
	return c.settle(ctx, t.store, through)
}

func newConversation() *conversation {
	return &conversation{inputs: map[string]input{}, results: map[string]*model.Message{}}
}

func (t *transcripts) findConversation(k key) *conversation {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.byID[k.session][k.thread]
	if x == nil {
		return nil
	}
	t.unlink(x)
	t.link(x)
	return x.c
}

func (t *transcripts) cacheConversation(k key, c *conversation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.insert(k, c)
}

// insert is cacheConversation for a caller that holds the lock.
func (t *transcripts) insert(k key, c *conversation) {
	if t.byID[k.session] == nil {
		t.byID[k.session] = map[string]*kept{}
	}
	x := &kept{k: k, c: c}
	t.byID[k.session][k.thread] = x
	t.link(x)
	t.count++
	for t.count > t.limit && t.oldest != x {
		t.drop(t.oldest)
	}
}

func (t *transcripts) forget(k key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.byID[k.session][k.thread]; x != nil {
		t.drop(x)
	}
}

func (t *transcripts) drop(x *kept) {
	t.unlink(x)
	t.count--
	delete(t.byID[x.k.session], x.k.thread)
	if len(t.byID[x.k.session]) == 0 {
		delete(t.byID, x.k.session)
	}
}

func (t *transcripts) link(x *kept) {
	x.older, x.newer = t.newest, nil
	if t.newest != nil {
		t.newest.newer = x
	}
	t.newest = x
	if t.oldest == nil {
		t.oldest = x
	}
}

func (t *transcripts) unlink(x *kept) {
	if x.newer != nil {
		x.newer.older = x.older
	} else {
		t.newest = x.older
	}
	if x.older != nil {
		x.older.newer = x.newer
	} else {
		t.oldest = x.newer
	}
}

// position says how much of a thread's history its conversation is derived from.
type position struct {
	// from and last are the first and the newest fact of the thread, through is the
	// last one of the session that counts.
	from, last, through uint64
	// first says that the thread has no turn but its first: nothing was taken back.
	first bool
	// boundary is the summary that stands for what came before; nil for none. Made is
	// the fact that submitted the turn in which it was made; 0 if that is to be
	// looked up.
	boundary *state.Compaction
	made     uint64
	// open are the turns that are not finished, with the fact of their submission.
	open map[string]uint64
	// fork is where the session's history goes on in another one.
	fork *event.ForkPoint
}

// positionOf reads from the state what is needed to derive a conversation.
func positionOf(s *state.Session, t *state.Thread) position {
	p := position{
		from: t.StartedSequence, last: t.LastSequence, through: s.Sequence,
		first: t.TurnCount <= 1 && len(t.Recent) == 0 && t.Base == nil, open: map[string]uint64{}, fork: s.Origin(t),
	}
	for _, turn := range t.Queue {
		p.open[turn.TurnID] = turn.SubmittedSequence
	}
	if t.Active != nil {
		p.open[t.Active.TurnID] = t.Active.SubmittedSequence
	}
	if c := t.Context; c != nil && c.Boundary != nil && !c.Boundary.Stale {
		p.boundary = c.Boundary
		p.made = p.open[c.Boundary.TurnID]
		for _, turn := range t.Recent {
			if turn.TurnID == c.Boundary.TurnID {
				p.made = turn.SubmittedSequence
			}
		}
	}
	return p
}

// load derives a conversation from the journal.
func (t *transcripts) load(ctx context.Context, c *conversation, k key, at position) error {
	if at.first && at.boundary == nil && at.fork == nil { // hardly ever was something removed by then: that is asked when it turns out
		err := t.foldRange(ctx, c, k, at.all(), nil)
		if _, removed := errors.AsType[*store.TrimmedError](err); !removed {
			return err
		}
	}
	if done, err := t.loadTrimmed(ctx, c, k, at); done || err != nil {
		return err
	}
	if at.boundary != nil {
		return t.loadAfter(ctx, c, k, at)
	}
	if at.fork != nil {
		if err := t.loadFork(ctx, c, at.fork, maxForks); err != nil {
			return err
		}
	}
	if at.first {
		return t.foldRange(ctx, c, k, at.all(), nil)
	}
	return t.loadAll(ctx, c, k, at.all())
}

// all is the part of the session in which the thread's facts are.
func (p *position) all() store.Range {
	return store.Range{After: max(p.from, 1) - 1, Before: p.through + 1}
}

// maxForks bounds how many forks of forks are followed.
const maxForks = 1000

// loadFork derives the conversation up to a fork, which may be one of a fork.
func (t *transcripts) loadFork(ctx context.Context, c *conversation, f *event.ForkPoint, depth int) error {
	k, r := key{f.SessionID, f.ThreadID}, store.Range{Before: f.Sequence + 1}
	undone, origin, err := t.undone(ctx, k, r)
	if err != nil {
		return err
	}
	earlier, err := forkOf(ctx, t.store, f, origin)
	if err != nil {
		return err
	}
	if earlier != nil {
		if depth == 0 {
			return fmt.Errorf("loop: session %s is forked more than %d levels deep", f.SessionID, maxForks)
		}
		if err := t.loadFork(ctx, c, earlier, depth-1); err != nil {
			return err
		}
	}
	if err := t.foldRange(ctx, c, k, r, undone); err != nil {
		return err
	}
	c.endTurn(c.running) // what was under way at the fork is not under way here
	clear(c.inputs)
	c.covers = 0 // it is of another session
	return nil
}

// forkOf returns where the history of a forked thread goes on; nil if it began
// where it is. Origin is where its last rollback left it, if one went that far.
func forkOf(ctx context.Context, s store.Store, f, origin *event.ForkPoint) (*event.ForkPoint, error) {
	if origin != nil {
		if origin.Sequence == 0 {
			return nil, nil
		}
		return origin, nil
	}
	created, err := readFact(ctx, s, f.SessionID, 1)
	if err != nil {
		return nil, err
	}
	p, ok := created.Payload.(*event.SessionCreated)
	if !ok || p.ForkedFrom == nil {
		return nil, nil
	}
	started, err := readFact(ctx, s, f.SessionID, 2)
	if err != nil || started.ThreadID != f.ThreadID {
		return nil, err
	}
	return p.ForkedFrom, nil
}

// loadAfter derives a conversation from a summary and what followed it. The
// inputs of turns that were submitted before the summary are looked up, and what
// was said in the turn in which it was made: it may not have been told yet.
func (t *transcripts) loadAfter(ctx context.Context, c *conversation, k key, at position) error {
	for turnID, sequence := range at.open {
		if sequence > at.boundary.Sequence || turnID == at.boundary.TurnID {
			continue
		}
		e, err := readFact(ctx, t.store, k.session, sequence)
		if err != nil {
			return err
		}
		if err := c.apply(ctx, t.store, heardOf(e)); err != nil {
			return err
		}
	}
	if err := t.loadTurn(ctx, c, k, at); err != nil {
		return err
	}
	r := store.Range{After: at.boundary.Sequence - 1, Before: at.through + 1}
	undone, _, err := t.undone(ctx, k, r)
	if err != nil {
		return err
	}
	return t.foldRange(ctx, c, k, r, undone)
}

// loadTurn applies what was said, before the summary, in the turn in which it was
// made.
func (t *transcripts) loadTurn(ctx context.Context, c *conversation, k key, at position) error {
	id, from := at.boundary.TurnID, at.made
	if id == "" || id == event.NotApplicable {
		return nil
	}
	if from == 0 {
		turn, err := oldTurn(ctx, t.store, k.session, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		from = turn.SubmittedSequence
	}
	for rec, err := range t.store.Read(ctx, k.session, store.Range{After: from - 1, Before: at.boundary.Sequence}) {
		if err != nil {
			return fmt.Errorf("loop: read: %w", err)
		}
		e, err := decodeIf(ctx, t.store, rec, k.thread, changesConversation)
		if err != nil {
			return err
		}
		if e == nil || e.TurnID != id {
			continue
		}
		if err := c.apply(ctx, t.store, heardOf(e)); err != nil {
			return err
		}
	}
	return nil
}

// oldTurn reads the record of a turn that left the working set.
func oldTurn(ctx context.Context, s store.Store, sessionID, turnID string) (*state.Turn, error) {
	snap, err := s.Snapshot(ctx, sessionID, "turn/"+turnID)
	if err != nil {
		return nil, fmt.Errorf("loop: turn %s: %w", turnID, err)
	}
	turn := &state.Turn{}
	if err := json.Unmarshal(snap.Data, turn); err != nil {
		return nil, fmt.Errorf("loop: turn %s: %w", turnID, err)
	}
	return turn, nil
}

// loadAll derives a conversation from its beginning. Turns that a rollback took
// back, and summaries that covered them, are left out.
func (t *transcripts) loadAll(ctx context.Context, c *conversation, k key, r store.Range) error {
	undone, _, err := t.undone(ctx, k, r)
	if err != nil {
		return err
	}
	return t.foldRange(ctx, c, k, r, undone)
}

// undone finds what later rollbacks took back: turns, and summaries by their
// sequence; and the place in another session that they went back to.
func (t *transcripts) undone(ctx context.Context, k key, r store.Range) (out map[string]bool, origin *event.ForkPoint, err error) {
	out = map[string]bool{}
	through := map[uint64]uint64{}
	for rec, err := range t.store.Read(ctx, k.session, r) {
		if err != nil {
			return nil, nil, fmt.Errorf("loop: read: %w", err)
		}
		e, err := decodeIf(ctx, t.store, rec, k.thread, func(t event.Type) bool {
			return t == event.TypeContextCompactionCompleted || t == event.TypeHistoryRollbackCompleted
		})
		if err != nil {
			return nil, nil, err
		}
		if e == nil {
			continue
		}
		switch p := e.Payload.(type) {
		case *event.CompactionCompleted:
			through[e.Sequence] = p.ThroughSequence
		case *event.RollbackCompleted:
			for _, id := range ownTurns(p) {
				out[id] = true
			}
			if p.Origin != nil {
				origin = p.Origin
			}
			for sequence, covers := range through {
				if covers > p.BaselineSequence {
					out[strconv.FormatUint(sequence, 10)] = true
				}
			}
		}
	}
	return out, origin, nil
}

// ownTurns are the removed turns that are the thread's own: those that it inherited
// come first.
func ownTurns(p *event.RollbackCompleted) []string {
	return p.RemovedTurns[min(int(max(0, p.InheritedTurns)), len(p.RemovedTurns)):]
}

// foldRange applies the thread's facts of a range.
func (t *transcripts) foldRange(ctx context.Context, c *conversation, k key, r store.Range, undone map[string]bool) error {
	for rec, err := range t.store.Read(ctx, k.session, r) {
		if err != nil {
			return fmt.Errorf("loop: read: %w", err)
		}
		e, err := decodeIf(ctx, t.store, rec, k.thread, changesConversation)
		if err != nil {
			return err
		}
		if e == nil || undone[e.TurnID] || undone[strconv.FormatUint(e.Sequence, 10)] || e.Type == event.TypeHistoryRollbackCompleted {
			continue
		}
		if err := c.apply(ctx, t.store, heardOf(e)); err != nil {
			return err
		}
	}
	return nil
}

// decodeIf decodes a fact of the thread whose type is wanted; nil for others,
// whose payloads are not looked at.
func decodeIf(ctx context.Context, contents store.Contents, rec store.Record, threadID string, wanted func(event.Type) bool) (*event.Event, error) {
	e := &event.Event{}
	payload, err := event.DecodeHeader(rec.Data, e)
	if err != nil {
		return nil, fmt.Errorf("loop: %w", err)
	}
	if e.ThreadID != threadID || !wanted(e.Type) {
		return nil, nil
	}
	if err := store.DecodeFactPayload(ctx, contents, e, payload); err != nil {
		return nil, fmt.Errorf("loop: %w", err)
	}
	return e, nil
}

// readFact reads one fact.
func readFact(ctx context.Context, s store.Store, sessionID string, sequence uint64) (*event.Event, error) {
	for rec, err := range s.Read(ctx, sessionID, store.Range{After: sequence - 1, Limit: 1}) {
		if err != nil {
			return nil, fmt.Errorf("loop: read: %w", err)
		}
		return store.DecodeFact(ctx, s, rec.Data)
	}
	return nil, fmt.Errorf("loop: %w: fact %d of session %s", store.ErrNotFound, sequence, sessionID)
}
