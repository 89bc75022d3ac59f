package providertest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/model"
	"agentd/model/provider/httpstream"
)

// Content are answers in the vendor's form, each with what it must become. All of
// them have to be there: what a vendor can't say is said by the fields beside it.
type Content struct {
	// Calls says "I look." and asks for two tools at once, in fragments where the
	// vendor sends such: read_file with the path "ä.txt", then shell with the
	// command "ls".
	Calls string
	// Reasoning reasons "Hmm, so." and says "Hi".
	Reasoning string
	// Usage is what Reasoning says to have used.
	Usage event.Usage
	// Refusal declines, and says something about it. A vendor that fails instead
	// of answering sets RefusalFails.
	Refusal      string
	RefusalFails bool
	// Filtered was stopped by a filter; its text is the beginning "Hi".
	Filtered string
	// Stops are ends with the text "Hi", and the stop reason of each.
	Stops map[string]string
	// CutCall asks for shell and is cut off by the limit of tokens within the
	// arguments, BareCall before them. Neither is there for a vendor that sends
	// calls whole, which sets WholeCalls.
	CutCall, BareCall string
	WholeCalls        bool
	// Split says "a👋z" with a border of two events within the character.
	Split string
	// Slow is the vendor's word, within a stream, that the caller is too fast, with
	// the beginning "Half" before it.
	Slow string
}

func (s Subject) content(t *testing.T) {
	c := s.Content
	t.Run("Calls", func(t *testing.T) { s.calls(t, c.Calls) })
	t.Run("Reasoning", func(t *testing.T) {
		got := s.play(t, c.Reasoning)
		if got.Err != nil || got.Reasoning != "Hmm, so." || got.Text != "Hi" {
			t.Fatalf("got %q, then %q, %v", got.Reasoning, got.Text, got.Err)
		}
		if got.Done.Usage != c.Usage || got.Done.Estimated || c.Usage.CachedInputTokens == 0 {
			t.Fatalf("usage %+v, estimated %v", got.Done.Usage, got.Done.Estimated)
		}
	})
	t.Run("Refusal", func(t *testing.T) { s.refusal(t) })
	t.Run("Filtered", func(t *testing.T) {
		got := s.play(t, c.Filtered)
		if got.Err == nil || got.Err.Category != model.ContentFilter || got.Err.Retryable || got.Text != "Hi" {
			t.Fatalf("got %q, %+v", got.Text, got.Err)
		}
	})
	for stop, stream := range c.Stops {
		t.Run("Stop "+stop, func(t *testing.T) {
			if got := s.play(t, stream); got.Err != nil || got.Done.StopReason != stop || got.Text != "Hi" {
				t.Fatalf("got %q, %+v, %v", got.Text, got.Done, got.Err)
			}
		})
	}
	if c.Stops["max_tokens"] == "" || c.Stops["end_turn"] == "" {
		t.Error("the ends that every vendor has are missing")
	}
	if !c.WholeCalls {
		t.Run("Cut call", func(t *testing.T) { s.cutCall(t, c.CutCall) })
		t.Run("Bare call", func(t *testing.T) { s.cutCall(t, c.BareCall) })
	}
	t.Run("Split", func(t *testing.T) {
		if got := s.play(t, c.Split); got.Err != nil || got.Text != "a👋z" {
			t.Fatalf("got %q, %v", got.Text, got.Err)
		}
	})
	t.Run("Slow", func(t *testing.T) { s.wantHalf(t, s.play(t, c.Slow), model.RateLimited) })
}

// play collects the answer of a stream that comes byte by byte, so that no border
// between pieces is left out.
func (s Subject) play(t *testing.T, stream string) Result {
	t.Helper()
	if stream == "" {
		t.Fatal("there is no such stream")
	}
	srv := Play(t, stream, 1)
	return Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
}

func (s Subject) calls(t *testing.T, stream string) {
	got := s.play(t, stream)
	if got.Err != nil || got.Text != "I look." || got.Done.StopReason != "tool_use" {
		t.Fatalf("got %q, %+v, %v", got.Text, got.Done, got.Err)
	}
	ids := map[string]bool{}
	for i := range got.Calls {
		ids[got.Calls[i].ProviderID] = true
		got.Calls[i].ProviderID = ""
	}
	want := []model.ToolCall{
		{Name: "read_file", Arguments: event.Raw(`{"path":"ä.txt"}`)}, {Name: "shell", Arguments: event.Raw(`{"command":"ls"}`)},
	}
	if d := cmp.Diff(want, got.Calls); d != "" || len(ids) != 2 || ids[""] {
		t.Fatalf("%s\nids %v", d, ids)
	}
}

func (s Subject) refusal(t *testing.T) {
	got := s.play(t, s.Content.Refusal)
	if s.Content.RefusalFails {
		if got.Err == nil || got.Err.Category != model.ContentFilter || got.Err.Retryable || got.Err.Message == "" {
			t.Fatalf("got %+v", got.Err)
		}
		return
	}
	if got.Err != nil || got.Done.StopReason != "refusal" || strings.TrimSpace(got.Text) == "" {
		t.Fatalf("got %q, %+v, %v", got.Text, got.Done, got.Err)
	}
}

// cutCall: a call that was broken off is not carried out with what is there of it,
// least of all as one without arguments.
func (s Subject) cutCall(t *testing.T, stream string) {
	got := s.play(t, stream)
	if got.Err != nil || got.Done.StopReason != "max_tokens" || len(got.Calls) != 1 {
		t.Fatalf("got %+v, %+v, %v", got.Calls, got.Done, got.Err)
	}
	if call := got.Calls[0]; call.Name != "shell" || call.Malformed == "" || call.Arguments != nil {
		t.Fatalf("a call that was cut off would run: %+v", call)
	}
}
