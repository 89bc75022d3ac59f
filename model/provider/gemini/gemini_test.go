package gemini

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
	"agentd/model/provider/providertest"
)

func create(o httpstream.Options) model.Provider { return New(o) }

const usage = `"usageMetadata":{"promptTokenCount":40,"cachedContentTokenCount":30,"candidatesTokenCount":7,"thoughtsTokenCount":5,"toolUsePromptTokenCount":2,"totalTokenCount":54}`

func parts(p string) string {
	return `{"candidates":[{"content":{"parts":[` + p + `],"role":"model"},"index":0}],"responseId":"r1","modelVersion":"m"}`
}

func last(p, reason string) string {
	return `{"candidates":[{"content":{"parts":[` + p + `],"role":"model"},"finishReason":"` + reason + `","finishMessage":"why","index":0}],` + usage + `,"responseId":"r1"}`
}

var hello = providertest.Events(parts(`{"text":"Grüße, "}`), parts(`{"text":"世界! "}`), last(`{"text":"👋"}`, "STOP"))

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: create, Hello: hello,
		Whole:         "[" + parts(`{"text":"Grüße, "}`) + ",\n" + last(`{"text":"世界! 👋"}`, "STOP") + "]",
		Half:          providertest.Events(parts(`{"text":"Half"}`)),
		Failure:       `[{"error":{"code":400,"message":"%s","status":"INVALID_ARGUMENT"}}]`,
		Overflow:      `{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`,
		StreamFailure: providertest.Events(`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`),
		Content:       content(),
	})
}

func content() providertest.Content {
	hi := func(reason string) string {
		return providertest.Events(parts(`{"text":"H"}`), last(`{"text":"i"}`, reason))
	}
	return providertest.Content{
		Calls: providertest.Events(
			parts(`{"text":"I "}`), parts(`{"text":"look."}`), parts(`{"functionCall":{"name":"read_file","args":{"path":"ä.txt"}},"thoughtSignature":"c2ln"}`),
			parts(`{"functionCall":{"name":"shell","args":{"command":"ls"}}}`), last(``, "STOP"),
		),
		WholeCalls: true,
		Reasoning:  providertest.Events(parts(`{"text":"Hmm, ","thought":true}`), parts(`{"text":"so.","thought":true}`), last(`{"text":"Hi"}`, "STOP")),
		Usage:      event.Usage{InputTokens: 42, OutputTokens: 12, CachedInputTokens: 30, ReasoningTokens: 5},
		// The vendor blocks the prompt, and has no word for a model that declines.
		Refusal: providertest.Events(`{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},` + usage + `,"modelVersion":"m"}`), RefusalFails: true,
		Filtered: hi("SAFETY"),
		Stops:    map[string]string{"end_turn": hi("STOP"), "max_tokens": hi("MAX_TOKENS"), "other": hi("OTHER")},
		Split:    providertest.Events(parts(`{"text":"a\ud83d"}`), last(`{"text":"\udc4bz"}`, "STOP")),
		Slow:     providertest.Events(parts(`{"text":"Half"}`), `{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}`),
	}
}

func play(t *testing.T, events ...string) providertest.Result {
	t.Helper()
	srv := providertest.Play(t, providertest.Events(events...), 3)
	return providertest.Collect(t.Context(), t, New(Options{BaseURL: srv.URL}), &model.Request{Model: "m", RequestID: "mr_01"})
}

func TestUsage(t *testing.T) {
	got := play(t, parts(`{"text":"Thinking","thought":true}`), last(`{"text":"Hi"}`, "STOP"))
	want := event.Usage{InputTokens: 42, OutputTokens: 12, CachedInputTokens: 30, ReasoningTokens: 5}
	if got.Err != nil || got.Text != "Hi" || got.Reasoning != "Thinking" || got.Done.Usage != want || got.Done.ResponseID != "r1" || got.Done.Native != nil {
		t.Fatalf("got %+v, %+v, %v", got, got.Done, got.Err)
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		event, stop, category string
		retryable             bool
	}{
		{last(`{"text":"a"}`, "STOP"), "end_turn", "", false},
		{last(`{"text":"a"}`, "MAX_TOKENS"), "max_tokens", "", false},
		{last(`{"text":"a"}`, "OTHER"), "other", "", false},
		{last(``, "SAFETY"), "", model.ContentFilter, false},
		{last(``, "RECITATION"), "", model.ContentFilter, false},
		{last(``, "PROHIBITED_CONTENT"), "", model.ContentFilter, false},
		{last(``, "MALFORMED_FUNCTION_CALL"), "", model.Malformed, true},
		{`{"promptFeedback":{"blockReason":"SAFETY"},` + usage + `}`, "", model.ContentFilter, false},
		{`{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}`, "", model.RateLimited, true},
		{`{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`, "", model.Auth, false},
	} {
		got := play(t, c.event)
		if c.stop != "" && (got.Done == nil || got.Done.StopReason != c.stop) {
			t.Errorf("%s: got %+v, %v", c.event, got.Done, got.Err)
		}
		if c.category != "" && (got.Err == nil || got.Err.Category != c.category || got.Err.Retryable != c.retryable) {
			t.Errorf("%s: got %+v", c.event, got.Err)
		}
		if strings.Contains(c.event, "retryDelay") && got.Err != nil && got.Err.RetryAfter.Seconds() != 17 {
			t.Errorf("waits %s", got.Err.RetryAfter)
		}
	}
}

// TestSignaturesGoBack plays an answer with thought signatures and parallel calls
// and looks at how the next request gives them back.
func TestSignaturesGoBack(t *testing.T) {
	got := play(
		t, parts(`{"text":"I "}`), parts(`{"text":"look."}`),
		parts(`{"functionCall":{"name":"shell","args":{"command":"ls"}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"plan","args":{},"id":"f7"}}`),
		last(`{"text":"","thoughtSignature":"dGFpbA=="}`, "STOP"),
	)
	calls := []model.ToolCall{
		{ProviderID: "made_mr_01_0", Name: "shell", Arguments: event.Raw(`{"command":"ls"}`)}, {ProviderID: "f7", Name: "plan", Arguments: event.Raw(`{}`)},
	}
	if d := cmp.Diff(calls, got.Calls); d != "" || got.Text != "I look." || got.Done.StopReason != "tool_use" {
		t.Fatalf("%s %+v %v", d, got.Done, got.Err)
	}
	conversation := func(by string) []*model.Message {
		return []*model.Message{
			{Role: model.RoleUser, Text: "Hi"},
			{Role: model.RoleAssistant, Text: got.Text, ToolCalls: got.Calls, Native: got.Done.Native, NativeBy: by},
			{Role: model.RoleTool, ToolCallID: "made_mr_01_0", ToolName: "shell", Text: "a.txt"},
			{Role: model.RoleTool, ToolCallID: "f7", ToolName: "plan", Text: "no", IsError: true},
		}
	}
	text := map[string]any{"text": "I look."}
	shell, plan := map[string]any{"name": "shell", "args": map[string]any{"command": "ls"}}, map[string]any{"name": "plan", "args": map[string]any{}, "id": "f7"}
	for _, c := range []struct {
		name, model, by string
		want            []any
	}{
		{"its own", "gemini-3-pro", "gemini", []any{text, map[string]any{"functionCall": shell, "thoughtSignature": "c2ln"}, map[string]any{"functionCall": plan}, map[string]any{"text": "", "thoughtSignature": "dGFpbA=="}}},
		{"another's, strict model", "gemini-3-pro", "x", []any{text, map[string]any{"functionCall": shell, "thoughtSignature": noSignature}, map[string]any{"functionCall": plan}}},
		{"another's, older model", "gemini-2.5-pro", "x", []any{text, map[string]any{"functionCall": shell}, map[string]any{"functionCall": plan}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := body(t, &model.Request{Model: c.model, Messages: conversation(c.by)})
			if d := cmp.Diff(c.want, providertest.At(t, v, "contents.1.parts")); d != "" {
				t.Error(d)
			}
			// Parallel results are one content.
			results := map[string]any{"role": "user", "parts": []any{
				map[string]any{"functionResponse": map[string]any{"name": "shell", "response": map[string]any{"output": "a.txt"}}},
				map[string]any{"functionResponse": map[string]any{"name": "plan", "id": "f7", "response": map[string]any{"error": "no"}}},
			}}
			if d := cmp.Diff(results, providertest.At(t, v, "contents.2")); d != "" {
				t.Error(d)
			}
		})
	}
}

func body(t *testing.T, r *model.Request) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(New(Options{}).body(r).Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRequest(t *testing.T) {
	srv := providertest.Play(t, hello, 0)
	r := &model.Request{
		Model: "gemini-2.5-pro", System: "Be kind.", MaxOutputTokens: 9, OutputSchema: event.Raw(`{"type":"object","properties":{"a":{"type":"string"}}}`),
		Tools:    []model.ToolSpec{{Name: "shell", Description: "Runs", Schema: event.Raw(`{"type":"object","additionalProperties":false}`)}},
		Messages: []*model.Message{{Role: model.RoleUser, Text: "Look", Media: []model.Media{{MediaType: "image/png", Data: []byte{1}}, {MediaType: "application/pdf", URL: "https://files.example/a.pdf"}, {MediaType: "text/plain", Name: "n", Data: []byte("w")}}}},
	}
	p := New(Options{BaseURL: srv.URL, APIKey: providertest.Key(), Extra: map[string]json.RawMessage{"generationConfig": json.RawMessage(`{"temperature":0.5}`)}})
	if got := providertest.Collect(t.Context(), t, p, r); got.Err != nil {
		t.Fatal(got.Err)
	}
	path, header, _ := srv.Last()
	if path != "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse" || header.Get("X-Goog-Api-Key") != providertest.Key() {
		t.Fatalf("%s %v", path, header)
	}
	want := map[string]any{
		"systemInstruction": map[string]any{"parts": []any{map[string]any{"text": "Be kind."}}},
		"tools":             []any{map[string]any{"functionDeclarations": []any{map[string]any{"name": "shell", "description": "Runs", "parametersJsonSchema": map[string]any{"type": "object", "additionalProperties": false}}}}},
		"contents": []any{map[string]any{"role": "user", "parts": []any{
			map[string]any{"inlineData": map[string]any{"mimeType": "image/png", "data": "AQ=="}},
			map[string]any{"fileData": map[string]any{"mimeType": "application/pdf", "fileUri": "https://files.example/a.pdf"}},
			map[string]any{"text": "n:\nw"},
			map[string]any{"text": "Look"},
		}}},
		"generationConfig": map[string]any{
			"maxOutputTokens": 9.0, "temperature": 0.5, "responseMimeType": "application/json", "thinkingConfig": map[string]any{"includeThoughts": true},
			"responseSchema": map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}},
		},
	}
	if d := cmp.Diff(want, srv.Body(t)); d != "" {
		t.Error(d)
	}
}

func TestSchemaForms(t *testing.T) {
	for schema, older := range map[string]bool{
		`{"type":"object","properties":{"type":{"type":"array","items":{"type":"string"}}},"required":["type"]}`: true,
		`{"anyOf":[{"type":"string"},{"type":"integer","minimum":1}]}`:                                           true,
		`{"type":"object","additionalProperties":false}`:                                                         false,
		`{"type":["string","null"]}`:                                                                             false,
		`{"$ref":"#/$defs/a"}`:                                                                                   false,
		`{"properties":{"a":{"items":{"const":1}}}}`:                                                             false,
		`{"properties":[]}`:                                                                                      false,
		`true`:                                                                                                   false,
	} {
		if got := isSubset([]byte(schema)); got != older {
			t.Errorf("%s: %v", schema, got)
		}
	}
}

func TestPathsAndModels(t *testing.T) {
	for _, c := range []struct{ base, model, want string }{
		{"https://g.example", "gemini-2.5-flash", "v1beta/models/gemini-2.5-flash:streamGenerateContent"},
		{"https://g.example/v1beta/", "models/x", "models/x:streamGenerateContent"},
		{"https://g.example/v1/projects/p", "tunedModels/a b", "tunedModels/a%20b:streamGenerateContent"},
	} {
		if got := New(Options{BaseURL: c.base}).path(c.model); got != c.want {
			t.Errorf("%s %s: %s", c.base, c.model, got)
		}
	}
	for name, want := range map[string][2]bool{
		"gemini-2.5-pro": {true, false}, "gemini-2.0-flash": {false, false}, "gemini-3-pro-preview": {true, true}, "models/gemini-3.1-pro": {true, true},
		"gemini-2.5-flash-image": {false, false}, "gemma-3": {false, false}, "gemini-99999": {false, false},
	} {
		if got := [2]bool{thinks(name), signs(name)}; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(providertest.Events(parts(`{"functionCall":{"name":"a","args":[1]},"thoughtSignature":"x"}`), last(`{"text":"","thoughtSignature":"y"}`, "STOP"))))
	f.Add([]byte("[" + last(`{"thought":true,"text":"a","thoughtSignature":"z"}`, "STOP") + "]"))
	providertest.Fuzz(f, create)
}

func BenchmarkRequest(b *testing.B) { providertest.BenchmarkRequest(b, create, hello) }

func TestBodiesGrow(t *testing.T) {
	p := New(Options{Name: "local", BaseURL: "http://127.0.0.1:1"})
	for _, name := range []string{"gemini-2.5-pro", "gemini-3-pro"} {
		providertest.BodiesGrow(t, name, func(r *model.Request) []byte { return p.body(r).Bytes() })
	}
}
