package server_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"agentd/server"
)

// A WebSocket client that subscribes and doesn't read is cut off; another one
// gets everything meanwhile.
func TestAWebSocketClientThatDoesNotReadIsCutOff(t *testing.T) {
	r := run(t, func(o *server.Options) { o.WriteTimeout, o.SendBuffer = 300*time.Millisecond, 8<<10 })
	r.fake.open("s", "a")
	slow := r.dial(t.Context(), "client-token")
	defer hangUp(slow)
	wsSendf(t, slow, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}`)
	quick := r.dial(t.Context(), "client-token")
	defer hangUp(quick)
	wsSendf(t, quick, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}`)
	checkRPC(t, "subscribe", wsRead(t, quick), 0, "1")
	const total = 30_000
	go func() {
		for range total / 100 {
			r.fake.deltas("s", 100)
		}
	}()
	for i := range total {
		want := fmt.Sprintf(`"sequence":%d,`, i+1)
		if data := wsRead(t, quick); !bytes.Contains(data, []byte(want)) {
			t.Fatalf("event %d is %s", i+1, data)
		}
	}
	eventually(t, "the slow one is gone", func() bool { return figure(r, `agentd_subscribers{transport="websocket"}`) == 1 })
}

// A client that reads now and then, a byte at a time, may stay as long as the
// server has nothing to send, and doesn't keep the server from stopping.
func TestAClientThatReadsByteByByteDoesNotHoldUpTheStop(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	res, _ := r.stream(t.Context(), "/v1/sessions/s/events", "client-token")
	defer res.Body.Close()
	one := make([]byte, 1)
	for range 20 {
		if _, err := res.Body.Read(one); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	for {
		if _, err := res.Body.Read(one); err != nil {
			return
		}
	}
}
