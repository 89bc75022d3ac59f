package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// request is what the server knows of a request beside its HTTP form.
type request struct {
	id       string
	login    *login
	caller   command.Caller
	variable string // of the path
	// template is the route's pattern, for logs and metrics.
	template string
	err      error // what it failed with, for the log
	// known says that the answer is none to keep in the log.
	known bool
	// authorization is the header, for a node that the request is passed on to;
	// forwarded says that a node passed it on to us, and part that it is a part of what that
	// node does.
	authorization   string
	forwarded, part bool
	// socket says that the request is a WebSocket connection.
	socket bool
	// answer is notified when the answer was sent, for commands over HTTP.
	answer command.Answer
}

// tokenID names the caller's token, or is empty for a request without one.
func (q *request) tokenID() string {
	if q.login == nil {
		return ""
	}
	return q.login.TokenID
}

// serveHTTP carries a request through all checks to its handler.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	q := &request{id: requestID(r, s.opt.IDs), template: "other"}
	rec := &recorder{ResponseWriter: w, stops: s.isStopping}
	rec.timeout.Store(int64(s.opt.WriteTimeout))
	rec.coding, rec.mustCode = acceptedCoding(r.Header)
	if r.ProtoMajor > 1 {
		rec.patience = s.conns.patience
		s.conns.add(rec)
		defer s.conns.remove(rec)
	}
	h := w.Header()
	h.Set("X-Request-ID", q.id)
	h.Set("X-Content-Type-Options", "nosniff")
	s.metrics.inFlight.Add(1)
	defer q.answer.Sent()
	defer func() {
		s.metrics.inFlight.Add(-1)
		v := recover()
		aborted := isAbort(v)
		if v != nil && !aborted {
			s.answerPanic(rec, q, v)
		}
		took := time.Since(began)
		s.countRequest(r, rec, q, took)
		if !aborted {
			rec.deliver(r)
		}
		s.logRequest(r, rec, q, took)
		if aborted {
			panic(v)
		}
	}()
	if q.err = s.serveRequest(rec, r, q); q.err != nil && rec.status == 0 {
		if r.Context().Err() != nil && errors.Is(q.err, context.Canceled) {
			return // the client went away
		}
		if s.isStopping() { // the next server of this address may do it
			h.Set("Connection", "close")
			q.err = s.faultOf(q.err)
		}
		writeProblem(rec, q.err, q.id)
	}
}

// serveRequest checks a request and hands it to its handler.
func (s *Server) serveRequest(w *recorder, r *http.Request, q *request) error {
	if size := headerSize(r); size > s.opt.MaxHeader {
		w.Header().Set("Connection", "close")
		return s.boundReached(fault.HeaderTooLarge, "header", "the request's line and headers are larger than "+sizeWord(int64(s.opt.MaxHeader)))
	}
	if err := s.hosts.check(r); err != nil {
		return err
	}
	if err := s.checkForwarded(r); err != nil {
		return err
	}
	if r.ContentLength != 0 {
		// The connection also waits for a body that isn't read.
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(s.opt.BodyTimeout))
	}
	fits, variable := s.findRoutes(r.URL)
	q.variable = variable
	var m *Mount
	if len(fits) == 0 {
		m = s.findMount(r.URL.Path)
	}
	public := (len(fits) > 0 && fits[0].public) || (m != nil && m.Public)
	// Protocols of others have no use for a browser's cookie.
	if err := s.identify(r, q, public, len(fits) > 0); err != nil {
		return err
	}
	if !public {
		done, err := s.admitRequest(q.login.TokenID)
		if err != nil {
			return err
		}
		defer done()
		if l, ok := r.Context().Value(linkKey{}).(*link); ok && l.conn != nil {
			s.conns.beginAnswer(l.conn)
			defer s.conns.endAnswer(l.conn)
		}
	}
	switch rt := pickRoute(fits, r.Method); {
	case rt != nil:
		q.template = rt.pattern
		err := rt.handle(w, r, q)
		if to := q.forwardable(err); to != "" && rt.method == http.MethodGet && w.status == 0 {
			return s.forwardRead(w, r, q, to, err)
		}
		return err
	case len(fits) > 0:
		q.template = fits[0].pattern
		return wrongMethod(w, fits, r.Method)
	case m != nil:
		q.template = m.Prefix
		if id := r.Header.Get(leftHeader); q.forwarded && id != "" {
			s.passed.left(q.tokenID(), id)
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return s.serveMount(w, r, q, m)
	}
	return fault.New(fault.NotFound, "there is nothing at this address")
}

// identify finds the caller's identity.
func (s *Server) identify(r *http.Request, q *request, public, cookies bool) error {
	mark := r.Header.Get(forwardedHeader)
	q.forwarded, q.part = mark != "", mark == forwardedPart
	l, err := s.authenticate(r, cookies)
	if err != nil {
		if public {
			return nil
		}
		return err
	}
	q.login, q.caller = l, l.caller()
	q.caller.RequestID = q.id
	if q.caller.Workspace, err = workspaceOf(r.Header); err != nil {
		return err
	}
	q.authorization = "Bearer " + l.token
	q.caller.TraceID, q.caller.SpanID = traceOf(r.Header.Get("Traceparent"))
	if q.caller.TraceID != "" {
		q.caller.TraceState = event.ParseTraceState(strings.Join(r.Header.Values("Tracestate"), ","))
	}
	return nil
}

// requestID takes the caller's request id if it is one, and makes one otherwise.
func requestID(r *http.Request, ids *event.IDs) string {
	if id := r.Header.Get("X-Request-ID"); event.ValidID(id) {
		return id
	}
	return ids.New(event.PrefixRequest)
}

// traceOf reads a W3C traceparent header; one that doesn't fit counts as none.
func traceOf(header string) (trace, span string) {
	t, ok := event.ParseTraceParent(header)
	if !ok {
		return "", ""
	}
	return t.TraceID, t.SpanID
}

// headerSize is the size of a request's line and headers, about as they came.
func headerSize(r *http.Request) int {
	size := len(r.Method) + len(r.RequestURI) + len(r.Proto) + len(r.Host)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + 4
		}
	}
	return size
}

// isAbort reports whether a handler broke its answer off, so that the client doesn't take it
// for whole.
func isAbort(v any) bool {
	err, ok := v.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// answerPanic answers a request in which agentd has a defect.
func (s *Server) answerPanic(w *recorder, q *request, v any) {
	s.metrics.panics.Add(1)
	s.opt.Logger.Error("a request failed on an internal error", "panic", v, "requestId", q.id, "stack", string(debug.Stack()))
	if w.status == 0 {
		writeProblem(w, fault.New(fault.Internal, "something went wrong inside agentd; its log has more under this request id"), q.id)
	}
}

// methodOf is a request's method in metrics and logs.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

// countRequest counts a request. Who has its answer finds it counted.
func (s *Server) countRequest(r *http.Request, w *recorder, q *request, took time.Duration) {
	s.metrics.requests.get(q.template, methodOf(r), strconv.Itoa(w.status)).Add(1)
	s.metrics.latency.get(q.template).observe(took)
	s.metrics.sent.Add(w.bytes)
}

// RequestMessage is the message of the log's lines about requests.
const RequestMessage = "request"

// logRequest logs a request. No header and no query is logged: a token might be in them.
func (s *Server) logRequest(r *http.Request, w *recorder, q *request, took time.Duration) {
	level := slog.LevelInfo
	var f *fault.Error
	if q.err != nil {
		f = asFault(q.err)
		level = levelOf(f.Kind)
	}
	if q.known {
		level = slog.LevelDebug
	}
	if !s.opt.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", methodOf(r)), slog.String("path", q.template), slog.Int("status", w.status),
		slog.Float64("durationMs", float64(took.Microseconds())/1000), slog.Int64("bytes", w.bytes), slog.String("requestId", q.id),
	}
	if d, ok := command.Lookup(command.Name(q.variable)); ok && q.template == commandTemplate {
		attrs = append(attrs, slog.String("command", string(d.Name)))
	}
	if q.login != nil {
		attrs = append(attrs, slog.String("caller", q.login.Name))
	}
	if f != nil {
		attrs = append(attrs, slog.String("code", string(f.Kind)))
		if level > slog.LevelInfo {
			attrs = append(attrs, slog.Any("error", q.err))
		}
	}
	s.opt.Logger.LogAttrs(r.Context(), level, RequestMessage, attrs...)
}

// levelOf tells a caller's mistake, a bound that was reached and a defect apart.
func levelOf(k fault.Kind) slog.Level {
	if k == fault.Internal {
		return slog.LevelError
	}
	if k == fault.Unavailable || k == fault.RateLimited {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// recorder notes what is sent, and gives each write its deadline.
type recorder struct {
	http.ResponseWriter
	// timeout of a write, and what it becomes when the server stops.
	timeout  atomic.Int64
	patience time.Duration
	status   int
	bytes    int64
	// coding is how whole answers are compressed; mustCode says that the client refuses
	// others.
	coding   coding
	mustCode bool
	// secret says that the answer shows a secret; see [keepSecret].
	secret bool
	// begun, if set, is called when the answer begins.
	begun func()
	// stops reports whether the server does.
	stops func() bool
}

// begin notes the status with which an answer begins.
func (w *recorder) begin(status int) {
	w.status = status
	if h := w.Header(); status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" && w.stops != nil && w.stops() {
		h.Set("Retry-After", "1") // at every door, however it says the rest
	}
	if w.begun != nil {
		w.begun()
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(p []byte) (n int, err error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	for {
		w.deadline()
		m, err := w.ResponseWriter.Write(p[n:min(len(p), n+writePart)])
		n += m
		w.bytes += int64(m)
		if err != nil || n >= len(p) {
			return n, err
		}
	}
}

// writePart is how much has to be taken in within the time of one write: a large
// answer over a slow line takes long, but goes on.
const writePart = 64 << 10

// FlushError sends what is buffered; [http.ResponseController] calls it.
func (w *recorder) FlushError() error {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	w.deadline()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// deliver sends an answer that is whole: net/http would do so when the handler has
// returned, and the client would wait for the log. Over HTTP/2 it would take a frame
// more.
func (w *recorder) deliver(r *http.Request) {
	if r.ProtoMajor == 1 && w.status != 0 && w.Header().Get("Content-Length") != "" {
		// The last write's time is not over; if it fails, the client is gone.
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// deadline allows the next write its time. A writer that knows no deadlines, as
// in some tests, has none.
func (w *recorder) deadline() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(time.Duration(w.timeout.Load())))
}

// hurry bounds the write that is under way and those to come. It may be called
// beside them.
func (w *recorder) hurry() {
	w.timeout.Store(int64(w.patience))
	w.deadline()
}

// Unwrap lets [http.ResponseController] reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
