package mcp

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// delivery is how far the request of a call came. The transports note it; what
// the SDK reports can't be relied on, because a server may send the very errors
// with which the SDK says that it sent nothing.
type delivery struct {
	mu sync.Mutex
	// sent: at least a part of it was written.
	sent bool
	// status of an answer over HTTP; 0 without one.
	status int
	// expired: the server doesn't know the session.
	expired bool
}

type deliveryKey struct{}

func withDelivery(ctx context.Context, d *delivery) context.Context {
	return context.WithValue(ctx, deliveryKey{}, d)
}

// deliveryOf returns the delivery that a request belongs to, nil if to none.
func deliveryOf(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// recordSend records what became of a request. Sent once is sent: a call may take more
// than one request.
func (d *delivery) recordSend(sent bool, status int, expired bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent, d.status, d.expired = d.sent || sent && !expired, status, expired
}

// undone says that the server surely did nothing.
func (d *delivery) undone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.sent || d.status == http.StatusTooManyRequests || d.status == http.StatusServiceUnavailable
}

// stale says that it did nothing because the connection or the session is over.
func (d *delivery) stale() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.sent && (d.status == 0 || d.expired)
}

func (d *delivery) httpStatus() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

// notingConn notes requests that are written to a process.
type notingConn struct{ sdk.Connection }

// Write implements [sdk.Connection].
func (c notingConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	deliveryOf(ctx).recordSend(true, 0, false)
	return c.Connection.Write(ctx, msg)
}
