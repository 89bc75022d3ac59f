package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

func TestCompactionBoundary(t *testing.T) {
	st := newStory(t)
	boundary := func() ContextBoundary { return st.s.ThreadRead("thread_1").ContextBoundary }
	if b := boundary(); b.Status != Unknown {
		t.Errorf("before any fact: %+v", b)
	}
	st.startTurn()
	st.addFact(event.TypeContextResolved, inTurn(), &event.ContextResolved{
		Items: []event.ContextItem{{Kind: "history", Tokens: 10}}, Omissions: []event.ContextOmission{{Kind: "file", Ref: "x", Reason: "too large"}},
		MissingFacts: []string{"memory"},
	})
	start := func(id string) {
		st.addFact(event.TypeContextCompactionStarted, inTurn(), &event.CompactionStarted{CompactionID: id, Trigger: "requested", AffectedTurns: []string{"turn_0"}, TokensBefore: 100})
	}
	fail := func(id string) {
		st.addFact(event.TypeContextCompactionFailed, inTurn(), &event.CompactionFailed{CompactionID: id, Trigger: "requested", Error: event.Failure{Message: "no"}, WillRetry: true})
	}
	start("c_1")
	if b := boundary(); b.Status != "preparing" || b.Running == nil || b.MissingFacts[0] != "memory" || b.Warnings[0].Reason != "too large" {
		t.Errorf("while it runs: %+v", b)
	}
	fail("c_1")
	start("c_2")
	fail("c_2")
	if b := boundary(); b.Status != Available || b.Failures != 2 || b.LastFailure.CompactionID != "c_2" || b.Running != nil {
		t.Errorf("after two failures: %+v", b)
	}
	start("c_3")
	st.addFact(event.TypeContextCompactionCompleted, inTurn(), &event.CompactionCompleted{
		CompactionID: "c_3", Trigger: "requested", AffectedTurns: []string{"turn_0"}, SummaryRef: "ref", TokensBefore: 100, TokensAfter: 20,
		Preserved: event.Preserved{Actions: []string{"action_1"}}, ThroughSequence: 5,
	})
	b := boundary()
	if b.Failures != 0 || b.Compaction.TokensAfter != 20 || b.Compaction.StartedAt.IsZero() || !slices.Equal(b.Compaction.PreservedActions, []string{"action_1"}) {
		t.Errorf("completed: %+v", b)
	}
	if d := st.s.ThreadRead("thread_1").Diagnostics; !slices.Equal(d.ContextGaps, []string{"memory"}) {
		t.Errorf("gaps %v", d.ContextGaps)
	}
	st.addFact(event.TypeHistoryRollbackCompleted, event.Scope{ThreadID: "thread_1"}, &event.RollbackCompleted{RollbackID: "r", ToTurnID: "turn_0", BaselineSequence: 4})
	if b := boundary(); b.Status != Stale {
		t.Errorf("the summary covers what was rolled back, but the boundary is %s", b.Status)
	}
}

func TestRollbackTakesTurnsBack(t *testing.T) {
	st := newStory(t)
	for i := 1; i <= 3; i++ {
		scope := event.Scope{ThreadID: "thread_1", TurnID: fmt.Sprintf("turn_%d", i), TaskID: "task_1", RunID: "run_1"}
		st.addFact(event.TypeTurnSubmitted, scope, &event.TurnSubmitted{Status: "accepted", Source: "user", Input: event.Raw(`"x"`)})
		st.addFact(event.TypeTurnStarted, scope, &event.TurnStarted{Status: "running"})
		if i == 1 {
			st.addFact(event.TypeTurnCompleted, scope, &event.TurnCompleted{Status: "completed", Outcome: "done"})
			continue
		}
		st.addFact(event.TypeTurnFailed, scope, &event.TurnFailed{Status: "failed", Outcome: "x", FailureCategory: "internal", Error: &event.Failure{Message: "x"}})
	}
	thread := event.Scope{ThreadID: "thread_1"}
	st.addFact(event.TypeHistoryRollbackStarted, thread, &event.RollbackStarted{RollbackID: "rb", ToTurnID: "turn_1", RemovedTurns: []string{"turn_2", "turn_3"}, Files: "keep"})
	if h := st.s.ThreadRead("thread_1").History; len(h.RunningRollbacks) != 1 || len(h.Rollbacks) != 0 {
		t.Errorf("under way: %+v", h)
	}
	st.addFact(event.TypeHistoryRollbackCompleted, thread, &event.RollbackCompleted{
		RollbackID: "rb", ToTurnID: "turn_1", RemovedTurns: []string{"turn_2", "turn_3"}, BaselineSequence: 6, AffectedTools: []string{"write_file"}, ReadModelRepaired: true,
	})
	m := st.s.ThreadRead("thread_1")
	if len(m.Turns) != 1 || m.Turns[0].TurnID != "turn_1" || m.Status != ThreadCompleted || m.LastOutcome.TurnID != "turn_1" || !m.Truncated {
		t.Errorf("thread %+v", m)
	}
	if x, ok := st.left["turn/turn_3"].(*Turn); !ok || x.Status != TurnFailed {
		t.Errorf("the removed turn left as %+v", st.left["turn/turn_3"])
	}
	if h := m.History; len(h.RunningRollbacks) != 0 || h.Rollbacks[0].FilesPolicy != "keep" || h.Rollbacks[0].RemovedCount != 2 {
		t.Errorf("history %+v", h)
	}
}

func TestRecoveryIsToldHonestly(t *testing.T) {
	st := newStory(t)
	if s := st.s.Snapshot(); s.HistorySummary.Status != NotApplicable || s.Degraded || s.Stale {
		t.Errorf("before any fact: %+v", s.HistorySummary)
	}
	st.addFact(event.TypeHistoryReconstructed, event.Scope{}, &event.HistoryReconstructed{Degraded: true, Missing: []string{"outputs"}})
	st.addFact(event.TypeSnapshotRepaired, event.Scope{}, &event.SnapshotRepaired{Reason: "retention", GapFrom: 3, GapTo: 9, RecoveryMode: "snapshot_repair", Status: "stale"})
	s := st.s.Snapshot()
	if !s.Degraded || !s.Stale || s.HistorySummary.Repairs[0].GapTo != 9 || !slices.Equal(s.HistorySummary.Reconstruction.Missing, []string{"outputs"}) {
		t.Errorf("%+v", s.HistorySummary)
	}
	st.addFact(event.TypeHistoryReconstructed, event.Scope{}, &event.HistoryReconstructed{})
	if st.s.Snapshot().Degraded {
		t.Error("a whole recovery is still called degraded")
	}
}

func TestOutputs(t *testing.T) {
	st := newStory(t)
	st.startTurn()
	st.addFact(event.TypeOutputSpilled, inTool("tool_1"), &event.OutputStored{OutputRef: "ref_1", SizeBytes: 1000, MediaType: "text/plain", Preview: strings.Repeat("ä", 300)})
	st.addFact(event.TypeOutputTruncated, inTool("tool_1"), &event.OutputStored{OutputRef: "ref_1", SizeBytes: 1000, MediaType: "text/plain", Preview: "x", DroppedBytes: 50})
	st.addFact(event.TypeOutputRedacted, inTool("tool_1"), &event.OutputRedacted{OutputRef: "ref_1", Count: 2, Rules: []string{"key"}})
	st.addFact(event.TypeOutputExpired, event.Scope{}, &event.OutputExpired{OutputRef: "ref_1", Reason: "age"})
	s := st.s.Snapshot().OutputSummary
	if len(s.Outputs) != 1 || s.StoredBytes != 1000 || s.DroppedBytes != 50 || s.RedactedCount != 2 || s.Expired != 1 {
		t.Errorf("summary %+v", s)
	}
	if o := s.Outputs[0]; !o.Truncated || o.Redactions != 2 || !o.Expired || o.ExpiredReason != "age" {
		t.Errorf("output %+v", o)
	}
	if m := st.s.ThreadRead("thread_1"); len(m.Outputs) != 1 || len(m.Turns[0].OutputRefs) != 1 {
		t.Errorf("the thread's outputs %+v", m.Outputs)
	}
	if p := preview(strings.Repeat("ä", 300)); len(p) > previewBytes || strings.Trim(p, "ä") != "" {
		t.Errorf("preview of %d bytes: %q", len(p), p)
	}
}

func TestArtifactsKeepVersions(t *testing.T) {
	st := newStory(t)
	st.createTask("task_1", &event.TaskCreated{})
	issues := int64(2)
	change := func(p *event.ArtifactChanged) {
		st.addFact(event.TypeArtifactChanged, event.Scope{ArtifactID: "artifact_1", TaskID: "task_1", ThreadID: "thread_1"}, p)
	}
	change(&event.ArtifactChanged{Change: "created", Title: "report", VersionID: "v1"})
	if a := st.s.Snapshot().ArtifactCheckpoint; a.Unvalidated != 1 || a.ValidationIssues != 0 {
		t.Errorf("not validated: %+v", a)
	}
	for i := 2; i <= keepVersions+2; i++ {
		change(&event.ArtifactChanged{Change: "updated", VersionID: fmt.Sprintf("v%d", i), DiffRef: fmt.Sprintf("d%d", i), ValidationIssues: &issues})
	}
	a := st.s.Snapshot().ArtifactCheckpoint
	if len(a.Artifacts) != 1 || a.ValidationIssues != 2 || a.Unvalidated != 0 || a.Changes["updated"] != keepVersions+1 {
		t.Errorf("summary %+v", a)
	}
	if x := a.Artifacts[0]; x.Title != "report" || x.VersionCount != keepVersions+2 || len(x.Versions) != keepVersions || x.Versions[0].VersionID != "v3" {
		t.Errorf("artifact %+v", x)
	}
	if task := st.s.Tasks.Find("task_1"); findEdge(task.Relationships, "produced_artifact", "artifact_1") < 0 || len(task.Artifacts) != 1 {
		t.Errorf("the task's artifacts %+v", task.Artifacts)
	}
}

func TestEvidence(t *testing.T) {
	st := newStory(t)
	if e := st.s.Snapshot().EvidenceSummary; e.Status != Unknown || e.EvidenceRefs == nil {
		t.Errorf("before any fact: %+v", e)
	}
	st.addFact(event.TypeThreadStarted, event.Scope{ThreadID: "thread_2"}, &event.ThreadStarted{Role: "subagent"})
	add := func(id, thread string, p *event.EvidenceChanged) {
		st.addFact(event.TypeEvidenceChanged, event.Scope{EvidenceID: id, ThreadID: thread}, p)
	}
	add("evidence_1", "thread_1", &event.EvidenceChanged{Kind: "evidence", PackRef: "pack", VerificationOutcomes: []event.VerificationOutcome{{Name: "tests", Status: "passed"}}})
	add("evidence_2", "", &event.EvidenceChanged{Kind: "replay", ReplayRef: "replay"})
	add("evidence_3", "thread_2", &event.EvidenceChanged{Kind: "review", ReviewRef: "review", Note: "fine"})
	s := st.s.Snapshot()
	if !slices.Equal(s.EvidenceRefs, []string{"evidence_1", "evidence_2", "evidence_3"}) || s.EvidenceSummary.OutcomeCounts["passed"] != 1 {
		t.Errorf("summary %+v", s.EvidenceSummary)
	}
	e := st.s.ThreadRead("thread_1").EvidenceSummary
	if !slices.Equal(e.EvidenceRefs, []string{"evidence_1", "evidence_2"}) || !slices.Equal(e.ReplayRefs, []string{"replay"}) || len(e.ReviewRefs) != 0 || len(e.AuditNotes) != 0 {
		t.Errorf("the thread's %+v", e)
	}
}

func TestTelemetryJoin(t *testing.T) {
	st := newStory(t)
	join := func() string { return st.s.Snapshot().TelemetrySummary.JoinStatus }
	st.startTurn()
	if join() != Unavailable {
		t.Errorf("without a trace: %s", join())
	}
	traced := inTurn()
	traced.TraceID, traced.SpanID = "trace_1", "span_1"
	st.addFact(event.TypeModelDelta, traced, &event.ModelDelta{Text: "x"})
	if m := st.s.ThreadRead("thread_1").Telemetry; join() != MissingCorrelation || m.JoinStatus != MissingCorrelation || !slices.Equal(m.TraceIDs, []string{"trace_1"}) || m.LastSpanID != "span_1" {
		t.Errorf("some aren't traced: %s, %+v", join(), m)
	}
	whole := New("sess_w")
	for i, e := range []event.Event{
		{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{}},
		{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: "thread_1"}, Payload: &event.ThreadStarted{Role: "main"}},
	} {
		e.SessionID, e.Sequence, e.TraceID, e.SpanID = "sess_w", uint64(i+1), "trace_1", "span_1"
		if _, err := whole.Apply(&e); err != nil {
			t.Fatal(err)
		}
	}
	if sum := whole.Snapshot().TelemetrySummary; sum.JoinStatus != Joined || sum.Traced != 2 || sum.Untraced != 0 {
		t.Errorf("all traced: %+v", sum)
	}
}

func TestToolInventory(t *testing.T) {
	st := newStory(t)
	if v := st.s.ThreadRead("thread_1").ToolInventory; v.Status != Unknown {
		t.Errorf("before any fact: %+v", v)
	}
	scope := inTool(event.NotApplicable)
	scope.StepID = event.NotApplicable
	st.addFact(event.TypeToolCatalogResolved, scope, &event.ToolCatalogResolved{ToolCount: 1, InventoryRef: "inventory", Tools: []event.ToolInfo{
		{ToolName: "read_file", Policy: "allowed", RuntimeOwner: "local", IsReadOnly: true, InterruptBehavior: "cancel", InputSchema: event.Raw(`{}`)},
	}})
	v := st.s.ThreadRead("thread_1").ToolInventory
	if v.Status != Available || v.ToolCount != 1 || v.Tools[0].ToolName != "read_file" || st.s.Snapshot().ToolInventoryRef != "inventory" {
		t.Errorf("%+v", v)
	}
}
