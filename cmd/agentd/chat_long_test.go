package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// TestChatOpensLongSessions: what a client reads when it takes up a session doesn't depend
// on how long the session is.
func TestChatOpensLongSessions(t *testing.T) {
	for _, queued := range []bool{false, true} {
		short, long := opened(t, 40, 24, queued), opened(t, 160, 24, queued)
		t.Logf("%d bytes for 40 turns, %d for 160", short, long)
		if long > 2*short { // not four times as much
			t.Errorf("%d bytes are read for 40 turns, %d for 160; they were queued: %t", short, long, queued)
		}
	}
}

// TestLongChatOpensTenThousandTurns is the same with a session as long as they get.
func TestLongChatOpensTenThousandTurns(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: a session of 10,000 turns; set AGENTD_TEST_LONG")
	}
	short, long := opened(t, 40, 40, false), opened(t, 10_000, 40, false)
	t.Logf("%d bytes for 40 turns, %d for 10,000", short, long)
	if long > short+short/4 {
		t.Errorf("%d bytes are read for 40 turns, %d for 10,000", short, long)
	}
}

// opened makes a session of so many turns, one after the other or all queued at once, opens
// it at a terminal, and returns how many bytes the client was sent until its newest turn
// was on the screen.
func opened(t *testing.T, turns, rows int, queued bool) int64 {
	t.Helper()
	dir := play(t, featureScript)
	p := start(t, filepath.Join(dir, "data"), "--config", filepath.Join(dir, "c.yaml"))
	p.submitMany(turns, queued)
	target, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1, Transport: transport})
	proxy.Listener = &countingListener{Listener: proxy.Listener, sent: &sent}
	proxy.Start()
	defer proxy.Close()
	cmd := p.chat(t, dir, "--session", "long")
	cmd.Args[slices.Index(cmd.Args, p.url)] = proxy.URL
	c := atTerminal(t, rows*3, rows, cmd)
	c.does(step{sees: "› again"}, step{sees: "1 step"}, step{sees: idle})
	n := sent.Load()
	c.leave()
	proxy.CloseClientConnections()
	p.stop(syscall.SIGTERM)
	return n
}

// submitMany submits turns to the session "long" and waits for their end.
func (p *process) submitMany(turns int, queued bool) {
	p.t.Helper()
	submitted := 0
	submit := func() {
		params := submitParams(p.t, "again")
		params.SessionID, params.Create = "long", submitted == 0
		if _, err := client.Call[command.SubmitTurnResult](p.t.Context(), p.client(), params); err != nil {
			p.t.Fatal(err)
		}
		submitted++
	}
	for submit(); queued && submitted < turns; {
		submit()
	}
	ended := 0
	for e, err := range p.client().Follow(p.t.Context(), "long", 0, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Type != event.TypeTurnCompleted {
			continue
		}
		if ended++; ended == turns {
			return
		}
		if !queued {
			submit()
		}
	}
}

// countingListener counts what its connections are sent.
type countingListener struct {
	net.Listener
	sent *atomic.Int64
}

// Accept implements [net.Listener].
func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countingConn{Conn: c, sent: l.sent}, err
}

// countingConn counts what is sent.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

// Write implements [net.Conn].
func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}
