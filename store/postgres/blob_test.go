package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"agentd/internal/pgtest"
	"agentd/store"
)

// TestLargeBlob: content that is written while it is read.
func TestLargeBlob(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	counts := func(blobs, chunks int) {
		t.Helper()
		var b, c, u int
		err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM agentd.blobs), (SELECT count(*) FROM agentd.blob_chunks), (SELECT count(*) FROM agentd.blob_uploads)`).Scan(&b, &c, &u)
		if err != nil || b != blobs || c != chunks || u != 0 {
			t.Errorf("%d blobs, %d chunks, %d uploads, %v; want %d, %d, 0", b, c, u, err, blobs, chunks)
		}
	}
	content := make([]byte, 20*store.ChunkSize+123)
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(content); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	_, err := s.PutBlob(t.Context(), io.MultiReader(bytes.NewReader(content[:18*store.ChunkSize]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("PutBlob from a reader that breaks: %v", err)
	}
	counts(0, 0)
	var ref string
	for range 2 { // the second time it is there
		info, err := s.PutBlob(t.Context(), iotest.HalfReader(bytes.NewReader(content)))
		if err != nil || info.Size != int64(len(content)) {
			t.Fatalf("PutBlob = %+v, %v", info, err)
		}
		ref = info.Ref
		counts(1, 21)
	}
	b, err := s.OpenBlob(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(b, content); err != nil {
		t.Error(err)
	}
	if err := s.DeleteBlob(t.Context(), ref); err != nil {
		t.Error(err)
	}
	counts(0, 0)
	if _, err := b.Seek(0, io.SeekStart); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(b); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("read of a blob that was deleted meanwhile: %v, want ErrNotFound", err)
	}
}

// TestDamagedBlob: a missing or changed chunk is damage.
func TestDamagedBlob(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	for _, sql := range []string{
		`UPDATE agentd.blob_chunks SET data = set_byte(data, 9, get_byte(data, 9) # 255)`,
		`DELETE FROM agentd.blob_chunks`,
	} {
		info, err := s.PutBlob(t.Context(), bytes.NewReader(bytes.Repeat([]byte("some content "), 100)))
		if err != nil {
			t.Fatal(err)
		}
		execute(t, conn, sql)
		b, err := s.OpenBlob(t.Context(), info.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: the read ends with %v, want ErrCorrupt", sql, err)
		}
		if err := s.DeleteBlob(t.Context(), info.Ref); err != nil {
			t.Error(err)
		}
	}
}
