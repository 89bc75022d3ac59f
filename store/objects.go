package store

import (
	"context"
	"errors"
	"io"
	"time"
)

// Objects keeps contents outside of an engine, such as in a bucket. An engine that has one
// moves the contents of blobs there and goes on to decide itself which blobs there are. A
// name is used for one content and never again.
//
// All methods may be called by many goroutines.
type Objects interface {
	// Put stores size bytes and returns when they are durable.
	Put(ctx context.Context, name string, r io.Reader, size int64) error
	// Get returns a part of an object. It is ErrNotFound if there is no such object, and
	// an error if it ends before.
	Get(ctx context.Context, name string, from, length int64) ([]byte, error)
	// Delete removes an object, and what a Put that was cut off left of it; removing an
	// absent one is not an error.
	Delete(ctx context.Context, name string) error
	// Location says where the objects are, without credentials.
	Location() string
}

// ErrRefused says that the objects can be reached and refuse: the keys are wrong or lack a right,
// or there is no such bucket. Trying again doesn't help.
var ErrRefused = errors.New("store: the object storage refuses")

// ErrAway says that the objects can't be reached, or don't answer as they should, for now.
var ErrAway = errors.New("store: the object storage can't be reached")

// Sweep says under which conditions a blob may be deleted.
type Sweep struct {
	// Ref is the blob's reference.
	Ref string
	// Unless are kinds of index entries: one whose key is the reference, a slash and
	// whatever follows keeps the blob.
	Unless []string
	// Unused is how long the blob must not have been stored or held.
	Unused time.Duration
}

// Swept says what became of a blob.
type Swept struct {
	// Deleted says that it was there and is gone, Size how large it was.
	Deleted bool
	Size    int64
	// Awaited says that it was stored or held lately, and is left for a later sweep.
	Awaited bool
}
