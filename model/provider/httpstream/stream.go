package httpstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"agentd/internal/clip"
	"agentd/model"
)

// Exchange is one request and how its answer is read.
type Exchange struct {
	// Path below the base URL, escaped.
	Path string
	// Query is added to the base URL's.
	Query url.Values
	// Header holds the vendor's headers, among them the one with the key.
	Header http.Header
	// Body of the request.
	Body Body
	// Decoder of the answer.
	Decoder Decoder
}

// Stream sends the request that make builds, once for each iteration, and plays
// the answer. See the package comment.
func (c *Conn) Stream(ctx context.Context, r *model.Request, build func() Exchange) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		a := newAnswer(r, yield, c.maxAnswer)
		x := &exchange{conn: c, caller: ctx, answer: a}
		err := x.run(build())
		switch {
		case a.stopped:
		case err != nil:
			yield(model.Chunk{}, x.clean(err))
		default:
			a.done.Raw, a.done.Standing = x.raw(), x.standing
			yield(model.Chunk{Done: a.done}, nil)
		}
	}
}

// exchange is one request under way.
type exchange struct {
	conn     *Conn
	caller   context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc
	answer   *Answer
	tap      *tap
	standing *model.Standing
}

var (
	errIdle      = errors.New("the server sent nothing for too long")
	errTooMuch   = errors.New("the body is too long")
	errTooLong   = errors.New("the answer is too long")
	errDrainTime = errors.New("the connection wasn't closed in time")
)

// drainFor is how long the end of the connection is waited for after the end of
// the answer, so that the connection can be used again. It is there already,
// unless the server is odd.
const drainFor = 20 * time.Millisecond

func (x *exchange) run(e Exchange) error {
	x.ctx, x.cancel = context.WithCancelCause(x.caller)
	defer x.cancel(nil)
	if x.conn.baseErr != nil {
		return &model.Error{Category: model.InvalidRequest, Message: x.conn.baseErr.Error()}
	}
	req, err := x.conn.request(x.ctx, x.answer.req, e)
	if err != nil {
		return &model.Error{Category: model.InvalidRequest, Message: "the request can't be made: " + err.Error()}
	}
	timer := time.AfterFunc(x.conn.idle, func() { x.cancel(errIdle) })
	resp, err := x.conn.client.Do(req)
	timer.Stop()
	if err != nil {
		return x.broken(err, false)
	}
	defer resp.Body.Close()
	x.standing = standingOf(resp.Header)
	x.tap = &tap{in: resp.Body, idle: x.conn.idle, cancel: x.cancel, limit: x.conn.maxBody, keep: MaxRaw + x.conn.secrets.longest()}
	if resp.StatusCode/100 != 2 {
		return x.refused(resp)
	}
	if err := x.read(e.Decoder); err != nil {
		return err
	}
	x.drain()
	return nil
}

// request makes the HTTP request.
func (c *Conn) request(ctx context.Context, r *model.Request, e Exchange) (*http.Request, error) {
	target := c.base.JoinPath(e.Path)
	if len(e.Query) > 0 {
		q := target.Query()
		maps.Copy(q, e.Query)
		target.RawQuery = q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), e.Body.reader())
	if err != nil {
		return nil, err
	}
	req.ContentLength = e.Body.Len()
	req.GetBody = func() (io.ReadCloser, error) { return e.Body.reader(), nil }
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "agentd")
	setIf(req.Header, "Traceparent", r.TraceParent)
	setIf(req.Header, "Tracestate", r.TraceState)
	setIf(req.Header, "X-Client-Request-Id", r.RequestID)
	for k, v := range e.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	return req, nil
}

func setIf(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

// read plays the body. What it is shows in its first character: the type that
// servers and proxies claim is often wrong.
func (x *exchange) read(d Decoder) error {
	in := buffers.Get().(*bufio.Reader)
	in.Reset(x.tap)
	defer func() {
		in.Reset(nil)
		buffers.Put(in)
	}()
	first, err := firstOf(in)
	switch {
	case errors.Is(err, io.EOF):
		return x.broken(io.EOF, true)
	case err != nil:
		return x.broken(err, true)
	case first == '<':
		return x.webPage(http.StatusOK)
	case first == '{' || first == '[':
		return x.readWhole(in, d)
	}
	return x.readStream(in, d)
}

// buffers are those through which answers are read: a turn reads many, and most
// are smaller than the buffer.
var buffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, bufferSize) }}

func (x *exchange) readStream(in io.Reader, d Decoder) error {
	events := NewReader(in, x.conn.maxEvent)
	for {
		e, err := events.Next()
		if err != nil {
			return x.endStream(d, err)
		}
		if err := d.Event(e, x.answer); err != nil {
			return asMalformed(err, e.Data)
		}
		if x.answer.tooLong() {
			return x.broken(errTooLong, true)
		}
		if x.answer.done != nil || x.answer.stopped {
			return nil
		}
		if x.caller.Err() != nil {
			return interruptedError(x.caller)
		}
	}
}

// endStream is the end of a stream that the decoder didn't see coming. The answer
// may still be whole: servers forget their last event.
func (x *exchange) endStream(d Decoder, cause error) error {
	if x.caller.Err() != nil {
		return interruptedError(x.caller)
	}
	if errors.Is(cause, errEventTooLong) || errors.Is(cause, errTooMuch) {
		return x.broken(cause, true)
	}
	err := d.End(x.answer)
	if err == nil && x.answer.done != nil {
		return nil
	}
	if err != nil && errors.Is(cause, io.EOF) {
		return asMalformed(err, nil)
	}
	return x.broken(cause, true)
}

func (x *exchange) readWhole(in io.Reader, d Decoder) error {
	body, err := io.ReadAll(io.LimitReader(in, int64(x.conn.maxEvent)+1))
	switch {
	case err != nil:
		return x.broken(err, true)
	case len(body) > x.conn.maxEvent:
		return x.broken(errEventTooLong, true)
	}
	if f := ParseFailure(body); f != nil {
		return f.Error()
	}
	if err := d.Whole(body, x.answer); err != nil {
		return asMalformed(err, body)
	}
	if x.answer.tooLong() {
		return x.broken(errTooLong, true)
	}
	if x.answer.done == nil && !x.answer.stopped {
		return malformed("the server sent JSON that is not an answer: %s", clip.Valid(string(body), maxShown))
	}
	return nil
}

// refused reads the body of an answer that says no.
func (x *exchange) refused(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(x.tap, int64(x.tap.keep)))
	if x.caller.Err() != nil {
		return interruptedError(x.caller)
	}
	if err != nil && len(body) == 0 {
		body = nil // the status says enough
	}
	if isWebPage(body) {
		return x.headers(x.webPage(resp.StatusCode), resp.Header)
	}
	f := ParseFailure(body)
	if f == nil {
		f = &Failure{Message: clip.Valid(strings.TrimSpace(string(x.conn.secrets.cut(body))), maxShown)}
	}
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode/100 == 3 {
		f.Message = "the server redirects to " + shownURL(location) + "; set that as the base URL if it is meant"
	}
	f.HTTPStatus = resp.StatusCode
	return x.headers(f.Error(), resp.Header)
}

// headers adds what the headers of a refusal say.
func (x *exchange) headers(err error, h http.Header) error {
	var e *model.Error
	if !errors.As(err, &e) {
		return err
	}
	if after, ok := retryAfter(h, time.Now()); ok {
		e.RetryAfter = after
	}
	switch h.Get("X-Should-Retry") {
	case "true":
		e.Retryable = true
	case "false":
		e.Retryable = false
	}
	return e
}

func (x *exchange) webPage(status int) error {
	e := pageError(status, x.conn.secrets.cut(x.tap.kept))
	return e
}

// clean makes the error fit to be recorded: it takes secrets out, and adds what
// the server sent.
func (x *exchange) clean(err error) error {
	var e *model.Error
	if !errors.As(err, &e) {
		e = &model.Error{Category: model.Malformed, Message: err.Error(), Retryable: true}
	}
	out := *e
	out.Message = clip.Valid(x.conn.secrets.cutString(e.Message), maxMessage)
	out.Raw, out.Standing = x.raw(), x.standing
	return &out
}

// raw is what the server sent, up to the bound, without secrets.
func (x *exchange) raw() []byte {
	if x.tap == nil || len(x.tap.kept) == 0 {
		return nil
	}
	b := x.conn.secrets.cut(x.tap.kept)
	return bytes.Clone(b[:min(len(b), MaxRaw)])
}

// drain reads to the end of the body, which gives the connection back.
func (x *exchange) drain() {
	timer := time.AfterFunc(drainFor, func() { x.cancel(errDrainTime) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, x.tap.in, 64<<10) // a connection that can't be used again is closed
}

// tap reads a body. It watches for silence, keeps the beginning, and bounds the
// whole. Silence is measured while it reads: a consumer that takes its time is
// not the server's fault.
type tap struct {
	in     io.Reader
	idle   time.Duration
	cancel context.CancelCauseFunc
	limit  int64
	keep   int
	kept   []byte
	total  int64
	timer  *time.Timer
}

// Read implements [io.Reader].
func (t *tap) Read(p []byte) (int, error) {
	if t.total >= t.limit {
		return 0, errTooMuch
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(t.idle, func() { t.cancel(errIdle) })
	} else {
		t.timer.Reset(t.idle)
	}
	n, err := t.in.Read(p)
	t.timer.Stop()
	t.total += int64(n)
	if room := t.keep - len(t.kept); room > 0 {
		t.kept = append(t.kept, p[:min(n, room)]...)
	}
	return n, err
}

// firstOf returns the first character that is no space, and leaves it there. A body
// that begins with more space than anyone sends is taken for a stream.
func firstOf(in *bufio.Reader) (byte, error) {
	for {
		_, err := in.Peek(in.Buffered() + 1)
		there, _ := in.Peek(in.Buffered()) // it is there
		begun := bytes.TrimLeft(bytes.TrimPrefix(there, []byte("\xEF\xBB\xBF")), " \t\r\n")
		switch {
		case len(begun) > 0:
			return begun[0], nil
		case errors.Is(err, bufio.ErrBufferFull):
			return ' ', nil
		case err != nil:
			return 0, err
		}
	}
}
