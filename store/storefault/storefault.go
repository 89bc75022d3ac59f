// Package storefault says what an error of the store means to a caller.
//
// # Contract
//
// It is the one place that says which failures of the store pass, and when to come again:
// who reads and who writes answers the same trouble alike.
package storefault

import (
	"context"
	"errors"
	"time"

	"agentd/fault"
	"agentd/store"
)

// How long to wait before the same is asked of the store again: what passes by itself, and what
// a person has to see to.
const (
	passesSoon  = time.Second
	needsPerson = 30 * time.Second
)

// Of is what an error of the store means to a caller, nil if it means nothing that is known.
// An error that is classified already stays as it is.
func Of(err error) error {
	var f *fault.Error
	var owned *store.OwnedError
	var removed *store.TrimmedError
	switch {
	case errors.As(err, &f):
		return err
	case errors.As(err, &removed):
		return fault.Wrap(fault.NotFound, err, "the events of session %s through %d were removed by retention", removed.SessionID, removed.Through)
	case errors.Is(err, store.ErrExists):
		return fault.Wrap(fault.Conflict, err, "the id or idempotency key is already in use; choose another")
	case errors.Is(err, store.ErrRefused):
		return comeAgain(needsPerson, err, "the object storage refuses what is asked of it; the log and agentd status say why")
	case errors.Is(err, store.ErrAway):
		return comeAgain(passesSoon, err, "the content is in the object storage, which can't be reached now; try again")
	case errors.Is(err, store.ErrNoSpace):
		return comeAgain(needsPerson, err, "the disk is full: nothing was written; free some space and try again")
	case errors.Is(err, store.ErrFull):
		return comeAgain(passesSoon, err, "the database has no connection left: nothing was written; try again")
	case errors.Is(err, store.ErrUnknownOutcome):
		return comeAgain(passesSoon, err, "the connection to the store broke and the command may or may not have run; repeat it with the same ids or idempotency key")
	case errors.Is(err, store.ErrUnavailable):
		return comeAgain(passesSoon, err, "the database can't be reached now, or takes no writes; try again")
	case errors.As(err, &owned) && owned.Address == "":
		return comeAgain(passesSoon, err, "the session is owned by node "+owned.Owner+", which has no address: it is a program that opened the database, such as agentd run, and gives the session back when it ends, or a server that needs advertise; try again")
	case errors.As(err, &owned):
		f := fault.Wrap(fault.Unavailable, err, "the session is owned by node %s", owned.Owner)
		f.Elsewhere = owned.Address
		return f
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrConflict):
		return comeAgain(passesSoon, err, "another node took the session over; nothing was written; try again")
	case errors.Is(err, store.ErrReplaced):
		return comeAgain(passesSoon, err, "another process runs under the name of this node, which writes nothing any more; try again at another node, and stop this process or give it another node.name")
	case errors.Is(err, store.ErrFailed):
		return fault.Wrap(fault.Unavailable, err, "an earlier write to the store failed: nothing is accepted until agentd is restarted and has checked the store")
	case errors.Is(err, store.ErrRestored):
		return fault.Wrap(fault.Unavailable, err, "the database was restored to an earlier moment: nothing is accepted until agentd is restarted")
	case errors.Is(err, store.ErrCorrupt):
		return fault.Wrap(fault.Internal, err, "stored data is damaged; run agentd verify")
	case errors.Is(err, store.ErrClosed):
		return fault.Stopping(err)
	}
	return nil
}

// Read is Of for what was only read. An error that means nothing that is known is said to be
// out of reach, with a text of the caller's.
func Read(err error, format string, args ...any) error {
	if known := Of(err); known != nil {
		return known
	}
	return fault.Wrap(fault.Unavailable, err, format, args...)
}

// comeAgain says that something can't be done now, and when it may be.
func comeAgain(after time.Duration, err error, detail string) error {
	f := fault.Wrap(fault.Unavailable, err, "%s", detail)
	f.RetryAfter = after
	return f
}

// Reading is what an error means to a caller for whom the store was only read; nil is none.
// The end of a caller's context stays what it is.
func Reading(err error) error {
	switch known := Of(err); {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case known != nil:
		return known
	}
	return fault.Wrap(fault.Unavailable, err, "the store could not be read; try again")
}
