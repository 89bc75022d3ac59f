package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"agentd/store"
)

// closeDuringCalls closes the store under writers and readers. Each call is
// either done or refused with ErrClosed, and what was acknowledged is there when
// the store is opened again.
func closeDuringCalls(k *kit) {
	const writers, before = 4, 5
	acknowledged := make([][]store.Record, writers)
	errs := make([]error, 2*writers)
	var warm, all sync.WaitGroup
	warm.Add(writers)
	for i := range writers {
		id := fmt.Sprintf("s%d", i)
		c := k.claim(id)
		all.Go(func() {
			acknowledged[i], errs[i] = appendUntilRefused(k.ctx, k.s, id, c, before, warm.Done)
		})
		all.Go(func() { errs[writers+i] = readUntilRefused(k.ctx, k.s, id) })
	}
	warm.Wait()
	if err := k.s.Close(); err != nil {
		k.Errorf("Close: %v", err)
	}
	all.Wait()
	for _, err := range errs {
		if !errors.Is(err, store.ErrClosed) {
			k.Errorf("a call when the store was closed: %v, want ErrClosed", err)
		}
	}
	k.s = k.engine.Open()
	for i, want := range acknowledged {
		k.requireRecords(fmt.Sprintf("s%d", i), want)
	}
}

// appendUntilRefused returns what was acknowledged and the first error. It calls
// warm when n appends were done, or there will be no more.
func appendUntilRefused(ctx context.Context, s store.Store, id string, c store.Claim, n int, warm func()) (done []store.Record, err error) {
	head := c.Head
	for i := 0; ; i++ {
		r := Continue(id, head, 1, 100)
		err = s.Append(ctx, []*store.Batch{{SessionID: id, Epoch: c.Epoch, Records: r}})[0]
		if i == n || i < n && err != nil {
			warm()
		}
		if err != nil {
			return done, err
		}
		done, head = append(done, r...), HeadOf(r)
	}
}

func readUntilRefused(ctx context.Context, s store.Store, id string) error {
	for {
		records, err := drainSeq(s.Read(ctx, id, store.Range{}))
		if err != nil {
			return err
		}
		if err := VerifyChain(id, records); err != nil {
			return err
		}
	}
}

// closeEndsFollow: Close waits for calls under way, and Follow would never end.
func closeEndsFollow(k *kit) {
	ended := make(chan error)
	go func() {
		_, err := drainSeq(k.s.Follow(k.ctx))
		ended <- err
	}()
	k.grow("s", 1, 100)
	if err := k.s.Close(); err != nil {
		k.Errorf("Close: %v", err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		k.Errorf("Follow ended with %v, want ErrClosed", err)
	}
}
