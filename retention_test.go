package agentd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/session"
	"agentd/transfer"
)

// gone removes all events of a session and returns the last of them.
func (k *kit) gone(sessionID string) uint64 {
	k.Helper()
	res, err := k.r.TrimSession(context.Background(), command.Local(), sessionID, session.TrimOptions{})
	if err != nil {
		k.Fatal(err)
	}
	return res.Through
}

// TestATrimmedSessionTellsTheTruth removes the events of two turns and asks in every
// way for what they said.
func TestATrimmedSessionTellsTheTruth(t *testing.T) {
	heard := &listener{}
	k, turns := edits(t, heard, says("and on"))
	pack := k.output(do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_a"}}).Ref)
	whole := k.exported("sess_a")
	through := k.gone("sess_a")

	if _, err := k.imports(whole, transfer.ImportOptions{}); err == nil || !strings.Contains(err.Error(), "removed by retention") {
		t.Errorf("import of what is gone: %v", err)
	}
	why := refused(k, &command.Explain{SessionID: "sess_a", TurnID: turns[0].TurnID}, fault.NotFound)
	if !strings.Contains(why, "removed by retention") {
		t.Errorf("explain: %s", why)
	}
	for _, p := range []*command.RollbackThread{{ToTurnID: turns[1].TurnID}, {ToStart: true}} {
		p.SessionID, p.ThreadID = "sess_a", turns[0].ThreadID
		if why := refused(k, p, fault.Conflict); !strings.Contains(why, "removed by retention") {
			t.Errorf("rollback: %s", why)
		}
	}
	one := command.ExportScope{SessionID: "sess_a", TurnID: turns[0].TurnID}
	if why := refused(k, &command.ExportEvidence{ExportScope: one}, fault.NotFound); !strings.Contains(why, "removed by retention") {
		t.Errorf("evidence of a turn that is gone: %s", why)
	}
	// What was proven before stays proven.
	if v, err := evidence.Verify(strings.NewReader(pack), evidence.VerifyOptions{}); err != nil || v.Finding != nil || !v.Complete || v.Removed != 0 {
		t.Errorf("the pack from before: %+v, %v", v, err)
	}

	// The session goes on; the model is told what it is not told.
	k.completes(k.submit("sess_a", "go on"))
	requests := heard.heard()
	var told strings.Builder
	for _, m := range requests[len(requests)-1].Messages {
		told.WriteString(m.Text + "\n")
	}
	if said := told.String(); !strings.Contains(said, "removed by this runtime's retention") || !strings.Contains(said, "go on") || strings.Contains(said, "turn one") || strings.Contains(said, "do 1") {
		t.Errorf("the model was told:\n%s", said)
	}
	k.trimmedExports("sess_a", through)
	report, err := session.Verify(t.Context(), k.store, session.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 || report.Trimmed != 1 || report.Removed != int64(through) {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// trimmedExports looks at everything that is exported of a session whose events
// through a sequence are gone.
func (k *kit) trimmedExports(sessionID string, through uint64) {
	k.Helper()
	scope := command.ExportScope{SessionID: sessionID}
	pack := k.output(do[command.ExportResult](k, &command.ExportEvidence{ExportScope: scope}).Ref)
	v, err := evidence.Verify(strings.NewReader(pack), evidence.VerifyOptions{})
	if err != nil || v.Finding != nil || v.Complete || v.Removed != through || v.Events == 0 {
		k.Errorf("the pack: %+v, %v", v, err)
	}
	var said struct {
		KnownGaps []evidence.Gap `json:"knownGaps"`
		Runtime   struct {
			SessionID string `json:"sessionId"`
			CreatedAt string `json:"createdAt"`
		} `json:"runtime"`
	}
	if err := json.Unmarshal([]byte(pack), &said); err != nil {
		k.Fatal(err)
	}
	note := "removed by retention"
	if len(said.KnownGaps) == 0 || said.KnownGaps[0].Signal != "events" || !strings.Contains(said.KnownGaps[0].Reason, note) || strings.HasPrefix(said.Runtime.CreatedAt, "0001") {
		k.Errorf("the pack says %+v", said)
	}
	changed := strings.Replace(pack, `"removedThrough":`, `"removedThrough":1`, 1)
	if v, err := evidence.Verify(strings.NewReader(changed), evidence.VerifyOptions{}); err != nil || v.Finding == nil {
		k.Errorf("a pack that says something else of what is gone: %+v, %v", v, err)
	}
	if review := k.output(do[command.ExportResult](k, &command.ExportReview{ExportScope: scope}).Ref); !strings.Contains(review, note) {
		k.Errorf("the review doesn't say it: %s", review)
	}
	var c evidence.Case
	if err := json.Unmarshal([]byte(k.output(do[command.ExportResult](k, &command.ExportReplay{ExportScope: scope}).Ref)), &c); err != nil {
		k.Fatal(err)
	}
	if c.Determinism != "approximate" || !strings.Contains(strings.Join(c.Limits, "\n"), note) {
		k.Errorf("the case: %s, %v", c.Determinism, c.Limits)
	}
	thread := k.facts(sessionID)[1].ThreadID
	if _, doc := k.trajectory(sessionID, thread, "", ""); !bytes.Contains(doc, []byte(note)) {
		k.Errorf("the trajectory doesn't say it: %s", doc)
	}
	k.trimmedTransfer(sessionID, through)
}

// trimmedTransfer exports the session as a file, which says what is gone and is not
// taken over.
func (k *kit) trimmedTransfer(sessionID string, through uint64) {
	k.Helper()
	file := k.exported(sessionID)
	sum, err := transfer.Read(bytes.NewReader(file), transfer.Visitor{})
	if err != nil || sum.RemovedThrough != through || sum.Events != uint64(len(k.facts(sessionID))) {
		k.Errorf("the file: %+v, %v", sum, err)
	}
	other := newKitWith(k.T, nil)
	if _, err := other.imports(file, transfer.ImportOptions{}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "removed by retention") {
		k.Errorf("import: %v", err)
	}
}

// TestTrimmedConversationBeginsWithItsSummary removes the events behind a summary: the
// summary is still told.
func TestTrimmedConversationBeginsWithItsSummary(t *testing.T) {
	heard := &listener{}
	k := newKitWith(t, listened(heard), says("first answer"), says("the summary of it"), says("second answer"))
	r := k.submit("sess_a", "first question")
	k.completes(r)
	do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	k.gone("sess_a")
	k.close() // nothing is remembered
	k.open()
	k.completes(k.submit("sess_a", "second question"))
	requests := heard.heard()
	var told []string
	for _, m := range requests[len(requests)-1].Messages {
		told = append(told, m.Text)
	}
	all := strings.Join(told, "\n")
	if !strings.Contains(all, "the summary of it") || !strings.Contains(all, "removed by this runtime's retention") || strings.Contains(all, "first question") || !strings.HasSuffix(strings.TrimSpace(all), "second question") {
		t.Errorf("the model was told:\n%s", all)
	}
}

// TestOnlyAnAdminTrims lets others try.
func TestOnlyAnAdminTrims(t *testing.T) {
	k := newKitWith(t, nil)
	k.completes(k.submit("sess_a", "hello"))
	caller := command.Caller{Account: "ann", Actor: event.Actor{Kind: "human"}}
	if _, err := k.r.TrimSession(t.Context(), caller, "sess_a", session.TrimOptions{}); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("got %v", err)
	}
	if n := len(k.facts("sess_a")); n < 5 || k.facts("sess_a")[0].Sequence != 1 {
		t.Errorf("%d events are left", n)
	}
}
