package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/config"
	"agentd/command"
)

// TestEveryDoorOfAStoppingServerSaysSo stops a server under its doors: a request that came in
// before they were closed finds the runtime closed, or the store, too. Whatever it asks for, the
// answer says that it can be asked for again soon, and nothing of what is closed inside.
func TestEveryDoorOfAStoppingServerSaysSo(t *testing.T) {
	s, p := serveHere(t)
	turn := p.submit("hello")
	p.completed(turn)
	if err := s.door.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, end := range s.closers {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	if err := s.runtime.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.askEveryDoor("the runtime is closed", turn.SessionID)
	if err := s.closeAll(t.Context()); err != nil { // the store, beside what is closed already
		t.Fatal(err)
	}
	p.askEveryDoor("the store is closed", turn.SessionID)
}

// serveHere opens a server in this process, so that it can be stopped step by step.
func serveHere(t *testing.T) (*serving, *process) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	env := map[string]string{"HOME": t.TempDir(), "XDG_STATE_HOME": t.TempDir()}
	a := &app{version: "devel", in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: env}
	src := config.Sources{Env: a.getenv, Flags: map[string]string{"data": data, "listen": "127.0.0.1:0"}}
	loaded, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{app: a, loaded: loaded, sources: src, log: slog.New(slog.DiscardHandler), level: &slog.LevelVar{}}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	listener := s.listener
	s.listener = nil // Serve closes it
	go func() { served <- s.door.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, &process{t: t, url: s.note.URL, data: data}
}

// askEveryDoor sends a request to each door, and every command.
func (p *process) askEveryDoor(when, sessionID string) {
	p.t.Helper()
	refused := 0
	for name, c := range stoppingRequests(sessionID) {
		method := http.MethodPost
		if c.body == "" {
			method = http.MethodGet
		}
		status, header, answer := p.exchange(p.token(), method, c.path, c.body, c.headers...)
		again := header.Get("Retry-After") != "" || strings.Contains(answer, `"retryAfter":1`)
		switch failed := status >= 500 || strings.Contains(answer, `"isError":true`) || strings.Contains(answer, `"error":{`) && !strings.Contains(answer, `"results":[`); { // of a bulk each part has its own
		case strings.Contains(answer, "closed") && !strings.Contains(answer, "closed by") || strings.Contains(answer, "inside agentd") || strings.Contains(answer, "inside the agent"):
			p.t.Errorf("%s, %s tells what is inside: %d %s", when, name, status, answer)
		case failed && !again && status != http.StatusNotFound:
			p.t.Errorf("%s, %s: %d, no time to come again: %s", when, name, status, answer)
		case failed:
			refused++
		case c.refused:
			p.t.Errorf("%s, %s: %d %s", when, name, status, answer)
		}
	}
	if refused < 20 {
		p.t.Errorf("%s: %d requests were refused, so little was tested", when, refused)
	}
}

// stoppingRequest is a request; refused says that a stopping server must refuse it.
type stoppingRequest struct {
	path, body string
	headers    []string
	refused    bool
}

func stoppingRequests(sessionID string) map[string]stoppingRequest {
	mcp := func(tool, arguments string) stoppingRequest {
		return stoppingRequest{
			mcpPath, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"name":"` + tool + `","arguments":` + arguments + `}}`,
			[]string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool},
			true,
		}
	}
	message := `{"message":{"messageId":"m1","role":"ROLE_USER","contextId":"shared","parts":[{"text":"hello"}]}}`
	version := []string{"A2A-Version", "1.0"}
	events := []string{"Accept", "text/event-stream"}
	all := map[string]stoppingRequest{
		"MCP, a turn":           mcp("run_turn", fmt.Sprintf(`{"sessionId":%q,"input":"hello"}`, sessionID)),
		"MCP, a command":        mcp("submit_turn", fmt.Sprintf(`{"sessionId":%q,"input":"hello"}`, sessionID)),
		"JSON-RPC":              {"/v1/rpc", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"submit_turn","params":{"sessionId":%q,"input":"hello"}}`, sessionID), nil, true},
		"WebSocket":             {"/v1/ws", "", []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}, true},
		"a stream":              {"/v1/sessions/" + sessionID + "/events", "", events, true},
		"the feed":              {"/v1/events", "", events, true},
		"a page of events":      {"/v1/sessions/" + sessionID + "/events", "", nil, false},
		"A2A over REST":         {"/a2a/rest/message:send", message, version, true},
		"A2A, a stream":         {"/a2a/rest/message:stream", message, version, true},
		"A2A over JSON-RPC":     {"/a2a/rpc", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + message + `}`, version, true},
		"A2A, the list":         {"/a2a/rest/tasks", "", version, false},
		"AG-UI":                 {"/agui", `{"threadId":"thread-a","runId":"run-a","messages":[{"id":"m","role":"user","content":"hello"}]}`, nil, true},
		"OpenAI, a response":    {"/v1/responses", `{"model":"agentd","input":"hello"}`, nil, true},
		"OpenAI, a stream":      {"/v1/responses", `{"model":"agentd","input":"hello","stream":true}`, nil, true},
		"OpenAI, a completion":  {"/v1/chat/completions", `{"model":"agentd","messages":[{"role":"user","content":"hello"}]}`, nil, true},
		"a transfer":            {transferPath + "/" + sessionID, "", nil, false},
		"what is to be trimmed": {trimPath + "/" + sessionID + "?before=2&dryRun=true", "{}", nil, false},
		"readiness":             {"/readyz", "", nil, true},
	}
	for _, d := range command.Catalog() {
		body := strings.ReplaceAll(d.Example, `"sess_a"`, `"`+sessionID+`"`)
		all["the command "+string(d.Name)] = stoppingRequest{"/v1/commands/" + string(d.Name), body, nil, d.Name == "submit_turn"}
	}
	return all
}
