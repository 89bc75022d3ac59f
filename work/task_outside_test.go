package work_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/store"
)

// tells is wired for a command that must succeed with a status.
func tells(k *runtimetest.Kit, status, name, params string) map[string]any {
	k.Helper()
	res, refusal := runtimetest.CallByName(k, name, params)
	if refusal != "" || (status != "" && res["status"] != status) {
		k.Fatalf("%s %s: got %v %s, want %s", name, params, res, refusal, status)
	}
	return res
}

// denies is wired for a command that must be refused with these words.
func denies(k *runtimetest.Kit, name, params string, words ...string) {
	k.Helper()
	res, refusal := runtimetest.CallByName(k, name, params)
	if refusal == "" {
		k.Fatalf("%s %s: got %v", name, params, res)
	}
	speaks(k, refusal, words...)
}

// speaks holds a refusal against words that it must have.
func speaks(k *runtimetest.Kit, refusal string, words ...string) {
	k.Helper()
	for _, w := range words {
		if !strings.Contains(refusal, w) {
			k.Errorf("the refusal %q doesn't say %q", refusal, w)
		}
	}
}

// TestALateResultIsKeptAndOverwritesNothing follows a worker that is declared lost
// and comes back while another attempt is under way.
func TestALateResultIsKeptAndOverwritesNothing(t *testing.T) {
	runtimetest.InTime(t, 30*time.Millisecond, func(limit time.Duration) bool { return lateResults(runtimetest.New(t), limit) })
}

// lateResults says whether the second attempt lived while the first one's worker
// reported; it is declared lost after the limit, too.
func lateResults(k *runtimetest.Kit, limit time.Duration) bool {
	k.Helper()
	tells(k, "", "create_session", `{"sessionId":"sess_w"}`)
	tells(k, "running", "create_task", fmt.Sprintf(`{"taskId":"task_w","sessionId":"sess_w","objective":"x","worker":"external","heartbeatTimeoutMs":%d,"start":true}`, limit.Milliseconds()))
	k.WaitFor("sess_w", func(e *event.Event) bool { return e.Type == event.TypeTaskLost })
	lost := tells(k, "lost", "get_task", `{"taskId":"task_w"}`)
	first := lost["currentRunId"].(string)
	denies(k, "append_task_progress", `{"taskId":"task_w","runId":"`+first+`","progress":{"phase":"working"}}`, "conflict", "task_w is lost", "declared lost")
	tells(k, "lost", "get_task", `{"taskId":"task_w"}`)

	tells(k, "accepted", "create_task", `{"taskId":"task_v","sessionId":"sess_w","objective":"x","worker":"external"}`)
	tells(k, "lost", "update_task", `{"taskId":"task_w","evidenceRefs":["evidence_1"]}`)
	second := tells(k, "running", "retry_task", `{"taskId":"task_w","reason":"again"}`)
	_, completed := runtimetest.CallByName(k, "complete_task", `{"taskId":"task_w","runId":"`+first+`","summary":"I was asleep"}`)
	_, failed := runtimetest.CallByName(k, "fail_task", `{"taskId":"task_w","runId":"`+first+`","error":{"message":"or not"}}`)
	now := tells(k, "", "get_task", `{"taskId":"task_w"}`)
	if k.CountFacts("sess_w", event.TypeTaskLost) > 1 {
		return false
	}
	speaks(k, completed, "conflict", "task_w is running", "declared lost", second["runId"].(string))
	speaks(k, failed, "conflict", "declared lost")
	attempts := now["attempts"].([]any)
	if now["currentRunId"] != second["runId"] || now["lateReports"] != 3.0 || len(attempts) != 2 || attempts[0].(map[string]any)["status"] != "unknown" {
		k.Errorf("after late reports: %v", now)
	}
	if late := lateReports(k, first); late != 3 {
		k.Errorf("%d late reports are facts", late)
	}
	return true
}

// lateReports counts the facts that tell of a report of a run that came late.
func lateReports(k *runtimetest.Kit, runID string) (late int) {
	k.Helper()
	for _, e := range k.Facts("sess_w") {
		switch p := e.Payload.(type) {
		case *event.TaskAttemptCompleted:
			if p.Late && e.RunID == runID && p.CompletionSummary == "I was asleep" {
				late++
			}
		case *event.TaskAttemptFailed:
			if p.Late && e.RunID == runID {
				late++
			}
		case *event.TaskProgressed:
			if p.Late && e.RunID == runID {
				late++
			}
		}
	}
	return late
}

// TestATaskIsCompletedWhenAllIsReconciled asks for each thing that completion needs:
// criteria, each satisfied or waived by a decision that is recorded, and delivery.
func TestATaskIsCompletedWhenAllIsReconciled(t *testing.T) {
	k := runtimetest.New(t)
	tells(k, "", "create_session", `{"sessionId":"sess_a"}`)
	tells(k, "running", "create_task", `{"taskId":"task_a","sessionId":"sess_a","objective":"x","worker":"external","start":true,"acceptance":["it is read",{"id":"signed","description":"it is signed"}]}`)
	before := len(k.Facts("sess_a"))
	denies(k, "complete_task", `{"taskId":"task_a"}`, "conflict", "criterion_1", "signed")
	denies(k, "complete_task", `{"taskId":"task_a","acceptance":[{"id":"criterion_1","status":"satisfied"}]}`, "conflict", "[signed]")
	denies(k, "complete_task", `{"taskId":"task_a","acceptance":[{"id":"criterion_1","status":"satisfied"},{"id":"signed","status":"waived"}]}`, "invalid_params", "reason")
	denies(k, "complete_task", `{"taskId":"task_a","acceptance":[{"id":"another","status":"satisfied"}]}`, "invalid_params", "another")
	if after := len(k.Facts("sess_a")); after != before {
		t.Errorf("what was refused left %d facts", after-before)
	}
	tells(k, "running", "update_task", `{"taskId":"task_a","acceptance":[{"id":"criterion_1","description":"it is read","status":"satisfied","evidenceRefs":["evidence_0"]}],"deliveryState":"pending"}`)
	denies(k, "complete_task", `{"taskId":"task_a","acceptance":[{"id":"signed","status":"waived","reason":"a draft is enough"}]}`, "conflict", "delivery is pending")
	tells(k, "completed", "complete_task", `{"taskId":"task_a","deliveryState":"delivered","summary":"done",
		"artifacts":[{"artifactId":"artifact_1","uri":"report.md"}],"evidenceRefs":["evidence_1"],"acceptance":[{"id":"signed","status":"waived","reason":"a draft is enough"}]}`)
	done := runtimetest.Do[state.Task](k, &command.GetTask{TaskID: "task_a"})
	for _, c := range done.Acceptance {
		if c.By == nil || c.By.Kind == "" || (c.ID == "signed") != (c.Status == "waived" && c.Reason == "a draft is enough") {
			t.Errorf("criterion: %+v", c)
		}
	}
	edges := map[string]bool{}
	for _, r := range done.Relationships {
		edges[r.Kind+" "+r.TargetID] = true
	}
	if !edges["produced_artifact artifact_1"] || !edges["evidence evidence_1"] || done.DeliveryState.Status != "delivered" {
		t.Errorf("edges %v, delivery %+v", edges, done.DeliveryState)
	}

	// The runtime's own work waits for the same.
	tells(k, "running", "create_task", `{"taskId":"task_b","sessionId":"sess_a","objective":"x","start":true,"acceptance":["good"]}`)
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskBlocked && e.TaskID == "task_b" })
	if b := tells(k, "blocked", "get_task", `{"taskId":"task_b"}`); b["acceptance"].([]any)[0].(map[string]any)["status"] != "open" {
		t.Errorf("the criterion: %v", b["acceptance"])
	}
	tells(k, "", "update_task", `{"taskId":"task_b","acceptance":[{"id":"criterion_1","description":"good","status":"waived","reason":"nobody looks"}]}`)
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TaskID == "task_b" })
}

// awayOnce is a store that can't look up a process for so many times.
type awayOnce struct {
	store.Store
	left atomic.Int64
}

func (a *awayOnce) Get(ctx context.Context, kind, key string) ([]byte, error) {
	if kind == "process" && a.left.Add(-1) >= 0 {
		return nil, store.ErrUnavailable
	}
	return a.Store.Get(ctx, kind, key)
}

// TestCancelEndsTheProcessesOfATask has a task whose subagent left a command in the
// background: it is ended before the task has settled, also if the store is away for a moment.
func TestCancelEndsTheProcessesOfATask(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	background := map[string]any{"command": "echo here; sleep 1000", "background": true}
	waits := func(contains string, a script.Answer) script.Answer {
		a.When = &script.When{Contains: contains}
		return a
	}
	away := &awayOnce{}
	over := func(o *agentd.Options) { away.Store, o.Store = o.Store, away }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell, over),
		waits("lead", runtimetest.CallsTool("spawn_agent", map[string]any{"role": "helper", "input": "dig"})), waits("dig", runtimetest.CallsTool("shell", background)), waits("dig", runtimetest.CallsTool("shell", runtimetest.ShellArgs("sleep 1000"))))
	tells(k, "", "create_session", `{"sessionId":"sess_p"}`)
	tells(k, "running", "create_task", `{"taskId":"task_p","sessionId":"sess_p","objective":"lead","start":true}`)
	started := 0
	k.WaitFor("sess_p", func(e *event.Event) bool {
		if e.Type == event.TypeProcessStarted {
			started++
		}
		return started == 2
	})
	away.left.Store(2) // processes that can't be looked up now are no lost ones
	tells(k, "cancelling", "cancel_task", `{"taskId":"task_p","reason":"enough"}`)
	ended := map[string]bool{}
	k.WaitFor("sess_p", func(e *event.Event) bool {
		switch e.Type {
		case event.TypeProcessTerminated, event.TypeProcessCompleted, event.TypeProcessFailed:
			ended[e.ProcessID] = true
		}
		return e.Type == event.TypeTaskCancelled && e.TaskID == "task_p"
	})
	if away.left.Load() > 0 {
		t.Error("no process was looked up while the store was away")
	}
	if len(ended) != 2 {
		t.Errorf("%d processes had ended when the task settled", len(ended))
	}
	list := runtimetest.Do[command.ListProcessesResult](k, &command.ListProcesses{SessionID: "sess_p"})
	for _, p := range list.Processes {
		if p.Status == state.ProcessRunning {
			t.Errorf("a process goes on: %+v", p)
		}
	}
}

// TestEachAttemptBeginsOnce: an attempt of the scheduler's and one that a submitted
// turn makes each have one fact for their beginning, with their ordinal.
func TestEachAttemptBeginsOnce(t *testing.T) {
	k := runtimetest.New(t)
	tells(k, "", "create_session", `{"sessionId":"sess_a"}`)
	tells(k, "running", "create_task", `{"taskId":"task_a","sessionId":"sess_a","objective":"x","start":true}`)
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TaskID == "task_a" })
	tells(k, "accepted", "create_task", `{"taskId":"task_b","sessionId":"sess_a","objective":"y","worker":"external"}`)
	for _, turn := range []string{"turn_1", "turn_2"} {
		tells(k, "", "submit_turn", `{"sessionId":"sess_a","turnId":"`+turn+`","taskId":"task_b","input":"go"}`)
		k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTurnCompleted && e.TurnID == turn })
	}
	begun := map[string]int{}
	var ordinals []int64
	for _, e := range k.Facts("sess_a") {
		p, ok := e.Payload.(*event.TaskAttemptStarted)
		if !ok {
			continue
		}
		begun[e.RunID]++
		if e.TaskID == "task_b" {
			ordinals = append(ordinals, p.AttemptCount)
		}
	}
	for run, n := range begun {
		if n != 1 {
			t.Errorf("the attempt %s began %d times", run, n)
		}
	}
	if len(begun) != 3 || len(ordinals) != 2 || ordinals[0] != 1 || ordinals[1] != 2 {
		t.Errorf("attempts %v, those of the submitted turns %v", begun, ordinals)
	}
}

// TestCancelReachesWhatAnItemLeft: an item of a task's job is done and its thread was
// idle, but the child and the process that it left in the background work for the task.
func TestCancelReachesWhatAnItemLeft(t *testing.T) {
	runtimetest.NeedsSandbox(t)
	leaves, slow := &script.When{Contains: "leave"}, &script.When{Contains: "slow"}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell),
		script.Answer{When: leaves, Tools: []script.Tool{
			{Name: "spawn_agent", Arguments: map[string]any{"role": "helper", "input": "slow", "wait": false}},
			{Name: "shell", Arguments: map[string]any{"command": "cat", "background": true}},
		}},
		script.Answer{When: leaves, Text: "left"}, script.Answer{When: slow, Stall: time.Hour, Text: "done"})
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	runtimetest.Do[command.TaskResult](k, &command.CreateTask{SessionID: "sess_a", TaskID: "task_a", Objective: "slow", Start: true})
	runtimetest.Do[command.JobResult](k, &command.CreateJob{
		JobID: "job_a", TaskID: "task_a", Instruction: "do", Items: []command.JobItemInput{{ItemID: "one", Input: runtimetest.Quoted("leave")}, {ItemID: "two", Input: runtimetest.Quoted("slow")}},
	})
	left := k.WaitFor("sess_a", runtimetest.FactIs(event.TypeJobItemCompleted, "")).ThreadID
	runtimetest.Do[command.TaskResult](k, &command.CancelTask{TaskID: "task_a"})
	ended := k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeTaskCancelled && e.TaskID == "task_a" })
	seen := map[event.Type]uint64{}
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeSubagentClosed || e.ThreadID == left {
			seen[e.Type] = e.Sequence
		}
	}
	for _, typ := range []event.Type{event.TypeSubagentClosed, event.TypeProcessTerminated} {
		if at := seen[typ]; at == 0 || at > ended.Sequence {
			t.Errorf("%s is at %d, the task's end at %d", typ, at, ended.Sequence)
		}
	}
	k.WaitFor("sess_a", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ThreadUpdated)
		return ok && e.ThreadID == left && p.Status == "archived"
	})
}
