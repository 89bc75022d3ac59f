package agentd_test

import (
	"context"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/tool"
)

// TestATrialEndsAfterACrash stops a runtime in the middle of a trial's turn, and
// another one between the end of the turn and that of the trial.
func TestATrialEndsAfterACrash(t *testing.T) {
	t.Run("in the turn", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		d := &dying{}
		k := newKitWith(t, all(stuck(asked), mortal(d)))
		res := do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: trialOf("trial_1", "fix-7", "base"), Input: quoted("Fix it.")})
		<-asked
		k.crash(d)
		k.change = nil
		k.script.Answers = []script.Answer{says("Fixed.")}
		k.open()
		if e := k.trialEnds(res.SessionID, "trial_1"); e.Type != event.TypeBenchmarkTrialCompleted {
			t.Errorf("%+v", e.Payload)
		}
	})
	t.Run("in a tool that may have had an effect", func(t *testing.T) {
		at := make(chan struct{}, 1)
		slow := writes("slow", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
			at <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		d := &dying{}
		k := newKitWith(t, all(mode("bypass"), withTools(t, slow), mortal(d)), wants("slow", nil), says("Fixed."))
		res := do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: trialOf("trial_1", "fix-7", "base"), Input: quoted("Fix it.")})
		<-at
		k.crash(d)
		k.change = all(mode("bypass"), withTools(t, slow))
		k.open()
		e := k.trialEnds(res.SessionID, "trial_1")
		if p := e.Payload.(*event.BenchmarkTrialEnded); p.Status != "failed" || p.FailureCategory != "blocked" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("after the turn", func(t *testing.T) {
		k := newKit(t, says("Fixed."))
		k.r.StopTrials()
		res := do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: trialOf("trial_1", "fix-7", "base"), Input: quoted("Fix it.")})
		k.ends(res.SessionID, res.TurnID)
		if n := k.count(res.SessionID, event.TypeBenchmarkTrialCompleted); n != 0 {
			t.Fatal("the trial has ended: the test shows nothing")
		}
		if err := k.r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		k.open()
		if e := k.trialEnds(res.SessionID, "trial_1"); e.Type != event.TypeBenchmarkTrialCompleted {
			t.Errorf("%+v", e.Payload)
		}
	})
}

// mortal has a runtime work on a store that can die.
func mortal(d *dying) func(*agentd.Options) {
	return func(o *agentd.Options) {
		*d = dying{Store: o.Store, left: -1, died: make(chan struct{})}
		o.Store = d
	}
}

// crash ends a runtime without its being able to write anything more.
func (k *kit) crash(d *dying) {
	k.Helper()
	d.mu.Lock()
	d.dead = true
	d.mu.Unlock()
	gone, cancel := context.WithCancel(context.Background())
	cancel() // nobody waits for a step that was under way
	if err := k.r.Close(gone); err == nil {
		k.Log("closing wrote nothing")
	}
}
