package work_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/state"
)

// jobOver waits until a job ended and returns it.
func (k *crew) jobOver(jobID string) *command.JobRecord {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Hour) // so that a broken test ends, in a bubble at once
	defer cancel()
	sub, err := k.m.Subscribe(ctx, ask[command.JobRecord](k, &command.GetJob{JobID: jobID}).SessionID, 0)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		j := ask[command.JobRecord](k, &command.GetJob{JobID: jobID})
		if !j.EndedAt.IsZero() {
			return j
		}
		if _, err := sub.Next(ctx); err != nil {
			k.Fatalf("job %s is %s: %v", jobID, j.Status, err)
		}
	}
}

// answerOne answers the one question that waits in a session.
func (k *crew) answerOne(sessionID string) {
	k.Helper()
	waiting := ask[command.ListActionsResult](k, &command.ListActions{SessionID: sessionID, Status: "pending"})
	if len(waiting.Actions) != 1 {
		k.Fatalf("%d questions wait", len(waiting.Actions))
	}
	var q struct{ ActionID string }
	if err := json.Unmarshal(waiting.Actions[0], &q); err != nil {
		k.Fatal(err)
	}
	ask[command.RespondActionResult](k, &command.RespondAction{ActionID: q.ActionID, Decision: "submit", Payload: event.Raw(`{"answer":"this"}`)})
}

func TestJobEndsWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, when("word 1", script.Answer{Stall: time.Hour}))
		k.session("sess_t")
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_t", SessionID: "sess_t", Instruction: "Do it.", Items: items(4, numberWord), Concurrency: 1, MaxRuntimeMs: 300})
		end := k.jobOver("job_t")
		if took := end.EndedAt.Sub(end.StartedAt); end.Status != "failed" || end.Error.Category != "timed_out" || took != 300*time.Millisecond {
			t.Errorf("the end after %s: %+v", took, end.JobSummary)
		}
		if end.Progress != (event.JobCounts{Pending: 2, Completed: 1, Failed: 1, Total: 4}) || end.Items[3].Status != "pending" || end.Items[1].LastError.Category != "timed_out" {
			t.Errorf("items: %+v", end.Items)
		}
	})
}

// TestProgressIsToldNowAndThen has items that end at once, some that take a while and
// one that doesn't end: the counts are told at most once a second, and the last ones
// also if nothing follows them.
func TestProgressIsToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, when("word 40", script.Answer{Stall: time.Hour}), when("word 41", script.Answer{Stall: 2500 * time.Millisecond}))
		k.session("sess_p")
		ask[command.JobResult](k, &command.CreateJob{JobID: "job_p", SessionID: "sess_p", Instruction: "Do it.", Items: items(42, numberWord), Concurrency: 42})
		time.Sleep(time.Minute)
		synctest.Wait()
		var told []event.JobCounts
		var at []time.Time
		for _, e := range k.facts("sess_p") {
			if p, ok := e.Payload.(*event.JobProgressed); ok {
				told, at = append(told, p.Progress), append(at, e.Time)
			}
		}
		for i := 1; i < len(at); i++ {
			if at[i].Sub(at[i-1]) < time.Second {
				t.Errorf("told %s after the last time", at[i].Sub(at[i-1]))
			}
		}
		if n := len(told); n < 2 || n > 5 || told[n-1] != (event.JobCounts{Running: 1, Completed: 41, Total: 42}) {
			t.Errorf("told %+v", told)
		}
	})
}

// TestInactivityEndsAnItem has items whose model says nothing, one that speaks
// slowly, one whose child does, and one that waits for a person: only the first are
// stopped, as timed out, and tried again as the policy says. A restart gives them
// another while.
func TestInactivityEndsAnItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Minute
		look := script.Tool{Name: "list_files", Arguments: map[string]any{"path": "."}}
		var answers []script.Answer
		for range 3 {
			answers = append(answers,
				when("slowly", script.Answer{Stall: limit - time.Second, Tools: []script.Tool{look}}),
				when("take time", script.Answer{Stall: limit - time.Second, Tools: []script.Tool{look}}))
		}
		answers = append(answers,
			when("slowly", script.Answer{Text: "Done."}), when("take time", script.Answer{Text: "Done."}),
			uses("lead", "spawn_agent", map[string]any{"role": "helper", "input": "take time"}), when("lead", script.Answer{Text: "Done."}),
			uses("ask", "request_input", map[string]any{"prompt": "Which?"}), when("ask", script.Answer{Text: "Done."}),
			when("silent", script.Answer{Stall: 100 * time.Hour}), when("silent", script.Answer{Stall: 100 * time.Hour}), when("silent", script.Answer{Stall: 100 * time.Hour}),
		)
		k := newCrew(t, answers...)
		k.session("sess_i")
		ask[command.JobResult](k, &command.CreateJob{
			JobID: "job_i", SessionID: "sess_i", Instruction: "Do it:", RetryPolicy: &event.RetryPolicy{MaxAttempts: 2, InactivityTimeoutMs: limit.Milliseconds()},
			Items: items(4, func(i int) string { return []string{"silent", "slowly", "lead", "ask"}[i] }),
		})
		time.Sleep(limit - time.Minute)
		k.restart() // the three that were asked are asked again; nobody could be heard before
		time.Sleep(limit - time.Second)
		synctest.Wait()
		rec := ask[command.JobRecord](k, &command.GetJob{JobID: "job_i"})
		if x := rec.Items[0]; x.Status != state.ItemRunning || x.AttemptCount != 1 {
			t.Errorf("before its time: %+v", x)
		}
		time.Sleep(2 * limit)
		synctest.Wait()
		rec = ask[command.JobRecord](k, &command.GetJob{JobID: "job_i"})
		if x := rec.Items[0]; x.Status != state.ItemFailed || x.AttemptCount != 2 || x.LastError.Category != "timed_out" {
			t.Errorf("the silent item: %+v %+v", x, x.LastError)
		}
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		k.answerOne("sess_i")
		end := k.jobOver("job_i")
		for _, x := range end.Items[1:] {
			if x.Status != state.ItemCompleted || x.AttemptCount != 1 {
				t.Errorf("%+v %+v", x, x.LastError)
			}
		}
		for _, e := range k.facts("sess_i") {
			p, ok := e.Payload.(*event.TurnFailed)
			if ok && (p.Status != state.TurnFailed || p.FailureCategory != "timed_out") {
				t.Errorf("a turn ended as %s, %s", p.Status, p.FailureCategory)
			}
		}
	})
}

// TestAChildThatWaitsForAPersonIsNoInactivity leaves the question of a task's
// subagent open for hours.
func TestAChildThatWaitsForAPersonIsNoInactivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t,
			uses("lead", "spawn_agent", map[string]any{"role": "helper", "input": "small part"}), when("lead", script.Answer{Text: "It was done."}),
			uses("small part", "request_input", map[string]any{"prompt": "Which?"}), when("small part", script.Answer{Text: "Done."}))
		k.create(command.CreateTask{TaskID: "task_a", Objective: "lead", Start: true, TaskFields: command.TaskFields{RetryPolicy: &event.RetryPolicy{InactivityTimeoutMs: 60_000}}})
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		x := k.task("task_a")
		if x.Status != state.TaskRunning {
			t.Fatalf("the task is %s (%s)", x.Status, x.StatusReason)
		}
		k.answerOne(x.SessionID)
		k.await("task_a", state.TaskCompleted)
	})
}
