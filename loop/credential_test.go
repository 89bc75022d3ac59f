package loop_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/store"
	"agentd/tool"
	"agentd/tool/mcp"
)

// signed is an MCP server that answers nobody without a token.
type signed struct {
	*httptest.Server
	token string
	// vault is what references lead to.
	mu    sync.Mutex
	vault map[string]string
}

func newSigned(t *testing.T) *signed {
	t.Helper()
	s := &signed{token: strings.Repeat("sesame", 4)}
	s.vault = map[string]string{"env:RIGHT": s.token, "env:WRONG": strings.Repeat("wrong", 4)}
	server := sdk.NewServer(&sdk.Implementation{Name: "signed", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "forty-two"}}}, nil
	})
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+s.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *signed) read(ref string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.vault[ref]; ok {
		return v, nil
	}
	return "", errors.New("it isn't set")
}

// connectServer connects the runtime to the server, each time that it is opened anew.
func (s *signed) connectServer(t *testing.T) func(*agentd.Options) {
	return func(o *agentd.Options) {
		r, err := tool.NewRegistry(tool.Builtins(nil)...)
		if err != nil {
			t.Fatal(err)
		}
		o.Loop.Tools = r
		var mu sync.Mutex
		var client *mcp.Client
		offered := make(chan struct{})
		var once sync.Once
		update := func() {
			mu.Lock()
			defer mu.Unlock()
			if client == nil {
				return
			}
			if err := r.Replace("mcp", client.Tools()); err != nil {
				t.Error(err)
			}
			if len(client.Tools()) > 0 {
				once.Do(func() { close(offered) })
			}
		}
		mu.Lock()
		client = mcp.Open(context.Background(), []mcp.Server{{ID: "signed", URL: s.URL, Credentials: []string{"env:RIGHT", "env:WRONG"}}}, mcp.Options{OnChange: update, Credential: s.read})
		mu.Unlock()
		update()
		t.Cleanup(client.Close)
		<-offered
	}
}

const (
	signIn = "mcp__signed__sign_in"
	askIt  = "mcp__signed__ask"
)

// credential answers with a reference.
func credential(k *runtimetest.Kit, actionID, ref string) {
	k.Helper()
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: actionID, Decision: "submit", Payload: runtimetest.Quoted(ref)})
}

// TestCredentialIsGivenByReference: a server that answers 401 leads to a question,
// the answer is a reference, and the token itself is in no fact and in no output.
func TestCredentialIsGivenByReference(t *testing.T) {
	s := newSigned(t)
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.AllOf(s.connectServer(t), runtimetest.ListenedBy(&heard), runtimetest.InMode("bypass")), runtimetest.CallsTool(signIn, nil), runtimetest.CallsTool(askIt, nil), runtimetest.Says("done"), runtimetest.CallsTool(askIt, nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	id, p := k.WaitForAction("sess_a", 1)
	if p.ActionType != "credential" || p.CredentialRef != "mcp:signed" || !slices.Equal(p.Decisions, []string{"submit", "cancel"}) || p.ToolName != signIn ||
		!strings.Contains(string(p.Schema), "env:RIGHT") || !strings.Contains(p.Reason, "Unauthorized") {
		t.Errorf("asked %+v", p)
	}
	if th := k.Thread(r); th.Phase != "waiting_resource" {
		t.Errorf("meanwhile the thread is %s, %s", th.Status, th.Phase)
	}
	for _, bad := range []string{s.token, "env:OTHER", "file:/etc/hostname", ""} {
		told := runtimetest.Refused(k, &command.RespondAction{ActionID: id, Decision: "submit", Payload: runtimetest.Quoted(bad)}, fault.InvalidParams)
		if !strings.Contains(told, "never send the credential") || bad != "" && strings.Contains(told, bad) {
			t.Errorf("%d bytes in clear: %s", len(bad), told)
		}
	}
	runtimetest.Refused(k, &command.RespondAction{ActionID: id, Decision: "submit", Payload: event.Raw(`{"token":"x"}`)}, fault.InvalidParams)
	runtimetest.Refused(k, &command.RespondAction{ActionID: id, Decision: "cancel", Payload: runtimetest.Quoted(s.token)}, fault.InvalidParams)
	runtimetest.Refused(k, &command.RespondAction{ActionID: id, Decision: "allow"}, fault.InvalidParams)
	credential(k, id, "env:WRONG")
	second, _ := k.WaitForAction("sess_a", 2) // the server doesn't take that one
	credential(k, second, "env:RIGHT")
	k.Completes(r)
	results := runtimetest.Payloads[*event.ToolResult](k, "sess_a")
	if len(results) != 2 || results[1].Preview != "forty-two" {
		t.Errorf("%+v", results)
	}
	if tools := namesOf(heard.Heard()[1].Tools); !slices.Contains(tools, askIt) || slices.Contains(tools, signIn) {
		t.Errorf("once it is signed in to the model is offered %v", tools)
	}
	k.Completes(k.Submit("sess_a", "again"))
	if n := k.CountFacts("sess_a", event.TypeActionRequired); n != 2 {
		t.Errorf("%d questions", n)
	}
	holdsNothingOf(k, s.token)
}

// holdsNothingOf looks through all that is stored.
func holdsNothingOf(k *runtimetest.Kit, secret string) {
	k.Helper()
	for _, id := range []string{"sess_a", event.RuntimeSession} {
		for rec, err := range k.Store.Read(context.Background(), id, store.Range{}) {
			if err != nil {
				k.Fatal(err)
			}
			if bytes.Contains(rec.Data, []byte(secret)) {
				k.Errorf("a fact holds the token: %s", rec.Data)
			}
		}
	}
	for _, kind := range []string{"action", "snapshot", "idem"} {
		for entry, err := range k.Store.Scan(context.Background(), store.Scan{Kind: kind}) {
			if err != nil {
				k.Fatal(err)
			}
			if bytes.Contains(entry.Value, []byte(secret)) {
				k.Errorf("%s %s holds the token", kind, entry.Key)
			}
		}
	}
}

// TestCredentialWaitsOverARestart: the question survives, and the answer is
// remembered in the session when the runtime comes up again.
func TestCredentialWaitsOverARestart(t *testing.T) {
	s := newSigned(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(s.connectServer(t), runtimetest.InMode("bypass")), runtimetest.CallsTool(signIn, nil), runtimetest.CallsTool(askIt, nil), runtimetest.Says("done"), runtimetest.CallsTool(signIn, nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	k.Close()
	k.Open()
	credential(k, id, "env:RIGHT")
	k.Completes(r)
	if results := runtimetest.Payloads[*event.ToolResult](k, "sess_a"); len(results) != 2 || results[1].Preview != "forty-two" {
		t.Errorf("%+v", results)
	}
	k.Close()
	k.Open() // nobody is signed in any more
	k.Completes(k.Submit("sess_a", "again"))
	if n := k.CountFacts("sess_a", event.TypeActionRequired); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestNoCredential: who gives none, or can't be asked, ends the call and nothing else.
func TestNoCredential(t *testing.T) {
	s := newSigned(t)
	ended := func(k *runtimetest.Kit) *event.ToolFailed {
		failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
		if len(failed) != 1 || failed[0].ErrorCategory != "unavailable" {
			t.Fatalf("%+v", failed)
		}
		return failed[0]
	}
	kitOf := func(change func(*agentd.Options)) *runtimetest.Kit {
		k := runtimetest.NewWith(t, runtimetest.AllOf(s.connectServer(t), change), runtimetest.CallsTool(signIn, nil), runtimetest.Says("done"))
		return k
	}
	k := kitOf(runtimetest.InMode("bypass"))
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.RespondActionResult](k, &command.RespondAction{ActionID: id, Decision: "cancel", Reason: "not today"})
	k.Completes(r)
	if p := ended(k); p.Message != "no credential was given for mcp:signed: not today" {
		t.Errorf("%+v", p)
	}
	for name, tc := range map[string]struct {
		change func(*agentd.Options)
		says   string
	}{
		"never":  {runtimetest.InMode("never"), "mode never can't ask"},
		"nobody": {func(o *agentd.Options) { o.Loop.NobodyToAsk, o.Loop.Host.Mode = true, "bypass" }, "no one can be asked"},
		"late":   {func(o *agentd.Options) { o.Loop.ActionTimeout, o.Loop.Host.Mode = time.Millisecond, "bypass" }, "no credential was chosen"},
	} {
		k := kitOf(tc.change)
		k.Completes(k.Submit("sess_a", "go"))
		if p := ended(k); !strings.Contains(p.Message, tc.says) {
			t.Errorf("%s: %+v", name, p)
		}
		if n := k.CountFacts("sess_a", event.TypeActionRequired); (n == 1) != (name == "late") {
			t.Errorf("%s: %d questions", name, n)
		}
	}
}

// TestDeniedWhileItWaited: who names a credential doesn't allow the call.
func TestDeniedWhileItWaited(t *testing.T) {
	s := newSigned(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(s.connectServer(t), runtimetest.InMode("bypass")), runtimetest.CallsTool(signIn, nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	id, _ := k.WaitForAction("sess_a", 1)
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Rules: []event.PolicyRule{{RuleID: "no", Decision: "deny", Tool: "mcp__*"}}})
	credential(k, id, "env:RIGHT")
	k.Completes(r)
	if p := runtimetest.Payloads[*event.ToolFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "denied" {
		t.Errorf("%+v", p)
	}
}
