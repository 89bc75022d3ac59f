package state

import (
	"fmt"
	"strings"
	"testing"

	"agentd/event"
)

// A session that has done five thousand of everything is no larger than one that
// has done five hundred: what is finished leaves.
func TestStateDoesNotGrowWithHistory(t *testing.T) {
	s := New(testSession)
	var sequence uint64
	put := func(e *event.Event) {
		sequence++
		stamp(e, sequence)
		if err := event.Check(e); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	put(&event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{}})
	put(&event.Event{Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: "thread_1"}, Payload: &event.ThreadStarted{Role: "main"}})
	size := func() int { return len(stateBytes(t, s)) }
	var at500 int
	for i := range 5000 {
		for _, e := range lifecycle(i) {
			put(e)
		}
		if i == 500 {
			at500 = size()
		}
	}
	if s.HasOpenWork() {
		t.Error("all is finished, but there is open work")
	}
	// Ids and counters have more digits, nothing else is larger.
	if at5000 := size(); at5000 > at500*105/100 {
		t.Errorf("the state has %d bytes after 500 rounds and %d after 5000", at500, at5000)
	}
	t.Logf("%d facts, %d bytes", sequence, size())
}

// lifecycle is one of everything that a session does, from begin to end.
func lifecycle(i int) []*event.Event {
	id := func(kind string) string { return fmt.Sprintf("%s_%06d", kind, i) }
	thread := event.Scope{ThreadID: "thread_1"}
	turn := event.Scope{ThreadID: "thread_1", TurnID: id("turn"), TaskID: id("task"), RunID: id("run"), TraceID: id("trace")}
	tool := turn
	tool.StepID, tool.ToolCallID = id("step"), id("tool")
	model := turn
	model.ModelRequestID = id("req")
	action := tool
	action.ActionID = id("action")
	process := tool
	process.ProcessID = id("proc")
	sub := event.Scope{SubagentID: id("sub"), ThreadID: id("thread")}
	job := event.Scope{JobID: id("job")}
	item := event.Scope{JobID: id("job"), JobItemID: id("item")}
	channel := event.Scope{ChannelID: id("chan"), TaskID: id("task")}
	artifact := turn
	artifact.ArtifactID = id("artifact")
	evidence := turn
	evidence.EvidenceID = id("evidence")
	bench := &event.Benchmark{TrialID: id("trial"), ConfigurationID: id("config"), DatasetID: "d", TaskID: "t"}
	text := strings.Repeat("x", 300)
	cost := 0.5
	e := func(typ event.Type, scope event.Scope, p event.Payload) *event.Event {
		return &event.Event{Type: typ, Scope: scope, Payload: p}
	}
	b := func(typ event.Type, p event.Payload) *event.Event {
		x := e(typ, turn, p)
		x.Benchmark, x.Refs = bench, map[string]string{"trajectoryRef": id("ref")}
		if r, ok := p.(*event.BenchmarkRewardRecorded); ok {
			x.Reward = &event.Reward{Value: r.Value}
		}
		return x
	}
	failure := event.Failure{Message: text, Category: "x"}
	return []*event.Event{
		e(event.TypeTaskCreated, turn, &event.TaskCreated{TaskKind: TaskKindTurn, Visibility: "internal", Status: "accepted", Objective: text}),
		e(event.TypeTurnSubmitted, turn, &event.TurnSubmitted{Status: "accepted", Source: "user", Preview: text}),
		e(event.TypeTurnStarted, turn, &event.TurnStarted{Status: "running"}),
		e(event.TypeTaskAttemptStarted, turn, &event.TaskAttemptStarted{Status: "running", AttemptCount: 1}),
		e(event.TypeContextResolved, turn, &event.ContextResolved{Items: []event.ContextItem{{Kind: "history"}}}),
		e(event.TypeRoutingCandidatesResolved, turn, &event.RoutingCandidates{CandidateCount: 1, Candidates: []event.Candidate{{Provider: "p", Model: "m"}}}),
		e(event.TypeRoutingDecided, turn, &event.RoutingDecision{SelectedProvider: "p", SelectedModel: "m", DecisionSource: "automatic", DecisionReason: "r", CapabilityGap: "none"}),
		e(event.TypeModelRequested, model, &event.ModelRequested{Provider: "p", Model: "m", ModelRequestID: id("req"), Step: 1, Attempt: 1}),
		e(event.TypeModelDelta, model, &event.ModelDelta{Text: text}),
		e(event.TypeModelCompleted, model, &event.ModelCompleted{ModelRequestID: id("req"), StopReason: "tool_use", Usage: event.Usage{InputTokens: 10}, Message: &event.ModelMessage{ToolCalls: []event.ToolCallRequest{{ToolCallID: id("tool"), ToolName: "shell"}}}}),
		e(event.TypeCostRecorded, model, &event.CostRecorded{CostUSD: &cost, Currency: "USD", Basis: "b", ModelRequestID: id("req")}),
		e(event.TypeRateLimitHit, model, &event.RateLimitHit{Provider: "p", ModelRequestID: id("req")}),
		e(event.TypeQuotaLow, model, &event.QuotaState{QuotaName: id("quota")}),
		e(event.TypeLimitChanged, turn, &event.LimitChanged{Kind: "budget", Name: id("limit")}),
		e(event.TypePermissionEvaluated, tool, &event.PermissionEvaluated{Decision: "ask", DecisionSource: "mode", DecisionReason: text, ToolName: "shell", Scope: event.Raw(`{}`)}),
		e(event.TypeActionRequired, action, &event.ActionRequired{ActionType: "tool_permission", Decisions: []string{"allow"}, Prompt: text}),
		e(event.TypeActionResolved, action, &event.ActionResolved{Decision: "allow", Status: "resolved", DecisionSource: "human"}),
		e(event.TypePermissionResolved, tool, &event.PermissionResolved{Decision: "allow", DecisionSource: "human", Scope: "session", GrantID: id("grant")}),
		e(event.TypeHookStarted, tool, &event.HookStarted{HookRunID: id("hook"), Point: "pre_tool_use", HandlerRef: "h"}),
		e(event.TypeHookCompleted, tool, &event.HookCompleted{HookRunID: id("hook"), Point: "pre_tool_use", HandlerRef: "h", Decision: "continue"}),
		e(event.TypeSandboxApplied, tool, &event.SandboxApplied{Mode: "none", Network: "deny", Enforcement: event.Enforcement{Filesystem: "none", Network: "none", Processes: "none", Limits: "none"}}),
		e(event.TypeSandboxViolation, tool, &event.SandboxViolation{Boundary: "network", Detail: text}),
		e(event.TypeProcessStarted, process, &event.ProcessStarted{ProcessID: id("proc"), Command: []string{"ls"}}),
		e(event.TypeProcessOutput, process, &event.ProcessOutput{ProcessID: id("proc"), Stream: "stdout", Text: text}),
		e(event.TypeProcessCompleted, process, &event.ProcessCompleted{ProcessID: id("proc")}),
		e(event.TypeOutputSpilled, tool, &event.OutputStored{OutputRef: id("ref"), MediaType: "text/plain", Preview: text}),
		e(event.TypeOutputRedacted, tool, &event.OutputRedacted{OutputRef: id("ref"), Count: 1, Rules: []string{id("rule")}}),
		e(event.TypeToolStarted, tool, &event.ToolStarted{ToolName: "shell", Policy: "allowed"}),
		e(event.TypeToolFailed, tool, &event.ToolFailed{ToolName: "shell", ErrorCategory: "execution", Message: text}),
		e(event.TypeArtifactChanged, artifact, &event.ArtifactChanged{Change: "created", URI: text, VersionID: id("v")}),
		e(event.TypeEvidenceChanged, evidence, &event.EvidenceChanged{Kind: "note", Note: text, TraceRef: id("ref"), VerificationOutcomes: []event.VerificationOutcome{{Name: "n", Status: id("status")}}}),
		e(event.TypeThreadStarted, sub, &event.ThreadStarted{Role: "subagent", ParentThreadID: "thread_1"}),
		e(event.TypeSubagentSpawned, sub, &event.SubagentSpawned{ParentThreadID: "thread_1", ChildThreadID: id("thread"), Depth: 1}),
		e(event.TypeSubagentCompleted, sub, &event.SubagentEnded{Status: "completed", Preview: text}),
		e(event.TypeThreadUpdated, event.Scope{ThreadID: id("thread")}, &event.ThreadUpdated{Status: "archived"}),
		e(event.TypeJobCreated, job, &event.JobCreated{Status: "pending", ItemCount: 2}),
		e(event.TypeJobStarted, job, &event.JobStatusChanged{Status: "running"}),
		e(event.TypeJobItemStarted, item, &event.JobItemStarted{AttemptCount: 1}),
		e(event.TypeJobItemFailed, item, &event.JobItemFailed{AttemptCount: 1, Error: failure}),
		e(event.TypeJobFailed, job, &event.JobStatusChanged{Status: "failed", Error: &failure}),
		e(event.TypeChannelConnected, channel, &event.ChannelConnected{Transport: "sse", PeerRole: "client"}),
		e(event.TypeChannelPeerTaskLinked, channel, &event.PeerTaskLinked{NativeProtocol: "a2a", Direction: "outbound", RemoteTaskID: id("remote")}),
		e(event.TypeChannelDisconnected, channel, &event.ChannelDisconnected{Reason: "closed"}),
		b(event.TypeBenchmarkConfigurationResolved, &event.BenchmarkConfiguration{Model: text}),
		b(event.TypeBenchmarkTrialStarted, &event.BenchmarkTrialStarted{Status: "running"}),
		b(event.TypeBenchmarkTrialCompleted, &event.BenchmarkTrialEnded{Status: "completed"}),
		b(event.TypeBenchmarkRewardRecorded, &event.BenchmarkRewardRecorded{Value: 1}),
		e(event.TypeContextCompactionStarted, turn, &event.CompactionStarted{CompactionID: id("c"), Trigger: "requested"}),
		e(event.TypeContextCompactionCompleted, turn, &event.CompactionCompleted{CompactionID: id("c"), Trigger: "requested", SummaryRef: id("ref")}),
		e(event.TypeRuntimeWarning, turn, &event.RuntimeNotice{Code: "w", Message: text}),
		e(event.TypeSnapshotRepaired, turn, &event.SnapshotRepaired{Reason: text, RecoveryMode: "snapshot_repair", Status: "repaired"}),
		e(event.TypeTaskAttemptCompleted, turn, &event.TaskAttemptCompleted{Status: "completed", CompletionSummary: text}),
		e(event.TypeTaskCompleted, turn, &event.TaskCompleted{Status: "completed", Summary: text}),
		e(event.TypeTurnCompleted, turn, &event.TurnCompleted{Status: "completed", Outcome: "done"}),
		e(event.TypeHistoryRollbackStarted, thread, &event.RollbackStarted{RollbackID: id("rb"), ToTurnID: "t", Files: "keep"}),
		e(event.TypeHistoryRollbackCompleted, thread, &event.RollbackCompleted{RollbackID: id("rb"), ToTurnID: "t"}),
	}
}

// A job with very many items holds only those that something is to be said of.
func TestLargeJobDoesNotGrowTheState(t *testing.T) {
	s := New(testSession)
	var sequence uint64
	left := 0
	put := func(typ event.Type, item string, p event.Payload) {
		sequence++
		e := &event.Event{Type: typ, Scope: event.Scope{JobID: "job_1", JobItemID: item}, Payload: p}
		stamp(e, sequence)
		evicted, err := s.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		left += len(evicted)
	}
	const n = 100_000
	put(event.TypeJobCreated, "", &event.JobCreated{Status: "pending", ItemCount: n})
	put(event.TypeJobStarted, "", &event.JobStatusChanged{Status: "running"})
	failed := 0
	for i := range int64(n) {
		item := fmt.Sprintf("item_%d", i)
		put(event.TypeJobItemStarted, item, &event.JobItemStarted{Index: i, AttemptCount: 1})
		if i%10 == 0 {
			failed++
			put(event.TypeJobItemFailed, item, &event.JobItemFailed{Index: i, AttemptCount: 1, Error: event.Failure{Message: "no"}})
			continue
		}
		put(event.TypeJobItemCompleted, item, &event.JobItemCompleted{Status: "completed", Index: i, AttemptCount: 1})
	}
	j := s.Jobs.Find("job_1")
	want := event.JobCounts{Completed: n - int64(failed), Failed: int64(failed), Total: n}
	if j.Progress != want || j.Cursor != n {
		t.Errorf("progress %+v, cursor %d", j.Progress, j.Cursor)
	}
	if got := left + len(j.Failed); got != n {
		t.Errorf("%d items left or are kept, of %d", got, n)
	}
	if size := len(stateBytes(t, s)); size > 20_000 {
		t.Errorf("the state has %d bytes", size)
	}
	// A failed item that had left is tried again: it counts as failed until then.
	put(event.TypeJobItemStarted, "item_0", &event.JobItemStarted{Index: 0, AttemptCount: 2})
	put(event.TypeJobItemCompleted, "item_0", &event.JobItemCompleted{Status: "completed", Index: 0, AttemptCount: 2})
	want.Completed, want.Failed = want.Completed+1, want.Failed-1
	if j.Progress != want {
		t.Errorf("after a retry: %+v, want %+v", j.Progress, want)
	}
}
