package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// sse writes one stream. It is for one goroutine.
type sse struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	buf  []byte
	sent func(n int)
	ids  idKind
}

// idKind says what the frames of a stream have as id.
type idKind int

const (
	// sequenceIDs: the sequence, in the stream of one session.
	sequenceIDs idKind = iota
	// noIDs: a sequence says nothing without its session.
	noIDs
	// feedIDs: the cursor.
	feedIDs
)

// flushAt is how much is gathered before it is written: a stream holds about
// this much and one event.
const flushAt = 32 << 10

// startSSE sends the headers of a stream.
func (s *Server) startSSE(w http.ResponseWriter, ids idKind) (*sse, error) {
	h := w.Header()
	h.Set("Content-Type", wire.SSEType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	delivered := s.metrics.events.get("sse")
	out := &sse{w: w, rc: http.NewResponseController(w), ids: ids, sent: func(n int) { delivered.Add(int64(n)) }}
	w.WriteHeader(http.StatusOK)
	return out, out.rc.Flush()
}

// frame writes a frame with a type of its own.
func (o *sse) frame(name string, data []byte) error {
	o.buf = wire.AppendSSE(o.buf, &wire.SSEFrame{Event: name, Data: data})
	return o.flush()
}

// events writes a batch. Of the frames that come from one event only the last
// has the id, so that a client which is cut off between them gets all again.
func (o *sse) events(batch []command.Delivered, f *filter) error {
	n := 0
	for i := range batch {
		sent, err := o.event(&batch[i], f)
		if err != nil {
			return err
		}
		n += sent
		if len(o.buf) >= flushAt {
			if err := o.flush(); err != nil {
				return err
			}
		}
	}
	o.sent(n)
	return o.flush()
}

// event gathers the frames of one event and returns how many they are.
func (o *sse) event(e *command.Delivered, f *filter) (int, error) {
	if e.RemovedThrough > 0 {
		o.buf = append(o.buf, "event: gap\n"...)
		o.data(e, true, gapOf(e))
		return 1, nil
	}
	if f.idle() {
		o.data(e, true, e.Data)
		return 1, nil
	}
	frames, err := f.apply(e)
	for i, data := range frames {
		o.data(e, i == len(frames)-1, data)
	}
	return len(frames), err
}

// data gathers a frame without allocating: what is delivered is one line of JSON.
func (o *sse) data(e *command.Delivered, id bool, data []byte) {
	switch {
	case !id:
	case o.ids == sequenceIDs:
		o.buf = append(strconv.AppendUint(append(o.buf, "id: "...), e.Sequence, 10), '\n')
	case o.ids == feedIDs:
		o.buf = append(append(append(o.buf, "id: "...), e.Cursor...), '\n')
	}
	o.buf = append(append(append(o.buf, "data: "...), data...), "\n\n"...)
}

// feedGap says which events a feed can't deliver any more.
type feedGap struct {
	SessionID     string `json:"sessionId"`
	FirstSequence uint64 `json:"firstSequence"`
	LastSequence  uint64 `json:"lastSequence"`
	Reason        string `json:"reason"`
}

func gapOf(e *command.Delivered) []byte {
	return mustMarshal(feedGap{SessionID: e.SessionID, FirstSequence: e.Sequence, LastSequence: e.RemovedThrough, Reason: "removed by retention"})
}

// heartbeat writes a comment, which shows both sides that the other is there.
func (o *sse) heartbeat() error {
	o.buf = wire.AppendSSEComment(o.buf, "heartbeat")
	return o.flush()
}

// flush writes what was gathered. A buffer that grew for one large event isn't kept.
func (o *sse) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := o.w.Write(o.buf)
	if o.buf = o.buf[:0]; cap(o.buf) > 2*flushAt {
		o.buf = nil
	}
	if err != nil {
		return errGone
	}
	if err := o.rc.Flush(); err != nil {
		return errGone
	}
	return nil
}

// errGone says that the client went away or is too slow, so it gets no error.
var errGone = errors.New("server: the client is gone")

// serveSessionStream streams one session.
func (s *Server) serveSessionStream(w http.ResponseWriter, r *http.Request, q *request, eq *eventQuery) error {
	ch, err := s.joinChannel(r.Context(), q, eq.channelID, q.variable)
	if err != nil {
		return err
	}
	left := "unsubscribed" // nothing was sent yet
	defer func() { ch.Left(left) }()
	from, gap, err := s.locateCursor(r.Context(), q.caller, q.variable, cursor(eq.after, ch))
	if err != nil {
		return err
	}
	err = s.serveStream(w, r.WithContext(ch.Context()), q, &eq.filter, sequenceIDs, streamStart{
		snapshot: eq.snapshot, gap: gap, sessionID: q.variable,
		open: func(ctx context.Context) (command.Stream, error) {
			return s.backend.Subscribe(ctx, q.caller, q.variable, from)
		},
	})
	if err == nil {
		left = s.streamEndReason()
	}
	return err
}

// serveAllEvents answers GET /v1/events.
func (s *Server) serveAllEvents(w http.ResponseWriter, r *http.Request, q *request) error {
	eq, err := parseQuery(r)
	if err != nil {
		return err
	}
	for _, name := range []string{"after", "lastEventId", "limit", "snapshot", "channelId"} {
		if r.URL.Query().Has(name) {
			return fault.Param(name, "is only allowed for the events of one session")
		}
	}
	return s.serveStream(w, r, q, &eq.filter, noIDs, streamStart{
		open: func(ctx context.Context) (command.Stream, error) { return s.backend.SubscribeAll(ctx, q.caller, "") },
	})
}

// serveFeed answers GET /v1/feed.
func (s *Server) serveFeed(w http.ResponseWriter, r *http.Request, q *request) error {
	after, f, err := parseFeedQuery(r)
	if err != nil {
		return err
	}
	return s.serveStream(w, r, q, &f, feedIDs, streamStart{
		open: func(ctx context.Context) (command.Stream, error) {
			stream, err := s.backend.SubscribeAll(ctx, q.caller, after.value)
			return stream, fault.Rename(err, "after", after.name)
		},
	})
}

// streamStart is what a stream begins with.
type streamStart struct {
	sessionID string
	snapshot  bool
	gap       *Repair
	open      func(context.Context) (command.Stream, error)
}

// serveStream runs a stream to its end.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, q *request, f *filter, ids idKind, start streamStart) error {
	done, err := s.openStream(q.login.TokenID, "sse")
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	stream, err := start.open(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	var first []byte
	if start.snapshot || start.gap != nil {
		if first, err = s.snapshot(ctx, q, start.sessionID); err != nil {
			return err
		}
	}
	out, err := s.startSSE(w, ids)
	if err != nil || r.Method == http.MethodHead {
		return nil
	}
	if err := out.begin(first, start.gap); err == nil {
		err = s.followStream(ctx, out, stream, q.login, f)
		out.end(err, q.id)
	}
	return nil
}

// snapshot returns what get_session says, as it goes into the first frame.
func (s *Server) snapshot(ctx context.Context, q *request, sessionID string) ([]byte, error) {
	p := &command.GetSession{SessionID: sessionID}
	v, err := s.backend.Do(ctx, q.caller, p)
	if to := q.forwardable(err); to != "" {
		d, _ := command.Lookup(p.Command())
		return s.forwardCommand(ctx, q, to, d, mustMarshal(p), forwardedWhole, err)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// begin writes the frames before the first event.
func (o *sse) begin(snapshot []byte, gap *Repair) error {
	if snapshot != nil {
		if err := o.frame("snapshot", snapshot); err != nil {
			return err
		}
	}
	if gap == nil {
		return nil
	}
	data, err := json.Marshal(gap)
	if err != nil {
		return err
	}
	return o.frame("snapshot.repaired", data)
}

// followStream delivers events until the client goes, the token ends or the server stops.
// A stream that is never quiet, or whose filter lets nothing through, is checked and
// gives a sign of life nevertheless.
func (s *Server) followStream(ctx context.Context, out *sse, stream command.Stream, l *login, f *filter) error {
	for beat := time.Now().Add(s.opt.Heartbeat); ; {
		if err := followFor(ctx, l.until(min(s.opt.Recheck, time.Until(beat))), out, stream, f); err != nil {
			return err
		}
		if err := l.again(ctx); err != nil {
			return err
		}
		if time.Until(beat) > 0 {
			continue
		}
		if err := out.heartbeat(); err != nil {
			return err
		}
		beat = time.Now().Add(s.opt.Heartbeat)
	}
}

// followFor delivers events for a while. One timer serves all of them.
func followFor(ctx context.Context, d time.Duration, out *sse, stream command.Stream, f *filter) error {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for wait.Err() == nil {
		batch, err := stream.Next(wait)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			err = out.events(batch, f)
		case wait.Err() != nil:
			return nil // it was quiet
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err() // it may have ended while a batch was written
}

// end tells the client why a stream ends, unless the client is the reason.
func (o *sse) end(err error, requestID string) {
	if errors.Is(err, errGone) || errors.Is(err, context.Canceled) {
		return
	}
	_ = o.frame("problem", problemJSON(problemOf(err, requestID)))
}
