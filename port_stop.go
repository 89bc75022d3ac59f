package agentd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"agentd/fault"
	"agentd/store"
	"agentd/store/storefault"
)

// closedErrors are what the parts of a runtime say that were closed already.
var closedErrors = []error{store.ErrClosed, os.ErrClosed, net.ErrClosed, io.ErrClosedPipe, context.Canceled}

// Explain gives an error with which the runtime leaves something undone the kind that callers are
// told: what the store says, wherever it comes from, and that the runtime stops while it does,
// whichever of its parts was closed first. Doors answer until they are closed themselves, and a
// client must be able to tell that the next node, or the next process, does what it asks for.
func (r *Runtime) Explain(err error) error {
	if err == nil {
		return nil
	}
	stops := r.life.Err() != nil
	f, known := errors.AsType[*fault.Error](err)
	if known && f.Kind != fault.Unavailable && f.Kind != fault.Internal {
		return err // what was asked for is wrong
	}
	if stops && isClosed(err) {
		return fault.Stopping(err)
	}
	cause := err
	if known {
		cause = f.Err
	}
	if said, ok := errors.AsType[*fault.Error](storefault.Of(cause)); ok && (!known || said.RetryAfter > 0) {
		if known && f.Kind == fault.Unavailable {
			return comeAgain(f, said.RetryAfter) // it says more of what was asked for
		}
		f, known, err = said, true, said
	}
	if !known || !stops || f.Kind != fault.Unavailable {
		return err
	}
	return comeAgain(f, fault.Stopping(nil).RetryAfter)
}

// comeAgain adds when to ask again, unless a fault says so.
func comeAgain(f *fault.Error, after time.Duration) *fault.Error {
	if f.RetryAfter > 0 {
		return f
	}
	again := *f
	again.RetryAfter = after
	return &again
}

// isClosed reports whether a part of the runtime was closed.
func isClosed(err error) bool {
	return slices.ContainsFunc(closedErrors, func(closed error) bool { return errors.Is(err, closed) })
}

// explain is Explain for who still waits.
func (p Port) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return p.Explain(err)
}
