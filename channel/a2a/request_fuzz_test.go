package a2a

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/adaptertest"
)

// Whatever a peer sends, over JSON-RPC or over REST, is its mistake or refers to
// nothing.
func FuzzRequest(f *testing.F) {
	f.Add("", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]}}}`)
	f.Add("", `{"jsonrpc":"2.0","id":"x","method":"ListTasks","params":{"pageToken":"AA","pageSize":5}}`)
	f.Add("", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t","url":"http://example.com"}}`)
	f.Add("", `{"jsonrpc":"2.0","id":{},"method":1}`)
	f.Add("/message:send", `{"message":{"messageId":"m","parts":[{"data":{"a":1}},{"raw":"AA==","mediaType":"image/png"}]}}`)
	f.Add("/tasks/t:cancel", `{}`)
	f.Add("/tasks?pageSize=x", ``)
	f.Add("/tasks/t?historyLength=-1", ``)
	s, err := New(Options{
		Runtime: adaptertest.Refusing{},
		Card:    CardInfo{Name: "test", Description: "d", URL: "https://agent.example", Version: "1"},
		Push:    PushOptions{Key: bytes.Repeat([]byte{7}, 32)},
		Caller: func(context.Context) (command.Caller, command.Role, bool) {
			return command.Caller{Account: "a", Actor: event.Actor{Kind: "user", ID: "u"}}, command.RoleClient, true
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path, body string) {
		handler, method, at := s.RPCHandler(), http.MethodPost, RPCPath
		if path != "" {
			handler, at = s.RESTHandler(), RESTPath+path
			if body == "" {
				method = http.MethodGet
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+at, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(r.URL.Path, "/") {
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 || strings.Contains(w.Body.String(), "-32603") {
			t.Errorf("%s %q: %d %s", at, body, w.Code, w.Body)
		}
	})
}
