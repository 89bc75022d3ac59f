package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// uploadAfter is the number of chunks that PutBlob keeps in memory. What is
// larger is written chunk by chunk, each in a transaction of its own, because a
// reader may be slow and an open transaction holds up the whole database.
const uploadAfter = 16

// fresh is how long after a blob was stored, or said to be needed, that isn't noted again.
// It is far less than the time for which sweeps leave such a blob alone.
const fresh = "interval '10 minutes'"

const (
	// What is there already is noted to be needed first: a sweep that has the row keeps the
	// statement waiting, and when it deleted the blob, the blob is stored anew.
	putBlobsSQL = `
WITH wanted AS (
	SELECT * FROM unnest($1::bytea[], $2::bigint[]) AS w (sum, size)
), noted AS (
	UPDATE agentd.blobs b SET touched = clock_timestamp() FROM wanted w
	WHERE b.sum = w.sum AND b.touched < clock_timestamp() - ` + fresh + ` RETURNING 1
), fresh AS (
	INSERT INTO agentd.blobs (sum, size) SELECT sum, size FROM wanted WHERE (SELECT count(*) FROM noted) >= 0
	ON CONFLICT (sum) DO NOTHING RETURNING sum, id
)
INSERT INTO agentd.blob_chunks (blob_id, part, data)
SELECT fresh.id, c.part, c.data FROM unnest($3::bytea[], $4::integer[], $5::bytea[]) AS c (sum, part, data) JOIN fresh ON fresh.sum = c.sum`
	findBlobSQL  = `SELECT id, size, object, parts FROM agentd.blobs WHERE sum = $1`
	staleBlobSQL = `SELECT touched < clock_timestamp() - ` + fresh + ` FROM agentd.blobs WHERE sum = $1`
	touchBlobSQL = `UPDATE agentd.blobs SET touched = clock_timestamp() WHERE sum = $1 AND touched < clock_timestamp() - ` + fresh
	readChunkSQL = `SELECT data FROM agentd.blob_chunks WHERE blob_id = $1 AND part = $2`
	// The object of a blob goes later: the row that names it is gone for good before.
	deleteBlobSQL = `
WITH gone AS (
	DELETE FROM agentd.blobs WHERE sum = $1 RETURNING id, object
), left_over AS (
	INSERT INTO agentd.blob_strays (object) SELECT object FROM gone WHERE object IS NOT NULL
)
DELETE FROM agentd.blob_chunks c USING gone WHERE c.blob_id = gone.id`
	beginUploadSQL = `INSERT INTO agentd.blob_uploads (id, node_id) VALUES (nextval('agentd.blob_ids'), $1) RETURNING id`
	addChunkSQL    = `INSERT INTO agentd.blob_chunks (blob_id, part, data) VALUES ($1, $2, $3)`
	endUploadSQL   = `DELETE FROM agentd.blob_uploads WHERE id = $1`
	nameBlobSQL    = `INSERT INTO agentd.blobs (sum, id, size) VALUES ($1, $2, $3) ON CONFLICT (sum) DO NOTHING`
	dropChunksSQL  = `DELETE FROM agentd.blob_chunks WHERE blob_id = $1`
	// Uploads of nodes that are gone.
	reapUploadsSQL = `
WITH gone AS (
	DELETE FROM agentd.blob_uploads u WHERE NOT EXISTS (
		SELECT 1 FROM agentd.nodes n WHERE n.node_id = u.node_id AND n.lease_until > clock_timestamp())
	RETURNING id
)
DELETE FROM agentd.blob_chunks c USING gone WHERE c.blob_id = gone.id`
)

// blobRows are blobs and their chunks by column.
type blobRows struct {
	sums   [][]byte
	sizes  []int64
	chunks struct {
		sums  [][]byte
		parts []int32
		data  [][]byte
	}
}

// add adds a blob whose content is cut into chunks already.
func (r *blobRows) add(sum store.Hash, chunks [][]byte) {
	var size int64
	for i, c := range chunks {
		size += int64(len(c))
		r.chunks.sums = append(r.chunks.sums, sum[:])
		r.chunks.parts = append(r.chunks.parts, int32(i))
		r.chunks.data = append(r.chunks.data, store.EncodeChunk(nil, c))
	}
	r.sums = append(r.sums, sum[:])
	r.sizes = append(r.sizes, size)
}

func (r *blobRows) args() []any {
	return []any{r.sums, r.sizes, nonNilList(r.chunks.sums), r.chunks.parts, nonNilList(r.chunks.data)}
}

// queueBlobs adds the blobs of units, each content once.
func queueBlobs(b *pgx.Batch, batches []*store.Batch, units []*unit) {
	var rows blobRows
	seen := map[store.Hash]bool{}
	for _, u := range units {
		for _, i := range u.batches {
			for _, content := range batches[i].Blobs {
				if sum := sha256.Sum256(content); !seen[sum] {
					seen[sum] = true
					rows.add(sum, cutChunks(content))
				}
			}
		}
	}
	if len(rows.sums) > 0 {
		rows.order()
		b.Queue(putBlobsSQL, rows.args()...)
	}
}

// order has two transactions with the same blobs meet them in the same order, so that they
// don't wait crosswise.
func (r *blobRows) order() {
	sizes := make(map[string]int64, len(r.sums))
	for i, sum := range r.sums {
		sizes[string(sum)] = r.sizes[i]
	}
	slices.SortFunc(r.sums, bytes.Compare)
	for i, sum := range r.sums {
		r.sizes[i] = sizes[string(sum)]
	}
}

func cutChunks(content []byte) [][]byte {
	var chunks [][]byte
	for len(content) > 0 {
		n := min(len(content), store.ChunkSize)
		chunks = append(chunks, content[:n])
		content = content[n:]
	}
	return chunks
}

// PutBlob stores content under its hash. See [store.Store].
func (s *Store) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.BlobInfo{}, err
	}
	defer s.calls.Done()
	c := chunker{r: r, sum: sha256.New()}
	var first [][]byte
	for len(first) < uploadAfter {
		chunk, err := c.next()
		if errors.Is(err, io.EOF) {
			return s.putSmall(ctx, &c, first)
		}
		if err != nil {
			return store.BlobInfo{}, err
		}
		first = append(first, chunk)
	}
	info, err := s.putLarge(ctx, &c, first)
	if err != nil {
		return store.BlobInfo{}, wrapFailed("put blob", err)
	}
	return info, nil
}

// chunker cuts a stream into chunks and sums it up.
type chunker struct {
	r    io.Reader
	sum  hash.Hash
	size int64
}

// next returns the next chunk; io.EOF after the last.
func (c *chunker) next() ([]byte, error) {
	chunk := make([]byte, store.ChunkSize)
	n, err := io.ReadFull(c.r, chunk)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("postgres: put blob: read the content: %w", err)
	}
	c.sum.Write(chunk[:n])
	c.size += int64(n)
	return chunk[:n], nil
}

func (c *chunker) info() (store.Hash, store.BlobInfo) {
	sum := toHash(c.sum.Sum(nil))
	return sum, store.BlobInfo{Ref: store.RefOf(sum), Size: c.size}
}

func (s *Store) putSmall(ctx context.Context, c *chunker, chunks [][]byte) (store.BlobInfo, error) {
	sum, info := c.info()
	there, err := s.touchBlob(ctx, sum)
	if err == nil && !there {
		var rows blobRows
		rows.add(sum, chunks)
		err = s.exec(ctx, putBlobsSQL, rows.args()...)
	}
	if err != nil {
		return store.BlobInfo{}, wrapFailed("put blob", err)
	}
	s.objectsDue(info.Size)
	return info, nil
}

// touchBlob notes that a blob is needed, if it is there.
func (s *Store) touchBlob(ctx context.Context, sum store.Hash) (there bool, err error) {
	var stale bool
	err = s.queryRow(ctx, []any{&stale}, staleBlobSQL, sum[:])
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil || !stale {
		return err == nil, err
	}
	if err := s.exec(ctx, touchBlobSQL, sum[:]); err != nil {
		return false, err
	}
	// A sweep may have been quicker.
	err = s.queryRow(ctx, []any{&stale}, staleBlobSQL, sum[:])
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil && !stale, err
}

// HoldBlob implements [store.Shared].
func (s *Store) HoldBlob(ctx context.Context, ref string) error {
	if err := s.enterCall(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	sum, err := store.ParseRef(ref)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	there, err := s.touchBlob(ctx, sum)
	switch {
	case err != nil:
		return wrapFailed("hold blob "+ref, err)
	case !there:
		return fmt.Errorf("%w: blob %s", store.ErrNotFound, ref)
	default:
		return nil
	}
}

func (s *Store) putLarge(ctx context.Context, c *chunker, first [][]byte) (store.BlobInfo, error) {
	var id int64
	if err := s.queryRow(ctx, []any{&id}, beginUploadSQL, s.opts.NodeID); err != nil {
		return store.BlobInfo{}, err
	}
	err := s.uploadBlob(ctx, id, c, first)
	if err == nil {
		var info store.BlobInfo
		if info, err = s.finishUpload(ctx, id, c); err == nil {
			return info, nil
		}
	}
	// The reaper removes what this can't, once the node's lease has expired.
	_ = s.dropUpload(context.WithoutCancel(ctx), id)
	return store.BlobInfo{}, err
}

func (s *Store) uploadBlob(ctx context.Context, id int64, c *chunker, first [][]byte) error {
	for part := 0; ; part++ {
		var chunk []byte
		if part < len(first) {
			chunk, first[part] = first[part], nil
		} else {
			next, err := c.next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			chunk = next
		}
		if _, err := s.pool.Exec(ctx, addChunkSQL, id, part, store.EncodeChunk(nil, chunk)); err != nil {
			return err
		}
	}
}

var errReaped = errors.New("the upload was removed while this node's lease was over")

// finishUpload gives an upload its name, or removes it if the content was there.
func (s *Store) finishUpload(ctx context.Context, id int64, c *chunker) (store.BlobInfo, error) {
	sum, info := c.info()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, endUploadSQL, id)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errReaped
		}
		// First the note, then the name: see putBlobsSQL.
		if _, err := tx.Exec(ctx, touchBlobSQL, sum[:]); err != nil {
			return err
		}
		tag, err = tx.Exec(ctx, nameBlobSQL, sum[:], id, info.Size)
		if err == nil && tag.RowsAffected() == 0 {
			_, err = tx.Exec(ctx, dropChunksSQL, id)
		}
		return err
	})
	if err == nil {
		s.objectsDue(info.Size)
	}
	return info, err
}

func (s *Store) dropUpload(ctx context.Context, id int64) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, endUploadSQL, id)
		if err == nil && tag.RowsAffected() > 0 {
			_, err = tx.Exec(ctx, dropChunksSQL, id)
		}
		return err
	})
}

// DeleteBlob removes a blob. See [store.Store].
func (s *Store) DeleteBlob(ctx context.Context, ref string) error {
	if err := s.enterCall(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	sum, err := store.ParseRef(ref)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, deleteBlobSQL, sum[:]); err != nil {
		return wrapFailed("delete blob "+ref, err)
	}
	return nil
}
