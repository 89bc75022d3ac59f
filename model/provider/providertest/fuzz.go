package providertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// answering is a transport that answers at once, without a network.
type answering func(*http.Request) io.Reader

// RoundTrip implements [http.RoundTripper].
func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(a(r)), Request: r}, nil
}

// Fuzz plays whatever bytes as an answer: no panic, and one end.
func Fuzz(f *testing.F, create func(httpstream.Options) model.Provider) {
	f.Fuzz(func(t *testing.T, body []byte) {
		p := create(httpstream.Options{BaseURL: "http://fuzz.example", Client: &http.Client{
			Transport: answering(func(*http.Request) io.Reader { return bytes.NewReader(body) }),
		}})
		first := Collect(t.Context(), t, p, sampleRequest())
		second := Collect(t.Context(), t, p, sampleRequest())
		if fmt.Sprintf("%+v", resultSummary(first)) != fmt.Sprintf("%+v", resultSummary(second)) {
			t.Fatalf("two readings differ: %+v, %+v", first, second)
		}
		if d := first.Done; d != nil {
			// What came is fit to go back.
			next := sampleRequest()
			next.Messages = append(next.Messages, &model.Message{
				Role: model.RoleAssistant, Text: first.Text, Reasoning: first.Reasoning, ToolCalls: first.Calls, Native: d.Native, NativeBy: p.Name(),
			})
			for i := range first.Calls {
				next.Messages = append(next.Messages, &model.Message{Role: model.RoleTool, ToolCallID: first.Calls[i].ProviderID, ToolName: first.Calls[i].Name, Text: "ok"})
			}
			checkBody(t, create, next)
		}
	})
}

func resultSummary(r Result) string {
	stop, category := "", ""
	if r.Done != nil {
		stop = r.Done.StopReason
	}
	if r.Err != nil {
		category = r.Err.Category
	}
	return strings.Join([]string{r.Text, r.Reasoning, fmt.Sprint(r.Calls), stop, category}, "\x00")
}

// checkBody sends a request to a server that only looks whether it is JSON.
func checkBody(t *testing.T, create func(httpstream.Options) model.Provider, r *model.Request) {
	t.Helper()
	transport := &keeping{}
	Collect(t.Context(), t, create(httpstream.Options{BaseURL: "http://fuzz.example", Client: &http.Client{Transport: transport}}), r)
	if !json.Valid(transport.body) {
		t.Fatalf("the next request is no JSON: %q", transport.body)
	}
}

// keeping keeps the last body.
type keeping struct{ body []byte }

// RoundTrip implements [http.RoundTripper].
func (k *keeping) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	k.body = b
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// BenchmarkRequest measures a request with 1,000 messages of about 1 kB each, of
// which 998 were sent before, against one in which all are new. What it takes to
// send and to read the bytes is in both.
func BenchmarkRequest(b *testing.B, create func(httpstream.Options) model.Provider, stream string) {
	p := create(httpstream.Options{BaseURL: "http://bench.example", Client: &http.Client{
		Transport: answering(func(*http.Request) io.Reader { return strings.NewReader(stream) }),
	}})
	ask := func(b *testing.B, r *model.Request) {
		for c, err := range p.Stream(b.Context(), r) {
			if err != nil {
				b.Fatal(err)
			}
			runtime.KeepAlive(c)
		}
	}
	b.Run("998 of 1000 sent before", func(b *testing.B) {
		old := conversation(998)
		ask(b, &model.Request{Model: "m", Messages: old})
		b.ReportAllocs()
		for b.Loop() {
			r := &model.Request{Model: "m", Messages: append(old[:998:998], conversation(2)...)}
			ask(b, r)
		}
	})
	b.Run("1000 new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			r := &model.Request{Model: "m", Messages: conversation(1000)}
			b.StartTimer()
			ask(b, r)
		}
	})
}

// conversation is a user's message followed by calls and their results.
func conversation(n int) []*model.Message {
	text := strings.Repeat("The quick brown fox \"jumps\" over\nthe lazy dog. ", 20)
	out := make([]*model.Message, 0, n)
	for i := range n {
		id := fmt.Sprintf("call_%d", i/2)
		if i%2 == 0 {
			out = append(out, &model.Message{Role: model.RoleAssistant, Text: text, ToolCalls: []model.ToolCall{{ProviderID: id, Name: "shell", Arguments: []byte(`{"command":"ls"}`)}}})
		} else {
			out = append(out, &model.Message{Role: model.RoleTool, ToolCallID: id, ToolName: "shell", Text: text})
		}
	}
	return out
}
