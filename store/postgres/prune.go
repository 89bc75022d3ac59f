package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What retention removes of months that are over is only hidden by the session's base; see
// trim.go. The table goes as a whole when nothing in it is needed any more. When a day has
// passed in which no more of it was hidden, it isn't waited for longer: the rows that are
// needed move to agentd.events and the table goes, or the hidden ones are deleted, whichever
// are fewer.

const (
	// pruneLock is the advisory lock of the node that looks at the months.
	pruneLock = migrationLock + 2
	// pruneEvery is how often a node asks whether a month is due, pruneAfter how long a month
	// is left alone after it was looked at.
	pruneEvery = time.Hour
	pruneAfter = 24 * time.Hour
)

const (
	dueMonthsSQL = `
SELECT month, coalesce(live, -1) FROM agentd.months
WHERE month < $1 AND (looked IS NULL OR looked <= clock_timestamp() - $2::interval) AND EXISTS (SELECT 1 FROM agentd.bases)
ORDER BY month`
	lookedSQL    = `UPDATE agentd.months SET looked = clock_timestamp(), live = $2 WHERE month = $1`
	monthGoneSQL = `DELETE FROM agentd.months WHERE month = $1`
	// lockBasesSQL keeps sessions from being trimmed while what is needed of them moves.
	lockBasesSQL = `LOCK TABLE agentd.bases IN SHARE MODE`
)

func countMonthSQL(month int) string {
	return `SELECT count(*), count(*) FILTER (WHERE b.sequence IS NULL OR e.sequence > b.sequence)
		FROM ` + monthTable(month) + ` e LEFT JOIN agentd.bases b ON b.session_id = e.session_id`
}

func moveMonthSQL(month int) string {
	return `INSERT INTO agentd.events (session_id, sequence, hash, crc, data)
		SELECT e.session_id, e.sequence, e.hash, e.crc, e.data
		FROM ` + monthTable(month) + ` e LEFT JOIN agentd.bases b ON b.session_id = e.session_id
		WHERE b.sequence IS NULL OR e.sequence > b.sequence`
}

func deleteHiddenSQL(month int) string {
	return `DELETE FROM ` + monthTable(month) + ` e USING agentd.bases b WHERE b.session_id = e.session_id AND e.sequence <= b.sequence`
}

// pruneMonths looks at the months that are over and due, one node at a time.
func (s *Store) pruneMonths(ctx context.Context, after time.Duration) error {
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		var due []dueMonth
		rows, err := conn.Query(ctx, dueMonthsSQL, monthOf((*s.months.now.Load())()), after)
		if err == nil {
			due, err = pgx.CollectRows(rows, pgx.RowToStructByPos[dueMonth])
		}
		var failures []error
		for _, d := range due {
			failures = append(failures, s.pruneMonth(ctx, conn.Conn(), d))
		}
		return errors.Join(append(failures, err)...)
	})
}

// dueMonth is a month to look at, and how many of its rows were needed the last time; -1 if
// it wasn't looked at.
type dueMonth struct {
	Month int
	Live  int64
}

// pruneMonth looks at a month and removes it, or what is hidden in it, if it is time.
func (s *Store) pruneMonth(ctx context.Context, conn *pgx.Conn, d dueMonth) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, int64(pruneLock)).Scan(&mine); err != nil || !mine {
			return err
		}
		var all, live int64
		if err := tx.QueryRow(ctx, countMonthSQL(d.Month)).Scan(&all, &live); err != nil {
			return err
		}
		hidden := all - live
		switch {
		case live == 0, live == d.Live && live <= hidden:
			return s.dropMonth(ctx, tx, d.Month)
		case live == d.Live && hidden > 0:
			if _, err := tx.Exec(ctx, deleteHiddenSQL(d.Month)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, lookedSQL, d.Month, live)
		return err
	})
	if sqlState(err) == codeUndefinedTable {
		return nil // another node was quicker
	}
	if err != nil {
		return fmt.Errorf("month %d: %w", d.Month, err)
	}
	return nil
}

// dropMonth moves what is needed of a month and drops its table, in the caller's transaction.
// Nobody writes to the table or trims a session from before it is looked at to the end; who
// reads waits only for the drop. A node that still appends to the month goes to
// agentd.events then.
func (s *Store) dropMonth(ctx context.Context, tx pgx.Tx, month int) error {
	for _, sql := range []string{
		lockPatience, `LOCK TABLE ` + monthTable(month) + ` IN SHARE ROW EXCLUSIVE MODE`, lockBasesSQL,
		moveMonthSQL(month), `DROP TABLE ` + monthTable(month),
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, monthGoneSQL, month); err != nil {
		return err
	}
	s.opts.Logger.Info("postgres: a month of events was dropped", "month", month)
	return nil
}
