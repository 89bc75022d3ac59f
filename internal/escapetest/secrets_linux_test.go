package escapetest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverVariable makes the test binary an MCP server: its value is what its tool
// says.
const serverVariable = "AGENTD_ESCAPE_SERVER"

// serveTools is an MCP server with one tool, until its input ends.
func serveTools() int {
	s := sdk.NewServer(&sdk.Implementation{Name: "planted", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "tell", Description: "tells", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		text := os.Getenv(serverVariable)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: map[string]any{"told": text}}, nil
	})
	s.AddTool(&sdk.Tool{Name: "run", Description: "runs", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var args struct{ Line string }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return nil, err
		}
		code, said := runLine(args.Line)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("exit %d: %s", code, said)}}}, nil
	})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 0
}

// secrets are what is planted, by where. Those of a known shape are made of pieces,
// so that nobody who searches this repository for secrets finds some.
type secrets map[string]string

func newSecrets() secrets {
	return secrets{
		"provider key":   "prov" + "-q8Zr2Lw0Xb7Tn5Kd",
		"admin token":    "adm" + "-m4Vy9Hs1Jc6Rf3Ge",
		"github":         "gh" + "p_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5",
		"aws":            "AK" + "IA" + "Q3T7M2X9B5N8L4K6",
		"anthropic":      "sk-" + "ant-api03-" + "Zk4mW8qL2xV6bN0cT5yR9hJ3fD7gS1aPZk4mW8qL2xV6bN0cT5yR9hJ3fD7gS1aPZk4mW8qL2xV6bN0cT5yR9hJA-ab12cdAA",
		"slack":          "xo" + "xb-" + "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
		"other variable": "n0-kn0wn-shape-but-only-in-the-environment",
	}
}

// carry is a text that brings secrets in, with a word of its own that
// is no secret. That the word is found shows that the search would find the secret.
func (s secrets) carry(word string, names ...string) string {
	text := word
	for _, n := range names {
		text += " " + s[n]
	}
	return text
}

// forms are a secret as it is and as it may be written.
func forms(secret string) []string {
	all := []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	// In base64 a text looks different by where it begins; its first and last
	// characters depend on the neighbours.
	for shift := range 3 {
		b64 := base64.StdEncoding.EncodeToString([]byte("xxx"[:shift] + secret))
		all = append(all, b64[4:len(b64)/4*4-4])
	}
	return all
}

// TestSecretsAreNowhere plants secrets at every way in of a real server and looks
// for them at every way out, and in every file that it wrote.
func TestSecretsAreNowhere(t *testing.T) {
	s := newSecrets()
	srv := startServer(t, s)
	srv.ready()
	srv.commands()
	var sess string
	for _, turn := range srv.turns() {
		sess = srv.turn(sess, turn)
	}
	srv.collect(sess)
	srv.doors(sess)
	srv.lines(sess, srv.trial())
	srv.sent("word-trial")
	srv.image()
	srv.stop()
	srv.readFiles()
	srv.readRaw()
	for place, content := range srv.found {
		for _, part := range expand(content, 3) {
			s.search(t, place, part)
		}
	}
	srv.controls()
	srv.moreControls()
	srv.replay()
}

// search reports each secret that is in a content, in whatever form.
func (s secrets) search(t *testing.T, place string, content []byte) {
	t.Helper()
	for name, secret := range s {
		for _, form := range forms(secret) {
			if i := bytes.Index(content, []byte(form)); i >= 0 {
				t.Errorf("the %s is in %s: …%s[here]", name, place, before(content, i))
			}
		}
	}
}

// TestTheSearchFindsWhatIsPacked: a secret is found in each form and packing in which
// the test above looks for it.
func TestTheSearchFindsWhatIsPacked(t *testing.T) {
	secret := newSecrets()["github"]
	inner, err := json.Marshal(map[string]string{"a": `{"b":"` + secret[:3] + `\u00` + hex.EncodeToString([]byte(secret[3:4])) + secret[4:] + `"}`})
	if err != nil {
		t.Fatal(err)
	}
	packed := map[string][]byte{
		"as it is":         []byte("a " + secret + " b"),
		"gzip":             gzipped(t, []byte("a "+secret)),
		"gzip in base64":   []byte("x " + base64.StdEncoding.EncodeToString(gzipped(t, []byte(secret))) + " y"),
		"JSON in JSON":     inner,
		"base64":           []byte(base64.StdEncoding.EncodeToString([]byte("12" + secret + "345"))),
		"base64, inside":   []byte(base64.StdEncoding.EncodeToString([]byte("1" + secret + "345"))),
		"base64 of an URL": []byte(base64.RawURLEncoding.EncodeToString([]byte("?>" + secret))),
		"hexadecimal":      []byte(strings.ToUpper(hex.EncodeToString([]byte(secret)))),
	}
	for name, content := range packed {
		found := false
		for _, part := range expand(content, 3) {
			for _, form := range forms(secret) {
				found = found || bytes.Contains(part, []byte(form))
			}
		}
		if !found {
			t.Errorf("not found: %s", name)
		}
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// before is what stands before a place, without what stands there.
func before(b []byte, i int) string { return strings.ToValidUTF8(string(b[max(0, i-120):i]), "?") }

// agentServer is a running "agentd serve" with secrets all around it.
type agentServer struct {
	*testing.T
	s    secrets
	dir  string
	data string
	cmd  *exec.Cmd
	url  string

	logs   bytes.Buffer
	logged sync.WaitGroup
	vendor *httptest.Server
	// collector takes the telemetry.
	collector *httptest.Server
	asked     struct {
		sync.Mutex
		bodies, telemetry bytes.Buffer
	}
	// found is everything that came out, by place.
	found map[string][]byte
}

func startServer(t *testing.T, s secrets) *agentServer {
	t.Helper()
	dir := room(t)
	a := &agentServer{T: t, s: s, dir: dir, data: dir + "/data", found: map[string][]byte{}}
	a.serveVendor()
	a.serveCollector()
	a.files()
	a.start("PROVIDER_KEY="+s["provider key"], "OTHER_VARIABLE="+s["other variable"],
		"LISTED="+s.carry("word-listed", "github"), serverVariable+"="+s.carry("word-mcp", "slack", "provider key"))
	return a
}

// start builds and starts the server, with more in its environment.
func (a *agentServer) start(env ...string) {
	a.Helper()
	bin := a.dir + "/agentd"
	if _, err := os.Stat(bin); err != nil {
		a.build(bin)
	}
	a.cmd = exec.Command(bin, "serve", "--config", a.dir+"/agentd.yaml")
	a.cmd.Dir = a.dir
	a.cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+a.dir+"/state", "AGENTD_TOKEN="+a.s["admin token"]), env...)
	if filled, err := os.ReadDir(a.data); err == nil && len(filled) > 0 { // by the test, and not by agentd
		accept := exec.Command(bin, "data", "accept", "--yes", a.data)
		accept.Env = a.cmd.Env
		if out, err := accept.CombinedOutput(); err != nil {
			a.Fatalf("agentd data accept: %v\n%s", err, out)
		}
	}
	out, err := a.cmd.StdoutPipe()
	a.must(err)
	errs, err := a.cmd.StderrPipe()
	a.must(err)
	a.must(a.cmd.Start())
	a.Cleanup(func() { _ = a.cmd.Process.Kill() })
	a.logged.Go(func() { _, _ = io.Copy(&a.logs, errs) })
	line, err := bufio.NewReader(out).ReadString('\n')
	a.must(err)
	if a.url = regexp.MustCompile(`http://\S+`).FindString(line); a.url == "" {
		a.Fatalf("no address in %q", line)
	}
}

func (a *agentServer) build(bin string) {
	a.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		a.Skipf("skipped: a real server; it can't be built here: %v", err)
	}
	if out, err := exec.Command("go", "build", "-o", bin, "agentd/cmd/agentd").CombinedOutput(); err != nil {
		a.Fatalf("build: %v\n%s", err, out)
	}
}

func (a *agentServer) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// serveVendor is a model's vendor that repeats the key in its error.
func (a *agentServer) serveVendor() {
	a.vendor = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.asked.Lock()
		a.asked.bodies.Write(body)
		a.asked.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"word-vendor: incorrect key %s provided","type":"invalid_request_error","code":"invalid_api_key"}}`,
			strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	a.Cleanup(a.vendor.Close)
}

// files writes the configuration, the script, a hook and a file of the workspace.
func (a *agentServer) files() {
	a.Helper()
	s := a.s
	self, err := os.Executable()
	a.must(err)
	ws := a.dir + "/ws"
	a.must(os.MkdirAll(ws, 0o755))
	write := func(path, content string, mode fs.FileMode) {
		a.must(os.WriteFile(path, []byte(content), mode))
	}
	write(ws+"/settings.env", "word-file\nGITHUB_TOKEN="+s["github"]+"\nAWS_ACCESS_KEY_ID="+s["aws"]+"\nKEY="+s["provider key"]+"\n", 0o644)
	write(ws+"/large.txt", strings.Repeat("word-large "+s["anthropic"]+"\n", 400), 0o644)
	answer, err := json.Marshal(map[string]any{"decision": "continue", "reason": s.carry("word-hook", "github", "provider key"), "additionalContext": s.carry("word-context", "slack")})
	a.must(err)
	write(ws+"/hook.sh", "#!/bin/sh\ncat > /dev/null\ncat <<'EOF'\n"+string(answer)+"\nEOF\n", 0o755)
	play, err := json.Marshal(map[string]any{"answers": a.answers()})
	a.must(err)
	write(a.dir+"/script.yaml", string(play), 0o644)
	config, err := json.Marshal(map[string]any{
		"listen": "127.0.0.1:0", "data": a.data, "log": map[string]any{"level": "debug"}, "workspace": map[string]any{"root": ws},
		"providers": []any{
			map[string]any{"id": "script", "kind": "script", "script": a.dir + "/script.yaml"},
			map[string]any{"id": "vendor", "kind": "openai", "baseURL": a.vendor.URL + "/v1", "apiKeyEnv": "PROVIDER_KEY", "models": []any{map[string]any{"id": "large", "capabilities": []string{"tools"}}}},
		},
		"permissions": map[string]any{"mode": "bypass"},
		"sandbox":     map[string]any{"env": []string{"LISTED"}},
		"telemetry":   map[string]any{"otlpEndpoint": a.collector.URL, "content": true, "metricsInterval": "1s"},
		"hooks": []any{
			map[string]any{"point": "user_prompt_submit", "command": []string{ws + "/hook.sh"}},
			map[string]any{"point": "post_tool_use", "command": []string{ws + "/hook.sh"}},
		},
		"mcp": []any{map[string]any{
			"id": "planted", "command": []string{self}, "env": []string{serverVariable, plantedVariable},
			"sandbox": map[string]any{"mode": "danger_full_access"}, // its program is below /tmp
		}},
	})
	a.must(err)
	write(a.dir+"/agentd.yaml", string(config), 0o644)
}

// userTurn is what a user says, and to whom.
type userTurn struct{ text, model string }

func (a *agentServer) turns() []userTurn {
	return []userTurn{
		{text: "please use the tools; " + a.s.carry("word-input", "github", "provider key", "admin token")},
		{text: strings.Repeat("a long input ", 1000) + a.s.carry("word-longinput", "anthropic", "provider key")},
		{text: "ask the vendor: " + a.s.carry("word-asked", "aws"), model: "vendor/large"},
	}
}

// answers are what the model wants: every way in which a tool can tell a secret,
// and the model itself.
func (a *agentServer) answers() []any {
	s := a.s
	call := func(name string, args map[string]any) any { return map[string]any{"name": name, "arguments": args} }
	half := len(s["github"]) / 2
	return []any{
		map[string]any{"text": "I look. " + s.carry("word-model", "github", "provider key"), "reasoning": s.carry("word-thought", "slack"), "chunks": 40, "tools": []any{
			call("read_file", map[string]any{"path": "settings.env"}),
			call("read_file", map[string]any{"path": "large.txt"}),
			call("search_files", map[string]any{"pattern": "word-file|TOKEN|KEY"}),
			call("shell", map[string]any{"command": "cat settings.env large.txt; env; printf 'word-joined %s%s\\n' " + s["github"][:half] + " " + s["github"][half:]}),
			call("shell", map[string]any{"command": "echo word-base64 $(grep ^KEY settings.env | cut -d= -f2 | tr -d '\\n' | base64)"}),
			call("shell", map[string]any{"command": "for i in 1 2 3 4 5 6 7 8 9; do printf 'word-slow '; grep TOKEN settings.env; sleep 0.01; done; cat /nonexistent; exit 3"}),
			call("shell", map[string]any{"command": "cat /proc/1/environ /proc/$PPID/environ | tr '\\0' '\\n'"}),
			call("shell", map[string]any{"command": "echo " + s.carry("word-command", "aws") + " > /outside-" + s["provider key"]}),
			call("write_file", map[string]any{"path": "settings.env", "content": "word-written " + s["github"]}),
			call("edit_file", map[string]any{"path": "settings.env", "old": "word-written " + s["github"], "new": s.carry("word-edited", "slack")}),
			call("read_file", map[string]any{"path": s.carry("word-path", "github")}),
			call("mcp__planted__tell", map[string]any{"about": s.carry("word-argument", "slack")}),
			call("mcp__planted__tell", map[string]any{}),
			// The earlier content, with its secrets, is kept for undo.
			call("write_file", map[string]any{"path": "settings.env", "content": "word-clean"}),
			call("no_such_tool", map[string]any{"about": s.carry("word-unknown", "aws")}),
		}},
		map[string]any{"text": "Done. " + s.carry("word-end", "anthropic")},
		map[string]any{"ask": map[string]any{"prompt": s.carry("word-question", "aws")}},
		map[string]any{"text": "Done again. " + s.carry("word-again", "anthropic")},
	}
}

// sendRequest sends a request and keeps what comes back.
func (a *agentServer) sendRequest(place, method, path string, body any) []byte {
	a.Helper()
	b, err := json.Marshal(body)
	a.must(err)
	req, err := http.NewRequest(method, a.url+path, bytes.NewReader(b))
	a.must(err)
	req.Header.Set("Authorization", "Bearer "+a.s["admin token"])
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("A2a-Version", "1.0")
	res, err := http.DefaultClient.Do(req)
	a.must(err)
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	a.must(err)
	a.found[place] = append(a.found[place], out...)
	return out
}

func (a *agentServer) command(name string, params map[string]any) map[string]any {
	a.Helper()
	out := a.sendRequest("results of commands", http.MethodPost, "/v1/commands/"+name, params)
	var m map[string]any
	if err := json.Unmarshal(out, &m); err != nil {
		a.Fatalf("%s: %v: %.300s", name, err, out)
	}
	if r, ok := m["result"].(map[string]any); ok {
		return r
	}
	return m
}

// ready waits until the MCP server's tool is offered.
func (a *agentServer) ready() {
	a.Helper()
	deadline := time.Now().Add(5 * time.Minute) // so that a broken test ends
	for time.Now().Before(deadline) {
		out := a.sendRequest("results of commands", http.MethodPost, "/v1/commands/get_tool_inventory", map[string]any{})
		if bytes.Contains(out, []byte("mcp__planted__tell")) {
			return
		}
		time.Sleep(20 * time.Millisecond) // nothing tells of it but the inventory
	}
	a.Fatal("the tool of the MCP server is never offered")
}

// commands are those that take words of a caller's into facts.
func (a *agentServer) commands() {
	a.Helper()
	id, _ := a.command("create_session", map[string]any{
		"title": a.s.carry("word-title", "github"), "metadata": map[string]any{"note": a.s.carry("word-noted", "slack")},
	})["sessionId"].(string)
	a.command("set_policy", map[string]any{"sessionId": id, "mode": "bypass", "rules": []any{
		map[string]any{"decision": "deny", "tool": "nothing", "reason": a.s.carry("word-rule", "github")},
	}})
	a.command("submit_turn", map[string]any{"sessionId": id, "input": "x", "options": map[string]any{"model": "vendor/large"}})
	a.command("interrupt_turn", map[string]any{"sessionId": id, "reason": a.s.carry("word-interrupt", "aws")})
	a.command("get_session", map[string]any{"sessionId": id})
	a.command("get_policy", map[string]any{"sessionId": id})
}

// turn submits a turn and follows the stream to the end of its task; a question is
// answered with a secret.
func (a *agentServer) turn(sessionID string, u userTurn) string {
	a.Helper()
	params := map[string]any{"input": u.text}
	if sessionID != "" {
		params["sessionId"] = sessionID
	} else {
		params["metadata"] = map[string]any{"note": a.s.carry("word-metadata", "github")}
	}
	if u.model != "" {
		params["options"] = map[string]any{"model": u.model}
	}
	res := a.command("submit_turn", params)
	id, _ := res["sessionId"].(string)
	turn, _ := res["turnId"].(string)
	if id == "" || turn == "" {
		a.Fatalf("submit_turn: %v", res)
	}
	a.followTo(id, func(e streamed) bool {
		if e.TurnID != turn {
			return false
		}
		if e.Type == "action.required" {
			a.command("respond_action", map[string]any{"actionId": e.ActionID, "decision": "submit", "payload": a.s.carry("word-answer", "github"), "reason": a.s.carry("word-reason", "slack")})
		}
		return e.Type == "task.completed" || e.Type == "task.failed"
	})
	return id
}

// streamed is what the test reads of a fact.
type streamed struct{ Type, TurnID, ActionID string }

// followTo keeps the stream of a session up to a fact.
func (a *agentServer) followTo(id string, end func(streamed) bool) {
	a.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/v1/sessions/"+id+"/events?after=0", nil)
	a.must(err)
	req.Header.Set("Authorization", "Bearer "+a.s["admin token"])
	req.Header.Set("Accept", "text/event-stream")
	stream, err := http.DefaultClient.Do(req)
	a.must(err)
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	for {
		line, err := lines.ReadBytes('\n')
		a.must(err)
		a.found["the stream"] = append(a.found["the stream"], line...)
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e streamed
		if json.Unmarshal(data, &e) == nil && end(e) {
			return
		}
	}
}
