package loop_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/anthropic"
	"agentd/model/provider/gemini"
	"agentd/model/provider/openai"
	"agentd/model/provider/providertest"
	"agentd/model/provider/responses"
	"agentd/redact"
	"agentd/tool"
)

// vendor is a provider over HTTP with an answer in its form: the text "Hello", and
// the beginning of it.
type vendor struct {
	name        string
	create      func(o openai.Options) model.Provider
	half, whole string
}

func vendors() []vendor {
	events, named := providertest.Events, providertest.Named
	return []vendor{
		{
			"openai", func(o openai.Options) model.Provider { return openai.New(o) },
			events(`{"choices":[{"index":0,"delta":{"content":"Hello"}}]}`),
			events(`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, "[DONE]"),
		},
		{
			"responses", func(o openai.Options) model.Provider { return responses.New(o) },
			named(`{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}`),
			named(`{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}`, `{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":1}}}`),
		},
		{
			"anthropic", func(o openai.Options) model.Provider { return anthropic.New(o) },
			named(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hello"}}`),
			named(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hello"}}`, `{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":3,"output_tokens":1}}`, `{"type":"message_stop"}`),
		},
		{
			"gemini", func(o openai.Options) model.Provider { return gemini.New(o) },
			events(`{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"index":0}]}`),
			events(`{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1}}`),
		},
	}
}

// over asks the vendor's provider at an address.
func (v vendor) over(url string) func(*agentd.Options) {
	return func(o *agentd.Options) {
		runtimetest.QuickBackoff(o)
		o.Provider, o.Model = v.create(openai.Options{Name: "vendor", BaseURL: url}), "m"
	}
}

// TestInterruptOfASilentProvider: an interrupt doesn't wait for a server that says
// nothing any more, or never said anything, and closes the connection to it.
func TestInterruptOfASilentProvider(t *testing.T) {
	for _, v := range vendors() {
		for place, stream := range map[string]string{"before the answer": "", "within it": v.half} {
			t.Run(v.name+" "+place, func(t *testing.T) {
				// A second is the promise; a machine that does something else meanwhile may
				// break it a few times, a wait for the server's silence never keeps it.
				var took []time.Duration
				for range 5 {
					took = append(took, interruptSilent(t, &v, stream))
					if took[len(took)-1] <= time.Second {
						return
					}
				}
				t.Errorf("it took %v", took)
			})
		}
	}
}

// interruptSilent returns how long a turn lasted after its interrupt.
func interruptSilent(t *testing.T, v *vendor, stream string) time.Duration {
	begun, gone := make(chan struct{}), make(chan struct{})
	srv := providertest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if stream != "" {
			providertest.Write(w, stream, 0)
		}
		close(begun)
		<-r.Context().Done()
		close(gone)
	})
	k := runtimetest.NewWith(t, v.over(srv.URL))
	r := k.Submit("sess_a", "go")
	<-begun
	if stream != "" {
		k.WaitFor("sess_a", runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
	}
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "enough"})
	k.Fails(r, "interrupted")
	<-gone
	if p := runtimetest.Payloads[*event.ModelFailed](k, "sess_a"); len(p) != 1 || p[0].ErrorCategory != "interrupted" || (stream != "") != (p[0].PartialText == "Hello") {
		t.Errorf("%+v", p)
	}
	var asked, ended time.Time
	for _, e := range k.Facts("sess_a") {
		switch e.Type {
		case event.TypeTurnInterruptRequested:
			asked = e.Time
		case event.TypeTurnFailed:
			ended = e.Time
		}
	}
	if asked.IsZero() || ended.IsZero() {
		t.Fatal("the facts of the interrupt are missing")
	}
	return ended.Sub(asked)
}

// TestBadWeatherOfAProvider: a limit, an error, a proxy's page and a stream that
// breaks off are facts of one turn, which ends well all the same.
func TestBadWeatherOfAProvider(t *testing.T) {
	for _, v := range vendors() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel() // each waits for a second
			var n atomic.Int64
			srv := providertest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				switch n.Add(1) {
				case 1:
					w.Header().Set("Retry-After", "0.05")
					w.WriteHeader(http.StatusTooManyRequests)
				case 2:
					w.Header().Set("Content-Type", "text/html")
					w.WriteHeader(http.StatusBadGateway)
					_, _ = w.Write([]byte("<html><head><title>502 Bad Gateway</title></head></html>"))
				case 3:
					providertest.Write(w, v.half, 0) // and no end
				default:
					providertest.Write(w, v.whole, 1)
				}
			})
			k := runtimetest.NewWith(t, v.over(srv.URL))
			r := k.Submit("sess_a", "go")
			k.Completes(r)
			var failed []string
			ids := map[string]bool{}
			for _, p := range runtimetest.Payloads[*event.ModelFailed](k, "sess_a") {
				failed = append(failed, p.ErrorCategory)
				ids[p.ModelRequestID] = true
			}
			if want := []string{"rate_limited", "server_error", "malformed"}; !slices.Equal(failed, want) || len(ids) != 3 {
				t.Errorf("failed with %v, %d requests", failed, len(ids))
			}
			// The second one, if there is one, is ours: the model is left alone for a while.
			hits := runtimetest.Payloads[*event.RateLimitHit](k, "sess_a")
			if len(hits) == 0 || hits[0].Source != "provider" || *hits[0].RetryAfterMs != 50 || !ids[hits[0].ModelRequestID] {
				t.Errorf("%+v", hits)
			}
			done := runtimetest.Payloads[*event.ModelCompleted](k, "sess_a")
			if len(done) != 1 || done[0].Message.Text != "Hello" || done[0].Usage.InputTokens != 3 || done[0].UsageSource != "provider" {
				t.Errorf("%+v", done)
			}
		})
	}
}

// TestRawPayloadsAreKept: what a server sent can be read behind a reference, without
// the secrets that were in it, also where the answer failed.
func TestRawPayloadsAreKept(t *testing.T) {
	secret := strings.Join([]string{"ghp", strings.Repeat("aB3d", 9)}, "_") // the shape of a token
	for _, v := range vendors() {
		t.Run(v.name, func(t *testing.T) {
			var n atomic.Int64
			srv := providertest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if n.Add(1) == 1 {
					http.Error(w, `{"error":{"message":"down, says `+secret+`"}}`, http.StatusInternalServerError)
					return
				}
				providertest.Write(w, ": "+secret+"\n\n"+v.whole, 0)
			})
			k := runtimetest.NewWith(t, runtimetest.AllOf(v.over(srv.URL), func(o *agentd.Options) { o.Loop.Redact = redact.New(redact.Options{}) }))
			k.Completes(k.Submit("sess_a", "go"))
			failed, done := runtimetest.Payloads[*event.ModelFailed](k, "sess_a"), runtimetest.Payloads[*event.ModelCompleted](k, "sess_a")
			if len(failed) != 1 || len(done) != 1 || failed[0].RawRef == "" || done[0].RawRef == "" {
				t.Fatalf("%+v, %+v", failed, done)
			}
			for ref, want := range map[string]string{failed[0].RawRef: "down, says [redacted", done[0].RawRef: "Hello"} {
				if raw := k.ReadOutput(ref); !strings.Contains(raw, want) || strings.Contains(raw, secret) {
					t.Errorf("behind %s is %q", ref, raw)
				}
			}
			if strings.Contains(failed[0].Message, secret) {
				t.Error("the message holds the secret")
			}
		})
	}
}

// TestACallThatWasCutOffIsNotRun: a tool that needs no arguments isn't called
// without those that the model was about to give.
func TestACallThatWasCutOffIsNotRun(t *testing.T) {
	var n atomic.Int64
	srv := providertest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			providertest.Write(w, providertest.Events(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"sweep","arguments":""}}]},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, "[DONE]"), 0)
			return
		}
		providertest.Write(w, vendors()[0].whole, 0)
	})
	sweep := runtimetest.WritingTool("sweep", func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, fmt.Errorf("everything is swept away")
	})
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithTools(t, sweep), vendors()[0].over(srv.URL)))
	k.Completes(k.Submit("sess_a", "go"))
	failed := runtimetest.Payloads[*event.ToolFailed](k, "sess_a")
	if len(failed) != 1 || failed[0].ErrorCategory != "invalid_input" || !strings.Contains(failed[0].Message, "cut off") || k.CountRuns("sess_a") != 0 {
		t.Errorf("%+v", failed)
	}
	if _, _, body := srv.Last(); !strings.Contains(string(body), "cut off") {
		t.Errorf("the model isn't told: %s", body)
	}
}
