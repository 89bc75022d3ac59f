package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentd/internal/wire"
	"agentd/server"
)

// rpcAnswer is a JSON-RPC response or notification.
type rpcAnswer struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *wire.RPCError
}

// rpcCases are messages that mean the same over every transport.
var rpcCases = []struct {
	name, in string
	// want is the code of the error, 0 for a result, -1 for no answer.
	want int
	id   string
}{
	{"a request", `{"jsonrpc":"2.0","id":1,"method":"list_sessions"}`, 0, "1"},
	{"a string id", `{"jsonrpc":"2.0","id":"a","method":"list_sessions","params":{}}`, 0, `"a"`},
	{"a notification", `{"jsonrpc":"2.0","method":"list_sessions"}`, -1, ""},
	{"a notification that fails", `{"jsonrpc":"2.0","method":"nothing"}`, -1, ""},
	{"no JSON", `{`, -32700, "null"},
	{"two values", `{"jsonrpc":"2.0","id":1,"method":"list_sessions"} {}`, -32700, "null"},
	{"a number", `1`, -32600, "null"},
	{"an empty batch", `[]`, -32600, "null"},
	{"no version", `{"id":1,"method":"list_sessions"}`, -32600, "1"},
	{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"list_sessions"}`, -32600, "null"},
	{"no method", `{"jsonrpc":"2.0","id":1}`, -32600, "1"},
	{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"nothing"}`, -32601, "1"},
	{"an unknown parameter", `{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":{"x":1}}`, -32602, "1"},
	{"parameters in a list", `{"jsonrpc":"2.0","id":1,"method":"list_sessions","params":[1]}`, -32602, "1"},
	{"not found", `{"jsonrpc":"2.0","id":1,"method":"get_session","params":{"sessionId":"none"}}`, -32000, "1"},
	{"not available", `{"jsonrpc":"2.0","id":1,"method":"explain","params":{"sessionId":"s","turnId":"t"}}`, -32000, "1"},
}

func checkRPC(t *testing.T, name string, data []byte, want int, id string) {
	t.Helper()
	var a rpcAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		t.Errorf("%s: %v in %q", name, err, data)
		return
	}
	switch {
	case string(a.ID) != id:
		t.Errorf("%s: id %s, want %s", name, a.ID, id)
	case want == 0 && a.Error != nil:
		t.Errorf("%s: %s", name, data)
	case want != 0 && (a.Error == nil || a.Error.Code != want):
		t.Errorf("%s: want code %d: %s", name, want, data)
	case want == -32000 && (a.Error.Data == nil || a.Error.Data.Code == "" || a.Error.Data.RequestID == ""):
		t.Errorf("%s: the problem is missing: %s", name, data)
	}
}

func TestRPCOverHTTP(t *testing.T) {
	r := run(t, nil)
	for _, c := range rpcCases {
		a := r.sendRequest(r.request("POST", "/v1/rpc", c.in))
		if c.want == -1 {
			if a.status != 204 || len(a.body) != 0 {
				t.Errorf("%s: %d %s", c.name, a.status, a.body)
			}
			continue
		}
		if a.status != 200 {
			t.Errorf("%s: status %d", c.name, a.status)
		}
		checkRPC(t, c.name, a.body, c.want, c.id)
	}
	a := r.sendRequest(r.request("POST", "/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}`))
	checkRPC(t, "subscribe over HTTP", a.body, -32601, "1")
}

func TestBatchesAreCarriedOutInOrder(t *testing.T) {
	r := run(t, nil)
	a := r.sendRequest(r.request("POST", "/v1/rpc", `[
		{"jsonrpc":"2.0","id":1,"method":"create_session","params":{"sessionId":"s1"}},
		{"jsonrpc":"2.0","method":"create_session","params":{"sessionId":"s2"}},
		1,
		{"jsonrpc":"2.0","id":2,"method":"get_session","params":{"sessionId":"s1"}},
		{"jsonrpc":"2.0","id":3,"method":"get_session","params":{"sessionId":"s2"}}]`))
	var got []rpcAnswer
	a.decode(t, &got)
	if len(got) != 4 || got[0].Error != nil || got[1].Error.Code != -32600 || got[2].Error != nil || got[3].Error != nil {
		t.Errorf("got %s", a.body)
	}
	if a := r.sendRequest(r.request("POST", "/v1/rpc", `[{"jsonrpc":"2.0","method":"list_sessions"}]`)); a.status != 204 {
		t.Errorf("a batch of notifications: %d %s", a.status, a.body)
	}
}

func TestRPCRoles(t *testing.T) {
	r := run(t, nil)
	req := r.request("POST", "/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"create_session"}`)
	req.Header.Set("Authorization", "Bearer observer-token")
	checkRPC(t, "an observer", r.sendRequest(req).body, -32000, "1")
}

// dial opens a WebSocket.
func (r *running) dial(ctx context.Context, token string) *websocket.Conn {
	r.t.Helper()
	c, err := r.tryDial(ctx, token)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *running) tryDial(ctx context.Context, token string) (*websocket.Conn, error) {
	c, res, err := websocket.Dial(ctx, r.base+"/v1/ws", &websocket.DialOptions{
		HTTPClient: r.client, HTTPHeader: map[string][]string{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		return nil, err
	}
	if res.Body != nil {
		res.Body.Close()
	}
	c.SetReadLimit(64 << 20)
	return c, nil
}

// hangUp closes a connection that may be closed already.
func hangUp(c *websocket.Conn) { _ = c.CloseNow() }

func wsSendf(t *testing.T, c *websocket.Conn, format string, args ...any) {
	t.Helper()
	if err := c.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		t.Fatal(err)
	}
}

func wsRead(t *testing.T, c *websocket.Conn) []byte {
	t.Helper()
	_, data, err := c.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRPCOverWebSocket(t *testing.T) {
	r := run(t, nil)
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	for _, k := range rpcCases {
		wsSendf(t, c, "%s", k.in)
		if k.want != -1 {
			checkRPC(t, k.name, wsRead(t, c), k.want, k.id)
		}
	}
	wsSendf(t, c, `{"jsonrpc":"2.0","id":9,"method":"list_sessions"}`)
	checkRPC(t, "after all", wsRead(t, c), 0, "9")
}

func TestRPCOverStdio(t *testing.T) {
	s := server.New(newFake(), nil)
	var in strings.Builder
	for _, c := range rpcCases {
		in.WriteString("\n" + c.in + "\r\n")
	}
	var out bytes.Buffer
	if err := s.ServeStdio(context.Background(), strings.NewReader(in.String()), &out, server.LocalIdentity()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, c := range rpcCases {
		if c.want == -1 {
			continue
		}
		if len(lines) == 0 {
			t.Fatal("answers are missing")
		}
		checkRPC(t, c.name, []byte(lines[0]), c.want, c.id)
		lines = lines[1:]
	}
	if len(lines) > 0 {
		t.Errorf("too many answers: %s", lines)
	}
}

func TestSubscriptionsOverWebSocket(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.open("s2", "a")
	r.fake.open("theirs", "b")
	r.fake.deltas("s", 4)
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":3}}`)
	var a rpcAnswer
	if err := json.Unmarshal(wsRead(t, c), &a); err != nil || a.Error != nil || string(a.ID) != "1" {
		t.Fatalf("%+v %v", a, err)
	}
	var sub struct{ SubscriptionID, RecoveryMode string }
	if err := json.Unmarshal(a.Result, &sub); err != nil || sub.RecoveryMode != "replay" {
		t.Fatalf("%s %v", a.Result, err)
	}
	wantEvent := func(session string, seq uint64) {
		t.Helper()
		var a rpcAnswer
		var e struct {
			SessionID string
			Sequence  uint64
		}
		data := wsRead(t, c)
		if err := json.Unmarshal(data, &a); err != nil || a.Method != "event" || json.Unmarshal(a.Params, &e) != nil || e.SessionID != session || e.Sequence != seq {
			t.Fatalf("got %s, want event %d of %s", data, seq, session)
		}
	}
	wantEvent("s", 4)
	wantEvent("s", 5)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":2,"method":"subscribe","params":{"sessionId":"s2"}}`)
	checkRPC(t, "a second subscription", wsRead(t, c), 0, "2")
	wantEvent("s2", 1)
	r.fake.deltas("s", 1)
	wantEvent("s", 6)
	r.fake.deltas("s2", 1)
	wantEvent("s2", 2)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":3,"method":"unsubscribe","params":{"subscriptionId":%q}}`, sub.SubscriptionID)
	checkRPC(t, "unsubscribe", wsRead(t, c), 0, "3")
	r.fake.deltas("s", 1)
	r.fake.deltas("s2", 1)
	wantEvent("s2", 3)
	for i, bad := range []string{
		`"method":"subscribe","params":{"sessionId":"theirs"}`, `"method":"subscribe","params":{"sessionId":"../x"}`,
		`"method":"unsubscribe","params":{"subscriptionId":"none"}`,
	} {
		wsSendf(t, c, `{"jsonrpc":"2.0","id":%d,%s}`, 10+i, bad)
		checkRPC(t, bad, wsRead(t, c), -32000, fmt.Sprint(10+i))
	}
	for i, bad := range []string{
		`"method":"subscribe","params":{"sessionId":"s","after":-1}`, `"method":"subscribe","params":{"sessionId":"s","x":1}`,
		`"method":"subscribe","params":{"after":1}`, `"method":"subscribe","params":{"sessionId":"s","types":["nope"]}`,
		`"method":"subscribe","params":{"sessionId":"s","view":"x"}`, `"method":"unsubscribe"`,
	} {
		wsSendf(t, c, `{"jsonrpc":"2.0","id":%d,%s}`, 20+i, bad)
		checkRPC(t, bad, wsRead(t, c), -32602, fmt.Sprint(20+i))
	}
}

func TestABatchMaySubscribeAndUnsubscribe(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `[{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","snapshot":true}},{"jsonrpc":"2.0","id":2,"method":"unsubscribe","params":{"subscriptionId":"subscription_1"}}]`)
	var got []rpcAnswer
	if data := wsRead(t, c); json.Unmarshal(data, &got) != nil || len(got) != 2 || got[1].Error != nil {
		t.Fatalf("got %s", data)
	}
	r.fake.deltas("s", 3)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":3,"method":"list_sessions"}`)
	checkRPC(t, "no event comes", wsRead(t, c), 0, "3")
}

func TestRepairOverWebSocket(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.deltas("s", 9)
	r.fake.expire("s", 5)
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":1}}`)
	if data := string(wsRead(t, c)); !strings.Contains(data, `"recoveryMode":"snapshot_repair"`) || !strings.Contains(data, `"gapTo":4`) {
		t.Errorf("answer %s", data)
	}
	for _, want := range []string{`"method":"snapshot"`, `"method":"snapshot.repaired"`, `"sequence":5`} {
		if data := string(wsRead(t, c)); !strings.Contains(data, want) {
			t.Errorf("got %s, want %s", data, want)
		}
	}
}

func TestARevokedTokenEndsItsWebSocket(t *testing.T) {
	r := run(t, nil)
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	r.tokens.revoke("client-token")
	_, _, err := c.Read(context.Background())
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("got %v", err)
	}
}

func TestAWebSocketEndsWhenTheServerStops(t *testing.T) {
	r := run(t, nil)
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Read(context.Background())
		done <- err
	}()
	r.stop()
	if err := <-done; websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("got %v", err)
	}
}

func TestAWebSocketStaysOpenThroughHeartbeats(t *testing.T) {
	r := run(t, func(o *server.Options) { o.Heartbeat = 5 * time.Millisecond })
	r.fake.open("s", "a")
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":1}}`)
	checkRPC(t, "subscribe", wsRead(t, c), 0, "1")
	for i := range 20 {
		time.AfterFunc(10*time.Millisecond, func() { r.fake.deltas("s", 1) })
		if data := string(wsRead(t, c)); !strings.Contains(data, fmt.Sprintf(`"sequence":%d,`, i+2)) {
			t.Fatalf("got %s", data)
		}
	}
}

func TestBadWebSocketMessages(t *testing.T) {
	r := run(t, func(o *server.Options) { o.MaxBody = 1 << 10 })
	for _, c := range []struct {
		name string
		kind websocket.MessageType
		data string
		want websocket.StatusCode
	}{
		{"binary", websocket.MessageBinary, "{}", websocket.StatusUnsupportedData},
		{"too large", websocket.MessageText, strings.Repeat(" ", 2<<10), websocket.StatusMessageTooBig},
	} {
		conn := r.dial(context.Background(), "client-token")
		if err := conn.Write(context.Background(), c.kind, []byte(c.data)); err != nil {
			t.Fatal(err)
		}
		_, _, err := conn.Read(context.Background())
		if websocket.CloseStatus(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		hangUp(conn)
	}
}

func TestStdioDeliversWhatIsDurableBeforeItEnds(t *testing.T) {
	f := newFake()
	f.open("s", "")
	f.deltas("s", 999)
	in := `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"list_sessions"}`
	var out bytes.Buffer
	if err := server.New(f, nil).ServeStdio(context.Background(), strings.NewReader(in), &out, server.LocalIdentity()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `"method":"event"`); n != 1000 {
		t.Errorf("%d events", n)
	}
	if !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":1,`) {
		t.Errorf("the answer doesn't come first: %.200s", out.String())
	}
}

func TestStdioFollowsAndStops(t *testing.T) {
	f := newFake()
	f.open("s", "")
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.New(f, nil).ServeStdio(ctx, inR, outW, server.LocalIdentity()) }()
	go func() {
		_, _ = io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":1}}`+"\n")
	}()
	lines := bufio.NewScanner(outR)
	lines.Scan()
	checkRPC(t, "subscribe", lines.Bytes(), 0, "1")
	f.deltas("s", 1)
	lines.Scan()
	if !strings.Contains(lines.Text(), `"sequence":2`) {
		t.Errorf("got %s", lines.Text())
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestALineThatIsTooLongIsAnswered(t *testing.T) {
	in := strings.Repeat("x", 300<<10) + "\n" + `{"jsonrpc":"2.0","id":2,"method":"list_sessions"}` + "\n"
	var out bytes.Buffer
	s := server.New(newFake(), &server.Options{MaxBody: 100 << 10})
	if err := s.ServeStdio(context.Background(), strings.NewReader(in), &out, server.LocalIdentity()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %q", lines)
	}
	checkRPC(t, "too long", []byte(lines[0]), -32600, "null")
	checkRPC(t, "the next", []byte(lines[1]), 0, "2")
}
