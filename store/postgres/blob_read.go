package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

const (
	// partSum is the length of a part's sum in the list of an object's parts, the
	// beginning of its SHA-256; partEntry that of an entry, which begins with the length.
	partSum   = 16
	partEntry = 4 + partSum
	// mostParts is how many parts of an object are read at once by those who read all of it.
	mostParts = 16
)

// blobRow says where a blob is: in chunks that hang on its id, or in an object.
type blobRow struct {
	id, size int64
	object   *string
	parts    []byte
}

// findBlob returns where a blob is, or pgx.ErrNoRows.
func (s *Store) findBlob(ctx context.Context, sum store.Hash) (row blobRow, err error) {
	err = s.queryRow(ctx, []any{&row.id, &row.size, &row.object, &row.parts}, findBlobSQL, sum[:])
	return row, err
}

// OpenBlob opens a blob. See [store.Store].
func (s *Store) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	if err := s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	sum, err := store.ParseRef(ref)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	row, err := s.findBlob(ctx, sum)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%w: blob %s", store.ErrNotFound, ref)
	}
	if err != nil {
		return nil, wrapFailed("open blob "+ref, err)
	}
	r := &blobReader{s: s, sum: sum, ref: ref, row: row}
	return store.NewBlob(store.BlobInfo{Ref: ref, Size: row.size}, func(i int) ([]byte, error) { return r.chunk(ctx, i) }), nil
}

// blobReader reads the chunks of an open blob. One goroutine at a time uses it.
type blobReader struct {
	s   *Store
	sum store.Hash
	ref string
	row blobRow

	// ends are where the parts of the object end, ahead those that were read already, from
	// the part next on; wide is how many were read at once.
	ends  []int64
	ahead [][]byte
	next  int
	wide  int
}

// chunk returns the content of a chunk.
func (r *blobReader) chunk(ctx context.Context, i int) ([]byte, error) {
	if err := r.s.enterCall(ctx); err != nil {
		return nil, err
	}
	defer r.s.calls.Done()
	stored, err := r.stored(ctx, i)
	if err != nil {
		return nil, err
	}
	content, err := store.DecodeChunk(stored)
	if err != nil {
		return nil, fmt.Errorf("postgres: read blob %s: chunk %d: %w", r.ref, i, err)
	}
	return content, nil
}

// stored returns a chunk as it is stored. A blob may move while it is read.
func (r *blobReader) stored(ctx context.Context, i int) ([]byte, error) {
	for {
		stored, err := r.storedThere(ctx, i)
		if !errors.Is(err, errNotThere) {
			return stored, err
		}
		now, err := r.s.findBlob(ctx, r.sum)
		switch {
		case errors.Is(err, pgx.ErrNoRows) || err == nil && now.id != r.row.id:
			return nil, fmt.Errorf("%w: blob %s was deleted", store.ErrNotFound, r.ref)
		case err != nil:
			return nil, wrapFailed("read blob "+r.ref, err)
		case (now.object == nil) == (r.row.object == nil):
			return nil, fmt.Errorf("%w: blob %s: %s", store.ErrCorrupt, r.ref, r.missing(i))
		}
		r.row, r.ends, r.ahead = now, nil, nil
	}
}

// errNotThere says that a chunk isn't where its blob's row said.
var errNotThere = errors.New("postgres: not there")

func (r *blobReader) missing(i int) string {
	if r.row.object != nil {
		return "object " + *r.row.object + " is missing"
	}
	return fmt.Sprintf("chunk %d is missing", i)
}

func (r *blobReader) storedThere(ctx context.Context, i int) ([]byte, error) {
	if r.row.object != nil {
		return r.part(ctx, i)
	}
	var stored []byte
	err := r.s.queryRow(ctx, []any{&stored}, readChunkSQL, r.row.id, i)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNotThere
	}
	if err != nil {
		return nil, wrapFailed("read blob "+r.ref, err)
	}
	return stored, nil
}

// part returns a part of the object. Who reads one after the other is given more and more
// of them with one request.
func (r *blobReader) part(ctx context.Context, i int) ([]byte, error) {
	if i >= r.next && i < r.next+len(r.ahead) {
		r.ahead, r.next = r.ahead[i-r.next:], i
		return r.ahead[0], nil
	}
	if r.ends == nil {
		r.ends = partEnds(r.row.parts)
	}
	if i >= len(r.ends) {
		return nil, fmt.Errorf("%w: blob %s: it has no part %d", store.ErrCorrupt, r.ref, i)
	}
	if r.s.opts.Objects == nil {
		return nil, errNoObjects
	}
	if i == r.next+len(r.ahead) && i > 0 {
		r.wide = min(2*r.wide, mostParts)
	} else {
		r.wide = 1
	}
	last := min(i+r.wide, len(r.ends)) - 1
	begin := partBegin(r.ends, i)
	data, err := r.s.opts.Objects.Get(ctx, *r.row.object, begin, r.ends[last]-begin)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errNotThere
	}
	if err != nil {
		r.s.lookAtObjects() // this need not be the one read that failed
		return nil, fmt.Errorf("postgres: read blob %s: %w", r.ref, err)
	}
	r.ahead, r.next = nil, i
	for n := i; n <= last; n++ {
		part := data[partBegin(r.ends, n)-begin : r.ends[n]-begin]
		if sum := sha256.Sum256(part); !bytes.Equal(sum[:partSum], r.row.parts[n*partEntry+4:(n+1)*partEntry]) {
			return nil, fmt.Errorf("%w: blob %s: part %d of object %s was changed", store.ErrCorrupt, r.ref, n, *r.row.object)
		}
		r.ahead = append(r.ahead, part)
	}
	return r.ahead[0], nil
}

// appendPart adds a part to the list of an object's parts.
func appendPart(list, part []byte) []byte {
	sum := sha256.Sum256(part)
	list = binary.BigEndian.AppendUint32(list, uint32(len(part)))
	return append(list, sum[:partSum]...)
}

func partEnds(list []byte) []int64 {
	ends := make([]int64, 0, len(list)/partEntry)
	var end int64
	for ; len(list) >= partEntry; list = list[partEntry:] {
		end += int64(binary.BigEndian.Uint32(list))
		ends = append(ends, end)
	}
	return ends
}

func partBegin(ends []int64, i int) int64 {
	if i == 0 {
		return 0
	}
	return ends[i-1]
}
