package storetest

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync/atomic"

	"agentd/store"
)

// changedChanges edits the changes that a store yields; those for which it is false are
// left out.
func changedChanges(edit func(*store.Change) bool) func(*hooked, *brokenEngine) {
	return func(h *hooked, _ *brokenEngine) {
		h.changes = func(ctx context.Context, after string) iter.Seq2[store.Change, error] {
			return func(yield func(store.Change, error) bool) {
				for c, err := range h.Store.Changes(ctx, after) {
					if (err != nil || edit(&c)) && !yield(c, err) {
						return
					}
				}
			}
		}
	}
}

// losesChanges leaves out every hundredth change.
func losesChanges(h *hooked, e *brokenEngine) {
	var n atomic.Int64
	changedChanges(func(*store.Change) bool { return n.Add(1)%100 != 0 })(h, e)
}

// countsForEachReader gives positions that say how many changes one read yielded.
func countsForEachReader(h *hooked, _ *brokenEngine) {
	h.changes = func(ctx context.Context, after string) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			n := 0
			for c, err := range h.Store.Changes(ctx, after) {
				n++
				c.Position = strconv.Itoa(n)
				if !yield(c, err) {
					return
				}
			}
		}
	}
}

// tellsOfFailures tells of each batch, whatever became of it.
func tellsOfFailures(h *hooked, e *brokenEngine) {
	d := e.mem.first.data
	h.append = func(ctx context.Context, batches []*store.Batch) []error {
		errs := h.Store.Append(ctx, batches)
		d.mu.Lock()
		defer d.mu.Unlock()
		for i, b := range batches {
			if errs[i] != nil && len(b.Records) > 0 {
				d.noteChange(b)
			}
		}
		return errs
	}
}

// forgetsChanges has no changes of the store before a reopen.
func forgetsChanges(h *hooked, e *brokenEngine) {
	d := e.mem.first.data
	h.close = func() error {
		d.mu.Lock()
		d.changes = nil
		d.mu.Unlock()
		return h.Store.Close()
	}
}

// trimsChanges removes changes with their records.
func trimsChanges(h *hooked, e *brokenEngine) {
	d := e.mem.first.data
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		err := appendOne(ctx, h.Store, b)
		if err == nil && b.Trim != nil {
			d.mu.Lock()
			d.changes = nil
			d.mu.Unlock()
		}
		return err
	})
}

// positionsLag returns a position from before the last write.
func positionsLag(h *hooked, _ *brokenEngine) {
	h.position = func(ctx context.Context) (string, error) {
		p, err := h.Store.Position(ctx)
		if n, e := strconv.Atoi(p); e == nil && n > 0 {
			p = strconv.Itoa(n - 1)
		}
		return p, err
	}
}

// takesAnyPosition begins at the start for what it can't read.
func takesAnyPosition(h *hooked, _ *brokenEngine) {
	h.changes = func(ctx context.Context, after string) iter.Seq2[store.Change, error] {
		return func(yield func(store.Change, error) bool) {
			_, err := drainSeq(h.Store.Changes(ctx, after))
			if errors.Is(err, store.ErrPosition) {
				after = "0"
			}
			h.Store.Changes(ctx, after)(yield)
		}
	}
}
