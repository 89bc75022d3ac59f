package server_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentd/server"
)

// A WebSocket client that subscribes and doesn't read is cut off; another one
// gets everything in the meantime.
func TestAWebSocketClientThatDoesNotReadIsCutOff(t *testing.T) {
	inTime(t, time.Second, func(limit time.Duration) bool { return cutOffWithin(t, limit) })
}

// trySubscribe connects and subscribes to the session s.
func (r *running) trySubscribe() (*websocket.Conn, error) {
	r.t.Helper()
	c, err := r.tryDial(r.t.Context(), "client-token")
	if err == nil {
		wsSendf(r.t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}`)
	}
	return c, err
}

// cutOffWithin says whether the client that reads was quick enough.
func cutOffWithin(t *testing.T, limit time.Duration) bool {
	t.Helper()
	r := run(t, func(o *server.Options) { o.WriteTimeout, o.SendBuffer = limit, 8<<10 })
	defer r.stop()
	r.fake.open("s", "a")
	slow, err := r.trySubscribe()
	if err != nil {
		t.Logf("with a limit of %v there was no connection: %v", limit, err)
		return false
	}
	defer hangUp(slow)
	quick, err := r.trySubscribe()
	if err != nil {
		t.Logf("with a limit of %v there was no connection: %v", limit, err)
		return false
	}
	defer hangUp(quick)
	_, data, err := quick.Read(t.Context())
	if err != nil {
		t.Logf("with a limit of %v there was no answer: %v", limit, err)
		return false
	}
	checkRPC(t, "subscribe", data, 0, "1")
	const total = 30_000
	var growing sync.WaitGroup
	defer growing.Wait()
	growing.Go(func() {
		for range total / 100 {
			r.fake.deltas("s", 100)
		}
	})
	for i := range total {
		_, data, err := quick.Read(t.Context())
		if err != nil {
			t.Logf("with a limit of %v the quick one was cut off after %d events: %v", limit, i, err)
			return false
		}
		if want := fmt.Sprintf(`"sequence":%d,`, i+1); !bytes.Contains(data, []byte(want)) {
			t.Fatalf("event %d is %s", i+1, data)
		}
	}
	eventually(t, "the slow one is gone", func() bool { return figure(r, `agentd_subscribers{transport="websocket"}`) == 1 })
	return true
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
