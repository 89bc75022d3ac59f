package server

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time. Most commands end long before, without
// ever waiting for something that could be given up: its timer is made when a caller
// asks for the channel.
type deadline struct {
	context.Context
	at time.Time

	mu     sync.Mutex
	ended  bool
	waited context.Context // made by Done
	cancel context.CancelFunc
}

// withDeadline returns a context that ends after a time, or when end is called.
func withDeadline(ctx context.Context, after time.Duration) *deadline {
	at := time.Now().Add(after)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(at) {
		at = sooner
	}
	return &deadline{Context: ctx, at: at}
}

// Deadline implements [context.Context].
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements [context.Context].
func (d *deadline) Done() <-chan struct{} { return d.wait().Done() }

// wait returns the context with a timer.
func (d *deadline) wait() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waited == nil {
		d.waited, d.cancel = context.WithDeadline(d.Context, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.waited
}

// AfterFunc spares contexts that are derived from this one a goroutine each;
// package context looks for it.
func (d *deadline) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(d.wait(), f) }

// Err implements [context.Context].
func (d *deadline) Err() error {
	d.mu.Lock()
	waited, ended := d.waited, d.ended
	d.mu.Unlock()
	switch {
	case waited != nil:
		return waited.Err()
	case ended:
		return context.Canceled
	case d.Context.Err() != nil:
		return d.Context.Err()
	case !time.Now().Before(d.at):
		// A caller that asks for the channel now finds it closed.
		return d.wait().Err()
	}
	return nil
}

// end gives up what still waits. It may be called once the context is no longer needed.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
