package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"

	"agentd/store"
)

// appendOne appends a single batch.
func appendOne(ctx context.Context, s store.Store, b *store.Batch) error {
	return s.Append(ctx, []*store.Batch{b})[0]
}

// appendEach turns a function for one batch into one for a call.
func appendEach(do func(ctx context.Context, b *store.Batch) error) func(context.Context, []*store.Batch) []error {
	return func(ctx context.Context, batches []*store.Batch) []error {
		errs := make([]error, len(batches))
		for i, b := range batches {
			errs[i] = do(ctx, b)
		}
		return errs
	}
}

// edited makes a store append copies of batches that edit has changed.
func edited(s store.Store, edit func(b *store.Batch)) func(context.Context, []*store.Batch) []error {
	return func(ctx context.Context, batches []*store.Batch) []error {
		copies := make([]*store.Batch, len(batches))
		for i, b := range batches {
			c := *b
			c.Index = slices.Clone(b.Index)
			edit(&c)
			copies[i] = &c
		}
		return s.Append(ctx, copies)
	}
}

// losesWrites acknowledges every n-th call without doing it.
func losesWrites(n int) func(h *hooked, _ *brokenEngine) {
	return func(h *hooked, _ *brokenEngine) {
		var mu sync.Mutex
		calls := 0
		h.append = func(ctx context.Context, batches []*store.Batch) []error {
			mu.Lock()
			calls++
			lose := calls%n == 0
			mu.Unlock()
			if lose {
				return make([]error, len(batches))
			}
			return h.Store.Append(ctx, batches)
		}
	}
}

// acknowledgesEarly does a call when the next one comes.
func acknowledgesEarly(h *hooked, _ *brokenEngine) {
	var mu sync.Mutex
	var pending []*store.Batch
	h.append = func(ctx context.Context, batches []*store.Batch) []error {
		mu.Lock()
		defer mu.Unlock()
		h.Store.Append(ctx, pending)
		pending = batches
		return make([]error, len(batches))
	}
}

// ignoresHead numbers records as they come.
func ignoresHead(h *hooked, _ *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		c := *b
		c.Records = slices.Clone(b.Records)
		for {
			head, err := h.Store.Head(ctx, b.SessionID)
			if err != nil {
				return err
			}
			for i := range c.Records {
				c.Records[i].Sequence = head.Sequence + 1 + uint64(i)
			}
			if err = appendOne(ctx, h.Store, &c); !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
	})
}

// tearsBatches writes what belongs to a batch before its records and whatever
// becomes of them, and the records one by one.
func tearsBatches(h *hooked, e *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		e.mem.first.data.mu.Lock()
		s := e.mem.first.data.session(b.SessionID)
		epoch, owner := s.epoch, s.owner
		e.mem.first.data.mu.Unlock()
		if owner == nil {
			return store.ErrFenced
		}
		rest := &store.Batch{SessionID: b.SessionID, Epoch: epoch, Snapshots: b.Snapshots, Index: b.Index, Blobs: b.Blobs}
		edited(owner, forgetIfAbsent)(ctx, []*store.Batch{rest})
		for _, op := range b.Index {
			if op.IfAbsent && op.Key == "taken" {
				return store.ErrExists
			}
		}
		for _, r := range b.Records {
			if err := appendOne(ctx, h.Store, &store.Batch{SessionID: b.SessionID, Epoch: b.Epoch, Records: []store.Record{r}}); err != nil {
				return err
			}
			runtime.Gosched()
		}
		return nil
	})
}

func forgetIfAbsent(b *store.Batch) {
	for i := range b.Index {
		b.Index[i].IfAbsent = false
	}
}

// ignoresIfAbsent replaces what should be absent.
func ignoresIfAbsent(h *hooked, _ *brokenEngine) { h.append = edited(h.Store, forgetIfAbsent) }

// believesFresh fails for an entry that is said to be fresh and is there.
func believesFresh(h *hooked, _ *brokenEngine) {
	h.append = edited(h.Store, func(b *store.Batch) {
		for i, op := range b.Index {
			b.Index[i].IfAbsent = op.IfAbsent || op.Fresh
		}
	})
}

// judgesTogether looks for absent keys in the state before the call only.
func judgesTogether(h *hooked, _ *brokenEngine) {
	h.append = func(ctx context.Context, batches []*store.Batch) []error {
		errs := make([]error, len(batches))
		for i, b := range batches {
			for _, op := range b.Index {
				if _, err := h.Store.Get(ctx, op.Kind, op.Key); op.IfAbsent && err == nil {
					errs[i] = store.ErrExists
				}
			}
		}
		for i := range batches {
			if errs[i] == nil {
				errs[i] = edited(h.Store, forgetIfAbsent)(ctx, batches[i:i+1])[0]
			}
		}
		return errs
	}
}

// stopsAtFailure refuses all batches after the first that fails.
func stopsAtFailure(h *hooked, _ *brokenEngine) {
	h.append = func(ctx context.Context, batches []*store.Batch) []error {
		errs := make([]error, len(batches))
		for i, b := range batches {
			if i > 0 && errs[i-1] != nil {
				errs[i] = store.ErrConflict
				continue
			}
			errs[i] = appendOne(ctx, h.Store, b)
		}
		return errs
	}
}

// goesOnAfterFailure judges each batch as if the call had no other.
func goesOnAfterFailure(h *hooked, _ *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error { return appendOne(ctx, h.Store, b) })
}

// anyError calls every refusal a conflict.
func anyError(h *hooked, _ *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		if err := appendOne(ctx, h.Store, b); err != nil {
			return store.ErrConflict
		}
		return nil
	})
}

// refusesEmpty takes no batch without records.
func refusesEmpty(h *hooked, _ *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		if len(b.Records) == 0 {
			return store.ErrConflict
		}
		return appendOne(ctx, h.Store, b)
	})
}

// takesFew acknowledges all batches of a call but does only the first hundred.
func takesFew(h *hooked, _ *brokenEngine) {
	h.append = func(ctx context.Context, batches []*store.Batch) []error {
		errs := make([]error, len(batches))
		copy(errs, h.Store.Append(ctx, batches[:min(100, len(batches))]))
		return errs
	}
}

// undoesBlobs deletes the blobs of a batch that failed, whoever put them.
func undoesBlobs(h *hooked, _ *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		err := appendOne(ctx, h.Store, b)
		if err == nil {
			return nil
		}
		for _, content := range b.Blobs {
			err = errors.Join(err, h.Store.DeleteBlob(ctx, refOf(content)))
		}
		return err
	})
}

// dropsBatchBlobs forgets the blobs of batches.
func dropsBatchBlobs(h *hooked, _ *brokenEngine) {
	h.append = edited(h.Store, func(b *store.Batch) { b.Blobs = nil })
}

// sortsOps applies a batch's operations in the order of their keys, puts before
// deletes.
func sortsOps(h *hooked, _ *brokenEngine) {
	h.append = edited(h.Store, func(b *store.Batch) {
		slices.SortStableFunc(b.Index, func(x, y store.IndexOp) int {
			switch {
			case x.Delete == y.Delete:
				return strings.Compare(x.Key, y.Key)
			case y.Delete:
				return -1
			}
			return 1
		})
	})
}

// cleansKeys keeps keys as text.
func cleansKeys(h *hooked, _ *brokenEngine) {
	h.append = edited(h.Store, func(b *store.Batch) {
		for i := range b.Index {
			b.Index[i].Key = strings.ToValidUTF8(b.Index[i].Key, "?")
		}
	})
}

// commitsAnyway does a call whose context has ended, and says that it didn't.
func commitsAnyway(h *hooked, _ *brokenEngine) {
	h.append = func(ctx context.Context, batches []*store.Batch) []error {
		errs := h.Store.Append(context.WithoutCancel(ctx), batches)
		if err := ctx.Err(); err != nil {
			for i := range errs {
				errs[i] = err
			}
		}
		return errs
	}
}

// keepsFirst never replaces a value, and deletes nothing.
func keepsFirst(h *hooked, _ *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		c := *b
		c.Index, c.Snapshots = nil, nil
		for _, op := range b.Index {
			if _, err := h.Store.Get(ctx, op.Kind, op.Key); err != nil && !op.Delete || op.IfAbsent {
				c.Index = append(c.Index, op)
			}
		}
		for _, s := range b.Snapshots {
			if _, err := h.Store.Snapshot(ctx, s.SessionID, s.Name); err != nil {
				c.Snapshots = append(c.Snapshots, s)
			}
		}
		return appendOne(ctx, h.Store, &c)
	})
	h.deleteBlob = func(context.Context, string) error { return nil }
}
