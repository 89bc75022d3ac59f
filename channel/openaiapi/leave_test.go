package openaiapi_test

import (
	"context"
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

// TestAClientThatLeavesWhileItIsAccepted takes its turn along, in every form of a request.
func TestAClientThatLeavesWhileItIsAccepted(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"a response":          {"/v1/responses", `{"input":"go","metadata":{"session_id":"sess_a"}}`},
		"a streamed response": {"/v1/responses", `{"input":"go","stream":true,"metadata":{"session_id":"sess_a"}}`},
		"a completion":        {"/v1/chat/completions", `{"messages":[{"role":"user","content":"go"}],"metadata":{"session_id":"sess_a"}}`},
		"a streamed answer":   {"/v1/chat/completions", `{"messages":[{"role":"user","content":"go"}],"stream":true,"metadata":{"session_id":"sess_a"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			rt := adaptertest.Open(t, script.Answer{Stall: time.Hour, Text: "late"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			api := openaiapi.New(openaiapi.Options{Runtime: &adaptertest.Leaving{Runtime: rt, Leave: cancel}, Caller: adaptertest.Caller})
			api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, c.path, strings.NewReader(c.body)))
			awaitFact(t, rt, "sess_a", "turn.failed")
			if status, category := adaptertest.Turn(t, rt, "sess_a"); status != "cancelled" || category != "interrupted" {
				t.Errorf("the turn is %s, %s", status, category)
			}
		})
	}
}

// awaitFact returns when a session has a fact of a type.
func awaitFact(t *testing.T, rt runtime, sessionID, kind string) {
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
		for i := range facts {
			if strings.Contains(string(facts[i].Data), `"`+kind+`"`) {
				return
			}
		}
	}
}
