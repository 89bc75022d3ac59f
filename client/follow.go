package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// FollowOptions choose what a stream delivers. Nil and the zero value deliver all
// events.
type FollowOptions struct {
	// Types to deliver; "tool.*" stands for a family. All if empty.
	Types []string
	// Profile "standard" delivers the types of the standard alone.
	Profile string
	// View "items" delivers the derived items instead of the events.
	View string
	// Snapshot asks for the session snapshot as the stream's first frame.
	Snapshot bool
	// Retries is how many failures in a row are borne before the stream ends with
	// the last of them. If zero, there is no end to patience; if negative, the first
	// failure ends the stream.
	Retries int
	// Connected, if not nil, is called each time that the server has accepted the
	// stream, before its first event, in the goroutine that reads the stream.
	Connected func()
}

func (o *FollowOptions) query() url.Values {
	q := url.Values{}
	if len(o.Types) > 0 {
		q.Set("types", strings.Join(o.Types, ","))
	}
	if o.Profile != "" {
		q.Set("profile", o.Profile)
	}
	if o.View != "" {
		q.Set("view", o.View)
	}
	return q
}

// complete reports whether every sequence is delivered.
func (o *FollowOptions) complete() bool { return len(o.Types) == 0 && o.Profile == "" && o.View == "" }

// Follow delivers the events of a session after a sequence, then live ones, until
// the context ends or the loop is left. A connection that breaks is made again
// where it broke: every event comes once and in order. What the server refuses
// (an unknown session, a token that is no longer valid) ends the stream with that
// error, and so does the context.
func (c *Client) Follow(ctx context.Context, sessionID string, after uint64, opt *FollowOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{c: c, path: eventsPath(sessionID), cursor: after}
		if opt != nil {
			f.opt = *opt
		}
		f.snapshot = f.opt.Snapshot
		f.run(ctx, yield)
	}
}

// follower is one call of Follow.
type follower struct {
	c    *Client
	path string
	opt  FollowOptions

	// cursor is the sequence up to which everything was delivered, ahead how many
	// frames were delivered beyond it: one event may be several frames, and only
	// the last of them moves the cursor.
	cursor uint64
	ahead  int
	// skip is how many frames of this connection were delivered by an earlier one.
	skip int
	// snapshot says that the snapshot is still to be asked for.
	snapshot bool
	// failures in a row, and what the server asked to wait at least.
	failures int
	wait     time.Duration
}

// errLeft says that the loop over the events was left.
var errLeft = errors.New("client: the loop was left")

func (f *follower) run(ctx context.Context, yield func(Event, error) bool) {
	for {
		err := f.connect(ctx, yield)
		switch {
		case errors.Is(err, errLeft):
			return
		case ctx.Err() != nil:
			yield(Event{}, fault.Wrap(fault.Unavailable, ctx.Err(), "reading the stream was stopped"))
			return
		}
		f.failures++
		if !retryable(err) || f.opt.Retries < 0 || (f.opt.Retries > 0 && f.failures > f.opt.Retries) {
			yield(Event{}, err)
			return
		}
		f.pause(ctx, err)
	}
}

// retryable reports whether the same request can succeed later.
func retryable(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.RateLimited, fault.Internal:
		return true
	default:
		return false
	}
}

// pause waits before the next connection, at least as long as the server asked.
func (f *follower) pause(ctx context.Context, err error) {
	d := max(f.c.backoff(f.failures), f.wait)
	if known, ok := errors.AsType[*fault.Error](err); ok {
		d = max(d, known.RetryAfter)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// connect follows the stream over one connection. It always returns an error:
// that is how the connection ended.
func (f *follower) connect(ctx context.Context, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := f.opt.query()
	query.Set("after", strconv.FormatUint(f.cursor, 10))
	if f.snapshot {
		query.Set("snapshot", "1")
	}
	req, err := f.c.request(ctx, http.MethodGet, f.path, query, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", wire.SSEType)
	if f.cursor > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(f.cursor, 10))
	}
	stall := time.AfterFunc(f.c.opt.StallTimeout, cancel)
	defer stall.Stop()
	res, err := f.c.send(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != wire.SSEType {
		return fault.New(fault.Unavailable, "the answer is %q, not a stream", media)
	}
	if f.opt.Connected != nil {
		f.opt.Connected()
	}
	alive := &aliveReader{in: res.Body, seen: func() { stall.Reset(f.c.opt.StallTimeout) }}
	return f.read(wire.NewSSEReader(alive, 0), yield)
}

// aliveReader tells when something arrives.
type aliveReader struct {
	in   io.Reader
	seen func()
}

// Read implements [io.Reader].
func (r *aliveReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if n > 0 {
		r.seen()
	}
	return n, err
}

// read delivers the frames of one connection.
func (f *follower) read(in *wire.SSEReader, yield func(Event, error) bool) error {
	// What was delivered beyond the cursor comes again, in the same order.
	f.skip, f.ahead = f.ahead, 0
	defer func() { f.ahead += f.skip }()
	before := in.LastID()
	for {
		frame, err := in.Next()
		if err != nil {
			return streamEnd(err)
		}
		f.wait = in.Retry()
		if frame.Event != "" {
			if err := f.named(&frame, yield); err != nil {
				return err
			}
			continue
		}
		moved := in.LastID() != before
		before = in.LastID()
		if err := f.plain(&frame, moved, yield); err != nil {
			return err
		}
	}
}

func streamEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return fault.New(fault.Unavailable, "the stream ended")
	}
	return unreachable(err)
}

// plain delivers the frame of an event, unless it was delivered before.
func (f *follower) plain(frame *wire.SSEFrame, moved bool, yield func(Event, error) bool) error {
	e, err := parseEvent(frame.Data)
	if err != nil {
		return err
	}
	if e.Sequence <= f.cursor {
		return nil
	}
	if f.opt.complete() && e.Sequence != f.cursor+1 {
		return fault.New(fault.Unavailable, "the stream skipped from %d to %d", f.cursor, e.Sequence)
	}
	f.failures = 0
	known := f.skip > 0
	f.ahead++
	if known {
		f.skip--
	}
	if moved {
		f.cursor, f.ahead, f.skip = e.Sequence, 0, 0
	}
	if !known && !yield(e, nil) {
		return errLeft
	}
	return nil
}

// named handles a frame with a type of its own.
func (f *follower) named(frame *wire.SSEFrame, yield func(Event, error) bool) error {
	switch frame.Event {
	case "problem":
		if p, ok := wire.DecodeProblem(frame.Data); ok {
			return p.Err()
		}
		return fault.New(fault.Unavailable, "the server ended the stream")
	case "snapshot":
		f.snapshot = false
	case "snapshot.repaired":
		var gap struct {
			ContinuesAfter uint64 `json:"continuesAfter"`
		}
		if err := json.Unmarshal(frame.Data, &gap); err != nil {
			return fault.Wrap(fault.Unavailable, err, "a repair frame is malformed")
		}
		f.cursor, f.ahead, f.skip = gap.ContinuesAfter, 0, 0
	}
	if !yield(Event{Frame: frame.Event, Data: frame.Data}, nil) {
		return errLeft
	}
	return nil
}
