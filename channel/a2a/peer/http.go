package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel/a2a/dial"
)

// What can go wrong with a peer beyond what the protocol names.
var (
	errTooLarge = errors.New("the answer is too large")
	errRedirect = errors.New("the peer redirects to another origin, which is not followed")
	errSilent   = errors.New("the peer sent nothing for too long")
	errNonsense = errors.New("the answer doesn't follow the protocol")
	errSilence  = errors.New("the stream ended without an event")
)

// statusError is an answer with an HTTP status that is no answer of the protocol.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the peer answered with %d %s", e.code, http.StatusText(e.code))
}

// door is the way to one peer: its transport, and what may be reached through it.
type door struct {
	peer *Peer
	// home is the host of the card.
	home string
	// maxBody bounds an answer, silence a stream.
	maxBody int64
	silence time.Duration
	base    *http.Transport
}

func newDoor(p *Peer, home string, opt *Options) *door {
	d := &door{peer: p, home: home, maxBody: opt.MaxBody, silence: opt.Silence}
	d.base = dial.Guarded(func(host string) bool { return p.AllowPrivate && d.allowsHost(host) }, opt.Timeout)
	return d
}

// allowsHost reports whether a host is the card's own, or allowed beside it.
func (d *door) allowsHost(host string) bool { return host == d.home || listsHost(d.peer.Hosts, host) }

func (d *door) close() { d.base.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper]. The token goes to the peer's own hosts
// only.
func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", "agentd")
	if d.peer.Token != nil && d.allowsHost(hostPort(req.URL)) {
		if token := d.peer.Token(); token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	res, err := d.base.RoundTrip(req)
	if err != nil {
		return nil, err //nolint:wrapcheck // http.Client says what it was about
	}
	if err := refusedBy(req, res); err != nil {
		_ = res.Body.Close() // its content is not looked at
		return nil, err
	}
	res.Body = d.bound(req, res)
	return res, nil
}

// refusedBy tells answers that are none of the protocol: by their status, or by
// their type.
func refusedBy(req *http.Request, res *http.Response) error {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	structured := err == nil && (kind == "application/json" || kind == "application/a2a+json")
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusTooManyRequests,
		code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return &statusError{code}
	case code >= 400 && !structured:
		return &statusError{code}
	case code == http.StatusOK && req.Header.Get("Accept") == "text/event-stream" && kind != "text/event-stream":
		return fmt.Errorf("%w: %s in place of a stream", errNonsense, kind)
	}
	return nil
}

// bound holds an answer to its size and a stream to its silence.
func (d *door) bound(req *http.Request, res *http.Response) io.ReadCloser {
	if req.Header.Get("Accept") != "text/event-stream" {
		return &bounded{body: res.Body, left: d.maxBody}
	}
	b := &bounded{body: res.Body, left: -1, silence: d.silence}
	b.timer = time.AfterFunc(d.silence, func() {
		b.silent.Store(true)
		_ = res.Body.Close() // that ends the read
	})
	return b
}

// bounded is a body that ends with an error when it is too large or too slow.
type bounded struct {
	body    io.ReadCloser
	left    int64 // -1: no bound
	silence time.Duration
	timer   *time.Timer
	silent  atomic.Bool
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return b.past()
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.body.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if b.timer != nil && err == nil {
		b.timer.Reset(b.silence)
	}
	if b.silent.Load() {
		return n, errSilent
	}
	return n, err //nolint:wrapcheck // io.EOF must stay what it is
}

// past tells the end of a body that fits exactly from one that is too large.
func (b *bounded) past() (int, error) {
	var one [1]byte
	n, err := b.body.Read(one[:])
	if n > 0 {
		return 0, errTooLarge
	}
	return 0, err //nolint:wrapcheck // io.EOF must stay what it is
}

func (b *bounded) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	return b.body.Close() //nolint:wrapcheck // as it is
}

// traced reports, of a request under the context, whether it reached a connection.
func traced(ctx context.Context) (context.Context, *atomic.Bool) {
	var reached atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }}), &reached
}

// kind says what an error means for what is to be done.
type kind int

const (
	// down: for now; trying again may help.
	down kind = iota
	// unauthorized: for now; the credential may be corrected.
	unauthorized
	// gone: the peer doesn't know the task.
	gone
	// refused: the peer or a rule of ours says no, and will again.
	refused
	// tooLarge: what the peer has is more than what is taken.
	tooLarge
)

// errorKinds says which errors mean what; the first that fits counts.
var errorKinds = []struct {
	err  error
	kind kind
}{
	{errTooLarge, tooLarge},
	{dial.ErrRefused, refused},
	{errRedirect, refused},
	{proto.ErrTaskNotFound, gone},
	{proto.ErrUnauthenticated, unauthorized},
	{proto.ErrUnauthorized, unauthorized},
	{proto.ErrVersionNotSupported, refused},
	{proto.ErrExtensionSupportRequired, refused},
	{proto.ErrUnsupportedContentType, refused},
	{proto.ErrUnsupportedOperation, refused},
	{proto.ErrMethodNotFound, refused},
	{proto.ErrInvalidParams, refused},
	{proto.ErrInvalidRequest, refused},
}

func kindOf(err error) kind {
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		switch {
		case s.code == http.StatusUnauthorized, s.code == http.StatusForbidden:
			return unauthorized
		case s.code >= 400 && s.code < 500 && s.code != http.StatusTooManyRequests && s.code != http.StatusRequestTimeout:
			return refused
		}
	}
	return down
}

// unsent reports whether a request that failed can't have been taken: it never
// reached the peer, or the peer said so.
func unsent(err error, reached bool) bool {
	if !reached {
		return true
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.code < 500 || s.code == http.StatusServiceUnavailable
	}
	switch kindOf(err) {
	case unauthorized, refused:
		return true
	case down, gone, tooLarge:
	}
	return false
}
