package server_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/server"
)

// hang opens a connection that asks for something and reads no more than the
// first byte of it.
func (r *running) hang(path, token, headers string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	if strings.HasPrefix(r.base, "https:") {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", path, r.addr, token, headers)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	return c
}

// Clients that don't read hold a server up for a part of its time to stop, not for
// as long as one write may take: nothing has to be given up.
func TestStoppingDoesNotWaitForWhoDoesNotRead(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			inTime(t, 2*time.Second, func(limit time.Duration) bool { return stopsWithin(t, limit, secure) })
		})
	}
}

// stopsWithin says whether the server ended by itself.
func stopsWithin(t *testing.T, limit time.Duration, secure bool) bool {
	t.Helper()
	r := run(t, func(o *server.Options) {
		o.WriteTimeout, o.StopTimeout, o.SendBuffer = time.Hour, limit, 8<<10
		if !secure {
			return
		}
		certFile, keyFile, _ := certificate(t)
		cert, err := server.LoadCertificate(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		o.TLS = cert.Config()
	})
	if secure {
		r.base = "https://" + r.addr
		r.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	}
	r.fake.open("s", "a")
	r.fake.deltas("s", 5000) // about 2 MB
	r.fake.putOutput("big", "", make([]byte, 4<<20))
	if secure {
		r.hangHTTP2()
	}
	r.hang("/v1/sessions/s/events", "client-token", "Accept: text/event-stream\r\n")
	r.hang("/v1/sessions/s/events?limit=1000", "client-token", "")
	r.hang("/v1/outputs/big", "client-token", "")
	ws := r.hang("/v1/ws", "client-token", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")
	_, _ = ws.Write(subscribeFrame)
	idle := r.hang("/v1/ws", "client-token", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")
	defer idle.Close() // it never answers a close either
	eventually(t, "all of them hang", func() bool {
		return figure(r, `agentd_subscribers{transport="sse"}`) == 1 && figure(r, `agentd_subscribers{transport="websocket"}`) == 1 && figure(r, "agentd_answer_bytes") > 0
	})
	return r.stopsByItself(limit)
}

// stopsByItself stops the server and says whether nothing had to be given up for it.
func (r *running) stopsByItself(limit time.Duration) bool {
	r.t.Helper()
	r.stop()
	if strings.Contains(r.log.String(), "running requests were aborted") {
		r.t.Logf("with a limit of %v some were aborted", limit)
		return false
	}
	return true
}

// Connections on which nothing was asked yet, as browsers open some in advance, hold up no
// stop: net/http would wait until each is five seconds old.
func TestStoppingDoesNotWaitForSilentConnections(t *testing.T) {
	const limit = 4 * time.Second
	for range 5 { // a busy machine may need longer, but not every time
		r := run(t, func(o *server.Options) { o.StopTimeout = limit })
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		eventually(t, "the connection is open", func() bool { return figure(r, "agentd_connections") >= 2 })
		if r.stopsByItself(limit) {
			return
		}
	}
	t.Fatal("the server waits for connections on which nothing was asked")
}

// hangHTTP2 asks for more than the window of a stream and reads nothing of it.
func (r *running) hangHTTP2() {
	r.t.Helper()
	r.fake.putOutput("bigger", "", make([]byte, 32<<20))
	res, err := r.client.Do(r.request("GET", "/v1/outputs/bigger", ""))
	if err != nil || res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		r.t.Fatalf("%+v, %v", res, err)
	}
	r.t.Cleanup(func() { res.Body.Close() })
}

// subscribeFrame is a WebSocket message of a client, masked with zeros.
var subscribeFrame = func() []byte {
	const text = `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}`
	return append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
}()

// Large answers that nobody takes in are bounded, for each token and together;
// small ones, changes and other tokens go on, and all is well when they are gone.
func TestLargeAnswersAreBounded(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxAnswers, o.SendBuffer = 700<<10, 8<<10 })
	r.fake.open("s", "a")
	r.fake.deltas("s", 1000)
	const large = "/v1/sessions/s/events?limit=1000"
	ask := func(path, token string) answer {
		req := r.request("GET", path, "")
		req.Header.Set("Authorization", "Bearer "+token)
		return r.sendRequest(req)
	}
	size := len(ask(large, "client-token").body)
	if size < 280<<10 || size > 340<<10 {
		t.Fatalf("the page has %d bytes", size)
	}
	// What was sent counts until the server noticed that it was.
	underWay := func(bytes float64) {
		t.Helper()
		eventually(t, "the answers before are gone", func() bool { return figure(r, "agentd_answer_bytes") == bytes })
	}
	underWay(0)
	slow := r.hang(large, "client-token", "")
	held := figure(r, "agentd_answer_bytes")
	a := ask(large, "client-token")
	if p := a.problem(t); a.status != 429 || p.Code != "rate_limited" || a.header.Get("Retry-After") == "" {
		t.Errorf("a second one of the token: %d %s", a.status, a.body)
	}
	if a := ask("/v1/sessions/s/events?limit=10", "client-token"); a.status != 200 {
		t.Errorf("a small one: %d %s", a.status, a.body)
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/create_session", `{"sessionId":"new"}`)); a.status != 200 {
		t.Errorf("a change: %d %s", a.status, a.body)
	}
	if a := ask(large, "observer-token"); a.status != 200 {
		t.Errorf("another token's: %d %s", a.status, a.body)
	}
	underWay(held)
	other := r.hang(large, "observer-token", "")
	third := r.hang("/v1/sessions/s/events?limit=900", "admin-token", "")
	if a := ask(large, "admin-token"); a.status != 429 && a.status != 503 {
		t.Errorf("when all is used up: %d", a.status)
	}
	if n := figure(r, `agentd_bounds_hit_total{bound="answers_per_token"}`); n < 1 {
		t.Errorf("the bound was hit %v times", n)
	}
	for _, c := range []net.Conn{slow, other, third} {
		c.Close()
	}
	underWay(0)
	if a := ask(large, "client-token"); a.status != 200 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// The page about delivery names every address and every parameter of a stream.
func TestTheDeliveryPageIsComplete(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "reference", "delivery.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"/v1/commands/{command}", "/v1/rpc", "/v1/ws", "/v1/sessions/{sessionId}/events", "/v1/events", "/v1/outputs/{ref}", "/v1/catalog",
		"/v1/openapi.json", "/v1/schemas/{name}", "/v1/status", "/healthz", "/readyz", "/metrics",
		"`after`", "`limit`", "`types`", "`profile=standard`", "`view=items`", "`snapshot=1`", "`channelId`", "`lastEventId`", "`Last-Event-ID`",
		"`snapshot`", "`snapshot.repaired`", "`problem`", "`subscribe`", "`unsubscribe`", "`drain`", "`subscription.ended`", "`Range",
		"`item.started`", "`item.updated`", "`item.completed`", "`itemId`", "`kind`", "`status`", "`title`", "`delta`", "`text`", "`data`", "`eventType`",
		"`user_message`", "`agent_message`", "`reasoning`", "`tool_call`", "`plan`", "`file_change`", "`command`", "`action`", "`subagent`", "`compaction`", "`error`",
		"`observer`", "`client`", "`admin`",
	} {
		if !strings.Contains(string(page), name) {
			t.Errorf("it doesn't name %s", name)
		}
	}
}
