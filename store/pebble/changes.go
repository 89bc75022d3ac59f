package pebble

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// changeHeader is what stands before the session in a change: its format, and the
// sequences of its first and last record.
const changeHeader = 1 + 8 + 8

func changeKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyChange}, number)
}

// putChange adds a batch's records to the changes. The commit lock is held, so that
// numbers are given in the order in which batches become durable.
func (s *Store) putChange(b *pdb.Batch, in *store.Batch) {
	if len(in.Records) == 0 {
		return
	}
	s.changes++
	op := b.SetDeferred(1+8, changeHeader+len(in.SessionID))
	op.Key[0] = keyChange
	binary.BigEndian.PutUint64(op.Key[1:], s.changes)
	op.Value[0] = valueFormat
	binary.BigEndian.PutUint64(op.Value[1:], in.Records[0].Sequence)
	binary.BigEndian.PutUint64(op.Value[9:], in.Records[len(in.Records)-1].Sequence)
	copy(op.Value[changeHeader:], in.SessionID)
	// Finish fails only for batches with an index.
	_ = op.Finish()
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
		from, err := strconv.ParseUint(after, 10, 64)
		if err != nil || from == 1<<64-1 {
			yield(store.Change{}, fmt.Errorf("%w: %q", store.ErrPosition, after))
			return
		}
		stop := func(err error) { yield(store.Change{}, fmt.Errorf("pebble: changes: %w", err)) }
		s.pass(ctx, changeKey(from+1), []byte{keyChange + 1}, false, stop, func(k, v []byte) bool {
			c, err := parseChange(eventSeq(k), v)
			return yield(c, err) && err == nil
		})
	}
}

func parseChange(number uint64, v []byte) (store.Change, error) {
	if len(v) < changeHeader || v[0] != valueFormat {
		return store.Change{}, fmt.Errorf("pebble: change %d: %w: the value has no valid header", number, store.ErrCorrupt)
	}
	return store.Change{
		SessionID: string(v[changeHeader:]),
		First:     binary.BigEndian.Uint64(v[1:]), Last: binary.BigEndian.Uint64(v[9:]),
		Position: strconv.FormatUint(number, 10),
	}, nil
}
