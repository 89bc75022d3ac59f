package pebble

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// Changes are numbered from 1 on, in the order in which they become durable. Those of
// one commit share an entry, whose key is the number of the last of them.
const (
	// oneChange is the format in which version 1 wrote each change by itself: its first
	// and last sequence, then the session.
	oneChange = 1
	// manyChanges is followed by their count, and for each by its first sequence, how
	// many records follow that, the length of the session's id, and the id.
	manyChanges = 2

	oneChangeHeader = 1 + 8 + 8
)

func changeKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyChange}, number)
}

// stageChange adds a batch's records to the changes of the commit that is staged.
func (s *Store) stageChange(in *store.Batch) {
	n := len(in.Records)
	s.staged.count++
	s.staged.list = binary.AppendUvarint(s.staged.list, in.Records[0].Sequence)
	s.staged.list = binary.AppendUvarint(s.staged.list, uint64(n-1))
	s.staged.list = binary.AppendUvarint(s.staged.list, uint64(len(in.SessionID)))
	s.staged.list = append(s.staged.list, in.SessionID...)
}

// putChanges writes the changes that were staged. The commit lock is held, so that
// numbers are given in the order in which commits become durable.
func (s *Store) putChanges(b *pdb.Batch) error {
	if s.staged.count == 0 {
		return nil
	}
	s.changes += s.staged.count
	value := binary.AppendUvarint([]byte{manyChanges}, s.staged.count)
	value = append(value, s.staged.list...)
	s.staged.count, s.staged.list = 0, s.staged.list[:0]
	return b.Set(changeKey(s.changes), value, nil)
}

// countChanges finds the number of the last change.
func (s *Store) countChanges() error {
	last, err := lastChange(s.db)
	s.changes = last
	return err
}

func lastChange(r pdb.Reader) (uint64, error) {
	it, err := r.NewIter(&pdb.IterOptions{LowerBound: []byte{keyChange}, UpperBound: []byte{keyChange + 1}})
	if err != nil {
		return 0, readError(err)
	}
	var last uint64
	if it.Last() {
		last = eventSeq(it.Key())
	}
	if err := it.Close(); err != nil { // also what the read failed on
		return 0, readError(err)
	}
	return last, nil
}

// Position returns the number of the last durable change.
func (s *Store) Position(ctx context.Context) (string, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	s.view.RLock()
	defer s.view.RUnlock()
	last, err := lastChange(s.snap)
	if err != nil {
		return "", fmt.Errorf("pebble: the last change: %w", err)
	}
	return strconv.FormatUint(last, 10), nil
}

// Changes yields what was written to all sessions after a position.
func (s *Store) Changes(ctx context.Context, after string) iter.Seq2[store.Change, error] {
	return func(yield func(store.Change, error) bool) {
		from, err := strconv.ParseUint(cmp.Or(after, "0"), 10, 64)
		if err != nil || from == 1<<64-1 {
			yield(store.Change{}, fmt.Errorf("%w: %q", store.ErrPosition, after))
			return
		}
		stop := func(err error) { yield(store.Change{}, fmt.Errorf("pebble: changes: %w", err)) }
		s.pass(ctx, changeKey(from+1), []byte{keyChange + 1}, false, stop, func(k, v []byte) bool {
			return eachChange(eventSeq(k), v, from, yield)
		})
	}
}

// eachChange yields the changes of an entry that come after a number.
func eachChange(last uint64, v []byte, after uint64, yield func(store.Change, error) bool) bool {
	corrupt := func() bool {
		yield(store.Change{}, fmt.Errorf("pebble: changes through %d: %w: the value is damaged", last, store.ErrCorrupt))
		return false
	}
	if len(v) >= oneChangeHeader && v[0] == oneChange {
		return yield(store.Change{
			SessionID: string(v[oneChangeHeader:]),
			First:     binary.BigEndian.Uint64(v[1:]), Last: binary.BigEndian.Uint64(v[9:]),
			Position: strconv.FormatUint(last, 10),
		}, nil)
	}
	if len(v) == 0 || v[0] != manyChanges {
		return corrupt()
	}
	rest := v[1:]
	next := func() (n uint64, ok bool) {
		n, size := binary.Uvarint(rest)
		rest = rest[max(size, 0):]
		return n, size > 0
	}
	count, ok := next()
	if !ok || count > last || count > uint64(len(rest)) {
		return corrupt()
	}
	for number := last - count + 1; number <= last; number++ {
		first, ok1 := next()
		more, ok2 := next()
		size, ok3 := next()
		if !ok1 || !ok2 || !ok3 || size > uint64(len(rest)) {
			return corrupt()
		}
		id := rest[:size]
		rest = rest[size:]
		if number <= after {
			continue
		}
		if !yield(store.Change{SessionID: string(id), First: first, Last: first + more, Position: strconv.FormatUint(number, 10)}, nil) {
			return false
		}
	}
	if len(rest) > 0 {
		return corrupt()
	}
	return true
}
