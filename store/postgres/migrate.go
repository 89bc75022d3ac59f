package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the advisory lock under which a node migrates ("agentd").
const migrationLock = 0x6167656e7464

// Steps are applied while nodes of the version before go on, and while others read for hours.
// So a step never waits behind them with a lock that those who come later would queue for: it
// gives up soon and tries again after a pause. Each step is a transaction of its own. From
// firstOnline on steps may not rewrite or scan a table that is in use; a test reads them, and
// a bound on their statements holds where the test is wrong.

const (
	// firstOnline is the first step that was written under these rules.
	firstOnline = 10
	// stepPatience bounds how long others may have to queue behind a step, stepBound how
	// long one of its statements may take.
	stepPatience = `SET LOCAL lock_timeout = '500ms'`
	stepBound    = `SET LOCAL statement_timeout = '3s'`
	stepUnbound  = `SET LOCAL statement_timeout = 0`
	// Others work undisturbed during these pauses.
	firstStepPause = time.Second
	lastStepPause  = 10 * time.Second
	// aloneMark begins a step that can't run in a transaction, such as CREATE INDEX
	// CONCURRENTLY. Its statements must be such that they can be repeated.
	aloneMark = "-- agentd: no transaction\n"
)

const (
	makeLedgerSQL = `
CREATE SCHEMA IF NOT EXISTS agentd;
CREATE TABLE IF NOT EXISTS agentd.migrations (
	version    integer PRIMARY KEY,
	name       text NOT NULL,
	checksum   text NOT NULL,
	applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)`
	hasLedgerSQL  = `SELECT to_regclass('agentd.migrations') IS NOT NULL`
	ledgerSQL     = `SELECT version, name, checksum FROM agentd.migrations ORDER BY version`
	noteStepSQL   = `INSERT INTO agentd.migrations (version, name, checksum) VALUES ($1, $2, $3)`
	brokenSQL     = `SELECT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid)`
	oldestUserSQL = `
SELECT format('process %s (%s), since %s', a.pid, a.application_name, a.xact_start)
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.xact_start IS NOT NULL AND EXISTS (
	SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
	WHERE l.pid = a.pid AND l.granted AND c.relnamespace = to_regnamespace('agentd'))
ORDER BY a.xact_start LIMIT 1`
)

// migration is one step of the schema. Steps are numbered from 1 without gaps
// and never change once they are released.
type migration struct {
	version  int
	name     string
	sql      string
	checksum string
}

// isAlone says that a step runs outside of a transaction.
func (m *migration) isAlone() bool { return strings.HasPrefix(m.sql, aloneMark) }

// applied is a step that the database has.
type applied struct {
	version  int
	name     string
	checksum string
}

// loadMigrations reads the steps of a folder, in order.
func loadMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []migration
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(path.Base(name), ".sql")
		number, _, _ := strings.Cut(base, "_")
		if version, err := strconv.Atoi(number); err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s must have the number %d", name, i+1)
		}
		sum := sha256.Sum256(text)
		steps = append(steps, migration{i + 1, base, string(text), hex.EncodeToString(sum[:])})
	}
	return steps, nil
}

// pendingMigrations decides which steps a database with the given history needs.
func pendingMigrations(steps []migration, done []applied) ([]migration, error) {
	for i, d := range done {
		if d.version != i+1 {
			return nil, fmt.Errorf("%w: the database's history lacks migration %d", store.ErrCorrupt, i+1)
		}
		if i >= len(steps) {
			return nil, fmt.Errorf("%w: it has migration %d (%s), this agentd knows %d", store.ErrNewer, done[len(done)-1].version, done[len(done)-1].name, len(steps))
		}
		if d.checksum != steps[i].checksum {
			return nil, fmt.Errorf("migration %d (%s) in the database differs from this agentd's (%s): it was changed after it was applied", d.version, d.name, steps[i].name)
		}
	}
	return steps[len(done):], nil
}

// migrator applies steps.
type migrator struct {
	steps []migration
	// turn is the connection over which a node waits for its turn. While steps are tried it
	// is in a transaction that has nothing but an advisory lock.
	turn *pgx.Conn
	// connect makes the connection that steps are applied over, if there are any.
	connect func(context.Context) (*pgx.Conn, error)
	log     *slog.Logger
	told    bool
}

// migrate brings the schema up to date and returns its version. Nodes that start
// at once take turns.
func migrate(ctx context.Context, conn *pgx.Conn, connect func(context.Context) (*pgx.Conn, error), log *slog.Logger) (int, error) {
	steps, err := loadMigrations(migrationFiles)
	if err == nil {
		m := &migrator{steps: steps, turn: conn, connect: connect, log: log}
		err = m.bringUpToDate(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	return len(steps), nil
}

// PendingError says which steps the tables of a database lack. The next node of this version that
// opens it applies them.
type PendingError struct {
	Steps []string
	// New says that there are no tables yet.
	New bool
}

func (e *PendingError) Error() string {
	if e.New {
		return "the database has no tables yet; the first node that starts makes them"
	}
	return fmt.Sprintf("the tables of the database are of an earlier version and lack %s; the next node that starts brings them up to date", strings.Join(e.Steps, ", "))
}

// checkUpToDate returns the version of the tables, or a [*PendingError].
func checkUpToDate(ctx context.Context, conn *pgx.Conn) (int, error) {
	steps, err := loadMigrations(migrationFiles)
	if err != nil {
		return 0, err
	}
	todo, err := (&migrator{steps: steps}).readPending(ctx, conn)
	if err != nil || len(todo) == 0 {
		return len(steps), err
	}
	pending := &PendingError{New: len(todo) == len(steps)}
	for i := range todo {
		pending.Steps = append(pending.Steps, todo[i].name)
	}
	return 0, pending
}

// bringUpToDate applies what is pending. A database that is up to date is only read, so that
// a role without the right to create can open it.
func (m *migrator) bringUpToDate(ctx context.Context) error {
	todo, err := m.readPending(ctx, m.turn)
	if err != nil || len(todo) == 0 {
		return err
	}
	work, err := m.connect(ctx)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, m.turn, func(turn pgx.Tx) error {
		if err := m.awaitTurn(ctx, turn); err != nil {
			return err
		}
		todo, err := m.readPending(ctx, work) // another node may have had its turn
		for i := range todo {
			if err := m.applyStep(ctx, work, &todo[i]); err != nil {
				return fmt.Errorf("%s: %w", todo[i].name, err)
			}
		}
		return err
	})
	if err = errors.Join(err, work.Close(context.WithoutCancel(ctx))); err == nil && m.told {
		m.log.Info("postgres: the tables are up to date", "version", len(m.steps))
	}
	return err
}

// awaitTurn waits until no other node applies steps.
func (m *migrator) awaitTurn(ctx context.Context, turn pgx.Tx) error {
	const unbound = `SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; ` + stepUnbound
	if _, err := turn.Exec(ctx, unbound); err != nil {
		return err
	}
	// By the simple protocol: a portal of the other one would stay, and with it a snapshot that
	// CREATE INDEX CONCURRENTLY waits for.
	var mine bool
	err := turn.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, pgx.QueryExecModeSimpleProtocol, int64(migrationLock)).Scan(&mine)
	if err != nil || mine {
		return err
	}
	m.log.Info("postgres: another node brings the tables up to date; this one waits for it")
	_, err = turn.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, pgx.QueryExecModeSimpleProtocol, int64(migrationLock))
	return err
}

// readPending returns the steps that the database lacks.
func (m *migrator) readPending(ctx context.Context, conn *pgx.Conn) ([]migration, error) {
	var there bool
	if err := conn.QueryRow(ctx, hasLedgerSQL).Scan(&there); err != nil {
		return nil, err
	}
	if !there {
		return m.steps, nil
	}
	rows, err := conn.Query(ctx, ledgerSQL)
	if err != nil {
		return nil, err
	}
	done, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (applied, error) {
		var a applied
		err := row.Scan(&a.version, &a.name, &a.checksum)
		return a, err
	})
	if err != nil {
		return nil, err
	}
	return pendingMigrations(m.steps, done)
}

// applyStep tries a step until others don't hold it up.
func (m *migrator) applyStep(ctx context.Context, work *pgx.Conn, step *migration) error {
	for pause := firstStepPause; ; pause = min(2*pause, lastStepPause) {
		err := tryStep(ctx, work, step)
		if err == nil || ctx.Err() != nil || !isHeldUp(err) {
			return err
		}
		m.tellHeldUp(ctx, work, step, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// isHeldUp reports whether a step failed because of what others do at the moment.
func isHeldUp(err error) bool {
	switch sqlState(err) {
	case codeLockNotAvailable, codeDeadlock, codeQueryCanceled:
		return true
	}
	return false
}

// tellHeldUp says once that the node waits, and for whom.
func (m *migrator) tellHeldUp(ctx context.Context, work *pgx.Conn, step *migration, cause error) {
	m.log.Debug("postgres: a step was held up", "step", step.name, "error", cause)
	if m.told {
		return
	}
	m.told = true
	holder := "unknown"
	if err := work.QueryRow(ctx, oldestUserSQL).Scan(&holder); err != nil {
		m.log.Debug("postgres: it is not known who holds the tables", "error", err)
	}
	m.log.Warn("postgres: the tables can't be brought up to date while a long transaction uses them; this node tries until it has ended, and others go on meanwhile",
		"step", step.name, "longest", holder, "error", cause)
}

// tryStep applies a step and notes that, or does nothing.
func tryStep(ctx context.Context, work *pgx.Conn, step *migration) error {
	if step.isAlone() {
		return applyAlone(ctx, work, step)
	}
	bound := stepUnbound
	if step.version >= firstOnline {
		bound = stepBound
	}
	return pgx.BeginFunc(ctx, work, func(tx pgx.Tx) error {
		texts := []string{stepPatience, bound, step.sql}
		if step.version == 1 {
			texts = []string{stepPatience, bound, makeLedgerSQL, step.sql}
		}
		for _, text := range texts {
			if _, err := tx.Exec(ctx, text); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, noteStepSQL, step.version, step.name, step.checksum)
		return err
	})
}

// concurrentIndex finds the name of the index that a statement of a step without a
// transaction makes.
var concurrentIndex = regexp.MustCompile(`(?i)^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+) ON (?:ONLY )?(\w+)\.`)

// applyAlone applies a step outside of a transaction. Of an attempt that was cut off an index
// may be left that is not valid; it is made again.
func applyAlone(ctx context.Context, work *pgx.Conn, step *migration) error {
	for _, text := range statementsOf(step.sql) {
		index := ""
		if found := concurrentIndex.FindStringSubmatch(text); found != nil {
			index = found[2] + "." + found[1]
		}
		if err := dropBroken(ctx, work, index); err != nil {
			return err
		}
		if _, err := work.Exec(ctx, text); err != nil {
			return err
		}
	}
	_, err := work.Exec(ctx, noteStepSQL, step.version, step.name, step.checksum)
	return err
}

// dropBroken removes an index that is not valid.
func dropBroken(ctx context.Context, work *pgx.Conn, index string) error {
	if index == "" {
		return nil
	}
	var broken bool
	if err := work.QueryRow(ctx, brokenSQL, index).Scan(&broken); err != nil || !broken {
		return err
	}
	_, err := work.Exec(ctx, `DROP INDEX CONCURRENTLY IF EXISTS `+index)
	return err
}

// statementsOf splits the text of a step that has no strings or functions with semicolons.
func statementsOf(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	var list []string
	for part := range strings.SplitSeq(strings.Join(lines, " "), ";") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
