package agentd_test

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
	"agentd/model"
	"agentd/tool"
)

func TestSteering(t *testing.T) {
	var heard listener
	gate := make(chan struct{})
	hold := func(context.Context, *tool.Call) (*tool.Result, error) {
		<-gate
		return &tool.Result{Output: []byte("ok")}, nil
	}
	k := newKitWith(t, all(listened(&heard), withTools(t, reads("hold", hold))), wants("hold", nil), says("done"))
	r := k.submit("sess_a", "go")
	k.until("sess_a", is(event.TypeToolStarted, r.TurnID))
	steer := func(text, expected string) *command.SubmitTurn {
		return &command.SubmitTurn{SessionID: "sess_a", Input: quoted(text), Options: &event.TurnOptions{QueuePolicy: "steer", ExpectedTurnID: expected}}
	}
	refused(k, steer("wrong", "turn_other"), fault.Conflict)
	got := do[command.SubmitTurnResult](k, steer("also this", r.TurnID))
	if got.TurnID != r.TurnID {
		t.Errorf("%+v", got)
	}
	close(gate)
	k.completes(r)
	said := transcript(heard.heard()[1])
	if !strings.HasSuffix(said, "user: also this\n") || strings.Contains(said, "wrong") {
		t.Errorf("the model heard:\n%s", said)
	}
	refused(k, steer("too late", r.TurnID), fault.Conflict)
}

// TestSteeringAtTheLastMoment: what is said while the final answer streams is
// answered before the turn ends.
func TestSteeringAtTheLastMoment(t *testing.T) {
	gate := make(chan struct{})
	var calls atomic.Int64
	var second string
	late := &fakeModel{name: "late", answer: func(_ context.Context, r *model.Request, send func(model.Chunk) bool) error {
		if calls.Add(1) == 1 {
			send(model.Chunk{Text: "the "})
			<-gate
		} else {
			second = transcript(r)
		}
		send(model.Chunk{Text: "end"})
		send(end("end_turn", 1, 1))
		return nil
	}}
	k := newKitWith(t, func(o *agentd.Options) { o.Provider = late })
	r := k.submit("sess_a", "go")
	k.until("sess_a", is(event.TypeModelDelta, r.TurnID))
	do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"wait"`), Options: &event.TurnOptions{QueuePolicy: "steer"}})
	close(gate)
	k.completes(r)
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
		k := newKitWith(t, all(quickBackoff, func(o *agentd.Options) { o.Provider = &fakeModel{name: "bad", answer: answer} }))
		if p := k.fails(k.submit("sess_a", "go"), "model_failed"); p.Error.Message == "" {
			t.Errorf("%s: no reason", name)
		}
	}
}

// TestManyClientsOnOneThread: turns that many clients submit at once run one after
// the other, each once, in the order in which they were taken.
func TestManyClientsOnOneThread(t *testing.T) {
	k := newKit(t)
	k.completes(k.submit("sess_a", "first"))
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := range 8 {
				if _, err := k.r.Do(context.Background(), command.Local(), &command.SubmitTurn{
					SessionID: "sess_a", TurnID: fmt.Sprintf("turn_%d_%d", c, i), Input: event.Raw(`"hi"`),
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	k.until("sess_a", func(e *event.Event) bool {
		if e.Type == event.TypeTurnCompleted {
			n++
		}
		return n == 33
	})
	var submitted, started []string
	for _, e := range k.facts("sess_a") {
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
	k := newKitWith(t, func(o *agentd.Options) {
		o.Provider = &fakeModel{name: "hang", answer: func(ctx context.Context, _ *model.Request, send func(model.Chunk) bool) error {
			if calls.Add(1) == 1 {
				close(hang)
				<-ctx.Done()
				return ctx.Err()
			}
			send(end("end_turn", 1, 1))
			return nil
		}}
	})
	first := k.submit("sess_a", "one")
	<-hang
	second := k.submit("sess_a", "two")
	third := k.ask("sess_a", "three", &event.TurnOptions{QueuePolicy: "interrupt"})
	k.fails(first, "interrupted")
	k.completes(second)
	k.completes(third)
	var order []string
	for _, e := range k.facts("sess_a") {
		if e.Type == event.TypeTurnStarted {
			order = append(order, e.TurnID)
		}
	}
	if !slices.Equal(order, []string{first.TurnID, third.TurnID, second.TurnID}) {
		t.Errorf("%v", order)
	}
	refusedBusy := &command.SubmitTurn{SessionID: "sess_a", Input: event.Raw(`"x"`), Options: &event.TurnOptions{QueuePolicy: "reject"}}
	if _, err := k.r.Do(context.Background(), command.Local(), refusedBusy); err != nil {
		t.Errorf("an idle thread rejects: %v", err)
	}
}
