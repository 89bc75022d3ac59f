package openaiapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/channel/openaiapi"
	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/model/provider/script"
)

// answered posts a request and returns the id of its answer.
func answered(t *testing.T, h http.Handler, path, body string, header ...string) string {
	t.Helper()
	w := post(t, h, path, body, header...)
	var v struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
	}
	return v.ID
}

func TestARequestThatIsSentAgainIsNoSecondTurnWhereverItGoes(t *testing.T) {
	rt := adaptertest.Open(t)
	api := openaiapi.New(openaiapi.Options{Runtime: rt, Caller: adaptertest.Caller})
	sessions := func() int {
		t.Helper()
		res, err := rt.Do(t.Context(), command.Local(), &command.ListSessions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Sessions []any }
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		return len(v.Sessions)
	}
	first := answered(t, api, "/v1/responses", `{"input":"first"}`)
	after := `{"input":"second","previous_response_id":"` + first + `"}`
	chat := `{"messages":[{"role":"system","content":"Be short."},{"role":"user","content":"hello"}]}`
	for _, c := range []struct {
		name, path, body string
		header           []string
		made             int
	}{
		{"a new session", "/v1/responses", `{"input":"alone"}`, []string{"Idempotency-Key", "k1"}, 1},
		{"behind the last response", "/v1/responses", after, []string{"Idempotency-Key", "k2"}, 0},
		{"behind an earlier one", "/v1/responses", after, []string{"Idempotency-Key", "k3"}, 1},
		{"a session that it makes", "/v1/chat/completions", chat, []string{"Idempotency-Key", "k4", "X-Agentd-Session", "sess_named"}, 1},
		{"a session that is there", "/v1/chat/completions", chat, []string{"Idempotency-Key", "k5", "X-Agentd-Session", "sess_named"}, 0},
	} {
		before := sessions()
		id := answered(t, api, c.path, c.body, c.header...)
		if again := answered(t, api, c.path, c.body, c.header...); again != id {
			t.Errorf("%s: %s, and again %s", c.name, id, again)
		}
		if made := sessions() - before; made != c.made {
			t.Errorf("%s: %d sessions were made, want %d", c.name, made, c.made)
		}
	}
	// Also when the session has gone on since; and not with another content.
	answered(t, api, "/v1/chat/completions", chat, "Idempotency-Key", "k4", "X-Agentd-Session", "sess_named")
	refused(t, post(t, api, "/v1/responses", strings.Replace(after, "second", "other", 1), "Idempotency-Key", "k2"), http.StatusConflict, "conflict")
}

func TestAResponseInTheBackgroundSaysSoAndWhatIsBeingWritten(t *testing.T) {
	rt := adaptertest.Open(t, script.Answer{Text: strings.Repeat("word ", 5000), Delay: 20 * time.Millisecond})
	api := openaiapi.New(openaiapi.Options{Runtime: rt, Caller: adaptertest.Caller})
	id := answered(t, api, "/v1/responses", `{"input":"x","background":true,"metadata":{"session_id":"sess_b"}}`)
	follow(t, rt, "sess_b", `"model.delta"`)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/responses/"+id, nil)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	var v struct {
		Status     string
		Background bool
		Output     []struct{ Status string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || v.Status != "in_progress" || !v.Background || len(v.Output) != 1 || v.Output[0].Status != "in_progress" {
		t.Errorf("%v %s", err, w.Body)
	}
	if w := post(t, api, "/v1/responses/"+id+"/cancel", ``); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"background":true`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
