package server

import (
	"context"
	"errors"
	"net"
	"time"
)

// unreachedFor is how long a command waits for a session whose node can't be reached any
// more to come to another one.
const unreachedFor = 15 * time.Second

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
