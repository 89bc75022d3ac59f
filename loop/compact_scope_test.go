package loop_test

import (
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model"
)

// specification.md, identity: ids join what belongs together. A compaction that is asked
// for between two turns belongs to neither of them, nor to their tasks.
func TestCompactionBetweenTurnsJoinsNoTurn(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 100}
	priced := func(o *agentd.Options) {
		talk.Use(o)
		o.Loop.Models[0].Price = &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 1}}
	}
	k := runtimetest.NewWith(t, priced)
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	before, spent := uint64(len(k.Facts("sess_a"))), k.Thread(r).Turns[0].CostState
	runtimetest.Do[command.CompactThreadResult](k, &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID})
	seen := map[event.Type]bool{}
	for _, e := range k.Facts("sess_a")[before:] {
		seen[e.Type] = true
		if e.TurnID != event.NotApplicable || e.TaskID != event.NotApplicable || e.RunID != event.NotApplicable {
			t.Errorf("%s is joined to turn %q, task %q, run %q", e.Type, e.TurnID, e.TaskID, e.RunID)
		}
	}
	for _, want := range []event.Type{event.TypeModelRequested, event.TypeModelCompleted, event.TypeCostRecorded, event.TypeContextCompactionCompleted} {
		if !seen[want] {
			t.Errorf("there is no %s", want)
		}
	}
	if now := k.Thread(r).Turns[0].CostState; *now.CostUSD != *spent.CostUSD {
		t.Errorf("the turn that had ended costs %v, it was %v", *now.CostUSD, *spent.CostUSD)
	}
}

// The same holds when the process dies during it.
func TestCutCompactionBetweenTurnsJoinsNoTurn(t *testing.T) {
	var h runtimetest.HaltingModel
	k := runtimetest.NewWith(t, h.Use, runtimetest.Says("hello"), runtimetest.Says("in short"))
	h.GoesOn.Store(true)
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	before := len(k.Facts("sess_a"))
	h.GoesOn.Store(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = k.Runtime.Do(t.Context(), command.Local(), &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}) // it is cut off
	}()
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeModelRequested && int(e.Sequence) > before })
	k.Close()
	<-done
	k.Open()
	k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeContextCompactionFailed })
	for _, e := range k.Facts("sess_a")[before:] {
		if e.ThreadID != "" && e.TurnID != event.NotApplicable {
			t.Errorf("%s is joined to turn %q", e.Type, e.TurnID)
		}
	}
}
