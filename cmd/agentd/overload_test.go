package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"

	"agentd/client"
	"agentd/command"
)

// stall keeps a database from taking facts until the end is called. Everything can be read.
func (f *fleet) stall() (end func()) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	tx, err := conn.Begin(f.t.Context())
	if err == nil {
		_, err = tx.Exec(f.t.Context(), `LOCK TABLE agentd.events IN SHARE ROW EXCLUSIVE MODE`)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return func() {
		if err := conn.Close(context.WithoutCancel(f.t.Context())); err != nil { // the transaction ends with it
			f.t.Error(err)
		}
	}
}

// leaseUntil returns until when a node has its lease.
func (f *fleet) leaseUntil(p *process) (until time.Time) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err == nil {
		defer func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) }()
		err = conn.QueryRow(f.t.Context(), `SELECT lease_until FROM agentd.nodes WHERE address = $1`, p.url).Scan(&until)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return until
}

// refusal sends a request of a protocol and returns its status, what it says of waiting, and
// the answer.
func (p *process) refusal(path, body string, headers ...string) (status int, retry, answer string) {
	p.t.Helper()
	status, header, answer := p.exchange(p.token(), http.MethodPost, path, body, headers...)
	return status, header.Get("Retry-After"), answer
}

// TestOverloadIsRefusedAtEveryDoor holds the database's writes up. Commands that add work are
// refused over every door, with when to try again; reading, probes, metrics, leases and
// streams go on; and what was accepted comes to its end once the database is back.
func TestOverloadIsRefusedAtEveryDoor(t *testing.T) {
	// The lease is renewed every 10 s, and a busy machine doesn't cost the node three of these.
	f := newFleet(t, "30s", "repeat: true\nanswers: [{text: done}]\n")
	a := f.node(f.dir())
	first := a.submit("hello")
	a.completed(first)
	s := &storm{t: t, p: a, client: a.client()}
	if got := s.figures(); got.by["agentd_lease_held"] != 1 || got.by[`agentd_nodes{state="alive"}`] != 1 || got.by["agentd_database_connections_max"] < 4 || got.by["agentd_database_acquires_total"] == 0 {
		t.Errorf("the figures of a node: %v", got.by)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	held, begun := newReader("a stream that is held"), newReader("a stream that begins under overload")
	follow := func(r *reader) {
		status, body := a.stream(ctx, first.SessionID, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d", r.name, status)
		}
		reading.Go(func() { r.overSSE(body, first.SessionID) })
		if _, err := r.until(first.Sequence); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
	}
	follow(held)
	end := f.stall()
	renewed := f.leaseUntil(a)
	accepted := make(chan *command.SubmitTurnResult, 1)
	go func() {
		r, err := client.Call[command.SubmitTurnResult](t.Context(), a.client(), submitParams(t, "held up"))
		if err != nil {
			t.Error(err)
		}
		accepted <- r
	}()
	for s.figures().by["agentd_admission_stalled_seconds"] <= 5 {
		if t.Failed() {
			t.FailNow()
		}
	}
	a.refusesAtEveryDoor()
	for !f.leaseUntil(a).After(renewed) { // it is renewed while nothing can be written
		time.Sleep(100 * time.Millisecond)
	}
	a.goesOnUnderOverload(s, first.SessionID)
	follow(begun)
	end()
	if r := <-accepted; r != nil {
		a.completed(r)
	}
	again := a.in(first.SessionID, "", "again")
	a.completed(again)
	for _, r := range []*reader{held, begun} { // they were not cut, and miss nothing
		if _, err := r.until(again.Sequence); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		r.mu.Lock()
		if r.first != 1 {
			t.Errorf("%s begins with fact %d", r.name, r.first)
		}
		r.mu.Unlock()
	}
	cancel()
	if code := a.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// refusesAtEveryDoor: each door refuses work in its own words.
func (p *process) refusesAtEveryDoor() {
	p.t.Helper()
	message := `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		want       string
	}{
		"HTTP":                {path: "/v1/commands/submit_turn", body: `{"input":"hello"}`, want: `"code":"unavailable"`},
		"HTTP, a new session": {path: "/v1/commands/create_session", body: `{}`, want: `"code":"unavailable"`},
		"A2A, HTTP+JSON":      {path: "/a2a/rest/message:send", body: message, headers: []string{"A2A-Version", "1.0"}, want: "google.rpc.RetryInfo"},
		"AG-UI":               {path: "/agui", body: `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"hello"}]}`, want: `"code":"unavailable"`},
		"OpenAI, responses":   {path: "/v1/responses", body: `{"model":"agentd","input":"hello"}`, want: `"unavailable"`},
		"OpenAI, chat":        {path: "/v1/chat/completions", body: `{"model":"agentd","messages":[{"role":"user","content":"hello"}]}`, want: `"unavailable"`},
		"JSON-RPC":            {path: "/v1/rpc", body: `{"jsonrpc":"2.0","id":1,"method":"submit_turn","params":{"input":"hello"}}`, want: `"retryAfter":`},
		"A2A, JSON-RPC":       {path: "/a2a/rpc", body: `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + message + `}`, headers: []string{"A2A-Version", "1.0"}, want: "google.rpc.RetryInfo"},
	} {
		status, retry, answer := p.refusal(c.path, c.body, c.headers...)
		seconds, err := strconv.Atoi(retry)
		overRPC := strings.Contains(name, "JSON-RPC") // which has its own codes, in an answer of 200
		if overRPC && (status != http.StatusOK) || !overRPC && (status != http.StatusServiceUnavailable || err != nil || seconds < 1) {
			p.t.Errorf("%s: status %d, Retry-After %q: %s", name, status, retry, answer)
		}
		if !strings.Contains(answer, c.want) {
			p.t.Errorf("%s: the answer lacks %s: %s", name, c.want, answer)
		}
	}
	if got := p.mcpCall("tools/call", `"name":"run_turn","arguments":{"input":"hello"}`, "run_turn", false); !strings.Contains(got, `"retryAfter":`) || !strings.Contains(got, `"isError":true`) {
		p.t.Errorf("MCP: %s", got)
	}
	conn, _, err := websocket.Dial(p.t.Context(), "ws"+strings.TrimPrefix(p.url, "http")+"/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + p.token()}}}) //nolint:bodyclose // a WebSocket has none
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(p.t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"submit_turn","params":{"input":"hello"}}`)); err != nil {
		p.t.Fatal(err)
	}
	if _, got, err := conn.Read(p.t.Context()); err != nil || !strings.Contains(string(got), `"code":"unavailable"`) || !strings.Contains(string(got), `"retryAfter":`) {
		p.t.Errorf("WebSocket: %s, %v", got, err)
	}
}

// goesOnUnderOverload: what adds no work is let in.
func (p *process) goesOnUnderOverload(s *storm, sessionID string) {
	p.t.Helper()
	for _, path := range []string{"/healthz", "/readyz", "/v1/sessions/" + sessionID + "/events"} {
		status := 0
		for range 20 { // a busy machine may keep the database from answering /readyz in its 5 s
			res := p.getWithToken(path)
			_ = res.Body.Close()
			if status = res.StatusCode; status == http.StatusOK {
				break
			}
		}
		if status != http.StatusOK {
			p.t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, answer := p.refusal("/v1/commands/get_session", `{"sessionId":"`+sessionID+`"}`); status != http.StatusOK {
		p.t.Errorf("get_session: %d %s", status, answer)
	}
	status, _, answer := p.refusal("/v1/commands/interrupt_turn", `{"sessionId":"`+sessionID+`"}`)
	var res command.InterruptTurnResult
	if err := json.Unmarshal([]byte(answer), &res); err != nil || status != http.StatusOK || res.Interrupted {
		p.t.Errorf("interrupt_turn of nothing: %d %s", status, answer)
	}
	f := s.figures()
	if f.by["agentd_lease_held"] != 1 || f.by["agentd_store_ready"] != 1 || f.by[`agentd_admission_refused_total{reason="store_stalled"}`] < 10 {
		p.t.Errorf("the lease, or what was refused: %v", f.by)
	}
}
