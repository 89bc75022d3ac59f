package agentd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
	"agentd/store/storefault"
)

// Port is a runtime as doors and protocol adapters drive it. It keeps nothing.
type Port struct{ *Runtime }

var (
	_ command.Runtime       = Port{}
	_ command.ProcessFinder = Port{}
)

// Port returns the runtime as [command.Runtime].
func (r *Runtime) Port() Port { return Port{r} }

// Do implements [command.Runtime]. A command that adds work is refused, before anything is
// read for it, while the store doesn't take what is written already or too much waits to
// begin. What ends or answers something, what reads, and what admins change is always let in,
// and so is what the runtime does by itself.
func (p Port) Do(ctx context.Context, c command.Caller, params command.Params) (any, error) {
	if d, ok := command.Lookup(params.Command()); ok && d.Mutates && !d.EndsWork && d.Scope != command.RoleAdmin {
		_, own := p.loop.ThreadsOf(c.Account)
		_, all := p.loop.Threads()
		if err := p.manager.AdmitWork(c.Account, own, all); err != nil {
			return nil, p.explain(ctx, err)
		}
	}
	result, err := p.Runtime.Do(ctx, c, params)
	return result, p.explain(ctx, err)
}

// Events implements [command.Runtime].
func (p Port) Events(ctx context.Context, c command.Caller, sessionID string, after uint64, limit int) ([]command.Delivered, uint64, error) {
	records, last, err := p.Runtime.Events(ctx, c, sessionID, after, limit)
	return delivered(sessionID, records), last, p.explain(ctx, err)
}

// Oldest implements [command.Runtime].
func (p Port) Oldest(ctx context.Context, c command.Caller, sessionID string) (uint64, error) {
	if err := p.manager.See(ctx, c, sessionID); err != nil {
		return 0, p.explain(ctx, err)
	}
	oldest, err := p.manager.Oldest(ctx, sessionID)
	return oldest, p.explain(ctx, err)
}

// Subscribe implements [command.Runtime].
func (p Port) Subscribe(ctx context.Context, c command.Caller, sessionID string, after uint64) (command.Stream, error) {
	sub, err := p.manager.SubscribeAs(ctx, c, sessionID, after)
	if err != nil {
		return nil, p.explain(ctx, err)
	}
	return &sessionStream{port: p, id: sessionID, Subscription: sub}, nil
}

// SubscribeAll implements [command.Runtime].
func (p Port) SubscribeAll(ctx context.Context, c command.Caller, after string) (command.Stream, error) {
	feed, err := p.manager.SubscribeAllAs(ctx, c, after)
	if err != nil {
		return nil, p.explain(ctx, err)
	}
	return &feedStream{feed, p}, nil
}

// Output implements [command.Runtime].
func (p Port) Output(ctx context.Context, c command.Caller, ref string) (*command.Output, error) {
	blob, mediaType, err := p.Runtime.Output(ctx, c, ref)
	if err != nil {
		return nil, p.explain(ctx, err)
	}
	info := blob.Info()
	return &command.Output{Content: content{blob, p, ctx}, MediaType: mediaType, Size: info.Size, ETag: info.Ref}, nil
}

// content is that of an output. Where it can't be read, the error says what that means.
type content struct {
	store.Blob
	port Port
	ctx  context.Context //nolint:containedctx // it is that of the call which reads
}

// Read implements [io.Reader].
func (c content) Read(p []byte) (int, error) {
	n, err := c.Blob.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.port.explain(c.ctx, storefault.Reading(err))
	}
	return n, err
}

// LocateProcess implements [command.ProcessFinder].
func (p Port) LocateProcess(ctx context.Context, c command.Caller, processID string) (sessionID string, started uint64, err error) {
	sessionID, started, err = p.manager.LocateProcess(ctx, c, processID)
	return sessionID, started, p.explain(ctx, err)
}

// FollowChannel says that a stream of a session now goes to the peer of a remote
// channel; see [command.ChannelFollower].
func (r *Runtime) FollowChannel(ctx context.Context, caller command.Caller, channelID, sessionID string) (command.ChannelStream, error) {
	stream, err := r.channels.Follow(ctx, caller, channelID, sessionID)
	return stream, r.Port().explain(ctx, err)
}

func delivered(sessionID string, records []store.Record) []command.Delivered {
	out := make([]command.Delivered, len(records))
	for i, r := range records {
		out[i] = command.Delivered{SessionID: sessionID, Sequence: r.Sequence, Data: r.Data}
	}
	return out
}

// sessionStream is a subscription to one session.
type sessionStream struct {
	*session.Subscription
	port Port
	id   string
}

// Next implements [command.Stream].
func (s *sessionStream) Next(ctx context.Context) ([]command.Delivered, error) {
	records, err := s.Subscription.Next(ctx)
	return delivered(s.id, records), s.port.explain(ctx, err)
}

// feedStream is a subscription to all sessions.
type feedStream struct {
	*session.Feed
	port Port
}

// Next implements [command.Stream].
func (s *feedStream) Next(ctx context.Context) ([]command.Delivered, error) {
	records, err := s.Feed.Next(ctx)
	out := make([]command.Delivered, len(records))
	for i := range records {
		r := &records[i]
		out[i] = command.Delivered{SessionID: r.SessionID, Sequence: r.Sequence, Data: r.Data, RemovedThrough: r.RemovedThrough, Cursor: r.Cursor()}
	}
	return out, s.port.explain(ctx, err)
}

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
