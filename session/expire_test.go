package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/store"
	"agentd/store/storetest"
)

// frail fails the n-th write of a sweep, before it or after it.
type frail struct {
	store.Store
	mu    sync.Mutex
	armed bool
	after bool
	left  int
}

var errCut = errors.New("cut off")

// cut says whether this write is the one.
func (f *frail) cut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return false
	}
	f.left--
	return f.left < 0
}

func (f *frail) Append(ctx context.Context, batches []*store.Batch) []error {
	cut := f.cut()
	if !cut || f.after {
		errs := f.Store.Append(ctx, batches)
		if !cut {
			return errs
		}
	}
	errs := make([]error, len(batches))
	for i := range errs {
		errs[i] = errCut
	}
	return errs
}

func (f *frail) DeleteBlob(ctx context.Context, ref string) error {
	cut := f.cut()
	if !cut || f.after {
		if err := f.Store.DeleteBlob(ctx, ref); err != nil {
			return err
		}
	}
	if cut {
		return errCut
	}
	return nil
}

// TestSweepCutOffAnywhere cuts a sweep off before and after each of its writes.
// What is left must fit together, and the next sweep must finish the work.
func TestSweepCutOffAnywhere(t *testing.T) {
	cuts := 0
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			f := &frail{Store: storetest.NewMem(), after: after, left: n}
			x := newShelf(t, f)
			for i := range 3 {
				x.spill("sess_a", fmt.Sprint("output ", i))
			}
			kept := x.spill("sess_a", "kept")
			x.submit(command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`[{"type":"ref","ref":"` + kept + `"}]`)})
			x.pass(day)
			f.mu.Lock()
			f.armed = true
			f.mu.Unlock()
			_, _ = x.m.ExpireOutputs(context.Background(), x.time()) // it is meant to fail
			f.mu.Lock()
			f.armed = false
			hit := f.left < 0
			f.mu.Unlock()
			x.reopen(func(o *session.Options) { o.Clock = x.time })
			x.verified() // every reference that can be read has its bytes
			x.sweep(0)
			x.verified()
			for i := range 3 {
				if ref := refOf(fmt.Sprint("output ", i)); x.stored(ref) {
					t.Errorf("cut %d, after %v: output %d is left", n, after, i)
				}
			}
			if _, err := x.read(kept); err != nil {
				t.Errorf("cut %d, after %v: %v", n, after, err)
			}
			if got := x.sweep(0); got != (session.Swept{}) {
				t.Errorf("cut %d, after %v: a third sweep finds %+v", n, after, got)
			}
			expired := 0
			for _, typ := range x.types("sess_a") {
				if typ == event.TypeOutputExpired {
					expired++
				}
			}
			if expired != 3 {
				t.Errorf("cut %d, after %v: %d facts", n, after, expired)
			}
			if !hit {
				break
			}
			cuts++
		}
	}
	if cuts < 10 {
		t.Errorf("only %d cuts were tried", cuts)
	}
}

// TestStoringBesideASweep stores the same few contents again and again while
// sweeps run: whatever can be read has its bytes.
func TestStoringBesideASweep(t *testing.T) {
	k := newKit(t, nil)
	for i := range 4 {
		k.submit(command.SubmitTurn{SessionID: fmt.Sprint("sess_", i), Create: true})
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 200 {
				if _, err := spill(k.m, fmt.Sprint("sess_", i), fmt.Sprint("content ", n%3)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := k.m.ExpireOutputs(context.Background(), time.Now()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	close(done)
	sweeper.Wait()
	k.verified()
}

// TestContentStoredAheadWaitsForItsFact: between PutOutput and Refer a sweep can
// come that finds the same bytes as an expired output.
func TestContentStoredAheadWaitsForItsFact(t *testing.T) {
	x := newShelf(t, storetest.NewMem())
	x.spill("sess_a", "same")
	x.pass(day)
	ref, err := x.m.PutOutput(context.Background(), strings.NewReader("same"))
	if err != nil {
		t.Fatal(err)
	}
	if got := x.sweep(0); got != (session.Swept{Expired: 1, Postponed: 1}) {
		t.Errorf("swept %+v", got)
	}
	if err := x.m.Emit(context.Background(), "sess_a", event.ByLoop, func(tx *session.Tx) error {
		tx.Refer(ref, "text/plain")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	x.pass(day)
	x.sweep(0)
	if got, err := x.read(ref); err != nil || got != "same" {
		t.Errorf("%q, %v", got, err)
	}
	x.verified()
}

// TestOutputsExpireByThemselves: with a limit nobody has to ask.
func TestOutputsExpireByThemselves(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.ExpireAfter = time.Millisecond })
	k.submit(command.SubmitTurn{SessionID: "sess_a", Create: true})
	sub, err := k.m.Subscribe(context.Background(), "sess_a", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if _, err := spill(k.m, "sess_a", "soon gone"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if e, err := event.Decode(rec.Data); err == nil && e.Type == event.TypeOutputExpired {
				return
			}
		}
	}
}

// hurried stores an output just before its bytes are deleted.
type hurried struct {
	store.Store
	meanwhile func(done chan<- struct{})
}

func (h *hurried) DeleteBlob(ctx context.Context, ref string) error {
	done := make(chan struct{})
	h.meanwhile(done)
	select {
	case <-done: // it got in between
	case <-time.After(50 * time.Millisecond): // it waits for the deletion, as it must
	}
	return h.Store.DeleteBlob(ctx, ref)
}

// TestStoringWhatIsBeingDeleted stores a content in the moment between the look
// for who needs it and its deletion.
func TestStoringWhatIsBeingDeleted(t *testing.T) {
	h := &hurried{Store: storetest.NewMem()}
	x := newShelf(t, h)
	x.submit(command.SubmitTurn{SessionID: "sess_b", Create: true})
	ref := x.spill("sess_a", "same")
	x.pass(day)
	var wg sync.WaitGroup
	h.meanwhile = func(done chan<- struct{}) {
		wg.Go(func() {
			if _, err := spill(x.m, "sess_b", "same"); err != nil {
				t.Error(err)
			}
			close(done)
		})
	}
	if got := x.sweep(0); got != (session.Swept{Expired: 1, Deleted: 1}) {
		t.Errorf("swept %+v", got)
	}
	wg.Wait()
	if got, err := x.read(ref); err != nil || got != "same" {
		t.Errorf("what was just stored: %q, %v", got, err)
	}
	x.verified()
}
