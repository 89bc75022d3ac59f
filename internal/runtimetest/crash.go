package runtimetest

import (
	"context"
	"fmt"
	"io"
	"sync"

	"agentd"
	"agentd/index"
	"agentd/store"
)

// DyingStore is a store whose process dies at a write.
type DyingStore struct {
	store.Store
	// after says that the write in which it dies is durable.
	after bool

	mu   sync.Mutex
	left int // writes that are taken; negative is no limit
	// Died is closed at its death.
	Died chan struct{}
	dead bool
}

// NewDyingStore returns a store that takes so many writes, all if left is negative, and dies
// at the next one. That one is durable if after is set.
func NewDyingStore(s store.Store, left int, after bool) *DyingStore {
	return &DyingStore{Store: s, left: left, after: after, Died: make(chan struct{})}
}

// DieAfterNext has the store take one more write, whose caller doesn't hear of it.
func (d *DyingStore) DieAfterNext() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.after = 0, true
}

// Die has the store take nothing more.
func (d *DyingStore) Die() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// Written returns the number of the next write of a store that began without a limit.
func (d *DyingStore) Written() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return -d.left
}

var errDied = fmt.Errorf("%w: the process died", store.ErrFailed)

// takes reports whether a write is done, and whether its caller hears of it.
func (d *DyingStore) takes() (done, heard bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead:
		return false, false
	case d.left != 0:
		d.left--
		return true, true
	}
	d.dead = true
	close(d.Died)
	return d.after, false
}

// Append implements [store.Store].
func (d *DyingStore) Append(ctx context.Context, batches []*store.Batch) []error {
	if len(batches) == 1 && batches[0].SessionID == index.ClaimedSession {
		// What is derived from facts is written whenever there is time: it doesn't count.
		if err := d.alive(); err != nil {
			return []error{err}
		}
		return d.Store.Append(ctx, batches)
	}
	done, heard := d.takes()
	var errs []error
	if done {
		errs = d.Store.Append(ctx, batches)
	}
	if heard {
		return errs
	}
	errs = make([]error, len(batches))
	for i := range errs {
		errs[i] = errDied
	}
	return errs
}

func (d *DyingStore) alive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errDied
	}
	return nil
}

// Claim implements [store.Store].
func (d *DyingStore) Claim(ctx context.Context, id string) (store.Claim, error) {
	if err := d.alive(); err != nil {
		return store.Claim{}, err
	}
	return d.Store.Claim(ctx, id)
}

// PutBlob implements [store.Store].
func (d *DyingStore) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	if err := d.alive(); err != nil {
		return store.BlobInfo{}, err
	}
	return d.Store.PutBlob(ctx, r)
}

// OnDyingStore has a runtime work on a store that can die.
func OnDyingStore(d *DyingStore) func(*agentd.Options) {
	return func(o *agentd.Options) {
		*d = DyingStore{Store: o.Store, left: -1, Died: make(chan struct{})}
		o.Store = d
	}
}

// Crash ends a runtime without its being able to write anything more.
func (k *Kit) Crash(d *DyingStore) {
	k.Helper()
	d.Die()
	gone, cancel := context.WithCancel(context.Background())
	cancel() // nothing waits for a step that was under way
	if err := k.Runtime.Close(gone); err == nil {
		k.Log("closing wrote nothing")
	}
}

// ContextOf is a context that ends with a channel.
func ContextOf(ch <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-ch
		cancel()
	}()
	return ctx
}
