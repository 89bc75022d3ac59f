package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/internal/pgtest"
	"agentd/internal/s3test"
)

// TestABucketThatIsAway: while the bucket is away, an output that is there is answered with 503 and
// a turn whose conversation is there waits; both go on once it is back. Nothing fails, and the
// figures say how it stands although there is nothing to move.
func TestABucketThatIsAway(t *testing.T) {
	server := s3test.Shared(t)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	}))
	defer door.Close()
	db, bucket, state := pgtest.Shared(t).Database(t), server.Bucket(t), t.TempDir()
	args := []string{"--data", db, "--state-dir", state, "--config", bucketConfig(t, door.URL, bucket, s3test.SecretKey)}
	p := start(t, state, args...)
	first := p.submit(strings.Repeat("a long question ", 1000))
	p.completed(first)
	figures := func(want string) {
		t.Helper()
		for {
			if _, said := p.sendAs(p.token(), http.MethodGet, "/metrics", ""); strings.Contains(said, "\n"+want+"\n") {
				return
			}
			time.Sleep(10 * time.Millisecond) // nothing tells when it is looked at
		}
	}
	conn, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	for left := 1; left > 0; time.Sleep(10 * time.Millisecond) { // nothing tells when all is moved
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM agentd.blobs WHERE object IS NULL AND size >= 1024`).Scan(&left); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	ref := p.until(first.SessionID, event.TypeTurnSubmitted, 1).Payload.(*event.TurnSubmitted).InputRef
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = start(t, state, args...) // it has nothing in memory
	figures("agentd_blob_storage_up 1")
	away.Store(true)
	output := "/v1/outputs/" + url.PathEscape(ref)
	if status, header, said := p.exchange(p.token(), http.MethodGet, output, ""); status != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" || !strings.Contains(said, "object storage") {
		t.Errorf("the output: %d %v %s", status, header, said)
	}
	export := transferPath + "/" + first.SessionID
	if status, header, said := p.exchange(p.token(), http.MethodGet, export, ""); status != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" || !strings.Contains(said, "object storage") {
		t.Errorf("an export: %d %v %.300s", status, header, said)
	}
	figures("agentd_blob_storage_up 0")
	next, err := client.Call[command.SubmitTurnResult](t.Context(), p.client(), &command.SubmitTurn{SessionID: first.SessionID, Input: event.Raw(`"and another"`)})
	if err != nil {
		t.Fatal(err)
	}
	p.wait("work on a thread stopped")
	away.Store(false)
	p.completed(next)
	figures("agentd_blob_storage_up 1")
	if status, said := p.sendAs(p.token(), http.MethodGet, output, ""); status != http.StatusOK || !strings.Contains(said, "a long question") {
		t.Errorf("the output, once the bucket is back: %d %.100s", status, said)
	}
	if status, said := p.sendAs(p.token(), http.MethodGet, export, ""); status != http.StatusOK || !strings.Contains(said, `{"agentd.end":`) {
		t.Errorf("an export, once the bucket is back: %d %.100s", status, said)
	}
}
