package proof_test

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
	"agentd/internal/runtimetest"
	"agentd/session"
	"agentd/transfer"
)

// gone removes all events of a session and returns the last of them.
func gone(k *runtimetest.Kit, sessionID string) uint64 {
	k.Helper()
	res, err := k.Runtime.TrimSession(context.Background(), command.Local(), sessionID, session.TrimOptions{})
	if err != nil {
		k.Fatal(err)
	}
	return res.Through
}

// A session can lose its events before its first turn: nothing was said there, but that
// events are gone is no reason not to answer.
func TestTheFirstTurnOfATrimmedSession(t *testing.T) {
	heard := &runtimetest.Listener{}
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(heard), runtimetest.Says("here"))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	if gone(k, "sess_a") == 0 {
		t.Fatal("nothing was removed")
	}
	k.Completes(k.Submit("sess_a", "the first question"))
	requests := heard.Heard()
	if told := runtimetest.Conversation(requests[len(requests)-1]); !strings.Contains(told, "the first question") {
		t.Errorf("the model was told:\n%s", told)
	}
}

// TestATrimmedSessionTellsTheTruth removes the events of two turns and asks in every
// way for what they said.
func TestATrimmedSessionTellsTheTruth(t *testing.T) {
	heard := &runtimetest.Listener{}
	k, turns := runtimetest.ThreeEdits(t, heard, runtimetest.Says("and on"))
	pack := k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_a"}}).Ref)
	whole := k.ExportSession("sess_a")
	through := gone(k, "sess_a")

	if _, err := k.ImportSession(whole, transfer.ImportOptions{}); err == nil || !strings.Contains(err.Error(), "removed by retention") {
		t.Errorf("import of what is gone: %v", err)
	}
	why := runtimetest.Refused(k, &command.Explain{SessionID: "sess_a", TurnID: turns[0].TurnID}, fault.NotFound)
	if !strings.Contains(why, "removed by retention") {
		t.Errorf("explain: %s", why)
	}
	for _, p := range []*command.RollbackThread{{ToTurnID: turns[1].TurnID}, {ToStart: true}} {
		p.SessionID, p.ThreadID = "sess_a", turns[0].ThreadID
		if why := runtimetest.Refused(k, p, fault.Conflict); !strings.Contains(why, "removed by retention") {
			t.Errorf("rollback: %s", why)
		}
	}
	one := command.ExportScope{SessionID: "sess_a", TurnID: turns[0].TurnID}
	if why := runtimetest.Refused(k, &command.ExportEvidence{ExportScope: one}, fault.NotFound); !strings.Contains(why, "removed by retention") {
		t.Errorf("evidence of a turn that is gone: %s", why)
	}
	// What was proven before stays proven.
	if v, err := evidence.Verify(strings.NewReader(pack), evidence.VerifyOptions{}); err != nil || v.Finding != nil || !v.Complete || v.Removed != 0 {
		t.Errorf("the pack from before: %+v, %v", v, err)
	}

	// The session goes on; the model is told what it is not told.
	k.Completes(k.Submit("sess_a", "go on"))
	requests := heard.Heard()
	var told strings.Builder
	for _, m := range requests[len(requests)-1].Messages {
		told.WriteString(m.Text + "\n")
	}
	if said := told.String(); !strings.Contains(said, "removed by this runtime's retention") || !strings.Contains(said, "go on") || strings.Contains(said, "turn one") || strings.Contains(said, "do 1") {
		t.Errorf("the model was told:\n%s", said)
	}
	trimmedExports(k, "sess_a", through)
	report, err := session.Verify(t.Context(), k.Store, session.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 || report.Trimmed != 1 || report.Removed != int64(through) {
		t.Errorf("verify: %+v, %v", report, err)
	}
}

// trimmedExports looks at everything that is exported of a session whose events
// through a sequence are gone.
func trimmedExports(k *runtimetest.Kit, sessionID string, through uint64) {
	k.Helper()
	scope := command.ExportScope{SessionID: sessionID}
	pack := k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: scope}).Ref)
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
	if review := k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportReview{ExportScope: scope}).Ref); !strings.Contains(review, note) {
		k.Errorf("the review doesn't say it: %s", review)
	}
	var c evidence.Case
	if err := json.Unmarshal([]byte(k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportReplay{ExportScope: scope}).Ref)), &c); err != nil {
		k.Fatal(err)
	}
	if c.Determinism != "approximate" || !strings.Contains(strings.Join(c.Limits, "\n"), note) {
		k.Errorf("the case: %s, %v", c.Determinism, c.Limits)
	}
	thread := k.Facts(sessionID)[1].ThreadID
	if _, doc := k.Trajectory(sessionID, thread, "", ""); !bytes.Contains(doc, []byte(note)) {
		k.Errorf("the trajectory doesn't say it: %s", doc)
	}
	trimmedTransfer(k, sessionID, through)
}

// trimmedTransfer exports the session as a file, which says what is gone and is not
// taken over.
func trimmedTransfer(k *runtimetest.Kit, sessionID string, through uint64) {
	k.Helper()
	file := k.ExportSession(sessionID)
	sum, err := transfer.Read(bytes.NewReader(file), transfer.Visitor{})
	if err != nil || sum.RemovedThrough != through || sum.Events != uint64(len(k.Facts(sessionID))) {
		k.Errorf("the file: %+v, %v", sum, err)
	}
	other := runtimetest.NewWith(k.T, nil)
	if _, err := other.ImportSession(file, transfer.ImportOptions{}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "removed by retention") {
		k.Errorf("import: %v", err)
	}
}

// TestTrimmedConversationBeginsWithItsSummary removes the events behind a summary: the
// summary is still told.
func TestTrimmedConversationBeginsWithItsSummary(t *testing.T) {
	heard := &runtimetest.Listener{}
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(heard), runtimetest.Says("first answer"), runtimetest.Says("the summary of it"), runtimetest.Says("second answer"))
	r := k.Submit("sess_a", "first question")
	k.Completes(r)
	runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	gone(k, "sess_a")
	k.Close() // nothing is remembered
	k.Open()
	k.Completes(k.Submit("sess_a", "second question"))
	requests := heard.Heard()
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
	k := runtimetest.NewWith(t, nil)
	k.Completes(k.Submit("sess_a", "hello"))
	caller := command.Caller{Account: "ann", Actor: event.Actor{Kind: "human"}}
	if _, err := k.Runtime.TrimSession(t.Context(), caller, "sess_a", session.TrimOptions{}); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("got %v", err)
	}
	if n := len(k.Facts("sess_a")); n < 5 || k.Facts("sess_a")[0].Sequence != 1 {
		t.Errorf("%d events are left", n)
	}
}
