package agentd_test

import (
	"context"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// TestARetriedItemIsRepeatedWithItsJob: the same retry again, with its key, gives
// the job and not only its id.
func TestARetriedItemIsRepeatedWithItsJob(t *testing.T) {
	k := newKitWith(t, mode("default"), wants("write_file", map[string]any{"path": "a.txt", "content": "x"}))
	do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	created := do[command.JobResult](k, &command.CreateJob{SessionID: "sess_a", Instruction: "Write.", Items: []command.JobItemInput{{ItemID: "i", Input: quoted("a")}}})
	k.until("sess_a", func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	do[command.JobRecord](k, &command.CancelJob{JobID: created.JobID})
	retry := &command.RetryJobItem{Mutation: command.Mutation{IdempotencyKey: "k"}, JobID: created.JobID, ItemID: "i"}
	do[command.JobRecord](k, retry)
	again := do[command.JobRecord](k, retry)
	if again.SessionID != "sess_a" || again.Status == "" || len(again.Items) != 1 || again.CreatedAt.IsZero() {
		t.Errorf("the repeated retry gives %+v", again)
	}
}

// TestATrialOfAnotherAccountHidesItsSession: an id that is taken is a conflict, and
// nothing is said of what took it.
func TestATrialOfAnotherAccountHidesItsSession(t *testing.T) {
	k := newKit(t)
	first := do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: trialOf("trial_1", "t", "base"), Input: quoted("Hello.")})
	_, err := k.r.Do(context.Background(), command.Caller{Account: "bob", Actor: event.Actor{Kind: "user"}}, &command.StartBenchmarkTrial{
		Benchmark: trialOf("trial_1", "t", "base"), Input: quoted("Hello."),
	})
	if fault.KindOf(err) != fault.Conflict || strings.Contains(err.Error(), first.SessionID) {
		t.Errorf("another account's trial under the same id: %v", err)
	}
}
