package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"agentd/store"
)

func trimChecks() []check {
	return []check{
		{"a session that was never trimmed has no base", trimNoBase},
		{"what was removed is told, what is left is read", trimRanges},
		{"in one batch with its last record's successor", trimAll},
		{"again, further on", trimAgain},
		{"twice in one call", trimTwice},
		{"other sessions are left alone", trimNeighbours},
		{"what can't be removed is refused and leaves nothing", trimRefused},
		{"a batch that fails removes nothing", trimAtomic},
		{"readers beside it see all, or that something is gone", trimReaders},
		{"another node sees it", trimNode},
	}
}

// trimOf returns the removal of records through the last of those given.
func trimOf(records []store.Record) *store.Trim {
	head := HeadOf(records)
	return &store.Trim{Through: head.Sequence, Hash: head.Hash, Data: fmt.Appendf(nil, "folded to %d", head.Sequence)}
}

// trim removes records and fails the check if it can't.
func (k *kit) trim(id string, records []store.Record) *store.Trim {
	k.Helper()
	t := trimOf(records)
	k.mustAppend(&store.Batch{SessionID: id, Epoch: k.claim(id).Epoch, Trim: t})
	return t
}

// baseIs checks what stands for the beginning; a nil want means that nothing does.
func (k *kit) baseIs(id string, want *store.Trim) {
	k.Helper()
	got, err := k.s.Base(k.ctx, id)
	if want == nil {
		if !errors.Is(err, store.ErrNotFound) {
			k.Errorf("Base(%s) = %s, %v, want ErrNotFound", shortID(id), snapshotText(got), err)
		}
		return
	}
	if err != nil || got.SessionID != id || got.Sequence != want.Through || got.Hash != want.Hash || !bytes.Equal(got.Data, want.Data) {
		k.Errorf("Base(%s) = %s, %v, want %d %.4x %s", shortID(id), snapshotText(got), err, want.Through, want.Hash, quoteBytes(want.Data))
	}
}

// trimmed fails unless a session consists of these records after its base.
func (k *kit) trimmed(id string, base *store.Trim, left []store.Record) {
	k.Helper()
	k.baseIs(id, base)
	k.headIs(id, HeadOf(left))
	if d := diffRecords(k.read(id, store.Range{After: base.Through}), left); d != "" {
		k.Errorf("session %s after its base: %s", shortID(id), d)
	}
}

func trimNoBase(k *kit) {
	k.grow("s", 3, 100)
	k.claim("claimed")
	for _, id := range []string{"s", "claimed", "absent"} {
		k.baseIs(id, nil)
	}
}

// wantTrimmed is the reference for reads of a session without its beginning.
func wantTrimmed(left []store.Record, base uint64, r store.Range) (list []store.Record, gone bool) {
	list = inRange(left, r)
	switch {
	case r.After >= base || (r.Before != 0 && r.Before <= r.After+1):
		return list, false
	case !r.Reverse:
		return nil, true
	}
	return list, r.Limit == 0 || len(list) < r.Limit
}

func trimRanges(k *kit) {
	all := k.grow("s", 10, 100)
	base := k.trim("s", all[:4])
	for range 2 {
		k.trimmed("s", base, all[4:])
		for _, after := range []uint64{0, 1, 3, 4, 5, 10, 11} {
			for _, before := range []uint64{0, 1, 3, 4, 5, 6, 7, 11, 20} {
				for _, limit := range []int{0, 1, 3, 6, 10} {
					for _, reverse := range []bool{false, true} {
						k.readIs("s", base.Through, all[4:], store.Range{After: after, Before: before, Limit: limit, Reverse: reverse})
					}
				}
			}
		}
		k.reopen()
	}
}

// readIs checks one read of a trimmed session against the reference.
func (k *kit) readIs(id string, base uint64, left []store.Record, r store.Range) {
	k.Helper()
	want, gone := wantTrimmed(left, base, r)
	got, err := drainSeq(k.s.Read(k.ctx, id, r))
	if d := diffRecords(got, want); d != "" {
		k.Errorf("Read(%+v): %s", r, d)
	}
	var removed *store.TrimmedError
	switch {
	case !gone && err != nil:
		k.Errorf("Read(%+v): %v", r, err)
	case gone && (!errors.As(err, &removed) || !errors.Is(err, store.ErrTrimmed) || errors.Is(err, store.ErrCorrupt)):
		k.Errorf("Read(%+v): got error %v, want a *TrimmedError", r, err)
	case gone && (removed.SessionID != id || removed.Through != base):
		k.Errorf("Read(%+v): the error is %+v, want session %s through %d", r, removed, id, base)
	}
}

// trimAll removes everything, in the batch that appends what is left: the session
// goes on, and is still listed.
func trimAll(k *kit) {
	all := k.grow("s", 5, 100)
	c := k.claim("s")
	next := Continue("s", c.Head, 1, 100)
	base := trimOf(all)
	k.mustAppend(&store.Batch{
		SessionID: "s", Epoch: c.Epoch, Trim: base, Records: next,
		Snapshots: []store.Snapshot{{SessionID: "s", Name: "n", Sequence: 6, Hash: next[0].Hash, Data: []byte("state")}},
		Index:     []store.IndexOp{putOp("kind", "key", "value")},
	})
	for range 2 {
		k.trimmed("s", base, next)
		k.snapshotIs("s", "n", &store.Snapshot{SessionID: "s", Name: "n", Sequence: 6, Hash: next[0].Hash, Data: []byte("state")})
		k.value("kind", "key", []byte("value"))
		if ids := k.sessionsAfter(""); len(ids) != 1 || ids[0] != "s" {
			k.Errorf("Sessions: %v", ids)
		}
		k.reopen()
	}
	more := k.grow("s", 2, 100)
	k.trimmed("s", base, append(next, more...))
}

func trimAgain(k *kit) {
	all := k.grow("s", 9, 100)
	k.trim("s", all[:2])
	base := k.trim("s", all[:7])
	k.trimmed("s", base, all[7:])
	k.reopen()
	k.trimmed("s", base, all[7:])
	more := k.grow("s", 3, 100)
	k.trimmed("s", base, append(all[7:], more...))
}

// trimTwice removes twice in one call: what the first removal took, the second can't
// name any more.
func trimTwice(k *kit) {
	all, c := k.grow("s", 6, 100), k.claim("s")
	batch := func(through int) *store.Batch {
		return &store.Batch{SessionID: "s", Epoch: c.Epoch, Trim: trimOf(all[:through])}
	}
	errs := k.s.Append(k.ctx, []*store.Batch{batch(2), batch(4), batch(3)})
	if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], store.ErrConflict) {
		k.Errorf("removed through 2, 4 and 3: %v", errs)
	}
	for range 2 {
		k.trimmed("s", trimOf(all[:4]), all[4:])
		k.reopen()
	}
}

func trimNeighbours(k *kit) {
	all := map[string][]store.Record{}
	for _, id := range []string{"a", "aa", "b", "s", "s.", "s1", "sa", "t"} {
		all[id] = k.grow(id, 5, 100)
	}
	base := k.trim("s", all["s"][:4])
	k.reopen()
	k.trimmed("s", base, all["s"][4:])
	delete(all, "s")
	for id, records := range all {
		k.requireRecords(id, records)
		k.baseIs(id, nil)
	}
}

func trimRefused(k *kit) {
	all := k.grow("s", 6, 100)
	base := k.trim("s", all[:2])
	c := k.claim("s")
	other := trimOf(all[:3])
	other.Hash = all[3].Hash
	for what, t := range map[string]*store.Trim{
		"with another hash": other, "through the last record": trimOf(all), "what was removed before": trimOf(all[:1]),
		"through the base": trimOf(all[:2]), "past the end": {Through: 9, Hash: all[5].Hash}, "nothing": {},
	} {
		k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Trim: t, Index: []store.IndexOp{putOp("kind", what, "x")}}, store.ErrConflict)
		k.value("kind", what, nil)
	}
	k.refuse(&store.Batch{SessionID: "absent", Epoch: k.claim("absent").Epoch, Trim: trimOf(all[:1])}, store.ErrConflict)
	k.trimmed("s", base, all[2:])
	k.reopen()
	k.trimmed("s", base, all[2:])
}

func trimAtomic(k *kit) {
	all := k.grow("s", 6, 100)
	stale := k.claim("s")
	c := k.claim("s")
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: c.Epoch, Index: []store.IndexOp{putOp("kind", "taken", "t")}})
	k.refuse(&store.Batch{SessionID: "s", Epoch: stale.Epoch, Trim: trimOf(all[:3])}, store.ErrFenced)
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Trim: trimOf(all[:3]), Records: Continue("s", store.Head{Sequence: 9}, 1, 100)}, store.ErrConflict)
	k.refuse(&store.Batch{SessionID: "s", Epoch: c.Epoch, Trim: trimOf(all[:3]), Index: []store.IndexOp{putNew("kind", "taken", "x")}}, store.ErrExists)
	k.requireRecords("s", all)
	k.baseIs("s", nil)
	k.reopen()
	k.requireRecords("s", all)
}

// trimReaders reads a session again and again while its beginning goes bit by bit:
// a read is whole from where it began, or says what is gone.
func trimReaders(k *kit) {
	const n, step, readers = 600, 20, 3
	all := k.grow("s", n, 200)
	c := k.claim("s")
	done := make(chan struct{})
	errs := make([]error, readers+1)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for at := step; at < n && errs[readers] == nil; at += step {
			errs[readers] = k.s.Append(k.ctx, []*store.Batch{{SessionID: "s", Epoch: c.Epoch, Trim: trimOf(all[:at])}})[0]
		}
	})
	for i := range readers {
		wg.Go(func() {
			for finished := false; !finished && errs[i] == nil; {
				select {
				case <-done:
					finished = true
				default:
				}
				errs[i] = readWholeOrGone(k.ctx, k.s, all, i%2 == 1)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("%v", err)
	}
	k.trimmed("s", trimOf(all[:n-step]), all[n-step:])
}

func readWholeOrGone(ctx context.Context, s store.Store, all []store.Record, reverse bool) error {
	got, err := drainSeq(s.Read(ctx, "s", store.Range{Reverse: reverse}))
	var removed *store.TrimmedError
	if err != nil && !errors.As(err, &removed) {
		return fmt.Errorf("read: %w", err)
	}
	for i, r := range got {
		want := all[i]
		if reverse {
			want = all[len(all)-1-i]
		}
		if r.Sequence != want.Sequence || !bytes.Equal(r.Data, want.Data) {
			return fmt.Errorf("a read has record %d at place %d (reverse: %v)", r.Sequence, i, reverse)
		}
	}
	if err == nil && len(got) != len(all) {
		return fmt.Errorf("a read of %d records ended after %d without a word (reverse: %v)", len(all), len(got), reverse)
	}
	return nil
}

func trimNode(k *kit) {
	b := k.on(k.other())
	all := k.grow("s", 6, 100)
	base := k.trim("s", all[:4])
	b.trimmed("s", base, all[4:])
	b.readIs("s", base.Through, all[4:], store.Range{})
}
