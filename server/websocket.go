package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"agentd/fault"
)

// socket is a WebSocket as a transport.
type socket struct {
	s     *Server
	conn  *websocket.Conn
	token string
	// unanswered counts messages that were read and are not done with.
	unanswered atomic.Int64
}

func (t *socket) read(ctx context.Context) (message []byte, done func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kind, r, err := t.conn.Reader(ctx)
	if err != nil {
		return nil, nil, err
	}
	// Pings are answered between the fragments of a message: they don't show that
	// it will ever end.
	defer time.AfterFunc(t.s.opt.BodyTimeout, cancel).Stop()
	if kind != websocket.MessageText {
		_ = t.conn.Close(websocket.StatusUnsupportedData, "messages are JSON text")
		return nil, nil, errGone
	}
	free := int64(chunk)
	if t.unanswered.Load() > 0 {
		free /= maxWaiting // together, those that wait have as much
	}
	message, giveBack, err := t.s.readBody(r, t.token, t.s.opt.MaxBody, free)
	if err != nil {
		giveBack()
		if k := fault.KindOf(err); k == fault.PayloadTooLarge || k == fault.Unavailable || k == fault.RateLimited {
			_ = t.conn.Close(websocket.StatusMessageTooBig, asFault(err).Detail)
		}
		return nil, nil, err
	}
	t.unanswered.Add(1)
	return message, func() {
		t.unanswered.Add(-1)
		giveBack()
	}, nil
}

func (t *socket) write(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, t.s.opt.WriteTimeout)
	defer cancel()
	return t.conn.Write(ctx, websocket.MessageText, message)
}

// serveWebSocket answers GET /v1/ws and runs the connection to its end.
func (s *Server) serveWebSocket(w http.ResponseWriter, r *http.Request, q *request) error { //nolint:contextcheck // the connection outlives the request's context
	if !s.addSocket() {
		return fault.New(fault.Unavailable, "the server is stopping")
	}
	defer s.removeSocket()
	pw := &problemWriter{ResponseWriter: w, requestID: q.id, detail: "this address speaks WebSocket: the request must be an upgrade of version 13"}
	// The origin was checked with the request.
	conn, err := websocket.Accept(pw, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()
	// The bound is ours: readBody says what is wrong before the library would.
	conn.SetReadLimit(s.opt.MaxBody + 1)
	q.socket = true
	// The request's own context doesn't end with a connection that was taken over.
	p := newRPCConn(context.WithoutCancel(r.Context()), s, q, &socket{s: s, conn: conn, token: q.login.TokenID}, "websocket")
	stop, cancel := s.untilStop(p.ctx)
	defer cancel()
	p.tasks.Go(func() { p.watchClient(stop, conn) })
	_ = p.serve(false) // how a client leaves is its own affair
	return nil
}

// watchClient pings the client, checks its token again, and closes the connection when
// either fails or the server stops.
func (p *rpcConn) watchClient(stop context.Context, conn *websocket.Conn) {
	for beat := time.Now().Add(p.s.opt.Heartbeat); ; {
		timer := time.NewTimer(p.rpc.q.login.until(min(p.s.opt.Recheck, time.Until(beat))))
		select {
		case <-p.ctx.Done():
			timer.Stop()
			return
		case <-stop.Done():
			timer.Stop()
			p.sayGoodbye(conn)
			return
		case <-timer.C:
		}
		if err := p.rpc.q.login.again(p.ctx); err != nil { //nolint:contextcheck // stop only says when to begin stopping
			_ = conn.Close(websocket.StatusPolicyViolation, asFault(err).Detail)
			p.cancel(errGone)
			return
		}
		if time.Until(beat) > 0 {
			continue
		}
		beat = time.Now().Add(p.s.opt.Heartbeat)
		if err := p.ping(stop, conn); err != nil && stop.Err() == nil { //nolint:contextcheck // the same
			p.cancel(errGone)
			return
		}
	}
}

// sayGoodbye closes the connection because the server stops. A client that
// doesn't answer, or doesn't even read, is not waited for long.
func (p *rpcConn) sayGoodbye(conn *websocket.Conn) {
	if p.ctx.Err() != nil {
		return
	}
	cut := time.AfterFunc(p.s.conns.patience, func() { p.cancel(errGone) })
	defer cut.Stop()
	_ = conn.Close(websocket.StatusGoingAway, "the server is stopping")
	p.cancel(errGone)
}

// ping waits for the client's answer, unless nothing is read at the moment, and
// no longer than until the server stops.
func (p *rpcConn) ping(stop context.Context, conn *websocket.Conn) error {
	if p.waiting.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.s.opt.WriteTimeout)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	return conn.Ping(ctx)
}
