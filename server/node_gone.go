package server

import (
	"context"
	"errors"
	"time"
)

// nodeCheck is how often it is looked whether a node that was asked is still there.
const nodeCheck = 500 * time.Millisecond

// errNodeGone says that the node that a request was passed on to lost its lease.
var errNodeGone = errors.New("server: the node that owns the session does not answer, and its lease has ended")

// whileAlive returns a context that ends when the node at an address is no longer one: a
// node that froze would keep the request for as long as the client waits, while its
// sessions go on elsewhere.
func (s *Server) whileAlive(parent context.Context, address string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if s.opt.NodeAlive == nil {
		return ctx, func() { cancel(nil) }
	}
	go func() {
		tick := time.NewTicker(nodeCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if alive, err := s.opt.NodeAlive(ctx, address); err == nil && !alive {
				cancel(errNodeGone)
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// goneNode replaces the error of a request that was given up because its node is gone.
func goneNode(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errNodeGone) {
		return cause
	}
	return err
}
