package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/wire"
	"agentd/server"
)

// malformed are requests that are wrong in one way each. {T} stands for the
// header with a good token, {J} for that of JSON, H for the server's host.
var malformed = func() []struct {
	raw  string
	want int
} {
	type row = struct {
		raw  string
		want int
	}
	rows := []row{
		{"GET /v1/catalog\r\n\r\n", 400},
		{"GET  /v1/catalog HTTP/1.1\r\nHost: H\r\n\r\n", 400},
		{"GET /v1/catalog HTTP/3.0\r\nHost: H\r\n\r\n", 400},
		{"GET /v1/catalog HTTP/1.1\r\n\r\n", 400},
		{"GET /v1/catalog HTTP/1.1\r\nHost: H\r\nHost: H\r\n\r\n", 400},
		{"GET /v1/catalog HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"GET /v1/catalog HTTP/1.1\r\nHost: H\r\nBad Header: 1\r\n\r\n", 400},
		{"GET /v1/catalog HTTP/1.1\r\nHost: H\r\nX: a\x00b\r\n\r\n", 400},
		{"GET /v1/%zz HTTP/1.1\r\nHost: H\r\n\r\n", 400},
		{"GET \x00 HTTP/1.1\r\nHost: H\r\n\r\n", 400},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
		{"POST /v1/rpc HTTP/1.1\r\nHost: H\r\nTransfer-Encoding: gzip\r\n\r\n", 400},
		{"POST /v1/rpc HTTP/1.1\r\nHost: H\r\nContent-Length: -1\r\n\r\n", 400},
		{"POST /v1/rpc HTTP/1.1\r\nHost: H\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		{"POST /v1/rpc HTTP/1.1\r\nHost: H\r\n{T}{J}Expect: magic\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"POST /v1/rpc HTTP/1.1\r\nHost: H\r\n{T}{J}Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		{"GET /v1/catalog HTTP/1.1\r\nHost: H\r\n{T}X: " + strings.Repeat("a", 40<<10) + "\r\n\r\n", 431},
		{"GET /v1/catalog HTTP/1.1\r\nHost: H\r\n{T}X: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", 431},
		{"GET /v1/catalog?" + strings.Repeat("a", 40<<10) + " HTTP/1.1\r\nHost: H\r\n{T}\r\n", 431},
		{"GET /v1/catalog HTTP/1.0\r\n\r\n", 403},
		{"GET /v1/catalog HTTP/1.1\r\nHost: evil.example\r\n{T}\r\n", 403},
		{"GET /v1/catalog HTTP/1.1\r\nHost: H\r\n{T}Origin: http://evil.example\r\n\r\n", 403},
		{"POST /v1/commands/create_session HTTP/1.1\r\nHost: H\r\n{T}{J}Content-Length: 40000000\r\n\r\n", 413},
	}
	add := func(want int, method, path string, lines ...string) {
		rows = append(rows, row{method + " " + path + " HTTP/1.1\r\nHost: H\r\n" + strings.Join(lines, "") + "\r\n", want})
	}
	for _, auth := range []string{"", "Authorization: \r\n", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n", "Authorization: Bearer wrong\r\n", "Authorization: Basic Y2xpZW50LXRva2Vu\r\n", "Authorization: client-token\r\n", "{T}{T}", "Authorization: Bearer " + strings.Repeat("x", 5000) + "\r\n"} {
		add(401, "GET", "/v1/catalog", auth)
	}
	add(401, "GET", "/v1/catalog?access_token=client-token")
	add(401, "GET", "/nothing")
	for _, path := range []string{"/", "/v1", "/v1/", "/v2/catalog", "//v1/catalog", "/v1//catalog", "/v1/catalog/", "/v1/../v1/catalog", "/v1/./catalog", "/v1/commands", "/v1/commands/", "/v1/sessions/s", "/v1/sessions//events", "/v1/sessions/s/events/", "/v1/sessions/a/b/events", "/v1/outputs/", "/v1/schemas/", "/v1/schemas/nothing", "/v1/schemas/..%2f..%2fgen.go", "/v1/schemas/%2e%2e", "/v1/sessions/..%2f..%2fetc/events", "/v1/sessions/%00/events", "/v1/sessions/a%20b/events", "/v1/sessions/-x/events", "/v1/sessions/" + strings.Repeat("a", 129) + "/events", "/v1/sessions/none/events", "/V1/catalog", "/v1/CATALOG", "/v1/catalog%2f", "/v1/outputs/none", "/v1/ws/x", "http://H/nothing"} {
		add(404, "GET", path, "{T}")
	}
	for _, m := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST", "MADE-UP"} {
		add(405, m, "/v1/catalog", "{T}")
		add(405, m, "/v1/sessions/s/events", "{T}")
	}
	add(405, "GET", "/v1/commands/create_session", "{T}")
	add(405, "GET", "/v1/rpc", "{T}")
	add(405, "POST", "/v1/ws", "{T}")
	add(405, "POST", "/healthz")
	for _, q := range []string{"after=x", "after=-1", "after=1.5", "after=1e3", "after=", "after=99999999999999999999", "after=1&after=2", "limit=0", "limit=-1", "limit=1001", "limit=x", "limit=", "limit=999999999999", "types=", "types=,", "types=TOOL.*", "types=nothing.*", "types=%00", "types=" + strings.Repeat("tool.*,", 60) + "tool.*", "profile=x", "view=x", "snapshot=2", "snapshot=1", "afer=1", "%zz=1", "after=1;limit=2", "lastEventId=x", "limit=10&limit=20"} {
		want := 400
		if q == "types=" {
			continue
		}
		add(want, "GET", "/v1/sessions/s/events?"+q, "{T}")
	}
	add(400, "GET", "/v1/sessions/s/events", "{T}", "Last-Event-ID: x\r\n")
	add(400, "GET", "/v1/sessions/s/events", "{T}", "Accept: text/event-stream\r\n", "Last-Event-ID: -5\r\n")
	add(400, "GET", "/v1/events?after=x", "{T}")
	add(400, "GET", "/v1/events?after=1", "{T}")
	add(400, "GET", "/v1/events?snapshot=1", "{T}")
	add(400, "GET", "/v1/ws", "{T}")
	add(400, "GET", "/v1/ws", "{T}", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 1\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n")
	add(400, "GET", "/v1/ws", "{T}", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n")
	body := func(want int, path, head, data string) {
		rows = append(rows, row{fmt.Sprintf("POST %s HTTP/1.1\r\nHost: H\r\n{T}%sContent-Length: %d\r\n\r\n%s", path, head, len(data), data), want})
	}
	for _, b := range []string{"{", "}", "[]", "1", `"x"`, "null", "true", "nul", "{} {}", `{"sessionId":1}`, `{"sessionId":"a","sessionId":"b"}`, `{"unknown":1}`, `{"title":"\xff"}`, "{\"title\":\"\xff\"}", `{"title":"\ud800"}`, `{"sessionId":"a b"}`, `{"sessionId":"` + strings.Repeat("a", 129) + `"}`, `{"metadata":[]}`, `{"permissionMode":"root"}`, `{"workspace":"x"}`, `{"workspace":{"rot":"/"}}`, strings.Repeat(`{"metadata":`, 100) + "1" + strings.Repeat("}", 100), `{"metadata":` + strings.Repeat("[", 100_000), `{'title':'x'}`, "{\"title\":\"x\"\x00}", "\xef\xbb\xbf{}", `{"title":"x",}`, `{"idempotencyKey":"` + strings.Repeat("k", 300) + `"}`, `{"title":1e999}`} {
		body(400, "/v1/commands/create_session", "{J}", b)
	}
	for _, b := range []string{`{}`, `{"input":""}`, `{"input":[]}`, `{"input":1}`, `{"input":[{"type":"x"}]}`, `{"input":"x","options":{"maxStep":1}}`, `{"input":"x","options":{"maxSteps":-1}}`, `{"input":"x","options":{"maxSteps":99999999999999999999}}`, `{"input":"x","options":{"queuePolicy":"x"}}`} {
		body(400, "/v1/commands/submit_turn", "{J}", b)
	}
	body(404, "/v1/commands/nothing", "{J}", "{}")
	body(404, "/v1/commands/create_session%00", "{J}", "{}")
	body(404, "/v1/commands/..%2frpc", "{J}", "{}")
	body(404, "/v1/commands/CREATE_SESSION", "{J}", "{}")
	for _, ct := range []string{"text/plain", "application/x-www-form-urlencoded", "application/xml", "application/json; charset=latin1", "multipart/form-data; boundary=x", "/", "application/json;;;"} {
		body(415, "/v1/commands/create_session", "Content-Type: "+ct+"\r\n", "{}")
	}
	body(415, "/v1/rpc", "{J}Content-Encoding: gzip\r\n", "{}")
	body(415, "/v1/rpc", "Content-Type: text/plain\r\n", "{}")
	return rows
}()

// send writes a raw request and returns the answer.
func send(t *testing.T, r *running, raw string) (int, wire.Problem, []byte) {
	t.Helper()
	wired := strings.NewReplacer(
		"{T}", "Authorization: Bearer client-token\r\n", "{J}", "Content-Type: application/json\r\n",
		"Host: H\r", "Host: "+r.addr+"\r", "http://H/", "http://"+r.addr+"/",
	).Replace(raw)
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, wired) }()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.120q: %v", raw, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%.120q: %v", raw, err)
	}
	p, _ := wire.DecodeProblem(data)
	if res.Header.Get("Content-Type") != wire.ProblemType {
		t.Errorf("%.120q: media type %q", raw, res.Header.Get("Content-Type"))
	}
	if res.StatusCode == http.StatusMethodNotAllowed && res.Header.Get("Allow") == "" {
		t.Errorf("%.120q: no Allow", raw)
	}
	return res.StatusCode, p, data
}

func TestMalformedRequestsGetAProblem(t *testing.T) {
	if len(malformed) < 100 {
		t.Fatalf("only %d cases", len(malformed))
	}
	r := run(t, nil)
	r.fake.open("s", "a")
	for _, c := range malformed {
		status, p, data := send(t, r, c.raw)
		if status != c.want || p.Status != status || p.Code == "" || p.Detail == "" || p.Title == "" {
			t.Errorf("%.150q: status %d, want %d: %.300s", c.raw, status, c.want, data)
		}
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/list_sessions", "{}")); a.status != 200 {
		t.Errorf("after all that: %d", a.status)
	}
}

func TestABodyThatIsTooLargeIsRefusedWhileItComes(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxBody = 1 << 20 })
	req := r.request("POST", "/v1/commands/create_session", "x")
	req.Body = io.NopCloser(io.LimitReader(zeros{}, 3<<20))
	req.ContentLength = -1
	a := r.sendRequest(req)
	if p := a.problem(t); a.status != 413 || p.Code != "payload_too_large" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A client that writes all before it reads must see the answer, not a connection
// that breaks while it writes.
func TestABodyThatIsTooLargeIsRefusedAfterItCame(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxBody = 8 << 20 })
	const size = 12 << 20
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	head := fmt.Sprintf("POST /v1/commands/create_session HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer client-token\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", r.addr, size)
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(c, io.LimitReader(zeros{}, size)); err != nil {
		t.Fatalf("after %d bytes: %v", n, err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", res.StatusCode)
	}
}

type zeros struct{}

// Read implements [io.Reader].
func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

func TestABodyThatNeverComesIsNotWaitedForForEver(t *testing.T) {
	r := run(t, func(o *server.Options) { o.BodyTimeout = 50 * time.Millisecond })
	status, p, _ := send(t, r, "POST /v1/commands/create_session HTTP/1.1\r\nHost: H\r\n{T}{J}Content-Length: 10\r\n\r\n{")
	if status != 400 || p.Code != "invalid_params" {
		t.Errorf("%d %+v", status, p)
	}
	// Nobody reads this body: the answer must come, and the connection must end.
	status, _, _ = send(t, r, "POST /v1/commands/nothing HTTP/1.1\r\nHost: H\r\n{T}{J}Content-Length: 10\r\n\r\n{")
	if status != 404 {
		t.Errorf("%d", status)
	}
}

func TestLargeBodiesShareABudget(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxBodies = 3 << 19 })
	pr, pw := io.Pipe()
	req := r.request("POST", "/v1/commands/create_session", "x")
	req.Body, req.ContentLength = pr, -1
	first := make(chan int, 1)
	go func() { first <- r.sendRequest(req).status }()
	if _, err := pw.Write(bytes.Repeat([]byte(" "), 900<<10)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first body is in memory", func() bool { return figure(r, "agentd_body_bytes") > 800<<10 })
	a := r.sendRequest(r.request("POST", "/v1/commands/create_session", strings.Repeat(" ", 900<<10)+"{}"))
	if a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("a second large body: %d", a.status)
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/create_session", "{}")); a.status != 200 {
		t.Errorf("a small body beside it: %d", a.status)
	}
	_, _ = io.WriteString(pw, "{}")
	pw.Close()
	if status := <-first; status != 200 {
		t.Errorf("the first: %d", status)
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/create_session", strings.Repeat(" ", 900<<10)+"{}")); a.status != 200 {
		t.Errorf("after it: %d", a.status)
	}
}

func TestOverloadTurnsMutationsAwayWhileReadsGoOn(t *testing.T) {
	r := run(t, func(o *server.Options) {
		o.MaxMutations, o.MaxMutationsPerToken, o.AdmissionWait = 3, 2, time.Millisecond
	})
	r.fake.open("s", "a")
	r.fake.hold, r.fake.entered = make(chan struct{}), make(chan struct{}, 10)
	create := func(token string) answer {
		req := r.request("POST", "/v1/commands/create_session", "{}")
		req.Header.Set("Authorization", "Bearer "+token)
		return r.sendRequest(req)
	}
	var held sync.WaitGroup
	for _, token := range []string{"client-token", "client-token", "other-token"} {
		held.Go(func() {
			if a := create(token); a.status != 200 {
				t.Errorf("a command that was let in: %d %s", a.status, a.body)
			}
		})
		<-r.fake.entered
	}
	if a := create("client-token"); a.status != 429 || a.problem(t).Code != "rate_limited" || a.header.Get("Retry-After") == "" {
		t.Errorf("a token over its bound: %d %s", a.status, a.body)
	}
	if a := create("other-token"); a.status != 503 || a.problem(t).Code != "unavailable" || a.header.Get("Retry-After") == "" {
		t.Errorf("over the server's bound: %d %s", a.status, a.body)
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/get_session", `{"sessionId":"s"}`)); a.status != 200 {
		t.Errorf("a read: %d", a.status)
	}
	if a := r.sendRequest(r.request("GET", "/v1/sessions/s/events", "")); a.status != 200 {
		t.Errorf("a page: %d", a.status)
	}
	close(r.fake.hold)
	held.Wait()
	if a := r.sendRequest(r.request("GET", "/metrics", "")); !strings.Contains(string(a.body), `agentd_bounds_hit_total{bound="mutations"} 1`) || !strings.Contains(string(a.body), `agentd_commands_in_flight{kind="mutation"} 0`) {
		t.Errorf("the metrics don't show it:\n%s", a.body)
	}
}

func TestACommandThatTakesTooLongIsGivenUp(t *testing.T) {
	r := run(t, func(o *server.Options) { o.CommandTimeout = 20 * time.Millisecond })
	r.fake.hold, r.fake.entered = make(chan struct{}), make(chan struct{}, 1)
	a := r.sendRequest(r.request("POST", "/v1/commands/create_session", "{}"))
	if p := a.problem(t); a.status != 503 || p.Code != "unavailable" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// clients is how many bad clients there are at once.
const clients = 1000

// figure returns one of the server's metrics, -1 if it isn't there.
func figure(r *running, name string) float64 {
	a := r.sendRequest(r.request("GET", "/metrics", ""))
	for line := range strings.SplitSeq(string(a.body), "\n") {
		var n float64
		if _, err := fmt.Sscanf(line, name+" %g", &n); err == nil {
			return n
		}
	}
	return -1
}

func TestClientsThatSendNothingAreCutOff(t *testing.T) {
	inTime(t, 2*time.Second, func(limit time.Duration) bool { return silentAreCutOff(t, limit) })
}

// silentAreCutOff says whether the client that asks was quick enough.
func silentAreCutOff(t *testing.T, limit time.Duration) bool {
	t.Helper()
	r := run(t, func(o *server.Options) { o.HeaderTimeout = limit })
	defer r.stop()
	conns := make([]net.Conn, clients)
	for i := range conns {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if i%2 == 0 {
			_, _ = io.WriteString(c, "GET /v1/catalog HTTP/1.1\r\nHost: ")
		}
		conns[i] = c
	}
	for _, c := range conns {
		// Returns when the server closes the connection.
		_, _ = io.Copy(io.Discard, c)
	}
	res, err := r.client.Do(r.request("GET", "/healthz", ""))
	if err != nil {
		t.Logf("with a limit of %v the one that asks was cut off, too: %v", limit, err)
		return false
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("after them: %d", res.StatusCode)
	}
	eventually(t, "all are gone", func() bool { return r.server.Connections() <= 2 })
	return true
}

// openStreams opens connections on which an answer doesn't end.
func openStreams(t *testing.T, r *running, n int) {
	t.Helper()
	r.fake.open("s", "a")
	for range n {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = fmt.Fprintf(c, "GET /v1/sessions/s/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer client-token\r\nAccept: text/event-stream\r\n\r\n", r.addr)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConnectionsOverTheBoundAreTurnedAway(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxConnections, o.MaxRequestsPerToken = 10, 20 })
	openStreams(t, r, 10)
	refused := 0
	for range 50 {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(c)
		if strings.HasPrefix(string(data), "HTTP/1.1 503 ") && strings.Contains(string(data), "Retry-After: 1\r\n") && strings.Contains(string(data), `"code":"unavailable"`) {
			refused++
		}
		c.Close()
	}
	if refused != 50 {
		t.Errorf("%d of 50 were refused with a problem", refused)
	}
}

// TestQuietConnectionsGiveWay: connections that ask for nothing, stop in the middle of a
// request, asked without a token, or are idle after an answer keep nobody out, and those
// on which something is answered stay.
func TestQuietConnectionsGiveWay(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxConnections, o.MaxRequestsPerToken = 10, 20 })
	openStreams(t, r, 5)
	for i, said := range []string{
		"", "GET /v1/catalog HTTP/1.1\r\nHost: ",
		"GET /healthz HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n",
		"POST /v1/commands/create_session HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
	} {
		var quiet []net.Conn
		for range 20 {
			c, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_, _ = io.WriteString(c, said)
			quiet = append(quiet, c)
		}
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", r.addr)
		if data, err := io.ReadAll(c); !strings.HasPrefix(string(data), "HTTP/1.1 200 ") {
			t.Errorf("%d: the last one gets %q, %v", i, data, err)
		}
		c.Close()
		for _, c := range quiet[:15] {
			_, _ = io.Copy(io.Discard, c) // returns when the server closes the connection
		}
	}
	if n := figure(r, `agentd_subscribers{transport="sse"}`); n != 5 {
		t.Errorf("%v streams are open, were 5", n)
	}
	if n := figure(r, `agentd_bounds_hit_total{bound="quiet_connections"}`); n < 60 {
		t.Errorf("%v connections gave way", n)
	}
}

// Subscribers that read a byte now and then, or vanish, delay nobody, hold no
// events, and are gone in the end.
func TestSlowAndVanishingReaders(t *testing.T) {
	inTime(t, time.Second, func(limit time.Duration) bool { return slowReaders(t, limit) })
}

// openSlowReaders opens streams of which a third is closed and none is read on. It
// says whether all of them began.
func openSlowReaders(t *testing.T, r *running) bool {
	t.Helper()
	for i := range clients {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, _ = fmt.Fprintf(c, "GET /v1/sessions/s/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer client-token\r\nAccept: text/event-stream\r\n\r\n", r.addr)
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Logf("stream %d ended before it began: %v", i, err)
			return false
		}
		if i%3 == 0 {
			c.Close()
		}
	}
	return true
}

// slowReaders says whether the reader that reads was quick enough.
func slowReaders(t *testing.T, limit time.Duration) bool {
	t.Helper()
	r := run(t, func(o *server.Options) { o.WriteTimeout, o.SendBuffer = limit, 8<<10 })
	defer r.stop()
	r.fake.open("s", "a")
	if !openSlowReaders(t, r) {
		return false
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := r.request(http.MethodGet, "/v1/sessions/s/events?after=1", "").WithContext(ctx)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer observer-token")
	res, err := r.client.Do(req)
	if err != nil {
		t.Logf("with a limit of %v there was no stream: %v", limit, err)
		return false
	}
	defer res.Body.Close()
	frames := wire.NewSSEReader(res.Body, 0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// Much more than the sockets buffer: 2000 events of about 400 bytes.
	const total = 2000
	var growing sync.WaitGroup
	defer growing.Wait()
	growing.Go(func() {
		for range total / 100 {
			r.fake.deltas("s", 100)
		}
	})
	for i := range total {
		f, err := frames.Next()
		if err != nil {
			t.Logf("with a limit of %v the quick one was cut off after %d frames: %v", limit, i, err)
			return false
		}
		if f.ID != fmt.Sprint(i+2) {
			t.Fatalf("frame %d: %+v", i, f)
		}
	}
	eventually(t, "the slow ones are cut off", func() bool { return figure(r, "agentd_connections") <= 4 })
	runtime.GC()
	runtime.ReadMemStats(&after)
	// The log itself is held once, by the fake.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	return true
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agentd.sock")
	l, err := server.Listen(context.Background(), "unix:"+path, false)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	s := server.New(newFake(), &server.Options{Auth: newTokens()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	if _, err := server.Listen(context.Background(), "unix:"+path, false); err == nil {
		t.Error("a second listener on the same socket")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	for origin, want := range map[string]int{"": 200, "http://evil.example": 403} {
		req, _ := http.NewRequest(http.MethodGet, "http://agentd/v1/catalog", nil)
		req.Header.Set("Authorization", "Bearer client-token")
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("origin %q: %d", origin, res.StatusCode)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestListenRefusesOtherMachinesUnlessSecured(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false, ":0": false, "10.0.0.1:0": false, "nonsense": false} {
		l, err := server.Listen(context.Background(), addr, false)
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if err == nil {
			l.Close()
		}
	}
	l, err := server.Listen(context.Background(), "0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(l.Addr().String()); err != nil || host != "0.0.0.0" {
		t.Errorf("it listens on %s: more than was asked for", l.Addr())
	}
	l.Close()
}
