package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
	"agentd/transfer"
)

// Repair marks a gap in a stream or a page: events that the cursor asks for and
// that can't be redelivered. The session's snapshot replaces them.
type Repair struct {
	SessionID string `json:"sessionId"`
	// RecoveryMode is snapshot_repair.
	RecoveryMode string `json:"recoveryMode"`
	// Reason is retention, or cursor_past_end for a cursor that this store never
	// gave out.
	Reason string `json:"reason"`
	// Status is unavailable for events that are gone, stale for a cursor that is
	// not this store's.
	Status string `json:"status"`
	// GapFrom and GapTo are the first and the last sequence that is missing.
	GapFrom uint64 `json:"gapFrom"`
	GapTo   uint64 `json:"gapTo"`
	// ContinuesAfter is the sequence after which the stream goes on.
	ContinuesAfter uint64 `json:"continuesAfter"`
}

// streamPosition decides where a stream or a page begins: at the cursor, or, when that
// can't be redelivered from, elsewhere with a marked gap.
func streamPosition(sessionID string, after, oldest, last uint64) (from uint64, gap *Repair) {
	switch {
	case after > last:
		return last, &Repair{
			SessionID: sessionID, RecoveryMode: "snapshot_repair", Reason: "cursor_past_end", Status: "stale",
			GapFrom: last + 1, GapTo: after, ContinuesAfter: last,
		}
	case oldest > 0 && after < oldest-1:
		return oldest - 1, &Repair{
			SessionID: sessionID, RecoveryMode: "snapshot_repair", Reason: "retention", Status: "unavailable",
			GapFrom: after + 1, GapTo: oldest - 1, ContinuesAfter: oldest - 1,
		}
	}
	return after, nil
}

// locateCursor asks the backend what place needs to know. An id that is none can't
// exist, whatever tricks are in it.
func (s *Server) locateCursor(ctx context.Context, c command.Caller, sessionID string, after uint64) (from uint64, gap *Repair, err error) {
	if !event.ValidID(sessionID) {
		return 0, nil, fault.New(fault.NotFound, "there is no session %s", wire.Clip(sessionID))
	}
	oldest, err := s.backend.Oldest(ctx, c, sessionID)
	if err != nil {
		return 0, nil, err
	}
	_, last, err := s.backend.Events(ctx, c, sessionID, after, 0)
	if err != nil {
		return 0, nil, err
	}
	from, gap = streamPosition(sessionID, after, oldest, last)
	return from, gap, nil
}

// serveEvents answers GET /v1/sessions/{id}/events.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request, q *request) error {
	eq, err := parseQuery(r)
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept")
	if acceptsSSE(r.Header) {
		return s.serveSessionStream(w, r, q, eq)
	}
	if eq.channelID != "" {
		return fault.Param("channelId", "is only allowed for streams: send Accept: text/event-stream")
	}
	if eq.snapshot {
		return fault.Param("snapshot", "is only allowed for streams: send Accept: text/event-stream, or call get_session")
	}
	cloudEvents := acceptsType(r.Header, transfer.CloudEventsType)
	if cloudEvents && eq.filter.items {
		return fault.Param("view", "items can't be sent as CloudEvents; use view=events")
	}
	body, link, err := s.pageBody(r, q, eq, cloudEvents)
	if err != nil {
		return err
	}
	held := s.chargeFor(q)
	defer held.release()
	if err := held.chargeAnswer(len(body), false); err != nil {
		return err
	}
	if cloudEvents {
		return writeCloudEvents(w, body, link)
	}
	return writeJSON(w, body)
}

// pageBody returns a page in the form that is asked for, and where to go on if
// the form has no place for it. It counts as a read until it is made, not until
// the client took it in.
func (s *Server) pageBody(r *http.Request, q *request, eq *eventQuery, cloudEvents bool) (body []byte, link string, err error) {
	leave, err := s.admitCommand(r.Context(), q, false)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	p, err := s.readPage(r.Context(), q.caller, q.variable, eq)
	if err != nil {
		return nil, "", err
	}
	if cloudEvents {
		body, err = p.cloudEvents()
		return body, p.next(r), err
	}
	return p.json(), "", nil
}

// cloudEvents returns a page as a batch of CloudEvents.
func (p *page) cloudEvents() ([]byte, error) {
	body := []byte{'['}
	for i, data := range p.events {
		if i > 0 {
			body = append(body, ',')
		}
		c, err := transfer.CloudEvent(data)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "an event can't be written as a CloudEvent")
		}
		body = append(body, c...)
	}
	return append(body, ']'), nil
}

// next is a Link header to the next page, empty if this is the last.
func (p *page) next(r *http.Request) string {
	if p.nextAfter >= p.last {
		return ""
	}
	next := r.URL.Query() // the next page has the same filter
	next.Del("lastEventId")
	next.Set("after", strconv.FormatUint(p.nextAfter, 10))
	return "<?" + next.Encode() + `>; rel="next"`
}

// writeCloudEvents sends a batch of CloudEvents. Where to go on says a Link header,
// because the batch has no place for it.
func writeCloudEvents(w http.ResponseWriter, body []byte, link string) error {
	if link != "" {
		w.Header().Set("Link", link)
	}
	w.Header().Set("Content-Type", transfer.CloudEventsType)
	w.Header().Set("Cache-Control", "no-store")
	return writeBody(w, http.StatusOK, body)
}

// acceptsSSE reports whether a client asks for a stream.
func acceptsSSE(h http.Header) bool { return acceptsType(h, wire.SSEType) }

// acceptsType reports whether a client names a media type, and doesn't like plain JSON
// better.
func acceptsType(h http.Header, want string) bool {
	wanted, plain := 0.0, 0.0
	for _, v := range h.Values("Accept") {
		for part := range strings.SplitSeq(v, ",") {
			media, params, _ := strings.Cut(part, ";")
			switch media = strings.TrimSpace(media); {
			case strings.EqualFold(media, want):
				wanted = max(wanted, quality(params))
			case strings.EqualFold(media, "application/json"):
				plain = max(plain, quality(params))
			}
		}
	}
	return wanted > 0 && wanted >= plain
}

// quality reads how much a client likes a media type: 1, if it doesn't say.
func quality(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		if name, value, ok := strings.Cut(p, "="); ok && strings.EqualFold(strings.TrimSpace(name), "q") {
			if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				return q
			}
		}
	}
	return 1
}

// page is an answer with events.
type page struct {
	events    [][]byte
	last      uint64
	nextAfter uint64
	gap       *Repair
}

// maxScan bounds the events that one filtered page reads: a filter that fits
// little must not make one request read a whole session. The client goes on with
// nextAfter.
const maxScan = 10 * maxPage

// readPage reads events until the page is full, the session ends or maxScan.
func (s *Server) readPage(ctx context.Context, c command.Caller, sessionID string, q *eventQuery) (*page, error) {
	from, gap, err := s.locateCursor(ctx, c, sessionID, q.after)
	if err != nil {
		return nil, err
	}
	p := &page{nextAfter: from, gap: gap}
	for scanned := 0; ; {
		events, last, err := s.backend.Events(ctx, c, sessionID, p.nextAfter, q.limit)
		if err != nil {
			return nil, err
		}
		p.last = last
		for i := range events {
			out, err := q.filter.apply(&events[i])
			if err != nil {
				return nil, err
			}
			// An event's items stay together, since nextAfter can't point between them.
			if len(p.events) > 0 && len(p.events)+len(out) > q.limit {
				return p, nil
			}
			p.events = append(p.events, out...)
			p.nextAfter = events[i].Sequence
		}
		scanned += len(events)
		if len(events) == 0 || p.nextAfter >= last || len(p.events) >= q.limit || scanned >= maxScan {
			return p, nil
		}
	}
}

func (p *page) json() []byte {
	size := 128
	for _, e := range p.events {
		size += len(e) + 1
	}
	out := append(make([]byte, 0, size), `{"events":[`...)
	for i, e := range p.events {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	tail := mustMarshal(struct {
		LastSequence uint64  `json:"lastSequence"`
		NextAfter    uint64  `json:"nextAfter"`
		Gap          *Repair `json:"gap,omitempty"`
	}{p.last, p.nextAfter, p.gap})
	out = append(out, "],"...)
	return append(out, tail[1:]...)
}
