package evidence_test

import (
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/loop"
	"agentd/model/provider/script"
)

// gate stops a thread once before an effect that it accepts, until it is let go.
type gate struct {
	at      func(threadID string, next loop.Effect) bool
	reached chan struct{}
	let     chan time.Duration

	mu   sync.Mutex
	done bool
}

func newGate(at func(string, loop.Effect) bool) *gate {
	return &gate{at: at, reached: make(chan struct{}), let: make(chan time.Duration, 1)}
}

func (g *gate) options(o *agentd.Options) { o.Loop.Pace = g.pace }

func (g *gate) pace(threadID string, next loop.Effect) time.Duration {
	g.mu.Lock()
	here := !g.done && g.at(threadID, next)
	g.done = g.done || here
	g.mu.Unlock()
	if !here {
		return 0
	}
	close(g.reached)
	return <-g.let
}

// interrupted has the thread stay where it is until somebody interrupts it.
func (g *gate) interrupted() {
	g.let <- time.Hour
}

// passed lets the thread go on.
func (g *gate) passed() { g.let <- 0 }

// TestReplayInterruptsAfterAnAnswer: a turn that was stopped before it ran the tools that
// an answer wants, before it asked again, and before it ended, does so again.
func TestReplayInterruptsAfterAnAnswer(t *testing.T) {
	for name, x := range map[string]struct {
		effect loop.Effect
		before string
		calls  int
	}{
		"before the tools":  {loop.RunTools{}, evidence.BeforeTools, 1},
		"before the answer": {loop.CallModel{Step: 2}, evidence.BeforeCall, 1},
		"before the end":    {loop.CompleteTurn{}, evidence.BeforeCall, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(func(_ string, next loop.Effect) bool {
				call, asks := next.(loop.CallModel)
				return reflect.TypeOf(next) == reflect.TypeOf(x.effect) && (!asks || call.Step == 2)
			})
			k := newKit(t, g.options, wants("write_file", map[string]any{"path": "a.txt", "content": "x"}), script.Answer{Text: "done"})
			r := k.submit("sess_stop", "go", nil)
			<-g.reached
			do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: r.SessionID, TurnID: r.TurnID, Reason: "enough"})
			g.interrupted()
			k.sees(r, event.TypeTurnFailed)
			c := caseOf(k, command.ExportScope{SessionID: "sess_stop"})
			if a := act(c, evidence.ActInterrupt); a.Before != x.before || a.Calls != x.calls {
				t.Errorf("stopped before %q, after %d calls", a.Before, a.Calls)
			}
			finds(k, "sess_stop", map[string]mutant{
				"another reason":   {func(c *evidence.Case) { c.Acts[0].Reason = "other" }, "turn.interrupt_requested: reason was"},
				"nobody stops it":  {without(evidence.ActInterrupt), "turn 1"},
				"it never started": {func(c *evidence.Case) { c.Acts[0].Before = evidence.BeforeStart }, "turn 1: the recording has turn.started"},
			})
		})
	}
}

// TestReplayAnswersAfterAnInterrupt: an action that somebody answered after its turn was
// told to stop, and before the turn ended it, is answered again then, and not ended.
func TestReplayAnswersAfterAnInterrupt(t *testing.T) {
	for _, decision := range []string{"cancel", "allow", "deny"} {
		t.Run(decision, func(t *testing.T) {
			var told atomic.Bool
			g := newGate(func(string, loop.Effect) bool { return told.Load() })
			k := newKit(t, func(o *agentd.Options) { g.options(o); o.Loop.Host.Mode = "default" },
				wants("write_file", map[string]any{"path": "a.txt", "content": "x"}), script.Answer{Text: "done"})
			r := k.submit("sess_stop", "go", nil)
			asked := k.sees(r, event.TypeActionRequired)
			told.Store(true)
			do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: r.SessionID, TurnID: r.TurnID, Reason: "enough"})
			<-g.reached
			do[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: decision})
			g.passed()
			k.sees(r, event.TypeTurnFailed)
			for range 5 { // whoever is first decides, so chance must not
				if d := replayed(t, caseOf(k, command.ExportScope{SessionID: "sess_stop"})); d != nil {
					t.Fatalf("%s", d.Says)
				}
			}
		})
	}
}

// TestReplayTakesFromTheQueueAnywhere: a turn that was taken from the queue while no turn
// ran, or the one that did waited for nothing, never starts again.
func TestReplayTakesFromTheQueueAnywhere(t *testing.T) {
	kinds := map[string]loop.Effect{"before the call": loop.CallModel{}, "before the end": loop.CompleteTurn{}, "before the next": loop.StartTurn{}}
	for name, effect := range kinds {
		t.Run(name, func(t *testing.T) {
			starts := 0
			g := newGate(func(_ string, next loop.Effect) bool {
				if _, ok := next.(loop.StartTurn); ok {
					starts++
				}
				_, second := effect.(loop.StartTurn)
				return reflect.TypeOf(next) == reflect.TypeOf(effect) && (!second || starts == 2)
			})
			p := &slow{n: 1, let: make(chan struct{}), Provider: script.New("script", &script.Script{Answers: []script.Answer{{Text: "one"}, {Text: "two"}}})}
			k := newKit(t, func(o *agentd.Options) { g.options(o); o.Provider = p })
			first := k.submit("sess_taken", "one", nil)
			second, third := k.submit("sess_taken", "two", nil), k.submit("sess_taken", "three", nil)
			switch effect.(type) {
			case loop.StartTurn:
				k.sees(first, event.TypeModelRequested)
				do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_taken", TurnID: first.TurnID, Reason: "enough"})
			case loop.CompleteTurn:
				close(p.let)
			}
			<-g.reached
			do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_taken", TurnID: third.TurnID, Reason: "not any more"})
			k.sees(third, event.TypeTurnFailed)
			g.passed()
			if _, held := effect.(loop.CallModel); held {
				close(p.let)
			}
			k.sees(second, event.TypeTurnCompleted)
			finds(k, "sess_taken", map[string]mutant{
				"nobody takes it": {without(evidence.ActQueued), "the recording has turn.failed"},
			})
		})
	}
}
