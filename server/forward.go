package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// forwardedHeader marks a request that another node passed on. It isn't passed on
// again: while an owner changes, two nodes may each take the other for it.
const forwardedHeader = "Agentd-Forwarded"

// What the header says of a request. Parts of a whole command are passed on wherever it is
// carried out; those of a part aren't, so that no request goes further than two nodes.
const (
	forwardedWhole = "1"
	forwardedPart  = "part"
)

// forwardable returns where a request that failed can be carried out, or nothing.
func (q *request) forwardable(err error) string {
	if q.authorization == "" || q.forwarded {
		return ""
	}
	return elsewhere(err)
}

// elsewhere returns the node that can do what this one can't, or nothing.
func elsewhere(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return ""
	}
	return f.Elsewhere
}

// forwardCommand has the node that owns the session carry out a command, with the
// caller's own token. What that node answers is the answer.
func (s *Server) forwardCommand(ctx context.Context, q *request, to string, d *command.Def, body []byte, mark string, why error) ([]byte, error) {
	res, err := s.forwardRequest(ctx, q, http.MethodPost, to+"/v1/commands/"+string(d.Name), nil, body, mark)
	if err != nil {
		return nil, notAnswered(why, err)
	}
	defer func() { _ = res.Body.Close() }() // what was read is what counts
	data, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, notAnswered(why, err)
	case res.StatusCode == http.StatusOK:
		return bytes.TrimSuffix(data, []byte("\n")), nil
	case res.StatusCode == http.StatusUnauthorized:
		return nil, s.notKnown(q, to, why)
	}
	if p, ok := wire.DecodeProblem(data); ok {
		f := p.Err()
		if res.Header.Get(elsewhereHeader) != "" {
			return nil, notReached(fault.New(f.Kind, "%s", f.Detail), errPassedBack)
		}
		return nil, f
	}
	return nil, why
}

// forwarderOf has parts of a command carried out by other nodes, with the caller's own
// token.
func (s *Server) forwarderOf(q *request) command.Forwarder {
	return func(ctx context.Context, p command.Params, why error) (json.RawMessage, error) {
		d, known := command.Lookup(p.Command())
		to := elsewhere(why)
		if !known || to == "" {
			return nil, why
		}
		body, err := json.Marshal(p)
		if err != nil {
			return nil, errors.Join(why, err)
		}
		return s.forwardCommand(ctx, q, to, d, body, forwardedPart, why)
	}
}

// forwardRead passes a reading request on and the answer back as it comes.
func (s *Server) forwardRead(w http.ResponseWriter, r *http.Request, q *request, to string, why error) error {
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	res, err := s.forwardRequest(ctx, q, r.Method, to+r.URL.RequestURI(), r.Header, nil, forwardedWhole)
	if err != nil {
		return notReached(why, err)
	}
	defer func() { _ = res.Body.Close() }() // what was read is what counts
	if res.StatusCode == http.StatusUnauthorized {
		return s.notKnown(q, to, why)
	}
	for _, name := range []string{"Content-Type", "Cache-Control", "Link", "Retry-After", "Vary"} {
		if v := res.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(res.StatusCode)
	passBack(ctx, w, r, q, res.Body)
	return nil
}

// passBack sends the body of another node's answer on as it comes, until ctx ends. A body that
// breaks off is broken off here as well: its end would say that the client has all of it.
func passBack(ctx context.Context, w http.ResponseWriter, r *http.Request, q *request, body io.ReadCloser) {
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	if _, err := io.Copy(&flushing{w, http.NewResponseController(w)}, body); err != nil {
		if r.Context().Err() == nil {
			q.err = fault.Wrap(fault.Unavailable, err, "the answer of the node that owns the session broke off")
		}
		panic(http.ErrAbortHandler)
	}
}

// flushing sends each piece at once.
type flushing struct {
	w     io.Writer
	flush *http.ResponseController
}

// Write implements [io.Writer].
func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.flush.Flush()
	}
	return n, err
}

// forwardRequest sends a request to another node.
func (s *Server) forwardRequest(ctx context.Context, q *request, method, to string, header http.Header, body []byte, mark string) (*http.Response, error) {
	if _, err := url.Parse(to); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body)) //nolint:gosec // the address is that of a node which registered in our own store
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Accept", "Last-Event-Id", "Traceparent", "Tracestate"} {
		if v := strings.Join(header.Values(name), ","); v != "" {
			req.Header.Set(name, v)
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", q.authorization)
	req.Header.Set("X-Request-ID", q.id)
	req.Header.Set(forwardedHeader, mark)
	s.metrics.forwarded.Add(1)
	return s.nodes.Do(req) //nolint:gosec // as above
}
