package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/fault"
	"agentd/internal/wire"
	"agentd/server"
)

// Whatever a request is, its answer is none of a defect: a result, or a problem
// with a code of the caller's.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/v1/commands/create_session", "application/json", "", `{"sessionId":"s1"}`)
	f.Add("POST", "/v1/commands/submit_turn", "application/json; charset=utf-8", "", `{"input":[{"type":"text"}]}`)
	f.Add("POST", "/v1/rpc", "application/json", "", `[{"jsonrpc":"2.0","id":1,"method":"list_sessions"},1]`)
	f.Add("GET", "/v1/sessions/s/events?after=1&types=tool.*", "", "application/json", "")
	f.Add("GET", "/v1/outputs/sha256%3Aabc", "", "bytes=0-", "")
	f.Add("GET", "/v1/schemas/..%2f", "text/plain", "*/*", "")
	f.Add("DELETE", "/healthz", "", "", "x")
	b := newFake()
	b.open("s", "a")
	s := server.New(b, &server.Options{Auth: newTokens()})
	f.Fuzz(func(t *testing.T, method, target, media, accept, body string) {
		if !strings.HasPrefix(target, "/") || strings.Contains(accept, "event-stream") || strings.Contains(target, "get_thread_read") || strings.Contains(target+body, "list_actions") || strings.Contains(body, "get_thread_read") {
			return // streams don't end by themselves, and the rest are the fake's own defects
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+target, strings.NewReader(body))
		if err != nil || strings.HasPrefix(req.URL.Path, "/v1/events") {
			return
		}
		req.Header.Set("Authorization", "Bearer client-token")
		req.Header.Set("Content-Type", media)
		req.Header.Set("Accept", accept)
		req.Header.Set("Range", accept)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, req)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s %s: %d %s", method, target, w.Code, w.Body)
		}
		if w.Code >= 400 && method != http.MethodHead {
			if p, ok := wire.DecodeProblem(w.Body.Bytes()); !ok || p.Code == "" || p.Status != w.Code {
				t.Errorf("%s %s: %d without a problem: %s", method, target, w.Code, w.Body)
			}
		}
	})
}

// Whatever lines come, each answer is a JSON-RPC message, and the connection ends
// with its input.
func FuzzStdio(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":0}}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"method":"unsubscribe","params":{"subscriptionId":"subscription_1"}}]`))
	f.Add([]byte("{}\n[]\nnull\n\x00\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"))
	b := newFake()
	b.open("s", "a")
	s := server.New(b, nil)
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.Contains(in, []byte("get_thread_read")) {
			return // a defect of the fake's own
		}
		var out bytes.Buffer
		if err := s.ServeStdio(t.Context(), bytes.NewReader(in), &out, server.LocalIdentity()); err != nil {
			t.Errorf("%q: %v", in, err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var batch []json.RawMessage
			if json.Unmarshal(line, &batch) == nil {
				continue
			}
			if _, err := wire.DecodeRPCMessage(line); err != nil {
				t.Errorf("%q is answered with %q: %v", in, line, err)
			}
		}
	})
}

// Whatever the file of tokens holds, it is read or refused, and lets nobody in.
func FuzzTokenFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"tokens":[{"id":"a","name":"x","role":"admin","sha256":"00"}]}`), "agentd_a_x")
	f.Add([]byte(`[]`), "agentd_")
	f.Add([]byte("\x00"), "agentd_a_")
	f.Fuzz(func(t *testing.T, data []byte, token string) {
		path := filepath.Join(t.TempDir(), "tokens.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tokens, err := server.OpenTokens(path, nil)
		if err != nil {
			return
		}
		if id, err := tokens.Authenticate(context.Background(), token); err == nil || fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%q is %+v, %v", token, id, err)
		}
	})
}
