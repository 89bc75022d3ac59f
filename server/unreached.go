package server

import (
	"context"
	"errors"
	"net"
	"time"

	"agentd/fault"
)

// elsewhereHeader is on the answer of a node that was asked for a session which it doesn't
// have: nothing was carried out.
const elsewhereHeader = "Agentd-Elsewhere"

// errPassedBack says that the node that should have a session says that another one does.
var errPassedBack = errors.New("server: the node that was asked does not have the session either")

// nodeRetry is how long to wait when a session's node doesn't answer: it is being restarted, or
// its sessions go on elsewhere once its lease has ended.
const nodeRetry = time.Second

// notReached says why a request can't be carried out here, and that it may be soon, as the node
// that has the session didn't answer.
func notReached(why, err error) error {
	f, ok := errors.AsType[*fault.Error](why)
	if !ok {
		return errors.Join(why, err)
	}
	again := *f
	again.Err = errors.Join(f.Err, err)
	again.RetryAfter = max(f.RetryAfter, nodeRetry)
	return &again
}

// notKnown says why a request can't be carried out here, and that the node that could do it
// doesn't know the caller's token. Only a person can mend that, so the log says it
// once for each node.
func (s *Server) notKnown(q *request, to string, why error) error {
	const advice = "it doesn't know this token: give all nodes the same AGENTD_TOKEN, or the same oidc settings, and make tokens through a server"
	if _, said := s.strangers.LoadOrStore(to, true); !said {
		s.opt.Logger.Warn("a node refuses what is passed on to it; "+advice, "node", to, "requestId", q.id)
	}
	f, ok := errors.AsType[*fault.Error](why)
	if !ok {
		return why
	}
	told := *f
	told.Detail += "; " + advice
	return &told
}

// onItsWay reports whether a request was carried out nowhere because its session is between
// two nodes.
func onItsWay(err error) bool { return unreached(err) || errors.Is(err, errPassedBack) }

// unreached reports whether a request was never sent: no connection came about.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// pause waits for a while; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
