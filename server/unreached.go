package server

import (
	"context"
	"errors"
	"net"
	"time"
)

// elsewhereHeader is on the answer of a node that was asked for a session which it doesn't
// have: nothing was carried out.
const elsewhereHeader = "Agentd-Elsewhere"

// errPassedBack says that the node that should have a session says that another one does.
var errPassedBack = errors.New("server: the node that was asked does not have the session either")

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
