package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

const (
	// channel is the NOTIFY channel; see hints.go for what is said there.
	channel = "agentd"
	// retries is how many times a lease that can't be renewed is tried to be in the time
	// between two renewals.
	retries = 8
)

const (
	// The last process to open under a node's name is the node.
	registerSQL = `
INSERT INTO agentd.nodes (node_id, incarnation, address, lease_until, heartbeat, about)
VALUES ($1, $2, $3, clock_timestamp() + $4::interval, clock_timestamp(), $5)
ON CONFLICT (node_id) DO UPDATE SET incarnation = excluded.incarnation, address = excluded.address, about = excluded.about,
	lease_until = excluded.lease_until, heartbeat = excluded.heartbeat, beats = 0
RETURNING heartbeat`
	unregisterSQL = `DELETE FROM agentd.nodes WHERE node_id = $1 AND incarnation = $2`

	notifySQL = `SELECT count(pg_notify($1, said)) FROM unnest($2::text[]) AS said`

	// Transaction ids begin anew when a dump is restored into another cluster;
	// rows from the old one would never be reached.
	dropForeignSQL = `DELETE FROM agentd.appends WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`
)

// registerNode makes this process the node of its name.
func (s *Store) registerNode(ctx context.Context, conn *pgx.Conn) error {
	since, err := s.lookForOutage(ctx, conn)
	if err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	asked := time.Now()
	s.lease.beginAfter(since, asked, s.opts.LeaseTTL)
	if err := conn.QueryRow(ctx, registerSQL, s.leaseArgs()...).Scan(&s.registered); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	s.lease.renewed(asked, s.opts.LeaseTTL)
	s.compareClocks(s.registered)
	if _, err := conn.Exec(ctx, dropForeignSQL); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	return nil
}

func (s *Store) leaseArgs() []any {
	return []any{s.opts.NodeID, s.incarnation, s.opts.Address, s.opts.LeaseTTL, selfDescription{s.describeSelf(), true}}
}

// selfDescription is what a node's row says of it.
type selfDescription struct {
	store.About
	// Packs says that the node can read packs; see pack.go.
	Packs bool `json:"packs"`
}

// describeSelf says what the other nodes are told of this one.
func (s *Store) describeSelf() store.About {
	var a store.About
	if describe := s.describe.Load(); describe != nil {
		a = (*describe)()
	}
	a.Pool, a.Labels = s.opts.Pool, s.opts.Labels
	return a
}

// Describe implements [store.Shared].
func (s *Store) Describe(about func() store.About) { s.describe.Store(&about) }

// Announce implements [store.Shared]. The keeper alone writes the node's row, so that what
// it says never goes back to what was before. It is not a call that the end waits for,
// because the keeper waits for those.
func (s *Store) Announce(ctx context.Context) error {
	written := make(chan error, 1)
	select {
	case s.keeper.announce <- written:
	case <-s.closing.Done():
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-written:
		if err != nil {
			return wrapFailed("tell the other nodes", err)
		}
		return nil
	case <-s.closing.Done():
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keeper renews the lease and wakes followers, on a connection of its own so that neither a
// busy pool nor what waits for a lock can cost the node its lease.
type keeper struct {
	s     *Store
	hints hintQueue
	hint  chan struct{}
	// announce asks for the node's row to be written, and has the answer sent there.
	announce chan chan<- error
	done     chan struct{}
	err      error // of the end; readable when done is closed
	conn     *pgx.Conn
	warned   time.Time // when a failure was logged last
	// beats counts the renewals that were acknowledged, the last of them at that time by
	// the database's clock.
	beats        int64
	acknowledged time.Time
	// quiet is until when the next notification waits for more to say.
	quiet time.Time
}

// startKeeper takes conn over and runs until ctx ends.
func startKeeper(ctx context.Context, s *Store, conn *pgx.Conn) *keeper {
	k := &keeper{s: s, hint: make(chan struct{}, 1), announce: make(chan chan<- error), done: make(chan struct{}), conn: conn, acknowledged: s.registered}
	go k.run(ctx)
	return k
}

// tellOthers has other nodes told what units appended. It never blocks.
func (k *keeper) tellOthers(units []*unit, others int) {
	if k.hints.noteAppended(units, others) {
		k.ring()
	}
}

// wake tells other nodes that there is something to look for. It never blocks.
func (k *keeper) wake() {
	k.hints.askToLook()
	k.ring()
}

func (k *keeper) ring() {
	select {
	case k.hint <- struct{}{}:
	default:
	}
}

// wait waits for the end of the keeper, which gives the lease up. A store that only reads has
// none.
func (k *keeper) wait() error {
	if k == nil {
		return nil
	}
	<-k.done
	return k.err
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	every := k.s.opts.LeaseTTL / 3
	tick := time.NewTicker(every)
	defer tick.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			// Calls under way may still append; the sessions are given up after them.
			k.s.calls.Wait()
			k.err = k.end()
			return
		case <-tick.C:
			if k.s.Err() != nil {
				continue
			}
			if err := k.runOnConnection(ctx, "renew the lease", k.renew); err != nil && !errors.Is(err, store.ErrReplaced) {
				// A database that is back soon finds the lease whole.
				k.s.lease.interrupted(k.acknowledged)
				tick.Reset(every / retries)
				continue
			}
			tick.Reset(every)
			k.notifyOthers(ctx)
		case written := <-k.announce:
			written <- k.runOnConnection(ctx, "tell the other nodes", k.renew)
		case <-k.hint:
			if wait := time.Until(k.quiet); wait > 0 {
				timer.Reset(wait)
				continue
			}
			k.notifyOthers(ctx)
		case <-timer.C:
			k.notifyOthers(ctx)
		}
	}
}

// notifyOthers sends what there is to tell. What can't be sent is told with the next
// heartbeat.
func (k *keeper) notifyOthers(ctx context.Context) {
	k.quiet = time.Now().Add(k.hints.gap())
	_ = k.runOnConnection(ctx, "notify", k.notify)
}

// runOnConnection does one thing on the keeper's connection, which it restores first if it
// broke. Failures are logged, at most one in the time between two renewals: the next tick
// tries again.
func (k *keeper) runOnConnection(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, k.s.opts.LeaseTTL/3)
	defer cancel()
	err := k.connect(ctx)
	if err == nil {
		err = do(ctx)
	}
	if err != nil && ctx.Err() != context.Canceled && time.Since(k.warned) >= k.s.opts.LeaseTTL/3 {
		k.warned = time.Now()
		k.s.opts.Logger.Warn("postgres: "+what, "node", k.s.opts.NodeID, "error", err)
	}
	return err
}

func (k *keeper) connect(ctx context.Context) error {
	if k.conn != nil && !k.conn.IsClosed() {
		return nil
	}
	conn, err := k.s.connect(ctx, "lease")
	if err != nil {
		return err
	}
	k.conn = conn
	return nil
}

func (k *keeper) renew(ctx context.Context) error {
	asked := time.Now()
	if k.s.lease.wasInterrupted(asked, k.s.opts.LeaseTTL) {
		if err := k.s.awaitOthers(ctx, k.conn, true); err != nil {
			return err
		}
	}
	var heartbeat time.Time
	err := k.conn.QueryRow(ctx, renewSQL, append(k.s.leaseArgs(), k.beats+1, k.beats)...).Scan(&heartbeat)
	if errors.Is(err, pgx.ErrNoRows) {
		err = k.notRenewed(ctx)
	}
	switch {
	case err == nil:
		k.beats++
		k.s.lease.renewed(asked, k.s.opts.LeaseTTL)
		k.s.compareClocks(heartbeat)
	case errors.Is(err, errGone):
		if err = k.s.registerNode(ctx, k.conn); err != nil {
			return err
		}
		k.beats, heartbeat = 0, k.s.registered
	case errors.Is(err, store.ErrRestored):
		k.s.fail(err)
		return err
	default:
		return err
	}
	k.acknowledged = heartbeat
	return nil
}

// loseName ends the lease of a process whose name another one has, and says so.
func (s *Store) loseName() error {
	s.lease.giveUp()
	return fmt.Errorf("%w: another process is node %s now; this one takes no session any more: stop it, or give it another name", store.ErrReplaced, s.opts.NodeID)
}

// notify doesn't wait for the disk: a lost hint is only late.
func (k *keeper) notify(ctx context.Context) error {
	ranges, overflow := k.hints.takeRanges()
	texts := payloads(k.s.opts.NodeID, ranges, overflow)
	if len(texts) == 0 {
		return nil
	}
	var b pgx.Batch
	b.Queue(`SET LOCAL synchronous_commit = off`)
	b.Queue(notifySQL, channel, texts)
	err := k.conn.SendBatch(ctx, &b).Close()
	if err != nil {
		k.hints.giveBack(ranges, overflow)
	}
	return err
}

// end gives the lease up, so that other nodes need not wait for it. If that
// fails they wait.
func (k *keeper) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), k.s.opts.LeaseTTL/3)
	defer cancel()
	if err := k.connect(ctx); err != nil {
		k.s.opts.Logger.Warn("postgres: give the lease up", "node", k.s.opts.NodeID, "error", err)
		return nil
	}
	if _, err := k.conn.Exec(ctx, unregisterSQL, k.s.opts.NodeID, k.s.incarnation); err != nil {
		k.s.opts.Logger.Warn("postgres: give the lease up", "node", k.s.opts.NodeID, "error", err)
	}
	return k.conn.Close(ctx)
}
