package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// nodes are two servers over one database that know the same token.
func nodes(t *testing.T) (a, b *process) {
	t.Helper()
	f := newFleet(t, "1h", slow).quick()
	return f.node(f.dir()), f.node(f.dir())
}

// post sends a request of a protocol and returns what came.
func (p *process) post(path, body string, headers ...string) (status int, answer string) {
	p.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	return p.sendAs(p.token(), method, path, body, headers...)
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

// mcpCall sends a request of the revision in which each stands for itself, as a
// client that takes tasks if it says so.
func (p *process) mcpCall(method, params, name string, tasks bool) string {
	p.t.Helper()
	capabilities := `{}`
	if tasks {
		capabilities = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities + `},` + params + `}}`
	_, got := p.post(mcpPath, body, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	return got
}

// TestMCPOnTheWrongNode: a call about a session that another node owns is carried
// out there, in the revision without sessions of its own and in the one with them,
// in which a client is bound to the node that it opened its session with.
func TestMCPOnTheWrongNode(t *testing.T) {
	a, b := nodes(t)
	tool := func(p *process, name, arguments string, tasks bool) string {
		return p.mcpCall("tools/call", `"name":"`+name+`","arguments":`+arguments, name, tasks)
	}
	turn := `{"sessionId":"sess_shared","create":true,"input":"hello"}`
	if got := tool(a, "run_turn", turn, false); !strings.Contains(got, `"completed"`) {
		t.Fatal(got)
	}
	for name, got := range map[string]string{
		"another turn": tool(b, "run_turn", turn, false),
		"a read":       tool(b, "get_session", `{"sessionId":"sess_shared"}`, false),
		"a task":       tool(b, "run_turn", turn, true),
	} {
		if !strings.Contains(got, "sess_shared") || strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: %.600s", name, got)
		}
	}
	b.mcpTaskElsewhere(tool(a, "run_turn", turn, true))
	b.mcpSessionElsewhere(http.DefaultTransport)
	// One that is opened at one node goes on at all of them, and ends with its node.
	spread := &spreading{to: []string{strings.TrimPrefix(a.url, "http://"), strings.TrimPrefix(b.url, "http://")}}
	b.mcpSessionElsewhere(spread)
	if n := spread.next.Load(); n < 4 {
		t.Errorf("the two nodes got %d requests", n)
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	header := []string{"Accept", "application/json, text/event-stream"}
	id := a.opened(mcpPath, initialize, header...)
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	header = append(header, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
	if status, got := b.post(mcpPath, list, header...); status != http.StatusOK || !strings.Contains(got, "run_turn") {
		t.Errorf("a session of the other node: %d %.300s", status, got)
	}
	a.stop(syscall.SIGTERM)
	if status, got := b.post(mcpPath, list, header...); status != http.StatusNotFound {
		t.Errorf("a session of a node that is gone: %d %.300s, want 404", status, got)
	}
}

// opened sends a request and returns the id of the MCP session that the answer names.
func (p *process) opened(path, body string, headers ...string) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := tokenTransport{p.token(), http.DefaultTransport}.RoundTrip(req)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		p.t.Fatal(err)
	}
	id := res.Header.Get("Mcp-Session-Id")
	if id == "" {
		p.t.Fatalf("no session was opened: %s", res.Status)
	}
	return id
}

// spreading sends each request to the next of several nodes, as a balancer does.
type spreading struct {
	to   []string
	next atomic.Int64
}

// RoundTrip implements [http.RoundTripper].
func (s *spreading) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = s.to[s.next.Add(1)%int64(len(s.to))]
	r.Host = r.URL.Host
	return http.DefaultTransport.RoundTrip(r)
}

// mcpTaskElsewhere follows a task of the other node to its end.
func (p *process) mcpTaskElsewhere(created string) {
	p.t.Helper()
	_, after, ok := strings.Cut(created, `"taskId":"`)
	id, _, _ := strings.Cut(after, `"`)
	if !ok {
		p.t.Fatal(created)
	}
	told := p.mcpCall("subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`, "", true)
	if !strings.Contains(told, `"notifications/tasks"`) || !strings.Contains(told, `"completed"`) {
		p.t.Errorf("told of the task: %s", told)
	}
	if got := p.mcpCall("tasks/get", `"taskId":"`+id+`"`, id, true); !strings.Contains(got, `"status":"completed"`) {
		p.t.Errorf("the task: %s", got)
	}
}

// mcpSessionElsewhere calls a tool in a session of an older revision.
func (p *process) mcpSessionElsewhere(over http.RoundTripper) {
	p.t.Helper()
	transport := &mcp.StreamableClientTransport{Endpoint: p.url + mcpPath, HTTPClient: &http.Client{Transport: tokenTransport{p.token(), over}}}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil).Connect(p.t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for range 2 {
		res, err := s.CallTool(p.t.Context(), &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"sessionId": "sess_shared", "input": "hello"}})
		if err != nil || res.IsError {
			p.t.Fatalf("%v %+v", err, res)
		}
	}
}

// tokenTransport adds a token to requests.
type tokenTransport struct {
	token string
	over  http.RoundTripper
}

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.over.RoundTrip(r)
}
