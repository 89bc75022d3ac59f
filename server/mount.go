package server

import (
	"context"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"agentd/command"
)

// serveMount hands a request to the mounted handler, within the bounds that apply to
// the server's own addresses: it counts as a stream of its token and ends with the
// token, and what its body takes in memory is part of the budget of all bodies.
func (s *Server) serveMount(w *recorder, r *http.Request, q *request, m *Mount) error {
	ctx := r.Context()
	if id := r.Header.Get(leaveHeader); q.forwarded && id != "" && r.Method == http.MethodPost {
		var end func()
		ctx, end = s.passed.untilLeft(ctx, q.tokenID(), id)
		defer end()
	}
	if q.login != nil {
		done, err := s.openStream(q.login.TokenID, "mount")
		if err != nil {
			return err
		}
		defer done()
		ctx = context.WithValue(ctx, callerKey, q.caller)
		ctx = context.WithValue(ctx, roleKey, q.login.Role)
		var end func()
		ctx, end = s.whileGood(ctx, q.login)
		defer end()
	}
	// A request that was passed on here is answered here; what it asks for in a session of
	// another node that node is still asked for, and asks no one else.
	pass := &passing{body: http.NoBody, passed: q.forwarded, header: w.Header(), wait: s.opt.MoveWait}
	if (q.authorization != "" || m.Public) && !m.Spools {
		ctx = context.WithValue(ctx, passingKey, pass)
	}
	if q.authorization != "" && !m.Spools {
		pass.command = func(ctx context.Context, to string, d *command.Def, body []byte, why error) ([]byte, error) {
			return s.forwardCommand(ctx, q, to, d, body, forwardedWhole, why)
		}
	}
	header := w.Header().Clone()
	r = r.WithContext(ctx)
	if !m.Spools && r.Body != nil && r.Body != http.NoBody {
		body := &chargedBody{ReadCloser: r.Body, s: s, token: q.tokenID()}
		defer body.giveBack()
		// Who begins to answer has read the body: a long stream must not hold it.
		r.Body, w.begun = body, body.giveBack
		if ctx.Value(passingKey) != nil && !pass.passed {
			pass.body, r.Body = body, pass
		}
	}
	for began := time.Now(); ; {
		m.Handler.ServeHTTP(w, r)
		if pass.to == "" || w.status != 0 {
			return nil
		}
		clear(w.Header()) // what the handler prepared belongs to its own answer
		maps.Copy(w.Header(), header)
		err := s.forwardMount(w, r, q, pass)
		if !onItsWay(err) || time.Since(began) > s.opt.MoveWait || !pause(r.Context(), nodeCheck/2) {
			if err != nil && m.Refuse != nil && w.status == 0 && r.Context().Err() == nil {
				pass.again(r)
				m.Refuse(w, r, err)
			}
			return err
		}
		pass.again(r) // the session is on its way to another node, or here
	}
}

// whileGood returns a context that ends, with the reason as its cause, when the
// caller's token does. The caller calls end.
func (s *Server) whileGood(parent context.Context, l *login) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			timer := time.NewTimer(l.until(s.opt.Recheck))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			if err := l.again(ctx); err != nil {
				cancel(err)
				return
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// chargedBody is a body that is taken from the budget of all bodies as it is read.
type chargedBody struct {
	io.ReadCloser
	s     *Server
	token string // empty where none is needed

	mu   sync.Mutex
	read int64
	// taken is what the budget gave; over says that nothing is taken any more.
	taken int64
	over  bool
}

// Read implements [io.Reader]. A body that doesn't fit is a fault.
func (b *chargedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if full := b.charge(int64(n)); full != nil {
		return 0, full
	}
	return n, err
}

func (b *chargedBody) charge(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s.metrics.received.Add(n)
	b.read += n
	need := b.read - chunk // the first is free, as for commands
	if b.over || need <= b.taken {
		return nil
	}
	if err := b.s.chargeBody(b.token, need-b.taken); err != nil {
		return err
	}
	b.taken = need
	return nil
}

// giveBack gives back what was taken. It may be called again.
func (b *chargedBody) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.s.bodies.giveBack(b.token, b.taken)
	b.taken, b.over = 0, true
}
