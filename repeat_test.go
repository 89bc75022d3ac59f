package agentd_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// TestCommandsOfAJobAreRepeatedWithTheirFirstAnswer: the same call again, with its key,
// is told what the first was, however far the job has gone since.
func TestCommandsOfAJobAreRepeatedWithTheirFirstAnswer(t *testing.T) {
	k := newKitWith(t, mode("default"), wants("write_file", map[string]any{"path": "a.txt", "content": "x"}))
	do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	wait := false
	created := do[command.JobResult](k, &command.CreateJob{
		SessionID: "sess_a", Instruction: "Write.", Items: []command.JobItemInput{{ItemID: "i", Input: quoted("a")}}, Start: &wait,
	})
	key := func(k string) command.Mutation { return command.Mutation{IdempotencyKey: k} }
	calls := []command.Params{
		&command.StartJob{Mutation: key("start"), JobID: created.JobID},
		&command.CancelJob{Mutation: key("cancel"), JobID: created.JobID, Reason: "enough"},
		&command.RetryJobItem{Mutation: key("retry"), JobID: created.JobID, ItemID: "i"},
	}
	var told []command.JobRecord
	for _, p := range calls {
		told = append(told, *do[command.JobRecord](k, p))
		if p.Command() == "start_job" {
			k.until("sess_a", func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
		}
	}
	do[command.JobRecord](k, &command.CancelJob{JobID: created.JobID})
	for i, p := range calls {
		again := do[command.JobRecord](k, p)
		if again.SessionID != "sess_a" || again.Status == "" || len(again.Items) != 1 || again.CreatedAt.IsZero() {
			t.Errorf("the repeated %s gives %+v", p.Command(), again)
		}
		if diff := cmp.Diff(told[i], *again); diff != "" {
			t.Errorf("the repeated %s was told something else:\n%s", p.Command(), diff)
		}
	}
	_, err := k.r.Do(context.Background(), command.Local(), &command.CancelJob{Mutation: key("cancel"), JobID: created.JobID, Reason: "other"})
	if fault.KindOf(err) != fault.Conflict {
		t.Errorf("the same key with other parameters: %v", err)
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
