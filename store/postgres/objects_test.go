package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/internal/s3test"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/s3"
	"agentd/store/storetest"
)

// bucketAt opens a bucket at an address with the test's keys.
func bucketAt(tb testing.TB, url, bucket string, keys s3.Keys) *s3.Bucket {
	tb.Helper()
	b, err := s3.Open(&s3.Options{Endpoint: url, Bucket: bucket, Prefix: "some/", Keys: func() (s3.Keys, error) { return keys, nil }})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func goodKeys() s3.Keys { return s3.Keys{Access: s3test.AccessKey, Secret: s3test.SecretKey} }

func objectOptions(objects store.Objects) *postgres.Options {
	return &postgres.Options{LeaseTTL: time.Hour, PollInterval: 50 * time.Millisecond, AllowUnsafe: true, Objects: objects, ObjectsFrom: 1, ObjectsKept: time.Nanosecond}
}

// movedStore has every content in the bucket before a call returns.
type movedStore struct{ *postgres.Store }

func (s movedStore) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	info, err := s.Store.PutBlob(ctx, r)
	if err == nil {
		_, err = s.MoveBlobs(ctx)
	}
	return info, err
}

func (s movedStore) Append(ctx context.Context, batches []*store.Batch) []error {
	errs := s.Store.Append(ctx, batches)
	for _, b := range batches {
		if len(b.Blobs) > 0 {
			if _, err := s.MoveBlobs(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
				return append(errs[:len(errs)-1], err)
			}
			break
		}
	}
	return errs
}

type bucketEngine struct {
	t       *testing.T
	url     string
	objects store.Objects
}

func (e *bucketEngine) Open() store.Store {
	return movedStore{openStore(e.t, e.url, objectOptions(e.objects))}
}

func (e *bucketEngine) Second() (store.Store, bool) { return e.Open(), true }

// TestContractWithABucket is the whole contract over PostgreSQL with all contents in the
// bucket of a real server.
func TestContractWithABucket(t *testing.T) {
	t.Parallel()
	cluster, server := pgtest.Quick(t), s3test.Shared(t)
	storetest.Run(t, func(t *testing.T) storetest.Engine {
		return &bucketEngine{t: t, url: cluster.Database(t), objects: bucketAt(t, server.URL, server.Bucket(t), goodKeys())}
	})
}

// putBlob stores content and returns its reference.
func putBlob(tb testing.TB, s store.Store, content []byte) string {
	tb.Helper()
	info, err := s.PutBlob(tb.Context(), bytes.NewReader(content))
	if err != nil {
		tb.Fatal(err)
	}
	return info.Ref
}

func readBlob(tb testing.TB, s store.Store, ref string) ([]byte, error) {
	tb.Helper()
	b, err := s.OpenBlob(tb.Context(), ref)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return io.ReadAll(b)
}

// move has everything moved, and fails the test if n contents weren't.
func move(tb testing.TB, s *postgres.Store, n int) {
	tb.Helper()
	if got, err := s.MoveBlobs(tb.Context()); err != nil || (n >= 0 && got != n) {
		tb.Fatalf("moved %d, %v; want %d", got, err, n)
	}
}

// TestBucketTakesWhatIsLarge: small content stays beside the facts; the objects of deleted
// blobs go after their time; both nodes read what one of them moved.
func TestBucketTakesWhatIsLarge(t *testing.T) {
	t.Parallel()
	server := s3test.Shared(t)
	url, name := pgtest.Quick(t).Database(t), server.Bucket(t)
	opts := objectOptions(bucketAt(t, server.URL, name, goodKeys()))
	opts.ObjectsFrom = 1000
	a, b := openStore(t, url, opts), openStore(t, url, opts)
	defer shut(t, a)
	defer shut(t, b)
	conn := connect(t, url)
	large := bytes.Repeat([]byte("large content "), 100_000)
	refs := []string{putBlob(t, a, []byte("small")), putBlob(t, a, large), putBlob(t, a, large[:2000])}
	move(t, a, -1)
	move(t, b, -1)
	var inside, moved, chunks int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE object IS NULL), count(object), (SELECT count(*) FROM agentd.blob_chunks) FROM agentd.blobs`).Scan(&inside, &moved, &chunks); err != nil || inside != 1 || moved != 2 || chunks != 1 {
		t.Errorf("%d blobs here, %d moved, %d chunks, %v", inside, moved, chunks, err)
	}
	if files := server.Files(t, name); len(files) != 3 { // with the mark
		t.Errorf("the bucket has %q", files)
	}
	for i, want := range [][]byte{[]byte("small"), large, large[:2000]} {
		for _, s := range []*postgres.Store{a, b} {
			if got, err := readBlob(t, s, refs[i]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v", refs[i], len(got), err)
			}
		}
	}
	open, err := b.OpenBlob(t.Context(), refs[2])
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs {
		if err := a.DeleteBlob(t.Context(), ref); err != nil {
			t.Error(err)
		}
	}
	again := putBlob(t, b, large) // at once, while the old object is still there
	move(t, b, -1)
	move(t, a, -1)
	if got, err := readBlob(t, a, again); err != nil || !bytes.Equal(got, large) {
		t.Errorf("stored again: %d bytes, %v", len(got), err)
	}
	if _, err := io.ReadAll(open); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("read of a blob that was deleted meanwhile: %v", err)
	}
	if files := server.Files(t, name); len(files) != 2 {
		t.Errorf("the bucket has %q", files)
	}
	if f := a.ObjectFigures(); !f.Configured || f.Moved == 0 || f.Problem != "" {
		t.Errorf("%+v", f)
	}
}

// TestBlobMovesWhileItIsRead: who has it open goes on in the bucket.
func TestBlobMovesWhileItIsRead(t *testing.T) {
	t.Parallel()
	server := s3test.Shared(t)
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	content := bytes.Repeat([]byte("0123456789abcdefghi"), 3*store.ChunkSize/10)
	ref := putBlob(t, s, content)
	shut(t, s)
	s = openStore(t, url, objectOptions(bucketAt(t, server.URL, server.Bucket(t), goodKeys())))
	defer shut(t, s)
	b, err := s.OpenBlob(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1000)
	if _, err := io.ReadFull(b, got); err != nil {
		t.Fatal(err)
	}
	move(t, s, -1)
	rest, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(slices.Concat(got, rest), content) {
		t.Errorf("%d bytes, %v", len(got)+len(rest), err)
	}
}

// TestDamagedObject: an object that is missing, shorter or changed is damage, and what is
// beside the damage can be read.
func TestDamagedObject(t *testing.T) {
	t.Parallel()
	server := s3test.Shared(t)
	url, name := pgtest.Quick(t).Database(t), server.Bucket(t)
	s := openStore(t, url, objectOptions(bucketAt(t, server.URL, name, goodKeys())))
	defer shut(t, s)
	content := bytes.Repeat([]byte("some content that is long enough "), 2*store.ChunkSize/30)
	for what, damage := range map[string]func(path string, data []byte) error{
		"changed": func(path string, data []byte) error {
			data[len(data)-9] ^= 1
			return os.WriteFile(path, data, 0o600)
		},
		"shorter": func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)-5], 0o600) },
		"empty":   func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
		"missing": func(path string, _ []byte) error { return os.Remove(path) },
	} {
		ref := putBlob(t, s, content)
		move(t, s, -1)
		for _, path := range server.Files(t, name) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, "agentd-store") {
				continue
			}
			if err := damage(path, data); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := readBlob(t, s, ref); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: the read ends with %v, want ErrCorrupt", what, err)
		}
		if err := s.DeleteBlob(t.Context(), ref); err != nil {
			t.Error(err)
		}
		move(t, s, -1)
	}
}

// TestBucketOfAnother: a bucket that belongs to another database, lacks what is in the
// rows, refuses or isn't named at all keeps a node from starting, and the error names no key.
func TestBucketOfAnother(t *testing.T) {
	t.Parallel()
	server, cluster := s3test.Shared(t), pgtest.Quick(t)
	url, name := cluster.Database(t), server.Bucket(t)
	s := openStore(t, url, objectOptions(bucketAt(t, server.URL, name, goodKeys())))
	ref := putBlob(t, s, []byte("some content"))
	move(t, s, -1)
	shut(t, s)
	const secret = "not-the-secret-key"
	for what, c := range map[string]struct {
		database string
		objects  store.Objects
		says     string
	}{
		"another database": {cluster.Database(t), bucketAt(t, server.URL, name, goodKeys()), "belongs to another database"},
		"another bucket":   {url, bucketAt(t, server.URL, server.Bucket(t), goodKeys()), "is not where this database keeps its blobs"},
		"no such bucket":   {url, bucketAt(t, server.URL, "b-none", goodKeys()), "NoSuchBucket"},
		"wrong secret":     {url, bucketAt(t, server.URL, name, s3.Keys{Access: s3test.AccessKey, Secret: secret}), "SignatureDoesNotMatch"},
		"wrong key":        {url, bucketAt(t, server.URL, name, s3.Keys{Access: "nobody", Secret: secret}), "the object storage refuses"},
		"none":             {url, nil, "set blobs.s3"},
	} {
		got, err := postgres.Open(t.Context(), c.database, objectOptions(c.objects))
		if err == nil {
			shut(t, got)
			t.Errorf("%s: opened", what)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s = openStore(t, url, objectOptions(bucketAt(t, server.URL, name, goodKeys())))
	defer shut(t, s)
	if _, err := readBlob(t, s, ref); err != nil {
		t.Error(err)
	}
}

// TestBucketAway: without the bucket everything is stored, and what wasn't moved is read;
// when it is back, what waited is moved.
func TestBucketAway(t *testing.T) {
	t.Parallel()
	server := s3test.Shared(t)
	url, name := pgtest.Quick(t).Database(t), server.Bucket(t)
	gate := newGate(t, server.URL)
	s := openStore(t, url, objectOptions(bucketAt(t, gate.url, name, goodKeys())))
	defer shut(t, s)
	moved := putBlob(t, s, []byte("moved before"))
	move(t, s, -1)
	for _, mode := range []string{"closed", "failing", "cut"} {
		gate.set(mode)
		stays := putBlob(t, s, []byte("stored while it is "+mode))
		if _, err := s.MoveBlobs(t.Context()); err == nil {
			t.Errorf("%s: moved", mode)
		}
		if f := s.ObjectFigures(); f.Problem == "" || f.Failed == 0 || strings.Contains(f.Problem, s3test.SecretKey) {
			t.Errorf("%s: %+v", mode, f)
		}
		if got, err := readBlob(t, s, stays); err != nil || string(got) != "stored while it is "+mode {
			t.Errorf("%s: %q, %v", mode, got, err)
		}
		if _, err := readBlob(t, s, moved); err == nil || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: the read of what is in the bucket ends with %v", mode, err)
		}
		// A node that starts meanwhile waits for it as well.
		shut(t, openStore(t, url, objectOptions(bucketAt(t, gate.url, name, goodKeys()))))
		gate.set("open")
		move(t, s, -1)
		for _, ref := range []string{moved, stays} {
			if _, err := readBlob(t, s, ref); err != nil {
				t.Errorf("%s, and open again: %v", mode, err)
			}
		}
		if f := s.ObjectFigures(); f.Problem != "" {
			t.Errorf("%s: %+v", mode, f)
		}
	}
	// A read that nobody answers ends with its caller.
	gate.set("silent")
	ctx, cancel := context.WithCancel(t.Context())
	b, err := s.OpenBlob(ctx, moved)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-gate.asked; cancel() }()
	if _, err := io.ReadAll(b); !errors.Is(err, context.Canceled) {
		t.Errorf("the read ends with %v", err)
	}
	gate.set("open")
}
