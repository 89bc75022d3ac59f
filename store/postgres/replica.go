package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A replica is a standby of the database that answers long reads. What it answers is as
// true as what the database would: before a caller reads, the database says how far its log
// is flushed, which is beyond everything that it acknowledged, and the replica must have
// applied that much of the same log. One that hasn't isn't asked.

// walSQL returns how far the database's log is flushed, and which log that is.
const walSQL = `
SELECT pg_current_wal_flush_lsn()::text, ('x' || left(pg_walfile_name(pg_current_wal_flush_lsn()), 8))::bit(32)::bigint, system_identifier
FROM pg_control_system()`

// appliedSQL says whether a server is a standby with that log, and has applied so much of it.
const appliedSQL = `
SELECT pg_is_in_recovery() AND c.timeline_id = $2 AND s.system_identifier = $3, coalesce(pg_last_wal_replay_lsn() >= $1::pg_lsn, false)
FROM pg_control_checkpoint() c, pg_control_system() s`

const (
	// replicaFirstPause and replicaLastPause bound the pauses between two looks at how far
	// a replica is: together they are how long a read waits for it.
	replicaFirstPause = time.Millisecond
	replicaLastPause  = 16 * time.Millisecond
	// replicaPatience is how long one that doesn't answer is waited for.
	replicaPatience = time.Second
	// replicaWatch is how often one that couldn't be used is looked at again.
	replicaWatch = time.Second
)

var (
	errReplicaBehind  = errors.New("it has not applied what the database acknowledged")
	errReplicaForeign = errors.New("it is no standby of this database, or still follows an earlier primary")
)

// replica is a standby that takes reads.
type replica struct {
	pool *pgxpool.Pool
	// usable says that it kept up when it was last asked.
	usable          atomic.Bool
	reads, failures atomic.Int64
	done            chan struct{} // closed when nobody watches it any more
}

// onReplica is the key of a context in which reads go to a replica.
type onReplica struct{}

// openReplica prepares the connections to the replica; it may be away.
func openReplica(ctx context.Context, opts Options) (*replica, error) {
	opts.MaxConns = 0 // those of its own URL
	config, err := parseURL(opts.Replica, opts)
	if err != nil {
		return nil, err
	}
	withoutSession(config.ConnConfig) // there may be a pooler before it, too
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		withoutCancellingPooled(c)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &replica{pool: pool, done: make(chan struct{})}, nil
}

// OnReplica implements [store.Replicated].
func (s *Store) OnReplica(ctx context.Context) context.Context {
	r := s.replica
	if r == nil || !r.usable.Load() {
		return ctx
	}
	if err := s.enterCall(ctx); err != nil {
		return ctx
	}
	defer s.calls.Done()
	switch err := s.awaitReplica(ctx); {
	case err == nil:
		return context.WithValue(ctx, onReplica{}, r)
	case ctx.Err() == nil:
		s.setReplicaAside(err)
	}
	return ctx
}

// awaitReplica returns once the replica has everything that is durable now, or says why it
// won't be asked.
func (s *Store) awaitReplica(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, replicaPatience)
	defer cancel()
	var flushed string
	var timeline, system int64
	// Not by queryRow, which might ask the replica itself.
	err := s.retryOnce(ctx, func(p *pgxpool.Pool) error { return p.QueryRow(ctx, walSQL).Scan(&flushed, &timeline, &system) })
	if err != nil {
		return err
	}
	for pause := replicaFirstPause; ; pause *= 2 {
		var same, applied bool
		err := s.replica.pool.QueryRow(ctx, appliedSQL, flushed, timeline, system).Scan(&same, &applied)
		switch {
		case err != nil:
			return err
		case !same:
			return errReplicaForeign
		case applied:
			return nil
		case pause > replicaLastPause:
			return errReplicaBehind
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// setReplicaAside has the replica not asked until it keeps up again.
func (s *Store) setReplicaAside(cause error) {
	s.replica.failures.Add(1)
	if s.replica.usable.Swap(false) {
		s.opts.Logger.Warn("the replica is not used for now: the database answers reads itself", "cause", cause)
	}
}

// watchReplica finds out when the replica can be used, until ctx ends.
func (s *Store) watchReplica(ctx context.Context) {
	r := s.replica
	defer close(r.done)
	var told string
	for {
		if !r.usable.Load() {
			switch err := s.awaitReplica(ctx); {
			case ctx.Err() != nil:
				return
			case err == nil:
				told = ""
				r.usable.Store(true)
				s.opts.Logger.Info("long reads go to the replica")
			case err.Error() != told:
				told = err.Error()
				s.opts.Logger.Warn("the replica can't be used yet: the database answers reads itself", "cause", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(replicaWatch):
		}
	}
}

// close waits until nobody watches the replica and closes its connections.
func (r *replica) close() {
	if r == nil {
		return
	}
	<-r.done
	r.pool.Close()
}

// readOnce is retryOnce for a statement that only reads: if ctx says so, the replica answers
// it, and the database only if the replica fails.
func (s *Store) readOnce(ctx context.Context, do func(*pgxpool.Pool) error) error {
	if r, ok := ctx.Value(onReplica{}).(*replica); ok && r == s.replica && r.usable.Load() {
		err := do(r.pool)
		if err == nil || errors.Is(err, pgx.ErrNoRows) || ctx.Err() != nil {
			r.reads.Add(1)
			return classifyError(err)
		}
		if sqlState(err) != codeReadOnly { // a write, which only the database takes
			s.setReplicaAside(err)
		}
	}
	return s.retryOnce(ctx, do)
}

// ReplicaFigures are the measurements of a store's replica, for operators.
type ReplicaFigures struct {
	// Configured says that there is one, Usable that it keeps up.
	Configured, Usable bool
	// Reads counts the statements that it answered, Failures how often it couldn't or was
	// behind.
	Reads, Failures int64
}

// ReplicaFigures returns the measurements so far.
func (s *Store) ReplicaFigures() ReplicaFigures {
	r := s.replica
	if r == nil {
		return ReplicaFigures{}
	}
	return ReplicaFigures{Configured: true, Usable: r.usable.Load(), Reads: r.reads.Load(), Failures: r.failures.Load()}
}
