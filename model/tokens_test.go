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

func TestEstimateRequestCountsEveryPart(t *testing.T) {
	full := func() *model.Request {
		return &model.Request{
			System: "be brief", OutputSchema: event.Raw(`{"type":"object"}`),
			Tools: []model.ToolSpec{{Name: "shell", Description: "runs a command", Schema: event.Raw(`{"type":"object"}`)}},
			Messages: []*model.Message{{
				Text: "hello", Reasoning: "hm", ToolName: "shell",
				ToolCalls: []model.ToolCall{{Name: "shell", Arguments: event.Raw(`{"command":"ls"}`), Malformed: "{"}},
				Media:     []model.Media{{MediaType: "image/png"}, {MediaType: "text/plain", Name: "a.txt", Data: []byte("some text here")}, {URL: "https://example.com/x"}},
			}},
		}
	}
	whole := model.EstimateRequest(full())
	for name, without := range map[string]func(*model.Request){
		"system":      func(r *model.Request) { r.System = "" },
		"schema":      func(r *model.Request) { r.OutputSchema = nil },
		"tools":       func(r *model.Request) { r.Tools = nil },
		"description": func(r *model.Request) { r.Tools[0].Description = "" },
		"arguments":   func(r *model.Request) { r.Tools[0].Schema = nil },
		"text":        func(r *model.Request) { r.Messages[0].Text = "" },
		"reasoning":   func(r *model.Request) { r.Messages[0].Reasoning = "" },
		"tool name":   func(r *model.Request) { r.Messages[0].ToolName = "" },
		"calls":       func(r *model.Request) { r.Messages[0].ToolCalls = nil },
		"given":       func(r *model.Request) { r.Messages[0].ToolCalls[0].Arguments = nil },
		"malformed":   func(r *model.Request) { r.Messages[0].ToolCalls[0].Malformed = "" },
		"picture":     func(r *model.Request) { r.Messages[0].Media = r.Messages[0].Media[1:] },
		"file":        func(r *model.Request) { r.Messages[0].Media[1].Data = nil },
		"address":     func(r *model.Request) { r.Messages[0].Media[2].URL = "" },
		"messages":    func(r *model.Request) { r.Messages = nil },
	} {
		r := full()
		without(r)
		if got := model.EstimateRequest(r); got >= whole {
			t.Errorf("without %s it is %d of %d", name, got, whole)
		}
	}
}

func TestCalibration(t *testing.T) {
	var none model.Calibration
	if none.Apply(100) != 100 || none.Apply(0) != 0 || none.Apply(-5) != 0 {
		t.Error("the zero value corrects")
	}
	c := none.Learn(1000, event.Usage{InputTokens: 1200})
	if got := c.Apply(500); got != 600 {
		t.Errorf("%d", got)
	}
	if again := c.Learn(1000, event.Usage{}); again != c {
		t.Error("a usage that says nothing taught something")
	}
	if again := c.Learn(0, event.Usage{InputTokens: 5}); again != c {
		t.Error("a request without an estimate taught something")
	}
	for _, x := range []struct {
		counted int64
		want    float64
	}{{1, 0.5}, {1_000_000, 3}, {2000, 2}} {
		if got := none.Learn(1000, event.Usage{InputTokens: x.counted}).Factor(); got != x.want {
			t.Errorf("counted %d: %v", x.counted, got)
		}
	}
	if tiny := none.Learn(1000, event.Usage{InputTokens: 1}); tiny.Apply(1) != 1 {
		t.Error("something became nothing")
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
