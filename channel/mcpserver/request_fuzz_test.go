package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/channel/mcpserver"
	"agentd/event"
	"agentd/internal/adaptertest"
	"agentd/internal/gen"
)

// Whatever a client posts is its mistake or refers to nothing: never a defect.
func FuzzRequest(f *testing.F) {
	f.Add("", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	f.Add("2025-06-18", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agentd_get_session","arguments":{"sessionId":"s"}}}`)
	f.Add("", "t", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`)
	f.Add("", "=?base64?*?=", `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"t"}}`)
	f.Add("", "", `[{"jsonrpc":"2.0","method":"x"},{}]`)
	f.Add("9", "", `{`)
	s, err := mcpserver.New(mcpserver.Options{
		Runtime: adaptertest.Refusing{}, Schema: gen.Schema, Version: "test", Identify: identify, IDs: event.NewIDs(nil, nil), MaxWait: time.Millisecond,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, version, name, body string) {
		if strings.Contains(body, "subscriptions/listen") || strings.ContainsAny(version+name, "\r\n\x00") {
			return // a stream without an end, and headers that no server is shown
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer ann")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", version)
		r.Header.Set("Mcp-Name", name)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
