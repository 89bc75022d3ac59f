package atif_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"agentd/event"
	"agentd/evidence/atif"
)

// turnFact is one of a thread, about a turn.
func turnFact(turn string, typ event.Type, p event.Payload) *event.Event {
	return &event.Event{Type: typ, Scope: event.Scope{ThreadID: "thread_root", TurnID: turn}, Payload: p}
}

// exported returns the trajectory of facts.
func exported(t *testing.T, opt atif.Options, facts ...*event.Event) *atif.Trajectory {
	t.Helper()
	var j journal
	for i, e := range facts {
		e.ID, e.Sequence, e.Time = fmt.Sprintf("evt_%d", i+1), uint64(i+1), time.Unix(int64(i), 0)
		e.RuntimeID, e.SessionID = "runtime_1", "sess_1"
		j = append(j, event.AppendJSON(nil, e))
	}
	var doc bytes.Buffer
	if _, err := atif.Export(t.Context(), j, atif.Scope{SessionID: "sess_1", ThreadID: "thread_root"}, opt, &doc); err != nil {
		t.Fatal(err)
	}
	if err := atif.Validate(doc.Bytes()); err != nil {
		t.Fatal(err)
	}
	tr := &atif.Trajectory{}
	if err := json.Unmarshal(doc.Bytes(), tr); err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestASteerStaysInItsTurn: what was said to a turn that asked nothing any more is
// told before the turn after it.
func TestASteerStaysInItsTurn(t *testing.T) {
	tr := exported(t, atif.Options{},
		turnFact("turn_1", event.TypeTurnSubmitted, &event.TurnSubmitted{Preview: "one", Status: "accepted", Source: "user"}),
		turnFact("turn_1", event.TypeTurnStarted, &event.TurnStarted{Status: "running"}),
		turnFact("turn_1", event.TypeTurnSteered, &event.TurnSteered{Preview: "and this"}),
		turnFact("turn_1", event.TypeTurnFailed, &event.TurnFailed{Status: "cancelled", Outcome: "interrupted", FailureCategory: "interrupted", Error: &event.Failure{Message: "interrupted"}}),
		turnFact("turn_2", event.TypeTurnSubmitted, &event.TurnSubmitted{Preview: "two", Status: "accepted", Source: "user"}),
		turnFact("turn_2", event.TypeTurnStarted, &event.TurnStarted{Status: "running"}),
		turnFact("turn_2", event.TypeTurnCompleted, &event.TurnCompleted{Status: "completed", Outcome: "end_turn"}),
	)
	var said []string
	for _, s := range tr.Steps {
		said = append(said, s.Message.Text)
	}
	if got := fmt.Sprint(said); got != "[one and this two]" {
		t.Errorf("steps: %s", got)
	}
}

// TestAPictureIsAPartOfItsMessage: pictures that the format knows are in the message,
// in their place; in a version that has no parts, only that they were there.
func TestAPictureIsAPartOfItsMessage(t *testing.T) {
	input := event.Raw(`[{"type":"text","text":"look"},{"type":"image","mediaType":"image/png","data":"aGk="},
		{"type":"image","mediaType":"image/tiff","data":"aGk="},{"type":"image","mediaType":"image/jpeg","url":"http://127.0.0.1/x.jpg"},
		{"type":"image","mediaType":"image/gif","ref":"sha256:00"},{"type":"text","text":""},{"type":"file","path":"a.txt"}]`)
	facts := func() []*event.Event {
		return []*event.Event{
			turnFact("turn_1", event.TypeTurnSubmitted, &event.TurnSubmitted{Input: input, Status: "accepted", Source: "user"}),
			turnFact("turn_1", event.TypeTurnStarted, &event.TurnStarted{Status: "running"}),
		}
	}
	whole, err := json.Marshal(exported(t, atif.Options{}, facts()...))
	if err != nil {
		t.Fatal(err)
	}
	if old, err := atif.Downlevel(whole); err != nil || bytes.Contains(old, []byte("data:")) || !bytes.Contains(old, []byte(`"message":"look"`)) {
		t.Errorf("written as an older version: %s, %v", old, err)
	}
	for _, c := range []struct{ version, message, others string }{
		{
			"", `[{"type":"text","text":"look"},{"type":"image","source":{"media_type":"image/png","path":"data:image/png;base64,aGk="}},` +
				`{"type":"image","source":{"media_type":"image/jpeg","path":"http://127.0.0.1/x.jpg"}},{"type":"image","source":{"media_type":"image/gif","path":"sha256:00"}}]`,
			"[image file]",
		},
		{atif.Level14, `"look"`, "[image image image image file]"},
	} {
		step := exported(t, atif.Options{Version: c.version}, facts()...).Steps[0]
		if b, err := json.Marshal(step.Message); err != nil || string(b) != c.message {
			t.Errorf("%s: %s, %v", c.version, b, err)
		}
		if got := fmt.Sprint(step.Extra["other_parts"]); got != c.others {
			t.Errorf("%s: other parts %s", c.version, got)
		}
	}
}

// TestACostIsThatOfAllCalls: the sum of what is known is no cost if something isn't.
func TestACostIsThatOfAllCalls(t *testing.T) {
	price := 0.25
	for _, c := range []struct {
		prices []*float64
		want   string
	}{{nil, "null"}, {[]*float64{&price, &price}, "0.5"}, {[]*float64{&price, nil}, "null"}} {
		facts := []*event.Event{
			turnFact("turn_1", event.TypeTurnSubmitted, &event.TurnSubmitted{Preview: "one", Status: "accepted", Source: "user"}),
			turnFact("turn_1", event.TypeTurnStarted, &event.TurnStarted{Status: "running"}),
		}
		for _, p := range c.prices {
			facts = append(facts, turnFact("turn_1", event.TypeCostRecorded, &event.CostRecorded{CostUSD: p, Currency: "USD", ModelRequestID: "req_1"}))
		}
		var j journal
		for i, e := range facts {
			e.Sequence, e.SessionID = uint64(i+1), "sess_1"
			j = append(j, event.AppendJSON(nil, e))
		}
		sum, err := atif.Export(t.Context(), j, atif.Scope{SessionID: "sess_1", ThreadID: "thread_root"}, atif.Options{}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(sum.Cost()); err != nil || string(got) != c.want {
			t.Errorf("%d prices: %s, %v", len(c.prices), got, err)
		}
	}
}
