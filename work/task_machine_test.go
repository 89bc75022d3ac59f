package work

import (
	"slices"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// allStatuses are the standard's.
var allStatuses = event.EnumValues("@taskStatus")

func TestMachineHasEveryStatus(t *testing.T) {
	if len(machine) != len(allStatuses) {
		t.Errorf("the machine has %d statuses", len(machine))
	}
	reached := map[string]bool{state.TaskDraft: true, state.TaskAccepted: true} // by task.created
	for from, row := range machine {
		if !slices.Contains(allStatuses, from) {
			t.Errorf("%s is no status", from)
		}
		for _, to := range row.to {
			reached[to] = true
			if _, ok := machine[to]; !ok {
				t.Errorf("%s → %s: no such status", from, to)
			}
		}
	}
	for _, s := range allStatuses {
		if !reached[s] && s != taskStale && s != taskUnknown {
			t.Errorf("no task ever becomes %s", s)
		}
		if reached[s] && (s == taskStale || s == taskUnknown) {
			t.Errorf("a decision makes a task %s", s)
		}
	}
}

func TestMachineKeepsWhatIsOver(t *testing.T) {
	for from, row := range machine {
		ended := (&state.Task{Status: from}).Terminal()
		for _, to := range row.to {
			switch {
			case ended && to != state.TaskRetrying && to != state.TaskArchived:
				t.Errorf("%s → %s", from, to)
			case to == state.TaskCancelled && from != state.TaskCancelling:
				t.Errorf("%s → cancelled without a wish", from)
			case to == state.TaskCompleted && slices.Contains([]string{"draft", "accepted", "queued", "retrying", "cancelling"}, from):
				t.Errorf("%s → completed without work", from)
			}
		}
	}
	if row := machine[state.TaskArchived]; len(row.to)+len(row.commands) > 0 {
		t.Errorf("an archived task goes on: %+v", row)
	}
}

func TestRefusalNamesTheStatus(t *testing.T) {
	for status, row := range machine {
		for _, name := range []command.Name{"start_task", "retry_task", "append_task_progress", "pause_task", "resume_task", "cancel_task", "complete_task", "fail_task", "archive_task"} {
			err := mayAsk(&state.Task{TaskID: "task_a", Status: status}, name)
			if slices.Contains(row.commands, name) != (err == nil) {
				t.Errorf("%s of a task that is %s: %v", name, status, err)
			}
			if err != nil && (fault.KindOf(err) != fault.Conflict || !slices.Contains(words(err.Error()), status)) {
				t.Errorf("%v doesn't name %s", err, status)
			}
		}
	}
}

func words(s string) []string {
	return slices.Collect(func(yield func(string) bool) {
		start := -1
		for i, r := range s + " " {
			letter := r == '_' || r >= 'a' && r <= 'z'
			if letter && start < 0 {
				start = i
			}
			if !letter && start >= 0 {
				if !yield(s[start:i]) {
					return
				}
				start = -1
			}
		}
	})
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	p := event.RetryPolicy{BackoffMs: 100, MaxBackoffMs: 1000}
	for n, want := range map[int64]int64{1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 60: 1000} {
		if got := retryBackoff(p, n, 0); got != millis(want) {
			t.Errorf("after %d attempts the wait is %s", n, got)
		}
		if got := retryBackoff(p, n, 0.999); got < millis(want) || got > millis(want)*5/4 {
			t.Errorf("after %d attempts the longest wait is %s", n, got)
		}
	}
	if got := retryBackoff(event.RetryPolicy{}, 5, 0.5); got != 0 {
		t.Errorf("without a backoff the wait is %s", got)
	}
}
