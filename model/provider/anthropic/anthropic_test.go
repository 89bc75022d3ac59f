package anthropic

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
	start     = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":1}}}`
	ping      = `{"type":"ping"}`
	textStart = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	stop0     = `{"type":"content_block_stop","index":0}`
	stop1     = `{"type":"content_block_stop","index":1}`
	stop2     = `{"type":"content_block_stop","index":2}`
	end       = `{"type":"message_stop"}`
)

func text(s string) string {
	return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + s + `"}}`
}

func stopped(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":15}}`
}

var hello = providertest.Named(start, textStart, ping, text("Grüße, "), text("世界! "), text("👋"), stop0, stopped("end_turn"), end)

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Subject{
		New: create, Hello: hello,
		Whole:         `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Grüße, 世界! 👋"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`,
		Half:          providertest.Named(start, textStart, text("Half")),
		Failure:       `{"type":"error","error":{"type":"invalid_request_error","message":"%s"},"request_id":"req_1"}`,
		Overflow:      `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 214315 tokens > 200000 maximum"}}`,
		StreamFailure: providertest.Named(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		Content:       content(),
	})
}

func content() providertest.Content {
	hi := func(reason string) string {
		return providertest.Named(start, textStart, text("Hi"), stop0, stopped(reason), end)
	}
	tool := func(index, id, name string) string {
		return `{"type":"content_block_start","index":` + index + `,"content_block":{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{}}}`
	}
	input := func(index, s string) string {
		return `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"input_json_delta","partial_json":"` + s + `"}}`
	}
	return providertest.Content{
		Calls: providertest.Named(
			start, textStart, text("I look."), stop0, tool("1", "toolu_1", "read_file"), input("1", ""), input("1", `{\"path\":\"ä`), ping,
			tool("2", "toolu_2", "shell"), input("2", `{\"command`), input("1", `.txt\"}`), stop1, input("2", `\": \"ls\"}`), stop2, stopped("tool_use"), end,
		),
		Reasoning: providertest.Named(
			start, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hmm, "}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"so."}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`, stop0,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}`, stop1, stopped("end_turn"), end,
		),
		// The vendor doesn't count the reasoning apart.
		Usage:    event.Usage{InputTokens: 1125, OutputTokens: 15, CachedInputTokens: 1000, CacheWriteInputTokens: 100},
		Refusal:  providertest.Named(start, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":null,"explanation":"That was declined."}},"usage":{"output_tokens":0}}`, end),
		Filtered: providertest.Named(start, textStart, text("Hi"), `{"type":"error","error":{"type":"invalid_request_error","code":"content_filter","message":"Output blocked by content filtering policy"}}`),
		Stops: map[string]string{
			"end_turn": hi("end_turn"), "max_tokens": hi("model_context_window_exceeded"), "stop_sequence": hi("stop_sequence"), "other": hi("pause_turn"), "refusal": hi("refusal"),
		},
		CutCall:  providertest.Named(start, tool("0", "toolu_1", "shell"), input("0", `{\"command\": \"rm`), stop0, stopped("max_tokens"), end),
		BareCall: providertest.Named(start, tool("0", "toolu_1", "shell"), stop0, stopped("max_tokens"), end),
		Split:    providertest.Named(start, textStart, text(`a\ud83d`), text(`\udc4bz`), stop0, stopped("end_turn"), end),
		Slow:     providertest.Named(start, textStart, text("Half"), `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit."}}`),
	}
}

// TestRefusalIsExplained: what the vendor says about it is told behind what the
// model said before, and nothing is made up where it says nothing.
func TestRefusalIsExplained(t *testing.T) {
	delta := func(details string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":` + details + `},"usage":{"output_tokens":3}}`
	}
	for _, c := range []struct{ name, details, want string }{
		{"explained", `{"type":"refusal","category":"cyber","explanation":"Declined: it could do harm."}`, "Well,\n\nDeclined: it could do harm."},
		{"not explained", `{"type":"refusal","category":null,"explanation":null}`, "Well,"},
		{"no details", `null`, "Well,"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := play(t, start, textStart, text("Well,"), stop0, delta(c.details), end)
			if got.Err != nil || got.Text != c.want || got.Done.StopReason != "refusal" {
				t.Fatalf("got %q, %+v, %v", got.Text, got.Done, got.Err)
			}
		})
	}
}

func play(t *testing.T, events ...string) providertest.Result {
	t.Helper()
	srv := providertest.Play(t, providertest.Named(events...), 3)
	return providertest.Collect(t.Context(), t, New(Options{BaseURL: srv.URL}), &model.Request{Model: "m", RequestID: "mr_01"})
}

func TestUsageCountsTheCacheAsInput(t *testing.T) {
	got := play(t, start, textStart, text("Hi"), stop0, stopped("end_turn"), end)
	if want := (event.Usage{InputTokens: 1125, OutputTokens: 15, CachedInputTokens: 1000, CacheWriteInputTokens: 100}); got.Done == nil || got.Done.Usage != want || got.Done.Estimated || got.Done.ResponseID != "msg_1" {
		t.Fatalf("got %+v, %v", got.Done, got.Err)
	}
}

func TestStopReasons(t *testing.T) {
	for given, want := range map[string]string{
		"end_turn": "end_turn", "max_tokens": "max_tokens", "stop_sequence": "stop_sequence", "refusal": "refusal",
		"pause_turn": "other", "model_context_window_exceeded": "max_tokens", "new one": "other",
	} {
		if got := play(t, start, textStart, text("Hi"), stop0, stopped(given), end); got.Done == nil || got.Done.StopReason != want {
			t.Errorf("%s: got %+v, %v", given, got.Done, got.Err)
		}
	}
	// The last event may be missing, but not the reason.
	if got := play(t, start, textStart, text("Hi"), stop0, stopped("end_turn")); got.Err != nil {
		t.Error(got.Err)
	}
}

func TestToolCalls(t *testing.T) {
	got := play(
		t, start, textStart, text("I look."), stop0,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"shell","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"comm"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_2","name":"plan","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"and\": \"ls 👋\"}"}}`,
		stop1, stop2,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_3","name":"cut","input":{}}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\": "}}`,
		stopped("tool_use"), end,
	)
	want := []model.ToolCall{
		{ProviderID: "toolu_1", Name: "shell", Arguments: event.Raw(`{"command":"ls 👋"}`)},
		{ProviderID: "toolu_2", Name: "plan", Arguments: event.Raw(`{}`)},
		{ProviderID: "toolu_3", Name: "cut", Malformed: `{"a": `},
	}
	if d := cmp.Diff(want, got.Calls); d != "" || got.Text != "I look." || got.Done.StopReason != "tool_use" || got.Done.Native != nil {
		t.Fatalf("%s %+v %v", d, got.Done, got.Err)
	}
}

// TestThinkingGoesBack plays an answer with thinking, and looks at how the next
// request gives it back.
func TestThinkingGoesBack(t *testing.T) {
	got := play(
		t, start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`, stop0,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"enc"}}`, stop1,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"shell","input":{}}}`, stop2,
		stopped("tool_use"), end,
	)
	if got.Err != nil || got.Reasoning != "Let me see." || len(got.Calls) != 1 {
		t.Fatalf("got %+v", got)
	}
	answer := func(by string) *model.Message {
		return &model.Message{Role: model.RoleAssistant, Reasoning: got.Reasoning, ToolCalls: got.Calls, Native: got.Done.Native, NativeBy: by}
	}
	thinking := map[string]any{"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
	redacted := map[string]any{"type": "redacted_thinking", "data": "enc"}
	use := map[string]any{"type": "tool_use", "id": "toolu_1", "name": "shell", "input": map[string]any{}}
	if d := cmp.Diff([]any{thinking, redacted, use}, providertest.At(t, sent(t, answer("anthropic")), "messages.1.content")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]any{use}, providertest.At(t, sent(t, answer("other")), "messages.1.content")); d != "" {
		t.Error(d)
	}
}

// sent is the body of a request with the messages after a user's.
func sent(t *testing.T, messages ...*model.Message) map[string]any {
	t.Helper()
	r := &model.Request{Model: "m", Messages: append([]*model.Message{{Role: model.RoleUser, Text: "Hi"}}, messages...)}
	var v map[string]any
	if err := json.Unmarshal(New(Options{}).body(r).Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRequest(t *testing.T) {
	srv := providertest.Play(t, hello, 0)
	r := &model.Request{
		Model: "claude", System: "Be kind.", OutputSchema: event.Raw(`{"type":"object"}`),
		Tools: []model.ToolSpec{{Name: "shell", Description: "Runs", Schema: event.Raw(`{"type":"object"}`)}},
		Messages: []*model.Message{
			{Role: model.RoleUser, Text: "Look", Media: []model.Media{{MediaType: "image/png", Data: []byte{1, 2, 3}}, {MediaType: "application/pdf", URL: "https://files.example/a.pdf"}}},
			{Role: model.RoleAssistant, Text: "Yes", ToolCalls: []model.ToolCall{{ProviderID: "a.b", Name: "shell", Arguments: event.Raw(`{"command":"ls"}`)}, {ProviderID: "c2", Name: "shell"}}},
			{Role: model.RoleTool, ToolCallID: "a.b", ToolName: "shell", Text: "x"},
			{Role: model.RoleTool, ToolCallID: "c2", ToolName: "shell", Text: "", IsError: true},
			{Role: model.RoleUser, Text: "And now?"},
		},
	}
	p := New(Options{BaseURL: srv.URL + "/v1", APIKey: providertest.Key(), Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"adaptive"}`)}})
	if got := providertest.Collect(t.Context(), t, p, r); got.Err != nil {
		t.Fatal(got.Err)
	}
	path, header, _ := srv.Last()
	if path != "/v1/messages" || header.Get("X-Api-Key") != providertest.Key() || header.Get("Anthropic-Version") != "2023-06-01" {
		t.Fatalf("%s %v", path, header)
	}
	mark := map[string]any{"type": "ephemeral"}
	body := srv.Body(t)
	id := providertest.At(t, body, "messages.1.content.1.id")
	want := map[string]any{
		"model": "claude", "max_tokens": 16384.0, "stream": true, "thinking": map[string]any{"type": "adaptive"},
		"system.0":        map[string]any{"type": "text", "text": "Be kind.", "cache_control": mark},
		"tools":           []any{map[string]any{"name": "shell", "description": "Runs", "input_schema": map[string]any{"type": "object"}}},
		"messages.0.role": "user",
		"messages.0.content": []any{
			map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png", "data": "AQID"}},
			map[string]any{"type": "document", "source": map[string]any{"type": "url", "url": "https://files.example/a.pdf"}},
			map[string]any{"type": "text", "text": "Look", "cache_control": mark},
		},
		"messages.1.role":            "assistant",
		"messages.1.content.0":       map[string]any{"type": "text", "text": "Yes"},
		"messages.1.content.2.input": map[string]any{},
		// Parallel results and the user's next text are one message.
		"messages.2": map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": id, "content": []any{map[string]any{"type": "text", "text": "x"}}},
			map[string]any{"type": "tool_result", "tool_use_id": "c2", "is_error": true, "content": []any{map[string]any{"type": "text", "text": "(empty)"}}},
			map[string]any{"type": "text", "text": "And now?", "cache_control": mark},
		}},
	}
	for path, w := range want {
		if d := cmp.Diff(w, providertest.At(t, body, path)); d != "" {
			t.Errorf("%s: %s", path, d)
		}
	}
	if id == "a.b" || len(body["messages"].([]any)) != 3 || len(body["system"].([]any)) != 2 {
		t.Errorf("id %v, %v", id, body)
	}
	// The mark is the request's, not the message's.
	r.Messages = append(r.Messages, &model.Message{Role: model.RoleAssistant, Text: "Later"}, &model.Message{Role: model.RoleUser, Text: "Well"})
	if got := providertest.Collect(t.Context(), t, p, r); got.Err != nil {
		t.Fatal(got.Err)
	}
	if first := providertest.At(t, srv.Body(t), "messages.0.content.2").(map[string]any); first["cache_control"] != nil {
		t.Errorf("an old end is still marked: %v", first)
	}
}

func TestOddConversations(t *testing.T) {
	r := &model.Request{Model: "m", Tools: []model.ToolSpec{{Name: "a"}}, Messages: []*model.Message{{Role: model.RoleAssistant, Text: "First"}, {Role: model.RoleAssistant}, {Role: model.RoleUser}}}
	var v map[string]any
	if err := json.Unmarshal(New(Options{}).body(r).Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if providertest.At(t, v, "messages.0.role") != "user" || providertest.At(t, v, "messages.1.content.0.text") != "First" || providertest.At(t, v, "messages.2.content.0.text") != "(empty)" {
		t.Errorf("%v", v["messages"])
	}
	providertest.At(t, v, "tools.0.cache_control") // no system: the tools are the prefix
	if err := json.Unmarshal(New(Options{}).body(&model.Request{}).Bytes(), &v); err != nil {
		t.Fatal(err)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(providertest.Named(start, `{"type":"content_block_start","index":-4,"content_block":{"type":"thinking","thinking":"a","signature":"b"}}`, stopped("x"), end)))
	f.Add([]byte(providertest.Named(`{"type":"content_block_delta","index":9,"delta":{"type":"input_json_delta","partial_json":"{"}}`, end)))
	f.Add([]byte(`{"type":"message","content":[{"type":"tool_use","input":[1]},{"type":"redacted_thinking"}]}`))
	providertest.Fuzz(f, create)
}

func BenchmarkRequest(b *testing.B) { providertest.BenchmarkRequest(b, create, hello) }

// TestBodiesGrow also looks at the marks for the cache: the ends of the last two
// entries of the user, and of nothing else of the conversation.
func TestBodiesGrow(t *testing.T) {
	p := New(Options{Name: "local", BaseURL: "http://127.0.0.1:1"})
	last := providertest.BodiesGrow(t, "m", func(r *model.Request) []byte { return p.body(r).Bytes() })
	var got struct {
		Messages []struct {
			Role    string
			Content []struct {
				Text  string
				Cache *struct{} `json:"cache_control"`
			}
		}
	}
	if err := json.Unmarshal(last, &got); err != nil {
		t.Fatal(err)
	}
	var roles, marked []string
	for _, m := range got.Messages {
		roles = append(roles, m.Role)
		for _, c := range m.Content {
			if c.Cache != nil {
				marked = append(marked, c.Text)
			}
		}
	}
	want := []string{"user", "assistant", "user", "assistant", "user", "assistant", "user", "assistant", "user"}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b", "e"}, marked); diff != "" {
		t.Error(diff)
	}
}
