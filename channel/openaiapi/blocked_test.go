package openaiapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/channel/openaiapi"
	"agentd/command"
	"agentd/event"
	"agentd/internal/adaptertest"
)

// recorded is a runtime whose only session has these facts. A stream tells them one
// at a time and then waits.
type recorded struct {
	command.Runtime
	facts []command.Delivered
	err   error
	// block is why the thread doesn't go on, in JSON.
	block string
}

func record(facts ...event.Event) *recorded {
	r := &recorded{}
	for i, e := range facts {
		e.ID, e.SessionID, e.Sequence, e.RuntimeID, e.Time = "evt_"+string(rune('a'+i)), "sess_a", uint64(i+1), "runtime_a", time.Unix(1, 0).UTC()
		r.facts = append(r.facts, command.Delivered{SessionID: "sess_a", Sequence: e.Sequence, Data: event.AppendJSON(nil, &e)})
	}
	return r
}

func (r *recorded) Do(_ context.Context, _ command.Caller, p command.Params) (any, error) {
	if _, ok := p.(*command.GetSession); ok && r.block != "" {
		return json.RawMessage(`{"threads":[{"threadId":"thread_a","block":` + r.block + `}]}`), r.err
	}
	return &command.SubmitTurnResult{SessionID: "sess_a", ThreadID: "thread_a", TurnID: "turn_a", Sequence: 1}, r.err
}

func (r *recorded) Events(_ context.Context, _ command.Caller, _ string, after uint64, _ int) ([]command.Delivered, uint64, error) {
	return r.facts[min(after, uint64(len(r.facts))):], uint64(len(r.facts)), nil
}

func (r *recorded) Subscribe(_ context.Context, _ command.Caller, _ string, after uint64) (command.Stream, error) {
	return &tape{left: r.facts[after:]}, nil
}

type tape struct{ left []command.Delivered }

func (s *tape) Close() {}

func (s *tape) Next(ctx context.Context) ([]command.Delivered, error) {
	if len(s.left) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	one := s.left[:1]
	s.left = s.left[1:]
	return one, nil
}

// ofTurn is a fact of the turn, inThread one of a thread.
func ofTurn(t event.Type, p event.Payload) event.Event {
	return event.Event{Type: t, Scope: event.Scope{ThreadID: "thread_a", TurnID: "turn_a", TaskID: "task_a", RunID: "run_a"}, Payload: p}
}

func inThread(id, status, why string) event.Event {
	return event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: id}, Payload: &event.ThreadUpdated{Status: status, Reason: why}}
}

func submitted() event.Event {
	return ofTurn(event.TypeTurnSubmitted, &event.TurnSubmitted{Status: "accepted", Source: "user", Input: event.Raw(`[{"type":"text","text":"go"}]`)})
}

func completed() event.Event {
	return ofTurn(event.TypeTurnCompleted, &event.TurnCompleted{Status: "completed", Outcome: "end_turn"})
}

func getJSON(t *testing.T, h http.Handler, path string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var v map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Code, v
}

// TestATurnThatWasBlockedAndWentOn: what counts is how the turn's own thread stands
// at last, not that some thread was blocked at some time.
func TestATurnThatWasBlockedAndWentOn(t *testing.T) {
	api := func(r command.Runtime) *openaiapi.API {
		return openaiapi.New(openaiapi.Options{Runtime: r, Caller: adaptertest.Caller, ActionWait: time.Minute})
	}
	went := api(record(submitted(), inThread("thread_a", "blocked", "a restart"), inThread("thread_a", "resumed", ""), completed()))
	if code, v := getJSON(t, went, "/v1/responses/resp_sess_a.turn_a"); code != http.StatusOK || v["status"] != "completed" {
		t.Errorf("asked for afterwards: %d %v", code, v)
	}
	const ask = `{"messages":[{"role":"user","content":"go"}]}`
	if w := post(t, went, "/v1/chat/completions", ask); w.Code != http.StatusOK {
		t.Errorf("watched: %d %s", w.Code, w.Body)
	}
	other := api(record(submitted(), inThread("thread_b", "blocked", "another task"), completed()))
	if w := post(t, other, "/v1/chat/completions", ask); w.Code != http.StatusOK {
		t.Errorf("another thread is blocked: %d %s", w.Code, w.Body)
	}
	stays := api(record(submitted(), inThread("thread_a", "blocked", "a restart")))
	refused(t, post(t, stays, "/v1/chat/completions", ask), http.StatusServiceUnavailable, "blocked")
	if code, v := getJSON(t, stays, "/v1/responses/resp_sess_a.turn_a"); code != http.StatusOK || v["status"] != "in_progress" || v["metadata"].(map[string]any)["agentd.blocked"] != "a restart" {
		t.Errorf("asked for while it is blocked: %d %v", code, v)
	}
}

// TestATurnBehindABlockedThread: the fact that says so is from before the turn, which doesn't
// go on either.
func TestATurnBehindABlockedThread(t *testing.T) {
	for block, code := range map[string]string{
		`{"reason":"a restart"}`: "blocked",
		`{"reason":"the files are away","code":"place_unreachable"}`: "place_unreachable",
	} {
		r := record(submitted())
		r.block = block
		api := openaiapi.New(openaiapi.Options{Runtime: r, Caller: adaptertest.Caller, Heartbeat: time.Millisecond})
		refused(t, post(t, api, "/v1/chat/completions", `{"messages":[{"role":"user","content":"go"}]}`), http.StatusServiceUnavailable, code)
	}
}

// TestFailuresOfOursAreLogged: a client learns nothing of what went wrong inside, so
// the log has to.
func TestFailuresOfOursAreLogged(t *testing.T) {
	var log strings.Builder
	r := record(submitted())
	r.err = context.DeadlineExceeded
	api := openaiapi.New(openaiapi.Options{Runtime: r, Caller: adaptertest.Caller, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := post(t, api, "/v1/chat/completions", `{"messages":[{"role":"user","content":"go"}]}`)
	refused(t, w, http.StatusInternalServerError, "internal")
	if strings.Contains(w.Body.String(), "deadline") || !strings.Contains(log.String(), "deadline") {
		t.Errorf("told %s, logged %s", w.Body, log.String())
	}
}

// TestBodiesThatAreNoObjects are refused in words.
func TestBodiesThatAreNoObjects(t *testing.T) {
	api := openaiapi.New(openaiapi.Options{Runtime: record(submitted()), Caller: adaptertest.Caller})
	for _, body := range []string{`[]`, `17`, `"x"`, `{`, ``} {
		if e := refused(t, post(t, api, "/v1/responses", body), http.StatusBadRequest, "invalid_params"); e.Error.Message != "the body is not a JSON object" {
			t.Errorf("%s: %s", body, e.Error.Message)
		}
	}
}
