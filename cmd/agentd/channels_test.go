package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// token is the admin's token of a server.
func (p *process) token() string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.data, adminTokenFile))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// stream opens a session's events with a query and returns the answer's status and
// body.
func (p *process) stream(ctx context.Context, sessionID, query string) (int, io.Reader) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/sessions/"+sessionID+"/events?"+query, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token())
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = res.Body.Close() })
	return res.StatusCode, res.Body
}

// until follows a session to the n-th event of a type.
func (p *process) until(sessionID string, typ event.Type, n int) *event.Event {
	p.t.Helper()
	for e, err := range p.client().Follow(p.t.Context(), sessionID, 0, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Type != typ {
			continue
		}
		if n--; n == 0 {
			d, err := e.Decode()
			if err != nil {
				p.t.Fatal(err)
			}
			return d
		}
	}
	p.t.Fatalf("the events of %s ended without %s", sessionID, typ)
	return nil
}

func call[R any](p *process, params command.Params) *R {
	p.t.Helper()
	r, err := client.Call[R](p.t.Context(), p.client(), params)
	if err != nil {
		p.t.Fatalf("%s: %v", params.Command(), err)
	}
	return r
}

func TestClosedStreamsDisconnectAChannel(t *testing.T) {
	p := start(t, t.TempDir())
	turn := p.submit("hello")
	p.completed(turn)
	token := call[command.ConnectChannelResult](p, &command.ConnectChannel{
		ChannelID: "chan_s", Transport: "sse", PeerRole: "client", SessionID: turn.SessionID,
	}).ResumeToken
	call[command.ChannelResult](p, &command.AckEvents{ChannelID: "chan_s", Sequence: 3})

	for _, bad := range []struct {
		query  string
		status int
	}{{"channelId=chan_no", http.StatusNotFound}, {"channelId=no%20id", http.StatusNotFound}} {
		if status, _ := p.stream(t.Context(), turn.SessionID, bad.query); status != bad.status {
			t.Errorf("%s: %d", bad.query, status)
		}
	}

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	_, body := p.stream(ctx, turn.SessionID, "channelId=chan_s")
	line, err := bufio.NewReader(body).ReadString('\n')
	if err != nil || line != "id: 4\n" {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	leave()
	if gone := p.until(turn.SessionID, event.TypeChannelDisconnected, 1).Payload.(*event.ChannelDisconnected); gone.Reason != "closed" || gone.LastAcknowledged != 3 {
		t.Errorf("got %+v", gone)
	}
	if status, _ := p.stream(t.Context(), turn.SessionID, "channelId=chan_s"); status != http.StatusConflict {
		t.Errorf("a channel that is gone is followed: %d", status)
	}

	call[command.ReconnectChannelResult](p, &command.ReconnectChannel{ChannelID: "chan_s", ResumeToken: token})
	p.overWebSocket(turn.SessionID)
	if gone := p.until(turn.SessionID, event.TypeChannelDisconnected, 2).Payload.(*event.ChannelDisconnected); gone.Reason != "closed" {
		t.Errorf("got %+v", gone)
	}
	out, _, code := program(t, "channels", "--json", "--data", p.data)
	var listed command.ListChannelsResult
	if err := json.Unmarshal([]byte(out), &listed); err != nil || code != 0 || len(listed.Channels) != 1 || listed.Channels[0].Status != "disconnected" {
		t.Errorf("got %s, %v, exit %d", out, err, code)
	}
	if out, _, code := program(t, "channels", "--data", p.data); code != 0 || !strings.Contains(out, "chan_s") || !strings.Contains(out, "disconnected") {
		t.Errorf("got %s, exit %d", out, code)
	}
}

// overWebSocket follows a session for the channel chan_s and goes.
func (p *process) overWebSocket(sessionID string) {
	p.t.Helper()
	ctx := p.t.Context()
	conn, _, err := websocket.Dial(ctx, p.url+"/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + p.token()}}}) //nolint:bodyclose // Dial closes it
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":%q,"channelId":"chan_s"}}`, sessionID)
	if err := conn.Write(ctx, websocket.MessageText, []byte(ask)); err != nil {
		p.t.Fatal(err)
	}
	for _, want := range []string{`"after":3`, `"sequence":4`} { // the answer, then the first event
		_, data, err := conn.Read(ctx)
		if err != nil || !strings.Contains(string(data), want) {
			p.t.Fatalf("got %.300s, %v; want %s", data, err, want)
		}
	}
}

func TestStoppedServerSaysSoAndAChannelComesBack(t *testing.T) {
	data := t.TempDir()
	p := start(t, data)
	turn := p.submit("hello")
	p.completed(turn)
	token := call[command.ConnectChannelResult](p, &command.ConnectChannel{
		ChannelID: "chan_r", Transport: "sse", PeerRole: "client", SessionID: turn.SessionID,
	}).ResumeToken
	_, body := p.stream(t.Context(), turn.SessionID, "channelId=chan_r")
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Errorf("the stream broke: %v", err)
	}
	p = start(t, data)
	if gone := p.until(turn.SessionID, event.TypeChannelDisconnected, 1).Payload.(*event.ChannelDisconnected); gone.Reason != "shutdown" && gone.Reason != "runtime_restart" {
		t.Errorf("got %+v", gone)
	}
	back := call[command.ReconnectChannelResult](p, &command.ReconnectChannel{ChannelID: "chan_r", ResumeToken: token})
	if back.RecoveryMode != "replay" || len(back.Snapshot) == 0 {
		t.Errorf("got %+v", back)
	}
	_, err := client.Call[command.ReconnectChannelResult](t.Context(), p.client(), &command.ReconnectChannel{ChannelID: "chan_r", ResumeToken: "another"})
	if fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a wrong token: %v", err)
	}
}

// TestKilledServerKeepsAClientsCall kills the server while a client runs a tool for
// it: the client comes back and submits its result, and the turn goes on.
func TestKilledServerKeepsAClientsCall(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	script := writeFile(t, dir, "script.json", `{"answers":[{"tools":[{"name":"open_editor","arguments":{"path":"a.txt"}}]},{"text":"It is open."}]}`)
	config := writeFile(t, dir, "config.yaml", "permissions: {mode: bypass}\nproviders: [{id: script, kind: script, script: "+script+", models: [{id: m, capabilities: [tools, streaming]}]}]\n")
	p := start(t, data, "--config", config)
	session := call[command.CreateSessionResult](p, &command.CreateSession{})
	token := call[command.ConnectChannelResult](p, &command.ConnectChannel{
		ChannelID: "chan_k", Transport: "sse", PeerRole: "client", SessionID: session.SessionID,
		Tools: []event.ChannelTool{{ToolName: "open_editor", InputSchema: event.Raw(`{"type":"object"}`)}},
	}).ResumeToken
	turn := call[command.SubmitTurnResult](p, &command.SubmitTurn{SessionID: session.SessionID, Input: command.Text("open it")})
	asked := p.until(session.SessionID, event.TypeActionRequired, 1)
	p.stop(syscall.SIGKILL)

	p = start(t, data, "--config", config)
	gone := p.until(session.SessionID, event.TypeChannelDisconnected, 1).Payload.(*event.ChannelDisconnected)
	if gone.Reason != "runtime_restart" || len(gone.PendingToolCallIDs) != 1 || gone.ToolGraceMs == 0 {
		t.Errorf("got %+v", gone)
	}
	call[command.ReconnectChannelResult](p, &command.ReconnectChannel{ChannelID: "chan_k", ResumeToken: token})
	call[command.RespondActionResult](p, &command.RespondAction{
		ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`{"output":"open"}`), ChannelID: "chan_k",
	})
	p.completed(turn)
	if res := p.until(session.SessionID, event.TypeToolResult, 1).Payload.(*event.ToolResult); res.Preview != "open" {
		t.Errorf("got %+v", res)
	}
}
