package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// Objects hold the contents of large blobs if there is a place for them. The rows of the
// database decide which blobs there are. A put and an append never wait for that place:
// what they store is in the database first, and every node moves what is large enough,
// see mover. An object has a name of its own that is used once, so deleting one
// can't take what another node stored meanwhile.

// MarkName names the object that has the same value as the database, so that each knows the
// other. Nothing else is there from the beginning.
const MarkName = "agentd-store"

// errNoObjects says that blobs are somewhere that this node doesn't know of.
var errNoObjects = errors.New("the contents of blobs of this database are in object storage, and this node has none configured; set blobs.s3 as the other nodes have it")

const (
	// metaObjects names the value that ties a database to its objects.
	metaObjects = "blob_objects"
	// checkTimeout bounds how long a node waits for the objects when it opens.
	checkTimeout = 10 * time.Second

	// The index by which contents are found that belong in an object; a database without
	// objects doesn't pay for it.
	indexHereSQL = `CREATE INDEX IF NOT EXISTS blobs_here ON agentd.blobs (size, id) WHERE object IS NULL`

	hasObjectsSQL = `SELECT EXISTS (SELECT 1 FROM agentd.blobs WHERE object IS NOT NULL)`
)

// openObjects finds out whether the node has the objects that its database needs. Those
// that can't be reached are waited for later.
func (s *Store) openObjects(ctx context.Context) error {
	if s.opts.Objects == nil {
		known, err := s.knownObjects(ctx)
		if err == nil && known != "" {
			err = errNoObjects
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := s.checkObjects(ctx)
	if err != nil && !errors.Is(err, store.ErrRefused) {
		s.opts.Logger.Warn("the object storage can't be reached; contents stay in the database, and those that were moved can't be read, until it can", "location", s.opts.Objects.Location(), "error", err)
		return nil
	}
	return err
}

// knownObjects returns the mark of the objects that the database has; empty for none.
func (s *Store) knownObjects(ctx context.Context) (string, error) {
	var known []byte
	err := s.queryRow(ctx, []any{&known}, getMetaSQL, metaObjects)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	return string(known), nil
}

// checkObjects finds out that the objects are this database's, until it did.
func (s *Store) checkObjects(ctx context.Context) error {
	if s.moved.checked.Load() {
		return nil
	}
	found, err := s.readMark(ctx)
	if err != nil {
		return err
	}
	known, err := s.knownObjects(ctx)
	if err != nil {
		return err
	}
	if found == "" {
		if err := s.checkUnmarked(ctx, known); err != nil || s.opts.ReadOnly {
			return err
		}
		if found, known, err = s.markObjects(ctx); err != nil {
			return err
		}
	}
	if found != known {
		return fmt.Errorf("%w: %s belongs to another database; use another bucket or another prefix", store.ErrRefused, s.opts.Objects.Location())
	}
	s.moved.checked.Store(true)
	return nil
}

// markLength is that of a mark, a random text.
const markLength = 26

// readMark returns the mark of the objects; empty if there is none.
func (s *Store) readMark(ctx context.Context) (string, error) {
	mark, err := s.opts.Objects.Get(ctx, MarkName, 0, markLength)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	return string(mark), nil
}

// checkUnmarked refuses objects that have no mark, although the database has contents in some.
func (s *Store) checkUnmarked(ctx context.Context, known string) error {
	if known == "" {
		return nil
	}
	var has bool
	if err := s.queryRow(ctx, []any{&has}, hasObjectsSQL); err != nil || !has {
		return err
	}
	return fmt.Errorf("%w: %s has no object %s: it is not where this database keeps its blobs, or it was emptied", store.ErrRefused, s.opts.Objects.Location(), MarkName)
}

// markObjects ties objects that have no mark to the database.
func (s *Store) markObjects(ctx context.Context) (found, now string, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, indexHereSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, setMetaSQL, metaObjects, []byte(rand.Text()))
		return err
	})
	if err != nil {
		return "", "", err
	}
	if now, err = s.knownObjects(ctx); err != nil {
		return "", "", err
	}
	if err := s.opts.Objects.Put(ctx, MarkName, strings.NewReader(now), int64(len(now))); err != nil {
		return "", "", err
	}
	found, err = s.readMark(ctx)
	return found, now, err
}

// ObjectFigures are the measurements of what goes to object storage, for operators.
type ObjectFigures struct {
	// Configured says that there is such a place, Location where.
	Configured bool
	Location   string
	// Moved and Deleted count objects since the start, Failed attempts that failed.
	Moved, Deleted, Failed int64
	// Problem says why the last attempt failed; empty if it didn't.
	Problem string
}

// ObjectFigures returns the measurements so far.
func (s *Store) ObjectFigures() ObjectFigures {
	if s.opts.Objects == nil {
		return ObjectFigures{}
	}
	f := ObjectFigures{
		Configured: true, Location: s.opts.Objects.Location(),
		Moved: s.moved.moved.Load(), Deleted: s.moved.deleted.Load(), Failed: s.moved.failed.Load(),
	}
	if p := s.moved.problem.Load(); p != nil {
		f.Problem = *p
	}
	return f
}
