package server_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentd/server"
)

// TestAnExpiredTokenEndsItsWebSocket: at the token's end, not at the next heartbeat.
func TestAnExpiredTokenEndsItsWebSocket(t *testing.T) {
	r := run(t, func(o *server.Options) { o.Heartbeat = time.Hour })
	r.fake.open("s", "a")
	// The connection must be there before its token ends, however slow the machine is.
	for life := 200 * time.Millisecond; ; life *= 2 {
		r.tokens.mu.Lock()
		id := r.tokens.ids["observer-token"]
		id.Expires = time.Now().Add(life)
		r.tokens.ids["observer-token"] = id
		r.tokens.mu.Unlock()
		c, _, err := websocket.Dial(t.Context(), r.base+"/v1/ws", &websocket.DialOptions{ //nolint:bodyclose // Dial closes it
			HTTPClient: r.client, HTTPHeader: map[string][]string{"Authorization": {"Bearer observer-token"}},
		})
		if err != nil {
			continue
		}
		t.Cleanup(func() { hangUp(c) })
		for {
			if _, _, err = c.Read(t.Context()); err != nil {
				break
			}
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("the connection ended with %v", err)
		}
		return
	}
}

// TestSubscriptionsOverWebSocketAreBounded like streams, and what is bounded is
// given back.
func TestSubscriptionsOverWebSocketAreBounded(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxStreams, o.MaxStreamsPerToken = 3, 2 })
	r.fake.open("s", "a")
	ask := func(c *websocket.Conn, id int) rpcAnswer {
		t.Helper()
		wsSendf(t, c, `{"jsonrpc":"2.0","id":%d,"method":"subscribe","params":{"sessionId":"s","after":1}}`, id)
		var a rpcAnswer
		if err := json.Unmarshal(wsRead(t, c), &a); err != nil || string(a.ID) != fmt.Sprint(id) {
			t.Fatalf("%+v, %v", a, err)
		}
		return a
	}
	one, two, three := r.dial(t.Context(), "client-token"), r.dial(t.Context(), "observer-token"), r.dial(t.Context(), "admin-token")
	defer hangUp(one)
	defer hangUp(two)
	defer hangUp(three)
	for i := range 2 {
		if a := ask(one, i); a.Error != nil {
			t.Fatalf("%+v", a.Error)
		}
	}
	if a := ask(one, 3); a.Error == nil || a.Error.Data.Code != "rate_limited" || a.Error.Data.RetryAfter == 0 {
		t.Errorf("a third subscription of the token: %+v", a)
	}
	if a := ask(two, 4); a.Error != nil {
		t.Errorf("%+v", a.Error)
	}
	if a := ask(three, 5); a.Error == nil || a.Error.Data.Code != "unavailable" || a.Error.Data.RetryAfter == 0 {
		t.Errorf("a fourth subscription: %+v", a)
	}
	wsSendf(t, three, `{"jsonrpc":"2.0","id":6,"method":"get_session","params":{"sessionId":"s"}}`)
	checkRPC(t, "reads go on", wsRead(t, three), 0, "6")
	hangUp(one)
	eventually(t, "the places are free again", func() bool { return ask(three, 7).Error == nil })
}

// TestWhoWaitsKeepsNobodyFromReading: a command that only waits is bounded like a
// stream, not like a read.
func TestWhoWaitsKeepsNobodyFromReading(t *testing.T) {
	r := run(t, func(o *server.Options) {
		o.MaxReads, o.MaxStreamsPerToken, o.AdmissionWait = 2, 2, time.Millisecond
	})
	r.fake.open("s", "a")
	r.fake.hold, r.fake.entered = make(chan struct{}), make(chan struct{}, 10)
	wait := func() answer {
		return r.sendRequest(r.request("POST", "/v1/commands/wait_subagents", `{"subagentIds":["sub_a"]}`))
	}
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { wait() })
		<-r.fake.entered
	}
	if a := r.sendRequest(r.request("POST", "/v1/commands/get_session", `{"sessionId":"s"}`)); a.status != 200 {
		t.Errorf("a read beside those who wait: %d %s", a.status, a.body)
	}
	if a := wait(); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("one too many who wait: %d %s", a.status, a.body)
	}
	close(r.fake.hold)
	waiting.Wait()
}

// TestCutSocketsGetTheLogOnceAndInOrder: clients of a WebSocket are cut off at random
// places and come back behind what they have.
func TestCutSocketsGetTheLogOnceAndInOrder(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	const total = 1000
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; i < total; i += 7 {
			r.fake.deltas("s", min(7, total-i))
		}
	})
	for client := range 4 {
		rng := rand.New(rand.NewPCG(uint64(client), 2))
		last, cuts := uint64(0), 0
		for last < total {
			last = readSocket(t, r, last, 1+rng.IntN(200), total)
			cuts++
		}
		if cuts < 3 {
			t.Errorf("only %d connections: nothing was cut", cuts)
		}
	}
	writer.Wait()
}

// readSocket reads so many events and hangs up in the middle of what follows.
func readSocket(t *testing.T, r *running, last uint64, events int, total uint64) uint64 {
	t.Helper()
	c := r.dial(t.Context(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":%d}}`, last)
	checkRPC(t, "subscribe", wsRead(t, c), 0, "1")
	for ; events > 0 && last < total; events-- {
		var a struct {
			Method string
			Params struct{ Sequence uint64 }
		}
		if data := wsRead(t, c); json.Unmarshal(data, &a) != nil || a.Method != "event" || a.Params.Sequence != last+1 {
			t.Fatalf("after %d came %s", last, data)
		}
		last++
	}
	return last
}
