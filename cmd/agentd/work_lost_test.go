package main

import (
	"strings"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// refused asks for something that must be a conflict and say these words.
func refused(p *process, params command.Params, words ...string) {
	p.t.Helper()
	_, err := client.Call[command.TaskResult](p.t.Context(), p.client(), params)
	if fault.KindOf(err) != fault.Conflict {
		p.t.Fatalf("%s: got %v", params.Command(), err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			p.t.Errorf("%s: %q doesn't say %q", params.Command(), err, w)
		}
	}
}

// TestALostTaskIsTriedAgainOverKills has a worker over HTTP that vanishes, and a
// server that is killed after the task was lost and again while the next worker is
// at it. The first worker comes back each time and changes nothing.
func TestALostTaskIsTriedAgainOverKills(t *testing.T) {
	data := t.TempDir()
	p := start(t, data)
	call[command.CreateSessionResult](p, &command.CreateSession{SessionID: "sess_l"})
	// How often it is lost before the next worker comes depends on the machine: there
	// are attempts enough, and far fewer than a task remembers.
	call[command.TaskResult](p, &command.CreateTask{
		TaskID: "task_l", SessionID: "sess_l", Objective: "Ship it", Worker: "external",
		TaskFields: command.TaskFields{HeartbeatTimeoutMs: 500, RetryPolicy: &event.RetryPolicy{MaxAttempts: 1000, BackoffMs: 1000, MaxBackoffMs: 1000}},
	})
	first := call[command.TaskRunResult](p, &command.StartTask{TaskID: "task_l"}).RunID
	p.until("sess_l", event.TypeTaskLost, 1)
	p.stop(syscall.SIGKILL)

	p = start(t, data)
	second := p.until("sess_l", event.TypeTaskAttemptStarted, 2)
	if second.RunID == first || second.Payload.(*event.TaskAttemptStarted).Reason != "lost_worker" {
		t.Errorf("the second attempt: %+v", second)
	}
	refused(p, &command.CompleteTask{TaskID: "task_l", RunID: first, Summary: "I was asleep"}, "declared lost")
	call[command.TaskResult](p, &command.UpdateTask{TaskID: "task_l", TaskFields: command.TaskFields{HeartbeatTimeoutMs: 3_600_000}})
	taken := call[command.TaskRunResult](p, &command.StartTask{TaskID: "task_l"})
	call[command.TaskResult](p, &command.AppendTaskProgress{TaskID: "task_l", RunID: taken.RunID, Progress: &event.Progress{Phase: "working"}})
	p.stop(syscall.SIGKILL)

	p = start(t, data)
	refused(p, &command.FailTask{TaskID: "task_l", RunID: first, Error: &event.Failure{Message: "or not"}}, "declared lost", taken.RunID)
	now := call[state.Task](p, &command.GetTask{TaskID: "task_l"})
	if now.Status != state.TaskRunning || now.CurrentRunID != taken.RunID || len(now.Attempts[0].Late) != 2 && now.OlderAttempts == 0 {
		t.Errorf("after two kills and two late words: %+v", now)
	}
	call[command.TaskResult](p, &command.CompleteTask{TaskID: "task_l", RunID: taken.RunID, Summary: "done"})
	refused(p, &command.CompleteTask{TaskID: "task_l", RunID: first}, "declared lost")
	end := call[state.Task](p, &command.GetTask{TaskID: "task_l"})
	for i, a := range end.Attempts {
		want := state.AttemptUnknown
		if i == len(end.Attempts)-1 {
			want = state.AttemptCompleted
		}
		if a.Status != want {
			t.Errorf("attempt %d is %s", i+1, a.Status)
		}
	}
	if end.Status != state.TaskCompleted || end.Summary != "done" {
		t.Errorf("the end: %s %q", end.Status, end.Summary)
	}
	lossesComeFirst(p, "sess_l", taken.AttemptCount)
	p.stop(syscall.SIGTERM)
	says(t, self(t, "verify", "--data", data))
}

// lossesComeFirst holds that each attempt but the first follows a task.lost, and
// that none begins under two runs.
func lossesComeFirst(p *process, sessionID string, attempts int64) {
	p.t.Helper()
	begun, lost := map[string]bool{}, 0
	for e, err := range p.client().Follow(p.t.Context(), sessionID, 0, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		switch e.Type {
		case event.TypeTaskLost:
			lost++
		case event.TypeTaskAttemptStarted:
			d, err := e.Decode()
			if err != nil {
				p.t.Fatal(err)
			}
			begun[d.RunID] = true
			if len(begun) != lost+1 {
				p.t.Errorf("%d attempts began after %d losses", len(begun), lost)
			}
		case event.TypeTaskCompleted:
			if int64(len(begun)) != attempts {
				p.t.Errorf("%d attempts began, the last is number %d", len(begun), attempts)
			}
			return
		}
	}
}
