package loop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store/storetest"
)

// lifeCase is a turn made of chance: calls that are refused, asked about, blocked or
// rewritten by hooks or not valid, answers of people, an interrupt, and crashes.
type lifeCase struct {
	*crashCase
	rnd *rand.Rand
	// interrupts says that the turn is interrupted once calls were asked for.
	interrupts bool
}

// anyCall draws a call.
func anyCall(rnd *rand.Rand) script.Tool {
	calls := []script.Tool{
		{Name: "look"},
		{Name: "look"},
		{Name: "change"},
		{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "a"}},
		{Name: "write_file", Arguments: map[string]any{"nothing": 1}},
		{Name: "nothing"},
		{Name: "list_files", Arguments: map[string]any{"path": "."}},
		{Name: "write_file", Arguments: map[string]any{"path": "banned.txt", "content": "a"}},
		{Name: "request_input", Arguments: map[string]any{"prompt": "Which?"}},
		{Name: "write_file", Arguments: map[string]any{"path": "../out.txt", "content": "a"}},
	}
	return calls[rnd.IntN(len(calls))]
}

func newLifeCase(t *testing.T, seed uint64) *lifeCase {
	rnd := rand.New(rand.NewPCG(seed, 19))
	var answers []script.Answer
	for range 1 + rnd.IntN(3) {
		var a script.Answer
		for range 1 + rnd.IntN(3) {
			a.Tools = append(a.Tools, anyCall(rnd))
		}
		answers = append(answers, a)
	}
	said := []string{
		`{"decision":"continue"}`, `{"decision":"continue"}`, `{"decision":"block","reason":"no"}`, `{"decision":"deny","reason":"no"}`,
		`{"decision":"ask","reason":"look"}`, `{"decision":"continue","updatedInput":{"path":"b.txt","content":"b"}}`,
	}
	var hooks []string
	for range 64 {
		hooks = append(hooks, said[rnd.IntN(len(said))])
	}
	var asked atomic.Int64
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PreToolUse}, Answer: func(context.Context, *hook.Input, string) (string, error) {
		return hooks[int(asked.Add(1))%len(hooks)], nil
	}}
	modes := []string{"default", "auto", "bypass", "never", "untrusted"}
	rules := func(o *agentd.Options) {
		o.Loop.Host.Rules = []event.PolicyRule{{RuleID: "banned", Decision: "deny", Tool: "write_file", Match: "banned.txt", Source: "host"}}
	}
	changes := []func(*agentd.Options){runtimetest.InMode(modes[rnd.IntN(len(modes))]), rules}
	if rnd.IntN(2) == 0 {
		changes = append(changes, h.Use(t))
	}
	c := &lifeCase{rnd: rnd, crashCase: newCrashCase(t, &scene{name: "a life", turns: 1, answers: append(answers, runtimetest.Says("done")), change: runtimetest.AllOf(changes...)})}
	c.interrupts = rnd.IntN(4) == 0
	return c
}

// play submits the turn, answers what it asks and interrupts it if that is its fate.
func (c *lifeCase) play(ctx context.Context) error {
	if _, err := c.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: "sess_a", Create: true, TurnID: "turn_1", Input: event.Raw(`"go"`)}); err != nil {
		return err
	}
	sub, err := c.r.Subscribe(ctx, command.Local(), "sess_a", 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
		ended, err := c.answerAny(ctx)
		if fault.KindOf(err) == fault.Conflict {
			continue // the turn ended meanwhile, and the question with it
		}
		if ended || err != nil {
			return err
		}
	}
}

// answerAny answers what the thread waits for, one way or another.
func (c *lifeCase) answerAny(ctx context.Context) (ended bool, err error) {
	var answer *command.RespondAction
	var thread string
	blocked, open := false, false
	if err := c.r.View(ctx, "sess_a", func(s *state.Session) error {
		t := s.MainThread()
		thread, blocked, ended = t.ThreadID, t.Block != nil, t.Turn("turn_1") == nil
		if turn := t.Turn("turn_1"); turn != nil {
			open = slices.ContainsFunc(turn.Tools, func(c *state.ToolCall) bool { return c.EndSequence == 0 })
		}
		if len(s.Actions.Pending) > 0 {
			a := s.Actions.Pending[0]
			answer = &command.RespondAction{ActionID: a.ActionID, Decision: a.Decisions[c.rnd.IntN(len(a.Decisions))]}
			if answer.Decision == "submit" {
				answer.Payload = event.Raw(`"this one"`)
			}
		}
		return nil
	}); err != nil || ended {
		return ended, err
	}
	switch {
	case c.interrupts && open:
		c.interrupts = false
		_, err = c.r.Do(ctx, command.Local(), &command.InterruptTurn{SessionID: "sess_a", TurnID: "turn_1"})
	case blocked:
		_, err = c.r.Do(ctx, command.Local(), &command.ResumeThread{SessionID: "sess_a", ThreadID: thread})
	case answer != nil:
		_, err = c.r.Do(ctx, command.Local(), answer)
	}
	return false, err
}

// live plays the turn through the crashes, until it has ended.
func (c *lifeCase) live(crashes int) {
	c.Helper()
	node := c.mem
	for life := 0; ; life++ {
		left := -1
		if life < crashes {
			left = c.rnd.IntN(30)
		}
		d := runtimetest.NewDyingStore(storetest.Strict(c, node), left, c.rnd.IntN(2) == 0)
		err := c.open(d)
		if err == nil {
			ctx, cancel := context.WithCancel(context.Background())
			stop := context.AfterFunc(runtimetest.ContextOf(d.Died), cancel)
			err = c.play(ctx)
			stop()
			cancel()
			c.shut()
		}
		select {
		case <-d.Died:
			node.Expire()
			node = node.Node()
		default:
			if err != nil {
				c.Fatal(err)
			}
			return
		}
	}
}

// TestCallsOfAnyTurn: events.md, tool events, and CONTRACT "Changed" 1. Whatever
// happens in a turn, each of its calls is asked for once and first, runs only after it
// was decided about and its boundary is known, carries one step and has one end.
func TestCallsOfAnyTurn(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newLifeCase(t, seed)
			c.live(int(seed % 3))
			s := c.mem.Node()
			report, err := session.Verify(context.Background(), s, session.VerifyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range report.Problems {
				t.Error(p)
			}
			facts := runtimetest.FactsOf(t, s, "sess_a")
			for _, p := range runtimetest.CallProblems(facts) {
				t.Error(p)
			}
			for id, n := range c.runs {
				if n > 1 && !readsOnly(facts, id) {
					t.Errorf("call %s ran %d times and changes something", id, n)
				}
			}
			for _, e := range facts {
				switch p := e.Payload.(type) {
				case *event.ToolFailed:
					seen[p.ErrorCategory]++
				case *event.ToolProgress:
					seen[p.Phase]++
				default:
					seen[string(e.Type)]++
				}
			}
			c.replay()
		})
	}
	for _, what := range []string{
		"running", "denied", "hook_blocked", "invalid_input", "not_found", "interrupted", "tool.args", "tool.result",
		"permission.resolved", "sandbox.applied", "history.reconstructed",
	} {
		if seen[what] == 0 {
			t.Errorf("no turn had %q: they show too little", what)
		}
	}
	t.Logf("%v", seen)
}

// readsOnly reports whether a call only reads.
func readsOnly(facts []*event.Event, toolCallID string) bool {
	for _, e := range facts {
		if p, ok := e.Payload.(*event.ToolStarted); ok && e.ToolCallID == toolCallID {
			return p.IsReadOnly
		}
	}
	return false
}
