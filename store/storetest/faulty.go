package storetest

import (
	"context"
	"io"
	"iter"
	"sync"

	"agentd/store"
)

// Op names a method that [FaultyStore] can disturb.
type Op string

// The methods that can be disturbed.
const (
	OpClaim   Op = "Claim"
	OpAppend  Op = "Append"
	OpHead    Op = "Head"
	OpRead    Op = "Read"
	OpGet     Op = "Get"
	OpPutBlob Op = "PutBlob"
)

// Fault is what happens to one call. The zero Fault lets it pass.
type Fault struct {
	// Err is the call's answer; for Append every batch's. If it is nil the call
	// answers as the store does.
	Err error
	// Applied does the call before Err is returned: the write is there and the
	// caller doesn't know.
	Applied bool
	// Reached, if not nil, is closed when the call arrives.
	Reached chan<- struct{}
	// Hold, if not nil, holds the call up until it is closed or the call's
	// context ends, in which case the call fails with the context's error.
	Hold <-chan struct{}
}

// FaultyStore is a store with faults in front of it. Calls without a fault pass.
// All methods may be called by many goroutines.
type FaultyStore struct {
	store.Store

	mu     sync.Mutex
	calls  map[Op]int
	faults map[Op]map[int]Fault
	broken error
}

var _ store.Store = (*FaultyStore)(nil)

// Faulty puts a FaultyStore without faults in front of a store.
func Faulty(s store.Store) *FaultyStore {
	return &FaultyStore{Store: s, calls: map[Op]int{}, faults: map[Op]map[int]Fault{}}
}

// Inject sets the fault of the n-th call of a method from now on; 1 is the next.
func (f *FaultyStore) Inject(op Op, n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults[op] == nil {
		f.faults[op] = map[int]Fault{}
	}
	f.faults[op][f.calls[op]+n] = fault
}

// FailAppend makes the n-th Append from now on fail with err for every batch,
// without writing anything.
func (f *FaultyStore) FailAppend(n int, err error) { f.Inject(OpAppend, n, Fault{Err: err}) }

// LoseAnswer makes the n-th Append from now on answer with
// [store.ErrUnknownOutcome]. applied says whether the batches were written.
func (f *FaultyStore) LoseAnswer(n int, applied bool) {
	f.Inject(OpAppend, n, Fault{Err: store.ErrUnknownOutcome, Applied: applied})
}

// HoldAppend holds the n-th Append from now on up. reached is closed when it has
// arrived, release lets it go and must be called once.
func (f *FaultyStore) HoldAppend(n int) (reached <-chan struct{}, release func()) {
	arrived, hold := make(chan struct{}), make(chan struct{})
	f.Inject(OpAppend, n, Fault{Reached: arrived, Hold: hold})
	return arrived, func() { close(hold) }
}

// Break makes the store behave as after a failed write: every Append, PutBlob
// and Claim fails with err, which should wrap [store.ErrFailed], and Err returns
// it. Reads go on. A nil err mends the store, as reopening does.
func (f *FaultyStore) Break(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
}

// Calls returns how often a method was called.
func (f *FaultyStore) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// next counts a call and returns its fault.
func (f *FaultyStore) next(op Op) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	fault := f.faults[op][f.calls[op]]
	delete(f.faults[op], f.calls[op])
	writes := op == OpAppend || op == OpPutBlob || op == OpClaim
	if f.broken != nil && writes {
		fault.Err, fault.Applied = f.broken, false
	}
	return fault
}

// arrive waits as the fault demands. It returns the error to answer with
// instead of doing the call, if there is one.
func (fault Fault) arrive(ctx context.Context) error {
	if fault.Reached != nil {
		close(fault.Reached)
	}
	if fault.Hold != nil {
		select {
		case <-fault.Hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fault.Applied {
		return nil
	}
	return fault.Err
}

// Append implements [store.Store].
func (f *FaultyStore) Append(ctx context.Context, batches []*store.Batch) []error {
	fault := f.next(OpAppend)
	err := fault.arrive(ctx)
	if err == nil {
		errs := f.Store.Append(ctx, batches)
		if fault.Err == nil {
			return errs
		}
		err = fault.Err
	}
	errs := make([]error, len(batches))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// Claim implements [store.Store].
func (f *FaultyStore) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	return disturb(ctx, f.next(OpClaim), func() (store.Claim, error) { return f.Store.Claim(ctx, sessionID) })
}

// Head implements [store.Store].
func (f *FaultyStore) Head(ctx context.Context, sessionID string) (store.Head, error) {
	return disturb(ctx, f.next(OpHead), func() (store.Head, error) { return f.Store.Head(ctx, sessionID) })
}

// Get implements [store.Store].
func (f *FaultyStore) Get(ctx context.Context, kind, key string) ([]byte, error) {
	return disturb(ctx, f.next(OpGet), func() ([]byte, error) { return f.Store.Get(ctx, kind, key) })
}

// PutBlob implements [store.Store].
func (f *FaultyStore) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	return disturb(ctx, f.next(OpPutBlob), func() (store.BlobInfo, error) { return f.Store.PutBlob(ctx, r) })
}

func disturb[V any](ctx context.Context, fault Fault, do func() (V, error)) (V, error) {
	var zero V
	if err := fault.arrive(ctx); err != nil {
		return zero, err
	}
	v, err := do()
	if fault.Err != nil {
		return zero, fault.Err
	}
	return v, err
}

// Read implements [store.Store]. With Applied the records come before the error.
func (f *FaultyStore) Read(ctx context.Context, sessionID string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		fault := f.next(OpRead)
		if err := fault.arrive(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		for rec, err := range f.Store.Read(ctx, sessionID, r) {
			if !yield(rec, err) {
				return
			}
		}
		if fault.Err != nil {
			yield(store.Record{}, fault.Err)
		}
	}
}

// Err implements [store.Store].
func (f *FaultyStore) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	return f.Store.Err()
}
