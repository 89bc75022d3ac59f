package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the advisory lock under which a node migrates ("agentd").
const migrationLock = 0x6167656e7464

// migration is one step of the schema. Steps are numbered from 1 without gaps
// and never change once they are released.
type migration struct {
	version  int
	name     string
	sql      string
	checksum string
}

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

// migrate brings the schema up to date and returns its version. Nodes that start
// at once take turns.
func migrate(ctx context.Context, conn *pgx.Conn) (int, error) {
	steps, err := loadMigrations(migrationFiles)
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return applyMigrations(ctx, tx, steps) })
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	return len(steps), nil
}

func applyMigrations(ctx context.Context, tx pgx.Tx, steps []migration) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
		return err
	}
	done, err := appliedMigrations(ctx, tx)
	if err != nil {
		return err
	}
	todo, err := pendingMigrations(steps, done)
	if err != nil {
		return err
	}
	for _, m := range todo {
		if _, err := tx.Exec(ctx, m.sql); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		_, err := tx.Exec(ctx, `INSERT INTO agentd.migrations (version, name, checksum) VALUES ($1, $2, $3)`, m.version, m.name, m.checksum)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// appliedMigrations returns the steps that the database has, and makes the table that
// lists them if need be. A database that is up to date is only read, so that a
// role without the right to create can open it.
func appliedMigrations(ctx context.Context, tx pgx.Tx) ([]applied, error) {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass('agentd.migrations') IS NOT NULL`).Scan(&there); err != nil {
		return nil, err
	}
	if !there {
		_, err := tx.Exec(ctx, `
			CREATE SCHEMA IF NOT EXISTS agentd;
			CREATE TABLE agentd.migrations (
				version    integer PRIMARY KEY,
				name       text NOT NULL,
				checksum   text NOT NULL,
				applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
			)`)
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT version, name, checksum FROM agentd.migrations ORDER BY version`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (applied, error) {
		var a applied
		err := row.Scan(&a.version, &a.name, &a.checksum)
		return a, err
	})
}
