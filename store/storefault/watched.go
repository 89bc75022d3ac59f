package storefault

import (
	"context"
	"errors"
	"io"
	"sync"

	"agentd/fault"
	"agentd/store"
)

// Passes reports whether an error of the store is one that is over soon: the same may be asked
// again then.
func Passes(err error) bool {
	f, ok := errors.AsType[*fault.Error](Of(err))
	return ok && f.RetryAfter > 0
}

// Watched are contents for those who go on without what they can't have. It remembers whether
// something was only out of reach: then what they made of the rest is wrong, and has to be made
// again. It may be used by many goroutines.
type Watched struct {
	of store.Contents

	mu  sync.Mutex
	err error
}

// Watch returns contents that are watched.
func Watch(of store.Contents) *Watched { return &Watched{of: of} }

// Err returns the first error with which a content was out of reach; nil if none was.
func (w *Watched) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Watched) rememberTrouble(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && Passes(err) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = err
		}
	}
	return err
}

// OpenBlob implements [store.Contents].
func (w *Watched) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	b, err := w.of.OpenBlob(ctx, ref)
	if err != nil {
		return nil, w.rememberTrouble(err)
	}
	return watchedBlob{b, w}, nil
}

type watchedBlob struct {
	store.Blob
	w *Watched
}

// Read implements [io.Reader].
func (b watchedBlob) Read(p []byte) (int, error) {
	n, err := b.Blob.Read(p)
	return n, b.w.rememberTrouble(err)
}
