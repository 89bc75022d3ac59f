package session

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/command"
	"agentd/event"
)

// What is encoded by hand is what encoding/json makes of it: the index of a store
// that an earlier release wrote is computed again by Verify and compared byte by byte.
func TestWhatIsEncodedByHandIsWhatTheLibraryWouldGive(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z_0-9]{1,40}`), rapid.String(), rapid.Just("a<b>&c\u2028\x7f\x00\"\\"))
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999999).Draw(t, "us")*1000).UTC()
	})
	same := func(t *rapid.T, got []byte, v any) {
		t.Helper()
		if want, err := json.Marshal(v); err != nil || !bytes.Equal(want, got) {
			t.Fatalf("got  %s\nwant %s (%v)", got, want, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := command.SessionSummary{
			SessionID: text.Draw(t, "session"), ThreadID: text.Draw(t, "thread"), Title: text.Draw(t, "title"), Account: text.Draw(t, "account"),
			Status: text.Draw(t, "status"), CreatedAt: moment.Draw(t, "created"), UpdatedAt: moment.Draw(t, "updated"), TurnCount: rapid.Int64().Draw(t, "turns"),
			Workspace: text.Draw(t, "workspace"), CostUSD: rapid.Float64Range(0, 1e9).Draw(t, "cost"), InputTokens: rapid.Int64().Draw(t, "in"),
			OutputTokens: rapid.Int64().Draw(t, "out"), PendingActions: rapid.Int64Range(0, 3).Draw(t, "pending"),
			Tags: rapid.SliceOfN(text, 0, 3).Draw(t, "tags"), Pinned: rapid.Bool().Draw(t, "pinned"), Archived: rapid.Bool().Draw(t, "archived"),
		}
		same(t, appendSummary(nil, &s), storedSummary(s))
		r := turnRecord{
			ThreadID: text.Draw(t, "thread"), TaskID: text.Draw(t, "task"), RunID: text.Draw(t, "run"), Status: text.Draw(t, "status"),
			Position: rapid.Int64Range(0, 3).Draw(t, "position"), Sequence: rapid.Uint64().Draw(t, "sequence"), Submitted: moment.Draw(t, "submitted"),
			Digest: text.Draw(t, "digest"), Steers: text.Draw(t, "steers"),
		}
		same(t, appendTurn(nil, &r), r)
	})
}

// storedSummary is a summary as it is stored: without what is zero.
type storedSummary struct {
	SessionID      string    `json:"sessionId"`
	ThreadID       string    `json:"threadId,omitempty"`
	Title          string    `json:"title,omitempty"`
	Account        string    `json:"account,omitempty"`
	Status         string    `json:"status"`
	CreatedAt      time.Time `json:"createdAt"`
	UpdatedAt      time.Time `json:"updatedAt"`
	TurnCount      int64     `json:"turnCount"`
	Workspace      string    `json:"workspace,omitempty"`
	CostUSD        float64   `json:"costUSD,omitempty"`
	InputTokens    int64     `json:"inputTokens,omitempty"`
	OutputTokens   int64     `json:"outputTokens,omitempty"`
	PendingActions int64     `json:"pendingActions,omitempty"`
	Tags           []string  `json:"tags,omitempty"`
	Pinned         bool      `json:"pinned,omitempty"`
	Archived       bool      `json:"archived,omitempty"`
}

func TestADigestIsMadeOfWhatTheLibraryWouldGive(t *testing.T) {
	raw := rapid.Custom(func(t *rapid.T) event.Raw {
		var v any = rapid.String().Draw(t, "text")
		if rapid.Bool().Draw(t, "plain") {
			v = rapid.StringMatching(`[ a-zA-Z0-9.,!?-]{0,40}`).Draw(t, "words")
		}
		if rapid.Bool().Draw(t, "parts") {
			v = []command.Part{{Type: "text", Text: v.(string)}}
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return event.Raw(b)
	})
	rapid.Check(t, func(t *rapid.T) {
		p := &event.TurnSubmitted{Input: raw.Draw(t, "input"), InputRef: rapid.SampledFrom([]string{"", "sha256:00"}).Draw(t, "ref")}
		if rapid.Bool().Draw(t, "options") {
			p.Options = &event.TurnOptions{Cwd: rapid.String().Draw(t, "cwd")}
		}
		if rapid.Bool().Draw(t, "metadata") {
			p.Metadata = event.Raw(`{"a": "<b>" }`)
		}
		var want []byte
		for _, part := range []any{p.Input, p.InputRef, p.Options, p.Metadata} {
			b, err := json.Marshal(part)
			if err != nil {
				t.Fatal(err)
			}
			want = append(append(want, b...), '\n')
		}
		if got := appendAsked(nil, p); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}
