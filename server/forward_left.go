package server

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// For some protocols a client that goes away ends its turn. When a request was passed on, the
// node that answers it sees only the node in between: its connection ends when the client
// leaves, and also when that node stops or dies, and then the client comes back through
// another one and wants its turn. So the connection says nothing there; the node in between
// says when the client left.

// leaveHeader is on a request that a node passed on and that says when its client left: a name
// for it. leftHeader is on the request that says so.
const (
	leaveHeader = "Agentd-Leave"
	leftHeader  = "Agentd-Left"
)

// leftWithin is how long another node may take to hear that a client left.
const leftWithin = 5 * time.Second

// passedOn are the requests that other nodes passed on, by token and name.
type passedOn struct {
	mu   sync.Mutex
	open map[[2]string]context.CancelFunc
}

// untilLeft returns a context that ends when the client of a request left, and not with the
// connection that brought it.
func (p *passedOn) untilLeft(parent context.Context, token, id string) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	key := [2]string{token, id}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[[2]string]context.CancelFunc{}
	}
	p.open[key] = cancel
	return ctx, func() {
		p.mu.Lock()
		delete(p.open, key)
		p.mu.Unlock()
		cancel()
	}
}

// left ends a request whose client left.
func (p *passedOn) left(token, id string) {
	p.mu.Lock()
	cancel := p.open[[2]string{token, id}]
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// tellLeft tells the node that a request was passed on to that its client left.
func (s *Server) tellLeft(r *http.Request, q *request, to, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), leftWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to+r.URL.Path, http.NoBody) //nolint:gosec // the address is that of a node which registered in our own store
	if err != nil {
		return // a path that was asked for is one
	}
	req.Header.Set("Authorization", q.authorization)
	req.Header.Set("X-Request-ID", q.id)
	req.Header.Set(forwardedHeader, forwardedWhole)
	req.Header.Set(leftHeader, id)
	res, err := s.nodes.Do(req) //nolint:gosec // as above
	if err != nil {
		s.opt.Logger.Warn("a node could not be told that a client left", "node", to, "requestId", q.id, "error", err)
		return
	}
	_ = res.Body.Close() // there is nothing in it
}
