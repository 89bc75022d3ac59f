package trial_test

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
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/state"
)

// turnsTrial starts a trial of several turns and waits for the end of the first.
func turnsTrial(k *runtimetest.Kit, timeoutMs int64) *command.StartBenchmarkTrialResult {
	k.Helper()
	res := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{
		Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Look."), MultiTurn: true, TimeoutMs: timeoutMs,
	})
	k.WaitForEnd(res.SessionID, res.TurnID)
	return res
}

// next runs another turn of a trial.
func next(k *runtimetest.Kit, res *command.StartBenchmarkTrialResult, text string) *command.SubmitTurnResult {
	k.Helper()
	turn := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: res.SessionID, ThreadID: res.ThreadID, Input: runtimetest.Quoted(text)})
	k.WaitForEnd(turn.SessionID, turn.TurnID)
	return turn
}

func TestATrialOfSeveralTurnsIsTheirThread(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("bypass"), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "x"}), runtimetest.Says("Looked."), runtimetest.Says("Fixed."))
	res := turnsTrial(k, 0)
	score(k, "trial_1", 0.5) // a reward ends nothing
	turn := next(k, res, "Fix.")
	end := &command.EndBenchmarkTrial{TrialID: "trial_1"}
	runtimetest.Do[command.TrialResult](k, end)
	e := k.WaitForTrial(res.SessionID, "trial_1")
	ended := e.Payload.(*event.BenchmarkTrialEnded)
	if e.Type != event.TypeBenchmarkTrialCompleted || ended.ModelCalls != 3 || ended.ToolCalls != 1 || len(ended.EvidenceGaps) > 0 || ended.TimedOut {
		t.Errorf("%s %+v", e.Type, ended)
	}
	runtimetest.Do[command.TrialResult](k, end)
	if n := len(runtimetest.Payloads[*event.BenchmarkTrialEnded](k, res.SessionID)); n != 1 {
		t.Errorf("it ended %d times", n)
	}
	x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_1"})
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
	k := runtimetest.NewWith(t, nil, script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}}, runtimetest.Says("Fixed."))
	res := turnsTrial(k, 0)
	next(k, res, "Fix.")
	runtimetest.Do[command.TrialResult](k, &command.EndBenchmarkTrial{TrialID: "trial_1"})
	e := k.WaitForTrial(res.SessionID, "trial_1")
	if p := e.Payload.(*event.BenchmarkTrialEnded); e.Type != event.TypeBenchmarkTrialFailed || p.FailureCategory != "model_failed" || p.Error == nil {
		t.Errorf("%s %+v", e.Type, p)
	}
	told := runtimetest.NewWith(t, nil, runtimetest.Says("Fixed."))
	res = turnsTrial(told, 0)
	runtimetest.Do[command.TrialResult](told, &command.EndBenchmarkTrial{TrialID: "trial_1", FailureCategory: "verifier_error", Reason: "the script is missing"})
	e = told.WaitForTrial(res.SessionID, "trial_1")
	if p := e.Payload.(*event.BenchmarkTrialEnded); e.Type != event.TypeBenchmarkTrialFailed || p.FailureCategory != "verifier_error" || p.Error.Message != "the script is missing" || p.TrajectoryRef == "" {
		t.Errorf("%s %+v", e.Type, p)
	}
}

// TestATrialThatItsCallerLeftEndsWithItsTime: also after a restart.
func TestATrialThatItsCallerLeftEndsWithItsTime(t *testing.T) {
	k := runtimetest.NewWith(t, nil, runtimetest.Says("Looked."))
	runtimetest.InTime(t, 20*time.Millisecond, func(limit time.Duration) bool {
		k := runtimetest.NewWith(t, nil, runtimetest.Says("Looked."))
		res := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{
			Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Look."), MultiTurn: true, TimeoutMs: limit.Milliseconds(),
		})
		turn := k.WaitForEnd(res.SessionID, res.TurnID)
		p := k.WaitForTrial(res.SessionID, "trial_1").Payload.(*event.BenchmarkTrialEnded)
		if p.FailureCategory != "timed_out" || !p.TimedOut {
			t.Errorf("%+v", p)
		}
		return turn.Type == event.TypeTurnCompleted
	})
	res := turnsTrial(k, time.Hour.Milliseconds())
	k.Close()
	k.Open()
	runtimetest.Do[command.TrialResult](k, &command.EndBenchmarkTrial{TrialID: "trial_1"})
	k.WaitForTrial(res.SessionID, "trial_1")
}

func TestWhatCannotBeEnded(t *testing.T) {
	k := runtimetest.NewWith(t, nil, runtimetest.Says("Looked."), script.Answer{Stall: time.Hour, Text: "Late."})
	runtimetest.Refused(k, &command.EndBenchmarkTrial{TrialID: "trial_none"}, fault.NotFound)
	runtimetest.Refused(k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), MultiTurn: true}, fault.InvalidParams)
	res := turnsTrial(k, 0)
	turn := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: res.SessionID, ThreadID: res.ThreadID, Input: runtimetest.Quoted("Fix.")})
	if said := runtimetest.Refused(k, &command.EndBenchmarkTrial{TrialID: "trial_1"}, fault.Conflict); !strings.Contains(said, "has not ended") {
		t.Error(said)
	}
	if _, err := k.Runtime.Do(context.Background(), command.Caller{Account: "someone"}, &command.EndBenchmarkTrial{TrialID: "trial_1"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("somebody else's trial: %v", err)
	}
	runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: res.SessionID, TurnID: turn.TurnID})
	k.WaitForEnd(res.SessionID, turn.TurnID)
	runtimetest.Do[command.TrialResult](k, &command.EndBenchmarkTrial{TrialID: "trial_1"})
	one := runtimetest.NewWith(t, nil, runtimetest.Says("Fixed."))
	one.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
	if said := runtimetest.Refused(one, &command.EndBenchmarkTrial{TrialID: "trial_1"}, fault.Conflict); !strings.Contains(said, "ends with its turn") {
		t.Error(said)
	}
}

// TestATrialThatCannotBeScored: one that ended with its turn becomes a failed one, once,
// with all else that is known of it; one that has a score doesn't.
func TestATrialThatCannotBeScored(t *testing.T) {
	k := runtimetest.NewWith(t, nil, runtimetest.Says("Fixed."), runtimetest.Says("Fixed."))
	res, completed := k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
	runtimetest.Refused(k, &command.EndBenchmarkTrial{TrialID: "trial_1"}, fault.Conflict)
	broken := &command.EndBenchmarkTrial{TrialID: "trial_1", FailureCategory: "verifier_error", Reason: "the script is missing"}
	for range 2 {
		runtimetest.Do[command.TrialResult](k, broken)
	}
	runtimetest.Refused(k, &command.EndBenchmarkTrial{TrialID: "trial_1", FailureCategory: "environment"}, fault.Conflict)
	if n := k.CountFacts(res.SessionID, event.TypeBenchmarkTrialFailed); n != 1 {
		t.Errorf("it failed %d times", n)
	}
	failed := k.WaitFor(res.SessionID, runtimetest.FactIs(event.TypeBenchmarkTrialFailed, ""))
	was, now := completed.Payload.(*event.BenchmarkTrialEnded), failed.Payload.(*event.BenchmarkTrialEnded)
	if now.FailureCategory != "verifier_error" || now.Error.Message != "the script is missing" || now.TrajectoryRef != was.TrajectoryRef || now.DurationMs != was.DurationMs || now.ModelCalls != was.ModelCalls {
		t.Errorf("it ended as %+v, then as %+v", was, now)
	}
	if err := k.Runtime.View(context.Background(), res.SessionID, func(s *state.Session) error {
		if b := &s.Benchmark; b.Completed != 0 || b.Failed != 1 || b.Find("trial_1").Status != "failed" {
			t.Errorf("%d completed, %d failed", b.Completed, b.Failed)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	k.RunTrial(&command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_2", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
	runtimetest.Do[command.TrialResult](k, &command.RecordBenchmarkReward{TrialID: "trial_2", Reward: &command.Reward{Value: new(1.0)}})
	runtimetest.Refused(k, &command.EndBenchmarkTrial{TrialID: "trial_2", FailureCategory: "verifier_error"}, fault.Conflict)
}
