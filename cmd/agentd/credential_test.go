package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/client"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

func TestCredentialsAreRead(t *testing.T) {
	dir := t.TempDir()
	secret := strings.Repeat("sesame", 4)
	a := &app{env: map[string]string{"GOOD": secret, "BLANK": "  ", "LINES": "a\nb"}}
	for ref, want := range map[string]error{
		"env:GOOD": nil, "env:NOWHERE": errNoVariable, "env:BLANK": errNoToken, "env:LINES": errNoToken,
		"file:" + writeFile(t, dir, "good", secret+"\n"): nil, "file:" + filepath.Join(dir, "nowhere"): errNoFile, "file:" + dir: errNoFile,
		"file:" + writeFile(t, dir, "empty", ""): errNoToken, "file:" + writeFile(t, dir, "long", strings.Repeat("x", maxCredential+1)): errNoFile,
	} {
		got, err := a.credential(ref)
		if err != want || (err == nil) != (got == secret) { //nolint:errorlint // it is told as it is
			t.Errorf("%s gives %d bytes, %v", ref, len(got), err)
		}
	}
}

// guardedMCP is an MCP server over HTTP that answers nobody without a token.
func guardedMCP(t *testing.T, token string) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "guarded", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		// It tells the token on: that must not get far.
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "forty-two for " + r.Extra.Header.Get("Authorization")}}}, nil
	})
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// TestQuestionsSurviveAKill: a plan and a request for a credential wait while the
// server is killed, and their answers count for the next one. The credential is
// nowhere in what is stored or logged, although the server that got it tells it on.
func TestQuestionsSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	token := strings.Repeat("sesame", 4)
	ref := "file:" + writeFile(t, dir, "token", token)
	script := writeFile(t, dir, "s.yaml", `answers:
  - {tools: [{name: present_plan, arguments: {plan: "Sign in and ask."}}]}
  - {tools: [{name: mcp__web__sign_in}]}
  - {tools: [{name: mcp__web__ask}]}
  - {text: done}
`)
	config := writeFile(t, dir, "c.yaml", fmt.Sprintf(`
permissions: {mode: plan}
providers: [{id: play, kind: script, script: %q, models: [{id: m}]}]
mcp: [{id: web, url: %q, credentials: [%q]}]
`, script, guardedMCP(t, token), ref))
	data := filepath.Join(dir, "data")
	logs := ""
	restart := func(p *process) *process {
		if p != nil {
			p.stop(syscall.SIGKILL)
			logs += p.remainingLog()
		}
		p = start(t, data, "--config", config)
		offersSignIn(p)
		return p
	}
	p := restart(nil)
	r, err := client.Call[command.SubmitTurnResult](t.Context(), p.client(), submitParams(t, "go"))
	if err != nil {
		t.Fatal(err)
	}
	plan := p.until(r.SessionID, event.TypeActionRequired, 1)
	p = restart(p)
	call[command.RespondActionResult](p, &command.RespondAction{ActionID: plan.ActionID, Decision: "allow", Payload: event.Raw(`{"permissionMode":"bypass"}`)})
	asked := p.until(r.SessionID, event.TypeActionRequired, 2)
	if q := asked.Payload.(*event.ActionRequired); q.ActionType != "credential" || q.CredentialRef != "mcp:web" {
		t.Fatalf("asked %+v", q)
	}
	inClear := &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: turntext.MarshalValue(token)}
	if _, err := client.Call[command.RespondActionResult](t.Context(), p.client(), inClear); fault.KindOf(err) != fault.InvalidParams || strings.Contains(err.Error(), token) {
		t.Errorf("the credential in clear: %v", err)
	}
	p = restart(p)
	out, errs, code := program(t, "approve", "--config", config, "--data", data, "--credential", ref, asked.ActionID)
	if code != 0 {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	p.until(r.SessionID, event.TypeTurnCompleted, 1)
	if res := p.until(r.SessionID, event.TypeToolResult, 3).Payload.(*event.ToolResult); !strings.Contains(res.Preview, "forty-two") {
		t.Errorf("%+v", res)
	}
	p.stop(syscall.SIGTERM)
	if logs += p.remainingLog(); strings.Contains(logs, token) {
		t.Error("the log holds the credential")
	}
	holdsNothingOf(t, data, token)
}

// offersSignIn waits until the server knows that the MCP server wants a credential.
func offersSignIn(p *process) {
	p.t.Helper()
	for p.t.Context().Err() == nil {
		for _, x := range call[command.GetToolInventoryResult](p, &command.GetToolInventory{}).Tools {
			if x.ToolName == "mcp__web__sign_in" {
				return
			}
		}
		time.Sleep(20 * time.Millisecond) // nothing tells when tools come
	}
}

// holdsNothingOf looks through all files of a directory.
func holdsNothingOf(t *testing.T, dir, secret string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s holds the credential", path)
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files: %v", files, err)
	}
}
