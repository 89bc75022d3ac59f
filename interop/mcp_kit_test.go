package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// mcpScript is what the model says in these tests.
const mcpScript = `answers:
  - when: {contains: take your time}
    text: It took a while.
    delay: 30ms
  - when: {contains: write it}
    tools:
      - {name: write_file, arguments: {path: note.txt, content: noted}}
  - when: {contains: write it}
    text: It is written.
  - when: {contains: wait long}
    stall: 1h
    text: late
`

const mcpConfig = `data: data
workspace: {root: work}
providers:
  - id: script
    kind: script
    script: script.yaml
    models: [{id: script}]
routing: {default: script/script}
`

// mcpFolder makes a folder with a configuration.
func mcpFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"script.yaml": mcpScript, "config.yaml": mcpConfig} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mcpServer is a running program.
type mcpServer struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended bool
	url   string
	token string
}

// mcpServe runs "agentd serve" in a folder until the test ends or it is killed.
func (k *protoKit) mcpServe(t *testing.T, dir string, args ...string) *mcpServer {
	t.Helper()
	s := &mcpServer{t: t, cmd: exec.Command(k.agentd, append([]string{"serve", "--json", "--config", "config.yaml", "--listen", "127.0.0.1:0"}, args...)...)}
	s.cmd.Dir, s.cmd.Stderr = dir, &s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("agentd serve: %v", err)
	}
	var said struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(dir, "data", "token"))
	if err != nil {
		t.Fatal(err)
	}
	s.url, s.token = said.URL, string(bytes.TrimSpace(token))
	return s
}

func (s *mcpServer) stop() {
	if s.ended {
		return
	}
	s.ended = true
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may be gone, which Wait tells
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("agentd serve: %v", err)
	}
	if s.t.Failed() {
		s.t.Logf("the server's log:\n%s", s.log.Bytes())
	}
}

// kill ends the program as a crash does.
func (s *mcpServer) kill() {
	s.t.Helper()
	s.ended = true
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was killed
}

// mcpAnswer is an answer of the newer revision.
type mcpAnswer struct {
	Result map[string]any `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// ask sends a request of a client that takes tasks.
func (s *mcpServer) ask(method string, params map[string]any) *mcpAnswer {
	s.t.Helper()
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"elicitation": map[string]any{}, "extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}},
		},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/mcp", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	for _, name := range []string{"name", "taskId"} {
		if value, ok := params[name].(string); ok {
			r.Header.Set("Mcp-Name", value)
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if message, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = message
		}
	}
	a := new(mcpAnswer)
	if err := json.Unmarshal(data, a); err != nil {
		s.t.Fatalf("%s: %s %v", res.Status, data, err)
	}
	return a
}
