package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing/iotest"

	"agentd/store"
)

func blobChecks() []check {
	return []check{
		{"every size", blobSizes},
		{"seek and range reads", blobSeek},
		{"reads in small pieces", blobPieces},
		{"the same content again", blobDedup},
		{"the same content concurrently", blobConcurrent},
		{"delete", blobDelete},
		{"not found and bad references", blobNotFound},
		{"a reader that fails leaves nothing", blobReaderFails},
		{"blobs of a batch", blobBatch},
	}
}

// random returns bytes that don't compress.
func random(seed uint64, n int) []byte {
	var key [32]byte
	key[0] = byte(seed)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p) // never fails
	return p
}

// blobContents are named contents at the edges of what an engine does.
func blobContents() map[string][]byte {
	return map[string][]byte{
		"empty":               {},
		"one byte":            {0},
		"small":               []byte("a small blob"),
		"a byte short":        random(1, store.ChunkSize-1),
		"exactly a chunk":     random(2, store.ChunkSize),
		"a byte over":         random(3, store.ChunkSize+1),
		"two chunks":          random(4, 2*store.ChunkSize),
		"5 MiB random":        random(5, 5<<20),
		"5 MiB compressible":  bytes.Repeat([]byte("0123456789abcdef"), 5<<16),
		"random after zeros":  append(make([]byte, store.ChunkSize), random(6, 1000)...),
		"1 MiB and some more": append(bytes.Repeat([]byte{0xff}, 1<<20), 'x'),
	}
}

func blobSizes(k *kit) {
	all := blobContents()
	for _, name := range sortedKeys(all) {
		k.putBlob(all[name])
		k.blobIs(refOf(all[name]), all[name])
	}
	k.reopen()
	for _, name := range sortedKeys(all) {
		k.blobIs(refOf(all[name]), all[name])
	}
}

func (k *kit) open(ref string) store.Blob {
	k.Helper()
	b, err := k.s.OpenBlob(k.ctx, ref)
	if err != nil {
		k.Fatalf("OpenBlob(%.15s): %v", ref, err)
	}
	return b
}

func (k *kit) closeBlob(b store.Blob) {
	if err := b.Close(); err != nil {
		k.Errorf("close a blob: %v", err)
	}
}

func blobSeek(k *kit) {
	const c = store.ChunkSize
	content := random(9, 3*c+1000)
	b := k.open(k.putBlob(content).Ref)
	defer k.closeBlob(b)
	size := int64(len(content))
	for _, at := range []int64{size - 10, 0, c - 1, c, c + 1, 2*c - 5, 3 * c, 3*c + 999, 17, size, size + 1, size + 10*c} {
		for _, n := range []int{1, 10, c, 2*c + 3} {
			if err := rangeIs(b, content, at, n); err != nil {
				k.Errorf("%d bytes at %d: %v", n, at, err)
			}
		}
	}
	if _, err := b.Seek(-1, io.SeekStart); err == nil {
		k.Errorf("a seek before the start is no error")
	}
	if at, err := b.Seek(-10, io.SeekEnd); err != nil || at != size-10 {
		k.Errorf("Seek(-10, end) = %d, %v, want %d", at, err, size-10)
	}
	if at, err := b.Seek(4, io.SeekCurrent); err != nil || at != size-6 {
		k.Errorf("Seek(4, current) = %d, %v, want %d", at, err, size-6)
	}
	if rest, err := io.ReadAll(b); err != nil || !bytes.Equal(rest, content[size-6:]) {
		k.Errorf("the last 6 bytes are %x, %v, want %x", rest, err, content[size-6:])
	}
}

// rangeIs seeks and reads up to n bytes, as a range request does.
func rangeIs(b store.Blob, content []byte, at int64, n int) error {
	if pos, err := b.Seek(at, io.SeekStart); err != nil || pos != at {
		return fmt.Errorf("seek went to %d, %w", pos, err)
	}
	got, err := io.ReadAll(io.LimitReader(b, int64(n)))
	if err != nil {
		return err
	}
	from := min(at, int64(len(content)))
	to := min(from+int64(n), int64(len(content)))
	if !bytes.Equal(got, content[from:to]) {
		return fmt.Errorf("got %d bytes that differ from the %d at that place", len(got), to-from)
	}
	return nil
}

// blobPieces also puts content that arrives in pieces, as it does from a pipe.
func blobPieces(k *kit) {
	content := random(11, store.ChunkSize+store.ChunkSize/2)
	info, err := k.s.PutBlob(k.ctx, iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(content))))
	if err != nil || info != infoOf(content) {
		k.Fatalf("PutBlob in pieces = %+v, %v, want %+v", info, err, infoOf(content))
	}
	b := k.open(info.Ref)
	defer k.closeBlob(b)
	if err := iotest.TestReader(b, content); err != nil {
		k.Errorf("%.200s", err)
	}
}

func blobDedup(k *kit) {
	content := random(13, store.ChunkSize*2+7)
	k.putBlob(content)
	k.putBlob(content)
	k.blobIs(refOf(content), content)
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: k.claim("s").Epoch, Blobs: [][]byte{content, content}})
	k.blobIs(refOf(content), content)
}

func blobConcurrent(k *kit) {
	content, small := random(17, store.ChunkSize*3+1), []byte("small and shared")
	c := k.claim("s")
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			if i == 0 {
				errs[i] = k.s.Append(k.ctx, []*store.Batch{{SessionID: "s", Epoch: c.Epoch, Blobs: [][]byte{small, content}}})[0]
				return
			}
			_, err1 := k.s.PutBlob(k.ctx, bytes.NewReader(content))
			_, err2 := k.s.PutBlob(k.ctx, bytes.NewReader(small))
			errs[i] = errors.Join(err1, err2)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Errorf("concurrent puts of the same content: %v", err)
	}
	k.blobIs(refOf(content), content)
	k.blobIs(refOf(small), small)
}

func blobDelete(k *kit) {
	content, other := random(19, store.ChunkSize*2+1), []byte("other")
	k.putBlob(content)
	k.putBlob(content)
	k.putBlob(other)
	for range 2 { // the second finds nothing, which is no error
		if err := k.s.DeleteBlob(k.ctx, refOf(content)); err != nil {
			k.Errorf("DeleteBlob: %v", err)
		}
		k.blobIs(refOf(content), nil)
	}
	k.reopen()
	k.blobIs(refOf(content), nil)
	k.blobIs(refOf(other), other)
	k.putBlob(content)
	k.blobIs(refOf(content), content)
}

func blobNotFound(k *kit) {
	k.putBlob([]byte("some"))
	k.blobIs(refOf([]byte("never put")), nil)
	good := refOf([]byte("some"))
	for _, ref := range []string{"", "sha256:", "some", good[:len(good)-1], good + "0", good[len("sha256:"):], "md5:" + good[len("sha256:"):], "sha256:" + string(padding(1, 64))} {
		if b, err := k.s.OpenBlob(k.ctx, ref); err == nil {
			k.Errorf("OpenBlob(%q) opened something", ref)
			k.closeBlob(b)
		} else if errors.Is(err, store.ErrCorrupt) {
			k.Errorf("OpenBlob(%q): %v; a bad reference is not damage", ref, err)
		}
	}
}

var errReader = errors.New("the reader broke")

func blobReaderFails(k *kit) {
	content := random(23, 2*store.ChunkSize+100)
	for _, n := range []int{0, 10, store.ChunkSize, store.ChunkSize + 10, len(content)} {
		broken := io.MultiReader(bytes.NewReader(content[:n]), iotest.ErrReader(errReader))
		if _, err := k.s.PutBlob(k.ctx, broken); !errors.Is(err, errReader) {
			k.Errorf("PutBlob from a reader that breaks after %d bytes: %v, want the reader's error", n, err)
		}
		k.blobIs(refOf(content[:n]), nil)
	}
	k.blobIs(refOf(content), nil)
	k.putBlob(content)
	k.blobIs(refOf(content), content)
}

func blobBatch(k *kit) {
	all := [][]byte{{}, []byte("small"), random(29, store.ChunkSize), random(31, store.ChunkSize+1), bytes.Repeat([]byte("z"), 600_000)}
	k.mustAppend(&store.Batch{SessionID: "s", Epoch: k.claim("s").Epoch, Records: Records("s", 1, 1, 100), Blobs: all})
	for range 2 {
		for _, content := range all {
			k.blobIs(refOf(content), content)
		}
		k.reopen()
	}
	if err := k.s.DeleteBlob(k.ctx, refOf(all[3])); err != nil {
		k.Errorf("DeleteBlob: %v", err)
	}
	k.blobIs(refOf(all[3]), nil)
}
