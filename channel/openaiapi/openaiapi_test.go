package openaiapi_test

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
	"agentd/channel/openaiapi"
	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/internal/leaktest"
	"agentd/model/provider/script"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// runtime is the real one as adapters want it.
type runtime = agentd.Port

func post(t *testing.T, h http.Handler, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// refusal is an error as clients read it.
type refusal struct {
	Error struct {
		Message, Type, Code string
		Param               *string
	}
}

func refused(t *testing.T, w *httptest.ResponseRecorder, status int, code string) refusal {
	t.Helper()
	var e refusal
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != status || e.Error.Code != code || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("got %d %s (%v), want %d %s", w.Code, w.Body, err, status, code)
	}
	return e
}

func TestATurnThatNobodyAnswersIsToldAndStays(t *testing.T) {
	rt := adaptertest.Open(t, adaptertest.Writes(), script.Answer{Text: "Written."})
	api := openaiapi.New(openaiapi.Options{Runtime: rt, Caller: adaptertest.Caller, ActionWait: 20 * time.Millisecond})
	w := post(t, api, "/v1/responses", `{"input":"write","metadata":{"session_id":"sess_a"}}`)
	e := refused(t, w, http.StatusForbidden, "action_required")
	_, rest, found := strings.Cut(e.Error.Message, "the action ")
	id, _, _ := strings.Cut(rest, ";")
	if !found || w.Header().Get("X-Should-Retry") != "false" {
		t.Fatalf("%s %v", e.Error.Message, w.Header())
	}
	if status, _ := adaptertest.Turn(t, rt, "sess_a"); status != "blocked" {
		t.Errorf("the turn is %s", status)
	}
	// The stream tells it too.
	w = post(t, api, "/v1/chat/completions", `{"messages":[{"role":"user","content":"write"}],"stream":true}`)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `data: {"error":{"message":"the turn waits for the action`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}

	// What became of it can be asked for, before and after the answer.
	name := "resp_sess_a." + turnHeader(t, rt)
	get := func() map[string]any {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/responses/"+name, nil)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		var v map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return v
	}
	if v := get(); v["status"] != "in_progress" || v["metadata"].(map[string]any)["agentd.waiting_for_action"] != id {
		t.Errorf("%v", v)
	}
	if _, err := rt.Do(t.Context(), command.Local(), &command.RespondAction{ActionID: id, Decision: "allow"}); err != nil {
		t.Fatal(err)
	}
	follow(t, rt, "sess_a", `"turn.completed"`)
	if v := get(); v["status"] != "completed" {
		t.Errorf("%v", v)
	}
}

// turnHeader returns the id of the first turn of sess_a.
func turnHeader(t *testing.T, rt runtime) string {
	t.Helper()
	page, _, err := rt.Events(t.Context(), command.Local(), "sess_a", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range page {
		var e struct{ TurnID string }
		if err := json.Unmarshal(d.Data, &e); err == nil && e.TurnID != "" {
			return e.TurnID
		}
	}
	t.Fatal("there is no turn")
	return ""
}

// follow waits for a fact.
func follow(t *testing.T, rt runtime, sessionID, with string) {
	t.Helper()
	s, err := rt.Subscribe(t.Context(), command.Local(), sessionID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		facts, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range facts {
			if strings.Contains(string(f.Data), with) {
				return
			}
		}
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	api := openaiapi.New(openaiapi.Options{Runtime: adaptertest.Open(t), Caller: adaptertest.Caller, MaxBody: 1000})
	large := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 2000) + `"}]}`
	refused(t, post(t, api, "/v1/chat/completions", large), http.StatusRequestEntityTooLarge, "payload_too_large")
	refused(t, post(t, api, "/v1/chat/completions", `{"messages":7}`), http.StatusBadRequest, "invalid_params")
	refused(t, post(t, api, "/v1/chat/completions", `{} {}`), http.StatusBadRequest, "invalid_params")
	refused(t, post(t, api, "/v1/responses", `{"input":{"a":1}}`), http.StatusBadRequest, "invalid_params")
	refused(t, post(t, api, "/v1/responses", `{"input":[{"type":"function_call_output","output":"x"}]}`), http.StatusBadRequest, "invalid_params")
	refused(t, post(t, api, "/v1/responses", `{"input":"x","conversation":7}`), http.StatusBadRequest, "invalid_params")
	refused(t, post(t, api, "/v1/responses", `{"input":"x","previous_response_id":"resp_sess_1.turn_1"}`), http.StatusNotFound, "not_found")
	refused(t, post(t, api, "/v1/responses/resp_x/cancel", ``), http.StatusNotFound, "not_found")
	refused(t, post(t, api, "/v1/responses/a/b/c", ``), http.StatusNotFound, "not_found")
	refused(t, post(t, api, "/v1/chat/completions", `{}`, "X-Stranger", "1"), http.StatusUnauthorized, "unauthenticated")
	refused(t, post(t, api, "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"metadata":{"session_id":"no/id"}}`), http.StatusBadRequest, "invalid_params")
	e := refused(t, post(t, api, "/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`), http.StatusBadRequest, "invalid_params")
	if e.Error.Param == nil || *e.Error.Param != "messages[0].content[0]" {
		t.Errorf("%+v", e)
	}
}

func TestASilentStreamIsKeptOpenAndAServerThatStopsLeavesTheTurn(t *testing.T) {
	rt := adaptertest.Open(t, script.Answer{Stall: time.Hour, Text: "late"})
	api := openaiapi.New(openaiapi.Options{Runtime: rt, Caller: adaptertest.Caller, Heartbeat: 5 * time.Millisecond})
	s := httptest.NewServer(api)
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/chat/completions",
		strings.NewReader(`{"messages":[{"role":"user","content":"x"}],"stream":true,"metadata":{"session_id":"sess_s"}}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	beats := 0
	lines := bufio.NewScanner(res.Body)
	for beats < 3 && lines.Scan() {
		if lines.Text() == ": alive" {
			beats++
		}
	}
	if beats < 3 {
		t.Fatal("the stream ended")
	}
	if status, _ := adaptertest.Turn(t, rt, "sess_s"); status != "running" {
		t.Errorf("the turn is %s", status)
	}
	// The runtime stops while the client is there: the stream says so and ends.
	if err := rt.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(rest), `"error":`) {
		t.Errorf("%v: %s", err, rest)
	}
	http.DefaultClient.CloseIdleConnections()
}
