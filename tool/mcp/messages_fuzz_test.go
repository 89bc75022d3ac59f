package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

// Whatever a server writes, what is passed on are whole messages, one a line.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"))
	f.Add([]byte("starting…\n" + `[{"jsonrpc":"2.0","method":"x"},1,{}]` + "\n\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image","data":"*"}]}}`))
	f.Add([]byte("{}{}\n[[]]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMessages(io.NopCloser(bytes.NewReader(data)), io.Discard, func(error) {}, func() {})
		var out bytes.Buffer
		buf := make([]byte, 64)
		for range 10*len(data) + 10 {
			n, err := m.Read(buf)
			out.Write(buf[:n])
			if err != nil || n == 0 {
				break
			}
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("%q is passed on of %q", line, data)
			}
		}
	})
}
