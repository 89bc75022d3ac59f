package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"agentd/command"
	"agentd/internal/wire"
)

// methods are what a JSON-RPC connection offers beside the commands. A method
// returns its result, and what to do once the answer was sent.
type methods map[string]func(ctx context.Context, params []byte) (result []byte, then func(), err error)

// rpc carries out JSON-RPC messages for one caller.
type rpc struct {
	s     *Server
	q     *request
	extra methods
	// secret is set when an answer shows a secret.
	secret atomic.Bool
}

// handle carries out one message or batch and returns the answer, nil if none is
// wanted, and what to do once it was sent. The caller releases held then.
func (c *rpc) handle(ctx context.Context, held *answerCharge, message []byte) (answer []byte, then []func()) {
	requests, batch, bad := wire.ParseRPC(message)
	if bad != nil {
		return wire.AppendRPCError(nil, nil, c.stamp(bad)), nil
	}
	if !batch {
		answer, next := c.runRequest(ctx, held, &requests[0])
		return answer, next
	}
	for i := range requests {
		one, next := c.runRequest(ctx, held, &requests[i])
		then = append(then, next...)
		if one == nil {
			continue
		}
		sep := byte(',')
		if answer == nil {
			sep = '['
		}
		answer = append(append(answer, sep), one...)
	}
	if answer != nil {
		answer = append(answer, ']')
	}
	return answer, then
}

// runRequest carries out one request.
func (c *rpc) runRequest(ctx context.Context, held *answerCharge, r *wire.RPCRequest) (answer []byte, then []func()) {
	if r.Err != nil {
		return wire.AppendRPCError(nil, r.ID, c.stamp(r.Err)), nil
	}
	result, next, bad := c.call(ctx, held, r)
	if next != nil {
		then = []func(){next}
	}
	switch {
	case r.Notification():
		return nil, then
	case bad != nil:
		return wire.AppendRPCError(nil, r.ID, c.stamp(bad)), then
	}
	return wire.AppendRPCResult(nil, r.ID, result), then
}

func (c *rpc) call(ctx context.Context, held *answerCharge, r *wire.RPCRequest) (result []byte, then func(), bad *wire.RPCError) {
	var err error
	if m := c.extra[r.Method]; m != nil {
		result, then, err = m(ctx, r.Params)
	} else {
		d, ok := command.Lookup(command.Name(r.Method))
		if !ok {
			return nil, nil, wire.MethodNotFound(r.Method)
		}
		if d.ShowsSecret {
			c.secret.Store(true)
		}
		if err = permit(c.q.login.Role, d.Scope, d.Name); err == nil {
			err = c.q.checkBrowserCommand(d.Mutates)
		}
		if err == nil {
			result, err = c.s.runCommand(ctx, c.q, d, r.Params)
		}
		if err == nil {
			err = held.chargeAnswer(len(result), d.Mutates)
		}
	}
	if err != nil {
		return nil, then, wire.RPCErrorOf(c.s.faultOf(err))
	}
	return result, then, nil
}

// stamp puts the request id into an error, so that it can be found in the log.
func (c *rpc) stamp(e *wire.RPCError) *wire.RPCError {
	if e.Data != nil {
		e.Data.RequestID = c.q.id
	}
	return e
}

// serveRPC answers POST /v1/rpc. Errors of JSON-RPC are in its answer, with
// status 200; messages that want no answer get 204.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request, q *request) error {
	body, giveBack, err := s.readJSONBody(w, r, q)
	defer giveBack()
	if err != nil {
		return err
	}
	held := s.chargeFor(q)
	defer held.release()
	c := &rpc{s: s, q: q}
	answer, _ := c.handle(r.Context(), held, body)
	keepSecret(w, c.secret.Load())
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return writeJSON(w, answer)
}

// mustMarshal encodes what always encodes: strings, numbers, and JSON that was checked.
func mustMarshal(v any) []byte {
	data, _ := json.Marshal(v) //nolint:errchkjson // see above
	return data
}
