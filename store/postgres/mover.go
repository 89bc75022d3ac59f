package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

const (
	// movePage bounds the blobs that are looked for at once, moveAtOnce how many of them
	// are under way.
	movePage, moveAtOnce = 64, 4
	// moveEvery is how often a node looks for what other nodes left, moveSoon how long it
	// waits for more after something was stored.
	moveEvery, moveSoon = 30 * time.Second, 200 * time.Millisecond
	// dropTimeout is how long a process that ends waits to say what it leaves half done.
	dropTimeout = 5 * time.Second
)

const (
	dueBlobsSQL = `
SELECT b.size, b.id FROM agentd.blobs b WHERE b.object IS NULL AND (b.size, b.id) > ($1, $2)
	AND NOT EXISTS (SELECT 1 FROM agentd.blob_strays s WHERE s.blob_id = b.id)
ORDER BY b.size, b.id LIMIT $3`
	// One process moves a blob.
	beginMoveSQL  = `INSERT INTO agentd.blob_strays (object, blob_id, incarnation) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
	storedSizeSQL = `
SELECT (SELECT size FROM agentd.blobs WHERE id = $1 AND object IS NULL), count(*), coalesce(sum(octet_length(data)), 0)
FROM agentd.blob_chunks WHERE blob_id = $1`
	endMoveSQL   = `DELETE FROM agentd.blob_strays WHERE object = $1 AND blob_id = $2`
	nameMovedSQL = `UPDATE agentd.blobs SET object = $1, parts = $2 WHERE id = $3 AND object IS NULL`
	dropStraySQL = `UPDATE agentd.blob_strays SET blob_id = NULL, since = clock_timestamp() WHERE object = $1`
	// What a process was writing that is gone.
	reapStraysSQL = `
UPDATE agentd.blob_strays s SET blob_id = NULL, since = clock_timestamp() WHERE blob_id IS NOT NULL AND NOT EXISTS (
	SELECT 1 FROM agentd.nodes n WHERE n.incarnation = s.incarnation AND n.lease_until > clock_timestamp())`
	dueStraysSQL = `SELECT object FROM agentd.blob_strays WHERE blob_id IS NULL AND since <= clock_timestamp() - $1::interval ORDER BY since LIMIT $2`
	endStraySQL  = `DELETE FROM agentd.blob_strays WHERE object = $1 AND blob_id IS NULL`
)

// mover moves the contents of blobs to object storage, and deletes objects there.
type mover struct {
	// mu is held by the one pass at a time.
	mu sync.Mutex
	// checked says that the objects are this database's.
	checked                atomic.Bool
	moved, deleted, failed atomic.Int64
	problem                atomic.Pointer[string]
	due                    chan struct{}
	done                   chan struct{}
}

// objectsDue says that content of that size was stored.
func (s *Store) objectsDue(size int64) {
	if s.opts.Objects != nil && size >= s.opts.ObjectsFrom {
		s.lookAtObjects()
	}
}

// lookAtObjects has the mover look soon what there is to do, and whether the objects can be
// reached.
func (s *Store) lookAtObjects() {
	select {
	case s.moved.due <- struct{}{}:
	default:
	}
}

// objectsDueIn says that batches were stored.
func (s *Store) objectsDueIn(batches []*store.Batch, units []*unit) {
	if s.opts.Objects == nil {
		return
	}
	for _, u := range units {
		for _, i := range u.batches {
			for _, content := range batches[i].Blobs {
				s.objectsDue(int64(len(content)))
			}
		}
	}
}

// moveUntil moves what there is until ctx ends.
func (s *Store) moveUntil(ctx context.Context) {
	defer close(s.moved.done)
	timer := time.NewTimer(moveSoon)
	defer timer.Stop()
	wait, soon := moveEvery, true
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.moved.due:
			// Not again and again: there may always be more. While it fails, it is tried again
			// when its time comes.
			if !soon && s.moved.problem.Load() == nil {
				soon = true
				timer.Reset(moveSoon)
			}
			continue
		case <-timer.C:
			soon = false
		}
		_, err := s.MoveBlobs(ctx)
		switch {
		case err == nil:
			wait = moveEvery
		case ctx.Err() != nil:
			return
		case wait == moveEvery:
			s.opts.Logger.Warn("contents could not be moved to the object storage; they stay in the database until they can", "location", s.opts.Objects.Location(), "error", err)
			wait = time.Second
		default:
			wait = min(2*wait, moveEvery-1)
		}
		timer.Reset(wait)
	}
}

// MoveBlobs moves the contents that belong in object storage there, and deletes the
// objects of blobs that were deleted long enough ago. It returns how many were moved. The
// store does it by itself; other nodes may do so at the same time.
func (s *Store) MoveBlobs(ctx context.Context) (int, error) {
	if err := s.enterCall(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Done()
	if s.opts.Objects == nil {
		return 0, nil
	}
	s.moved.mu.Lock()
	defer s.moved.mu.Unlock()
	checked := s.moved.checked.Load()
	n, err := 0, s.checkObjects(ctx)
	if err == nil {
		n, err = s.moveDue(ctx)
	}
	if err == nil && n == 0 && checked { // nothing that was done says whether they can be reached
		s.moved.checked.Store(false)
		err = s.checkObjects(ctx)
	}
	if err == nil {
		err = s.deleteStrays(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.moved.failed.Add(1)
		text := err.Error()
		s.moved.problem.Store(&text)
		return n, wrapFailed("move blobs", err)
	}
	s.moved.problem.Store(nil)
	return n, err
}

// dueBlob is a blob whose content belongs in an object.
type dueBlob struct{ Size, ID int64 }

func (s *Store) moveDue(ctx context.Context) (n int, err error) {
	for last := (dueBlob{s.opts.ObjectsFrom - 1, math.MaxInt64}); ; {
		due, err := collectRows(ctx, s, pgx.RowToStructByPos[dueBlob], dueBlobsSQL, last.Size, last.ID, movePage)
		if err != nil || len(due) == 0 {
			return n, err
		}
		last = due[len(due)-1]
		moved, err := s.movePage(ctx, due)
		n += moved
		if err != nil {
			return n, err
		}
	}
}

// movePage moves some blobs, a few of them at once.
func (s *Store) movePage(ctx context.Context, due []dueBlob) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var n atomic.Int64
	var under sync.WaitGroup
	room := make(chan struct{}, moveAtOnce)
	for _, b := range due {
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		under.Go(func() {
			defer func() { <-room }()
			moved, err := s.moveBlob(ctx, b.ID)
			if err != nil {
				cancel(err)
			} else if moved {
				n.Add(1)
				s.moved.moved.Add(1)
			}
		})
	}
	under.Wait()
	return int(n.Load()), context.Cause(ctx)
}

// moveBlob moves one blob, unless another process does or it is gone.
func (s *Store) moveBlob(ctx context.Context, id int64) (bool, error) {
	text := strings.ToLower(rand.Text())
	object := text[:2] + "/" + text
	tag, err := s.pool.Exec(ctx, beginMoveSQL, object, id, s.incarnation)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	parts, err := s.copyOut(ctx, id, object)
	var moved bool
	if err == nil {
		moved, err = s.nameMoved(ctx, id, object, parts)
	}
	if moved {
		return true, nil
	}
	// The object is deleted in time, also if this process ends.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	if dropErr := s.exec(ending, dropStraySQL, object); err == nil {
		err = dropErr
	}
	if errors.Is(err, errIncomplete) || errors.Is(err, errReaped) {
		s.opts.Logger.Debug("a blob stays in the database", "blob", id, "error", err)
		return false, nil
	}
	return false, err
}

// errIncomplete says that a blob lacks chunks, or was deleted.
var errIncomplete = errors.New("postgres: its chunks are not all there")

// copyOut writes a blob's chunks to an object and returns the list of its parts.
func (s *Store) copyOut(ctx context.Context, id int64, object string) ([]byte, error) {
	var size *int64
	var chunks, stored int64
	if err := s.queryRow(ctx, []any{&size, &chunks, &stored}, storedSizeSQL, id); err != nil {
		return nil, err
	}
	if size == nil || chunks != (*size+store.ChunkSize-1)/store.ChunkSize {
		return nil, errIncomplete
	}
	r := &chunkReader{ctx: ctx, s: s, id: id, count: int(chunks)}
	if err := s.opts.Objects.Put(ctx, object, r, stored); err != nil {
		if r.err != nil {
			return nil, r.err // the database's, not the objects'
		}
		return nil, err
	}
	if r.next != r.count || len(r.rest) > 0 {
		return nil, fmt.Errorf("the object storage took less than all of %s", object)
	}
	return r.parts, nil
}

// chunkReader reads the chunks of a blob as they are stored, one after the other. It can
// be read again from the start, for a request that has to be repeated.
type chunkReader struct {
	ctx   context.Context //nolint:containedctx // it is one call's
	s     *Store
	id    int64
	count int

	next  int
	rest  []byte
	at    int64
	parts []byte
	err   error
}

// Read implements [io.Reader].
func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.next == r.count {
			return 0, io.EOF
		}
		err := r.s.queryRow(r.ctx, []any{&r.rest}, readChunkSQL, r.id, r.next)
		if errors.Is(err, pgx.ErrNoRows) {
			err = errIncomplete
		}
		if err != nil {
			r.err = err
			return 0, err
		}
		r.parts = appendPart(r.parts[:r.next*partEntry], r.rest)
		r.next++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.at += int64(n)
	return n, nil
}

// Seek implements [io.Seeker], for going back to the start.
func (r *chunkReader) Seek(offset int64, whence int) (int64, error) {
	switch {
	case offset == 0 && whence == io.SeekCurrent:
	case offset == 0 && whence == io.SeekStart:
		r.next, r.rest, r.at = 0, nil, 0
	default:
		return 0, errors.ErrUnsupported
	}
	return r.at, nil
}

// nameMoved makes the object the place of the blob's content.
func (s *Store) nameMoved(ctx context.Context, id int64, object string, parts []byte) (moved bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		moved = false
		tag, err := tx.Exec(ctx, nameMovedSQL, object, parts, id)
		if err != nil || tag.RowsAffected() == 0 {
			return err // it was deleted meanwhile
		}
		if tag, err = tx.Exec(ctx, endMoveSQL, object, id); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errReaped
		}
		_, err = tx.Exec(ctx, dropChunksSQL, id)
		moved = err == nil
		return err
	})
	return moved && err == nil, err
}

// deleteStrays deletes the objects that no blob has named for long enough.
func (s *Store) deleteStrays(ctx context.Context) error {
	if err := s.exec(ctx, reapStraysSQL); err != nil {
		return err
	}
	for {
		objects, err := collectRows(ctx, s, pgx.RowTo[string], dueStraysSQL, s.opts.ObjectsKept, movePage)
		if err != nil || len(objects) == 0 {
			return err
		}
		for _, object := range objects {
			if err := s.opts.Objects.Delete(ctx, object); err != nil {
				return err
			}
			if err := s.exec(ctx, endStraySQL, object); err != nil {
				return err
			}
			s.moved.deleted.Add(1)
		}
	}
}
