package proof_test

import (
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/session"
	"agentd/state"
)

// TestVerdictsAndNotesAreEvidence: evidence export: a pack has verification outcomes and
// review or audit notes when available; evidence_summary has them too.
func TestVerdictsAndNotesAreEvidence(t *testing.T) {
	k := runtimetest.NewWith(t, nil, runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.Completes(r)
	scope := command.ExportScope{SessionID: "sess_a", TurnID: r.TurnID, TaskID: r.TaskID}
	put := &command.RecordReview{
		Mutation: command.Mutation{IdempotencyKey: "k"}, ExportScope: scope,
		VerificationOutcomes: []event.VerificationOutcome{{Name: "unit tests", Status: "passed", Ref: "ci/7"}}, Note: "The wording is unclear.",
	}
	res := runtimetest.Do[command.ReviewResult](k, put)
	if again := runtimetest.Do[command.ReviewResult](k, put); *again != *res || res.EvidenceID == "" {
		t.Errorf("recorded %+v, then %+v", res, again)
	}
	fact := k.WaitFor("sess_a", func(e *event.Event) bool { return e.EvidenceID == res.EvidenceID })
	if p := fact.Payload.(*event.EvidenceChanged); fact.Sequence != res.Sequence || p.Kind != "verification" || p.RecordedBy == nil || fact.TaskID != r.TaskID {
		t.Errorf("the fact: %+v %+v", fact, p)
	}
	k.Close()
	k.Open()
	sum := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: "sess_a"}).EvidenceSummary
	if len(sum.VerificationOutcomes) != 1 || sum.VerificationOutcomes[0].Status != "passed" || len(sum.AuditNotes) != 1 || sum.AuditNotes[0].Note != put.Note {
		t.Errorf("the summary: %+v", sum)
	}
	if task := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: r.TaskID}); len(task.EvidenceRefs) != 1 || task.EvidenceRefs[0] != res.EvidenceID {
		t.Errorf("the task's evidence: %v", task.EvidenceRefs)
	}
	for _, p := range []command.Params{&command.ExportEvidence{ExportScope: scope}, &command.ExportReview{ExportScope: command.ExportScope{SessionID: "sess_a"}}} {
		pack := k.ReadOutput(runtimetest.Do[command.ExportResult](k, p).Ref)
		for _, want := range []string{"unit tests", "passed", put.Note} {
			if !strings.Contains(pack, want) {
				t.Errorf("%s doesn't say %q", p.Command(), want)
			}
		}
	}
	for kind, p := range map[fault.Kind]*command.RecordReview{
		fault.InvalidParams: {ExportScope: scope},
		fault.NotFound:      {ExportScope: command.ExportScope{SessionID: "sess_a", TurnID: "turn_none"}, Note: "x"},
	} {
		if _, err := k.Runtime.Do(t.Context(), command.Local(), p); fault.KindOf(err) != kind {
			t.Errorf("%+v: %v, want %s", p, err, kind)
		}
	}
	stranger := command.Caller{Account: "acct_other", Actor: event.Actor{Kind: "user"}}
	if _, err := k.Runtime.Do(t.Context(), stranger, &command.RecordReview{ExportScope: scope, Note: "x"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a stranger: %v", err)
	}
}
