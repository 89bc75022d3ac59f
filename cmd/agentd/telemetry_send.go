package main

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

	"agentd/cmd/agentd/internal/config"
	"agentd/telemetry"
)

// otlpClient sends OTLP over HTTP. Its methods may be called by many goroutines.
type otlpClient struct {
	// base is the endpoint without a slash at its end.
	base    string
	headers http.Header
	gzip    bool
	timeout time.Duration
	http    *http.Client
}

// newOTLPClient returns a client for an endpoint. Where the telemetry goes is what
// the operator said: redirects are not followed.
func newOTLPClient(endpoint string, t *config.Telemetry, env map[string]string) *otlpClient {
	c := &otlpClient{
		base: strings.TrimRight(endpoint, "/"), headers: http.Header{}, gzip: t.Compression == "gzip", timeout: time.Duration(t.Timeout),
		http: &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, h := range t.Headers {
		if v := env[h.Env]; v != "" {
			c.headers.Set(h.Name, v)
		}
	}
	if c.timeout <= 0 {
		c.timeout = 10 * time.Second
	}
	return c
}

func (c *otlpClient) close() { c.http.CloseIdleConnections() }

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

// traces sends spans and returns how many of them the collector rejected.
func (c *otlpClient) traces(ctx context.Context, r telemetry.Resource, spans []telemetry.Span) (rejected int64, err error) {
	body, err := tracesProto(r, spans)
	if err != nil {
		return 0, err
	}
	return c.post(ctx, "/v1/traces", body)
}

// metrics sends a snapshot.
func (c *otlpClient) metrics(ctx context.Context, r telemetry.Resource, s telemetry.Snapshot) (rejected int64, err error) {
	body, err := metricsProto(r, s)
	if err != nil {
		return 0, err
	}
	return c.post(ctx, "/v1/metrics", body)
}

// maxRetryAfter is the longest, in seconds, that a collector can make its telemetry
// wait: what is queued is bounded, so waiting longer loses more.
const maxRetryAfter = 300

// maxOTLPAnswer bounds what is read of a collector's answer.
const maxOTLPAnswer = 64 << 10

func (c *otlpClient) post(ctx context.Context, path string, body []byte) (rejected int64, err error) {
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
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxOTLPAnswer))
	switch {
	case resp.StatusCode/100 != 2:
		return 0, refusal(resp)
	case err != nil:
		return 0, &sendError{retry: true, err: err}
	}
	return rejectedProto(answer), nil
}

func (c *otlpClient) request(ctx context.Context, path string, body []byte) (*http.Request, error) {
	if c.gzip {
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
	maps.Copy(req.Header, c.headers)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "agentd")
	if c.gzip {
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
