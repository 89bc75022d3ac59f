package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// TestStartingNodeSaysSo: a node that was killed and starts again has its sessions, and its
// address, before it is ready. Until then it says that it starts, and what reaches it through
// another node waits for it there. The start is held up by an MCP server that doesn't answer.
func TestStartingNodeSaysSo(t *testing.T) {
	f := newFleet(t, "1h", slow).quick()
	dir := f.dir()
	a, b := f.node(dir), f.node(f.dir())
	made := call[command.CreateSessionResult](a, &command.CreateSession{})
	a.stop(syscall.SIGKILL)

	held, letGo := f.held()
	defer letGo()
	var beside sync.WaitGroup
	beside.Go(func() {
		defer letGo()
		checkStarting(t, a)
		var through atomic.Bool
		beside.Go(func() {
			defer through.Store(true)
			p := command.SubmitTurn{SessionID: made.SessionID, Input: event.Raw(`"hello"`)}
			if _, err := client.Call[command.SubmitTurnResult](t.Context(), b.client(), &p); err != nil {
				t.Errorf("through another node: %v", err)
			}
		})
		for !through.Load() && (&storm{t: t, p: b}).figures().by["agentd_forwarded_total"] < 2 { // it is tried again
			time.Sleep(10 * time.Millisecond)
		}
		if through.Load() {
			t.Error("the command didn't wait for its node")
		}
	})
	again := held.node(dir, "--listen", strings.TrimPrefix(a.url, "http://"))
	beside.Wait()
	if again.url != a.url {
		t.Fatalf("it listens on %s and not on %s", again.url, a.url)
	}
	res := again.getWithToken("/readyz")
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Errorf("ready: %d", res.StatusCode)
	}
	again.until(made.SessionID, "turn.completed", 1)
}

// held returns the fleet with nodes that don't get ready before they are let go.
func (f *fleet) held() (held *fleet, letGo func()) {
	f.t.Helper()
	release := make(chan struct{})
	letGo = sync.OnceFunc(func() { close(release) })
	mcp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		http.NotFound(w, r)
	}))
	f.t.Cleanup(mcp.Close)
	text, err := os.ReadFile(f.config)
	if err != nil {
		f.t.Fatal(err)
	}
	out := *f
	out.config = writeFile(f.t, f.t.TempDir(), "held.yaml", string(text)+"mcp: [{id: held, url: "+mcp.URL+"}]\n")
	return &out, letGo
}

// TestStartingNodeIsKnownToOthers: a node that starts shows other nodes the certificate that is for
// them, and clients theirs. So what a client asks of it through another node waits for it.
func TestStartingNodeIsKnownToOthers(t *testing.T) {
	ca, public := newAuthority(t), newAuthority(t)
	cert, key := public.sign(t.TempDir(), "127.0.0.1", both...)
	f := newFleet(t, "1h", slow).quick()
	text, err := os.ReadFile(f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.config = writeFile(t, t.TempDir(), "public.yaml", string(text)+"tls: {cert: "+cert+", key: "+key+"}\n")
	dirs := []string{f.dir(), f.dir()}
	of := []*fleet{f.withCertificate(ca, dirs[0]), f.withCertificate(ca, dirs[1])}
	a, b := of[0].node(dirs[0]), of[1].node(dirs[1])
	made, err := client.Call[command.CreateSessionResult](t.Context(), a.trusting(), &command.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	a.stop(syscall.SIGKILL)
	held, letGo := of[0].held()
	defer letGo()
	address := strings.TrimPrefix(a.url, "https://")
	var beside sync.WaitGroup
	beside.Go(func() {
		defer letGo()
		for {
			c, err := net.Dial("tcp", address)
			if err == nil {
				_ = c.Close()
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		answered := make(chan error, 1)
		go func() { answered <- b.again(made.SessionID) }()
		select {
		case err := <-answered:
			t.Errorf("the command didn't wait for its node: %v", err)
			return
		case <-time.After(time.Second):
		}
		letGo()
		if err := <-answered; err != nil {
			t.Errorf("through another node: %v", err)
		}
	})
	held.node(dirs[0], "--listen", address)
	beside.Wait()
}

// checkStarting waits until a node listens, and checks what it says before it is ready.
func checkStarting(t *testing.T, p *process) {
	t.Helper()
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable,
		"/v1/status": http.StatusServiceUnavailable, "/a2a/rest/tasks": http.StatusServiceUnavailable,
	} {
		res, err := http.Get(p.url + path)
		for err != nil && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
			res, err = http.Get(p.url + path)
		}
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != want || res.Header.Get("X-Request-ID") == "" {
			t.Errorf("%s: %v, %d %v %s", path, err, res.StatusCode, res.Header, body)
		}
		if want != http.StatusOK && (res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "is starting")) {
			t.Errorf("%s: %v %s", path, res.Header, body)
		}
	}
}
