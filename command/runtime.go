package command

import (
	"context"
	"io"
)

// Runtime is what every door and every protocol adapter drives: commands in,
// facts out. Errors are faults; a session or an output that the caller may not
// see is not found. All methods may be called by many goroutines.
type Runtime interface {
	// Do carries out a command and returns a pointer to its result, which encodes
	// as a JSON object. What it changed is durable when it returns. It validates p.
	Do(ctx context.Context, c Caller, p Params) (any, error)
	// Events returns at most limit events of a session after a sequence, oldest
	// first, and the session's last durable sequence; with limit 0 that alone.
	Events(ctx context.Context, c Caller, sessionID string, after uint64, limit int) (events []Delivered, last uint64, err error)
	// Oldest returns the first sequence of a session that can still be read:
	// 1, unless retention removed some.
	Oldest(ctx context.Context, c Caller, sessionID string) (uint64, error)
	// Subscribe follows a session from the event after the given sequence on.
	Subscribe(ctx context.Context, c Caller, sessionID string, after uint64) (Stream, error)
	// SubscribeAll follows all sessions that the caller may see, from the event after
	// the one whose cursor is given on, or from now on. The order holds within a session.
	SubscribeAll(ctx context.Context, c Caller, after string) (Stream, error)
	// Output opens the bytes behind a reference. The reference comes from the
	// caller as it is.
	Output(ctx context.Context, c Caller, ref string) (*Output, error)
}

// Delivered is one durable event as it is delivered.
type Delivered struct {
	SessionID string
	Sequence  uint64
	// Data is the stored envelope, one line of JSON. It must not be changed.
	Data []byte
	// RemovedThrough, if not zero, says that the events from Sequence through it were
	// removed by retention; there is no Data then. Only what goes on after an old cursor
	// of [Runtime.SubscribeAll] has such gaps.
	RemovedThrough uint64
	// Cursor is where [Runtime.SubscribeAll] goes on after the event; empty in a stream
	// of one session, where Sequence says it.
	Cursor string
}

// Stream is a subscription. It is for one goroutine.
type Stream interface {
	// Next returns the next events, at least one, and waits for them until ctx
	// ends. After that it may be called again and goes on where it was. The slice
	// is valid until the next call.
	Next(ctx context.Context) ([]Delivered, error)
	// Close releases the subscription.
	Close()
}

// Output is the open content of a reference.
type Output struct {
	// Content must be read and closed by the caller.
	Content io.ReadSeekCloser
	// MediaType defaults to application/octet-stream.
	MediaType string
	// Size in bytes.
	Size int64
	// ETag identifies the content, without quotes; empty if it has none.
	ETag string
}

// ProcessFinder is a runtime that can tell where the facts of a process are.
type ProcessFinder interface {
	// LocateProcess returns the session of a process and the sequence of the fact that
	// started it. A process that the caller may not see is not found.
	LocateProcess(ctx context.Context, c Caller, processID string) (sessionID string, started uint64, err error)
}
