package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// plantedSecret looks like a credential; the words around it are what searches find.
const plantedSecret = "ghp_" + "Zq8Wm3Xk7Rv2Tn9Lp4Jd6Hs1Fy5Gc0Ba8Ke3"

// TestSearchTellsNoSecret: whatever was said and done is found by the words around a
// secret, and neither a hit nor a list shows the secret, and none is found by it.
func TestSearchTellsNoSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := writeFile(t, dir, "script.yaml", `answers:
  - when: {contains: alphaword}
    text: "I keep `+plantedSecret+` bravoword"
    tools:
      - {name: write_file, arguments: {path: "charlieword.txt", content: "deltaword `+plantedSecret+` stays"}}
      - {name: write_file, arguments: {path: "echoword-`+plantedSecret+`.txt", content: "x"}}
      - {name: shell, arguments: {command: "cat notes.txt"}}
      - {name: read_file, arguments: {path: "hotelword/`+plantedSecret+`"}}
  - {when: {contains: alphaword}, text: "done with `+plantedSecret+` indiaword"}
`)
	writeFile(t, dir, "notes.txt", "foxtrotword "+plantedSecret+" golfword\n")
	config := writeFile(t, dir, "agentd.yaml", `providers:
  - {id: script, kind: script, script: `+script+`, models: [{id: script, capabilities: [tools]}]}
workspace: {root: `+dir+`}
permissions: {mode: bypass}
`)
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	params := submitParams(t, "alphaword "+plantedSecret+" is mine")
	params.SessionID, params.Create = "sess_secret", true
	turn := call[command.SubmitTurnResult](p, params)
	p.completed(turn)
	ask := func(name command.Name, body string) string {
		t.Helper()
		status, answer := p.sendAs(p.token(), http.MethodPost, "/v1/commands/"+string(name), body)
		if status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", name, body, status, answer)
		}
		if strings.Contains(answer, plantedSecret[4:]) || strings.Contains(answer, plantedSecret[len(plantedSecret)/2:]) {
			t.Errorf("%s %s tells the secret: %s", name, body, answer)
		}
		return answer
	}
	hits := func(query string) int {
		t.Helper()
		var res command.SearchResult
		if err := json.Unmarshal([]byte(ask("search", fmt.Sprintf(`{"query":%q}`, query))), &res); err != nil {
			t.Fatal(err)
		}
		return len(res.Hits)
	}
	for word := range strings.FieldsSeq("alphaword bravoword charlieword deltaword echoword foxtrotword golfword hotelword indiaword") {
		if hits(word) == 0 {
			t.Errorf("%s is not found", word)
		}
	}
	for _, query := range []string{plantedSecret[4:], plantedSecret[4:12] + "*"} {
		if n := hits(query); n != 0 {
			t.Errorf("%q, a part of the secret, is found %d times", query, n)
		}
	}
	// The secret as a whole is taken out of the query, too: it finds what was taken out, and
	// every other secret of its kind finds the same.
	other := "ghp_" + strings.Repeat("x1", 18)
	if a, b := hits(plantedSecret), hits(other); a != b {
		t.Errorf("the secret is found %d times, another one %d times", a, b)
	}
	ask("list_turns", `{"query":"alphaword"}`)
	if got := ask("list_turns", fmt.Sprintf(`{"query":%q}`, plantedSecret[4:])); !strings.Contains(got, `"total":0`) {
		t.Errorf("a turn is found by the secret: %s", got)
	}
	ask("list_artifacts", `{}`)
	ask("list_sessions", `{"query":"alphaword"}`)
	ask("get_session", `{"sessionId":"sess_secret","limit":1000}`)
	ask("get_diff", fmt.Sprintf(`{"sessionId":"sess_secret","turnId":%q}`, turn.TurnID))
	if out := string(p.printed("search", "alphaword", "--json")); strings.Contains(out, plantedSecret[4:]) || !strings.Contains(out, "alphaword") {
		t.Errorf("agentd search: %s", out)
	}
}

// usageByLabel are the figures of usage that /metrics has, by the label that its series
// carry.
var usageByLabel = map[string]map[string]string{
	"model": {
		"turns": "agentd_usage_turns_total", "failures": "agentd_usage_turn_failures_total", "cancelled": "agentd_usage_turns_cancelled_total",
		"modelCalls": "agentd_usage_model_calls_total", "modelFailures": "agentd_usage_model_failures_total", "inputTokens": "agentd_usage_input_tokens_total",
		"cachedInputTokens": "agentd_usage_cached_input_tokens_total", "outputTokens": "agentd_usage_output_tokens_total",
		"reasoningTokens": "agentd_usage_reasoning_tokens_total", "costUSD": "agentd_usage_cost_usd_total",
	},
	"tool": {
		"toolCalls": "agentd_usage_tool_calls_total", "toolFailures": "agentd_usage_tool_failures_total", "approvals": "agentd_usage_approvals_total",
		"approvalWaitMs": "agentd_usage_approval_wait_seconds_total",
	},
}

// TestMetricsHaveTheFiguresOfUsage: the series of /metrics are what usage answers, those
// that are zero too, so that the first failure of a model is an increase.
func TestMetricsHaveTheFiguresOfUsage(t *testing.T) {
	t.Parallel()
	p, _ := startStandard(t, "")
	for _, text := range []string{"hello", "write", "list", "reason"} {
		p.turn("sess_figures", text)
	}
	s := &storm{t: t, p: p, client: p.client()}
	want := map[string]float64{}
	for label, series := range usageByLabel {
		res := call[struct{ Rows []map[string]any }](p, &command.Usage{GroupBy: []string{label}})
		for _, row := range res.Rows {
			name, _ := row[label].(string)
			if name == "" {
				continue
			}
			for figure, metric := range series {
				value := row[figure].(float64)
				if figure == "approvalWaitMs" {
					value /= 1000
				}
				want[fmt.Sprintf("%s{%s=%q}", metric, label, name)] = value
			}
		}
	}
	if want[`agentd_usage_turns_total{model="script/script"}`] != 4 || want[`agentd_usage_tool_calls_total{tool="shell"}`] != 1 {
		t.Fatalf("%v", want)
	}
	got := map[string]float64{} // usage has waited for the index, so it isn't late
	for name, value := range s.figures().by {
		if strings.HasPrefix(name, "agentd_usage_") {
			got[name] = value
		}
	}
	if !maps.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
		t.Errorf("/metrics has %v\nusage has %v", got, want)
	}
}

// feedReader takes a feed in over WebSockets, one after the other.
type feedReader struct {
	mu     sync.Mutex
	seen   map[string][]uint64
	cursor string
	grown  chan struct{}
}

// read takes in what a connection delivers, until it breaks.
func (f *feedReader) read(t *testing.T, conn *websocket.Conn) {
	id := ""
	for {
		_, data, err := conn.Read(t.Context())
		if err != nil {
			return
		}
		var m struct {
			Result                         *struct{ SubscriptionID, Cursor string }
			Error                          json.RawMessage
			Method, SubscriptionID, Cursor string
			Params                         struct {
				SessionID string
				Sequence  uint64
			}
		}
		if err := json.Unmarshal(data, &m); err != nil || m.Error != nil {
			t.Errorf("%v: %s", err, data)
			return
		}
		f.mu.Lock()
		switch {
		case m.Result != nil:
			if id = m.Result.SubscriptionID; id == "" || m.Result.Cursor == "" {
				t.Errorf("the answer to subscribe has no id or no cursor: %s", data)
			}
			if f.cursor == "" {
				f.cursor = m.Result.Cursor
			}
		case m.Method != "event" || m.SubscriptionID != id || m.Cursor == "":
			t.Errorf("not an event of subscription %s: %s", id, data)
		default:
			f.seen[m.Params.SessionID] = append(f.seen[m.Params.SessionID], m.Params.Sequence)
			f.cursor = m.Cursor
		}
		f.mu.Unlock()
		select {
		case f.grown <- struct{}{}:
		default:
		}
	}
}

// until waits until a session was seen up to a sequence.
func (f *feedReader) until(t *testing.T, sessionID string, sequence uint64) {
	t.Helper()
	for {
		f.mu.Lock()
		there := slices.Contains(f.seen[sessionID], sequence)
		f.mu.Unlock()
		if there {
			return
		}
		select {
		case <-f.grown:
		case <-t.Context().Done():
			t.Fatalf("the feed ended before %d of %s", sequence, sessionID)
		}
	}
}

// TestTheFeedOverAWebSocketOutlivesRestarts: a client that goes on from its last cursor
// gets each event of each session once and in order, whether the server was killed
// or stopped in between, and each names its subscription.
func TestTheFeedOverAWebSocketOutlivesRestarts(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	f := &feedReader{seen: map[string][]uint64{}, grown: make(chan struct{}, 1)}
	sessions, last := []string{"sess_one", "sess_two", "sess_three"}, map[string]uint64{}
	for round, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL, 0} {
		at := `"feed":true`
		if f.cursor != "" {
			at += fmt.Sprintf(`,"cursor":%q`, f.cursor)
		}
		conn := p.subscribeAs(t.Context(), at)
		var reading, writing sync.WaitGroup
		reading.Go(func() { f.read(t, conn) })
		select { // the feed begins with the answer to subscribe
		case <-f.grown:
		case <-t.Context().Done():
			t.Fatal("no answer to subscribe")
		}
		// What is submitted from here on comes behind what was seen.
		middle := map[string]uint64{}
		f.mu.Lock()
		for _, id := range sessions {
			middle[id] = uint64(len(f.seen[id])) + 20
		}
		f.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		c := p.client()
		for _, id := range sessions {
			writing.Go(func() {
				for range 5 { // or until the server is gone
					if _, err := client.Call[command.SubmitTurnResult](ctx, c, &command.SubmitTurn{SessionID: id, Create: true, Input: event.Raw(fmt.Sprintf(`"round %d"`, round))}); err != nil {
						return
					}
				}
			})
		}
		if end == 0 {
			writing.Wait()
			for _, id := range sessions {
				last[id] = p.settled(id)
				f.until(t, id, last[id])
			}
			cancel()
			_ = conn.CloseNow()
			reading.Wait()
			break
		}
		for _, id := range sessions {
			f.until(t, id, middle[id])
		}
		p.stop(end)
		cancel()
		writing.Wait()
		reading.Wait()
		p = start(t, data)
	}
	for _, id := range sessions {
		for i, sequence := range f.seen[id] {
			if sequence != uint64(i)+1 {
				t.Fatalf("%s: event %d comes as the %d-th", id, sequence, i+1)
			}
		}
		if n := uint64(len(f.seen[id])); n < last[id] {
			t.Errorf("%s: %d of %d events came", id, n, last[id])
		}
	}
}

// settled waits until a session has nothing to do and returns its last sequence.
func (p *process) settled(sessionID string) uint64 {
	p.t.Helper()
	for {
		s := call[command.SessionRead](p, &command.GetSession{SessionID: sessionID})
		if len(s.Threads) == 1 && len(s.Threads[0].QueuedTurns) == 0 && s.Threads[0].Status == "completed" {
			return s.Sequence
		}
	}
}
