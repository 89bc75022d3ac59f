package loop_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
)

// closedShelf is a store whose contents can't be opened so many times.
type closedShelf struct {
	store.Store
	times atomic.Int64
	err   error
}

func (c *closedShelf) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	if c.times.Add(-1) >= 0 {
		return nil, c.err
	}
	return c.Store.OpenBlob(ctx, ref)
}

// TestATurnWaitsForContentsThatAreOutOfReach: a turn whose conversation can't be read for a
// moment, because the database or the bucket is away, goes on when it can; it doesn't fail.
func TestATurnWaitsForContentsThatAreOutOfReach(t *testing.T) {
	for _, away := range []error{store.ErrUnavailable, store.ErrFull, store.ErrAway} {
		c := &closedShelf{err: away}
		over := func(o *agentd.Options) { c.Store, o.Store = o.Store, c }
		k := runtimetest.NewWith(t, over, script.Answer{Text: "one"}, script.Answer{Text: "two"})
		k.Completes(k.Submit("sess_a", strings.Repeat("a long question ", 10_000)))
		k.Close()
		k.Open() // it has nothing in memory
		c.times.Store(2)
		k.Completes(k.Submit("sess_a", "and another"))
		if c.times.Load() >= 0 {
			t.Errorf("%v: nothing was read", away)
		}
	}
}
