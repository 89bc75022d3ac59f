// Package postgres is the engine for many machines: it keeps facts in a
// PostgreSQL database that several nodes use at once.
//
// # Guarantees
//
// Everything of the port in package store. Safety doesn't rest on clocks: an
// append checks the session's epoch and head in the statement that inserts its
// records. Leases, which are measured by the database's clock alone, only say
// when a node may take a session from another. What Append acknowledges, the
// database has flushed; a database that is set not to flush is refused.
//
// A group of batches is one round trip and one transaction. If a batch of the
// group can't be written the group is tried again without it, so that a failure
// is its batch's own.
//
// When the connection breaks after an append was sent, its outcome is unknown
// and stays so for as long as the database may still be writing. A caller that
// needs to know claims the session again: the new epoch ends whatever was under
// way, and the head that Claim returns is definite.
//
// A database that restarts, crashes or can't be reached makes calls fail while
// it is away and no longer; the store need not be reopened. One that was restored
// to an earlier moment is noticed with the next renewal of the lease: from then on
// all calls end with store.ErrRestored, until the store is reopened.
//
// # Following
//
// Each group leaves a row with its transaction's id. A follower remembers the
// database's snapshot of its last look and asks for the rows of transactions
// that this snapshot couldn't see, so a transaction that commits late is not
// missed, also not after a broken connection. Between two looks NOTIFY says what
// was appended, with the ranges, so that an append costs a follower no question.
// It is sent after the commit, because a NOTIFY in the transaction makes all
// commits of the database wait for one another, and not for each append: see
// notifyGap. A node on which nobody follows a session doesn't listen.
//
// # Months
//
// Records are in tables by the month in which they were appended, see months.go. A read looks
// at the last two first, and at all only if something is missing. What a [store.Trim] removes
// of months that are over may be left where it is until the table can be dropped: no read
// returns it.
//
// # Packs
//
// The records of one session in one transaction share rows, see pack.go, while every node with
// a lease can read such rows.
//
// # Poolers
//
// Behind a pooler that gives each transaction another connection of its own, such
// as PgBouncer in transaction mode, nothing that belongs to a session of the
// database holds. Open notices a pooler, and then prepares no statements, never
// asks for one to be cancelled, and looks for the appends of others instead of
// listening. No lock outlives its transaction anyway.
//
// # Concurrency
//
// All methods of Store may be called by many goroutines. A store owns a background
// goroutine that renews the lease and one that clears up months, one more that moves
// contents if there is object storage and one that watches a replica, and waits for them
// in Close.
// Iterators hold no connection while the caller's loop body runs, except for
// Follow, which has one of its own.
//
// # Replicas
//
// With [Options.Replica] a standby of the database takes the reads of callers that ask for
// it with [Store.OnReplica], while it keeps up and is one of this database. They read
// what they would read from the database: see replica.go.
//
// # Objects
//
// With [Options.Objects] the contents of large blobs are moved out of the database soon
// after they were stored. The rows decide which blobs there are, and list the sums of an
// object's parts; what doesn't fit them is store.ErrCorrupt. A put and an append never
// wait for the objects, so that their absence holds up only who reads what was moved.
//
// # Limits
//
// Session ids, snapshot names and kinds are UTF-8 without NUL. An index key has
// at most 2,600 bytes.
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"agentd/store"
)

// BesidePool is how many connections a store has beside its pool at most: that of the
// lease, and that of the one loop over Follow.
const BesidePool = 2

// Options are the settings of a store. The zero value is valid.
type Options struct {
	// NodeID names this node. A node that comes back under its old name has its
	// sessions at once. If empty, defaults to a random name.
	NodeID string
	// Address is where this node listens, for nodes that forward commands to it.
	Address string
	// Listen, if set, begins to listen and returns the Address. It is called when the tables are
	// up to date, which may take long: a node that listens and doesn't answer would be asked.
	Listen func(context.Context) (address string, err error)
	// Pool names the nodes that share a file system with this one, Labels are shown to
	// people.
	Pool   string
	Labels []string
	// LeaseTTL is how long other nodes leave this node's sessions alone after its
	// last sign of life. If zero, defaults to 10 s.
	LeaseTTL time.Duration
	// PollInterval is how often Follow looks for appends that it got no hint of.
	// If zero, defaults to 500 ms.
	PollInterval time.Duration
	// MaxConns bounds the pool of connections. The lease and each Follow have a
	// connection beside the pool. If zero, defaults to pool_max_conns of the URL,
	// or the greater of 4 and the number of CPUs.
	MaxConns int
	// AllowUnsafe opens a database that may lose or damage acknowledged data
	// after a power loss: fsync, full_page_writes or synchronous_commit is off.
	AllowUnsafe bool
	// Replica, if not empty, is the URL of a standby of the database, which takes long
	// reads while it keeps up; see [Store.OnReplica].
	Replica string
	// Objects, if not nil, is where the contents of blobs go that have at least ObjectsFrom
	// bytes, soon after they were stored. All nodes of a database must have the same. If
	// ObjectsFrom is zero, it defaults to 64 KiB.
	Objects     store.Objects
	ObjectsFrom int64
	// ObjectsKept is how long an object is left after its blob was deleted, so that an
	// earlier state of the database that is restored finds it. Less than an hour is
	// for tests: an object may be written by a node that was taken for dead.
	ObjectsKept time.Duration
	// ReadOnly opens the database to read what is there: nothing is changed, this process is
	// no node, and tables that aren't up to date are a [*PendingError]. Nothing may be
	// claimed, written or followed then.
	ReadOnly bool
	// Logger gets what happens in the background. If nil, nothing is logged.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var r Options
	if o != nil {
		r = *o
	}
	if r.NodeID == "" {
		r.NodeID = "node_" + rand.Text()
	}
	if r.LeaseTTL <= 0 {
		r.LeaseTTL = 10 * time.Second
	}
	if r.PollInterval <= 0 {
		r.PollInterval = 500 * time.Millisecond
	}
	if r.ObjectsFrom <= 0 {
		r.ObjectsFrom = 64 << 10
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	return r
}

// Store is a store in a PostgreSQL database. See the package comment.
type Store struct {
	opts        Options
	incarnation string
	location    string
	version     int
	conn        *pgx.ConnConfig
	// pooled says that a pooler is between this process and the database.
	pooled bool
	pool   *pgxpool.Pool
	// replica answers long reads; nil if there is none.
	replica *replica
	start   position
	keeper  *keeper
	lease   lease
	lack    lack
	// clock is the node's time; skewed says that it was reported to be another one than the
	// database's.
	clock  *nodeClock
	skewed atomic.Bool
	// awaited says whether anyone waits for hints; awaitedNow that someone begins to.
	awaited    atomic.Pointer[func() bool]
	awaitedNow chan struct{}
	// describe has what the other nodes are told of this one.
	describe atomic.Pointer[func() store.About]
	// moved is about the blobs whose contents are in object storage.
	moved mover
	// packing says whether records share rows.
	packing packing
	// months are the tables that records are in; cleared is closed when no goroutine clears up
	// any more.
	months  months
	cleared chan struct{}

	closing context.Context
	stop    context.CancelFunc
	calls   sync.WaitGroup

	// registered is when this process became the node, by the database's clock.
	registered time.Time
	// failing ends once there is a failure.
	failing    context.Context
	setFailing context.CancelFunc

	mu      sync.Mutex
	closed  bool
	failure error     // why nothing goes on; see restored.go
	sweeps  time.Time // when sessions without an owner are looked for next
	// unwritten are sessions that were claimed as new ones.
	unwritten map[string]struct{}
	// unsettled are sessions that were adopted, or not: the connection broke.
	unsettled []string
}

var _ store.Store = (*Store)(nil)

// Open connects to the database at url, brings its tables up to date and makes
// this process one of its nodes. Data of a newer version is store.ErrNewer.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := openStore(ctx, url, opts.withDefaults())
	if err != nil {
		if isFull(err) {
			err = classifyError(err)
		}
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return s, nil
}

func openStore(ctx context.Context, url string, opts Options) (*Store, error) {
	config, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts:        opts,
		incarnation: rand.Text(),
		location:    locationOf(config.ConnConfig),
		conn:        config.ConnConfig.Copy(),
		awaitedNow:  make(chan struct{}, 1),
		unwritten:   map[string]struct{}{},
		clock:       newNodeClock(machineClock()),
	}
	now := s.clock.now
	s.months.now.Store(&now)
	s.failing, s.setFailing = context.WithCancel(context.Background())
	s.cleared = make(chan struct{})
	s.moved.due, s.moved.done = make(chan struct{}, 1), make(chan struct{})
	conn, err := s.connect(ctx, "lease")
	if err != nil {
		return nil, err
	}
	if s.pooled, err = isPooled(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	if s.pooled {
		opts.Logger.Info("there is a pooler before the database: other nodes' appends are polled for, and statements are not prepared", "database", s.location)
		withoutSession(config.ConnConfig)
		withoutSession(s.conn)
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			withoutCancelling(c)
			return nil
		}
		if conn, err = s.reconnect(ctx, conn); err != nil {
			return nil, err
		}
	} else {
		byIndexAlone(config.ConnConfig)
		if opts.ReadOnly {
			config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		}
	}
	prepare := s.prepareNode
	if opts.ReadOnly {
		prepare = s.prepareReader
	}
	if err := prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	if err := s.openObjects(ctx); err != nil {
		s.pool.Close()
		return nil, errors.Join(err, conn.Close(ctx))
	}
	s.closing, s.stop = context.WithCancel(context.Background())
	if opts.ReadOnly {
		close(s.cleared)
		close(s.moved.done)
		return s, conn.Close(ctx)
	}
	if opts.Replica != "" {
		if s.replica, err = openReplica(ctx, opts); err != nil {
			s.pool.Close()
			return nil, errors.Join(fmt.Errorf("replica: %w", err), conn.Close(ctx))
		}
	}
	s.keeper = startKeeper(s.closing, s, conn)
	go s.clearUpUntil(s.closing)
	if s.replica != nil {
		go s.watchReplica(s.closing)
	}
	if opts.Objects != nil {
		go s.moveUntil(s.closing)
	} else {
		close(s.moved.done)
	}
	return s, nil
}

// prepareNode makes the database ready for this node over its first connection.
func (s *Store) prepareNode(ctx context.Context, conn *pgx.Conn) error {
	if err := checkServer(ctx, conn, s.opts.AllowUnsafe); err != nil {
		return err
	}
	beside := func(ctx context.Context) (*pgx.Conn, error) { return s.connect(ctx, "migration") }
	version, err := migrate(ctx, conn, beside, s.opts.Logger)
	if err != nil {
		return err
	}
	s.version = version
	if s.opts.Listen != nil {
		if s.opts.Address, err = s.opts.Listen(ctx); err != nil {
			return err
		}
	}
	if err := s.registerNode(ctx, conn); err != nil {
		return err
	}
	s.tryMonths(ctx, conn)
	s.start, err = startPosition(ctx, conn)
	return err
}

// prepareReader looks at the database over its first connection, and changes nothing.
func (s *Store) prepareReader(ctx context.Context, conn *pgx.Conn) (err error) {
	if err := checkServer(ctx, conn, s.opts.AllowUnsafe); err != nil {
		return err
	}
	if s.version, err = checkUpToDate(ctx, conn); err != nil {
		return err
	}
	return s.lookAtMonths(ctx, conn)
}

// enterCall admits a call, or says that its context has ended or the store is
// closed. The caller must call s.calls.Done when the call has ended.
func (s *Store) enterCall(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if s.failure != nil {
		return s.failure
	}
	s.calls.Add(1)
	return nil
}

// Err returns store.ErrClosed after Close, and store.ErrRestored if the database is in an
// earlier state than this process has seen. One that fails recovers by itself, and what it
// acknowledged is durable.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	return s.failure
}

// Close gives this node's sessions up, ends Follow, waits for calls under way
// and releases all connections. It must not be called from the body of a loop
// over Follow.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stop()
	<-s.moved.done
	<-s.cleared
	s.calls.Wait()
	err := s.keeper.wait()
	s.replica.close()
	s.pool.Close()
	return err
}
