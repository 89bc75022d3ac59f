package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model"
	"agentd/tool"
)

func TestSteering(t *testing.T) {
	var heard runtimetest.Listener
	gate := make(chan struct{})
	hold := func(context.Context, *tool.Call) (*tool.Result, error) {
		<-gate
		return &tool.Result{Output: []byte("ok")}, nil
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.ListenedBy(&heard), runtimetest.WithTools(t, runtimetest.ReadOnlyTool("hold", hold))), runtimetest.CallsTool("hold", nil), runtimetest.Says("done"))
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", runtimetest.Runs(r.TurnID))
	steer := func(text, expected string) *command.SubmitTurn {
		return &command.SubmitTurn{SessionID: "sess_a", Input: runtimetest.Quoted(text), Options: &event.TurnOptions{QueuePolicy: "steer", ExpectedTurnID: expected}}
	}
	runtimetest.Refused(k, steer("wrong", "turn_other"), fault.Conflict)
	got := runtimetest.Do[command.SubmitTurnResult](k, steer("also this", r.TurnID))
	if got.TurnID != r.TurnID {
		t.Errorf("%+v", got)
	}
	close(gate)
	k.Completes(r)
	said := runtimetest.Conversation(heard.Heard()[1])
	if !strings.HasSuffix(said, "user: also this\n") || strings.Contains(said, "wrong") {
		t.Errorf("the model heard:\n%s", said)
	}
	runtimetest.Refused(k, steer("too late", r.TurnID), fault.Conflict)
}

// TestSteeringAtTheLastMoment: what is said while the final answer streams is
// answered before the turn ends.
func TestSteeringAtTheLastMoment(t *testing.T) {
	gate := make(chan struct{})
	var calls atomic.Int64
	var second string
	late := &runtimetest.FakeModel{ProviderName: "late", Answer: func(_ context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if calls.Add(1) == 1 {
			send(model.Chunk{Text: "the "})
			<-gate
		} else {
			second = runtimetest.Conversation(r)
		}
		send(model.Chunk{Text: "end"})
		send(runtimetest.AnswerEnd("end_turn", 1, 1))
		return nil
	}}
	k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Provider = late })
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeModelDelta, r.TurnID))
	runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"wait"`), Options: &event.TurnOptions{QueuePolicy: "steer"}})
	close(gate)
	k.Completes(r)
	if calls.Load() != 2 || !strings.Contains(second, "assistant: the end\nuser: wait") {
		t.Errorf("%d calls:\n%s", calls.Load(), second)
	}
}

// TestAModelThatEndsWithoutAnEnd and those that break the port's rules are failures.
func TestModelsThatMisbehave(t *testing.T) {
	for name, answer := range map[string]func(context.Context, *model.Request, func(model.Chunk) bool) error{
		"no end": func(_ context.Context, _ *model.Request, send func(model.Chunk) bool) error {
			send(model.Chunk{Text: "and then"})
			return nil
		},
		"a bare error": func(context.Context, *model.Request, func(model.Chunk) bool) error { return fmt.Errorf("it broke") },
		"an error without words": func(context.Context, *model.Request, func(model.Chunk) bool) error {
			return &model.Error{Category: model.ServerError}
		},
	} {
		k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.QuickBackoff, func(o *agentd.Options) { o.Provider = &runtimetest.FakeModel{ProviderName: "bad", Answer: answer} }))
		if p := k.Fails(k.Submit("sess_a", "go"), "model_failed"); p.Error.Message == "" {
			t.Errorf("%s: no reason", name)
		}
	}
}

// TestManyClientsOnOneThread: turns that many clients submit at once run one after
// the other, each once, in the order in which they were taken.
func TestManyClientsOnOneThread(t *testing.T) {
	k := runtimetest.New(t)
	k.Completes(k.Submit("sess_a", "first"))
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := range 8 {
				if _, err := k.Runtime.Do(context.Background(), command.Local(), &command.SubmitTurn{
					SessionID: "sess_a", TurnID: fmt.Sprintf("turn_%d_%d", c, i), Input: event.Raw(`"hi"`),
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	k.WaitFor("sess_a", func(e *event.Event) bool {
		if e.Type == event.TypeTurnCompleted {
			n++
		}
		return n == 33
	})
	var submitted, started []string
	for _, e := range k.Facts("sess_a") {
		switch e.Type {
		case event.TypeTurnSubmitted:
			submitted = append(submitted, e.TurnID)
		case event.TypeTurnStarted:
			started = append(started, e.TurnID)
		case event.TypeTurnFailed:
			t.Errorf("%s failed: %+v", e.TurnID, e.Payload.(*event.TurnFailed).Error)
		}
	}
	if !slices.Equal(submitted, started) {
		t.Errorf("submitted %v\nstarted %v", submitted, started)
	}
}

func TestInterruptPolicyPutsATurnFirst(t *testing.T) {
	hang := make(chan struct{})
	var calls atomic.Int64
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Provider = &runtimetest.FakeModel{ProviderName: "hang", Answer: func(ctx context.Context, _ *model.Request, send func(model.Chunk) bool) error {
			if calls.Add(1) == 1 {
				close(hang)
				<-ctx.Done()
				return ctx.Err()
			}
			send(runtimetest.AnswerEnd("end_turn", 1, 1))
			return nil
		}}
	})
	first := k.Submit("sess_a", "one")
	<-hang
	second := k.Submit("sess_a", "two")
	third := k.SubmitWith("sess_a", "three", &event.TurnOptions{QueuePolicy: "interrupt"})
	k.Fails(first, "interrupted")
	k.Completes(second)
	k.Completes(third)
	var order []string
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeTurnStarted {
			order = append(order, e.TurnID)
		}
	}
	if !slices.Equal(order, []string{first.TurnID, third.TurnID, second.TurnID}) {
		t.Errorf("%v", order)
	}
	refusedBusy := &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"x"`), Options: &event.TurnOptions{QueuePolicy: "reject"}}
	if _, err := k.Runtime.Do(context.Background(), command.Local(), refusedBusy); err != nil {
		t.Errorf("an idle thread rejects: %v", err)
	}
}
