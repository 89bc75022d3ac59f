package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
	"agentd/model/provider/providertest"
)

func make1(o httpstream.Options) model.Provider { return New(o) }

// piece is a chunk with a delta.
func piece(delta string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

func finish(reason string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const usageChunk = `{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":4}}}`

var hello = providertest.Events(
	piece(`{"role":"assistant","content":"","refusal":null}`), piece(`{"content":"Grüße, "}`), piece(`{"content":"世界! "}`), piece(`{"content":"👋"}`),
	finish("stop"), usageChunk, "[DONE]",
)

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: make1, Hello: hello,
		Whole:         `{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Grüße, 世界! 👋"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`,
		Half:          providertest.Events(piece(`{"role":"assistant","content":"Half"}`)),
		Failure:       `{"error":{"message":"%s","type":"invalid_request_error","param":null,"code":null}}`,
		Overflow:      `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		StreamFailure: providertest.Events(`{"error":{"message":"The engine is currently overloaded","type":"overloaded_error","code":null}}`),
		Content:       contents(),
	})
}

func contents() providertest.Content {
	hi := func(reason string) string {
		return providertest.Events(piece(`{"content":"Hi"}`), finish(reason), usageChunk, "[DONE]")
	}
	return providertest.Content{
		Calls: providertest.Events(
			piece(`{"role":"assistant","content":"I look."}`),
			piece(`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read_file","arguments":""}}]}`),
			piece(`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"shell","arguments":"{\"comm"}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"ä"}}]}`),
			piece(`{"tool_calls":[{"index":1,"function":{"arguments":"and\": \"ls\"}"}},{"index":0,"function":{"arguments":".txt\"}"}}]}`),
			finish("tool_calls"), usageChunk, "[DONE]",
		),
		Reasoning: providertest.Events(piece(`{"reasoning_content":"Hmm, "}`), piece(`{"reasoning_content":"so."}`), piece(`{"content":"Hi"}`), finish("stop"), usageChunk, "[DONE]"),
		Usage:     event.Usage{InputTokens: 20, OutputTokens: 9, CachedInputTokens: 16, ReasoningTokens: 4},
		Refusal:   providertest.Events(piece(`{"refusal":"I can't "}`), piece(`{"refusal":"do that."}`), finish("stop"), usageChunk, "[DONE]"),
		Filtered:  providertest.Events(piece(`{"content":"Hi"}`), finish("content_filter"), "[DONE]"),
		Stops:     map[string]string{"end_turn": hi("stop"), "max_tokens": hi("length"), "other": hi("tired")},
		CutCall:   providertest.Events(piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"shell","arguments":"{\"command\":\"rm"}}]}`), finish("length"), usageChunk, "[DONE]"),
		BareCall:  providertest.Events(piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"shell","arguments":""}}]}`), finish("length"), usageChunk, "[DONE]"),
		Split:     providertest.Events(piece(`{"content":"a\ud83d"}`), piece(`{"content":"\udc4bz"}`), finish("stop"), usageChunk, "[DONE]"),
		Slow:      providertest.Events(piece(`{"content":"Half"}`), `{"error":{"code":"rate_limit_exceeded","type":"requests","message":"Please try again in 1s."}}`),
	}
}

func play(t *testing.T, stream string) providertest.Result {
	t.Helper()
	srv := providertest.Play(t, stream, 3)
	return providertest.Collect(t.Context(), t, New(Options{BaseURL: srv.URL + "/v1"}), &model.Request{
		Model: "m", RequestID: "mr_01", Messages: []*model.Message{{Role: model.RoleUser, Text: "12345678"}}, Tools: []model.ToolSpec{{Name: "files/read"}},
	})
}

func TestStreams(t *testing.T) {
	call := func(id, name, args string) model.ToolCall {
		return model.ToolCall{ProviderID: id, Name: name, Arguments: event.Raw(args)}
	}
	for _, c := range []struct {
		name   string
		events []string
		want   providertest.Result
	}{
		{"usage with cached and reasoning tokens", []string{piece(`{"content":"Hi"}`), finish("stop"), usageChunk, "[DONE]"}, providertest.Result{
			Text: "Hi", Done: &model.Done{StopReason: "end_turn", Usage: event.Usage{InputTokens: 20, OutputTokens: 9, CachedInputTokens: 16, ReasoningTokens: 4}},
		}},
		{"usage with the last piece, no [DONE]", []string{`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_cache_hit_tokens":1}}`}, providertest.Result{
			Text: "Hi", Done: &model.Done{StopReason: "end_turn", Usage: event.Usage{InputTokens: 1, OutputTokens: 2, CachedInputTokens: 1}},
		}},
		{"usage in another place", []string{piece(`{"content":"Hi"}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}`}, providertest.Result{
			Text: "Hi", Done: &model.Done{StopReason: "end_turn", Usage: event.Usage{InputTokens: 1, OutputTokens: 2}},
		}},
		{"no usage", []string{piece(`{"content":"Hello you"}`), finish("stop"), "[DONE]"}, providertest.Result{
			Text: "Hello you", Done: &model.Done{StopReason: "end_turn", Usage: event.Usage{InputTokens: 5, OutputTokens: 3}, Estimated: true},
		}},
		{"only [DONE]", []string{piece(`{"content":"Hi"}`), "[DONE]"}, providertest.Result{
			Text: "Hi", Done: &model.Done{StopReason: "end_turn", Estimated: true, Usage: event.Usage{InputTokens: 5, OutputTokens: 1}},
		}},
		{"cut by length", []string{piece(`{"content":"Hi"}`), finish("length"), usageChunk}, providertest.Result{Text: "Hi", Done: &model.Done{StopReason: "max_tokens"}}},
		{"unknown reason", []string{piece(`{"content":"Hi"}`), finish("tired"), usageChunk}, providertest.Result{Text: "Hi", Done: &model.Done{StopReason: "other"}}},
		{"refusal", []string{piece(`{"refusal":"I can't "}`), piece(`{"refusal":"do that."}`), finish("stop"), usageChunk}, providertest.Result{Text: "I can't do that.", Done: &model.Done{StopReason: "refusal"}}},
		{"filter", []string{piece(`{"content":"Hi"}`), finish("content_filter")}, providertest.Result{Text: "Hi", Err: &model.Error{Category: model.ContentFilter}}},
		{"ended by an error", []string{piece(`{"content":"Hi"}`), finish("error")}, providertest.Result{Text: "Hi", Err: &model.Error{Category: model.ServerError, Retryable: true}}},
		{"error with a status", []string{piece(`{"content":"Hi"}`), `{"id":"x","error":{"code":429,"message":"slow, try again in 1.5s"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`}, providertest.Result{Text: "Hi", Err: &model.Error{Category: model.RateLimited, Retryable: true}}},
		{"parallel calls in fragments, mixed", []string{
			piece(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"shell","arguments":""}}]}`),
			piece(`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"read_file","arguments":"{\"pa"}}]}`),
			piece(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]}`),
			piece(`{"tool_calls":[{"index":1,"function":{"arguments":"th\": \"a\"}"}},{"index":0,"function":{"arguments":"\"ls\"}"}}]}`),
			finish("tool_calls"), usageChunk, "[DONE]",
		}, providertest.Result{
			Calls: []model.ToolCall{call("call_a", "shell", `{"command":"ls"}`), call("call_b", "read_file", `{"path":"a"}`)}, Done: &model.Done{StopReason: "tool_use"},
		}},
		{"whole calls without ids and index, end called stop", []string{
			piece(`{"tool_calls":[{"function":{"name":"a","arguments":"{}"}},{"function":{"name":"b","arguments":{"x":1}}}]}`), finish("stop"), usageChunk,
		}, providertest.Result{
			Calls: []model.ToolCall{call("made_mr_01_0", "a", `{}`), call("made_mr_01_1", "b", `{"x":1}`)}, Done: &model.Done{StopReason: "tool_use"},
		}},
		{"ids tell calls apart where the index doesn't", []string{
			piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]}`), piece(`{"tool_calls":[{"index":0,"id":"y","function":{"name":"a","arguments":"{}"}}]}`), finish("tool_calls"), usageChunk,
		}, providertest.Result{Calls: []model.ToolCall{call("x", "a", `{}`), call("y", "a", `{}`)}, Done: &model.Done{StopReason: "tool_use"}}},
		{"ids and names repeated in each piece", []string{
			piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"k\":"}}]}`), piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"1}"}}]}`), finish("tool_calls"), usageChunk,
		}, providertest.Result{Calls: []model.ToolCall{call("x", "a", `{"k":1}`)}, Done: &model.Done{StopReason: "tool_use"}}},
		{"the old form", []string{piece(`{"function_call":{"name":"a","arguments":"{\"k\""}}`), piece(`{"function_call":{"arguments":":1}"}}`), finish("function_call"), usageChunk}, providertest.Result{
			Calls: []model.ToolCall{call("made_mr_01_0", "a", `{"k":1}`)}, Done: &model.Done{StopReason: "tool_use"},
		}},
		{"arguments that are no JSON, nothing, and no object", []string{
			piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"k\": tru"}},{"index":1,"id":"y","function":{"name":"b","arguments":""}},{"index":2,"id":"z","function":{"name":"c","arguments":"[1]"}}]}`), finish("tool_calls"), usageChunk,
		}, providertest.Result{Calls: []model.ToolCall{{ProviderID: "x", Name: "a", Malformed: `{"k": tru`}, call("y", "b", `{}`), {ProviderID: "z", Name: "c", Malformed: `[1]`}}, Done: &model.Done{StopReason: "tool_use"}}},
		{"a tool whose name had to be changed", []string{piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"` + httpstream.ToolName("files/read") + `","arguments":"{}"}}]}`), finish("tool_calls"), usageChunk}, providertest.Result{
			Calls: []model.ToolCall{call("x", "files/read", `{}`)}, Done: &model.Done{StopReason: "tool_use"},
		}},
		{"calls announced that never came", []string{piece(`{"content":"Hi"}`), finish("tool_calls"), usageChunk}, providertest.Result{Text: "Hi", Done: &model.Done{StopReason: "end_turn"}}},
		{"reasoning_content", []string{piece(`{"reasoning_content":"Hmm, "}`), piece(`{"reasoning_content":"so."}`), piece(`{"content":"Hi"}`), finish("stop"), usageChunk}, providertest.Result{
			Reasoning: "Hmm, so.", Text: "Hi", Done: &model.Done{StopReason: "end_turn"},
		}},
		{"reasoning with a call goes back", []string{piece(`{"reasoning":"Hmm."}`), piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]}`), finish("tool_calls"), usageChunk}, providertest.Result{
			Reasoning: "Hmm.", Calls: []model.ToolCall{call("x", "a", `{}`)}, Done: &model.Done{StopReason: "tool_use", Native: event.Raw(`{"reasoning":"Hmm."}`)},
		}},
		{"reasoning details are put together", []string{
			piece(`{"reasoning":"A","reasoning_details":[{"type":"reasoning.text","index":0,"text":"A"}]}`), piece(`{"reasoning":"B","reasoning_details":[{"type":"reasoning.text","index":0,"text":"B","signature":"s"}]}`),
			piece(`{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"xyz"}]}`), piece(`{"content":"Hi"}`), finish("stop"), usageChunk,
		}, providertest.Result{Reasoning: "AB", Text: "Hi", Done: &model.Done{
			StopReason: "end_turn", Native: event.Raw(`{"reasoning_details":[{"index":0,"signature":"s","text":"AB","type":"reasoning.text"},{"data":"xyz","index":1,"type":"reasoning.encrypted"}]}`),
		}}},
		{"content in parts", []string{piece(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hmm"}]},{"type":"text","text":"Hi"}]}`), finish("stop"), usageChunk}, providertest.Result{
			Reasoning: "Hmm", Text: "Hi", Done: &model.Done{StopReason: "end_turn"},
		}},
		{"half a surrogate pair at a border", []string{piece(`{"content":"a\ud83d"}`), piece(`{"content":"\udc4bz"}`), finish("stop"), usageChunk}, providertest.Result{Text: "a👋z", Done: &model.Done{StopReason: "end_turn"}}},
		{"half a character at a border", []string{piece("{\"content\":\"a\xf0\x9f\"}"), piece("{\"content\":\"\x91\x8bz\"}"), finish("stop"), usageChunk}, providertest.Result{Text: "a👋z", Done: &model.Done{StopReason: "end_turn"}}},
		{"a character that is never finished", []string{piece("{\"content\":\"a\xf0\x9f\"}"), finish("stop"), usageChunk}, providertest.Result{Text: "a\uFFFD", Done: &model.Done{StopReason: "end_turn"}}},
		{"a comment that keeps the connection open", []string{piece(`{"content":"Hi"}`) + "\n\n: OPENROUTER PROCESSING", finish("stop"), usageChunk, "[DONE]"}, providertest.Result{Text: "Hi", Done: &model.Done{StopReason: "end_turn"}}},
		{"an error in a field of its own", []string{piece(`{"content":"Hi"}`) + "\n\nerror: {\"code\":400,\"message\":\"the request exceeds the available context size\",\"type\":\"invalid_request_error\"}", "[DONE]"}, providertest.Result{
			Text: "Hi", Err: &model.Error{Category: model.ContextOverflow},
		}},
		{"an error as an object of type error", []string{piece(`{"content":"Hi"}`), `{"object":"error","message":"Internal server error","type":"InternalServerError","param":null,"code":500}`}, providertest.Result{
			Text: "Hi", Err: &model.Error{Category: model.ServerError, Retryable: true},
		}},
		{"an error with flat members", []string{piece(`{"content":"Hi"}`), `{"error_type":"context_length_exceeded","error_message":"too many tokens"}`}, providertest.Result{
			Text: "Hi", Err: &model.Error{Category: model.ContextOverflow},
		}},
		{"text about errors", []string{piece(`{"content":"say \"error\": \"error_message\""}`), finish("stop"), usageChunk}, providertest.Result{Text: `say "error": "error_message"`, Done: &model.Done{StopReason: "end_turn"}}},
		{"other choices", []string{piece(`{"content":"Hi"}`), `{"choices":[{"index":1,"delta":{"content":"no"}}]}`, finish("stop"), usageChunk}, providertest.Result{Text: "Hi", Done: &model.Done{StopReason: "end_turn"}}},
		{"nothing but [DONE]", []string{"[DONE]"}, providertest.Result{Err: &model.Error{Category: model.Malformed, Retryable: true}}},
	} {
		t.Run(c.name, func(t *testing.T) { compare(t, play(t, providertest.Events(c.events...)), c.want) })
	}
}

// compare leaves out what only some cases care about.
func compare(t *testing.T, got, want providertest.Result) {
	t.Helper()
	if (got.Err == nil) != (want.Err == nil) || got.Err != nil && (got.Err.Category != want.Err.Category || got.Err.Retryable != want.Err.Retryable) {
		t.Fatalf("error %+v, want %+v", got.Err, want.Err)
	}
	if got.Text != want.Text || got.Reasoning != want.Reasoning {
		t.Fatalf("text %q, reasoning %q", got.Text, got.Reasoning)
	}
	if d := cmp.Diff(want.Calls, got.Calls); d != "" {
		t.Fatal(d)
	}
	if want.Done == nil {
		return
	}
	if got.Done.StopReason != want.Done.StopReason || string(got.Done.Native) != string(want.Done.Native) {
		t.Fatalf("stop %q, native %s", got.Done.StopReason, got.Done.Native)
	}
	if want.Done.Usage != (event.Usage{}) && (got.Done.Usage != want.Done.Usage || got.Done.Estimated != want.Done.Estimated) {
		t.Fatalf("usage %+v, estimated %v", got.Done.Usage, got.Done.Estimated)
	}
}

func TestWaitInAnEvent(t *testing.T) {
	got := play(t, providertest.Events(piece(`{"content":"Hi"}`), `{"error":{"code":"rate_limit_exceeded","message":"Please try again in 1.5s."}}`))
	if got.Err == nil || got.Err.RetryAfter.Seconds() != 1.5 || got.Err.Category != model.RateLimited {
		t.Fatalf("got %+v", got.Err)
	}
}

func TestTooManyCalls(t *testing.T) {
	var events []string
	for i := range httpstream.MaxToolCalls + 1 {
		events = append(events, piece(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"name":"a"}}]}`, i)))
	}
	srv := providertest.Play(t, providertest.Events(events...), 0)
	got := providertest.Collect(t.Context(), t, New(Options{BaseURL: srv.URL}), &model.Request{Model: "m"})
	if got.Err == nil || got.Err.Category != model.Malformed {
		t.Fatalf("got %+v", got)
	}
}

func TestRequest(t *testing.T) {
	srv := providertest.Play(t, hello, 0)
	r := &model.Request{
		Model: "m-1", RequestID: "mr_9", TraceParent: "00-aa-bb-01", System: "Be kind.\n\"Really\".", MaxOutputTokens: 77, CacheKey: "thread",
		OutputSchema: event.Raw(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`),
		Tools:        []model.ToolSpec{{Name: "shell", Description: "Runs a command", Schema: event.Raw(`{"type":"object","properties":{"command":{"type":"string"}}}`)}, {Name: "files/read"}},
		Messages: []*model.Message{
			{Role: model.RoleUser, Text: "Look", Media: []model.Media{
				{MediaType: "image/png", Data: []byte{1, 2, 3}},
				{MediaType: "image/jpeg", URL: "https://pictures.example/a.jpg"},
				{MediaType: "application/pdf", Name: "a.pdf", Data: []byte("%PDF")},
				{MediaType: "text/plain", Name: "a.txt", Data: []byte("words")},
				{MediaType: "application/zip", Name: "a.zip", Data: []byte{1}},
				{MediaType: "audio/wav", Data: []byte{9}},
			}},
			{Role: model.RoleAssistant, Reasoning: "secret thoughts", ToolCalls: []model.ToolCall{
				{ProviderID: "c1", Name: "shell", Arguments: event.Raw(`{"command":"ls"}`)}, {ProviderID: "c2", Name: "files/read", Malformed: "{"},
			}, NativeBy: "local", Native: event.Raw(`{"reasoning_content":"thoughts"}`)},
			{Role: model.RoleTool, ToolCallID: "c1", ToolName: "shell", Text: "a.txt", Media: []model.Media{{MediaType: "image/png", Data: []byte{4}}}},
			{Role: model.RoleTool, ToolCallID: "c2", ToolName: "files/read", Text: "not found", IsError: true},
			{Role: model.RoleAssistant, Text: "Done", NativeBy: "someone else", Native: event.Raw(`{"reasoning_content":"other"}`)},
			{Role: model.RoleUser, Text: "Thanks"},
		},
	}
	p := New(Options{Name: "local", BaseURL: srv.URL + "/v1/", APIKey: providertest.Key(), Headers: map[string]string{"X-Title": "t"}, Extra: map[string]json.RawMessage{
		"temperature": json.RawMessage("0.5"), "stream_options": json.RawMessage("null"),
	}})
	if got := providertest.Collect(t.Context(), t, p, r); got.Err != nil {
		t.Fatal(got.Err)
	}
	path, header, _ := srv.Last()
	if path != "/v1/chat/completions" || header.Get("Authorization") != "Bearer "+providertest.Key() || header.Get("X-Title") != "t" || header.Get("Traceparent") != "00-aa-bb-01" || header.Get("X-Client-Request-Id") != "mr_9" {
		t.Fatalf("%s %v", path, header)
	}
	body := srv.Body(t)
	want := map[string]any{
		"model": "m-1", "max_tokens": 77.0, "stream": true, "temperature": 0.5,
		"messages.0": map[string]any{"role": "system", "content": "Be kind.\n\"Really\"."},
		"messages.1": map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "text", "text": "Look"},
			map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,AQID"}},
			map[string]any{"type": "image_url", "image_url": map[string]any{"url": "https://pictures.example/a.jpg"}},
			map[string]any{"type": "file", "file": map[string]any{"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
			map[string]any{"type": "text", "text": "a.txt:\nwords"},
			map[string]any{"type": "text", "text": "[a.zip, application/zip, 1 bytes: not shown to this model]"},
			map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": "CQ==", "format": "wav"}},
		}},
		"messages.2": map[string]any{"role": "assistant", "content": nil, "reasoning_content": "thoughts", "tool_calls": []any{
			map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": "shell", "arguments": `{"command":"ls"}`}},
			map[string]any{"id": "c2", "type": "function", "function": map[string]any{"name": httpstream.ToolName("files/read"), "arguments": `{}`}},
		}},
		"messages.3":                         map[string]any{"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
		"messages.4":                         map[string]any{"role": "tool", "tool_call_id": "c2", "content": "Error: not found"},
		"messages.5":                         map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "From shell:"}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64,BA=="}}}},
		"messages.6":                         map[string]any{"role": "assistant", "content": "Done"},
		"messages.7":                         map[string]any{"role": "user", "content": "Thanks"},
		"tools.0":                            map[string]any{"type": "function", "function": map[string]any{"name": "shell", "description": "Runs a command", "parameters": map[string]any{"type": "object", "properties": map[string]any{"command": map[string]any{"type": "string"}}}}},
		"tools.1.function.parameters":        map[string]any{"type": "object", "properties": map[string]any{}},
		"response_format.json_schema.strict": true,
		"response_format.json_schema.schema.type": "object",
	}
	for path, w := range want {
		if d := cmp.Diff(w, providertest.At(t, body, path)); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}
	for _, absent := range []string{"stream_options", "prompt_cache_key", "max_completion_tokens"} {
		if _, ok := body[absent]; ok {
			t.Errorf("%s is sent", absent)
		}
	}
}

// TestWhatCallsBringAlongGoesBack: Gemini's compatible door puts the signatures of
// its thoughts on the calls, and refuses calls that come back without.
func TestWhatCallsBringAlongGoesBack(t *testing.T) {
	got := play(t, providertest.Events(
		piece(`{"reasoning_content":"Hmm."}`),
		piece(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}`),
		piece(`{"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"index":1,"id":"y","function":{"name":"b","arguments":"{}"},"extra_content":null}]}`),
		finish("tool_calls"), usageChunk, "[DONE]",
	))
	if got.Err != nil || len(got.Calls) != 2 || string(got.Calls[0].Arguments) != "{}" {
		t.Fatalf("got %+v, %v", got.Calls, got.Err)
	}
	encode := func(by string) map[string]any {
		p := New(Options{Name: "g", BaseURL: "http://127.0.0.1:1/v1"})
		var body map[string]any
		if err := json.Unmarshal(p.body(&model.Request{Model: "m", Messages: []*model.Message{
			{Role: model.RoleAssistant, ToolCalls: got.Calls, Native: got.Done.Native, NativeBy: by},
		}}).Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		return providertest.At(t, body, "messages.0").(map[string]any)
	}
	back := encode("g")
	want := map[string]any{"google": map[string]any{"thought_signature": "c2ln"}}
	if d := cmp.Diff(want, providertest.At(t, back, "tool_calls.0.extra_content")); d != "" {
		t.Fatal(d)
	}
	second := providertest.At(t, back, "tool_calls.1").(map[string]any)
	if _, has := second["extra_content"]; has || second["id"] != "y" || back["reasoning_content"] != "Hmm." || len(back["tool_calls"].([]any)) != 2 {
		t.Fatalf("%v", back)
	}
	// What one provider brought along is nothing to another.
	if other := fmt.Sprint(encode("somebody else")); strings.Contains(other, "signature") || strings.Contains(other, "Hmm") {
		t.Fatal(other)
	}
}

func TestVendorGetsItsOwnNames(t *testing.T) {
	p := New(Options{})
	r := &model.Request{Model: "m", MaxOutputTokens: 5, CacheKey: "k", Messages: []*model.Message{{Role: model.RoleTool, ToolCallID: strings.Repeat("x", 50)}}}
	var body map[string]any
	if err := json.Unmarshal(p.body(r).Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	id := providertest.At(t, body, "messages.0.tool_call_id").(string)
	if body["max_completion_tokens"] != 5.0 || body["prompt_cache_key"] != "k" || len(id) > 40 || providertest.At(t, body, "stream_options.include_usage") != true {
		t.Fatalf("%v", body)
	}
}

func TestBaseURLs(t *testing.T) {
	for base, want := range map[string]string{"": "/v1/chat/completions", "/": "/v1/chat/completions", "/v1": "/v1/chat/completions", "/api/v3/": "/api/v3/chat/completions", "/v1/chat/completions": "/v1/chat/completions", "/v1?api-version=7": "/v1/chat/completions?api-version=7"} {
		srv := providertest.Play(t, hello, 0)
		if got := providertest.Collect(t.Context(), t, New(Options{BaseURL: srv.URL + base}), &model.Request{}); got.Err != nil {
			t.Fatal(got.Err)
		}
		if path, _, _ := srv.Last(); path != want {
			t.Errorf("base %q asks %s", base, path)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(providertest.Events(piece(`{"tool_calls":[{"index":-1,"id":"a","function":{"name":"b","arguments":"{"}}]}`), finish("tool_calls"))))
	f.Add([]byte(`{"choices":[{"message":{"content":null}}]}`))
	f.Add([]byte(providertest.Events(piece(`{"reasoning_details":[{"index":0,"text":1}]}`), "[DONE]")))
	providertest.Fuzz(f, make1)
}

func BenchmarkRequest(b *testing.B) { providertest.BenchmarkRequest(b, make1, hello) }

func TestBodiesGrow(t *testing.T) {
	p := New(Options{Name: "local", BaseURL: "http://127.0.0.1:1/v1"})
	providertest.BodiesGrow(t, "m", func(r *model.Request) []byte { return p.body(r).Bytes() })
}
