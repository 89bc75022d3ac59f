package server_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"agentd/internal/wire"
)

func mustRequest(r *running, path string) *http.Request {
	req, err := http.NewRequest(http.MethodGet, r.base+path, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer client-token")
	req.Header.Set("Accept", "text/event-stream")
	return req
}

// readTo reads a stream up to a sequence and checks the order.
func readTo(b *testing.B, body io.Reader, last uint64) {
	frames := wire.NewSSEReader(body, 0)
	for seq := uint64(1); seq <= last; seq++ {
		f, err := frames.Next()
		if err != nil || f.ID != fmt.Sprint(seq) {
			b.Errorf("frame %d: id %q, %v", seq, f.ID, err)
			return
		}
	}
}

// The whole way of a command through the server, without a runtime behind it.
func BenchmarkCommand(b *testing.B) {
	f := newFake()
	r := runOn(b, f, nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequest(http.MethodPost, r.base+"/v1/commands/list_sessions", http.NoBody)
			req.Header.Set("Authorization", "Bearer client-token")
			res, err := r.client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	})
}
