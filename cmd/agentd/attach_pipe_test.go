package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
)

// pipe is a client that speaks JSON-RPC over the pipes of a command.
type pipe struct {
	p   *person
	in  io.WriteCloser
	out *bufio.Reader
	end func() error
	ids int
	// heard are the notifications that came beside answers.
	heard []notice
}

// notice is a message of agentd that is no answer.
type notice struct {
	Method         string          `json:"method"`
	SubscriptionID string          `json:"subscriptionId"`
	Params         json.RawMessage `json:"params"`
	Cursor         string          `json:"cursor"`
}

// pipe starts a command that speaks JSON-RPC.
func (p *person) pipe(args ...string) *pipe {
	p.Helper()
	cmd := p.command(args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	e := &pipe{p: p, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	e.end = func() error {
		e.end = func() error { return nil }
		_, _ = io.Copy(io.Discard, e.out) // what nobody looked at
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%v: %w\n%s", args, err, errs.String())
		}
		return nil
	}
	p.Cleanup(func() {
		_ = in.Close()
		if err := e.end(); err != nil {
			p.Error(err)
		}
	})
	return e
}

// editor is an ACP client.
func (p *person) editor() *pipe {
	p.Helper()
	e := p.pipe("acp")
	e.call("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, nil)
	return e
}

// send writes a message without waiting for anything.
func (e *pipe) send(message map[string]any) {
	e.p.Helper()
	message["jsonrpc"] = "2.0"
	data, err := json.Marshal(message)
	if err != nil {
		e.p.Fatal(err)
	}
	if _, err := e.in.Write(append(data, '\n')); err != nil {
		e.p.Fatal(err)
	}
}

// call sends a request and waits for its answer.
func (e *pipe) call(method string, params, result any) {
	e.p.Helper()
	e.ids++
	e.send(map[string]any{"id": e.ids, "method": method, "params": params})
	for {
		line, err := e.out.ReadBytes('\n')
		if err != nil {
			e.p.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil || *m.ID != e.ids || m.Result == nil && m.Error == nil {
			e.hear(line)
			continue
		}
		if m.Error != nil {
			e.p.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				e.p.Fatal(err)
			}
		}
		return
	}
}

func (e *pipe) hear(line []byte) *notice {
	e.p.Helper()
	var n notice
	if err := json.Unmarshal(line, &n); err != nil {
		e.p.Fatalf("%v: %s", err, line)
	}
	e.heard = append(e.heard, n)
	return &n
}

// hearUntil reads notifications until one of a subscription has a type for the n-th time.
func (e *pipe) hearUntil(subscription, typ string, n int) {
	e.p.Helper()
	count := func(m *notice) bool {
		return m.SubscriptionID == subscription && strings.Contains(string(m.Params), `"type":"`+typ+`"`)
	}
	for i := range e.heard {
		if count(&e.heard[i]) {
			n--
		}
	}
	for n > 0 {
		line, err := e.out.ReadBytes('\n')
		if err != nil {
			e.p.Fatalf("before %s: %v", typ, err)
		}
		if count(e.hear(line)) {
			n--
		}
	}
}

func (p *person) killServer() {
	p.Helper()
	if err := syscall.Kill(p.serverNote().PID, syscall.SIGKILL); err != nil {
		p.Fatal(err)
	}
}

// A program that speaks JSON-RPC over pipes doesn't notice that the server behind it was
// killed or replaced: all is answered, carried out once, and every subscription goes on
// behind what it had.
func TestStdioGoesOnWithTheNextServer(t *testing.T) {
	p := newPerson(t)
	e := p.pipe("stdio")
	subscribe := func(params map[string]any) string {
		t.Helper()
		var res struct {
			SubscriptionID string `json:"subscriptionId"`
			Cursor         string `json:"cursor"`
		}
		e.call("subscribe", params, &res)
		if _, asked := params["feed"]; asked != (res.Cursor != "") {
			t.Errorf("subscribed with %v, and the cursor is %q", params, res.Cursor)
		}
		return res.SubscriptionID
	}
	all := subscribe(map[string]any{})
	feed := subscribe(map[string]any{"feed": true})
	gone := subscribe(map[string]any{"types": []string{"turn.completed"}})
	turn := func(text string) map[string]any {
		return map[string]any{"sessionId": "demo", "create": true, "input": text}
	}
	e.call("submit_turn", turn("one"), nil)
	session := subscribe(map[string]any{"sessionId": "demo"})
	items := subscribe(map[string]any{"sessionId": "demo", "view": "items"})
	turns := 1
	onward := func(interrupt func()) {
		t.Helper()
		e.hearUntil(session, "turn.completed", turns)
		interrupt()
		// A notification, which no answer says has arrived, and a request.
		e.send(map[string]any{"method": "submit_turn", "params": turn(fmt.Sprintf("turn %d", turns+1))})
		e.call("submit_turn", turn(fmt.Sprintf("turn %d", turns+2)), nil)
		turns += 2
		for _, id := range []string{all, feed, session} {
			e.hearUntil(id, "turn.completed", turns)
		}
	}
	onward(func() {})
	onward(p.killServer)
	e.call("unsubscribe", map[string]any{"subscriptionId": gone}, nil)
	onward(func() { p.output("daemon", "restart") })
	// Killed behind the client's last word, too.
	p.killServer()
	if err := e.in.Close(); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := e.out.ReadBytes('\n')
		if err != nil {
			break
		}
		e.hear(line)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
	if got := p.sessions(); len(got) != 1 || got[0].TurnCount != int64(turns) {
		t.Errorf("%d turns were submitted, and there are %+v", turns, got)
	}
	last, seen := map[string]uint64{}, map[string]bool{}
	for _, n := range e.heard {
		var event struct {
			SessionID string                  `json:"sessionId"`
			Sequence  uint64                  `json:"sequence"`
			Type      string                  `json:"type"`
			EventID   string                  `json:"eventId"`
			Payload   struct{ ItemID string } `json:"payload"`
		}
		if err := json.Unmarshal(n.Params, &event); err != nil || n.Method != "event" {
			t.Fatalf("%+v, %v", n, err)
		}
		if (n.Cursor != "") != (n.SubscriptionID == feed) {
			t.Errorf("%s has the cursor %q", n.SubscriptionID, n.Cursor)
		}
		key := n.SubscriptionID + " " + event.SessionID
		switch n.SubscriptionID {
		case items:
			if one := fmt.Sprintf("%d %s %s", event.Sequence, event.Type, event.Payload.ItemID); seen[one] || event.Sequence < last[key] {
				t.Errorf("%s comes twice", one)
			} else {
				seen[one] = true
			}
		case gone:
		default:
			if before, begun := last[key]; begun && event.Sequence != before+1 {
				t.Errorf("%s: %d follows %d", key, event.Sequence, before)
			}
		}
		last[key] = event.Sequence
	}
	if last[items+" demo"] == 0 || last[all+" demo"] != last[session+" demo"] && last[feed+" demo"] != last[session+" demo"] {
		t.Errorf("the subscriptions end at %v", last)
	}
}

// An MCP client and an editor go on with the next server as well.
func TestMCPAndACPGoOnWithTheNextServer(t *testing.T) {
	p := newPerson(t)
	e := p.pipe("mcp")
	e.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}}, nil)
	e.send(map[string]any{"method": "notifications/initialized"})
	run := func(text string) {
		t.Helper()
		var res struct {
			IsError bool            `json:"isError"`
			Content json.RawMessage `json:"content"`
		}
		e.call("tools/call", map[string]any{"name": "run_turn", "arguments": map[string]any{"input": text}}, &res)
		if res.IsError || !strings.Contains(string(res.Content), "You said: "+text) {
			t.Errorf("%s: %s", text, res.Content)
		}
	}
	run("one")
	editor := p.editor()
	var opened struct {
		SessionID string `json:"sessionId"`
	}
	editor.call("session/new", map[string]any{"cwd": p.project, "mcpServers": []any{}}, &opened)
	prompt := func(text string) {
		t.Helper()
		editor.heard = nil
		editor.call("session/prompt", map[string]any{"sessionId": opened.SessionID, "prompt": []any{map[string]any{"type": "text", "text": text}}}, nil)
		said := 0
		for _, n := range editor.heard {
			if strings.Contains(string(n.Params), "You said: "+text) {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%s is answered %d times: %v", text, said, editor.heard)
		}
	}
	prompt("two")
	p.killServer()
	run("three")
	prompt("four")
	p.output("daemon", "restart")
	prompt("five")
	run("six")
	turns := 0
	for _, s := range p.sessions() {
		turns += int(s.TurnCount)
	}
	if turns != 6 {
		t.Errorf("%d turns", turns)
	}
}

// What is sent to the user's own server may be sent again.
func TestWhatStdioSendsMayBeSentAgain(t *testing.T) {
	w := newRelay(io.Discard, nil)
	w.keyed = true
	for _, tt := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"list_sessions"}`, `{"jsonrpc":"2.0","id":1,"method":"list_sessions"}`},
		{`{"jsonrpc":"2.0","id":"x","method":"submit_turn","params":{"input":"a"}}`, `{"jsonrpc":"2.0","id":"x","method":"submit_turn","params":{"idempotencyKey":"stdio_*","input":"a"}}`},
		{`{"jsonrpc":"2.0","method":"submit_turn","params":{"idempotencyKey":"k","input":"a"}}`, `{"jsonrpc":"2.0","id":"agentd/stdio/1","method":"submit_turn","params":{"idempotencyKey":"k","input":"a"}}`},
		{`[{"jsonrpc":"2.0","method":"submit_turn"}]`, `[{"jsonrpc":"2.0","id":"agentd/stdio/2","method":"submit_turn","params":{"idempotencyKey":"stdio_*"}}]`},
		{`{"jsonrpc":"2.0","id":null,"method":"subscribe"}`, `{"jsonrpc":"2.0","id":null,"method":"subscribe","params":{"feed":true}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"a"}}`, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"a"}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"unsubscribe","params":{"subscriptionId":"subscription_9"}}`, `{"jsonrpc":"2.0","id":1,"method":"unsubscribe","params":{"subscriptionId":"subscription_9"}}`},
		// What the server refuses, it sees as it is.
		{`[]`, `[]`},
		{`nonsense`, `nonsense`},
		{`{}`, `{}`},
		{`[{"jsonrpc":"2.0","method":"submit_turn"},3]`, `[{"jsonrpc":"2.0","method":"submit_turn"},3]`},
	} {
		got := string(w.encode(w.read([]byte(tt.line))))
		before, after, starred := strings.Cut(tt.want, "*")
		if got != tt.want && (!starred || !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after)) {
			t.Errorf("%s is sent as\n%s, want\n%s", tt.line, got, tt.want)
		}
	}
}
