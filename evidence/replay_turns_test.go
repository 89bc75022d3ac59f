package evidence_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/hook"
	"agentd/loop"
	"agentd/model"
	"agentd/model/provider/script"
)

// TestReplayStartsTurnsInTheirOrder: turns that started in another order than they were
// submitted, because somebody put one first or one pushed the running one aside, start
// in that order again.
func TestReplayStartsTurnsInTheirOrder(t *testing.T) {
	p := &slow{n: 1, let: make(chan struct{})}
	p.Provider = script.New("script", &script.Script{Answers: []script.Answer{{Text: "one"}, wants("wait", nil), {Text: "five"}, {Text: "four"}, {Text: "two"}}})
	tools := &waiting{"wait", make(chan struct{})}
	k := newKit(t, func(o *agentd.Options) { with(t, tools)(o); o.Provider = p })
	first := k.submit("sess_order", "one", nil)
	k.sees(first, event.TypeModelRequested)
	second := k.submit("sess_order", "two", nil)
	third := k.submit("sess_order", "three", nil)
	do[command.QueueResult](k, &command.PromoteQueuedTurn{SessionID: "sess_order", TurnID: third.TurnID})
	close(p.let)
	k.sees(third, event.TypeToolStarted)
	fourth := k.submit("sess_order", "four", &event.TurnOptions{QueuePolicy: "interrupt"})
	fifth := k.submit("sess_order", "five", nil)
	k.sees(third, event.TypeTurnFailed)
	k.sees(second, event.TypeTurnCompleted)
	k.sees(fifth, event.TypeTurnCompleted)
	c := caseOf(k, command.ExportScope{SessionID: "sess_order"})
	var order []string
	for _, turn := range c.Turns {
		order = append(order, turn.TurnID)
	}
	if want := []string{first.TurnID, third.TurnID, fourth.TurnID, second.TurnID, fifth.TurnID}; !slices.Equal(order, want) {
		t.Errorf("the turns are %v, not %v", order, want)
	}
	finds(k, "sess_order", map[string]mutant{
		"as they were submitted": {func(c *evidence.Case) { c.Turns[1], c.Turns[3] = c.Turns[3], c.Turns[1] }, "turn 2: "},
		"the last two":           {func(c *evidence.Case) { c.Turns[3], c.Turns[4] = c.Turns[4], c.Turns[3] }, "turn 4: model.completed: text was"},
		"nothing is pushed":      {without(evidence.ActInterrupt), "turn 2: the recording has turn.interrupt_requested"},
	})
}

// TestReplayTakesFromTheMiddleOfTheQueue: turns that were taken from the queue while
// others waited before and behind them never start again, and the others do.
func TestReplayTakesFromTheMiddleOfTheQueue(t *testing.T) {
	tools := &waiting{"wait", make(chan struct{})}
	k := newKit(t, with(t, tools), wants("wait", nil), script.Answer{Text: "one"}, script.Answer{Text: "two"}, script.Answer{Text: "four"})
	first := k.submit("sess_queue", "one", nil)
	k.sees(first, event.TypeToolStarted)
	var behind []*command.SubmitTurnResult
	for _, text := range []string{"two", "three", "four", "five"} {
		behind = append(behind, k.submit("sess_queue", text, nil))
	}
	for _, i := range []int{3, 1} {
		do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_queue", TurnID: behind[i].TurnID, Reason: "not any more"})
		k.sees(behind[i], event.TypeTurnFailed)
	}
	close(tools.let)
	k.sees(behind[2], event.TypeTurnCompleted)
	finds(k, "sess_queue", map[string]mutant{
		"nobody takes it": {without(evidence.ActQueued), "the recording has turn.failed"},
		"it is another":   {func(c *evidence.Case) { c.Turns[3], c.Turns[4] = c.Turns[4], c.Turns[3] }, "turn 4: model.completed: text was"},
	})
}

// TestReplayInterruptsBeforeATurnStarts: a turn that was stopped while a hook was asked
// whether it may begin doesn't begin, and the one after it does.
func TestReplayInterruptsBeforeATurnStarts(t *testing.T) {
	for _, point := range []hook.Point{hook.SessionStart, hook.UserPromptSubmit} {
		t.Run(string(point), func(t *testing.T) {
			k := newKit(t, heldAt(t, point), script.Answer{Text: "two"})
			r := k.submit("sess_early", "one", nil)
			k.untilHeld("sess_early")
			do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: r.SessionID, TurnID: r.TurnID, Reason: "enough"})
			k.sees(r, event.TypeTurnFailed)
			k.turn("sess_early", "two", nil)
			finds(k, "sess_early", map[string]mutant{
				"another reason":  {func(c *evidence.Case) { act(c, evidence.ActInterrupt).Reason = "other" }, "turn.interrupt_requested: reason was"},
				"nobody stops it": {without(evidence.ActInterrupt), "turn 1: the recording has turn.interrupt_requested"},
			})
		})
	}
}

// TestReplayInterruptsBetweenSteps: a turn that was stopped before anything was done
// about it, and one that waited for a limit of the runtime, end there again.
func TestReplayInterruptsBetweenSteps(t *testing.T) {
	held := &pacing{before: make(chan struct{})}
	k := newKit(t, func(o *agentd.Options) {
		o.Loop.Models = []model.Info{{Provider: "script", Model: "test", HasCredential: true, Limits: model.Limits{RequestsPerMinute: 1}}}
		o.Loop.DefaultModel, o.Loop.Providers, o.Provider, o.Model = "script/test", []model.Provider{o.Provider}, nil, ""
		o.Loop.Pace = held.pace
	}, script.Answer{Text: "one"}, script.Answer{Text: "two"})
	stop := func(r *command.SubmitTurnResult) {
		do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: r.SessionID, TurnID: r.TurnID, Reason: "enough"})
		k.sees(r, event.TypeTurnFailed)
	}
	for _, at := range []loop.Effect{loop.StartTurn{}, loop.CallModel{}} {
		held.at(at)
		r := k.submit("sess_between", "none", nil)
		<-held.before
		stop(r)
	}
	held.at(nil)
	k.turn("sess_between", "one", nil)
	r := k.submit("sess_between", "limited", nil)
	k.until("sess_between", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.RunStatus)
		return ok && p.Phase == "retrying"
	})
	stop(r)
	c := caseOf(k, command.ExportScope{SessionID: "sess_between"})
	var before []string
	for _, a := range c.Acts {
		before = append(before, a.Before)
	}
	if want := []string{evidence.BeforeStart, evidence.BeforeCall, evidence.BeforeCall}; !slices.Equal(before, want) {
		t.Errorf("the turns were stopped before %v, not %v", before, want)
	}
	finds(k, "sess_between", map[string]mutant{
		"another reason":      {func(c *evidence.Case) { c.Acts[2].Reason = "other" }, "turn 4: turn.interrupt_requested: reason was"},
		"nobody stops it":     {without(evidence.ActInterrupt), "turn 1: the recording has turn.interrupt_requested"},
		"the limit is waited": {func(c *evidence.Case) { undone(c, 2) }, "turn 4: the recording has turn.interrupt_requested"},
		"it had started": {func(c *evidence.Case) {
			c.Acts[0].Before = evidence.BeforeCall
			c.Acts[0].After = map[string]int{"turn 1": c.Acts[1].After["turn 2"]}
		}, "turn 1: the recording has turn.interrupt_requested"},
	})
}

// pacing holds a thread before an effect of one kind until it is interrupted.
type pacing struct {
	kind   atomic.Pointer[loop.Effect]
	before chan struct{}
}

func (p *pacing) at(e loop.Effect) { p.kind.Store(&e) }

func (p *pacing) pace(_ string, next loop.Effect) time.Duration {
	kind := p.kind.Load()
	if kind == nil || reflect.TypeOf(*kind) != reflect.TypeOf(next) {
		return 0
	}
	p.before <- struct{}{}
	return time.Hour
}

// untilHeld waits until the hook is asked that doesn't answer.
func (k *kit) untilHeld(sessionID string) {
	k.Helper()
	k.until(sessionID, func(e *event.Event) bool {
		p, ok := e.Payload.(*event.HookStarted)
		return ok && p.HandlerRef == "held"
	})
}

// heldAt gives a runtime two hooks at a point: one that answers, and one that the first
// time never does.
func heldAt(t *testing.T, point hook.Point) func(*agentd.Options) {
	t.Helper()
	var n atomic.Int64
	asked := 0
	r, err := hook.New(hook.Options{
		Hooks: []hook.Hook{{Name: "quick", Point: point, Command: []string{"quick"}}, {Name: "held", Point: point, Command: []string{"held"}}},
		NewID: func() string { return fmt.Sprintf("hook_%d", n.Add(1)) },
		Exec: func(ctx context.Context, c hook.Command) (hook.Exit, error) {
			if c.Argv[0] == "held" {
				if asked++; asked == 1 { // hooks of a thread are asked one after the other
					<-ctx.Done()
					return hook.Exit{}, ctx.Err()
				}
			}
			return hook.Exit{Stdout: []byte(`{}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *agentd.Options) { o.Loop.Hooks = r }
}
