package agentd_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/evidence/atif"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/state"
)

// turnsTrial starts a trial of several turns and waits for the end of the first.
func (k *kit) turnsTrial(timeoutMs int64) *command.StartBenchmarkTrialResult {
	k.Helper()
	res := do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{
		Benchmark: trialOf("trial_1", "fix-7", "base"), Input: quoted("Look."), MultiTurn: true, TimeoutMs: timeoutMs,
	})
	k.ends(res.SessionID, res.TurnID)
	return res
}

// next runs another turn of a trial.
func (k *kit) next(res *command.StartBenchmarkTrialResult, text string) *command.SubmitTurnResult {
	k.Helper()
	turn := do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: res.SessionID, ThreadID: res.ThreadID, Input: quoted(text)})
	k.ends(turn.SessionID, turn.TurnID)
	return turn
}

func TestATrialOfSeveralTurnsIsTheirThread(t *testing.T) {
	k := newKitWith(t, mode("bypass"), wants("write_file", map[string]any{"path": "a.txt", "content": "x"}), says("Looked."), says("Fixed."))
	res := k.turnsTrial(0)
	k.score("trial_1", 0.5) // a reward ends nothing
	turn := k.next(res, "Fix.")
	end := &command.EndBenchmarkTrial{TrialID: "trial_1"}
	do[command.TrialResult](k, end)
	e := k.trialEnds(res.SessionID, "trial_1")
	ended := e.Payload.(*event.BenchmarkTrialEnded)
	if e.Type != event.TypeBenchmarkTrialCompleted || ended.ModelCalls != 3 || ended.ToolCalls != 1 || len(ended.EvidenceGaps) > 0 || ended.TimedOut {
		t.Errorf("%s %+v", e.Type, ended)
	}
	do[command.TrialResult](k, end)
	if n := len(payloads[*event.BenchmarkTrialEnded](k, res.SessionID)); n != 1 {
		t.Errorf("it ended %d times", n)
	}
	x := do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_1"})
	if err := atif.Validate(x.Trajectory); err != nil {
		t.Error(err)
	}
	var doc atif.Trajectory
	if err := json.Unmarshal(x.Trajectory, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.TrajectoryID != "trial_1" || len(doc.Steps) != 5 || doc.Steps[0].Message.Text != "Look." || doc.Steps[3].Message.Text != "Fix." || doc.Steps[3].Extra["turn_id"] != turn.TurnID {
		t.Errorf("%s", x.Trajectory)
	}
	if !strings.Contains(string(x.Pack), `"evidenceComplete":true`) && !strings.Contains(string(x.Pack), `"evidenceComplete": true`) {
		t.Errorf("%s", x.Pack)
	}
}

// TestATrialOfSeveralTurnsFailsAsTheFirstThatFailed, unless the caller knows better.
func TestATrialOfSeveralTurnsFailsAsTheFirstThatFailed(t *testing.T) {
	k := newKitWith(t, nil, script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}}, says("Fixed."))
	res := k.turnsTrial(0)
	k.next(res, "Fix.")
	do[command.TrialResult](k, &command.EndBenchmarkTrial{TrialID: "trial_1"})
	e := k.trialEnds(res.SessionID, "trial_1")
	if p := e.Payload.(*event.BenchmarkTrialEnded); e.Type != event.TypeBenchmarkTrialFailed || p.FailureCategory != "model_failed" || p.Error == nil {
		t.Errorf("%s %+v", e.Type, p)
	}
	told := newKitWith(t, nil, says("Fixed."))
	res = told.turnsTrial(0)
	do[command.TrialResult](told, &command.EndBenchmarkTrial{TrialID: "trial_1", FailureCategory: "verifier_error", Reason: "the script is missing"})
	e = told.trialEnds(res.SessionID, "trial_1")
	if p := e.Payload.(*event.BenchmarkTrialEnded); e.Type != event.TypeBenchmarkTrialFailed || p.FailureCategory != "verifier_error" || p.Error.Message != "the script is missing" || p.TrajectoryRef == "" {
		t.Errorf("%s %+v", e.Type, p)
	}
}

// TestATrialThatItsCallerLeftEndsWithItsTime: also after a restart.
func TestATrialThatItsCallerLeftEndsWithItsTime(t *testing.T) {
	k := newKitWith(t, nil, says("Looked."))
	inTime(t, 20*time.Millisecond, func(limit time.Duration) bool {
		k := newKitWith(t, nil, says("Looked."))
		res := do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{
			Benchmark: trialOf("trial_1", "fix-7", "base"), Input: quoted("Look."), MultiTurn: true, TimeoutMs: limit.Milliseconds(),
		})
		turn := k.ends(res.SessionID, res.TurnID)
		p := k.trialEnds(res.SessionID, "trial_1").Payload.(*event.BenchmarkTrialEnded)
		if p.FailureCategory != "timed_out" || !p.TimedOut {
			t.Errorf("%+v", p)
		}
		return turn.Type == event.TypeTurnCompleted
	})
	res := k.turnsTrial(time.Hour.Milliseconds())
	k.close()
	k.open()
	do[command.TrialResult](k, &command.EndBenchmarkTrial{TrialID: "trial_1"})
	k.trialEnds(res.SessionID, "trial_1")
}

func TestWhatCannotBeEnded(t *testing.T) {
	k := newKitWith(t, nil, says("Looked."), script.Answer{Stall: time.Hour, Text: "Late."})
	refused(k, &command.EndBenchmarkTrial{TrialID: "trial_none"}, fault.NotFound)
	refused(k, &command.StartBenchmarkTrial{Benchmark: trialOf("trial_1", "fix-7", "base"), MultiTurn: true}, fault.InvalidParams)
	res := k.turnsTrial(0)
	turn := do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: res.SessionID, ThreadID: res.ThreadID, Input: quoted("Fix.")})
	if said := refused(k, &command.EndBenchmarkTrial{TrialID: "trial_1"}, fault.Conflict); !strings.Contains(said, "has not ended") {
		t.Error(said)
	}
	if _, err := k.r.Do(context.Background(), command.Caller{Account: "someone"}, &command.EndBenchmarkTrial{TrialID: "trial_1"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("somebody else's trial: %v", err)
	}
	do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: res.SessionID, TurnID: turn.TurnID})
	k.ends(res.SessionID, turn.TurnID)
	do[command.TrialResult](k, &command.EndBenchmarkTrial{TrialID: "trial_1"})
	one := newKitWith(t, nil, says("Fixed."))
	one.try(&command.StartBenchmarkTrial{Benchmark: trialOf("trial_1", "fix-7", "base"), Input: quoted("Fix it.")})
	if said := refused(one, &command.EndBenchmarkTrial{TrialID: "trial_1"}, fault.Conflict); !strings.Contains(said, "ends with its turn") {
		t.Error(said)
	}
}

// TestATrialThatCannotBeScored: one that ended with its turn becomes a failed one, once,
// with all else that is known of it; one that has a score doesn't.
func TestATrialThatCannotBeScored(t *testing.T) {
	k := newKitWith(t, nil, says("Fixed."), says("Fixed."))
	res, completed := k.try(&command.StartBenchmarkTrial{Benchmark: trialOf("trial_1", "fix-7", "base"), Input: quoted("Fix it.")})
	refused(k, &command.EndBenchmarkTrial{TrialID: "trial_1"}, fault.Conflict)
	broken := &command.EndBenchmarkTrial{TrialID: "trial_1", FailureCategory: "verifier_error", Reason: "the script is missing"}
	for range 2 {
		do[command.TrialResult](k, broken)
	}
	refused(k, &command.EndBenchmarkTrial{TrialID: "trial_1", FailureCategory: "environment"}, fault.Conflict)
	if n := k.count(res.SessionID, event.TypeBenchmarkTrialFailed); n != 1 {
		t.Errorf("it failed %d times", n)
	}
	failed := k.until(res.SessionID, is(event.TypeBenchmarkTrialFailed, ""))
	was, now := completed.Payload.(*event.BenchmarkTrialEnded), failed.Payload.(*event.BenchmarkTrialEnded)
	if now.FailureCategory != "verifier_error" || now.Error.Message != "the script is missing" || now.TrajectoryRef != was.TrajectoryRef || now.DurationMs != was.DurationMs || now.ModelCalls != was.ModelCalls {
		t.Errorf("it ended as %+v, then as %+v", was, now)
	}
	if err := k.r.View(context.Background(), res.SessionID, func(s *state.Session) error {
		if b := &s.Benchmark; b.Completed != 0 || b.Failed != 1 || b.Find("trial_1").Status != "failed" {
			t.Errorf("%d completed, %d failed", b.Completed, b.Failed)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	k.try(&command.StartBenchmarkTrial{Benchmark: trialOf("trial_2", "fix-7", "base"), Input: quoted("Fix it.")})
	do[command.TrialResult](k, &command.RecordBenchmarkReward{TrialID: "trial_2", Reward: &command.Reward{Value: new(1.0)}})
	refused(k, &command.EndBenchmarkTrial{TrialID: "trial_2", FailureCategory: "verifier_error"}, fault.Conflict)
}
