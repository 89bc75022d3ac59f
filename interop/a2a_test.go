package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// a2aScript is what the agent behind the server says.
const a2aScript = `
answers:
  - when: {contains: hello}
    text: Hello, peer.
  - when: {contains: in pieces}
    text: one two three four five six
    delay: 30ms
  - when: {contains: which colour}
    ask: {prompt: "Which colour?"}
  - when: {contains: which colour}
    text: A fine colour.
  - when: {contains: slow}
    stall: 1h
    text: at last
`

// a2aServer is a server that can be killed and started again.
type a2aServer struct {
	t    *testing.T
	kit  *protoKit
	dir  string
	args []string

	cmd   *exec.Cmd
	log   *bytes.Buffer
	url   string
	token string
}

func startA2A(t *testing.T, k *protoKit, args ...string) *a2aServer {
	t.Helper()
	s := &a2aServer{t: t, kit: k, dir: t.TempDir(), args: args}
	config := "data: data\nproviders:\n  - {id: script, kind: script, script: script.yaml, models: [{id: script}]}\na2a: {push: {allowHosts: [127.0.0.1]}}\n"
	for name, text := range map[string]string{"config.yaml": config, "script.yaml": a2aScript} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	t.Cleanup(func() {
		s.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log.Bytes())
		}
	})
	return s
}

func (s *a2aServer) start() {
	s.t.Helper()
	s.log = &bytes.Buffer{}
	s.cmd = exec.Command(s.kit.agentd, append([]string{"serve", "--json", "--config", "config.yaml", "--listen", "127.0.0.1:0"}, s.args...)...)
	s.cmd.Dir, s.cmd.Stderr = s.dir, s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("agentd serve: %v\n%s", err, s.log.Bytes())
	}
	var note struct{ URL string }
	if err := json.Unmarshal(line, &note); err != nil {
		s.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(s.dir, "data", "token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.url, s.token = note.URL, strings.TrimSpace(string(token))
}

func (s *a2aServer) end(sig syscall.Signal) {
	s.t.Helper()
	_ = s.cmd.Process.Signal(sig)
	if err := s.cmd.Wait(); err != nil && sig != syscall.SIGKILL {
		s.t.Errorf("agentd serve: %v", err)
	}
}

// scene runs one of a2a.mjs and reads what it found.
func (s *a2aServer) scene(binding, name string, into any, args ...string) {
	s.t.Helper()
	out := s.kit.node(s.t, "a2a.mjs", append([]string{s.url, s.token, binding, name}, args...)...)
	if into == nil {
		return
	}
	if err := json.Unmarshal(out, into); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

func TestA2AClient(t *testing.T) {
	k := newProtoKit(t, "the client of the A2A SDK")
	s := startA2A(t, k)
	for binding, path := range map[string]string{"JSONRPC": "/a2a/rpc", "HTTP+JSON": "/a2a/rest"} {
		t.Run(binding, func(t *testing.T) {
			in := *s
			in.t = t
			var found struct{ Paths []string }
			in.scene(binding, "all", &found)
			if len(found.Paths) != 1 || found.Paths[0] != path {
				t.Errorf("the client spoke to %v", found.Paths)
			}
			in.scene(binding, "push", nil)
		})
	}
}

// What a client began with one process it ends with the next, after a kill.
func TestA2AClientOverAKill(t *testing.T) {
	k := newProtoKit(t, "the client of the A2A SDK")
	s := startA2A(t, k)
	var task struct{ ID, ContextID string }
	s.scene("JSONRPC", "begin", &task)
	s.end(syscall.SIGKILL)
	s.start()
	s.scene("HTTP+JSON", "goOn", nil, task.ID, task.ContextID)
}

// The behaviours that the protocol's test kit asks for.
func TestA2AFixtures(t *testing.T) {
	k := newProtoKit(t, "the client of the A2A SDK")
	s := startA2A(t, k, "--fixtures")
	type behaviour struct {
		Events   []string
		Artifact struct{ Kind, Filename, MediaType string }
		Text     string
	}
	want := map[string]struct{ end, kind, text string }{
		"tck-complete-task":           {"COMPLETED", "text", "Hello from TCK"},
		"tck-artifact-text":           {"COMPLETED", "text", "Generated text content"},
		"tck-artifact-file":           {"COMPLETED", "raw", ""},
		"tck-artifact-file-url":       {"COMPLETED", "url", "https://example.com/output.txt"},
		"tck-artifact-data":           {"COMPLETED", "data", ""},
		"tck-message-response":        {"message", "", ""},
		"tck-input-required":          {"INPUT_REQUIRED", "", ""},
		"tck-reject-task":             {"REJECTED", "", ""},
		"tck-stream-001":              {"COMPLETED", "text", "Stream hello from TCK"},
		"tck-stream-002":              {"COMPLETED", "text", "Hello from TCK"},
		"tck-stream-003":              {"COMPLETED", "text", "Stream task lifecycle"},
		"tck-stream-ordering-001":     {"COMPLETED", "text", "Ordered output"},
		"tck-stream-artifact-text":    {"COMPLETED", "text", "Streamed text content"},
		"tck-stream-artifact-file":    {"COMPLETED", "raw", ""},
		"tck-stream-artifact-chunked": {"COMPLETED", "text", "chunk-1 chunk-2"},
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	var found map[string]behaviour
	s.scene("HTTP+JSON", "fixtures", &found, names...)
	for name, w := range want {
		b := found[name]
		if len(b.Events) == 0 || !strings.HasSuffix(b.Events[len(b.Events)-1], w.end) || b.Artifact.Kind != w.kind {
			t.Errorf("%s: %+v", name, b)
		}
		if w.text != "" && b.Text != w.text {
			t.Errorf("%s: %q", name, b.Text)
		}
		if file := w.kind == "raw" || w.kind == "url"; file && (b.Artifact.Filename != "output.txt" || b.Artifact.MediaType != "text/plain") {
			t.Errorf("%s: %+v", name, b.Artifact)
		}
	}
}
