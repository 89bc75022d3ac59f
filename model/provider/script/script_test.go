package script

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/model"
)

type result struct {
	text, reasoning string
	pieces          []string
	calls           []model.ToolCall
	done            *model.Done
	err             *model.Error
}

func play(ctx context.Context, t *testing.T, p *Provider, r *model.Request) result {
	t.Helper()
	var out result
	for c, err := range p.Stream(ctx, r) {
		if out.done != nil || out.err != nil {
			t.Fatal("something comes after the end")
		}
		if err != nil && !errors.As(err, &out.err) {
			t.Fatal(err)
		}
		out.text += c.Text
		out.reasoning += c.Reasoning
		if c.Text != "" {
			out.pieces = append(out.pieces, c.Text)
		}
		if c.ToolCall != nil {
			out.calls = append(out.calls, *c.ToolCall)
		}
		out.done = c.Done
	}
	if out.done == nil && out.err == nil {
		t.Fatal("no end")
	}
	return out
}

func parse(t *testing.T, s string) *Provider {
	t.Helper()
	script, err := Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return New("script", script)
}

func requestAfter(call int64, texts ...string) *model.Request {
	r := &model.Request{Call: call}
	for _, s := range texts {
		role, text, ok := strings.Cut(s, ": ")
		if !ok {
			role, text = model.RoleUser, s
		}
		r.Messages = append(r.Messages, &model.Message{Role: role, Text: text})
	}
	return r
}

func TestWithoutAScript(t *testing.T) {
	got := play(t.Context(), t, New("script", nil), requestAfter(3, "first", "assistant: no", "Hello there"))
	if got.text != "You said: Hello there" || len(got.pieces) != 4 || got.done.StopReason != "end_turn" || !got.done.Estimated || got.done.Usage.OutputTokens == 0 {
		t.Fatalf("%+v %+v", got, got.done)
	}
}

const tour = `
answers:
  - text: Hello you.
    reasoning: Be polite.
    chunks: 3
    usage: {inputTokens: 12, outputTokens: 3, cachedInputTokens: 4, cacheWriteInputTokens: 6, reasoningTokens: 2}
  - text: I look.
    tools:
      - {name: shell, arguments: {command: "ls", deep: {n: [1, 2.5, null, true]}}}
      - {name: plan, id: call_7}
      - {name: shell, malformed: '{"command": '}
  - ask: {prompt: "Which colour?", schema: {type: string}}
  - ask: {prompt: "Why?"}
  - text: Half an
    error: {category: rate_limited, message: slow down, retryable: true, retryAfter: 2s}
  - text: Cut
    stopReason: max_tokens
`

func TestAnswersInOrder(t *testing.T) {
	p := parse(t, tour)
	got := play(t.Context(), t, p, requestAfter(0, "x"))
	if d := cmp.Diff([]string{"Hel", "lo ", "you."}, got.pieces); d != "" || got.reasoning != "Be polite." || got.done.Estimated ||
		got.done.Usage != (event.Usage{InputTokens: 12, OutputTokens: 3, CachedInputTokens: 4, CacheWriteInputTokens: 6, ReasoningTokens: 2}) {
		t.Errorf("%s %+v", d, got.done)
	}
	got = play(t.Context(), t, p, requestAfter(1, "x"))
	want := []model.ToolCall{
		{Name: "shell", Arguments: event.Raw(`{"command":"ls","deep":{"n":[1,2.5,null,true]}}`)}, {ProviderID: "call_7", Name: "plan", Arguments: event.Raw(`{}`)}, {Name: "shell", Malformed: `{"command": `},
	}
	if d := cmp.Diff(want, got.calls); d != "" || got.text != "I look." || got.done.StopReason != "tool_use" {
		t.Errorf("%s %+v", d, got.done)
	}
	for call, want := range map[int64]string{2: `{"prompt":"Which colour?","schema":{"type":"string"}}`, 3: `{"prompt":"Why?"}`} {
		got = play(t.Context(), t, p, requestAfter(call, "x"))
		if len(got.calls) != 1 || got.calls[0].Name != "request_input" || string(got.calls[0].Arguments) != want || got.done.StopReason != "tool_use" {
			t.Errorf("%+v", got.calls)
		}
	}
	got = play(t.Context(), t, p, requestAfter(4, "x"))
	if d := cmp.Diff(&model.Error{Category: model.RateLimited, Message: "slow down", Retryable: true, RetryAfter: 2 * time.Second}, got.err); d != "" || got.text != "Half an" {
		t.Error(d)
	}
	if got = play(t.Context(), t, p, requestAfter(5, "x")); got.done.StopReason != "max_tokens" {
		t.Errorf("%+v", got.done)
	}
	if got = play(t.Context(), t, p, requestAfter(6, "x")); got.text != "You said: x" {
		t.Errorf("%q", got.text)
	}
}

func TestRepeat(t *testing.T) {
	p := parse(t, "repeat: true\nanswers: [{text: a}, {text: b}, {when: {contains: no}, text: c}]")
	for call, want := range []string{"a", "b", "a", "b", "a"} {
		if got := play(t.Context(), t, p, requestAfter(int64(call), "x")); got.text != want {
			t.Errorf("call %d: %q", call, got.text)
		}
	}
	if got := play(t.Context(), t, parse(t, "repeat: true"), requestAfter(1, "x")); got.text != "You said: x" {
		t.Errorf("%q", got.text)
	}
}

// failed is a request after so many calls that failed.
func failed(r *model.Request, n int64) *model.Request {
	r.Failed = n
	return r
}

func TestWhen(t *testing.T) {
	p := parse(t, `
answers:
  - text: first
  - when: {contains: weather}
    tools: [{name: shell, arguments: {command: date}}]
  - when: {contains: weather}
    text: It rains.
  - when: {contains: rain}
    text: Take a coat.
  - text: second
`)
	tool := "tool: Monday"
	for _, c := range []struct {
		name string
		r    *model.Request
		want string
	}{
		{"no match", requestAfter(0, "hello"), "first"},
		{"no match, later", requestAfter(1, "weather", "assistant: x", "hello"), "second"},
		{"match", requestAfter(9, "The weather?"), ""},
		{"second match after a call", requestAfter(10, "The weather?", "assistant: ", tool), "It rains."},
		{"used up", requestAfter(1, "The weather?", "assistant: ", tool, "assistant: It rains."), "second"},
		{"several conditions", requestAfter(0, "weather and rain", "assistant: ", tool, "assistant: It rains."), "Take a coat."},
		{"the user says it again", requestAfter(12, "The weather?", "assistant: ", tool, "assistant: It rains.", "weather"), ""},
		{"second match after an error", failed(requestAfter(9, "The weather?"), 1), "It rains."},
		{"used up by errors", failed(requestAfter(1, "The weather?"), 2), "second"},
		{"an error and an answer", failed(requestAfter(0, "The weather?", "assistant: ", tool), 1), "first"},
		{"a tool's text doesn't count", requestAfter(0, "hello", "assistant: ", "tool: weather"), "first"},
	} {
		got := play(t.Context(), t, p, c.r)
		again := play(t.Context(), t, p, c.r)
		if got.text != c.want || again.text != got.text || (c.want == "") != (len(got.calls) == 1) {
			t.Errorf("%s: %q, %v, then %q", c.name, got.text, got.calls, again.text)
		}
	}
}

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := parse(t, "answers: [{text: a b c, delay: 1s}, {stall: 1h, text: late}]")
		began := time.Now()
		if got := play(t.Context(), t, p, requestAfter(0)); got.text != "a b c" || time.Since(began) != 4*time.Second {
			t.Errorf("%q after %s", got.text, time.Since(began))
		}
		began = time.Now()
		if got := play(t.Context(), t, p, requestAfter(1)); got.text != "late" || time.Since(began) != time.Hour {
			t.Errorf("%q after %s", got.text, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if got := play(ctx, t, p, requestAfter(1)); got.err == nil || got.err.Category != model.Timeout || time.Since(began) != time.Second {
			t.Errorf("%+v after %s", got.err, time.Since(began))
		}
		stopped, stop := context.WithCancelCause(t.Context())
		stop(errors.New("enough"))
		if got := play(stopped, t, p, requestAfter(0)); got.err == nil || got.err.Category != model.Interrupted || got.err.Message != "enough" {
			t.Errorf("%+v", got.err)
		}
	})
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, in, place, says string }{
		{"unknown key at the top", "answer: []", "1:1", "answer"},
		{"unknown key in an answer", "answers:\n  - text: a\n    colour: red\n", "3:5", "colour"},
		{"unknown key in a tool", "answers:\n  - tools:\n      - name: a\n        args: {}\n", "4:9", "args"},
		{"unknown key in when", "answers:\n  - when: {equals: a}\n    text: b\n", "2:12", "equals"},
		{"the same key twice", "answers:\n  - text: a\n    text: b\n", "3:5", "text"},
		{"wrong type", "answers:\n  - text: a\n    chunks: many\n", "3:13", "unmarshal"},
		{"wrong duration", "answers:\n  - text: a\n    delay: soon\n", "3:12", "soon"},
		{"unknown category", "answers:\n  - text: a\n  - error: {category: bored}\n", "3:23", "bored"},
		{"no category", "answers:\n  - error: {message: a}\n", "2:13", "category"},
		{"unknown stop reason", "answers:\n  - text: a\n    stopReason: tired\n", "3:17", "tired"},
		{"tool without a name", "answers:\n  - text: a\n    tools:\n      - arguments: {a: 1}\n", "4:9", "name"},
		{"empty when", "answers:\n  - when: {contains: ''}\n    text: a\n", "2:12", "contains"},
		{"empty answer", "answers:\n  - chunks: 3\n", "2:5", "empty"},
		{"malformed and arguments", "answers:\n  - tools: [{name: a, malformed: x, arguments: {b: 1}}]\n", "2:34", "malformed"},
		{"arguments that are no JSON", "answers:\n  - tools: [{name: a, arguments: {b: .nan}}]\n", "2:35", "JSON"},
		{"negative delay", "answers:\n  - {text: a, delay: -1s}\n", "2:22", "negative"},
		{"negative stall", "answers:\n  - {text: a, stall: -1s}\n", "2:22", "negative"},
		{"too many chunks", "answers:\n  - {text: a, chunks: 100000000}\n", "2:23", "chunks"},
		{"stop reason of an error", "answers:\n  - error: {category: auth}\n    stopReason: end_turn\n", "3:17", "fails"},
		{"no YAML", "answers: [", "", ""},
		{"not a mapping", "- a\n", "", ""},
		{"what the decoder panics at", "\nanswers:\n  ! text", "1:1", "can't be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.in))
			if err == nil || !strings.HasPrefix(err.Error(), c.place) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "demo.yaml")
	if err := os.WriteFile(path, []byte("answers:\n  - txt: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+":2:5: ") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte(tour), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(path); err != nil || len(s.Answers) != 6 {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if s, err := Parse(nil); err != nil || len(s.Answers) != 0 {
		t.Errorf("%v, %v", s, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(tour))
	f.Add([]byte("answers: [{error: {category: x}}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			return
		}
		for i := range s.Answers {
			s.Answers[i].Delay, s.Answers[i].Stall = 0, 0
		}
		play(t.Context(), t, New("script", s), requestAfter(0, "hello"))
	})
}
