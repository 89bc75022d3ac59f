package main

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
)

// TestMetricsOfAServer: what operators watch moves with what a server does.
func TestMetricsOfAServer(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	s := &storm{t: t, p: p, client: p.client()}
	before := s.figures()
	turn, err := client.Call[command.SubmitTurnResult](t.Context(), s.client, submitParams(t, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	p.completed(turn)
	stream := p.getWithToken("/v1/sessions/"+turn.SessionID+"/events", "Accept", "text/event-stream")
	defer stream.Body.Close()
	for lines := bufio.NewScanner(stream.Body); lines.Scan() && !strings.HasPrefix(lines.Text(), "data:"); {
	}
	if res := p.getWithToken("/v1/catalog", "X-Padding", strings.Repeat("x", 40<<10)); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %d", res.StatusCode)
	} else {
		res.Body.Close()
	}
	after := s.figures()
	for _, c := range []struct {
		name  string
		least float64
	}{
		{"agentd_append_seconds_count", 1}, // latencies of append
		{"agentd_append_seconds_sum", 1e-9},
		{"agentd_facts_total", 10},
		{"agentd_journal_commits_total", 1},
		{`agentd_commands_total{command="submit_turn",code="ok"}`, 1},
		{`agentd_command_duration_seconds_count{command="submit_turn"}`, 1},
		{`agentd_subscribers{transport="sse"}`, 1},
		{"agentd_session_followers", 1},
		{`agentd_events_delivered_total{transport="sse"}`, 1},
		{`agentd_bounds_hit_total{bound="header"}`, 1},
	} {
		if got := after.by[c.name] - before.by[c.name]; got < c.least {
			t.Errorf("%s grew by %v, want at least %v", c.name, got, c.least)
		}
	}
	for _, name := range []string{"agentd_goroutines", "agentd_heap_bytes", "agentd_store_ready", "agentd_store_disk_bytes"} {
		if after.by[name] <= 0 {
			t.Errorf("%s is %v", name, after.by[name])
		}
	}
	// Queue depths are there when nothing waits.
	for _, name := range []string{"agentd_journal_waiting", `agentd_commands_in_flight{kind="mutation"}`, `agentd_commands_in_flight{kind="read"}`, "agentd_body_bytes", "agentd_answer_bytes"} {
		if got, ok := after.by[name]; !ok || got != 0 {
			t.Errorf("%s is %v, %v", name, got, ok)
		}
	}
	// Those of a pool are there over a database, those of object storage with a bucket, those of a
	// replica with one, those of models and tools a moment after they were used.
	documented(t, after, "agentd_database_", "agentd_blob_", "agentd_replica_", "agentd_usage_")
	stream.Body.Close()
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// documented: the operators' page names every figure of a server, and no other but those of
// families that the server doesn't have.
func documented(t *testing.T, f *figures, without ...string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, name := range regexp.MustCompile("`(agentd_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		told[name[1]] = true
	}
	seen := map[string]bool{}
	for name := range f.by {
		name, _, _ = strings.Cut(name, "{")
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, end)
		}
		if seen[name] = true; !told[name] {
			t.Errorf("docs/operations.md doesn't name %s", name)
		}
	}
	for name := range told {
		later := slices.ContainsFunc(append(without, "agentd_telemetry_"), func(family string) bool { return strings.HasPrefix(name, family) })
		if !seen[name] && !later {
			t.Errorf("docs/operations.md names %s, which the server doesn't tell", name)
		}
	}
}

// getWithToken asks for a path with the admin's token. The caller closes the body.
func (p *process) getWithToken(path string, header ...string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token())
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

// TestRequestIDsJoinLogAndFacts: the id of a request is in its answer, in the log
// and in the facts that it caused.
func TestRequestIDsJoinLogAndFacts(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	const id, trace = "req_of_mine", "0af7651916cd43dd8448eb211c80319c"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/commands/create_session", strings.NewReader(`{"sessionId":"s"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token())
	req.Header.Set("X-Request-ID", id)
	req.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("X-Request-ID") != id {
		t.Errorf("%d, id %q", res.StatusCode, res.Header.Get("X-Request-ID"))
	}
	page, err := p.client().Events(t.Context(), "s", 0, 10)
	if err != nil || len(page.Events) == 0 {
		t.Fatalf("%v, %v", page, err)
	}
	for _, e := range page.Events {
		if !strings.Contains(string(e.Data), `"requestId":"`+id+`"`) || !strings.Contains(string(e.Data), `"traceId":"`+trace+`"`) {
			t.Errorf("%s", e.Data)
		}
	}
	if line := p.wait(id); !strings.Contains(line, "/v1/commands/{command}") {
		t.Errorf("the log says %s", line)
	}
	p.stop(syscall.SIGTERM)
}
