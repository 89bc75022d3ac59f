package loop_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/hook"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/model/provider/script"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/tool"
)

// priced gives the talker's model a price and the session a budget.
func priced(talk *runtimetest.TalkingModel, budget float64) func(*agentd.Options) {
	return runtimetest.AllOf(talk.Use, func(o *agentd.Options) {
		dollar := 1.0
		o.Loop.Models[0].Price = &model.Price{Rates: model.Rates{InputPerMTok: dollar, OutputPerMTok: dollar}, Row: "test"}
		o.Loop.Budget = model.Budget{SessionCostUSD: budget}
	})
}

// TestCompactionIsWithinTheBudget: asking for a summary is a model call as any other.
func TestCompactionIsWithinTheBudget(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 900}
	// The second turn is asked for while a little is left, and spends it in a step
	// whose next call needs a compaction first.
	k := runtimetest.NewWith(t, runtimetest.AllOf(priced(talk, 900e-6), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText("x")))))
	r := k.Submit("sess_a", "one")
	k.Completes(r)
	if _, err := k.Runtime.Do(context.Background(), command.Local(), &command.CompactThread{SessionID: "sess_a", ThreadID: r.ThreadID}); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), model.QuotaBudget) {
		t.Errorf("a requested compaction: %v", err)
	}
	if n := talk.Summaries.Load(); n != 0 {
		t.Errorf("the model was asked for %d summaries with nothing left", n)
	}
	if q, f := runtimetest.Payloads[*event.QuotaState](k, "sess_a"), runtimetest.Payloads[*event.CompactionFailed](k, "sess_a"); len(q) == 0 || len(f) != 1 || f[0].Error.Category != "quota_blocked" {
		t.Errorf("%+v, %+v", q, f)
	}
}

// TestTurnThatNeedsACompactionWithoutMoney ends as one that needs a call.
func TestTurnThatNeedsACompactionWithoutMoney(t *testing.T) {
	talk := &runtimetest.TalkingModel{}
	spends := &runtimetest.FakeModel{ProviderName: "talker", Answer: func(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if r.Call == 0 && len(r.Tools) > 0 {
			send(model.Chunk{ToolCall: &model.ToolCall{Name: "look", Arguments: event.Raw(`{}`)}})
			send(runtimetest.AnswerEnd("tool_use", 900, 0))
			return nil
		}
		return talk.Stream(ctx, r, send)
	}}
	k := runtimetest.NewWith(t, runtimetest.AllOf(priced(talk, 900e-6), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText("x"))), func(o *agentd.Options) {
		o.Loop.Providers = []model.Provider{spends}
	}))
	k.Fails(k.Submit("sess_a", "one"), "quota_blocked")
	if n, c := talk.Summaries.Load(), k.CountFacts("sess_a", event.TypeContextCompactionStarted); n != 0 || c != 0 {
		t.Errorf("%d summaries, %d compactions", n, c)
	}
	if q := runtimetest.Payloads[*event.QuotaState](k, "sess_a"); len(q) == 0 || q[len(q)-1].QuotaName != model.QuotaBudget {
		t.Errorf("%+v", q)
	}
}

// TestRepairIsWithinTheSteps: asking again for the right form is a step.
func TestRepairIsWithinTheSteps(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("no JSON"), runtimetest.Says(`{"n":1}`))
	p := k.Fails(k.SubmitWith("sess_a", "go", &event.TurnOptions{OutputSchema: event.Raw(numberSchema), MaxSteps: 1}), "step_limit")
	if n := k.CountFacts("sess_a", event.TypeModelRequested); n != 1 || p.Steps != 1 {
		t.Errorf("%d calls, %d steps", n, p.Steps)
	}
	k = runtimetest.New(t, runtimetest.Says("no JSON"), runtimetest.Says(`{"n":1}`))
	k.Completes(k.SubmitWith("sess_a", "go", &event.TurnOptions{OutputSchema: event.Raw(numberSchema), MaxSteps: 2}))
}

// TestAnswerIsToldAfterARestart: the hooks that are told of answers are not
// skipped when the process ends after the answer was recorded.
func TestAnswerIsToldAfterARestart(t *testing.T) {
	asked := make(chan struct{})
	var once sync.Once
	h := &runtimetest.Hooks{Points: []hook.Point{hook.PostSampling, hook.PostSampling}, Answer: func(ctx context.Context, _ *hook.Input, _ string) (string, error) {
		first := false
		once.Do(func() { first = true })
		if first {
			close(asked)
			<-ctx.Done()
			return "", ctx.Err()
		}
		return `{}`, nil
	}}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), h.Use(t)), runtimetest.WritesFile("a", "x"), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	<-asked
	hurry, cancel := context.WithCancel(context.Background())
	cancel()
	if err := k.Runtime.Close(hurry); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	k.Open()
	k.Completes(r)
	if n := h.Count(hook.PostSampling); n != 1+2+2 {
		t.Errorf("the hooks were told %d times", n)
	}
	for _, in := range h.Inputs[:2] {
		if !strings.Contains(string(in.Output), "write_file") {
			t.Errorf("told of %s", in.Output)
		}
	}
}

// TestInterruptStopsHooks that run before a turn, after an answer and at the end.
func TestInterruptStopsHooks(t *testing.T) {
	for _, point := range []hook.Point{hook.SessionStart, hook.UserPromptSubmit, hook.PostSampling, hook.Stop} {
		t.Run(string(point), func(t *testing.T) {
			asked := make(chan struct{})
			h := &runtimetest.Hooks{Points: []hook.Point{point}, Answer: func(ctx context.Context, _ *hook.Input, _ string) (string, error) {
				close(asked)
				<-ctx.Done() // nothing else ends it
				return "", ctx.Err()
			}}
			k := runtimetest.NewWith(t, h.Use(t))
			r := k.Submit("sess_a", "go")
			<-asked
			runtimetest.Do[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_a", Reason: "enough"})
			if p := k.Fails(r, "interrupted"); p.Error.Message != "enough" {
				t.Errorf("%+v", p)
			}
			if f := runtimetest.Payloads[*event.HookFailed](k, "sess_a"); len(f) != 1 || f[0].ErrorCategory != "lost" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestBlockedPromptIsForgotten: what a hook kept from the model, later turns don't
// tell it, also after a restart.
func TestBlockedPromptIsForgotten(t *testing.T) {
	for _, point := range []hook.Point{hook.SessionStart, hook.UserPromptSubmit} {
		var heard runtimetest.Listener
		var calls atomic.Int64
		h := &runtimetest.Hooks{Points: []hook.Point{point}, Answer: func(context.Context, *hook.Input, string) (string, error) {
			if calls.Add(1) == 1 {
				return `{"decision":"block","reason":"not here"}`, nil
			}
			return `{}`, nil
		}}
		k := runtimetest.NewWith(t, runtimetest.AllOf(h.Use(t), runtimetest.ListenedBy(&heard)))
		blocked := k.Submit("sess_a", "the forbidden word")
		k.Fails(blocked, "hook_blocked")
		k.Completes(k.Submit("sess_a", "two"))
		k.Close()
		k.Open()
		last := k.Submit("sess_a", "three")
		k.Completes(last)
		for _, r := range heard.Heard() {
			if got := runtimetest.Conversation(r); strings.Contains(got, "forbidden") || !strings.HasPrefix(got, "user: two\n") {
				t.Errorf("%s: the model heard:\n%s", point, got)
			}
		}
		// What was taken out stays a turn that can be gone back to.
		runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: "sess_a", ThreadID: blocked.ThreadID, ToTurnID: blocked.TurnID})
		k.Completes(k.Submit("sess_a", "four"))
		if got := runtimetest.Conversation(heard.Heard()[len(heard.Heard())-1]); got != "user: four\n" {
			t.Errorf("%s: after going back the model heard:\n%s", point, got)
		}
	}
}

// TestCompactionIsTriedAgainWhenTheThreadHasGrown, once for each stated amount.
func TestCompactionIsTriedAgainWhenTheThreadHasGrown(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 810, Summary: func(context.Context, int64) error {
		return &model.Error{Category: model.InvalidRequest, Message: "no summary today"}
	}}
	k := runtimetest.NewWith(t, talk.Use)
	turn := func() { k.Completes(k.Submit("sess_a", "more")) }
	turn()
	turn() // three tries fail
	turn()
	if n := talk.Summaries.Load(); n != 3 {
		t.Fatalf("%d tries", n)
	}
	talk.Tokens = 850 // 40 of 1000 more: too little
	turn()
	turn()
	if n := talk.Summaries.Load(); n != 3 {
		t.Fatalf("%d tries after a little growth", n)
	}
	talk.Tokens = 900
	turn()
	turn() // 90 more than at the last try: one
	turn()
	if n := talk.Summaries.Load(); n != 4 {
		t.Fatalf("%d tries after enough growth", n)
	}
	talk.Summary, talk.Tokens = nil, 960
	turn()
	talk.Tokens = 100
	turn() // it succeeds, and all is well
	if c := k.CountFacts("sess_a", event.TypeContextCompactionCompleted); c != 1 || talk.Summaries.Load() != 5 {
		t.Errorf("%d completed after %d tries", c, talk.Summaries.Load())
	}
}

// TestOverflowIsCompactedOncePerTurn after compactions failed too often: a thread
// that no model takes any more is not lost, and nothing loops.
func TestOverflowIsCompactedOncePerTurn(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	talk := &runtimetest.TalkingModel{Tokens: 100, Summary: func(context.Context, int64) error {
		if broken.Load() {
			return &model.Error{Category: model.InvalidRequest, Message: "no summary today"}
		}
		return nil
	}}
	talk.Answer = func(n int64) error {
		if n > 1 && broken.Load() {
			return &model.Error{Category: model.ContextOverflow, Message: "too long"}
		}
		return nil
	}
	k := runtimetest.NewWith(t, talk.Use)
	k.Completes(k.Submit("sess_a", "one"))
	k.Fails(k.Submit("sess_a", "two"), "model_failed")
	if n := talk.Summaries.Load(); n != 3 {
		t.Fatalf("%d tries", n)
	}
	k.Fails(k.Submit("sess_a", "three"), "model_failed")
	if n := talk.Summaries.Load(); n != 4 {
		t.Fatalf("%d tries", n)
	}
}

// unreadable fails to read facts as a conversation needs them, as often as it is told.
type unreadable struct {
	store.Store
	left atomic.Int64
}

func (s *unreadable) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	if r.Before > 0 && r.Limit == 0 && s.left.Add(-1) >= 0 {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, store.ErrCorrupt) }
	}
	return s.Store.Read(ctx, id, r)
}

// TestUnreadableHistoryIsNoFailureOfTheModel: a request that can't be put together
// is an internal failure that says so, and no other model is tried.
func TestUnreadableHistoryIsNoFailureOfTheModel(t *testing.T) {
	weak := &unreadable{Store: storetest.NewMem()}
	evict := make(chan struct{})
	var calls atomic.Int64
	looks := runtimetest.ReadOnlyTool("look", func(context.Context, *tool.Call) (*tool.Result, error) {
		if calls.Add(1) == 1 {
			evict <- struct{}{} // another conversation takes this one's place in memory
			<-evict
		}
		return &tool.Result{Output: []byte("x")}, nil
	})
	k := &runtimetest.Kit{T: t, Store: weak, Dir: t.TempDir(), Script: &script.Script{Answers: []script.Answer{runtimetest.CallsTool("look", nil), runtimetest.Says("done")}}, Change: runtimetest.AllOf(runtimetest.WithTools(t, looks), func(o *agentd.Options) {
		o.Loop.MaxTranscripts = 1
	})}
	k.Open()
	t.Cleanup(k.Close)
	r := k.Submit("sess_a", "one")
	<-evict
	k.Completes(k.Submit("sess_b", "hello"))
	weak.left.Store(1)
	evict <- struct{}{}
	p := k.Fails(r, "internal")
	if !strings.Contains(p.Error.Message, "could not be put together") {
		t.Errorf("%+v", p.Error)
	}
	for _, f := range runtimetest.Payloads[*event.ModelFailed](k, "sess_a") {
		if f.ErrorCategory != model.Interrupted {
			t.Errorf("the model is blamed: %+v", f)
		}
	}
}

// TestTurnThatCantBeStartedEnds, whether it was accepted or queued, and the next
// one runs.
func TestTurnThatCantBeStartedEnds(t *testing.T) {
	weak := &unreadable{Store: storetest.NewMem()}
	k := &runtimetest.Kit{T: t, Store: weak, Dir: t.TempDir(), Script: &script.Script{Answers: []script.Answer{}}, Change: func(o *agentd.Options) { o.Loop.MaxTranscripts = 1 }}
	k.Open()
	t.Cleanup(k.Close)
	k.Completes(k.Submit("sess_a", "one"))
	k.Completes(k.Submit("sess_b", "takes the place of the other conversation"))
	weak.left.Store(1)
	k.Fails(k.Submit("sess_a", "two"), "internal")
	k.Completes(k.Submit("sess_a", "three"))
	if thread := k.Thread(k.Submit("sess_a", "four")); thread == nil {
		t.Error("there is no thread")
	}
}

// TestRollbackGivesTheContextBack: what was taken back doesn't count any more.
func TestRollbackGivesTheContextBack(t *testing.T) {
	talk := &runtimetest.TalkingModel{Tokens: 100}
	k := runtimetest.NewWith(t, talk.Use)
	first := k.Submit("sess_a", "one")
	k.Completes(first)
	talk.Tokens = 900
	k.Completes(k.Submit("sess_a", "two"))
	runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: "sess_a", ThreadID: first.ThreadID, ToTurnID: first.TurnID})
	if err := k.Runtime.View(context.Background(), "sess_a", func(s *state.Session) error {
		if got := s.Thread(first.ThreadID).ContextTokens; got != 100 {
			t.Errorf("the thread has %d tokens", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	k.Completes(k.Submit("sess_a", "three"))
	if n := talk.Summaries.Load(); n != 0 {
		t.Errorf("%d compactions of what was taken back", n)
	}
}
