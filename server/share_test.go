package server_test

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentd/server"
)

// TestAMessageThatNeverEndsIsCutOff: its client answers pings between the fragments,
// so only the time that a body may take ends it.
func TestAMessageThatNeverEndsIsCutOff(t *testing.T) {
	r := run(t, func(o *server.Options) { o.BodyTimeout = 50 * time.Millisecond })
	c := r.dial(t.Context(), "client-token")
	defer hangUp(c)
	w, err := c.Writer(t.Context(), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(bytes.Repeat([]byte(" "), 200<<10)) // on a busy machine it is cut off before all of it is sent
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("an unfinished message was answered")
	}
	eventually(t, "its memory is free again", func() bool { return figure(r, "agentd_body_bytes") == 0 })
}

// TestOneTokenCannotUseUpTheBodies that others need.
func TestOneTokenCannotUseUpTheBodies(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxBodies, o.MaxBody = 3<<20, 1<<20 })
	pr, pw := io.Pipe()
	req := r.request("POST", "/v1/commands/create_session", "x")
	req.Body, req.ContentLength = pr, -1
	first := make(chan int, 1)
	go func() { first <- r.sendRequest(req).status }()
	if _, err := pw.Write(bytes.Repeat([]byte(" "), 1000<<10)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first body is in memory", func() bool { return figure(r, "agentd_body_bytes") > 900<<10 })
	large := func(token string) answer {
		req := r.request("POST", "/v1/commands/create_session", strings.Repeat(" ", 1000<<10)+"{}")
		req.Header.Set("Authorization", "Bearer "+token)
		return r.sendRequest(req)
	}
	if a := large("client-token"); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("a second large body of the token: %d %s", a.status, a.body)
	}
	if a := large("other-token"); a.status != 200 {
		t.Errorf("a large body of another token: %d %s", a.status, a.body)
	}
	_, _ = io.WriteString(pw, "{}")
	pw.Close()
	if status := <-first; status != 200 {
		t.Errorf("the first: %d", status)
	}
}

// TestOneTokenCannotHoldAllConnections: WebSocket connections that ask for nothing
// count, too, and what counts is given back.
func TestOneTokenCannotHoldAllConnections(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxRequestsPerToken = 2 })
	one, two := r.dial(t.Context(), "client-token"), r.dial(t.Context(), "client-token")
	defer hangUp(two)
	list := func(token string) int {
		req := r.request("POST", "/v1/commands/list_sessions", "{}")
		req.Header.Set("Authorization", "Bearer "+token)
		return r.sendRequest(req).status
	}
	if c, err := r.tryDial(t.Context(), "client-token"); err == nil {
		hangUp(c)
		t.Error("a third connection of the token was let in")
	}
	if status := list("client-token"); status != 429 {
		t.Errorf("a request of the token: %d", status)
	}
	if status := list("other-token"); status != 200 {
		t.Errorf("a request of another token: %d", status)
	}
	hangUp(one)
	eventually(t, "the place is free again", func() bool { return list("client-token") == 200 })
}

// TestOneTokenCannotHoldAllReads that others need.
func TestOneTokenCannotHoldAllReads(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxReads, o.MaxReadsPerToken = 3, 2 })
	r.fake.open("s", "a")
	r.fake.holdReads = true
	r.fake.hold, r.fake.entered = make(chan struct{}), make(chan struct{}, 10)
	read := func(token string) answer {
		req := r.request("POST", "/v1/commands/get_session", `{"sessionId":"s"}`)
		req.Header.Set("Authorization", "Bearer "+token)
		return r.sendRequest(req)
	}
	var held sync.WaitGroup
	for _, token := range []string{"client-token", "client-token", "admin-token"} {
		held.Go(func() {
			if a := read(token); a.status != 200 {
				t.Errorf("a read of %s: %d %s", token, a.status, a.body)
			}
		})
		<-r.fake.entered
	}
	if a := read("client-token"); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("a read over the token's bound: %d %s", a.status, a.body)
	}
	close(r.fake.hold)
	held.Wait()
}
