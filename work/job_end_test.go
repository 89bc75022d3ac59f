package work_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/state"
)

// TestAFailedItemFailsItsJob: subagents and jobs: a job with a failed item stays running
// or is failed, unless it said how many may fail; retrying the item takes it up again.
func TestAFailedItemFailsItsJob(t *testing.T) {
	k := newStage(t, when("word 1", boom(false)))
	k.session("sess_f")
	k.job(command.CreateJob{JobID: "job_f", SessionID: "sess_f", Items: items(3, numberWord), MaxRuntimeMs: 3_600_000})
	end := k.jobEnd("sess_f", "job_f", 1)
	if end.Status != "failed" || end.Error == nil || end.Error.Category != "items_failed" || !strings.Contains(end.Error.Message, "1 of 3 items failed") || end.ResultsRef == "" {
		t.Fatalf("the end: %+v %+v", end, end.Error)
	}
	rec := must[command.JobRecord](k, &command.GetJob{JobID: "job_f"})
	if rec.Status != "failed" || rec.Error == nil || rec.Progress.Completed != 2 || rec.Progress.Failed != 1 {
		t.Errorf("the job: %+v", rec.JobSummary)
	}
	k.restart() // a failed job is taken up again after one, too
	k.script.Answers[0] = when("word 1", script.Answer{Text: "at last"})
	again := must[command.JobRecord](k, &command.RetryJobItem{JobID: "job_f", ItemID: rec.Items[1].ItemID})
	if again.Error != nil {
		t.Errorf("a job that goes on has failed: %+v", again.Error)
	}
	if end = k.jobEnd("sess_f", "job_f", 2); end.Status != "completed" || end.Error != nil {
		t.Errorf("after the retry: %+v", end)
	}
	if rec = must[command.JobRecord](k, &command.GetJob{JobID: "job_f"}); rec.Status != "completed" || rec.Error != nil {
		t.Errorf("the job: %+v", rec.JobSummary)
	}
}

// TestAJobSaysHowManyItemsMayFail tries each side of what was allowed.
func TestAJobSaysHowManyItemsMayFail(t *testing.T) {
	k := newStage(t, when("word 0", boom(false)), when("word 1", boom(false)))
	k.session("sess_f")
	for id, c := range map[string]struct {
		allowed command.Allowance
		want    string
	}{"job_none": {0, "failed"}, "job_one": {1, "failed"}, "job_two": {2, "completed"}, "job_all": {100_000, "completed"}} {
		k.job(command.CreateJob{JobID: id, SessionID: "sess_f", Items: items(4, numberWord), FailuresAllowed: c.allowed})
		if end := k.jobEnd("sess_f", id, 1); end.Status != c.want || end.Progress.Failed != 2 {
			t.Errorf("%s: %+v", id, end)
		}
		if rec := must[command.JobRecord](k, &command.GetJob{JobID: id}); rec.FailuresAllowed != min(4, int64(c.allowed)) {
			t.Errorf("%s: %d failures are allowed", id, rec.FailuresAllowed)
		}
	}
	k.refused(fault.Conflict, &command.CreateJob{JobID: "job_one", SessionID: "sess_f", Instruction: "Do it.", Items: items(4, numberWord), FailuresAllowed: 2})
}

// TestGetJobHasWhatAJobIs: subagents and jobs: a job has an instruction, input refs, an
// output schema, a maximum runtime, an item cursor, progress and assigned threads.
func TestGetJobHasWhatAJobIs(t *testing.T) {
	k := newStage(t, when("word 1", script.Answer{Stall: time.Hour}))
	k.session("sess_g")
	schema := event.Raw(`{"type":"string"}`)
	k.job(command.CreateJob{
		JobID: "job_g", SessionID: "sess_g", Instruction: "Repeat.", Items: items(3, numberWord), Concurrency: 1, MaxRuntimeMs: 3_600_000,
		OutputSchema: schema, RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, NonRetryable: []string{"model_failed"}}, Metadata: event.Raw(`{"a":1}`), FailuresAllowed: 3,
	})
	second := k.until("sess_g", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.JobItemStarted)
		return ok && p.Index == 1
	})
	rec := must[command.JobRecord](k, &command.GetJob{JobID: "job_g"})
	if rec.Instruction != "Repeat." || rec.MaxRuntimeMs != 3_600_000 || rec.ItemCursor != 2 || string(rec.OutputSchema) != string(schema) || rec.RetryPolicy.MaxAttempts != 2 || string(rec.Metadata) != `{"a":1}` {
		t.Errorf("the job: %+v", rec.JobSummary)
	}
	if n := len(rec.AssignedThreadIDs); n != 2 || rec.AssignedThreadIDs[1] != second.ThreadID || rec.AssignedThreadIDs[0] != rec.Items[0].ThreadID {
		t.Errorf("threads %v, want that of the first item and %s", rec.AssignedThreadIDs, second.ThreadID)
	}
	if len(rec.InputRefs) != 1 || k.lines(rec.InputRefs[0])[2]["input"] != "word 2" {
		t.Errorf("the inputs are behind %v", rec.InputRefs)
	}
	must[command.JobRecord](k, &command.CancelJob{JobID: "job_g"})
	threads := rec.AssignedThreadIDs
	if rec = must[command.JobRecord](k, &command.GetJob{JobID: "job_g"}); !slices.Equal(rec.AssignedThreadIDs, threads) {
		t.Errorf("the threads of a job that has ended: %v, want %v", rec.AssignedThreadIDs, threads)
	}
}

// TestResultsCanBeReported: subagents and jobs: an item is pending, running, completed,
// failed or reported.
func TestResultsCanBeReported(t *testing.T) {
	k := newStage(t, when("word 0", script.Answer{Stall: time.Hour}), when("word 1", boom(false)))
	k.session("sess_r")
	k.job(command.CreateJob{JobID: "job_r", SessionID: "sess_r", Items: items(3, numberWord), Concurrency: 1, RetryPolicy: &event.RetryPolicy{MaxAttempts: 1}})
	k.until("sess_r", func(e *event.Event) bool { return e.Type == event.TypeJobItemStarted })
	rec := must[command.JobRecord](k, &command.GetJob{JobID: "job_r"})
	k.refused(fault.Conflict, &command.ReportJobItem{JobID: "job_r", ItemID: rec.Items[2].ItemID, Output: command.Text("x")}) // not given out yet
	k.refused(fault.NotFound, &command.ReportJobItem{JobID: "job_r", ItemID: "item_none", Output: command.Text("x")})
	running := must[command.JobRecord](k, &command.ReportJobItem{JobID: "job_r", ItemID: rec.Items[0].ItemID, Output: event.Raw(`{"by":"hand"}`)})
	if running.Items[0].Status != state.ItemReported || running.Items[0].OutputRef == "" {
		t.Errorf("reported: %+v", running.Items[0])
	}
	if end := k.jobEnd("sess_r", "job_r", 1); end.Status != "failed" || end.Progress.Reported != 1 || end.Progress.Failed != 1 || end.Progress.Completed != 1 {
		t.Fatalf("the end: %+v", end.Progress)
	}
	must[command.JobRecord](k, &command.ReportJobItem{JobID: "job_r", ItemID: rec.Items[1].ItemID, Output: command.Text("by hand")})
	end := k.jobEnd("sess_r", "job_r", 2)
	if end.Status != "completed" || end.Progress.Reported != 2 || end.Progress.Failed != 0 {
		t.Errorf("with all results: %+v", end.Progress)
	}
	lines := k.lines(end.ResultsRef)
	if lines[1]["output"] != "by hand" || lines[1]["status"] != "reported" || lines[0]["status"] != "reported" {
		t.Errorf("results: %v", lines)
	}
	k.refused(fault.Conflict, &command.ReportJobItem{JobID: "job_r", ItemID: rec.Items[1].ItemID, Output: command.Text("again")})
	k.refused(fault.Conflict, &command.ReportJobItem{JobID: "job_r", ItemID: rec.Items[2].ItemID, Output: command.Text("done already")})
}

// TestReportedResultsSatisfyTheSchema refuses one that doesn't.
func TestReportedResultsSatisfyTheSchema(t *testing.T) {
	k := newStage(t, when("word 0", script.Answer{Stall: time.Hour}))
	k.session("sess_r")
	k.job(command.CreateJob{JobID: "job_r", SessionID: "sess_r", Items: items(1, numberWord), OutputSchema: event.Raw(`{"type":"object","required":["n"]}`)})
	k.until("sess_r", func(e *event.Event) bool { return e.Type == event.TypeJobItemStarted })
	if why := k.refused(fault.InvalidParams, &command.ReportJobItem{JobID: "job_r", ItemID: "item_000001", Output: command.Text("no")}); !strings.Contains(why, "outputSchema") {
		t.Errorf("refused: %s", why)
	}
	must[command.JobRecord](k, &command.ReportJobItem{JobID: "job_r", ItemID: "item_000001", Output: event.Raw(`{"n":1}`)})
	if end := k.jobEnd("sess_r", "job_r", 1); end.Status != "completed" {
		t.Errorf("the end: %+v", end)
	}
}
