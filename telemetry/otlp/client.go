package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"agentd/telemetry"
)

// Client sends OTLP over HTTP. Its methods may be called by many goroutines.
type Client struct {
	// base is the endpoint without a slash at its end.
	base    string
	to      Collector
	timeout time.Duration
	http    *http.Client
}

// NewClient returns a client for a collector. It follows no redirects: telemetry goes
// where the operator said.
func NewClient(to Collector) *Client {
	c := &Client{
		base: strings.TrimRight(to.Endpoint, "/"), to: to, timeout: to.Timeout,
		http: &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.timeout <= 0 {
		c.timeout = 10 * time.Second
	}
	return c
}

// Close closes connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// sendError says why a collector didn't take something.
type sendError struct {
	// retry says that the same request may be taken later, after that time if it
	// isn't zero.
	retry bool
	after time.Duration
	err   error
}

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

// SendTraces sends spans and returns how many of them the collector rejected.
func (c *Client) SendTraces(ctx context.Context, r telemetry.Resource, spans []telemetry.Span) (rejected int64, err error) {
	body, err := EncodeTraces(r, spans)
	if err != nil {
		return 0, err
	}
	return c.post(ctx, "/v1/traces", body)
}

// SendMetrics sends a snapshot and returns how many of its points the collector
// rejected.
func (c *Client) SendMetrics(ctx context.Context, r telemetry.Resource, s telemetry.Snapshot) (rejected int64, err error) {
	body, err := EncodeMetrics(r, s)
	if err != nil {
		return 0, err
	}
	return c.post(ctx, "/v1/metrics", body)
}

// maxRetryAfter is the longest, in seconds, that a collector can make its telemetry
// wait: what is queued is bounded, so waiting longer loses more.
const maxRetryAfter = 300

// maxAnswer bounds what is read of a collector's answer.
const maxAnswer = 64 << 10

func (c *Client) post(ctx context.Context, path string, body []byte) (rejected int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.request(ctx, path, body)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the address may carry a key
		}
		return 0, &sendError{retry: true, err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode/100 != 2:
		return 0, refusal(resp)
	case err != nil:
		return 0, &sendError{retry: true, err: err}
	}
	return rejectedIn(answer), nil
}

func (c *Client) request(ctx context.Context, path string, body []byte) (*http.Request, error) {
	if c.to.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(body)
		if err = errors.Join(err, z.Close()); err != nil {
			return nil, err
		}
		body = b.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.to.Headers)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "agentd")
	if c.to.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	return req, nil
}

// refusal is an answer that isn't 2xx. OTLP says which of them may be tried again.
func refusal(resp *http.Response) error {
	e := &sendError{err: fmt.Errorf("HTTP status %s", resp.Status)}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.retry = true
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
			e.after = time.Duration(min(s, maxRetryAfter)) * time.Second
		}
	}
	return e
}
