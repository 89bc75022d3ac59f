package interop_test

import (
	"encoding/json"
	"strings"
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

// a2aServer is a server, and what drives it.
type a2aServer struct {
	*served
	kit *protoKit
}

func startA2A(t *testing.T, k *protoKit, args ...string) *a2aServer {
	t.Helper()
	return &a2aServer{serve(t, a2aFolder(t, "a2a: {push: {allowHosts: [127.0.0.1]}}\n", a2aScript), nil, args...), k}
}

// a2aFolder makes a folder with a script and a configuration that begins like this.
func a2aFolder(t *testing.T, config, script string) string {
	t.Helper()
	config += "data: data\nproviders:\n  - {id: script, kind: script, script: script.yaml, models: [{id: script}]}\n"
	return folder(t, map[string]string{"config.yaml": config, "script.yaml": script})
}

// scene runs one of a2a.mjs and reads what it found.
func (s *a2aServer) scene(t *testing.T, binding, name string, into any, args ...string) {
	t.Helper()
	out := s.kit.node(t, "a2a.mjs", append([]string{s.url, s.token, binding, name}, args...)...)
	if into == nil {
		return
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestA2AClient(t *testing.T) {
	k := newProtoKit(t, "the client of the A2A SDK")
	s := startA2A(t, k)
	for binding, path := range map[string]string{"JSONRPC": "/a2a/rpc", "HTTP+JSON": "/a2a/rest"} {
		t.Run(binding, func(t *testing.T) {
			var found struct{ Paths []string }
			s.scene(t, binding, "all", &found)
			if len(found.Paths) != 1 || found.Paths[0] != path {
				t.Errorf("the client spoke to %v", found.Paths)
			}
			s.scene(t, binding, "push", nil)
		})
	}
}

// What a client began with one process it ends with the next, after a kill.
func TestA2AClientOverAKill(t *testing.T) {
	k := newProtoKit(t, "the client of the A2A SDK")
	s := startA2A(t, k)
	var task struct{ ID, ContextID string }
	s.scene(t, "JSONRPC", "begin", &task)
	s.kill()
	s.start()
	s.scene(t, "HTTP+JSON", "goOn", nil, task.ID, task.ContextID)
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
	s.scene(t, "HTTP+JSON", "fixtures", &found, names...)
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
