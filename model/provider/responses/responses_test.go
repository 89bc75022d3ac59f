package responses

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
	"agentd/model/provider/providertest"
)

func create(o httpstream.Options) model.Provider { return New(o) }

const (
	created   = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"usage":null,"error":null,"incomplete_details":null}}`
	msgAdded  = `{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}`
	partAdded = `{"type":"response.content_part.added","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`
	completed = `{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[],"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":10},"output_tokens":12,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":42}}}`
)

func delta(s string) string {
	return `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"` + s + `"}`
}

func msgDone(s string) string {
	return `{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"` + s + `","annotations":[]}]}}`
}

func callDone(index, id, name, args string) string {
	return `{"type":"response.output_item.done","output_index":` + index + `,"item":{"id":"fc_` + id + `","type":"function_call","status":"completed","call_id":"` + id + `","name":"` + name + `","arguments":"` + args + `"}}`
}

var hello = providertest.Named(created, msgAdded, partAdded, delta("Grüße, "), delta("世界! "), delta("👋"), msgDone(providertest.HelloText), completed)

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: create, Hello: hello,
		Whole:         `{"id":"resp_1","object":"response","status":"completed","error":null,"output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"Grüße, 世界! 👋"}]}],"usage":{"input_tokens":1,"output_tokens":2}}`,
		Half:          providertest.Named(created, msgAdded, partAdded, delta("Half")),
		Failure:       `{"error":{"message":"%s","type":"invalid_request_error","param":null,"code":null}}`,
		Overflow:      `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}`,
		StreamFailure: providertest.Named(`{"type":"error","code":"server_is_overloaded","message":"Try later","param":null,"sequence_number":4}`),
		Content:       content(),
	})
}

// incomplete is the last event of an answer that was broken off.
func incomplete(reason string) string {
	return `{"type":"response.incomplete","response":{"id":"resp_1","object":"response","status":"incomplete","incomplete_details":{"reason":"` + reason + `"},"output":[],"usage":{"input_tokens":1,"output_tokens":2}}}`
}

func content() providertest.Content {
	hi := func(last string) string {
		return providertest.Named(created, msgAdded, partAdded, delta("H"), delta("i"), msgDone("Hi"), last)
	}
	cut := func(args string) string {
		return `{"type":"response.output_item.done","output_index":0,"item":{"id":"fc_1","type":"function_call","status":"incomplete","call_id":"call_1","name":"shell","arguments":"` + args + `"}}`
	}
	return providertest.Content{
		Calls: providertest.Named(
			created, msgAdded, partAdded, delta("I look."), msgDone("I look."),
			`{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read_file","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_1","delta":"{\"path\""}`,
			`{"type":"response.function_call_arguments.done","output_index":1,"item_id":"fc_1","arguments":"{\"path\":\"ä.txt\"}"}`,
			callDone("1", "call_1", "read_file", `{\"path\":\"ä.txt\"}`), callDone("2", "call_2", "shell", `{\"command\":\"ls\"}`), completed,
		),
		Reasoning: providertest.Named(
			created, `{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Hmm, "}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"so."}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Hmm, so."}],"encrypted_content":"enc"}}`,
			`{"type":"response.output_text.delta","output_index":1,"delta":"Hi"}`, completed,
		),
		Usage:    event.Usage{InputTokens: 30, OutputTokens: 12, CachedInputTokens: 10, ReasoningTokens: 5},
		Refusal:  providertest.Named(created, `{"type":"response.refusal.delta","output_index":0,"delta":"I won't"}`, `{"type":"response.refusal.done","output_index":0,"refusal":"I won't"}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"I won't"}]}}`, completed),
		Filtered: hi(incomplete("content_filter")),
		Stops:    map[string]string{"end_turn": hi(completed), "max_tokens": hi(incomplete("max_output_tokens")), "other": hi(incomplete("tired"))},
		CutCall:  providertest.Named(created, cut(`{\"command\":\"rm`), incomplete("max_output_tokens")),
		BareCall: providertest.Named(created, cut(``), incomplete("max_output_tokens")),
		Split:    providertest.Named(created, msgAdded, partAdded, delta(`a\ud83d`), delta(`\udc4bz`), completed),
		Slow:     providertest.Named(created, delta("Half"), `{"type":"response.failed","response":{"id":"resp_1","object":"response","status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 20ms"}}}`),
	}
}

func play(t *testing.T, events ...string) providertest.Result {
	t.Helper()
	srv := providertest.Play(t, providertest.Named(events...), 3)
	return providertest.Collect(t.Context(), t, New(Options{BaseURL: srv.URL}), &model.Request{Model: "m", RequestID: "mr_01"})
}

func TestUsage(t *testing.T) {
	got := play(t, created, delta("Hi"), msgDone("Hi"), completed)
	if want := (event.Usage{InputTokens: 30, OutputTokens: 12, CachedInputTokens: 10, ReasoningTokens: 5}); got.Done == nil || got.Text != "Hi" || got.Done.Usage != want || got.Done.ResponseID != "resp_1" {
		t.Fatalf("got %q %+v, %v", got.Text, got.Done, got.Err)
	}
}

func TestEnds(t *testing.T) {
	last := func(kind, rest string) string {
		return `{"type":"response.` + kind + `","response":{"id":"resp_1","object":"response",` + rest + `}}`
	}
	for _, c := range []struct {
		name, event, stop, category string
		retryable                   bool
	}{
		{"too long", last("incomplete", `"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`), "max_tokens", "", false},
		{"filter", last("incomplete", `"status":"incomplete","incomplete_details":{"reason":"content_filter"}`), "", model.ContentFilter, false},
		{"another reason", last("incomplete", `"status":"incomplete","incomplete_details":{"reason":"tired"}`), "other", "", false},
		{"rate", last("failed", `"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 20ms"}`), "", model.RateLimited, true},
		{"overflow", last("failed", `"status":"failed","error":{"code":"context_length_exceeded","message":"too long"}`), "", model.ContextOverflow, false},
		{"quota", last("failed", `"status":"failed","error":{"code":"insufficient_quota","message":"pay"}`), "", model.RateLimited, false},
		{"server", last("failed", `"status":"failed","error":{"code":"server_error","message":"oops"}`), "", model.ServerError, true},
		{"unexplained", last("failed", `"status":"failed","error":null`), "", model.ServerError, true},
		{"policy", last("failed", `"status":"failed","error":{"code":"invalid_prompt","message":"flagged"}`), "", model.ContentFilter, false},
		{"cancelled", last("cancelled", `"status":"cancelled"`), "", model.ServerError, true},
		{"event without its response", `{"type":"response.completed"}`, "", model.Malformed, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := play(t, created, delta("Hi"), c.event)
			if c.stop != "" && (got.Done == nil || got.Done.StopReason != c.stop) {
				t.Fatalf("got %+v, %v", got.Done, got.Err)
			}
			if c.category != "" && (got.Err == nil || got.Err.Category != c.category || got.Err.Retryable != c.retryable) {
				t.Fatalf("got %+v", got.Err)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	got := play(t, created, `{"type":"response.refusal.delta","output_index":0,"delta":"I won't"}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"I won't"}]}}`, completed)
	if got.Done == nil || got.Done.StopReason != "refusal" || got.Text != "I won't" {
		t.Fatalf("got %q, %+v, %v", got.Text, got.Done, got.Err)
	}
}

func TestToolCalls(t *testing.T) {
	got := play(
		t, created,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","call_id":"call_1","name":"shell","arguments":""}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_2","type":"function_call","call_id":"call_2","name":"plan","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc_2","delta":"{}"}`,
		`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":"{\"command\""}`,
		`{"type":"response.function_call_arguments.done","output_index":0,"item_id":"fc_1","arguments":"{\"command\":\"ls\"}"}`,
		callDone("0", "call_1", "shell", `{\"command\":\"ls\"}`), callDone("1", "call_2", "plan", ``), callDone("2", "call_3", "cut", `{\"a\"`), completed,
	)
	want := []model.ToolCall{
		{ProviderID: "call_1", Name: "shell", Arguments: event.Raw(`{"command":"ls"}`)}, {ProviderID: "call_2", Name: "plan", Arguments: event.Raw(`{}`)}, {ProviderID: "call_3", Name: "cut", Malformed: `{"a"`},
	}
	if d := cmp.Diff(want, got.Calls); d != "" || got.Done.StopReason != "tool_use" || got.Done.Native != nil {
		t.Fatalf("%s %+v %v", d, got.Done, got.Err)
	}
}

// TestTheLastEventIsEnough: a server may send no items before it.
func TestTheLastEventIsEnough(t *testing.T) {
	got := play(t, `{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"Hmm"}]},{"type":"message","content":[{"type":"output_text","text":"Hi"}]},{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"}]}}`)
	if got.Err != nil || got.Text != "Hi" || got.Reasoning != "Hmm" || len(got.Calls) != 1 || !got.Done.Estimated {
		t.Fatalf("got %+v, %v", got, got.Err)
	}
}

func TestReasoningGoesBack(t *testing.T) {
	summary := func(part, s string) string {
		return `{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":` + part + `,"delta":"` + s + `"}`
	}
	got := play(
		t, created, summary("0", "First "), summary("0", "part."), summary("1", "Second."),
		`{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","status":"completed","summary":[{"type":"summary_text","text":"First part."},{"type":"summary_text","text":"Second."}],"encrypted_content":"enc"}}`,
		`{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"I look."}]}}`,
		callDone("2", "call_1", "shell", `{}`), completed,
	)
	if got.Err != nil || got.Reasoning != "First part.\n\nSecond." || got.Text != "I look." {
		t.Fatalf("got %+v, %v", got, got.Err)
	}
	answer := func(by string) *model.Message {
		return &model.Message{Role: model.RoleAssistant, Text: got.Text, Reasoning: got.Reasoning, ToolCalls: got.Calls, Native: got.Done.Native, NativeBy: by}
	}
	use := map[string]any{"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": "{}"}
	want := []any{
		map[string]any{"id": "rs_1", "type": "reasoning", "encrypted_content": "enc", "summary": []any{map[string]any{"type": "summary_text", "text": "First part."}, map[string]any{"type": "summary_text", "text": "Second."}}},
		map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary", "content": []any{map[string]any{"type": "output_text", "text": "I look."}}},
		use,
	}
	if d := cmp.Diff(want, body(t, &model.Request{Messages: []*model.Message{answer("openai_responses")}})["input"]); d != "" {
		t.Error(d)
	}
	want = []any{map[string]any{"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": "I look."}}}, use}
	if d := cmp.Diff(want, body(t, &model.Request{Messages: []*model.Message{answer("other")}})["input"]); d != "" {
		t.Error(d)
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
		Model: "gpt-5", System: "Be kind.", OutputSchema: event.Raw(`{"type":"object","properties":{"a":{}}}`), MaxOutputTokens: 9, CacheKey: "thread",
		Tools: []model.ToolSpec{{Name: "shell", Description: "Runs", Schema: event.Raw(`{"type":"object"}`)}},
		Messages: []*model.Message{
			{Role: model.RoleUser, Text: "Look", Media: []model.Media{{MediaType: "image/png", Data: []byte{1}}, {MediaType: "application/pdf", Data: []byte("%")}}},
			{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ProviderID: "c1", Name: "shell", Arguments: event.Raw(`{}`)}, {ProviderID: "c2", Name: "shell", Malformed: "{"}}},
			{Role: model.RoleTool, ToolCallID: "c1", Text: "x", Media: []model.Media{{MediaType: "image/png", URL: "https://pictures.example/a.png"}}},
			{Role: model.RoleTool, ToolCallID: "c2", Text: "bad", IsError: true},
		},
	}
	p := New(Options{BaseURL: srv.URL + "/v1", APIKey: providertest.Key(), Extra: map[string]json.RawMessage{"reasoning": json.RawMessage(`{"summary":"auto"}`), "text": json.RawMessage(`{"verbosity":"low"}`)}})
	if got := providertest.Collect(t.Context(), t, p, r); got.Err != nil {
		t.Fatal(got.Err)
	}
	path, header, _ := srv.Last()
	if path != "/v1/responses" || header.Get("Authorization") != "Bearer "+providertest.Key() {
		t.Fatalf("%s %v", path, header)
	}
	sent := srv.Body(t)
	want := map[string]any{
		"model": "gpt-5", "instructions": "Be kind.", "max_output_tokens": 9.0, "prompt_cache_key": "thread", "store": false, "stream": true,
		"include": []any{"reasoning.encrypted_content"}, "reasoning": map[string]any{"summary": "auto"}, "text.verbosity": "low",
		"text.format.type": "json_schema", "text.format.strict": false,
		"tools": []any{map[string]any{"type": "function", "name": "shell", "description": "Runs", "strict": false, "parameters": map[string]any{"type": "object"}}},
		"input.0": map[string]any{"type": "message", "role": "user", "content": []any{
			map[string]any{"type": "input_text", "text": "Look"},
			map[string]any{"type": "input_image", "image_url": "data:image/png;base64,AQ=="},
			map[string]any{"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,JQ=="},
		}},
		"input.1": map[string]any{"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"},
		"input.2": map[string]any{"type": "function_call", "call_id": "c2", "name": "shell", "arguments": "{}"},
		"input.3": map[string]any{"type": "function_call_output", "call_id": "c1", "output": []any{map[string]any{"type": "input_text", "text": "x"}, map[string]any{"type": "input_image", "image_url": "https://pictures.example/a.png"}}},
		"input.4": map[string]any{"type": "function_call_output", "call_id": "c2", "output": "Error: bad"},
	}
	for path, w := range want {
		if d := cmp.Diff(w, providertest.At(t, sent, path)); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}
	if _, ok := body(t, &model.Request{Model: "gpt-4.1"})["include"]; ok {
		t.Error("a model without reasoning is asked for it")
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(providertest.Named(created, callDone("0", "a", "b", "{"), `{"type":"response.output_item.done","item":{"type":"reasoning","encrypted_content":"e"}}`, completed)))
	f.Add([]byte(`{"object":"response","output":[{"type":"message","phase":"x","content":[{"refusal":"no"}]}]}`))
	f.Add([]byte(providertest.Named(`{"type":"response.failed","response":{"status":"failed","error":7}}`)))
	providertest.Fuzz(f, create)
}

func BenchmarkRequest(b *testing.B) { providertest.BenchmarkRequest(b, create, hello) }

func TestBodiesGrow(t *testing.T) {
	p := New(Options{Name: "local", BaseURL: "http://127.0.0.1:1/v1"})
	providertest.BodiesGrow(t, "m", func(r *model.Request) []byte { return p.body(r).Bytes() })
}
