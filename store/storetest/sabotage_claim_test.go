package storetest

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	"agentd/store"
)

// ignoresEpochs writes with whatever epoch is the right one.
func ignoresEpochs(h *hooked, _ *brokenEngine) {
	var mu sync.Mutex
	newest := map[string]uint64{}
	h.claim = func(ctx context.Context, id string) (store.Claim, error) {
		c, err := h.Store.Claim(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		newest[id] = max(newest[id], c.Epoch)
		return c, err
	}
	h.release = func(context.Context, string, uint64) error { return nil }
	h.append = edited(h.Store, func(b *store.Batch) {
		mu.Lock()
		b.Epoch = newest[b.SessionID]
		mu.Unlock()
		if b.Epoch == 0 {
			c, _ := h.Claim(context.Background(), b.SessionID)
			b.Epoch = c.Epoch
		}
	})
}

// startsAtZero counts epochs from 0 and forgets the head of a claim.
func startsAtZero(h *hooked, _ *brokenEngine) {
	h.claim = func(ctx context.Context, id string) (store.Claim, error) {
		c, err := h.Store.Claim(ctx, id)
		return store.Claim{Epoch: c.Epoch - 1}, err
	}
	h.append = edited(h.Store, func(b *store.Batch) { b.Epoch++ })
}

// restartsEpochs counts epochs from 1 again when it is opened.
func restartsEpochs(h *hooked, _ *brokenEngine) {
	var mu sync.Mutex
	base := map[string]uint64{}
	h.claim = func(ctx context.Context, id string) (store.Claim, error) {
		c, err := h.Store.Claim(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		if _, ok := base[id]; !ok {
			base[id] = c.Epoch - 1
		}
		c.Epoch -= base[id]
		return c, err
	}
	h.append = edited(h.Store, func(b *store.Batch) {
		mu.Lock()
		defer mu.Unlock()
		b.Epoch += base[b.SessionID]
	})
}

// sharesClaims gives the claim that there is to who claims again.
func sharesClaims(h *hooked, _ *brokenEngine) {
	var mu sync.Mutex
	claims := map[string]store.Claim{}
	h.claim = func(ctx context.Context, id string) (store.Claim, error) {
		mu.Lock()
		defer mu.Unlock()
		if c, ok := claims[id]; ok {
			return c, nil
		}
		c, err := h.Store.Claim(ctx, id)
		claims[id] = c
		return c, err
	}
}

// claimsAll lets a claim of one session fence all others.
func claimsAll(h *hooked, _ *brokenEngine) {
	var mu sync.Mutex
	last := ""
	h.claim = func(ctx context.Context, id string) (store.Claim, error) {
		mu.Lock()
		defer mu.Unlock()
		last = id
		return h.Store.Claim(ctx, id)
	}
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if b.SessionID != last {
			return store.ErrFenced
		}
		return appendOne(ctx, h.Store, b)
	})
}

// releasesAnything takes every release for that of the newest claim.
func releasesAnything(h *hooked, e *brokenEngine) {
	h.release = func(_ context.Context, id string, _ uint64) error {
		e.mem.first.data.mu.Lock()
		defer e.mem.first.data.mu.Unlock()
		e.mem.first.data.session(id).owner = nil
		return nil
	}
}

// stealsSessions ignores that other nodes are alive.
func stealsSessions(h *hooked, e *brokenEngine) {
	h.claim = func(ctx context.Context, id string) (store.Claim, error) {
		e.mem.first.data.mu.Lock()
		e.mem.first.data.session(id).owner = nil
		e.mem.first.data.mu.Unlock()
		return h.Store.Claim(ctx, id)
	}
}

// remembersHeads answers from what it saw first.
func remembersHeads(h *hooked, _ *brokenEngine) {
	var mu sync.Mutex
	heads := map[string]store.Head{}
	h.head = func(ctx context.Context, id string) (store.Head, error) {
		mu.Lock()
		defer mu.Unlock()
		if head, ok := heads[id]; ok {
			return head, nil
		}
		head, err := h.Store.Head(ctx, id)
		heads[id] = head
		return head, err
	}
}

// forgetsAll opens new data each time.
func forgetsAll(h *hooked, _ *brokenEngine) { *h = *newHooked(NewMem()) }

// forgetsLast loses the last record when it is closed.
func forgetsLast(h *hooked, e *brokenEngine) {
	var mu sync.Mutex
	last := ""
	h.append = appendEach(func(ctx context.Context, b *store.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		last = b.SessionID
		return appendOne(ctx, h.Store, b)
	})
	h.close = func() error {
		mu.Lock()
		defer mu.Unlock()
		e.mem.first.data.mu.Lock()
		if s := e.mem.first.data.session(last); len(s.records) > 0 {
			s.records = s.records[:len(s.records)-1]
		}
		e.mem.first.data.mu.Unlock()
		last = ""
		return h.Store.Close()
	}
}

// replacesMeta lets the last meta value win, and says nothing of itself.
func replacesMeta(h *hooked, _ *brokenEngine) {
	h.setMeta = func(_ context.Context, _ string, value []byte) ([]byte, error) { return value, nil }
	h.meta = func(context.Context) (store.Meta, error) { return store.Meta{}, nil }
}

// staysOpen ignores Close.
func staysOpen(h *hooked, _ *brokenEngine) {
	h.close = func() error { return nil }
	h.follow = func(context.Context) iter.Seq2[store.Appended, error] {
		return func(func(store.Appended, error) bool) {}
	}
}

// ignoresContext goes on whatever the context says.
func ignoresContext(h *hooked, _ *brokenEngine) {
	h.claim = func(_ context.Context, id string) (store.Claim, error) {
		return h.Store.Claim(context.Background(), id)
	}
	h.putBlob = func(_ context.Context, r io.Reader) (store.BlobInfo, error) {
		return h.Store.PutBlob(context.Background(), r)
	}
}

// followsBadly drops the hints of one session, and ends with an error of its own
// when the rest of what the check appends was seen.
func followsBadly(h *hooked, _ *brokenEngine) {
	h.follow = func(ctx context.Context) iter.Seq2[store.Appended, error] {
		return func(yield func(store.Appended, error) bool) {
			for a, err := range h.Store.Follow(ctx) {
				if a.SessionID != "s3" && !yield(a, err) {
					return
				}
				if a.SessionID == "s4" && a.Sequence == 2*followRounds {
					break
				}
			}
			yield(store.Appended{}, errors.New("the end"))
		}
	}
}

// followsInPart says that a hint stands for its last record alone.
func followsInPart(h *hooked, _ *brokenEngine) {
	h.follow = func(ctx context.Context) iter.Seq2[store.Appended, error] {
		return func(yield func(store.Appended, error) bool) {
			for a, err := range h.Store.Follow(ctx) {
				a.First = a.Sequence
				if !yield(a, err) {
					return
				}
			}
		}
	}
}
