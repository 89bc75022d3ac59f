package main

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentd/internal/wire"
)

const (
	// steadyTries is how often a request is sent in all, and steadyWait how long is waited
	// at most in between.
	steadyTries = 10
	steadyWait  = 2 * time.Second
)

// steady sends a request again that found its server stopping, or that a balancer had no server
// for just then: behind one address there may be several, which are restarted one by one. Only
// what may arrive twice is sent again. An address at which nothing listens is an error at once.
type steady struct{ next http.RoundTripper }

// asItIs marks requests about how things are now, which nothing is waited for.
type asItIs struct{}

// RoundTrip implements [http.RoundTripper].
func (t *steady) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	repeats := ctx.Value(asItIs{}) == nil && (req.Method == http.MethodGet || ctx.Value(repeatable{}) != nil) && (req.Body == nil || req.GetBody != nil)
	for try := 1; ; try++ {
		res, err := t.next.RoundTrip(req)
		wait, again := passingFailure(res, err)
		if !repeats || !again || try == steadyTries {
			return res, err
		}
		timer := time.NewTimer(max(wait, min(25*time.Millisecond<<try, steadyWait)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return res, err
		case <-timer.C:
		}
		if res != nil {
			_ = res.Body.Close()
		}
		req = req.Clone(ctx)
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// passingFailure reports whether a request failed because its server stopped or is being
// replaced, and how long the answer asks to wait.
func passingFailure(res *http.Response, err error) (wait time.Duration, again bool) {
	if err != nil {
		for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
			again = again || errors.Is(err, broken)
		}
		return 0, again
	}
	switch res.StatusCode {
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return 0, !ours(res)
	case http.StatusServiceUnavailable:
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		wait = time.Duration(max(seconds, 0)) * time.Second
		return wait, err == nil && wait <= steadyWait || err != nil && !ours(res)
	}
	return 0, false
}

// ours reports whether an error comes from agentd, and not from something in between.
func ours(res *http.Response) bool {
	return strings.HasPrefix(res.Header.Get("Content-Type"), wire.ProblemType)
}

// CloseIdleConnections gives up connections that are kept open for reuse.
func (t *steady) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
