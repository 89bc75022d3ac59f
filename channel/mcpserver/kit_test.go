package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd"
	"agentd/channel/mcpserver"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/internal/adaptertest"
	"agentd/internal/gen"
	"agentd/internal/leaktest"
	"agentd/loop"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The revisions.
const (
	older = "2025-11-25"
	newer = "2026-07-28"
)

// answers is what the model says, by what it is asked.
func answers() []script.Answer {
	when := func(s string) *script.When { return &script.When{Contains: s} }
	on := func(words string, a script.Answer) script.Answer {
		a.When = when(words)
		return a
	}
	return []script.Answer{
		on("plan first", adaptertest.Plans()),
		{When: when("plan first"), Text: "It is carried out."},
		on("open the vault", adaptertest.Unlocks()),
		{When: when("open the vault"), Text: "It is open."},
		{When: when("say hello"), Text: "Hello to you."},
		{When: when("wait long"), Stall: time.Hour, Text: "late"},
		{When: when("break"), Error: &script.Error{Category: "invalid_request", Message: "no such thing"}},
		{When: when("write it"), Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "note.txt", "content": "noted"}}}},
		{When: when("write it"), Text: "It is written."},
		{When: when("ask me"), Ask: &script.Ask{Prompt: "Which colour?", Schema: map[string]any{
			"type": "object", "properties": map[string]any{"colour": map[string]any{"type": "string"}}, "required": []any{"colour"},
		}}},
		{When: when("ask me"), Text: "A fine colour."},
		{When: when("delegate"), Tools: []script.Tool{{Name: "spawn_agent", Arguments: map[string]any{"role": "writer", "input": "write it"}}}},
		{When: when("delegate"), Text: "It is delegated."},
		{When: when("ask freely"), Ask: &script.Ask{Prompt: "Say anything."}},
		{When: when("ask freely"), Text: "I see."},
	}
}

// kit is a server over the real runtime.
type kit struct {
	t     *testing.T
	store store.Store
	root  string
	// wiring is what the runtime was opened with last.
	wiring agentd.Options
	rt     *agentd.Runtime
	server *mcpserver.Server
	http   *httptest.Server
	url    string
	// options are changed before start.
	options mcpserver.Options
	// leave has the client go away while its turn is accepted, if it is set before start.
	leave func()
}

func newKit(t *testing.T) *kit {
	t.Helper()
	k := &kit{t: t, store: storetest.NewMem(), root: t.TempDir()}
	k.options = mcpserver.Options{Schema: gen.Schema, Version: "test", Identify: identify, IDs: event.NewIDs(nil, nil)}
	t.Cleanup(func() {
		k.stop()
		if k.wiring.Store != nil { // it was started
			replaytest.Recorded(t, k.wiring.Store)
		}
		if err := k.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// identify knows callers by their tokens.
func identify(r *http.Request) (mcpserver.Identity, bool) {
	user := func(role command.Role, account string) (mcpserver.Identity, bool) {
		return mcpserver.Identity{Role: role, Caller: command.Caller{
			Account: account, Admin: role == command.RoleAdmin, RequestID: "req_test", Actor: event.Actor{Kind: "user", ID: string(role) + account, Account: account},
		}}, true
	}
	switch strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") {
	case "admin":
		return user(command.RoleAdmin, "")
	case "ann":
		return user(command.RoleClient, "ann")
	case "bob":
		return user(command.RoleClient, "bob")
	case "eve":
		return user(command.RoleObserver, "ann")
	}
	return mcpserver.Identity{}, false
}

// start opens the runtime and serves it; after stop it does so again over the same
// facts.
func (k *kit) start() *kit {
	k.t.Helper()
	tools, err := tool.NewRegistry(append(tool.Builtins(nil), adaptertest.Locked())...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.wiring = agentd.Options{
		Store: k.store, Model: "script", Provider: script.New("script", &script.Script{Answers: answers()}),
		Loop: loop.Options{Workspace: k.root, Tools: tools},
	}
	if k.rt, err = agentd.Open(context.Background(), k.wiring); err != nil {
		k.t.Fatal(err)
	}
	k.options.Runtime = k.rt.Port()
	if k.leave != nil {
		k.options.Runtime = &adaptertest.Leaving{Runtime: k.rt.Port(), Leave: k.leave}
	}
	if k.server, err = mcpserver.New(k.options); err != nil {
		k.t.Fatal(err)
	}
	k.http = httptest.NewServer(k.server.Handler())
	k.url = k.http.URL
	return k
}

func (k *kit) stop() {
	if k.rt == nil {
		return
	}
	if err := k.server.Close(); err != nil {
		k.t.Error(err)
	}
	k.http.CloseClientConnections()
	k.http.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // only a defect takes that long
	defer cancel()
	if err := k.rt.Close(ctx); err != nil {
		k.t.Error(err)
	}
	k.rt = nil
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// client connects the SDK's client in a revision.
func (k *kit) client(token, version string, o *mcp.ClientOptions) *mcp.ClientSession {
	k.t.Helper()
	transport := &http.Transport{}
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, o)
	s, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: k.url, HTTPClient: &http.Client{Transport: bearer{token, transport}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		_ = s.Close() // the server may be gone already
		transport.CloseIdleConnections()
	})
	return s
}

// call calls a tool and returns its result with the structured content.
func (k *kit) call(s *mcp.ClientSession, name string, args any) (*mcp.CallToolResult, map[string]any) {
	k.t.Helper()
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		k.t.Fatalf("%s: %v", name, err)
	}
	content, _ := res.StructuredContent.(map[string]any)
	return res, content
}

// raw is an answer over HTTP.
type raw struct {
	Status int
	Header http.Header
	Body   string
	// Result and Error are those of the answer's message.
	Result map[string]any `json:"result"`
	Error  *struct {
		Code    int64          `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
}

// meta is what each request of the newer revision says of its client.
func meta(capabilities map[string]any) map[string]any {
	if capabilities == nil {
		capabilities = map[string]any{}
	}
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    newer,
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "tester", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": capabilities,
	}
}

// withTasks are the capabilities of a client that takes tasks and can be asked.
func withTasks() map[string]any {
	return map[string]any{"elicitation": map[string]any{}, "extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}
}

// newRequest makes a request of the newer revision.
func (k *kit) newRequest(ctx context.Context, token, method string, params, capabilities map[string]any) *http.Request {
	k.t.Helper()
	all := map[string]any{"_meta": meta(capabilities)}
	for name, value := range params {
		if name == "_meta" {
			maps.Copy(all["_meta"].(map[string]any), value.(map[string]any))
			continue
		}
		all[name] = value
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": method, "params": all})
	if err != nil {
		k.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.url, bytes.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", newer)
	r.Header.Set("Mcp-Method", method)
	for _, name := range []string{"name", "uri", "taskId"} {
		if value, ok := params[name].(string); ok {
			r.Header.Set("Mcp-Name", value)
		}
	}
	return r
}

// send sends a request of the newer revision and reads its answer.
func (k *kit) send(token, method string, params, capabilities map[string]any) *raw {
	k.t.Helper()
	return k.read(k.newRequest(context.Background(), token, method, params, capabilities))
}

func (k *kit) read(r *http.Request) *raw {
	k.t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	a := &raw{Status: res.StatusCode, Header: res.Header, Body: string(body)}
	last := body
	for line := range strings.SplitSeq(string(body), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			last = []byte(data)
		}
	}
	_ = json.Unmarshal(last, a) // what isn't JSON has neither a result nor an error
	return a
}

// task polls a task until it has a status or is over.
func (k *kit) task(token, id, until string) *raw {
	k.t.Helper()
	for {
		a := k.send(token, "tasks/get", map[string]any{"taskId": id}, withTasks())
		switch status := a.Result["status"]; {
		case status == until:
			return a
		case status != "working" && status != "input_required":
			k.t.Fatalf("the task is %v, not %s: %s", status, until, a.Body)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// events returns the facts of a session.
func (k *kit) events(sessionID string) []*event.Event {
	k.t.Helper()
	records, _, err := k.rt.Events(context.Background(), command.Local(), sessionID, 0, 1000)
	if err != nil {
		k.t.Fatal(err)
	}
	out := make([]*event.Event, len(records))
	for i, r := range records {
		if out[i], err = event.Decode(r.Data); err != nil {
			k.t.Fatal(err)
		}
	}
	return out
}

// until waits until a session has a fact of a type.
func (k *kit) until(sessionID string, want event.Type) *event.Event {
	k.t.Helper()
	sub, err := k.rt.Subscribe(context.Background(), command.Local(), sessionID, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		for _, r := range records {
			e, err := event.Decode(r.Data)
			if err != nil {
				k.t.Fatal(err)
			}
			if e.Type == want {
				return e
			}
		}
	}
}

// running waits until a session is there and its turn has asked the model.
func (k *kit) running(sessionID string) {
	k.t.Helper()
	for {
		_, _, err := k.rt.Events(k.t.Context(), command.Local(), sessionID, 0, 1)
		if err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	k.until(sessionID, event.TypeModelRequested)
}

// texts joins the texts of a result.
func texts(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}
