package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/internal/s3test"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/s3"
)

// TestRestoreToAMoment restores a database from its base backup and its log to a moment,
// while a node runs. That node ends and says why. One that starts finds the sessions as they
// were at that moment and goes on. Contents in a bucket that were deleted since then are
// still there, and those that came since then do no harm.
func TestRestoreToAMoment(t *testing.T) {
	t.Run("contents in the database", func(t *testing.T) { restoreToAMoment(t, nil) })
	t.Run("contents in a bucket", func(t *testing.T) { restoreToAMoment(t, s3test.Shared(t)) })
}

func restoreToAMoment(t *testing.T, server *s3test.Server) {
	t.Helper()
	cluster := pgtest.Start(t)
	cluster.KeepLog(t)
	url, state := cluster.Database(t), t.TempDir()
	var bucket string
	config := writeFile(t, t.TempDir(), "none.yaml", "{}\n")
	if server != nil {
		bucket = server.Bucket(t)
		config = bucketConfig(t, server.URL, bucket, s3test.SecretKey)
	}
	begin := func() *process {
		t.Helper()
		return start(t, state, "--data", url, "--state-dir", state, "--config", config)
	}
	questions := 0
	ask := func(p *process) (sessionID string) {
		t.Helper()
		questions++
		r := p.submit(strings.Repeat(fmt.Sprintf("question %d, which is long ", questions), 1000))
		p.completed(r)
		return r.SessionID
	}
	inBucket := func(more int, than []string) []string {
		t.Helper()
		for {
			if server == nil {
				return nil
			}
			if files := server.Files(t, bucket); len(files) >= len(than)+more {
				return files
			}
			time.Sleep(10 * time.Millisecond) // nothing tells when it is moved
		}
	}
	p := begin()
	first := ask(p)
	moved := inBucket(2, nil) // the mark, and at least the question
	cluster.BackUp(t)
	second := ask(p)
	moved = inBucket(1, moved)
	kept := map[string][]string{}
	for _, id := range []string{first, second} {
		kept[id] = p.logOf(id, uint64(len(p.eventsOf(id))))
	}
	moment := cluster.Moment(t)
	lost := ask(p)
	p.completed(p.submitTo(first))
	newer := inBucket(1, moved)
	if server != nil {
		deleteMoved(t, url, server.URL, bucket) // the objects stay for a while
	}
	p.renewed(url)
	cluster.RestoreTo(t, moment)
	if code := p.stopped(); code != 1 || !strings.Contains(p.logSoFar(), "the database was restored to an earlier moment") {
		t.Errorf("the node of before ended with %d:\n%s", code, p.logSoFar())
	}

	p = begin()
	for id, want := range kept {
		if got := p.logOf(id, uint64(len(p.eventsOf(id)))); !slices.Equal(got, want) {
			t.Errorf("session %s has %d events, want the %d of the moment", id, len(got), len(want))
		}
	}
	if status, _, answer := p.exchange(p.token(), http.MethodGet, "/v1/sessions/"+lost+"/events", ""); status != http.StatusNotFound {
		t.Errorf("a session of after the moment: %d %s", status, answer)
	}
	p.completed(p.submitTo(first))
	ask(p)
	if files := inBucket(1, newer); server != nil && !slices.ContainsFunc(newer, func(f string) bool { return !slices.Contains(moved, f) && slices.Contains(files, f) }) {
		t.Errorf("objects of after the moment are gone: %q, %q", newer, files)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out, errs, code := program(t, "verify", "--data", url, "--state-dir", t.TempDir(), "--config", config); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
	recorded(t).replay(t) // the database goes before the rest does
}

// renewed waits until the node's lease was renewed once more than it is.
func (p *process) renewed(url string) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), url)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(p.t.Context())) }()
	beats := func() (n int64) {
		if err := conn.QueryRow(p.t.Context(), `SELECT beats FROM agentd.nodes WHERE address = $1`, p.url).Scan(&n); err != nil {
			p.t.Fatal(err)
		}
		return n
	}
	for before := beats(); beats() <= before; {
		time.Sleep(20 * time.Millisecond) // a lease is renewed by the clock
	}
}

// deleteMoved deletes all contents that are in the bucket, as expiry would.
func deleteMoved(t *testing.T, url, endpoint, bucket string) {
	t.Helper()
	ctx := t.Context()
	objects, err := s3.Open(&s3.Options{Endpoint: endpoint, Bucket: bucket, Prefix: "here/", Keys: func() (s3.Keys, error) {
		return s3.Keys{Access: s3test.AccessKey, Secret: s3test.SecretKey}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(ctx, url, &postgres.Options{Objects: objects, ObjectsKept: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT sum FROM agentd.blobs WHERE object IS NOT NULL`)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil || len(sums) == 0 {
		t.Fatalf("%d contents, %v", len(sums), err)
	}
	for _, sum := range sums {
		if err := s.DeleteBlob(ctx, store.RefOf(store.Hash(sum))); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.MoveBlobs(ctx); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
