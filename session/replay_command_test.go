package session_test

import (
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
)

// TestReplaysAreCommands: a session and a case are decided again in the background, with
// and without a change, and only for callers that may see them.
func TestReplaysAreCommands(t *testing.T) {
	k := runtimetest.New(t)
	runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_r", Create: true, Input: event.Raw(`"hello"`)})
	k.WaitFor("sess_r", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed })
	ended := func(p *command.StartReplay) *command.ReplayRecord {
		t.Helper()
		r := runtimetest.Do[command.ReplayRecord](k, p)
		for r.Status == "running" && t.Context().Err() == nil {
			r = runtimetest.Do[command.ReplayRecord](k, &command.GetReplay{ReplayID: r.ReplayID})
		}
		return r
	}
	same := ended(&command.StartReplay{SessionID: "sess_r"})
	if same.Status != "completed" || same.Same == nil || !*same.Same || same.Facts == 0 || same.Facts < same.Total || same.Decisions == 0 {
		t.Errorf("%+v", same)
	}
	if tried := ended(&command.StartReplay{SessionID: "sess_r", With: &command.ReplayChange{Models: []string{"no/such"}}}); tried.Status != "completed" || tried.DifferenceCount == 0 || len(tried.Differences) == 0 {
		t.Errorf("with other models: %+v", tried)
	}
	exported := runtimetest.Do[command.ExportResult](k, &command.ExportReplay{ExportScope: command.ExportScope{SessionID: "sess_r"}})
	if c := ended(&command.StartReplay{Ref: exported.Ref}); c.Status != "completed" || c.Integrity != "verified" || !*c.Same {
		t.Errorf("the case: %+v", c)
	}
	if c := ended(&command.StartReplay{EvidenceID: exported.EvidenceID}); c.Status != "completed" || c.Integrity != "verified" || !*c.Same || c.EvidenceID != exported.EvidenceID {
		t.Errorf("the case by its id: %+v", c)
	}
	// A pack goes as far as it went when it was exported.
	scope := command.ExportScope{SessionID: "sess_r"}
	pack := runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: scope})
	review := runtimetest.Do[command.ExportResult](k, &command.ExportReview{ExportScope: scope})
	through := runtimetest.Do[command.ListExportsResult](k, &command.ListExports{Type: "evidence"}).Exports[0].ThroughSequence
	runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_r", TurnID: "turn_later", Input: event.Raw(`"later"`)})
	k.WaitFor("sess_r", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted && e.TurnID == "turn_later" })
	if c := ended(&command.StartReplay{EvidenceID: pack.EvidenceID}); c.Status != "completed" || !*c.Same || c.Decisions != same.Decisions || uint64(c.Facts) != through || c.Total != c.Facts {
		t.Errorf("the pack by its id: %+v, through %d, the session then: %+v", c, through, same)
	}
	if tried := ended(&command.StartReplay{EvidenceID: pack.EvidenceID, With: &command.ReplayChange{Models: []string{"no/such"}}}); tried.DifferenceCount == 0 {
		t.Errorf("the pack with other models: %+v", tried)
	}
	if r := runtimetest.Do[command.ReplayRecord](k, &command.CancelReplay{ReplayID: same.ReplayID}); r.Status != "completed" {
		t.Errorf("a replay that had ended: %+v", r)
	}
	stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user"}}
	for _, c := range []struct {
		caller command.Caller
		p      command.Params
		want   fault.Kind
	}{
		{stranger, &command.StartReplay{SessionID: "sess_r"}, fault.NotFound},
		{stranger, &command.StartReplay{Ref: exported.Ref}, fault.NotFound},
		{stranger, &command.GetReplay{ReplayID: same.ReplayID}, fault.NotFound},
		{stranger, &command.CancelReplay{ReplayID: same.ReplayID}, fault.NotFound},
		{command.Local(), &command.StartReplay{SessionID: "sess_nowhere"}, fault.NotFound},
		{command.Local(), &command.StartReplay{SessionID: "sess_r", Ref: exported.Ref}, fault.InvalidParams},
		{command.Local(), &command.StartReplay{}, fault.InvalidParams},
		{command.Local(), &command.StartReplay{SessionID: "sess_r", EvidenceID: pack.EvidenceID}, fault.InvalidParams},
		{command.Local(), &command.StartReplay{EvidenceID: review.EvidenceID}, fault.InvalidParams},
		{command.Local(), &command.StartReplay{EvidenceID: "evidence_nowhere"}, fault.NotFound},
		{stranger, &command.StartReplay{EvidenceID: pack.EvidenceID}, fault.NotFound},
	} {
		if _, err := k.Runtime.Do(t.Context(), c.caller, c.p); fault.KindOf(err) != c.want {
			t.Errorf("%s %+v: %v, want %s", c.p.Command(), c.p, err, c.want)
		}
	}
}
