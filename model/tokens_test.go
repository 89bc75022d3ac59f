package model_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
	"agentd/model"
)

func TestEstimateTextIsOfTheRightOrder(t *testing.T) {
	for _, c := range []struct {
		name, text string
		low, high  int64
	}{
		{"nothing", "", 0, 0},
		{"a letter", "a", 1, 1},
		{"a stray byte", "\x80", 1, 1},
		{"prose", strings.Repeat("The quick brown fox jumps over the lazy dog. ", 10), 80, 150},
		{"digits", strings.Repeat("1234567890", 10), 33, 100},
		{"chinese", strings.Repeat("汉字", 50), 60, 130},
		{"emoji", "🙂🙂🙂🙂", 4, 16},
		{"blanks", strings.Repeat(" ", 400), 10, 100},
	} {
		if got := model.EstimateText(c.text); got < c.low || got > c.high {
			t.Errorf("%s: %d, want %d to %d", c.name, got, c.low, c.high)
		}
	}
}

func TestEstimateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		ea, eb, both := model.EstimateText(a), model.EstimateText(b), model.EstimateText(a+b)
		if both < max(ea, eb) || both > ea+eb {
			t.Fatalf("%q: %d, %q: %d, both %d", a, ea, b, eb, both)
		}
		if (ea == 0) != (a == "") {
			t.Fatalf("%q: %d", a, ea)
		}
		m := &model.Message{Text: a}
		if n := model.EstimateMessage(m); n <= ea {
			t.Fatalf("a message of %q: %d", a, n)
		}
	})
}

func TestEstimateMessageCountsEveryPart(t *testing.T) {
	full := func() *model.Message {
		return &model.Message{
			Text: "hello", Reasoning: "hm", ToolName: "shell",
			ToolCalls: []model.ToolCall{{Name: "shell", Arguments: event.Raw(`{"command":"ls"}`), Malformed: "{"}},
			Media:     []model.Media{{MediaType: "image/png"}, {MediaType: "text/plain", Name: "a.txt", Data: []byte("some text here")}, {URL: "https://example.com/x"}},
		}
	}
	whole := model.EstimateMessage(full())
	for name, without := range map[string]func(*model.Message){
		"text":      func(m *model.Message) { m.Text = "" },
		"reasoning": func(m *model.Message) { m.Reasoning = "" },
		"tool name": func(m *model.Message) { m.ToolName = "" },
		"calls":     func(m *model.Message) { m.ToolCalls = nil },
		"given":     func(m *model.Message) { m.ToolCalls[0].Arguments = nil },
		"malformed": func(m *model.Message) { m.ToolCalls[0].Malformed = "" },
		"picture":   func(m *model.Message) { m.Media = m.Media[1:] },
		"file":      func(m *model.Message) { m.Media[1].Data = nil },
		"address":   func(m *model.Message) { m.Media[2].URL = "" },
	} {
		m := full()
		without(m)
		if got := model.EstimateMessage(m); got >= whole {
			t.Errorf("without %s it is %d of %d", name, got, whole)
		}
	}
}

func BenchmarkEstimateText(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 200)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		model.EstimateText(text)
	}
}

func BenchmarkRoute(b *testing.B) {
	models, ask := fleet(), model.Ask{Default: "a/small", Required: []string{"tools"}, Fallback: []string{"b/small"}, Now: noon}
	b.ReportAllocs()
	for b.Loop() {
		r := model.Route(models, ask)
		r.Event()
	}
}
