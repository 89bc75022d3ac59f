package work_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/work"
)

// TestManualRecoveryHoldsEverything restarts with recovery: manual while tasks, a
// job, a subagent and a schedule are at work or due: nothing goes on until somebody
// says so, thing by thing.
func TestManualRecoveryHoldsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crew{TB: t, store: newCrewStore(t), recovery: "manual", limits: work.Limits{Runtime: 2}, script: &script.Script{Answers: []script.Answer{
			when("item", script.Answer{Text: "ok", Stall: time.Minute}), when("look", script.Answer{Text: "ok", Stall: time.Minute}),
			{Text: "ok", Stall: time.Minute},
			{Text: "ok"},
		}}}
		k.started()
		main := ask[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"}).ThreadID
		for _, id := range []string{"task_run1", "task_run2", "task_queued"} {
			k.create(command.CreateTask{TaskID: id, SessionID: "sess_a", Start: true})
		}
		retry := command.TaskFields{RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, BackoffMs: 30_000}}
		k.create(command.CreateTask{TaskID: "task_retrying", SessionID: "sess_a", Worker: "external", Start: true, TaskFields: retry})
		ask[command.TaskResult](k, &command.FailTask{TaskID: "task_retrying", Error: &event.Failure{Message: "no", Retryable: true}})
		k.hire2("task_outside", "sess_a")
		k.create(command.CreateTask{TaskID: "task_after", SessionID: "sess_a", Start: true, DependsOn: []string{"task_outside"}})
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_a", SessionID: "sess_a", Instruction: "item", Items: items(3, numberWord), Concurrency: 1, MaxRuntimeMs: 600_000})
		ask[command.SpawnSubagentResult](k, &command.SpawnSubagent{SubagentID: "sub_a", SessionID: "sess_a", ThreadID: main, Input: command.Text("look")})
		ask[command.ScheduleResult](k, &command.CreateSchedule{ScheduleID: "schedule_a", SessionID: "sess_a", EveryMs: 1_800_000, Task: event.Raw(`{"objective":"again"}`)})
		synctest.Wait()

		k.restart()
		synctest.Wait()
		before := len(k.facts("sess_a"))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if after := len(k.facts("sess_a")); after != before {
			for _, e := range k.facts("sess_a")[before:] {
				t.Logf("%s %s", e.Type, e.TaskID)
			}
			t.Fatalf("%d facts came by themselves", after-before)
		}
		for id, want := range map[string]string{
			"task_run1": "blocked", "task_run2": "blocked", "task_queued": "paused", "task_retrying": "paused", "task_outside": "running", "task_after": "blocked",
		} {
			got := k.task(id)
			if got.Status != want {
				t.Errorf("%s is %s (%s), not %s", id, got.Status, got.StatusReason, want)
			}
			if want == "paused" && (got.NativeStatus != "recovery_manual" || !strings.Contains(got.StatusReason, "resume_task")) {
				t.Errorf("%s is held without a reason: %q %q", id, got.NativeStatus, got.StatusReason)
			}
		}
		job := ask[command.JobRecord](k, &command.GetJob{JobID: "job_a"})
		if job.Status != "pending" || job.Progress.Running != 1 || !strings.Contains(job.Reason, "start_job") {
			t.Errorf("the job: %+v", job.JobSummary)
		}
		list := ask[command.ListSchedulesResult](k, &command.ListSchedules{})
		if x := list.Schedules[0]; x.Status != "paused" || x.Fired != 0 || !strings.Contains(x.StatusReason, "resume_schedule") {
			t.Errorf("the schedule: %+v", x)
		}

		// Held things stay held over another restart, and are not held twice.
		k.restart()
		synctest.Wait()
		paused := 0
		for _, e := range k.facts("sess_a") {
			switch e.Type {
			case event.TypeTaskPaused, event.TypeJobHeld, event.TypeSchedulePaused:
				paused++
			}
		}
		if paused != 4 {
			t.Errorf("%d facts of holding", paused)
		}

		k.refuse(fault.Conflict, &command.ResumeTask{TaskID: "task_after"}, "blocked")
		ask[command.TaskResult](k, &command.ResumeTask{TaskID: "task_run1"})
		k.await("task_run1", state.TaskCompleted)
		run2 := k.task("task_run2")
		ask[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: "sess_a", ThreadID: run2.ThreadID})
		k.await("task_run2", state.TaskCompleted)
		if s := k.task("task_queued").Status; s != state.TaskPaused {
			t.Errorf("a task that nobody resumed is %s", s)
		}
		ask[command.TaskResult](k, &command.ResumeTask{TaskID: "task_queued"})
		k.await("task_queued", state.TaskCompleted)
		if res := ask[command.TaskResult](k, &command.ResumeTask{TaskID: "task_retrying"}); res.Status != state.TaskRunning {
			t.Errorf("resumed: %+v", res)
		}
		ask[command.TaskResult](k, &command.CompleteTask{TaskID: "task_outside"})
		k.await("task_after", state.TaskCompleted) // it follows from what somebody did
		ask[command.JobRecord](k, &command.StartJob{JobID: "job_a"})
		ask[command.SubagentResult](k, &command.ResumeSubagent{SubagentID: "sub_a"})
		waited := ask[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: []string{"sub_a"}, TimeoutMs: 600_000})
		if waited.TimedOut || waited.Subagents[0].Status != "completed" {
			t.Errorf("the subagent: %+v", waited)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		job = ask[command.JobRecord](k, &command.GetJob{JobID: "job_a"})
		if job.Status != "completed" || job.Progress.Completed != 3 || job.Items[0].AttemptCount != 1 {
			t.Errorf("the job: %+v %+v", job.JobSummary, job.Items)
		}
		ask[command.ScheduleResult](k, &command.ResumeSchedule{ScheduleID: "schedule_a"})
		synctest.Wait()
		x := ask[command.ListSchedulesResult](k, &command.ListSchedules{}).Schedules[0]
		if x.Status != "active" || x.Fired != 1 || x.MissedCount != 3 || !x.NextAt.After(time.Now()) {
			t.Errorf("the schedule: %+v", x)
		}
		var missed *event.ScheduleMissed
		for _, e := range k.facts("sess_a") {
			if p, ok := e.Payload.(*event.ScheduleMissed); ok {
				missed = p
			}
		}
		if missed == nil || missed.Reason != "paused" {
			t.Errorf("missed: %+v", missed)
		}
	})
}

// TestManualRecoveryStopsWhatIsBeingCancelled goes on with a cancellation: a wish
// to stop waits for nobody.
func TestManualRecoveryStopsWhatIsBeingCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, s := stubbornCrew(t, uses("dig", "stubborn", nil))
		k.recovery = "manual"
		k.create(command.CreateTask{TaskID: "task_a", Objective: "dig", Start: true})
		<-s.entered
		ask[command.TaskResult](k, &command.CancelTask{TaskID: "task_a"})
		synctest.Wait()
		if got := k.task("task_a").Status; got != state.TaskCancelling {
			t.Errorf("the task is %s", got)
		}
		go func() { s.release() }()
		k.restart()
		k.await("task_a", state.TaskCancelled)
	})
}

// TestAHeldJobLeavesNothingBehind: nobody works on a job that is held, and yet the
// threads of its items are put away when it is cancelled.
func TestAHeldJobLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, when("item", script.Answer{Text: "ok", Stall: time.Minute}))
		k.recovery = "manual"
		ask[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_a", SessionID: "sess_a", Instruction: "item", Items: items(2, numberWord)})
		synctest.Wait()
		k.restart()
		ask[command.JobRecord](k, &command.CancelJob{JobID: "job_a"})
		synctest.Wait()
		open := map[string]bool{}
		for _, e := range k.facts("sess_a") {
			switch p := e.Payload.(type) {
			case *event.ThreadStarted:
				open[e.ThreadID] = p.Role == "job_item"
			case *event.ThreadUpdated:
				open[e.ThreadID] = open[e.ThreadID] && p.Status != "archived"
			}
		}
		for id, left := range open {
			if left {
				t.Errorf("thread %s is left", id)
			}
		}
		if len(open) != 3 {
			t.Errorf("%d threads", len(open))
		}
	})
}
