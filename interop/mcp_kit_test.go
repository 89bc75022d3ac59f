package interop_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
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
	return folder(t, map[string]string{"script.yaml": mcpScript, "config.yaml": mcpConfig})
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
func (s *served) ask(method string, params map[string]any) *mcpAnswer {
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
