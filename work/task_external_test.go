package work_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store/storetest"
)

// hire creates and starts a task for an external worker and returns its run.
func (k *crew) hire(taskID string, heartbeat time.Duration, retry *event.RetryPolicy) string {
	k.Helper()
	k.create(command.CreateTask{TaskID: taskID, Worker: "external", TaskFields: command.TaskFields{HeartbeatTimeoutMs: heartbeat.Milliseconds(), RetryPolicy: retry}})
	run := k.start(taskID)
	if run.Status != state.TaskRunning || run.RunID == "" {
		k.Fatalf("started: %+v", run)
	}
	return run.RunID
}

func (k *crew) beat(taskID, runID string) *command.TaskResult {
	k.Helper()
	return ask[command.TaskResult](k, &command.AppendTaskProgress{TaskID: taskID, RunID: runID, Progress: &event.Progress{Phase: "working"}})
}

func TestExternalWorkerReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		run := k.hire("task_a", time.Minute, nil)
		for range 5 {
			time.Sleep(50 * time.Second)
			k.beat("task_a", run)
		}
		percent := 80.0
		ask[command.TaskResult](k, &command.AppendTaskProgress{
			TaskID: "task_a", Progress: &event.Progress{Percent: &percent, Counters: map[string]int64{"pages": 4}},
			OutputRefs: []command.OutputRef{{OutputLink: event.OutputLink{OutputRef: "log", Offset: 10}}},
		})
		res := ask[command.TaskResult](k, &command.CompleteTask{
			TaskID: "task_a", RunID: run, Summary: "all read", Artifacts: []event.ArtifactLink{{ArtifactID: "artifact_1"}}, EvidenceRefs: []string{"evidence_1"},
		})
		done := k.task("task_a")
		if res.Status != state.TaskCompleted || done.Progress.Phase != "working" || *done.Progress.Percent != 80 || done.Attempts[0].OutputRefs[0].OutputRef != "log" {
			t.Errorf("%+v %+v", done, done.Progress)
		}
		if len(done.Artifacts) != 1 || done.DeliveryState.Status != "not_applicable" || done.Attempts[0].CompletionSummary != "all read" {
			t.Errorf("artifacts %v, delivery %v", done.Artifacts, done.DeliveryState)
		}
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_a", RunID: run}, "completed")
		k.refuse(fault.Conflict, &command.AppendTaskProgress{TaskID: "task_a", Progress: &event.Progress{}}, "completed")
	})
}

func TestSilenceIsLostAndALateReportIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		first := k.hire("task_a", time.Minute, nil)
		lost := k.await("task_a", state.TaskLost)
		if a := lost.Attempts[0]; a.Status != state.AttemptUnknown || a.LastError.Category != "lost" || lost.EndedAt.Sub(lost.StartedAt) != time.Minute {
			t.Errorf("lost: %+v after %s", a, lost.EndedAt.Sub(lost.StartedAt))
		}
		k.refuse(fault.Conflict, &command.AppendTaskProgress{TaskID: "task_a", RunID: first, Progress: &event.Progress{}}, "declared lost")
		again := ask[command.TaskRunResult](k, &command.RetryTask{TaskID: "task_a"})
		if again.RunID == first || again.AttemptCount != 2 {
			t.Fatalf("retry: %+v", again)
		}
		// The first worker comes back with a result: it is kept and changes nothing.
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_a", RunID: first, Summary: "I was asleep"}, "declared lost", again.RunID)
		k.refuse(fault.Conflict, &command.FailTask{TaskID: "task_a", RunID: first, Error: &event.Failure{Message: "or not"}}, "declared lost")
		now := k.task("task_a")
		if now.Status != state.TaskRunning || now.CurrentRunID != again.RunID || now.LateReports != 3 || len(now.Attempts[0].Late) != 3 || now.Attempts[0].Status != state.AttemptUnknown {
			t.Errorf("after late reports: %s %s, %d late, %+v", now.Status, now.CurrentRunID, now.LateReports, now.Attempts)
		}
		if r := now.Attempts[1].Reason; r != "lost_worker" {
			t.Errorf("the second attempt is a %s", r)
		}
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_a", RunID: again.RunID})
	})
}

// TestSilenceWhileTheRuntimeWasDownIsNoSilence restarts after longer than the
// worker may be silent: it could not be heard, so it gets another while.
func TestSilenceWhileTheRuntimeWasDownIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		run := k.hire("task_a", time.Minute, nil)
		k.close()
		time.Sleep(time.Hour)
		k.open()
		time.Sleep(50 * time.Second)
		k.beat("task_a", run)
		time.Sleep(50 * time.Second)
		if s := k.task("task_a").Status; s != state.TaskRunning {
			t.Errorf("the task is %s", s)
		}
		k.await("task_a", state.TaskLost)
	})
}

func TestExternalFailureIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		run := k.hire("task_a", 0, &event.RetryPolicy{MaxAttempts: 2, BackoffMs: 1000, TimeoutMs: 60_000})
		if res := ask[command.TaskResult](k, &command.FailTask{TaskID: "task_a", RunID: run, Error: &event.Failure{Message: "flaky", Retryable: true}}); res.Status != state.TaskRetrying {
			t.Errorf("failed: %+v", res)
		}
		second := k.await("task_a", state.TaskRunning)
		if second.CurrentRunID == run || len(second.Attempts) != 2 {
			t.Fatalf("attempts: %+v", second.Attempts)
		}
		// Who starts it now takes over the attempt that began by itself.
		if got := k.start("task_a"); got.RunID != second.CurrentRunID {
			t.Errorf("started %s, the attempt is %s", got.RunID, second.CurrentRunID)
		}
		time.Sleep(time.Second)
		k.beat("task_a", second.CurrentRunID)
		k.refuse(fault.Conflict, &command.StartTask{TaskID: "task_a"}, "running")
		if end := k.await("task_a", state.TaskTimedOut); end.Attempts[1].LastError.Category != "timed_out" || end.Attempts[1].Status != state.AttemptFailed {
			t.Errorf("%+v", end.Attempts[1])
		}
		k.refuse(fault.Conflict, &command.CompleteTask{TaskID: "task_a"}, "timed out")
		run = k.hire("task_b", 0, &event.RetryPolicy{MaxAttempts: 2})
		if res := ask[command.TaskResult](k, &command.FailTask{TaskID: "task_b", RunID: run, Error: &event.Failure{Message: "hopeless"}}); res.Status != state.TaskFailed {
			t.Errorf("failed: %+v", res)
		}
	})
}

func TestExternalWorkerIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		run := k.hire("task_a", time.Minute, nil)
		ask[command.TaskResult](k, &command.PauseTask{TaskID: "task_a"})
		time.Sleep(time.Hour) // a paused worker may be silent
		if res := k.beat("task_a", run); res.Status != state.TaskPaused {
			t.Errorf("the worker is told %+v", res)
		}
		time.Sleep(time.Hour)
		if res := ask[command.TaskResult](k, &command.ResumeTask{TaskID: "task_a"}); res.Status != state.TaskRunning {
			t.Errorf("resumed: %+v", res)
		}
		time.Sleep(50 * time.Second)
		k.beat("task_a", run)
		if lost := k.await("task_a", state.TaskLost); len(lost.Attempts) != 1 {
			t.Errorf("attempts: %+v", lost.Attempts)
		}
	})
}

// TestExactlyThoseWorkersAreLostThatVanish runs 1,000 external workers, in their
// own sessions and in shared ones; every tenth stops to report. A restart in
// between changes nothing.
func TestExactlyThoseWorkersAreLostThatVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := (&crew{TB: t, store: storetest.NewMem()}).started()
		const workers = 1000
		runs := map[string]string{}
		name := func(i int) string { return fmt.Sprintf("task_%04d", i) }
		ask[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_shared"})
		for i := range workers {
			p := command.CreateTask{TaskID: name(i), Objective: "x", Worker: "external", TaskFields: command.TaskFields{HeartbeatTimeoutMs: 60_000}}
			if i%2 == 0 {
				p.SessionID = "sess_shared"
			}
			k.create(p)
			runs[name(i)] = k.start(name(i)).RunID
		}
		vanishes := func(i int) bool { return i%10 == 7 }
		for round := range 6 {
			time.Sleep(30 * time.Second)
			for i := range workers {
				if !vanishes(i) || round == 0 {
					k.beat(name(i), runs[name(i)])
				}
			}
			if round == 2 {
				k.restart()
			}
		}
		synctest.Wait()
		for i := range workers {
			want := state.TaskRunning
			if vanishes(i) {
				want = state.TaskLost
			}
			if got := k.task(name(i)); got.Status != want {
				t.Errorf("%s is %s (%s), not %s", name(i), got.Status, got.StatusReason, want)
			}
		}
		for i := range workers {
			if !vanishes(i) {
				ask[command.TaskResult](k, &command.CompleteTask{TaskID: name(i), RunID: runs[name(i)]})
			}
		}
		open, err := k.m.Open(context.Background())
		if err != nil || len(open) != 0 {
			t.Errorf("open sessions: %v %v", open, err)
		}
	})
}

func TestLargeObjectivesAreKeptBehindAReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t)
		long := strings.Repeat("word ", 1<<20/5)
		k.create(command.CreateTask{TaskID: "task_a", Objective: long, Start: true})
		done := k.await("task_a", state.TaskCompleted)
		if done.ObjectiveRef == "" || len(done.Objective) > 2000 {
			t.Errorf("the record has %d bytes of the objective, reference %q", len(done.Objective), done.ObjectiveRef)
		}
		blob, _, err := k.m.Output(context.Background(), command.Local(), done.ObjectiveRef)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(blob)
		if err != nil || len(content) < len(long) {
			t.Errorf("the reference has %d bytes: %v", len(content), err)
		}
		_ = blob.Close()
		for _, e := range k.facts(done.SessionID) {
			if p, ok := e.Payload.(*event.TurnSubmitted); ok && p.InputRef != done.ObjectiveRef {
				t.Errorf("the turn's input is %q", p.InputRef)
			}
		}
		k.refuse(fault.InvalidParams, &command.CreateTask{Objective: strings.Repeat("x", 1<<20+1)}, "objective")
	})
}
