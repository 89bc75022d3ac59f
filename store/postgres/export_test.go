package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"agentd/store"
)

// ResetPool closes the connections of the pool that nobody uses.
func (s *Store) ResetPool() { s.pool.Reset() }

// UseReplica looks at the replica now, and has it used if it keeps up.
func (s *Store) UseReplica(ctx context.Context) error {
	err := s.awaitReplica(ctx)
	s.replica.usable.Store(err == nil)
	return err
}

// SetTime has records appended as at a time from now on.
func (s *Store) SetTime(now func() time.Time) { s.months.now.Store(&now) }

// KeepMonths makes the tables for what is appended now.
func (s *Store) KeepMonths(ctx context.Context) error {
	return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return s.keepMonths(ctx, c.Conn()) })
}

// PruneMonths looks at all months that are over.
func (s *Store) PruneMonths(ctx context.Context) error { return s.pruneMonths(ctx, 0) }

// DropMonth moves what is needed of a month and drops it.
func (s *Store) DropMonth(ctx context.Context, month int) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return s.dropMonth(ctx, tx, month) })
}

// SetPacking has decide say for each append whether records share rows.
func (s *Store) SetPacking(decide func() bool) { s.packing.decide.Store(&decide) }

// Version is the number of steps that there are.
func Version() int {
	steps, err := loadMigrations(migrationFiles)
	if err != nil {
		panic(err)
	}
	return len(steps)
}

// MigrateTo brings a database to an earlier version of the schema.
func MigrateTo(ctx context.Context, conn *pgx.Conn, version int) error {
	steps, err := loadMigrations(migrationFiles)
	if err != nil {
		return err
	}
	return bringTo(ctx, conn, steps[:version], slog.New(slog.DiscardHandler))
}

// MigrateFurther applies one more step than there is.
func MigrateFurther(ctx context.Context, conn *pgx.Conn, text string, log *slog.Logger) error {
	steps, err := loadMigrations(migrationFiles)
	if err != nil {
		return err
	}
	next := migration{version: max(len(steps)+1, firstOnline), name: "further", sql: text, checksum: text}
	for len(steps)+1 < next.version { // the rule begins later
		steps = append(steps, migration{version: len(steps) + 1, name: "none", sql: "SELECT 1"})
	}
	return bringTo(ctx, conn, append(steps, next), log)
}

// AloneMark begins a step without a transaction.
const AloneMark = aloneMark

func bringTo(ctx context.Context, conn *pgx.Conn, steps []migration, log *slog.Logger) error {
	m := &migrator{steps: steps, turn: conn, log: log}
	m.connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, conn.Config()) }
	return m.bringUpToDate(ctx)
}

// Checksum is that of a record's row.
func Checksum(sessionID string, r store.Record) int64 {
	return checksum(sessionID, r.Sequence, r.Hash[:], r.Data)
}

// Planned returns how often each statement that a connection prepared was planned for its
// values, and how often it ran with a plan for all values.
func (s *Store) Planned(ctx context.Context) (map[string][2]int64, error) {
	rows, err := s.pool.Query(ctx, `SELECT statement, custom_plans, generic_plans FROM pg_prepared_statements`)
	if err != nil {
		return nil, err
	}
	plans := map[string][2]int64{}
	var text string
	var custom, generic int64
	_, err = pgx.ForEachRow(rows, []any{&text, &custom, &generic}, func() error {
		plans[text] = [2]int64{custom, generic}
		return nil
	})
	return plans, err
}

// LoseDatabase has renewals of the lease fail, as if the last one was acknowledged that long ago.
func (s *Store) LoseDatabase(ago time.Duration) { s.lease.interrupted(s.registered.Add(-ago)) }

// FindDatabase has the lease renewed again, as if the last time was that long ago.
func (s *Store) FindDatabase(ago time.Duration) {
	s.lease.mu.Lock()
	s.lease.asked, s.lease.patient = time.Now().Add(-ago), time.Time{}
	s.lease.mu.Unlock()
	s.lease.renewed(time.Now(), s.opts.LeaseTTL)
}
