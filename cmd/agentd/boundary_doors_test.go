package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"agentd/client"
	"agentd/command"
)

// TestDoorsTellNothingOfOthers gives ids of another account, and ids that nobody has, to
// every door that takes an id: addresses of the server, JSON-RPC, WebSocket and the
// protocols of others. Status and text of the answers are the same, up to the id.
func TestDoorsTellNothingOfOthers(t *testing.T) {
	config := writeFile(t, t.TempDir(), "config.yaml", "a2a: {enabled: true}\n")
	p := start(t, filepath.Join(t.TempDir(), "data"), "--config", config)
	acme, stranger := p.tokenFor("client", "acme"), p.tokenFor("client", "stranger")
	large := strings.Repeat("what acme knows ", 4000)
	turn, err := client.Call[command.SubmitTurnResult](t.Context(), p.clientWith(acme), &command.SubmitTurn{SessionID: "sess_acme", TurnID: "turn_acme", Create: true, Input: command.Text(large)})
	if err != nil {
		t.Fatal(err)
	}
	p.completed(turn)
	p.tellsNothingOf(stranger, p.heldBy(t, acme))
	p.stop(syscall.SIGTERM)
}

// doorsWithIDs are requests that take an id, by what the id is of.
var doorsWithIDs = map[string]struct {
	method, path, body, of string
	headers                []string
}{
	"events":                  {http.MethodGet, "/v1/sessions/ID/events", "", "session", nil},
	"a stream of events":      {http.MethodGet, "/v1/sessions/ID/events", "", "session", []string{"Accept", "text/event-stream"}},
	"an output":               {http.MethodGet, "/v1/outputs/ID", "", "ref", nil},
	"a process's output":      {http.MethodGet, "/v1/processes/ID/output", "", "process", nil},
	"an exported session":     {http.MethodGet, "/v1/transfer/ID", "", "session", nil},
	"a command":               {http.MethodPost, "/v1/commands/get_session", `{"sessionId":"ID"}`, "session", nil},
	"a turn":                  {http.MethodPost, "/v1/commands/submit_turn", `{"sessionId":"ID","input":"x"}`, "session", nil},
	"a turn in a folder":      {http.MethodPost, "/v1/commands/submit_turn", `{"sessionId":"ID","input":"x","options":{"cwd":"/etc"}}`, "session", nil},
	"another title":           {http.MethodPost, "/v1/commands/update_session", `{"sessionId":"ID","title":"x"}`, "session", nil},
	"a subagent":              {http.MethodPost, "/v1/commands/spawn_subagent", `{"sessionId":"ID","threadId":"thread_x","input":"x"}`, "session", nil},
	"a way back":              {http.MethodPost, "/v1/commands/rollback_thread", `{"sessionId":"ID","threadId":"thread_x","toTurnId":"turn_acme","preview":true}`, "session", nil},
	"deletion":                {http.MethodPost, "/v1/commands/delete_session", `{"sessionId":"ID"}`, "session", nil},
	"a part of an input":      {http.MethodPost, "/v1/commands/submit_turn", `{"input":[{"type":"file","ref":"ID"}]}`, "ref", nil},
	"JSON-RPC":                {http.MethodPost, "/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"get_session","params":{"sessionId":"ID"}}`, "session", nil},
	"a batch":                 {http.MethodPost, "/v1/rpc", `[{"jsonrpc":"2.0","id":1,"method":"interrupt_turn","params":{"sessionId":"ID"}},{"jsonrpc":"2.0","id":2,"method":"get_task","params":{"taskId":"ID"}}]`, "session", nil},
	"an A2A task":             {http.MethodGet, "/a2a/rest/tasks/ID", "", "peerTask", []string{"A2A-Version", "1.0"}},
	"to cancel an A2A task":   {http.MethodPost, "/a2a/rest/tasks/ID:cancel", `{}`, "peerTask", []string{"A2A-Version", "1.0"}},
	"to follow an A2A task":   {http.MethodGet, "/a2a/rest/tasks/ID:subscribe", "", "peerTask", []string{"A2A-Version", "1.0"}},
	"a message to a task":     {http.MethodPost, "/a2a/rest/message:send", `{"message":{"messageId":"m9","taskId":"ID","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, "peerTask", []string{"A2A-Version", "1.0"}},
	"pushes of an A2A task":   {http.MethodGet, "/a2a/rest/tasks/ID/pushNotificationConfigs", "", "peerTask", []string{"A2A-Version", "1.0"}},
	"A2A over JSON-RPC":       {http.MethodPost, "/a2a/rpc", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"ID"}}`, "peerTask", []string{"A2A-Version", "1.0"}},
	"a response":              {http.MethodGet, "/v1/responses/ID", "", "response", nil},
	"to cancel a response":    {http.MethodPost, "/v1/responses/ID/cancel", `{}`, "response", nil},
	"to go on with one":       {http.MethodPost, "/v1/responses", `{"input":"x","previous_response_id":"ID"}`, "response", nil},
	"a run with no new input": {http.MethodPost, "/agui", `{"threadId":"ID","runId":"run_x","messages":[]}`, "session", nil},
	"an answer of a run":      {http.MethodPost, "/agui", `{"threadId":"ID","runId":"run_x","messages":[],"resume":[{"interruptId":"action_x","status":"resolved","payload":true}]}`, "session", nil},
}

// tellsNothingOf asks every door about the things of another account, and about things that
// nobody has. The answers have to be the same.
func (p *process) tellsNothingOf(stranger string, theirs map[string]string) {
	t := p.t
	t.Helper()
	for name, c := range doorsWithIDs {
		foreign := p.answerAbout(stranger, c.method, c.path, c.body, theirs[c.of], c.headers)
		unknown := p.answerAbout(stranger, c.method, c.path, c.body, nobodys(theirs[c.of]), c.headers)
		if foreign != unknown || strings.HasPrefix(foreign, "2") && !strings.Contains(c.path, "rpc") {
			t.Errorf("%s: with an id of another account: %s\n of nobody: %s", name, foreign, unknown)
		}
	}
	for _, uri := range []string{"agentd://sessions/ID", "agentd://sessions/ID/events"} {
		ask := func(id string) string {
			_, got := p.mcpAs(stranger, "resources/read", `"uri":"`+strings.ReplaceAll(uri, "ID", id)+`"`, strings.ReplaceAll(uri, "ID", id))
			return strings.ReplaceAll(got, id, "ID")
		}
		if foreign, unknown := ask(theirs["session"]), ask(nobodys(theirs["session"])); foreign != unknown || !strings.Contains(foreign, "error") {
			t.Errorf("MCP, %s: %s\n of nobody: %s", uri, foreign, unknown)
		}
	}
	if foreign, unknown := p.subscribeTo(stranger, theirs["session"]), p.subscribeTo(stranger, nobodys(theirs["session"])); foreign != unknown || !strings.Contains(foreign, "error") {
		t.Errorf("WebSocket: %s\n of nobody: %s", foreign, unknown)
	}
}

// heldBy returns ids of things of an account, by what they are of.
func (p *process) heldBy(t *testing.T, token string) map[string]string {
	t.Helper()
	out := map[string]string{"session": "sess_acme", "process": "proc_acme"}
	_, events := p.sendAs(token, http.MethodGet, "/v1/sessions/sess_acme/events", "")
	out["ref"] = regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(events)
	_, sent := p.sendAs(token, http.MethodPost, "/a2a/rest/message:send", `{"message":{"messageId":"m1","role":"ROLE_USER","contextId":"c","parts":[{"text":"hello"}]}}`, "A2A-Version", "1.0")
	var task struct{ Task struct{ ID string } }
	_, said := p.sendAs(token, http.MethodPost, "/v1/responses", `{"model":"agentd","input":"hello"}`)
	var response struct{ ID string }
	if json.Unmarshal([]byte(sent), &task) != nil || json.Unmarshal([]byte(said), &response) != nil || task.Task.ID == "" || response.ID == "" || out["ref"] == "" {
		t.Fatalf("%s\n%s\n%.300s", sent, said, events)
	}
	out["peerTask"], out["response"] = task.Task.ID, response.ID
	return out
}

// nobodys is an id of the same form that nothing has.
func nobodys(id string) string {
	other := map[byte]byte{'0': '1'}
	last := id[len(id)-1]
	if other[last] == 0 {
		other[last] = '0'
	}
	return strings.ReplaceAll(id[:len(id)-1], "acme", "none") + string(other[last])
}

// answerAbout sends a request about an id and describes the answer without it.
func (p *process) answerAbout(token, method, path, body, id string, headers []string) string {
	p.t.Helper()
	fill := func(s, id string) string { return strings.ReplaceAll(s, "ID", id) }
	status, text := p.sendAs(token, method, fill(path, url.PathEscape(id)), fill(body, id), append([]string{"X-Request-ID", "req_mine"}, headers...)...)
	text = strings.NewReplacer(id, "ID", url.PathEscape(id), "ID").Replace(text)
	return fmt.Sprintf("%d %s", status, text)
}

// mcpAs sends a request of the revision in which each stands for itself.
func (p *process) mcpAs(token, method, params, name string) (int, string) {
	p.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},` + params + `}}`
	return p.sendAs(token, http.MethodPost, mcpPath, body, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

// subscribeTo asks for the events of a session over WebSocket and returns the answer
// without its id.
func (p *process) subscribeTo(token, sessionID string) string {
	p.t.Helper()
	conn, _, err := websocket.Dial(p.t.Context(), "ws"+strings.TrimPrefix(p.url, "http")+"/v1/ws", &websocket.DialOptions{ //nolint:bodyclose // the connection owns it
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(p.t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"`+sessionID+`","after":0}}`)); err != nil {
		p.t.Fatal(err)
	}
	_, text, err := conn.Read(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	said := strings.ReplaceAll(string(text), sessionID, "ID")
	return regexp.MustCompile(`"requestId":"[^"]*"`).ReplaceAllString(said, "")
}
