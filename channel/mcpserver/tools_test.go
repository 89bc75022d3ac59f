package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// listTools returns a client's tools by name.
func (k *kit) listTools(s *mcp.ClientSession) map[string]*mcp.Tool {
	k.t.Helper()
	tools := map[string]*mcp.Tool{}
	for t, err := range s.Tools(context.Background(), nil) {
		if err != nil {
			k.t.Fatal(err)
		}
		tools[t.Name] = t
	}
	return tools
}

// compile compiles a tool's schema.
func (k *kit) compile(name string, schema any) *jsonschema.Schema {
	k.t.Helper()
	data, err := json.Marshal(schema)
	if err != nil {
		k.t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		k.t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("tool:///"+name, doc); err != nil {
		k.t.Fatal(err)
	}
	s, err := c.Compile("tool:///" + name)
	if err != nil {
		k.t.Fatalf("%s: %v", name, err)
	}
	return s
}

func TestCommandsAreCarriedOutAndFaultsAreTheToolsErrors(t *testing.T) {
	k := newKit(t).start()
	for _, version := range []string{older, newer} {
		t.Run(version, func(t *testing.T) {
			s := k.client("ann", version, nil)
			tools := k.listTools(s)
			check := func(name string, args any, wantError string) map[string]any {
				t.Helper()
				res, content := k.call(s, name, args)
				if err := k.compile(name, tools[name].OutputSchema).Validate(content); err != nil {
					t.Errorf("%s: the content doesn't fit its schema: %v", name, err)
				}
				if got, _ := content["code"].(string); res.IsError != (wantError != "") || res.IsError && got != wantError {
					t.Errorf("%s(%v): error %v %q, want %q: %s", name, args, res.IsError, got, wantError, texts(res))
				}
				return content
			}
			id := fmt.Sprint(check("create_session", map[string]any{"title": "a b"}, "")["sessionId"])
			check("get_session", map[string]any{"sessionId": id}, "")
			if list := check("list_sessions", map[string]any{"query": id}, "")["sessions"].([]any); len(list) != 1 {
				t.Errorf("%d sessions", len(list))
			}
			check("get_session", map[string]any{"sessionId": "sess_none"}, "not_found")
			bad := check("get_session", map[string]any{"sessionId": "not an id"}, "invalid_params")
			if bad["param"] != "sessionId" || bad["requestId"] != "req_test" {
				t.Errorf("the problem is %v", bad)
			}
			check("get_session", map[string]any{"sessionId": id, "colour": "red"}, "invalid_params")
			check("set_policy", map[string]any{"sessionId": id, "mode": "nonsense"}, "invalid_params")
			check("run_turn", map[string]any{"input": "say hello", "onDisconnect": "explode"}, "invalid_params")
			check("run_turn", map[string]any{}, "invalid_params")
			check("wait_turn", map[string]any{"sessionId": id, "turnId": "turn_none"}, "not_found")
			check("wait_turn", map[string]any{"sessionId": id, "turnId": "turn_none", "more": 1}, "invalid_params")
			_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "no_such_tool"})
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("an unknown tool: %v", err)
			}
		})
	}
}

func TestWhatARoleMayNotCallIsUnknownOrForbidden(t *testing.T) {
	k := newKit(t).start()
	eve := k.client("eve", newer, nil)
	for _, name := range []string{"create_session", "run_turn"} {
		if _, err := eve.CallTool(t.Context(), &mcp.CallToolParams{Name: name}); err == nil {
			t.Errorf("an observer called %s", name)
		}
	}
	// The host's policy needs more than a session's: the parameters decide.
	res, content := k.call(k.client("ann", newer, nil), "set_policy", map[string]any{"mode": "plan"})
	if !res.IsError || content["code"] != "forbidden" {
		t.Errorf("a client set the host's policy: %s", texts(res))
	}
}

func TestAClientChoosesItsTools(t *testing.T) {
	k := newKit(t).start()
	k.url += "?tools=run_turn,list_*"
	s := k.client("ann", newer, nil)
	var names []string
	for name := range k.listTools(s) {
		names = append(names, name)
	}
	if !slices.Contains(names, "run_turn") || !slices.Contains(names, "list_sessions") || slices.Contains(names, "create_session") {
		t.Errorf("the tools are %v", names)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "create_session"}); err == nil {
		t.Error("a tool that wasn't chosen was called")
	}
	k.url = k.http.URL + "?tools=%5B"
	if a := k.send("ann", "tools/list", nil, nil); a.Status != http.StatusBadRequest {
		t.Errorf("a bad pattern: %d %s", a.Status, a.Body)
	}
}

func TestNobodyGetsInWithoutAToken(t *testing.T) {
	k := newKit(t).start()
	for _, token := range []string{"", "wrong"} {
		if a := k.send(token, "tools/list", nil, nil); a.Status != http.StatusUnauthorized {
			t.Errorf("the token %q: %d", token, a.Status)
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	k := newKit(t)
	k.options.MaxSessions = 1
	k.start()
	k.client("ann", older, nil)
	c := mcp.NewClient(&mcp.Implementation{Name: "second", Version: "1"}, nil)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	_, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: k.url, HTTPClient: &http.Client{Transport: bearer{"bob", transport}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: older})
	if err == nil {
		t.Error("a second session was opened")
	}
	if a := k.send("bob", "tools/list", nil, nil); a.Status != http.StatusOK {
		t.Errorf("the newer revision, which has no sessions: %d", a.Status)
	}
}

func TestOneUserCannotOpenAllSessions(t *testing.T) {
	k := newKit(t)
	k.options.MaxSessions, k.options.MaxSessionsPerUser = 10, 2
	k.start()
	open := func(token string) error {
		c := mcp.NewClient(&mcp.Implementation{Name: "another", Version: "1"}, nil)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: k.url, HTTPClient: &http.Client{Transport: bearer{token, transport}}, MaxRetries: -1,
		}, &mcp.ClientSessionOptions{ProtocolVersion: older})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	first := k.client("ann", older, nil)
	k.client("ann", older, nil)
	if err := open("ann"); err == nil {
		t.Error("a third session of ann was opened")
	}
	if err := open("bob"); err != nil {
		t.Errorf("a session of bob: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open("ann"); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
}

// An older client's session belongs to whoever opened it. For others it isn't there, as one
// that nobody has.
func TestASessionIsItsUsers(t *testing.T) {
	k := newKit(t).start()
	post := func(token, session, body string) (status int, opened, says string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("Mcp-Protocol-Version", older)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header.Get("Mcp-Session-Id"), string(text)
	}
	_, session, _ := post("ann", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+older+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if session == "" {
		t.Fatal("no session")
	}
	post("ann", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	status, _, unknown := post("bob", "other", list)
	if foreign, _, says := post("bob", session, list); status != http.StatusNotFound || foreign != status || says != unknown {
		t.Errorf("bob uses ann's session: %d %q; one that nobody has: %d %q", foreign, says, status, unknown)
	}
	if status, _, _ := post("ann", session, list); status != http.StatusOK {
		t.Errorf("ann's session: %d", status)
	}
}
