package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/model/provider/script"
	"agentd/store/storetest"
)

// live is the real runtime as a backend.
type live struct{ agentd.Port }

// Ready implements [server.Backend].
func (l live) Ready(context.Context) error { return l.Err() }

// Status implements [server.Backend].
func (l live) Status(context.Context, command.Caller) any {
	return map[string]string{"runtimeId": l.ID()}
}

// runLive starts a server over the real runtime on a store in memory.
func runLive(t testing.TB) *running { return runLiveWith(t, func(*agentd.Options) {}) }

// runLiveWith is runLive with other options of the runtime.
func runLiveWith(t testing.TB, change func(*agentd.Options)) *running {
	st := storetest.NewMem()
	opt := agentd.Options{Store: st, Provider: script.New("script", nil), Model: "script"}
	change(&opt)
	rt, err := agentd.Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
		replaytest.Recorded(t, opt.Store)
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return runOn(t, live{rt.Port()}, nil)
}

// A turn is submitted over HTTP and followed over SSE, WebSocket and the global
// stream: all see the same log, without a gap, up to the turn's end.
func TestATurnOverEveryDoor(t *testing.T) {
	r := runLive(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.sendRequest(r.request("POST", "/v1/commands/create_session", `{"sessionId":"s"}`)).decode(t, &struct{}{})
	global, globalFrames := r.stream(ctx, "/v1/events", "client-token")
	defer global.Body.Close()
	one, oneFrames := r.stream(ctx, "/v1/sessions/s/events?snapshot=1", "client-token")
	defer one.Body.Close()
	ws := r.dial(ctx, "client-token")
	defer hangUp(ws)
	wsSendf(t, ws, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}`)
	checkRPC(t, "subscribe", wsRead(t, ws), 0, "1")

	req := r.request("POST", "/v1/commands/submit_turn", `{"sessionId":"s","input":"hello there","idempotencyKey":"k"}`)
	req.Header.Set("X-Request-ID", "req_mine")
	var turn command.SubmitTurnResult
	r.sendRequest(req).decode(t, &turn)
	if turn.Status != "accepted" || turn.Sequence == 0 || turn.TurnID == "" {
		t.Fatalf("%+v", turn)
	}
	f, err := oneFrames.Next()
	if err != nil || f.Event != "snapshot" || !strings.Contains(string(f.Data), `"sessionId":"s"`) {
		t.Fatalf("%+v, %v", f, err)
	}
	log := readLog(t, func() []byte {
		f, err := oneFrames.Next()
		if err != nil {
			t.Fatal(err)
		}
		return f.Data
	}, 1)
	if !strings.Contains(string(log[turn.Sequence-1]), `"requestId":"req_mine"`) {
		t.Errorf("the fact doesn't name the request: %s", log[turn.Sequence-1])
	}
	compareLogs(t, "WebSocket", log, readLog(t, func() []byte {
		var a rpcAnswer
		if err := json.Unmarshal(wsRead(t, ws), &a); err != nil {
			t.Fatal(err)
		}
		return a.Params
	}, 1))
	compareLogs(t, "the global stream", log[2:], readLog(t, func() []byte {
		f, err := globalFrames.Next()
		if err != nil {
			t.Fatal(err)
		}
		return f.Data
	}, 3))
	var again command.SubmitTurnResult
	r.sendRequest(r.request("POST", "/v1/commands/submit_turn", `{"sessionId":"s","input":"hello there","idempotencyKey":"k"}`)).decode(t, &again)
	if again != turn {
		t.Errorf("the same key again: %+v, want %+v", again, turn)
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/submit_turn", `{"sessionId":"s","input":"other","idempotencyKey":"k"}`)); a.status != 409 || a.problem(t).Code != "conflict" {
		t.Errorf("the same key with another input: %d %s", a.status, a.body)
	}
}

// A turn waits for the answer to its submission, but not for a client that is gone:
// whoever vanishes without taking the answer in has submitted a turn all the same.
func TestAVanishedClientsTurnsRun(t *testing.T) {
	r := runLive(t)
	r.sendRequest(r.request("POST", "/v1/commands/create_session", `{"sessionId":"s"}`)).decode(t, &struct{}{})
	body := `{"sessionId":"s","input":"hello"}`
	for try := 0; ; try++ {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/commands/submit_turn HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer client-token\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			r.addr, len(body), body)
		time.Sleep(time.Duration(try) * 100 * time.Microsecond)
		if err := errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil {
			t.Fatal(err)
		}
		// One that left before the decision may have submitted nothing.
		if log := r.getPath("/v1/sessions/s/events?after=0").body; bytes.Contains(log, []byte("turn.submitted")) {
			break
		}
	}
	one, frames := r.stream(t.Context(), "/v1/sessions/s/events?after=0", "client-token")
	defer one.Body.Close()
	readLog(t, func() []byte {
		f, err := frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		return f.Data
	}, 1)
}

// readLog reads events until a turn is completed.
func readLog(t *testing.T, next func() []byte, first uint64) [][]byte {
	t.Helper()
	var log [][]byte
	for {
		data := next()
		var e struct {
			Type     string
			Sequence uint64
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if e.Sequence != first+uint64(len(log)) {
			t.Fatalf("sequence %d, want %d", e.Sequence, first+uint64(len(log)))
		}
		log = append(log, data)
		if e.Type == "turn.completed" || e.Type == "turn.failed" {
			return log
		}
	}
}

func compareLogs(t *testing.T, name string, want, got [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d events, want %d", name, len(got), len(want))
		return
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("%s: event %d is %s, want %s", name, i, got[i], want[i])
		}
	}
}

func TestALargeInputIsAnOutput(t *testing.T) {
	r := runLive(t)
	large := strings.Repeat("a long story ", 1000)
	body, _ := json.Marshal(map[string]any{"input": large})
	var turn command.SubmitTurnResult
	r.sendRequest(r.request("POST", "/v1/commands/submit_turn", string(body))).decode(t, &turn)
	var page struct {
		Events []struct{ Payload struct{ InputRef string } }
	}
	r.sendRequest(r.request("GET", fmt.Sprintf("/v1/sessions/%s/events?types=turn.submitted", turn.SessionID), "")).decode(t, &page)
	if len(page.Events) != 1 || page.Events[0].Payload.InputRef == "" {
		t.Fatalf("%+v", page)
	}
	ref := "/v1/outputs/" + page.Events[0].Payload.InputRef
	if a := r.sendRequest(r.request("GET", ref, "")); a.status != 200 || !strings.Contains(string(a.body), large) {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
	req := r.request("GET", ref, "")
	req.Header.Set("Authorization", "Bearer other-token")
	if a := r.sendRequest(req); a.status != 404 {
		t.Errorf("another account: %d", a.status)
	}
}

func TestAnotherAccountSeesNothingOfTheRuntime(t *testing.T) {
	r := runLive(t)
	r.sendRequest(r.request("POST", "/v1/commands/create_session", `{"sessionId":"mine"}`)).decode(t, &struct{}{})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/v1/sessions/mine/events", ""},
		{"GET", "/v1/sessions/sess_runtime/events", ""},
		{"POST", "/v1/commands/get_session", `{"sessionId":"mine"}`},
		{"POST", "/v1/commands/submit_turn", `{"sessionId":"mine","input":"x"}`},
		{"POST", "/v1/commands/interrupt_turn", `{"sessionId":"mine"}`},
	} {
		req := r.request(c.method, c.path, c.body)
		req.Header.Set("Authorization", "Bearer other-token")
		if a := r.sendRequest(req); a.status != 404 || a.problem(t).Code != "not_found" {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.body)
		}
	}
}

// The cost of appending one event while so many clients follow the session.
func BenchmarkSubscribers(b *testing.B) {
	for _, n := range []int{0, 1, 100, 1000} {
		b.Run(fmt.Sprintf("subscribers=%d", n), func(b *testing.B) { benchmarkSubscribers(b, n) })
	}
}

func benchmarkSubscribers(b *testing.B, n int) {
	f := newFake()
	f.open("s", "a")
	r := runOn(b, f, nil)
	r.fake = f
	r.client.Timeout = 0
	var followers, connected sync.WaitGroup
	last := uint64(b.N + 1)
	for range n {
		connected.Add(1)
		followers.Go(func() {
			req := mustRequest(r, "/v1/sessions/s/events")
			res, err := r.client.Do(req)
			if err != nil {
				b.Error(err)
				connected.Done()
				return
			}
			defer res.Body.Close()
			connected.Done()
			readTo(b, res.Body, last)
		})
	}
	connected.Wait()
	b.ResetTimer()
	for range b.N {
		f.deltas("s", 1)
	}
	b.StopTimer()
	began := time.Now()
	followers.Wait()
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-until-all-have-all")
}

// The runtime's own session can be read before it has a fact, by an admin, and its
// stream shows the first one.
func TestTheRuntimesSessionIsThereFromTheStart(t *testing.T) {
	r := runLive(t)
	ask := func(method, path, body, token string) answer {
		req := r.request(method, path, body)
		req.Header.Set("Authorization", "Bearer "+token)
		return r.sendRequest(req)
	}
	const events, session = "/v1/sessions/" + event.RuntimeSession + "/events", `{"sessionId":"` + event.RuntimeSession + `"}`
	for _, c := range [][3]string{{"GET", events, ""}, {"POST", "/v1/commands/get_session", session}} {
		if a := ask(c[0], c[1], c[2], "client-token"); a.status != 404 || a.problem(t).Code != "not_found" {
			t.Errorf("%s for a client: %d %s", c[1], a.status, a.body)
		}
	}
	var page struct {
		Events       []json.RawMessage
		LastSequence *uint64
		NextAfter    uint64
	}
	ask("GET", events, "", "admin-token").decode(t, &page)
	if len(page.Events) != 0 || page.LastSequence == nil || *page.LastSequence != 0 || page.NextAfter != 0 {
		t.Errorf("the page is %+v", page)
	}
	var got struct {
		SessionID, RuntimeID string
		Sequence             uint64
		History              struct {
			Events    []json.RawMessage
			Truncated bool
		}
	}
	ask("POST", "/v1/commands/get_session", session, "admin-token").decode(t, &got)
	if got.SessionID != event.RuntimeSession || got.RuntimeID == "" || got.Sequence != 0 || got.History.Events == nil || len(got.History.Events) != 0 || got.History.Truncated {
		t.Errorf("the session is %+v", got)
	}
	res, frames := r.stream(t.Context(), events+"?snapshot=1", "admin-token")
	defer res.Body.Close()
	if f, err := frames.Next(); err != nil || f.Event != "snapshot" {
		t.Fatalf("first %+v, %v", f, err)
	}
	if a := ask("POST", "/v1/commands/set_policy", `{"mode":"plan"}`, "admin-token"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for id := 1; ; id++ {
		f, err := frames.Next()
		if err != nil || f.ID != strconv.Itoa(id) {
			t.Fatalf("frame %+v, %v, want %d", f, err, id)
		}
		if bytes.Contains(f.Data, []byte(`"type":"policy.changed"`)) {
			return
		}
	}
}
