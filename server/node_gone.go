package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"agentd/fault"
)

// nodeCheck is how often it is looked whether a node that was asked is still there.
const nodeCheck = 500 * time.Millisecond

// Why a request that was passed on to another node is given up.
var (
	errNodeGone   = errors.New("server: the node that owns the session does not answer, and its lease has ended")
	errNodeSilent = errors.New("server: the node that owns the session can't be reached from here")
)

// nodeLink carries every request that this node sends to another one, and gives it up when
// that node is gone, by its lease, or out of reach, by its silence. Its lease alone doesn't
// tell: a node may renew it and yet be cut off from this one, and the database, which knows
// the lease, may be away. A node that answers may take as long as it likes.
type nodeLink struct {
	base http.RoundTripper
	// alive is [Options.NodeAlive], silence [Options.NodeSilence].
	alive   func(ctx context.Context, address string) (bool, error)
	silence time.Duration

	mu      sync.Mutex
	watches map[string]*nodeWatch
}

// nodeWatch is what all requests that wait for one node share: its context ends, with the
// reason, when they are given up.
type nodeWatch struct {
	ctx     context.Context
	end     context.CancelCauseFunc
	waiting int
}

// RoundTrip implements [http.RoundTripper].
func (l *nodeLink) RoundTrip(r *http.Request) (*http.Response, error) {
	w, leave := l.watch(r.URL.Scheme + "://" + r.URL.Host)
	ctx, cancel := context.WithCancelCause(r.Context())
	unhook := context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })
	done := sync.OnceFunc(func() {
		unhook()
		cancel(nil)
		leave()
	})
	res, err := l.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		err = w.reason(err) // before this request leaves the watch, which may end it
		done()
		return nil, err
	}
	body := watchedBody{ReadCloser: res.Body, watch: w, done: done}
	if both, ok := res.Body.(io.ReadWriteCloser); ok { // a WebSocket, which no context ends any more
		body.unhook = context.AfterFunc(w.ctx, func() { _ = both.Close() })
		res.Body = &watchedSocket{body, both}
	} else {
		res.Body = &body
	}
	return res, nil
}

// CloseIdleConnections closes those that are kept for later requests; [http.Client] looks for it.
func (l *nodeLink) CloseIdleConnections() {
	if c, ok := l.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// watchedBody is an answer's body; who waits for it waits for the node.
type watchedBody struct {
	io.ReadCloser
	watch  *nodeWatch
	unhook func() bool // nil, but for a WebSocket
	done   func()
}

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.watch.reason(err)
	}
	return n, err
}

// Close implements [io.Closer].
func (b *watchedBody) Close() error {
	if b.unhook != nil {
		b.unhook()
	}
	err := b.ReadCloser.Close()
	b.done()
	return err
}

// watchedSocket is a body that is written as well.
type watchedSocket struct {
	watchedBody
	io.Writer
}

// reason replaces the error of a request that was given up by why it was.
func (w *nodeWatch) reason(err error) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return err
}

// watch has the node at an address watched until leave is called.
func (l *nodeLink) watch(address string) (w *nodeWatch, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w = l.watches[address]
	if w == nil || w.ctx.Err() != nil { // one that gave up says nothing of the requests to come
		w = &nodeWatch{}
		w.ctx, w.end = context.WithCancelCause(context.Background())
		if l.watches == nil {
			l.watches = map[string]*nodeWatch{}
		}
		l.watches[address] = w
		if l.alive != nil {
			go l.watchLease(w, address)
		}
		go l.watchSilence(w, address)
	}
	w.waiting++
	return w, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if w.waiting--; w.waiting > 0 {
			return
		}
		w.end(nil)
		if l.watches[address] == w {
			delete(l.watches, address)
		}
	}
}

// watchLease ends a watch when the node has lost its lease.
func (l *nodeLink) watchLease(w *nodeWatch, address string) {
	for pause(w.ctx, nodeCheck) {
		if alive, err := l.alive(w.ctx, address); err == nil && !alive {
			w.end(errNodeGone)
			return
		}
	}
}

// watchSilence ends a watch when the node has not answered the simplest question for
// [Options.NodeSilence]. It takes more than one question: the first may have gone over a
// connection that is dead, or this process, and not the other one, may have stood still.
func (l *nodeLink) watchSilence(w *nodeWatch, address string) {
	asked, since := 0, time.Time{}
	for pause(w.ctx, min(nodeCheck, l.silence/4)) {
		began := time.Now()
		err := l.probe(w.ctx, address)
		if err == nil {
			asked = 0
			continue
		}
		if asked++; asked == 1 {
			since = began
		}
		if silent := time.Since(since); asked > 1 && silent >= l.silence {
			w.end(fmt.Errorf("%w: %s has been silent for %v: %s", errNodeSilent, address, silent.Round(time.Millisecond), err.Error()))
			l.CloseIdleConnections() // they may lead nowhere
			return
		}
	}
}

// probe asks a node whether it is there. Any answer is one.
func (l *nodeLink) probe(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, l.silence/2)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+healthPath, http.NoBody) //nolint:gosec // the address is that of a node which registered in our own store
	if err != nil {
		return err
	}
	res, err := l.base.RoundTrip(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, chunk)) // so that the connection serves again
	return res.Body.Close()
}

// notAnswered is the fault of a request that was passed on and not answered.
func notAnswered(why, err error) error {
	if unreached(err) || fault.KindOf(why) != fault.Unavailable {
		return notReached(why, err)
	}
	f := fault.Wrap(fault.Unavailable, err, "the node that owns the session didn't answer; what was asked for may have been done: repeat it with the same ids or idempotency key")
	f.RetryAfter = nodeRetry
	return f
}
