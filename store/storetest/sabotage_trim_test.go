package storetest

import (
	"context"
	"errors"
	"iter"
	"slices"

	"agentd/store"
)

// goneSilently reads what is left of a session as if it were all.
func goneSilently(h *hooked, _ *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			if base, err := h.Store.Base(ctx, id); err == nil {
				r.After = max(r.After, base.Sequence)
			}
			for rec, err := range h.Store.Read(ctx, id, r) {
				if !errors.Is(err, store.ErrTrimmed) && !yield(rec, err) {
					return
				}
			}
		}
	}
}

// neverTrims acknowledges removals and does the rest of the batch.
func neverTrims(h *hooked, _ *brokenEngine) {
	h.append = edited(h.Store, func(b *store.Batch) { b.Trim = nil })
}

// trimsFirst removes records before it looks at the rest of the batch.
func trimsFirst(h *hooked, e *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		if t := b.Trim; t != nil {
			d := e.mem.first.data
			d.mu.Lock()
			s := d.session(b.SessionID)
			s.records = slices.DeleteFunc(slices.Clone(s.records), func(r store.Record) bool { return r.Sequence <= t.Through })
			s.base = &store.Snapshot{SessionID: b.SessionID, Sequence: t.Through, Hash: t.Hash, Data: t.Data}
			d.mu.Unlock()
		}
		c := *b
		c.Trim = nil
		return appendOne(ctx, h.Store, &c)
	})
}

// trimsByPrefix removes records of every session whose id begins with the id.
func trimsByPrefix(h *hooked, e *brokenEngine) {
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		err := appendOne(ctx, h.Store, b)
		if err != nil || b.Trim == nil {
			return err
		}
		d := e.mem.first.data
		d.mu.Lock()
		defer d.mu.Unlock()
		for id, s := range d.sessions {
			if len(id) > len(b.SessionID) && id[:len(b.SessionID)] == b.SessionID {
				s.records = s.records[min(len(s.records), int(b.Trim.Through)):]
			}
		}
		return nil
	})
}

// inventsBases has a base for every session.
func inventsBases(h *hooked, _ *brokenEngine) {
	h.base = func(ctx context.Context, id string) (store.Snapshot, error) {
		b, err := h.Store.Base(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return store.Snapshot{SessionID: id}, nil
		}
		return b, err
	}
}

// forgetsBases keeps a base in the memory of the store that wrote it.
func forgetsBases(h *hooked, e *brokenEngine) {
	if e.opened == 0 {
		return
	}
	h.base = func(context.Context, string) (store.Snapshot, error) { return store.Snapshot{}, store.ErrNotFound }
}

// keepsFirstBase never moves a base.
func keepsFirstBase(h *hooked, _ *brokenEngine) {
	kept := map[string]store.Snapshot{}
	h.base = func(ctx context.Context, id string) (store.Snapshot, error) {
		if b, ok := kept[id]; ok {
			return b, nil
		}
		return h.Store.Base(ctx, id)
	}
	h.append = func(ctx context.Context, batches []*store.Batch) []error {
		errs := h.Store.Append(ctx, batches)
		for i, b := range batches {
			if _, ok := kept[b.SessionID]; !ok && b.Trim != nil && errs[i] == nil {
				kept[b.SessionID], _ = h.Store.Base(ctx, b.SessionID)
			}
		}
		return errs
	}
}

// readsInPages reads ten records at a time and takes a page without records for the
// end, whatever was removed in the meantime.
func readsInPages(h *hooked, _ *brokenEngine) {
	h.read = func(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			page := r
			page.Limit = 10
			for begun := false; ; begun = true {
				got, err := drainSeq(h.Store.Read(ctx, id, page))
				for _, rec := range got {
					if !yield(rec, nil) {
						return
					}
					if page.After = rec.Sequence; r.Reverse {
						page.After, page.Before = r.After, rec.Sequence
					}
				}
				if err != nil && (!begun || !errors.Is(err, store.ErrTrimmed)) {
					yield(store.Record{}, err)
				}
				if err != nil || len(got) < page.Limit {
					return
				}
			}
		}
	}
}
