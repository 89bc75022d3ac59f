package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/coder/websocket"

	"agentd/fault"
	"agentd/internal/wire"
)

// Reading facts needs no ownership, so most subscriptions are served by the node
// that they reach. One that is tied to a channel changes something and belongs to
// the node that owns the session: it is relayed, over a WebSocket of its own.

// subscribeAt has the node that owns the session serve a subscription.
func (p *rpcConn) subscribeAt(ctx context.Context, to, sessionID string, params []byte, why error) (result []byte, then func(), err error) {
	done, err := p.s.openStream(p.rpc.q.login.TokenID, p.name)
	if err != nil {
		return nil, nil, err
	}
	conn, res, err := p.s.subscribeNode(ctx, p.rpc.q, to, params, why)
	if err != nil {
		done()
		return nil, nil, err
	}
	sub := &subscription{sessionID: sessionID, done: make(chan struct{})}
	sub.ctx, sub.cancel = context.WithCancel(p.ctx) //nolint:contextcheck // it outlives the request
	p.enlist(sub)
	res.SubscriptionID = sub.id
	return mustMarshal(res), func() {
		sub.started.Store(true)
		p.tasks.Go(func() {
			defer func() {
				sub.cancel()
				_ = conn.CloseNow()
				done()
				p.strike(sub)
			}()
			if err := p.relay(sub, conn); err != nil && sub.ctx.Err() == nil {
				p.tellEnd(sub, err)
			}
		})
	}, nil
}

// subscribeNode subscribes at another node and returns its answer, which comes
// before everything else.
func (s *Server) subscribeNode(ctx context.Context, q *request, to string, params []byte, why error) (*websocket.Conn, *subscribeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.CommandTimeout)
	defer cancel()
	header := http.Header{}
	header.Set("Authorization", q.authorization)
	header.Set("X-Request-ID", q.id)
	header.Set(forwardedHeader, forwardedWhole)
	s.metrics.forwarded.Add(1)
	conn, answer, err := websocket.Dial(ctx, to+"/v1/ws", &websocket.DialOptions{HTTPClient: s.nodes, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled}) //nolint:bodyclose // Dial closes it
	if err != nil && answer != nil && answer.StatusCode == http.StatusUnauthorized {
		return nil, nil, s.notKnown(q, to, why)
	}
	if err != nil {
		return nil, nil, notReached(fault.New(fault.Unavailable, "%s, and it can't be reached", asFault(why).Detail), err)
	}
	conn.SetReadLimit(-1) // it is a node of ours: what it sends is what it would store
	var m *wire.RPCMessage
	err = conn.Write(ctx, websocket.MessageText, wire.AppendRPCRequest(nil, json.RawMessage("1"), "subscribe", params))
	if err == nil {
		m, err = readRPC(ctx, conn)
	}
	res := &subscribeResult{}
	switch {
	case err != nil:
		err = notReached(fault.New(fault.Unavailable, "the connection to the node that owns the session broke"), err)
	case m.Error != nil:
		err = m.Error.Err()
	default:
		err = json.Unmarshal(m.Result, res)
	}
	if err != nil {
		_ = conn.CloseNow()
		return nil, nil, err
	}
	return conn, res, nil
}

func readRPC(ctx context.Context, conn *websocket.Conn) (*wire.RPCMessage, error) {
	_, data, err := conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	return wire.DecodeRPCMessage(data)
}

// relay passes on what another node sends until either side ends. One that ends
// without a word is unavailable: the client subscribes again behind what it has.
func (p *rpcConn) relay(sub *subscription, conn *websocket.Conn) error {
	delivered := p.s.metrics.events.get(p.name)
	for {
		m, err := readRPC(sub.ctx, conn)
		if err != nil {
			return notReached(fault.New(fault.Unavailable, "the connection to the node that owns the session broke: subscribe again"), err)
		}
		switch m.Method {
		case "subscription.ended":
			var end subscriptionEnd
			if err := json.Unmarshal(m.Params, &end); err != nil || end.Problem == nil {
				return notReached(fault.New(fault.Unavailable, "the node that owns the session ended the subscription"), err)
			}
			return end.Problem.Err()
		case "event":
			delivered.Add(1)
		}
		if sub.ctx.Err() != nil || !p.notifyFor(sub, m.Method, m.Params, "") {
			return errGone
		}
	}
}
