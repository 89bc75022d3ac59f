package pebble

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// A blob's entry says where its chunks are: under its own sum if it was stored
// in one write, or under an id if it was staged before its sum was known. The
// entry makes a blob exist; chunks without one are leftovers, which a mark
// under the same id tells until the entry is written.

// The first byte of where keeps the two apart.
const (
	whereStaged = 0
	whereSum    = 1
)

func atSum(sum store.Hash) []byte { return append([]byte{whereSum}, sum[:]...) }

func atID(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{whereStaged}, id) }

// chunkPrefix returns the key of a blob's chunks without the index.
func chunkPrefix(where []byte) []byte { return append([]byte{keyChunk}, where...) }

func chunkKey(where []byte, i int) []byte {
	return binary.BigEndian.AppendUint32(chunkPrefix(where), uint32(i))
}

func blobKey(sum store.Hash) []byte { return append([]byte{keyBlob}, sum[:]...) }

func blobValue(size int64, where []byte) []byte {
	v := binary.BigEndian.AppendUint64([]byte{valueFormat}, uint64(size))
	return append(v, where...)
}

func parseBlob(ref string, v []byte) (size int64, where []byte, err error) {
	if len(v) < 9+9 || v[0] != valueFormat {
		return 0, nil, fmt.Errorf("%w: the entry of blob %s has no valid header", store.ErrCorrupt, ref)
	}
	return int64(binary.BigEndian.Uint64(v[1:9])), v[9:], nil
}

// putBlobs stages whole contents. One that is in the batch twice is harmless,
// since both go under the same keys.
func (s *Store) putBlobs(b *pdb.Batch, blobs [][]byte) error {
	missing := make([]store.Hash, 0, len(blobs))
	contents := make([][]byte, 0, len(blobs))
	for _, content := range blobs {
		sum := store.Hash(sha256.Sum256(content))
		there, err := hasKey(s.db, blobKey(sum))
		if err != nil {
			return err
		}
		if !there {
			missing, contents = append(missing, sum), append(contents, content)
		}
	}
	for i, sum := range missing {
		if err := putChunks(b, atSum(sum), contents[i]); err != nil {
			return err
		}
		if err := b.Set(blobKey(sum), blobValue(int64(len(contents[i])), atSum(sum)), nil); err != nil {
			return err
		}
	}
	return nil
}

func putChunks(b *pdb.Batch, where, content []byte) error {
	for i := 0; len(content) > 0; i++ {
		n := min(len(content), store.ChunkSize)
		if err := b.Set(chunkKey(where, i), store.EncodeChunk(nil, content[:n]), nil); err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}

// PutBlob stores content under its hash.
func (s *Store) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return store.BlobInfo{}, err
	}
	defer done()
	info, err := s.putBlob(ctx, r)
	if err != nil {
		return store.BlobInfo{}, fmt.Errorf("pebble: put blob: %w", err)
	}
	return info, nil
}

func (s *Store) putBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	first := make([]byte, store.ChunkSize)
	n, err := io.ReadFull(r, first)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.putWhole(ctx, first[:n])
	case err != nil:
		return store.BlobInfo{}, err
	}
	st := &staging{s: s, ctx: ctx, id: atID(s.ids.next())}
	sum, size, err := st.copy(first, r)
	if err != nil {
		return store.BlobInfo{}, errors.Join(err, st.drop())
	}
	return st.finish(sum, size)
}

// putWhole stores content of at most one chunk.
func (s *Store) putWhole(ctx context.Context, content []byte) (store.BlobInfo, error) {
	s.commit.Lock()
	defer s.commit.Unlock()
	info := store.BlobInfo{Ref: store.RefOf(sha256.Sum256(content)), Size: int64(len(content))}
	b := s.db.NewBatch()
	if err := s.putBlobs(b, [][]byte{content}); err != nil {
		return info, errors.Join(err, b.Close())
	}
	if b.Empty() {
		return info, b.Close()
	}
	if err := s.writable(ctx); err != nil {
		return info, errors.Join(err, b.Close())
	}
	return info, s.write(b)
}

// staging writes a blob's chunks before its sum is known.
type staging struct {
	s      *Store
	ctx    context.Context
	id     []byte
	chunks int
}

// copy writes first and the rest of r.
func (st *staging) copy(first []byte, r io.Reader) (sum store.Hash, size int64, err error) {
	h := sha256.New()
	chunk := first
	for len(chunk) > 0 {
		if err := st.ctx.Err(); err != nil {
			return sum, 0, err
		}
		h.Write(chunk)
		size += int64(len(chunk))
		if err := st.put(chunk); err != nil {
			return sum, 0, err
		}
		n, err := io.ReadFull(r, first)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return sum, 0, err
		}
		chunk = first[:n]
	}
	h.Sum(sum[:0])
	return sum, size, nil
}

// put writes one chunk, not yet durable: the entry's write makes it so, because
// it comes later in the same log.
func (st *staging) put(chunk []byte) error {
	b := st.s.db.NewBatch()
	if st.chunks == 0 {
		if err := b.Set(append([]byte{keyStaged}, st.id...), nil, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	if err := b.Set(chunkKey(st.id, st.chunks), store.EncodeChunk(nil, chunk), nil); err != nil {
		return errors.Join(err, b.Close())
	}
	st.chunks++
	st.s.commit.Lock()
	defer st.s.commit.Unlock()
	if err := st.s.writable(st.ctx); err != nil {
		return errors.Join(err, b.Close())
	}
	return errors.Join(st.s.db.Apply(b, pdb.NoSync), b.Close())
}

// finish makes the blob exist, unless it does already.
func (st *staging) finish(sum store.Hash, size int64) (store.BlobInfo, error) {
	s := st.s
	info := store.BlobInfo{Ref: store.RefOf(sum), Size: size}
	s.commit.Lock()
	defer s.commit.Unlock()
	there, err := hasKey(s.db, blobKey(sum))
	if err != nil {
		return info, err
	}
	if there {
		return info, st.dropLocked()
	}
	if err := s.writable(st.ctx); err != nil {
		return info, errors.Join(err, st.dropLocked())
	}
	b := s.db.NewBatch()
	err = b.Set(blobKey(sum), blobValue(size, st.id), nil)
	if err == nil {
		err = b.Delete(append([]byte{keyStaged}, st.id...), nil)
	}
	if err != nil {
		return info, errors.Join(err, b.Close())
	}
	return info, s.write(b)
}

// drop removes what was staged.
func (st *staging) drop() error {
	st.s.commit.Lock()
	defer st.s.commit.Unlock()
	return st.dropLocked()
}

// dropLocked need not be durable: what is left is removed at the next open.
func (st *staging) dropLocked() error {
	if st.s.guard.frozen() || st.chunks == 0 {
		return nil
	}
	b := st.s.db.NewBatch()
	if err := dropChunks(b, st.id); err != nil {
		return errors.Join(err, b.Close())
	}
	return errors.Join(st.s.db.Apply(b, pdb.NoSync), b.Close())
}

// dropChunks removes staged chunks and their mark.
func dropChunks(b *pdb.Batch, id []byte) error {
	prefix := chunkPrefix(id)
	if err := b.DeleteRange(prefix, prefixEnd(prefix), nil); err != nil {
		return err
	}
	return b.Delete(append([]byte{keyStaged}, id...), nil)
}

// dropStaged removes what was staged when the store was last open.
func (s *Store) dropStaged(b *pdb.Batch) error {
	it, err := s.db.NewIter(&pdb.IterOptions{LowerBound: []byte{keyStaged}, UpperBound: []byte{keyStaged + 1}})
	if err != nil {
		return readError(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := dropChunks(b, append([]byte(nil), it.Key()[1:]...)); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return readError(err)
	}
	return nil
}

// OpenBlob opens a blob.
func (s *Store) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	sum, err := store.ParseRef(ref)
	if err != nil {
		return nil, err
	}
	v, err := s.getDurable(blobKey(sum))
	if err != nil {
		return nil, fmt.Errorf("pebble: blob %s: %w", ref, err)
	}
	size, where, err := parseBlob(ref, v)
	if err != nil {
		return nil, err
	}
	return store.NewBlob(store.BlobInfo{Ref: ref, Size: size}, func(i int) ([]byte, error) {
		return s.chunk(ref, where, i)
	}), nil
}

// chunk returns a chunk's content. One that is missing was deleted with its
// blob, or is damage if the blob is still there.
func (s *Store) chunk(ref string, where []byte, i int) ([]byte, error) {
	leave, ok := s.calls.join()
	if !ok {
		return nil, store.ErrClosed
	}
	defer leave()
	v, err := s.getDurable(chunkKey(where, i))
	if errors.Is(err, store.ErrNotFound) {
		sum, _ := store.ParseRef(ref) // it was parsed when the blob was opened
		if _, e := s.getDurable(blobKey(sum)); e == nil {
			err = fmt.Errorf("%w: it is missing", store.ErrCorrupt)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pebble: chunk %d of blob %s: %w", i, ref, err)
	}
	return store.DecodeChunk(v)
}

// DeleteBlob removes a blob.
func (s *Store) DeleteBlob(ctx context.Context, ref string) error {
	done, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	sum, err := store.ParseRef(ref)
	if err != nil {
		return err
	}
	s.commit.Lock()
	defer s.commit.Unlock()
	v, err := getCopy(s.db, blobKey(sum))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pebble: delete blob %s: %w", ref, err)
	}
	// A full disk doesn't stop a deletion: it is the way out.
	if err := s.Err(); err != nil {
		return err
	}
	_, where, err := parseBlob(ref, v)
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	err = b.Delete(blobKey(sum), nil)
	if err == nil {
		err = b.DeleteRange(chunkPrefix(where), prefixEnd(chunkPrefix(where)), nil)
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return s.write(b)
}
