package work_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/state"
)

func items(n int, input func(int) string) []command.JobItemInput {
	out := make([]command.JobItemInput, n)
	for i := range out {
		out[i].Input = command.Text(input(i))
	}
	return out
}

func numberWord(i int) string { return fmt.Sprintf("word %d", i) }

func (k *stage) job(p command.CreateJob) *command.JobResult {
	k.Helper()
	if p.Instruction == "" {
		p.Instruction = "Do it."
	}
	return must[command.JobResult](k, &p)
}

// jobEnd follows a job to its n-th end.
func (k *stage) jobEnd(sessionID, jobID string, n int) *event.JobStatusChanged {
	k.Helper()
	return k.until(sessionID, func(e *event.Event) bool {
		switch e.Type {
		case event.TypeJobCompleted, event.TypeJobFailed, event.TypeJobCancelled:
			if e.JobID == jobID {
				n--
			}
		}
		return n == 0
	}).Payload.(*event.JobStatusChanged)
}

// lines reads what is behind a reference, one JSON object a line.
func (k *stage) lines(ref string) []map[string]any {
	k.Helper()
	b, _, err := k.m.Output(context.Background(), command.Local(), ref)
	if err != nil {
		k.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	var out []map[string]any
	for s := bufio.NewScanner(b); s.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			k.Fatal(err)
		}
		out = append(out, line)
	}
	return out
}

func TestJobWorksOnAllItems(t *testing.T) {
	k := newStage(t)
	k.session("sess_j")
	k.job(command.CreateJob{JobID: "job_a", SessionID: "sess_j", Instruction: "Repeat.", Items: items(20, numberWord), Concurrency: 3})
	end := k.jobEnd("sess_j", "job_a", 1)
	if end.Status != "completed" || end.Progress.Completed != 20 || end.Progress.Total != 20 || end.Progress.Pending != 0 {
		t.Fatalf("the end: %+v, %+v", end, end.Progress)
	}
	results := k.lines(end.ResultsRef)
	if len(results) != 20 {
		t.Fatalf("%d results", len(results))
	}
	for i, r := range results {
		want := fmt.Sprintf("You said: Repeat.\nword %d", i)
		if r["output"] != want || r["status"] != "completed" || r["attemptCount"] != 1.0 || r["itemId"] != fmt.Sprintf("item_%06d", i+1) {
			t.Errorf("result %d: %v", i, r)
		}
	}
	running, most := 0, 0
	for _, e := range k.events("sess_j") {
		switch e.Type {
		case event.TypeJobItemStarted:
			running++
			most = max(most, running)
		case event.TypeJobItemCompleted:
			running--
		}
	}
	if most > 3 {
		t.Errorf("%d items at once", most)
	}
	k.view("sess_j", func(s *state.Session) {
		if len(s.Threads) != 1 || s.HasOpenWork() {
			t.Errorf("%d threads are left, open work: %v", len(s.Threads), s.HasOpenWork())
		}
	})
	rec := must[command.JobRecord](k, &command.GetJob{JobID: "job_a", Page: command.Page{Limit: 15}})
	rest := must[command.JobRecord](k, &command.GetJob{JobID: "job_a", Page: command.Page{Limit: 15, Cursor: rec.NextCursor}})
	if len(rec.Items) != 15 || len(rest.Items) != 5 || rest.NextCursor != "" || rest.Items[4].OutputRef == "" {
		t.Errorf("pages: %d and %d items", len(rec.Items), len(rest.Items))
	}
	b, _, err := k.m.Output(context.Background(), command.Local(), rest.Items[4].OutputRef)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if text, _ := io.ReadAll(b); string(text) != "You said: Repeat.\nword 19" {
		t.Errorf("the output is %q", text)
	}
}

func TestJobHasASessionOfItsOwnAndOneIdentity(t *testing.T) {
	k := newStage(t)
	no := false
	p := command.CreateJob{JobID: "job_b", Items: items(2, numberWord), Start: &no, Title: "words"}
	if res := k.job(p); res.Status != "pending" {
		t.Errorf("created: %+v", res)
	}
	if res := k.job(p); res.JobID != "job_b" || res.Status != "pending" {
		t.Errorf("created again: %+v", res)
	}
	p.Instruction, p.Title = "Do it.", "others"
	k.refused(fault.Conflict, &p)
	list := must[command.ListJobsResult](k, &command.ListJobs{})
	if len(list.Jobs) != 1 || list.Jobs[0].Progress.Pending != 2 || len(list.Jobs[0].Items) != 2 || list.Jobs[0].Items[1].Status != "pending" || list.Jobs[0].NextCursor != "" {
		t.Fatalf("jobs: %+v", list.Jobs)
	}
	rec := must[command.JobRecord](k, &command.StartJob{JobID: "job_b"})
	if rec.Status != "running" && rec.Status != "completed" {
		t.Errorf("started: %+v", rec)
	}
	k.jobEnd(list.Jobs[0].SessionID, "job_b", 1)
	k.refused(fault.Conflict, &command.StartJob{JobID: "job_b"})
	k.refused(fault.Conflict, &command.CancelJob{JobID: "job_b"})
	if n := len(must[command.ListJobsResult](k, &command.ListJobs{Status: "running"}).Jobs); n != 0 {
		t.Errorf("%d jobs run", n)
	}
}

// TestAListShowsTheFirstItemsOfAJob goes on with get_job where the list ends.
func TestAListShowsTheFirstItemsOfAJob(t *testing.T) {
	k := newStage(t)
	no := false
	k.job(command.CreateJob{JobID: "job_l", Items: items(25, numberWord), Start: &no})
	list := must[command.ListJobsResult](k, &command.ListJobs{})
	if len(list.Jobs) != 1 || len(list.Jobs[0].Items) != 20 || list.Jobs[0].Items[19].ItemID != "item_000020" {
		t.Fatalf("jobs: %+v", list.Jobs)
	}
	rest := must[command.JobRecord](k, &command.GetJob{JobID: "job_l", Page: command.Page{Cursor: list.Jobs[0].NextCursor}})
	if len(rest.Items) != 5 || rest.Items[0].ItemID != "item_000021" {
		t.Errorf("the rest: %+v", rest.Items)
	}
}

func TestIdempotencyKeyMakesOneJob(t *testing.T) {
	k := newStage(t)
	p := command.CreateJob{Mutation: command.Mutation{IdempotencyKey: "k1"}, Items: items(1, numberWord)}
	first := k.job(p)
	if again := k.job(p); again.JobID != first.JobID {
		t.Errorf("%s, then %s", first.JobID, again.JobID)
	}
	p.Instruction, p.Items = "Do it.", items(2, numberWord)
	k.refused(fault.Conflict, &p)
}

func boom(retryable bool) script.Answer {
	return script.Answer{Error: &script.Error{Category: "invalid_request", Message: "boom", Retryable: retryable}}
}

func TestFailedItemsAreTriedAgainAsThePolicySays(t *testing.T) {
	k := newStage(t, when("word 3", boom(false)))
	k.session("sess_f")
	k.job(command.CreateJob{JobID: "job_f", SessionID: "sess_f", Items: items(6, numberWord), RetryPolicy: &event.RetryPolicy{MaxAttempts: 3, BackoffMs: 1}})
	end := k.jobEnd("sess_f", "job_f", 1)
	if end.Status != "failed" || end.Progress.Completed != 5 || end.Progress.Failed != 1 {
		t.Fatalf("the end: %+v", end.Progress)
	}
	rec := must[command.JobRecord](k, &command.GetJob{JobID: "job_f"})
	bad := rec.Items[3]
	if bad.Status != "failed" || bad.AttemptCount != 3 || bad.LastError == nil || !strings.Contains(bad.LastError.Message, "boom") || bad.ThreadID == "" {
		t.Errorf("the failed item: %+v", bad)
	}
	k.script.Answers[0] = when("word 3", script.Answer{Text: "at last"})
	must[command.JobRecord](k, &command.RetryJobItem{JobID: "job_f", ItemID: bad.ItemID})
	end = k.jobEnd("sess_f", "job_f", 2)
	if end.Status != "completed" || end.Progress.Completed != 6 || end.Progress.Failed != 0 {
		t.Errorf("after the retry: %+v", end.Progress)
	}
	outputs := map[string]int{}
	for _, e := range k.events("sess_f") {
		if e.Type == event.TypeJobItemCompleted {
			outputs[e.JobItemID]++
		}
	}
	for id, n := range outputs {
		if n != 1 {
			t.Errorf("item %s has %d outputs", id, n)
		}
	}
	if lines := k.lines(end.ResultsRef); lines[3]["output"] != "at last" || lines[3]["attemptCount"] != 4.0 {
		t.Errorf("the result of the retried item: %v", lines[3])
	}
	k.refused(fault.Conflict, &command.RetryJobItem{JobID: "job_f", ItemID: bad.ItemID})
}

func TestItemsThatAllFailFailTheJob(t *testing.T) {
	k := newStage(t, when("word", boom(false)))
	k.session("sess_f")
	k.job(command.CreateJob{JobID: "job_f", SessionID: "sess_f", Items: items(3, numberWord), RetryPolicy: &event.RetryPolicy{MaxAttempts: 5, NonRetryable: []string{"model_failed"}}})
	end := k.jobEnd("sess_f", "job_f", 1)
	if end.Status != "failed" || end.Error == nil || end.Progress.Failed != 3 {
		t.Errorf("the end: %+v", end)
	}
	for _, item := range must[command.JobRecord](k, &command.GetJob{JobID: "job_f"}).Items {
		if item.AttemptCount != 1 {
			t.Errorf("an error that is not retried was: %+v", item)
		}
	}
}

func TestCancelLeavesWhatIsDone(t *testing.T) {
	k := newStage(t, when("word 1", script.Answer{Stall: time.Hour}), when("word 2", script.Answer{Stall: time.Hour}))
	k.session("sess_c")
	k.job(command.CreateJob{JobID: "job_c", SessionID: "sess_c", Items: items(6, numberWord), Concurrency: 2})
	started := 0
	k.until("sess_c", func(e *event.Event) bool {
		if e.Type == event.TypeJobItemStarted {
			started++
		}
		return started == 3
	})
	rec := must[command.JobRecord](k, &command.CancelJob{JobID: "job_c", Reason: "enough"})
	if rec.Status != "cancelled" || rec.Progress != (event.JobCounts{Pending: 3, Completed: 1, Failed: 2, Total: 6}) {
		t.Errorf("cancelled: %+v", rec.JobSummary)
	}
	archived := 0
	k.until("sess_c", func(e *event.Event) bool {
		if p, ok := e.Payload.(*event.ThreadUpdated); ok && p.Status == "archived" {
			archived++
		}
		return archived == 3
	})
	if again := must[command.JobRecord](k, &command.CancelJob{JobID: "job_c"}); again.Status != "cancelled" || again.Items[0].Status != "completed" || again.Items[5].Status != "pending" {
		t.Errorf("cancelled again: %+v", again)
	}
	k.refused(fault.Conflict, &command.RetryJobItem{JobID: "job_c", ItemID: rec.Items[1].ItemID})
	k.view("sess_c", func(s *state.Session) {
		if s.HasOpenWork() {
			t.Error("a cancelled job leaves open work")
		}
	})
}

func TestOutputSatisfiesTheSchema(t *testing.T) {
	k := newStage(t, when("word 0", script.Answer{Text: `{"n": 1}`}), when("word 1", script.Answer{Text: "no JSON"}))
	k.session("sess_s")
	schema := event.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	k.job(command.CreateJob{JobID: "job_s", SessionID: "sess_s", Items: items(2, numberWord), OutputSchema: schema})
	end := k.jobEnd("sess_s", "job_s", 1)
	lines := k.lines(end.ResultsRef)
	if out, _ := json.Marshal(lines[0]["output"]); !bytes.Equal(out, []byte(`{"n":1}`)) || lines[1]["status"] != "failed" {
		t.Errorf("results: %v", lines)
	}
	k.refused(fault.InvalidParams, &command.CreateJob{Instruction: "x", Items: items(1, numberWord), OutputSchema: event.Raw(`{"type":"nonsense"}`)})
}

func TestLargeTextsOfAJobGoBehindReferences(t *testing.T) {
	k := newStage(t)
	k.session("sess_l")
	instruction := strings.Repeat("Be careful. ", 1000)
	k.job(command.CreateJob{JobID: "job_l", SessionID: "sess_l", Instruction: instruction, Items: items(2, func(int) string { return strings.Repeat("x", 10_000) })})
	end := k.jobEnd("sess_l", "job_l", 1)
	lines := k.lines(end.ResultsRef)
	if end.Status != "completed" || lines[0]["outputRef"] == nil || lines[0]["output"] != nil {
		t.Errorf("results: %v", lines[0])
	}
	for _, e := range k.events("sess_l") {
		if data := event.AppendJSON(nil, e); len(data) > 64<<10 {
			t.Errorf("%s has %d bytes", e.Type, len(data))
		}
	}
}

func TestBadInputOfJobCommands(t *testing.T) {
	k := newStage(t)
	k.session("sess_x")
	k.job(command.CreateJob{JobID: "job_x", SessionID: "sess_x", Items: items(1, numberWord)})
	k.jobEnd("sess_x", "job_x", 1)
	k.until("sess_x", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.ThreadUpdated)
		return ok && p.Status == "archived"
	})
	admin := command.Local()
	for _, p := range []command.Params{
		&command.CreateJob{SessionID: "sess_none", Instruction: "x", Items: items(1, numberWord)},
		&command.StartJob{JobID: "job_none"},
		&command.GetJob{JobID: "job_none"},
		&command.CancelJob{JobID: "job_none"},
		&command.RetryJobItem{JobID: "job_none", ItemID: "item_000001"},
		&command.RetryJobItem{JobID: "job_x", ItemID: "item_none"},
		&command.ListJobs{SessionID: "sess_none"},
	} {
		k.refusedAs(admin, fault.NotFound, p)
	}
	for _, p := range []command.Params{
		&command.CreateJob{SessionID: "sess_x", Instruction: "x"},
		&command.CreateJob{SessionID: "sess_x", Items: items(1, numberWord)},
		&command.CreateJob{SessionID: "sess_x", Instruction: "x", Items: []command.JobItemInput{{ItemID: "item_1"}}},
		&command.CreateJob{SessionID: "sess_x", Instruction: "x", Items: []command.JobItemInput{{ItemID: "a", Input: command.Text("x")}, {ItemID: "a", Input: command.Text("y")}}},
		&command.CreateJob{SessionID: "sess_x", Instruction: "x", Items: items(1, numberWord), Concurrency: 257},
		&command.CreateJob{SessionID: event.RuntimeSession, Instruction: "x", Items: items(1, numberWord)},
		&command.GetJob{JobID: "job_x", Page: command.Page{Cursor: "x"}},
		&command.ListJobs{Status: "nonsense"},
	} {
		k.refusedAs(admin, fault.InvalidParams, p)
	}
	stranger := command.Caller{Account: "acct_other", Actor: event.Actor{Kind: "user"}}
	for _, p := range []command.Params{
		&command.StartJob{JobID: "job_x"},
		&command.GetJob{JobID: "job_x"},
		&command.CancelJob{JobID: "job_x"},
		&command.RetryJobItem{JobID: "job_x", ItemID: "item_000001"},
	} {
		if why := k.refusedAs(stranger, fault.NotFound, p); strings.Contains(why, "sess_x") {
			t.Errorf("%s tells a stranger of the session: %s", p.Command(), why)
		}
	}
	if res, err := k.runCommand(stranger, &command.ListJobs{}); err != nil || len(res.(*command.ListJobsResult).Jobs) != 0 {
		t.Errorf("a stranger sees %v, %v", res, err)
	}
}
