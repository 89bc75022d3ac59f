package agui_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/channel/agui"
	"agentd/internal/adaptertest"
)

// Whatever a run's input is, it is the caller's mistake or refers to nothing.
func FuzzInput(f *testing.F) {
	f.Add(message("thread_a", "run_1", "hello"))
	f.Add(`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"text","text":"x"},{"type":"binary","mimeType":"image/png","data":"AA=="}]}],"forwardedProps":{"model":"a/b"}}`)
	f.Add(`{"threadId":"t","runId":"r","resume":[{"interruptId":"a","status":"resolved","payload":{"approved":true}}],"state":{"x":1},"context":[{"description":"d","value":"v"}]}`)
	f.Add(`{"threadId":1}`)
	f.Add(`[`)
	h := agui.New(agui.Options{Runtime: adaptertest.Refusing{}, Caller: adaptertest.Caller})
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agui", strings.NewReader(body)))
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
