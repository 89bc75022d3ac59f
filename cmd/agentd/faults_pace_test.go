package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// faultPatience is how many leases after a fault turns without a question have ended. That is
// many times what it takes; what ends only because of a later command takes longer.
const faultPatience = 60

// errNoEnd says that a turn without a question did not end.
var errNoEnd = fmt.Errorf("it did not end by itself within %d leases", faultPatience)

// faultPace tells how long ago a fault ended, in leases: by how often a node that wasn't hit
// has renewed its own since. A machine that is busy renews late, too.
type faultPace struct {
	w    *faultWorld
	node *faultNode
	from int64
}

// startPace begins when a fault has ended.
func (w *faultWorld) startPace(n *faultNode) *faultPace {
	w.t.Helper()
	w.slowest = 0
	p := &faultPace{w: w, node: n}
	for {
		var err error
		if p.from, err = p.renewals(w.t.Context()); err == nil {
			return p
		}
		if w.t.Context().Err() != nil {
			w.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the database may still be on its way up
	}
}

// renewals counts how often the node has renewed its lease.
func (p *faultPace) renewals(ctx context.Context) (n int64, err error) {
	conn, err := pgx.Connect(ctx, p.w.cluster.URL(p.w.database))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT beats FROM agentd.nodes WHERE address = $1`, p.node.advertise).Scan(&n)
	return n, err
}

// leases returns how many leases ago the fault ended.
func (p *faultPace) leases(ctx context.Context) (float64, error) {
	n, err := p.renewals(ctx)
	if err != nil {
		return 0, err
	}
	if n < p.from { // it counts from the beginning, as after the loss of its lease
		p.from = 0
	}
	return float64(n-p.from) / 3, nil
}

// limit returns a context that ends when a turn should have ended long ago. End is called when
// it has ended, and asked when a person was asked, who may take any time.
func (p *faultPace) limit(parent context.Context) (ctx context.Context, asked, end func()) {
	if p == nil {
		return parent, func() {}, func() {}
	}
	ctx, cancel := context.WithCancelCause(parent)
	watching, stop := context.WithCancel(parent)
	var watch sync.WaitGroup
	watch.Go(func() {
		for pauseFor(watching, faultLease) {
			if n, err := p.leases(watching); err == nil && n > faultPatience {
				cancel(errNoEnd)
				return
			}
		}
	})
	waitsForAPerson := false
	asked = func() {
		waitsForAPerson = true
		stop()
		watch.Wait()
	}
	return ctx, asked, func() {
		stop()
		watch.Wait()
		if n, err := p.leases(parent); err == nil && !waitsForAPerson {
			p.w.slowest = max(p.w.slowest, n)
		}
		cancel(nil)
	}
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
