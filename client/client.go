// Package client talks to an agentd server over HTTP.
//
// # Contract
//
// [Client.Do] and [Call] carry out one command. [Client.Events] reads a page of a
// session's events, [Client.Follow] its stream: every event once and in order,
// also across broken connections. [Client.Output] reads the bytes behind a
// reference.
//
// Every error is a [fault.Error] with the kind that the server gave it; what
// doesn't reach a server, or not as agentd answers, is Unavailable. No command is
// sent twice by itself: to repeat one, give it an idempotency key.
//
// A Client may be used by many goroutines. It starts none. The package depends on
// command, event, fault and the codecs of internal/wire only.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// Options configure a [Client]. Nil and the zero value are valid.
type Options struct {
	// Token is sent as the bearer token; none if empty.
	Token string
	// HTTPClient carries the requests. It must have no Timeout if streams are
	// followed. If nil, one is made.
	HTTPClient *http.Client
	// UnixSocket is the path of the socket that the server listens on; the base
	// address then only names the server. It excludes HTTPClient.
	UnixSocket string
	// MaxAnswerBytes bounds an answer that isn't a stream or an output. If zero,
	// 256 MiB.
	MaxAnswerBytes int64
	// StallTimeout ends a stream on which nothing arrives, not even a heartbeat,
	// for that long; it is then followed again. If zero, 45 s.
	StallTimeout time.Duration
	// MinBackoff and MaxBackoff bound how long is waited before a stream is
	// followed again. If zero, 100 ms and 10 s.
	MinBackoff, MaxBackoff time.Duration
}

// Client is a connection to one server.
type Client struct {
	base *url.URL
	opt  Options
	http *http.Client
}

// New returns a client for the server at base, such as "http://127.0.0.1:8700".
// With a Unix socket base may be empty.
func New(base string, opt *Options) (*Client, error) {
	c := &Client{}
	if opt != nil {
		c.opt = *opt
	}
	if base == "" && c.opt.UnixSocket != "" {
		base = "http://localhost"
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("client: %q is not the address of a server such as http://127.0.0.1:8700", base)
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	u.Path = strings.TrimSuffix(u.Path, "/")
	c.base = u
	if c.http, err = httpClient(u, &c.opt); err != nil {
		return nil, err
	}
	setDefaults(&c.opt)
	return c, nil
}

// onThisMachine reports whether a server's answers never leave the machine, where
// compressing them costs more than it spares.
func onThisMachine(u *url.URL, opt *Options) bool {
	address := net.ParseIP(u.Hostname())
	return opt.UnixSocket != "" || u.Hostname() == "localhost" || address.IsLoopback()
}

func httpClient(u *url.URL, opt *Options) (*http.Client, error) {
	switch {
	case opt.UnixSocket != "" && opt.HTTPClient != nil:
		return nil, errors.New("client: set either UnixSocket or HTTPClient, not both")
	case opt.HTTPClient != nil:
		return opt.HTTPClient, nil
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true, DisableCompression: onThisMachine(u, opt)}
	if socket := opt.UnixSocket; socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}
	}
	return &http.Client{Transport: t}, nil
}

func setDefaults(opt *Options) {
	opt.MaxAnswerBytes = cmp.Or(opt.MaxAnswerBytes, 256<<20)
	opt.StallTimeout = cmp.Or(opt.StallTimeout, 45*time.Second)
	opt.MinBackoff = cmp.Or(opt.MinBackoff, 100*time.Millisecond)
	opt.MaxBackoff = max(cmp.Or(opt.MaxBackoff, 10*time.Second), opt.MinBackoff)
}

// Close gives up connections that are kept open for reuse. Requests under way go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Do carries out a command and stores its result in what result points to; nil
// drops it.
func (c *Client) Do(ctx context.Context, p command.Params, result any) error {
	body, err := json.Marshal(p)
	if err != nil {
		return fault.Wrap(fault.InvalidParams, err, "the parameters of %s can't be encoded", p.Command())
	}
	req, err := c.request(ctx, http.MethodPost, "/v1/commands/"+string(p.Command()), nil, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.json(req, result)
}

// Call carries out a command and returns its result:
//
//	turn, err := client.Call[command.SubmitTurnResult](ctx, c, &command.SubmitTurn{…})
func Call[R any](ctx context.Context, c *Client, p command.Params) (*R, error) {
	result := new(R)
	if err := c.Do(ctx, p, result); err != nil {
		return nil, err
	}
	return result, nil
}

// request makes a request with the token. Each element of the path is escaped
// already.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidParams, err, "the request can't be made")
	}
	if c.opt.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opt.Token)
	}
	return req, nil
}

// send carries out a request. An answer that is an error is closed and returned
// as a fault.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer closeBody(res.Body)
	return nil, answerFault(res)
}

// json carries out a request whose answer is JSON.
func (c *Client) json(req *http.Request, result any) error {
	req.Header.Set("Accept", "application/json")
	res, err := c.send(req) //nolint:bodyclose // closeBody closes it
	if err != nil {
		return err
	}
	defer closeBody(res.Body)
	data, err := io.ReadAll(io.LimitReader(res.Body, c.opt.MaxAnswerBytes+1))
	if err != nil {
		return unreachable(err)
	}
	if int64(len(data)) > c.opt.MaxAnswerBytes {
		return fault.New(fault.Unavailable, "the answer is larger than %d bytes", c.opt.MaxAnswerBytes)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(data, result); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the answer is not from agentd, or from an incompatible version")
	}
	return nil
}

// unreachable classifies a failure of the transport. The cause stays in the
// chain, so that a cancelled context can be told.
func unreachable(err error) error {
	return fault.Wrap(fault.Unavailable, err, "the server can't be reached")
}

// answerFault turns an answer with an error status into a fault: the problem
// document, or, from something in between that isn't agentd, the status alone.
func answerFault(res *http.Response) *fault.Error {
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if p, ok := wire.DecodeProblem(data); ok && err == nil {
		f := p.Err()
		if f.RetryAfter == 0 {
			f.RetryAfter = retryAfter(res)
		}
		return f
	}
	f := fault.New(kindOf(res.StatusCode), "the server answered %s", res.Status)
	f.RetryAfter = retryAfter(res)
	return f
}

// kindOf returns the kind that an HTTP status stands for.
func kindOf(status int) fault.Kind {
	for _, d := range fault.Table() {
		if d.HTTP == status {
			return d.Kind
		}
	}
	return fault.Unavailable
}

func retryAfter(res *http.Response) time.Duration {
	const day = 24 * 60 * 60
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, day)) * time.Second
}

// closeBody gives the connection back; what is left of an answer is dropped.
func closeBody(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// backoff is how long to wait after the given number of failures in a row: it
// doubles, with a spread so that many clients don't come back at once.
func (c *Client) backoff(failures int) time.Duration {
	d := c.opt.MinBackoff
	for i := 1; i < failures && d < c.opt.MaxBackoff; i++ {
		d *= 2
	}
	d = min(d, c.opt.MaxBackoff)
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, protects nothing
}
