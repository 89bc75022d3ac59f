package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxStreamRetries lets the SDK resume a stream for as long as it likes: a proxy
// that cuts idle streams must not end the session, and with it the calls in it.
// That the server is gone shows in refused connections, which end it at once.
const maxStreamRetries = 1 << 20

// maxRedirects of one request, all within its origin.
const maxRedirects = 5

// httpCarrier is a server over streamable HTTP.
type httpCarrier struct {
	*sdk.StreamableClientTransport

	base   *http.Transport
	trip   *roundTripper
	cancel context.CancelFunc
}

func newHTTP(s *server, lost func(error)) *httpCarrier {
	cfg := s.cfg
	base := http.DefaultTransport.(*http.Transport).Clone()
	ctx, cancel := context.WithCancel(context.Background())
	trip := &roundTripper{ctx: ctx, base: base, headers: http.Header{}, lost: lost, server: s}
	for k, v := range cfg.Headers {
		trip.headers.Set(k, v)
	}
	return &httpCarrier{
		StreamableClientTransport: &sdk.StreamableClientTransport{
			Endpoint:     cfg.URL,
			HTTPClient:   &http.Client{Transport: trip, CheckRedirect: sameOrigin},
			MaxRetries:   maxStreamRetries,
			MaxEventSize: 2*maxMessage + 4096,
		},
		base: base, trip: trip, cancel: cancel,
	}
}

// stop implements carrier.
func (c *httpCarrier) stop(closed <-chan struct{}) {
	if closed != nil {
		timer := time.NewTimer(drainGrace)
		defer timer.Stop()
		select {
		case <-closed:
		case <-timer.C:
		}
	}
	c.abort()
	c.base.CloseIdleConnections()
}

// abort implements carrier: no request outlives it, not even the SDK's farewells.
func (c *httpCarrier) abort() { c.cancel() }

// because implements carrier.
func (c *httpCarrier) because() string { return "" }

// reached implements carrier.
func (c *httpCarrier) reached() bool {
	c.trip.mu.Lock()
	defer c.trip.mu.Unlock()
	return c.trip.answered
}

// sameOrigin keeps redirects, and so the configured headers, with the server.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return fmt.Errorf("the server redirects to another origin, %s://%s", req.URL.Scheme, req.URL.Host)
	}
	if len(via) > maxRedirects {
		return errors.New("the server redirects too often")
	}
	return nil
}

// roundTripper adds the configured headers, notes what becomes of requests, and
// bounds and repairs what comes back.
type roundTripper struct {
	// ctx ends all requests.
	ctx     context.Context
	base    http.RoundTripper
	headers http.Header
	lost    func(error)
	server  *server

	mu       sync.Mutex
	answered bool
}

// RoundTrip implements http.RoundTripper.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	noted := deliveryOf(req.Context())
	ctx, cancel := context.WithCancel(req.Context())
	release := context.AfterFunc(t.ctx, cancel)
	req = req.Clone(ctx)
	for k, v := range t.headers {
		if req.Header.Get(k) == "" {
			req.Header[k] = v
		}
	}
	if err := t.authorize(req); err != nil {
		defer cancel()
		defer release()
		noted.recordSend(false, 0, false)
		return nil, err
	}
	var wrote atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}))
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		defer cancel()
		defer release()
		noted.recordSend(wrote.Load(), 0, false)
		if !wrote.Load() && req.Context().Err() == nil {
			t.lost(fmt.Errorf("the server can't be reached: %w", err))
		}
		return nil, err
	}
	expired := resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != "" && req.Method != http.MethodDelete
	noted.recordSend(true, resp.StatusCode, expired)
	if resp.StatusCode == http.StatusUnauthorized {
		t.server.noteUnauthorized()
	}
	t.mu.Lock()
	t.answered = true
	t.mu.Unlock()
	if expired {
		t.lost(errors.New("the server ended the session"))
	}
	resp.Body = t.body(req, resp, func() {
		release()
		cancel()
	})
	return resp, nil
}

// authorize adds the token that a user chose. It is for the server's own address:
// a redirect leads nowhere else.
func (t *roundTripper) authorize(req *http.Request) error {
	token, err := t.server.bearer()
	if err != nil || token == "" {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// body bounds and repairs an answer.
func (t *roundTripper) body(req *http.Request, resp *http.Response, release func()) io.ReadCloser {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	next := nextAll
	ended := func(error) {}
	if kind == "text/event-stream" {
		next = nextEvent
		if req.Header.Get("Mcp-Method") == "subscriptions/listen" {
			// The SDK doesn't open it again, and changes would go unheard.
			ended = func(error) { t.lost(errors.New("the server ended the subscription to changes")) }
		}
	}
	// The length of what is repaired is another one.
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	return &repaired{src: resp.Body, in: bufio.NewReader(resp.Body), next: next, ended: ended, release: release}
}

// repaired is the body of an answer, message by message.
type repaired struct {
	src   io.ReadCloser
	in    *bufio.Reader
	next  func(*bufio.Reader) ([]byte, error)
	ended func(error)
	// release is called when it is closed.
	release func()
	rest    []byte
	err     error
}

// Read implements io.Reader.
func (r *repaired) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.rest, r.err = r.next(r.in)
		if r.err != nil {
			r.ended(r.err)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *repaired) Close() error {
	defer r.release()
	return r.src.Close()
}

// nextAll reads a body that is one message.
func nextAll(in *bufio.Reader) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(in, maxMessage+1))
	switch {
	case err != nil:
		return nil, err
	case len(all) > maxMessage:
		return nil, errTooLarge
	default:
		return repair(all), io.EOF
	}
}

// nextEvent reads a server-sent event and repairs its data.
func nextEvent(in *bufio.Reader) ([]byte, error) {
	var out, data []byte
	for size := 0; ; {
		line, err := readLine(in, maxMessage)
		if err != nil {
			return nil, err // An event without its end is none.
		}
		if size += len(line); size > maxMessage {
			return nil, errTooLarge
		}
		text := bytes.TrimRight(line, "\r\n")
		switch {
		case len(text) == 0:
			return append(append(out, eventData(data)...), '\n'), nil
		case bytes.HasPrefix(text, []byte("data:")):
			text = bytes.TrimPrefix(text[len("data:"):], []byte(" "))
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, text...)
		default:
			out = append(append(out, text...), '\n')
		}
	}
}

// eventData writes the data lines of an event.
func eventData(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	var out strings.Builder
	for line := range bytes.Lines(repair(data)) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\n"))
		out.WriteByte('\n')
	}
	return []byte(out.String())
}
