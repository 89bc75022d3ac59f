package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"agentd/command"
	"agentd/fault"
)

// maxPassed is the largest body of a request to a mount that can be passed on: it
// has been read here when it turns out that another node has to answer.
const maxPassed = 4 << 20

// passing is a request to a mount that another node could answer.
type passing struct {
	body io.ReadCloser
	kept bytes.Buffer
	// lost says that the body was too large to be kept, and passed that another node
	// passed the request on.
	lost, passed bool
	// header is that of the answer.
	header http.Header
	// to is where the request goes, and why the reason; set by [PassOn].
	to  string
	why error
	// command has another node carry out a command of this request; wait is how long a
	// session on its way is waited for.
	command func(ctx context.Context, to string, d *command.Def, body []byte, why error) ([]byte, error)
	wait    time.Duration
}

// PassOn has another node answer a request that a [Mount] handles and that failed
// with err, because that node owns the session. It reports whether that is
// possible; the handler then returns without having written anything. It is called
// by the goroutine that handles the request.
func PassOn(ctx context.Context, err error) bool {
	p, ok := ctx.Value(passingKey).(*passing)
	f, known := errors.AsType[*fault.Error](err)
	if !ok || !known || f.Elsewhere == "" || p.lost {
		return false
	}
	if p.passed {
		p.header.Set(elsewhereHeader, "1") // nothing was carried out here
		return false
	}
	p.to, p.why = f.Elsewhere, err
	return true
}

// Elsewhere carries out a command on the node that err names as the owner of its
// session, with the token of a request to a [Mount]. It is for protocols in which a
// request stands in a session of this node and can't be passed on as a whole. An
// error that names no node is returned as it is. Request is the context of the request;
// the command may be carried out after it ended. While the session is on its way from one
// node to another it is tried again, here first.
func Elsewhere(ctx, request context.Context, p command.Params, err error, again func() (any, error)) (any, error) {
	pass, ok := request.Value(passingKey).(*passing)
	for began := time.Now(); ; {
		result, failed := elsewhereOnce(ctx, pass, p, err)
		if !ok || !onItsWay(failed) || time.Since(began) > pass.wait || !pause(ctx, nodeCheck/2) {
			return result, failed
		}
		var here any
		if here, err = again(); err == nil {
			return here, nil
		}
	}
}

func elsewhereOnce(ctx context.Context, pass *passing, p command.Params, err error) (json.RawMessage, error) {
	f, known := errors.AsType[*fault.Error](err)
	if pass == nil || pass.command == nil || !known || f.Elsewhere == "" {
		return nil, err
	}
	d, ok := command.Lookup(p.Command())
	if !ok {
		return nil, err
	}
	body, encoding := json.Marshal(p)
	if encoding != nil {
		return nil, errors.Join(err, encoding)
	}
	return pass.command(ctx, f.Elsewhere, d, body, err)
}

// Read implements [io.Reader]; it keeps what is read.
func (p *passing) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	if p.lost = p.lost || p.kept.Len()+n > maxPassed; p.lost {
		p.kept = bytes.Buffer{}
	} else {
		_, _ = p.kept.Write(b[:n]) // it never fails
	}
	return n, err
}

// again has a request handled once more, from its beginning.
func (p *passing) again(r *http.Request) {
	p.body = io.NopCloser(bytes.NewReader(p.kept.Bytes()))
	p.kept, p.to, p.why = bytes.Buffer{}, "", nil
	r.Body = p
}

// Close implements [io.Closer].
func (p *passing) Close() error { return p.body.Close() }

// oneHop are headers that concern one connection, or that this node has answered
// for already. What nodes say to one another is said by the node, never by a client.
var oneHop = []string{
	forwardedHeader, leaveHeader, leftHeader,
	"Authorization", "Connection", "Content-Length", "Cookie", "Date", "Host", "Keep-Alive", "Origin", "Proxy-Authenticate", "Proxy-Authorization",
	"Set-Cookie", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Request-Id",
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		if !slices.Contains(oneHop, name) {
			to[name] = values
		}
	}
}

// forwardMount passes a request to a mount on, and the answer back as it comes.
func (s *Server) forwardMount(w http.ResponseWriter, r *http.Request, q *request, p *passing) error {
	if _, err := io.Copy(io.Discard, p); err != nil || p.lost { // what the handler left
		return errors.Join(p.why, err)
	}
	ctx, cancel := s.untilStop(r.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, p.to+r.URL.RequestURI(), bytes.NewReader(p.kept.Bytes())) //nolint:gosec // the address is that of a node which registered in our own store
	if err != nil {
		return errors.Join(p.why, err)
	}
	copyHeader(req.Header, r.Header)
	if q.authorization != "" { // a public mount knows its callers by something else
		req.Header.Set("Authorization", q.authorization)
	}
	req.Header.Set("X-Request-ID", q.id)
	req.Header.Set(forwardedHeader, forwardedWhole)
	if r.Method == http.MethodPost { // what may end something when its client leaves
		leave := rand.Text()
		req.Header.Set(leaveHeader, leave)
		defer func() {
			if r.Context().Err() != nil && !s.isStopping() {
				s.tellLeft(r, q, p.to, leave)
			}
		}()
	}
	s.metrics.forwarded.Add(1)
	res, err := s.nodes.Do(req) //nolint:gosec // as above
	if err != nil {
		return notAnswered(p.why, err)
	}
	defer func() { _ = res.Body.Close() }() // what was read is what counts
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return s.notKnown(q, p.to, p.why)
	case res.Header.Get(elsewhereHeader) != "":
		return notReached(p.why, errPassedBack)
	}
	copyHeader(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	passBack(ctx, w, r, q, res.Body)
	return nil
}
