package openaiapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/channel/openaiapi"
	"agentd/internal/adaptertest"
)

// Whatever a request to the OpenAI-compatible addresses is, it is the caller's
// mistake or refers to nothing.
func FuzzInput(f *testing.F) {
	f.Add("/v1/chat/completions", `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}],"stream":true}`)
	f.Add("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`)
	f.Add("/v1/responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_file","filename":"f","file_data":"AA=="}]}],"conversation":{"id":"c"}}`)
	f.Add("/v1/responses", `{"model":"m","input":"x","previous_response_id":"resp_1"}`)
	f.Add("/v1/responses", `{"input":{}}`)
	f.Add("/v1/chat/completions", `[`)
	api := openaiapi.New(openaiapi.Options{Runtime: adaptertest.Refusing{}, Caller: adaptertest.Caller, Models: func() []string { return []string{"m"} }})
	f.Fuzz(func(t *testing.T, path, body string) {
		if path != "/v1/responses" {
			path = "/v1/chat/completions"
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
