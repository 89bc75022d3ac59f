package agui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/channel/agui"
	"agentd/internal/adaptertest"
	"agentd/internal/leaktest"
	"agentd/model/provider/script"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// runtime is the real one as adapters want it.
type runtime = agentd.Port

// told is one event of a run.
type told = map[string]any

// run posts a run and returns its events, or the status of a refusal.
func run(t *testing.T, h http.Handler, body string) (events []told, status int) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agui", strings.NewReader(body)))
	if w.Code != http.StatusOK {
		return nil, w.Code
	}
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e told
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	return events, w.Code
}

func message(threadID, runID, text string) string {
	return `{"threadId":"` + threadID + `","runId":"` + runID + `","messages":[{"id":"m","role":"user","content":"` + text + `"}]}`
}

func TestAllThatIsOpenIsAnsweredTogether(t *testing.T) {
	rt := adaptertest.Open(t, adaptertest.Writes(), script.Answer{Text: "Written."})
	h := agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller})
	events, _ := run(t, h, message("thread_a", "run_1", "write"))
	end := events[len(events)-1]
	ask := end["outcome"].(told)["interrupts"].([]any)[0].(told)
	if ask["reason"] != "tool_permission" {
		t.Fatalf("%v", end)
	}
	// The same run again is told the same, and asks no second time.
	again, _ := run(t, h, message("thread_a", "run_1", "write"))
	if last := again[len(again)-1]; last["outcome"].(told)["interrupts"].([]any)[0].(told)["id"] != ask["id"] {
		t.Errorf("%v", last)
	}
	for name, body := range map[string]string{
		"another run":         message("thread_a", "run_2", "hello"),
		"an answer to others": `{"threadId":"thread_a","runId":"run_3","messages":[],"resume":[{"interruptId":"action_x","status":"resolved","payload":true}]}`,
		"a thread without":    `{"threadId":"thread_b","runId":"run_4","messages":[],"resume":[{"interruptId":"` + ask["id"].(string) + `","status":"resolved","payload":true}]}`,
	} {
		if _, status := run(t, h, body); status != http.StatusConflict {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, _ := adaptertest.Turn(t, rt, "thread_a"); status != "blocked" {
		t.Errorf("the turn is %s", status)
	}
	events, _ = run(t, h, `{"threadId":"thread_a","runId":"run_5","messages":[],"resume":[{"interruptId":"`+ask["id"].(string)+`","status":"resolved","payload":true}]}`)
	if end := events[len(events)-1]; end["type"] != "RUN_FINISHED" || end["runId"] != "run_5" || end["outcome"].(told)["type"] != "success" {
		t.Errorf("%v", end)
	}
}

func TestWhatCannotBeRunIsRefused(t *testing.T) {
	h := agui.New(agui.Options{Runtime: adaptertest.Open(t), Caller: adaptertest.Caller, MaxBody: 1000})
	for body, want := range map[string]int{
		`nonsense`:       400,
		`{"threadId":7}`: 400,
		`{}`:             400,
		`{"threadId":"sess_runtime","runId":"r"}`: 400,
		`{"threadId":"t","runId":"no id"}`:        400,
		`{"threadId":"t","runId":"r","messages":[{"role":"user","content":[{"type":"video","source":{}}]}]}`: 400,
		`{"threadId":"t","runId":"r","messages":[{"role":"user","content":7}]}`:                              400,
		`{"threadId":"t","runId":"r","messages":[]}`:                                                         400,
		message("t", "r", strings.Repeat("x", 2000)):                                                         413,
	} {
		if _, status := run(t, h, body); status != want {
			t.Errorf("%.60s: %d, want %d", body, status, want)
		}
	}
	for _, r := range []*http.Request{
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/agui", nil),
		httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agui", nil),
	} {
		if r.Method == http.MethodPost {
			r.Header.Set("X-Stranger", "1")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusUnauthorized || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", r.Method, w.Code, w.Body)
		}
	}
}

func TestASilentRunIsKeptOpenAndAServerThatStopsEndsIt(t *testing.T) {
	rt := adaptertest.Open(t, script.Answer{Stall: time.Hour, Text: "late"})
	s := httptest.NewServer(agui.New(agui.Options{Runtime: rt, Caller: adaptertest.Caller, Heartbeat: 5 * time.Millisecond}))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(message("t", "r", "x")))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	beats := 0
	for beats < 3 && lines.Scan() {
		if lines.Text() == ": alive" {
			beats++
		}
	}
	if beats < 3 {
		t.Fatal("the stream ended")
	}
	if status, _ := adaptertest.Turn(t, rt, "t"); status != "running" {
		t.Errorf("the turn is %s", status)
	}
	if err := rt.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(rest), "RUN_ERROR") {
		t.Errorf("%v: %s", err, rest)
	}
	http.DefaultClient.CloseIdleConnections()
}
