package main

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/internal/pgtest"
)

// nodes are two servers over one database that know the same token.
func nodes(t *testing.T) (a, b *process) {
	t.Helper()
	url, one, two := pgtest.Shared(t).Database(t), t.TempDir(), t.TempDir()
	token := []byte("shared-" + rand.Text() + "\n")
	for _, dir := range []string{one, two} {
		if err := os.WriteFile(filepath.Join(dir, adminTokenFile), token, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, one, "--data", url, "--state-dir", one), start(t, two, "--data", url, "--state-dir", two)
}

// post sends a request of a protocol and returns what came.
func (p *process) post(path, body string, headers ...string) (status int, answer string) {
	p.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(p.data, adminTokenFile))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestProtocolsOnTheWrongNode: a request of A2A, AG-UI or the OpenAI endpoint that
// reaches the node that doesn't own the session is answered by the one that does.
func TestProtocolsOnTheWrongNode(t *testing.T) {
	a, b := nodes(t)
	v := []string{"A2A-Version", "1.0"}
	message := func(id string) string {
		return `{"message":{"messageId":"` + id + `","role":"ROLE_USER","contextId":"shared","parts":[{"text":"hello"}]}}`
	}
	rpc := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	_, first := a.post("/a2a/rest/message:send", message("m1"), v...)
	var sent struct{ Task struct{ ID string } }
	if err := json.Unmarshal([]byte(first), &sent); err != nil || sent.Task.ID == "" {
		t.Fatalf("%v in %s", err, first)
	}
	for name, c := range map[string]struct{ path, body, want string }{
		"HTTP+JSON, another task": {"/a2a/rest/message:send", message("m2"), "TASK_STATE_COMPLETED"},
		"HTTP+JSON, a stream":     {"/a2a/rest/message:stream", message("m3"), "TASK_STATE_COMPLETED"},
		"HTTP+JSON, the task":     {"/a2a/rest/tasks/" + sent.Task.ID, "", "TASK_STATE_COMPLETED"},
		"JSON-RPC, another task":  {"/a2a/rpc", rpc("SendMessage", message("m4")), "TASK_STATE_COMPLETED"},
		"JSON-RPC, a stream":      {"/a2a/rpc", rpc("SendStreamingMessage", message("m5")), "TASK_STATE_COMPLETED"},
		"JSON-RPC, the end of it": {"/a2a/rpc", rpc("CancelTask", `{"id":"`+sent.Task.ID+`"}`), "TASK_NOT_CANCELABLE"},
		"tasks of both nodes":     {"/a2a/rest/tasks", "", sent.Task.ID},
	} {
		if status, got := b.post(c.path, c.body, v...); !strings.Contains(got, c.want) {
			t.Errorf("%s: %d %s", name, status, got)
		}
	}
	run := func(id string) string {
		return `{"threadId":"thread-shared","runId":"` + id + `","messages":[{"id":"m","role":"user","content":"hello"}]}`
	}
	for i, p := range []*process{a, b, a} {
		if status, got := p.post("/agui", run("run-"+string(rune('a'+i)))); !strings.Contains(got, `"RUN_FINISHED"`) {
			t.Errorf("AG-UI, run %d: %d %s", i, status, got)
		}
	}
	_, answer := a.post("/v1/responses", `{"model":"agentd","input":"hello"}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.ID == "" {
		t.Fatalf("%v in %s", err, answer)
	}
	if status, got := b.post("/v1/responses/"+made.ID, ""); !strings.Contains(got, `"completed"`) {
		t.Errorf("a response: %d %s", status, got)
	}
	if status, got := b.post("/v1/responses", `{"model":"agentd","input":"and on","previous_response_id":"`+made.ID+`"}`); !strings.Contains(got, `"completed"`) {
		t.Errorf("the next response: %d %s", status, got)
	}
}
