package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTraceStateIsHandedOn: what came with the caller's trace goes to the model, to hooks
// and into the CloudEvent of the turn, also of a subagent's calls.
func TestTraceStateIsHandedOn(t *testing.T) {
	const parent, state = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "rojo=00f067aa0ba902b7,congo@t=t61rcWkgMzE"
	var mu sync.Mutex
	told := map[string][]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing of it shows in the answer
		mu.Lock()
		told[r.URL.Path] = append(told[r.URL.Path], r.Header.Get("Tracestate"))
		mu.Unlock()
		if r.URL.Path == "/hook" {
			fmt.Fprint(w, `{}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		delta := `{"content":"done"}`
		if !strings.Contains(string(body), "CHILD") {
			delta = `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"spawn_agent","arguments":"{\"role\":\"r\",\"input\":\"CHILD\"}"}}]}`
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", delta)
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	conf := writeFile(t, dir, "c.yaml", fmt.Sprintf(`
providers:
  - {id: o, kind: openai, baseURL: "%[1]s/v1", models: [{id: m, capabilities: [tools, streaming]}]}
permissions: {mode: bypass}
workspace: {root: %[2]s}
hooks:
  - {point: user_prompt_submit, url: "%[1]s/hook"}
`, s.URL, dir))
	p := start(t, data, "--config", conf)
	r := p.turnWith(t, data, withHeaders{"Traceparent": parent, "Tracestate": " " + state + ",,"})
	mu.Lock()
	defer mu.Unlock()
	for path, least := range map[string]int{"/hook": 1, "/v1/chat/completions": 3} {
		if len(told[path]) < least {
			t.Errorf("%s was asked %d times", path, len(told[path]))
		}
		for _, got := range told[path] {
			if got != state {
				t.Errorf("%s was told %q", path, got)
			}
		}
	}
	out, errs, code := program(t, "sessions", "export", r.SessionID, "--format", "cloudevents", "--data", data)
	if code != 0 || strings.Count(out, `"tracestate":"`+state+`"`) != 1 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
