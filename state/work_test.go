package state

import (
	"fmt"
	"slices"
	"testing"

	"agentd/event"
)

func (st *story) spawn(id, parent, child string) {
	st.t.Helper()
	st.addFact(event.TypeThreadStarted, event.Scope{ThreadID: child, SubagentID: id}, &event.ThreadStarted{Role: "subagent", ParentThreadID: parent})
	st.addFact(event.TypeSubagentSpawned, event.Scope{SubagentID: id, ThreadID: child}, &event.SubagentSpawned{ParentThreadID: parent, ChildThreadID: child, Role: "explorer", Depth: 1})
}

func TestSubagentsFormAGraph(t *testing.T) {
	st := newStory(t)
	if s := st.s.Snapshot().SubagentJobSummary; s.Status != NotApplicable || s.Jobs.Status != NotApplicable {
		t.Errorf("before any fact: %+v", s)
	}
	st.spawn("sub_1", "thread_1", "thread_2")
	st.spawn("sub_2", "thread_2", "thread_3")
	ids := func(edges []SubagentEdge) (out []string) {
		for _, e := range edges {
			out = append(out, e.SubagentID)
		}
		return out
	}
	if g := ids(st.s.ThreadRead("thread_1").SubagentGraph); !slices.Equal(g, []string{"sub_1", "sub_2"}) {
		t.Errorf("descendants of the main thread: %v", g)
	}
	if m := st.s.ThreadRead("thread_2"); !slices.Equal(ids(m.SubagentGraph), []string{"sub_2"}) || len(m.Subagents) != 2 {
		t.Errorf("the child's: %v %+v", ids(m.SubagentGraph), m.Subagents)
	}
	st.addFact(event.TypeSubagentOutput, event.Scope{SubagentID: "sub_1"}, &event.SubagentMessage{Text: "found it", MessageRef: "ref_1"})
	st.addFact(event.TypeSubagentCompleted, event.Scope{SubagentID: "sub_1"}, &event.SubagentEnded{Status: "completed"})
	st.addFact(event.TypeSubagentClosed, event.Scope{SubagentID: "sub_1"}, &event.SubagentEnded{Status: "closed"})
	a := st.s.Subagents.Find("sub_1")
	if a.Status != "closed" || a.Outcome != "completed" || a.LastMessageRef != "ref_1" || a.Outputs != 1 {
		t.Errorf("closed child %+v", a)
	}
	if !st.s.HasOpenWork() {
		t.Error("a grandchild is open")
	}
	st.addFact(event.TypeSubagentFailed, event.Scope{SubagentID: "sub_2"}, &event.SubagentEnded{Status: "failed", Error: &event.Failure{Message: "no"}})
	if st.s.HasOpenWork() {
		t.Error("all children ended")
	}
	st.addFact(event.TypeSubagentStatus, event.Scope{SubagentID: "sub_2"}, &event.SubagentStatus{Status: "resumed"})
	if !st.s.Subagents.open() || st.s.Subagents.Find("sub_2").Error != nil {
		t.Error("a resumed child isn't open")
	}
}

func TestEndedSubagentsLeave(t *testing.T) {
	st := newStory(t)
	for i := range keepRecent + 1 {
		id := fmt.Sprintf("sub_%d", i)
		st.spawn(id, "thread_1", "thread_"+id)
		st.addFact(event.TypeSubagentCompleted, event.Scope{SubagentID: id}, &event.SubagentEnded{Status: "completed"})
	}
	if _, ok := st.left["subagent/sub_0"].(*Subagent); !ok || st.s.Subagents.Find("sub_0") != nil {
		t.Error("the oldest ended child didn't leave")
	}
	if s := st.s.Snapshot().SubagentJobSummary.Subagents; s.Completed != keepRecent+1 {
		t.Errorf("%d completed", s.Completed)
	}
}

func TestJobItems(t *testing.T) {
	st := newStory(t)
	job := event.Scope{JobID: "job_1"}
	item := func(n int) event.Scope { return event.Scope{JobID: "job_1", JobItemID: fmt.Sprintf("item_%d", n)} }
	st.addFact(event.TypeJobCreated, job, &event.JobCreated{Status: "pending", ItemCount: 4, Instruction: "do"})
	st.addFact(event.TypeJobStarted, job, &event.JobStatusChanged{Status: "running"})
	for i := range int64(4) {
		st.addFact(event.TypeJobItemStarted, item(int(i)), &event.JobItemStarted{Index: i, AttemptCount: 1, AssignedThreadID: fmt.Sprintf("thread_i%d", i)})
	}
	st.addFact(event.TypeJobItemCompleted, item(0), &event.JobItemCompleted{Status: "completed", Index: 0, AttemptCount: 1, OutputRef: "out_0"})
	st.addFact(event.TypeJobItemCompleted, item(1), &event.JobItemCompleted{Status: "reported", Index: 1, AttemptCount: 1})
	st.addFact(event.TypeJobItemFailed, item(2), &event.JobItemFailed{Index: 2, AttemptCount: 1, Error: event.Failure{Message: "flaky", Retryable: true}, WillRetry: true})
	st.addFact(event.TypeJobItemFailed, item(3), &event.JobItemFailed{Index: 3, AttemptCount: 1, Error: event.Failure{Message: "bad input"}})
	j := st.s.Jobs.Find("job_1")
	if want := (event.JobCounts{Pending: 1, Completed: 1, Reported: 1, Failed: 1, Total: 4}); j.Progress != want {
		t.Errorf("progress %+v", j.Progress)
	}
	if x := j.Item("item_3"); x.Status != ItemFailed || x.AttemptCount != 1 || x.LastError.Message != "bad input" || x.ThreadID != "thread_i3" {
		t.Errorf("the failed item %+v", x)
	}
	if x, ok := st.left["job_item/job_1/item_0"].(*JobItem); !ok || x.OutputRef != "out_0" || x.Status != ItemCompleted || j.Item("item_0") != nil {
		t.Errorf("the completed item left as %+v", st.left["job_item/job_1/item_0"])
	}
	st.addFact(event.TypeJobItemStarted, item(2), &event.JobItemStarted{Index: 2, AttemptCount: 2, AssignedThreadID: "thread_1"})
	if want := (event.JobCounts{Running: 1, Completed: 1, Reported: 1, Failed: 1, Total: 4}); j.Progress != want || len(j.Retrying) != 0 {
		t.Errorf("progress %+v", j.Progress)
	}
	if jobs := st.s.ThreadRead("thread_1").Jobs; len(jobs) != 1 || !slices.Equal(jobs[0].AssignedThreadIDs, []string{"thread_i0", "thread_i1", "thread_i2", "thread_i3", "thread_1"}) || len(jobs[0].Items) != 2 {
		t.Errorf("jobs %+v", jobs)
	}
	st.addFact(event.TypeJobCancelled, job, &event.JobStatusChanged{Status: "cancelled"})
	if st.s.Jobs.open() || st.s.Jobs.Counts["cancelled"] != 1 || j.Progress.Completed != 1 {
		t.Errorf("after the cancellation: %+v", st.s.Jobs)
	}
	st.addFact(event.TypeJobStarted, job, &event.JobStatusChanged{Status: "running", Reason: "an item is tried again"})
	if !st.s.Jobs.open() {
		t.Error("a job that goes on isn't open")
	}
}

func TestChannelsAndTheirCursors(t *testing.T) {
	st := newStory(t)
	if s := st.s.Snapshot().ChannelSummary; s.Status != NotApplicable {
		t.Errorf("before any fact: %+v", s)
	}
	ch := event.Scope{ChannelID: "chan_1"}
	st.addFact(event.TypeChannelConnected, ch, &event.ChannelConnected{Transport: "websocket", PeerRole: "client", ResumeTokenRef: "token_1"})
	st.addFact(event.TypeChannelMessage, ch, &event.ChannelMessage{Direction: "in", Kind: "acknowledgement", Acknowledged: 5})
	st.addFact(event.TypeChannelMessage, ch, &event.ChannelMessage{Direction: "in", Kind: "acknowledgement", Acknowledged: 3})
	actor := &event.Actor{Kind: "agent"}
	for _, id := range []string{"action_1", "action_2"} {
		st.addFact(event.TypeChannelPermissionForwarded, ch, &event.ChannelPermissionForwarded{ActionID: id, RequestedBy: actor, Target: "shell", FinalDecider: "local"})
	}
	st.addFact(event.TypeChannelPermissionReturned, ch, &event.ChannelPermissionReturned{ActionID: "action_1", Decision: "allow", AnswerSource: "user", FinalDecider: "local"})
	st.addFact(event.TypeChannelDisconnected, ch, &event.ChannelDisconnected{Reason: "heartbeat_timeout", ResumableForMs: 1000})
	s := st.s.Snapshot().ChannelSummary
	if s.Connected != 0 || s.Disconnected != 1 || s.Channels[0].LastAcknowledged != 5 || s.Channels[0].Status != ChannelDisconnected {
		t.Errorf("summary %+v", s)
	}
	if b := s.PermissionBridge; len(b) != 1 || b[0].ActionID != "action_2" {
		t.Errorf("bridge %+v", b)
	}
	if a := s.Channels[0].Answered; len(a) != 1 || a[0].Target != "shell" || a[0].Decision != "allow" {
		t.Errorf("answered %+v", a)
	}
	st.addFact(event.TypeChannelResumed, ch, &event.ChannelResumed{RecoveryMode: "replay", ReplayFrom: 6, LastSequence: 9})
	if c := st.s.Channels.Find("chan_1"); c.Status != ChannelConnected || c.ReplayFrom != 6 || c.Reason != "" || c.Transport != "websocket" {
		t.Errorf("resumed %+v", c)
	}
}

func TestPeerTasksTellRecoveryStatesApart(t *testing.T) {
	for status, want := range map[string]string{
		"running": PeerRunning, "idle": PeerIdle, "waiting_input": PeerWaiting, "waiting_permission": PeerWaiting,
		"completed_unreconciled": PeerUnreconciled, "missing": PeerMissing, "unreachable": PeerUnreachable,
		"completed": "settled", "rejected": "settled", "unknown": Unknown,
	} {
		st := newStory(t)
		st.createTask("task_1", &event.TaskCreated{WorkerKind: "peer"})
		peer := event.Scope{ChannelID: "chan_1", TaskID: "task_1"}
		st.addFact(event.TypeChannelPeerTaskLinked, peer, &event.PeerTaskLinked{NativeProtocol: "a2a", Direction: "outbound", RemoteTaskID: "remote_1"})
		st.addFact(event.TypeChannelPeerTaskUpdated, peer, &event.PeerTaskUpdated{RemoteTaskID: "remote_1", RemoteStatus: "NATIVE", Status: status})
		v := st.s.Snapshot().ChannelSummary.PeerTasks
		if len(v) != 1 || v[0].Recovery != want || v[0].RemoteStatus != "NATIVE" {
			t.Errorf("%s: %+v", status, v)
		}
		if got := len(st.s.Channels.PeerTasks) == 0; got != (want == "settled") {
			t.Errorf("%s: settled is %v", status, got)
		}
		if st.s.Tasks.Find("task_1").Terminal() {
			t.Errorf("%s: the local task ended by the peer's word alone", status)
		}
		st.task(event.TypeTaskCancelled, "task_1", TaskCancelled)
		if len(st.s.Channels.PeerTasks) != 0 {
			t.Errorf("%s: the peer's task outlives the local one", status)
		}
	}
}

func TestBenchmarkTrial(t *testing.T) {
	st := newStory(t)
	if s := st.s.Snapshot().BenchmarkSummary; s.Status != NotApplicable {
		t.Errorf("before any fact: %+v", s)
	}
	bench := &event.Benchmark{DatasetID: "d", DatasetVersion: "1", TaskID: "t", TrialID: "trial_1", ConfigurationID: "c", Role: "baseline"}
	put := func(typ event.Type, p event.Payload) {
		t.Helper()
		e := &event.Event{Type: typ, Scope: inTurn(), Payload: p, Benchmark: bench, Refs: map[string]string{"trajectoryRef": "ref_1"}}
		if r, ok := p.(*event.BenchmarkRewardRecorded); ok {
			e.Reward = &event.Reward{Value: r.Value}
		}
		st.foldEvent(e)
	}
	put(event.TypeBenchmarkDatasetResolved, &event.BenchmarkDataset{SelectionPolicy: "all"})
	put(event.TypeBenchmarkConfigurationResolved, &event.BenchmarkConfiguration{Model: "m"})
	put(event.TypeBenchmarkTrialStarted, &event.BenchmarkTrialStarted{Status: "running"})
	put(event.TypeBenchmarkRewardRecorded, &event.BenchmarkRewardRecorded{Value: 0.5})
	if n := len(st.s.Benchmark.Open); n != 1 {
		t.Errorf("a reward ended the trial: %d open", n)
	}
	put(event.TypeBenchmarkTrialFailed, &event.BenchmarkTrialEnded{Status: "failed", FailureCategory: "timeout", TimedOut: true})
	put(event.TypeBenchmarkRewardRecorded, &event.BenchmarkRewardRecorded{Value: 0})
	mean := 0.5
	st.foldEvent(&event.Event{
		Type: event.TypeBenchmarkComparisonCompleted, Benchmark: bench, Refs: map[string]string{"comparisonRef": "ref_2"},
		Comparison: &event.Comparison{MeanRewardDelta: 0.1, Decision: "promote"},
		Payload: &event.BenchmarkComparisonCompleted{
			Baseline:  event.BenchmarkRun{ConfigurationID: "c", TrialIDs: []string{"trial_1"}, MeanReward: &mean},
			Candidate: event.BenchmarkRun{ConfigurationID: "k"}, Decision: "promote",
		},
	})
	s := st.s.Snapshot().BenchmarkSummary
	if s.Status != Available || len(s.Trials) != 1 || s.Trials[0].Status != "failed" || s.Trials[0].Reward.Value != 0 || s.Rewards != 2 {
		t.Errorf("summary %+v", s)
	}
	if s.Decision != "promote" || s.Delta.MeanRewardDelta != 0.1 || s.Trials[0].Refs["trajectoryRef"] != "ref_1" {
		t.Errorf("comparison %+v", s)
	}
}
