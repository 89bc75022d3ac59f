package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// readError says what a failed read is: damage, or trouble with the medium.
func readError(err error) error {
	if pdb.IsCorruptionError(err) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, oneLine{err})
	}
	return err
}

// oneLine is an error of Pebble without the marks that it adds in further lines.
type oneLine struct{ error }

func (e oneLine) Error() string {
	text, _, _ := strings.Cut(e.error.Error(), "\n")
	return text
}

func (e oneLine) Unwrap() error { return e.error }

// getCopy returns a copy of a key's value, or store.ErrNotFound.
func getCopy(r pdb.Reader, key []byte) ([]byte, error) {
	v, closer, err := r.Get(key)
	if errors.Is(err, pdb.ErrNotFound) {
		return nil, store.ErrNotFound
	}
	if err != nil {
		return nil, readError(err)
	}
	c := append([]byte{}, v...)
	return c, closer.Close()
}

// getDurable returns the durable value of a key.
func (s *Store) getDurable(key []byte) ([]byte, error) {
	s.view.RLock()
	defer s.view.RUnlock()
	return getCopy(s.snap, key)
}

// iterate returns an iterator over the durable state. It stays valid when the
// state moves on.
func (s *Store) iterate(ctx context.Context, lower, upper []byte) (*pdb.Iterator, error) {
	s.view.RLock()
	defer s.view.RUnlock()
	return s.snap.NewIterWithContext(ctx, &pdb.IterOptions{LowerBound: lower, UpperBound: upper})
}

// Head returns the durable end of a session.
func (s *Store) Head(ctx context.Context, sessionID string) (store.Head, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return store.Head{}, err
	}
	defer done()
	head, err := s.durableHead(sessionID)
	if err != nil {
		return store.Head{}, fmt.Errorf("pebble: head of session %s: %w", sessionID, err)
	}
	return head, nil
}

// durableHead takes the head from memory for a claimed session, and from the
// last record otherwise: there is no second place that could disagree with it.
func (s *Store) durableHead(sessionID string) (store.Head, error) {
	s.view.RLock()
	defer s.view.RUnlock()
	if c := s.sessions[sessionID]; c != nil {
		return c.head, nil
	}
	it, err := s.snap.NewIter(&pdb.IterOptions{
		LowerBound: eventKey(sessionID, 0),
		UpperBound: pairKey(keyEvent, sessionID, "\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
	})
	if err != nil {
		return store.Head{}, readError(err)
	}
	head, err := lastHead(it)
	return head, errors.Join(err, it.Close())
}

func lastHead(it *pdb.Iterator) (store.Head, error) {
	if !it.Last() {
		if err := it.Error(); err != nil {
			return store.Head{}, readError(err)
		}
		return store.Head{}, nil
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return store.Head{}, readError(err)
	}
	r, err := parseEvent(eventSeq(it.Key()), v)
	return store.Head{Sequence: r.Sequence, Hash: r.Hash}, err
}

// Read yields records of a session. A gap in the sequence that no trim made is
// damage.
func (s *Store) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		done, err := s.calls.enter(ctx)
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		defer done()
		before := r.Before
		if before == 0 {
			before = ^uint64(0)
		}
		if r.After >= before-1 {
			return
		}
		it, err := s.iterate(ctx, eventKey(sessionID, r.After+1), eventKey(sessionID, before))
		if err != nil {
			yield(store.Record{}, readError(err))
			return
		}
		w := walk{s: s, it: it, session: sessionID, r: r, yield: yield}
		w.run(ctx)
	}
}

// walk is one pass over a session's records.
type walk struct {
	s       *Store
	it      *pdb.Iterator
	session string
	r       store.Range
	yield   func(store.Record, error) bool
	last    uint64
}

func (w *walk) run(ctx context.Context) {
	stopped, err := w.records(ctx)
	if e := w.it.Close(); err == nil && e != nil {
		err = readError(e)
	}
	if err != nil && !stopped {
		w.yield(store.Record{}, fmt.Errorf("pebble: read session %s after record %d: %w", w.session, w.last, err))
	}
}

// records yields until the end; stopped if the consumer wants no more.
func (w *walk) records(ctx context.Context) (stopped bool, err error) {
	start, next := w.it.First, w.it.Next
	if w.r.Reverse {
		start, next = w.it.Last, w.it.Prev
	}
	ok := start()
	for n := 0; ok; ok = next() {
		if n&63 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		rec, err := w.record()
		if err != nil {
			return false, err
		}
		if !w.yield(rec, nil) {
			return true, nil
		}
		if n++; n == w.r.Limit {
			return false, nil
		}
	}
	if err := w.it.Error(); err != nil {
		return false, readError(err)
	}
	switch {
	case w.last == 0:
		return false, w.s.absent(w.session, w.r.After+1, nil)
	case w.r.Reverse && w.last > w.r.After+1:
		return false, w.missing(w.r.After+1, w.last-1)
	}
	return false, nil
}

// record returns the record under the iterator.
func (w *walk) record() (store.Record, error) {
	seq := eventSeq(w.it.Key())
	switch {
	case w.r.Reverse && w.last != 0 && seq != w.last-1:
		return store.Record{}, w.missing(seq+1, w.last-1)
	case !w.r.Reverse && seq != max(w.last, w.r.After)+1:
		return store.Record{}, w.missing(max(w.last, w.r.After)+1, seq-1)
	}
	v, err := w.it.ValueAndErr()
	if err != nil {
		return store.Record{}, readError(err)
	}
	rec, err := parseEvent(seq, v)
	if err != nil {
		return store.Record{}, fmt.Errorf("record %d: %w", seq, err)
	}
	rec.Data = append([]byte{}, rec.Data...)
	w.last = seq
	return rec, nil
}

// Snapshot returns the newest snapshot of that name.
func (s *Store) Snapshot(ctx context.Context, sessionID, name string) (store.Snapshot, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return store.Snapshot{}, err
	}
	defer done()
	v, err := s.getDurable(pairKey(keySnapshot, sessionID, name))
	if err != nil {
		return store.Snapshot{}, fmt.Errorf("pebble: snapshot %q of session %s: %w", name, sessionID, err)
	}
	return parseSnapshot(sessionID, name, v)
}

// Snapshots yields all snapshots of a session, ordered by name.
func (s *Store) Snapshots(ctx context.Context, sessionID string) iter.Seq2[store.Snapshot, error] {
	prefix := pairKey(keySnapshot, sessionID, "")
	return func(yield func(store.Snapshot, error) bool) {
		stop := func(err error) {
			yield(store.Snapshot{}, fmt.Errorf("pebble: snapshots of session %s: %w", sessionID, err))
		}
		s.pass(ctx, prefix, prefixEnd(prefix), false, stop, func(k, v []byte) bool {
			sn, err := parseSnapshot(sessionID, string(k[len(prefix):]), v)
			return yield(sn, err) && err == nil
		})
	}
}

// Get returns one index entry's value.
func (s *Store) Get(ctx context.Context, kind, key string) ([]byte, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	v, err := s.getDurable(pairKey(keyIndex, kind, key))
	if err != nil {
		return nil, fmt.Errorf("pebble: index entry %s %q: %w", kind, key, err)
	}
	return v, nil
}

// Scan yields index entries.
func (s *Store) Scan(ctx context.Context, sc store.Scan) iter.Seq2[store.Entry, error] {
	kind := len(sc.Kind) + 2
	lower, upper := scanBounds(sc)
	return func(yield func(store.Entry, error) bool) {
		if bytes.Compare(lower, upper) >= 0 {
			lower = upper
		}
		n := 0
		stop := func(err error) { yield(store.Entry{}, fmt.Errorf("pebble: scan %s: %w", sc.Kind, err)) }
		s.pass(ctx, lower, upper, sc.Reverse, stop, func(k, v []byte) bool {
			n++
			return yield(store.Entry{Kind: sc.Kind, Key: string(k[kind:]), Value: append([]byte{}, v...)}, nil) && n != sc.Limit
		})
	}
}

// scanBounds returns the keys from which and up to which a scan goes.
func scanBounds(sc store.Scan) (lower, upper []byte) {
	lower = pairKey(keyIndex, sc.Kind, sc.Prefix)
	upper = prefixEnd(lower)
	if sc.After == "" {
		return lower, upper
	}
	after := pairKey(keyIndex, sc.Kind, sc.After)
	if sc.Reverse {
		if bytes.Compare(after, upper) < 0 {
			upper = after
		}
		return lower, upper
	}
	if after = append(after, 0); bytes.Compare(after, lower) > 0 {
		lower = after
	}
	return lower, upper
}

// Sessions yields the ids of all sessions that have records.
func (s *Store) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		done, err := s.calls.enter(ctx)
		if err != nil {
			yield("", err)
			return
		}
		defer done()
		it, err := s.iterate(ctx, []byte{keyEvent}, []byte{keyEvent + 1})
		if err != nil {
			yield("", readError(err))
			return
		}
		err = eachSession(ctx, it, after, yield)
		if e := it.Close(); err == nil && e != nil {
			err = readError(e)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield("", fmt.Errorf("pebble: sessions: %w", err))
		}
	}
}

// errStopped says that the consumer wants no more.
var errStopped = errors.New("stopped")

// eachSession jumps from session to session.
func eachSession(ctx context.Context, it *pdb.Iterator, after string, yield func(string, error) bool) error {
	seek := []byte{keyEvent}
	if after != "" {
		seek = append(append(seek, after...), 1)
	}
	for ok := it.SeekGE(seek); ok; ok = it.SeekGE(seek) {
		if err := ctx.Err(); err != nil {
			return err
		}
		k := it.Key()
		if len(k) < eventKeyExtra {
			return fmt.Errorf("%w: %q is not an event's key", store.ErrCorrupt, k)
		}
		id := string(k[1 : len(k)-9])
		if !yield(id, nil) {
			return errStopped
		}
		seek = append(append(seek[:1], id...), 1)
	}
	if err := it.Error(); err != nil {
		return readError(err)
	}
	return nil
}

// pass calls each for the pairs in a range until it returns false, and stop if
// the range ends early for another reason.
func (s *Store) pass(ctx context.Context, lower, upper []byte, reverse bool, stop func(error), each func(k, v []byte) bool) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		stop(err)
		return
	}
	defer done()
	it, err := s.iterate(ctx, lower, upper)
	if err != nil {
		stop(readError(err))
		return
	}
	stopped, err := eachPair(ctx, it, reverse, each)
	if e := it.Close(); err == nil && e != nil {
		err = readError(e)
	}
	if err != nil && !stopped {
		stop(err)
	}
}

func eachPair(ctx context.Context, it *pdb.Iterator, reverse bool, each func(k, v []byte) bool) (stopped bool, err error) {
	start, next := it.First, it.Next
	if reverse {
		start, next = it.Last, it.Prev
	}
	ok := start()
	for ; ok; ok = next() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return false, readError(err)
		}
		if !each(it.Key(), v) {
			return true, nil
		}
	}
	if err := it.Error(); err != nil {
		return false, readError(err)
	}
	return false, nil
}
