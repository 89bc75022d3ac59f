package trial_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/tool"
)

// TestATrialEndsAfterACrash stops a runtime in the middle of a trial's turn, and
// another one between the end of the turn and that of the trial.
func TestATrialEndsAfterACrash(t *testing.T) {
	t.Run("in the turn", func(t *testing.T) {
		asked := make(chan struct{}, 1)
		d := &runtimetest.DyingStore{}
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.StuckModel(asked), runtimetest.OnDyingStore(d)))
		res := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
		<-asked
		k.Crash(d)
		k.Change = nil
		k.Script.Answers = []script.Answer{runtimetest.Says("Fixed.")}
		k.Open()
		if e := k.WaitForTrial(res.SessionID, "trial_1"); e.Type != event.TypeBenchmarkTrialCompleted {
			t.Errorf("%+v", e.Payload)
		}
	})
	t.Run("in a tool that may have had an effect", func(t *testing.T) {
		at := make(chan struct{}, 1)
		slow := runtimetest.WritingTool("slow", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
			at <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		d := &runtimetest.DyingStore{}
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithTools(t, slow), runtimetest.OnDyingStore(d)), runtimetest.CallsTool("slow", nil), runtimetest.Says("Fixed."))
		res := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
		<-at
		k.Crash(d)
		k.Change = runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithTools(t, slow))
		k.Open()
		e := k.WaitForTrial(res.SessionID, "trial_1")
		if p := e.Payload.(*event.BenchmarkTrialEnded); p.Status != "failed" || p.FailureCategory != "blocked" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("after the turn", func(t *testing.T) {
		s := &diesAtTrialEnd{reached: make(chan struct{})}
		k := runtimetest.NewWith(t, func(o *agentd.Options) {
			s.DyingStore = runtimetest.NewDyingStore(o.Store, -1, false)
			o.Store = s
		}, runtimetest.Says("Fixed."))
		res := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "fix-7", "base"), Input: runtimetest.Quoted("Fix it.")})
		k.WaitForEnd(res.SessionID, res.TurnID)
		<-s.reached
		if n := k.CountFacts(res.SessionID, event.TypeBenchmarkTrialCompleted); n != 0 {
			t.Fatal("the trial has ended: the test shows nothing")
		}
		k.Crash(s.DyingStore)
		k.Change = nil
		k.Open()
		if e := k.WaitForTrial(res.SessionID, "trial_1"); e.Type != event.TypeBenchmarkTrialCompleted {
			t.Errorf("%+v", e.Payload)
		}
	})
}

// diesAtTrialEnd is a store whose process dies when it is to write down the end of a
// trial.
type diesAtTrialEnd struct {
	*runtimetest.DyingStore
	once    sync.Once
	reached chan struct{}
}

// Append implements [store.Store].
func (s *diesAtTrialEnd) Append(ctx context.Context, batches []*store.Batch) []error {
	for _, b := range batches {
		for i := range b.Records {
			if bytes.Contains(b.Records[i].Data, []byte(event.TypeBenchmarkTrialCompleted)) {
				s.once.Do(func() {
					s.Die()
					close(s.reached)
				})
			}
		}
	}
	return s.DyingStore.Append(ctx, batches)
}
