package server

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"agentd/internal/wire"
)

// transport carries the messages of a JSON-RPC connection.
type transport interface {
	// read returns the next message, and a function that must be called when it
	// isn't needed any more.
	read(ctx context.Context) (message []byte, done func(), err error)
	// write sends a message. It is called by one goroutine at a time, and gives up
	// on a reader that is too slow.
	write(ctx context.Context, message []byte) error
}

// rpcConn is a JSON-RPC connection that can subscribe. One goroutine carries out
// its requests in order; each subscription has one of its own. All end before
// serve returns.
type rpcConn struct {
	s    *Server
	rpc  rpc
	conn transport
	name string // of the transport, for metrics

	ctx    context.Context
	cancel context.CancelCauseFunc
	tasks  sync.WaitGroup
	// waiting says that nothing is read because too much is waiting already.
	waiting atomic.Bool
	aside   *gate

	writing sync.Mutex

	mu   sync.Mutex
	subs map[string]*subscription
	next int
}

// Bounds of one connection.
const (
	// maxWaiting is the number of messages that may wait for their turn.
	maxWaiting = 16
	// maxAside is the number of commands that may wait beside the others.
	maxAside = 16
)

func newRPCConn(ctx context.Context, s *Server, q *request, conn transport, name string) *rpcConn {
	p := &rpcConn{s: s, conn: conn, name: name, subs: map[string]*subscription{}, aside: newGate(maxAside)}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.rpc = rpc{s: s, q: q, extra: methods{"subscribe": p.subscribe, "unsubscribe": p.unsubscribe}}
	return p
}

// message is one that was read.
type message struct {
	data []byte
	done func()
}

// serve reads and answers until the connection or the context ends. drain says
// that what was read and subscribed is still answered and delivered then.
func (p *rpcConn) serve(drain bool) error {
	lane := make(chan message, maxWaiting)
	p.tasks.Go(func() {
		for m := range lane {
			p.answerMessage(m)
		}
		if drain {
			p.drainSubscriptions()
		}
	})
	var err error
	for {
		var m message
		if m.data, m.done, err = p.conn.read(p.ctx); err != nil {
			break
		}
		p.s.metrics.received.Add(int64(len(m.data)))
		p.waiting.Store(true)
		lane <- m
		p.waiting.Store(false)
	}
	close(lane)
	if !drain {
		p.cancel(err)
	}
	p.tasks.Wait()
	p.cancel(err)
	return err
}

// answerMessage carries out one message.
func (p *rpcConn) answerMessage(m message) {
	if p.ctx.Err() != nil {
		m.done()
		return
	}
	if p.goesAside(m) {
		return
	}
	defer m.done()
	p.reply(m.data)
}

// goesAside runs a message that only waits for something beside the others.
func (p *rpcConn) goesAside(m message) bool {
	if !bytes.Contains(m.data, []byte("wait_subagents")) {
		return false
	}
	requests, batch, err := wire.ParseRPC(m.data)
	if err != nil || batch || requests[0].Method != "wait_subagents" || !p.aside.enter(p.ctx, 0) {
		return false
	}
	p.tasks.Go(func() {
		defer p.aside.leave()
		defer m.done()
		p.reply(m.data)
	})
	return true
}

func (p *rpcConn) reply(data []byte) {
	held := p.s.chargeFor(p.rpc.q)
	answer, then := p.rpc.handle(p.ctx, held, data)
	if answer != nil {
		p.sendMessage(answer)
	}
	held.release()
	for _, next := range then {
		next()
	}
}

// sendMessage writes a message. A connection that can't be written to ends.
func (p *rpcConn) sendMessage(data []byte) bool {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	if err := p.conn.write(p.ctx, data); err != nil {
		p.cancel(errGone)
		return false
	}
	p.s.metrics.sent.Add(int64(len(data)))
	return true
}

// notifyFor sends what belongs to a subscription. Its id, and in a feed the cursor, stand
// beside the parameters, since those are an envelope of the standard.
func (p *rpcConn) notifyFor(sub *subscription, method string, params []byte, cursor string) bool {
	b := wire.AppendRPCNotification(nil, method, params)
	b = append(append(b[:len(b)-1], `,"subscriptionId":"`...), sub.id...)
	if cursor != "" {
		b = append(append(b, `","cursor":"`...), cursor...)
	}
	return p.sendMessage(append(b, `"}`...))
}
