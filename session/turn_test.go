package session_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

func TestSubmitIsAcceptedBeforeAnyWork(t *testing.T) {
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	if r.Status != "accepted" || r.Position != 0 {
		t.Errorf("got %+v", r)
	}
	for _, id := range []string{r.SessionID, r.ThreadID, r.TurnID, r.TaskID, r.RunID} {
		if !event.ValidID(id) {
			t.Errorf("%q is not an id", id)
		}
	}
	want := []event.Type{event.TypeSessionCreated, event.TypeThreadStarted, event.TypeTurnSubmitted, event.TypeTaskCreated}
	if got := k.types(r.SessionID); !slices.Equal(got, want) {
		t.Errorf("facts: %v", got)
	}
	if e := k.events(r.SessionID)[2]; e.Sequence != r.Sequence || e.TaskID != r.TaskID || e.RunID != r.RunID {
		t.Errorf("turn.submitted is %+v, the result %+v", e, r)
	}
}

func TestUnknownSessionAndThread(t *testing.T) {
	k := newKit(t, nil)
	k.refused(admin, &command.SubmitTurn{SessionID: "sess_none", Input: event.Raw(`"x"`)}, fault.NotFound)
	r := k.submit(command.SubmitTurn{SessionID: "sess_mine", Create: true})
	if r.SessionID != "sess_mine" {
		t.Errorf("got session %s", r.SessionID)
	}
	k.refused(admin, &command.SubmitTurn{SessionID: "sess_mine", ThreadID: "thread_none", Input: event.Raw(`"x"`)}, fault.NotFound)
	k.refused(admin, &command.SubmitTurn{SessionID: "sess_mine", TaskID: "task_none", Input: event.Raw(`"x"`)}, fault.NotFound)
	if n := len(k.events("sess_mine")); n != 4 {
		t.Errorf("refused commands left facts: %d", n)
	}
}

func TestSameTurnIDIsOneTurn(t *testing.T) {
	k := newKit(t, nil)
	p := command.SubmitTurn{SessionID: "sess_a", Create: true, TurnID: "turn_a"}
	var wg sync.WaitGroup
	results := make([]*command.SubmitTurnResult, 20)
	for i := range results {
		wg.Go(func() { results[i] = k.submit(p) })
	}
	wg.Wait()
	for _, r := range results {
		if *r != *results[0] {
			t.Errorf("%+v is not %+v", r, results[0])
		}
	}
	if n := len(k.events("sess_a")); n != 4 {
		t.Errorf("%d facts", n)
	}
	k.refused(admin, &command.SubmitTurn{SessionID: "sess_a", TurnID: "turn_a", Input: event.Raw(`"other"`)}, fault.Conflict)
	k.finish(results[0])
	for range 30 { // the turn leaves the working set
		k.finish(k.submit(command.SubmitTurn{SessionID: "sess_a"}))
	}
	k.reopen(nil)
	if again := k.submit(p); *again != *results[0] {
		t.Errorf("after a restart: %+v", again)
	}
}

func TestSameTurnIDWithoutSession(t *testing.T) {
	k := newKit(t, nil)
	first := k.submit(command.SubmitTurn{TurnID: "turn_only"})
	if again := k.submit(command.SubmitTurn{TurnID: "turn_only"}); *again != *first {
		t.Errorf("%+v is not %+v", again, first)
	}
	k.refused(admin, &command.SubmitTurn{TurnID: "turn_only", Input: event.Raw(`"other"`)}, fault.Conflict)
}

func TestIdempotencyKeyAcrossSessions(t *testing.T) {
	k := newKit(t, nil)
	p := command.SubmitTurn{Mutation: command.Mutation{IdempotencyKey: "key 1"}}
	var wg sync.WaitGroup
	results := make([]*command.SubmitTurnResult, 20)
	for i := range results {
		wg.Go(func() { results[i] = k.submit(p) })
	}
	wg.Wait()
	for _, r := range results {
		if *r != *results[0] {
			t.Errorf("%+v is not %+v", r, results[0])
		}
	}
	p.Input = event.Raw(`"other"`)
	k.refused(admin, &p, fault.Conflict)
	other := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	if r := callAs[command.SubmitTurnResult](k, other, &p); r.SessionID == results[0].SessionID {
		t.Error("another account got the session of the first")
	}
	if got := call[command.ListSessionsResult](k, &command.ListSessions{}); len(got.Sessions) != 2 {
		t.Errorf("%d sessions", len(got.Sessions))
	}
}

func TestQueue(t *testing.T) {
	k := newKit(t, nil)
	running := k.submit(command.SubmitTurn{SessionID: "sess_q", Create: true, TurnID: "turn_0"})
	for i, id := range []string{"turn_1", "turn_2", "turn_3"} {
		r := k.submit(command.SubmitTurn{SessionID: "sess_q", TurnID: id})
		if r.Status != "queued" || r.Position != int64(i+1) {
			t.Errorf("%s: %+v", id, r)
		}
	}
	order := func(want ...string) {
		t.Helper()
		k.view("sess_q", func(s *state.Session) {
			var got []string
			for _, q := range s.Threads[0].Queue {
				got = append(got, q.TurnID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("queue %v, want %v", got, want)
			}
		})
	}
	promoted := call[command.QueueResult](k, &command.PromoteQueuedTurn{SessionID: "sess_q", TurnID: "turn_3"})
	if promoted.Queue[0].TurnID != "turn_3" || promoted.Queue[0].Position != 1 {
		t.Errorf("got %+v", promoted)
	}
	order("turn_3", "turn_1", "turn_2")
	call[command.QueueResult](k, &command.PromoteQueuedTurn{SessionID: "sess_q", TurnID: "turn_3", Position: 99})
	order("turn_1", "turn_2", "turn_3")
	call[command.QueueResult](k, &command.RemoveQueuedTurn{SessionID: "sess_q", TurnID: "turn_2"})
	order("turn_1", "turn_3")
	k.refused(admin, &command.RemoveQueuedTurn{SessionID: "sess_q", TurnID: "turn_0"}, fault.Conflict)
	k.refused(admin, &command.RemoveQueuedTurn{SessionID: "sess_q", TurnID: "turn_2"}, fault.Conflict)
	k.refused(admin, &command.RemoveQueuedTurn{SessionID: "sess_q", TurnID: "turn_x"}, fault.NotFound)

	f := k.refusal(admin, &command.SubmitTurn{SessionID: "sess_q", Input: event.Raw(`"x"`), Options: &event.TurnOptions{QueuePolicy: "reject"}}, fault.PolicyRejected)
	if !strings.Contains(f.Detail, "reject") {
		t.Errorf("the detail doesn't name the policy: %s", f.Detail)
	}
	k.reopen(nil)
	order("turn_1", "turn_3")
	k.finish(running)
	order("turn_1", "turn_3")
	k.verified()
}

func TestQueueIsBounded(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.MaxQueue = 2 })
	for range 3 {
		k.submit(command.SubmitTurn{SessionID: "sess_b", Create: true})
	}
	k.refused(admin, &command.SubmitTurn{SessionID: "sess_b", Input: event.Raw(`"x"`)}, fault.RateLimited)
}

func TestInterrupt(t *testing.T) {
	k := newKit(t, nil)
	running := k.submit(command.SubmitTurn{SessionID: "sess_i", Create: true})
	waiting := k.submit(command.SubmitTurn{SessionID: "sess_i"})
	got := call[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i", Reason: "enough"})
	if !got.Interrupted || got.TurnID != running.TurnID {
		t.Errorf("got %+v", got)
	}
	n := len(k.events("sess_i"))
	call[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i"})
	if len(k.events("sess_i")) != n {
		t.Error("a second interrupt is a second fact")
	}
	got = call[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i", TurnID: waiting.TurnID})
	if !got.Interrupted || got.TurnID != waiting.TurnID {
		t.Errorf("a waiting turn: %+v", got)
	}
	k.view("sess_i", func(s *state.Session) {
		if th := s.Threads[0]; len(th.Queue) != 0 || th.Recent[0].Status != "cancelled" || th.Active.Interrupt.Reason != "enough" {
			t.Errorf("got %s", k.json(th))
		}
	})
	if got := call[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_i", TurnID: "turn_none"}); got.Interrupted {
		t.Errorf("got %+v", got)
	}
	idle := call[command.CreateSessionResult](k, &command.CreateSession{})
	if got := call[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: idle.SessionID}); got.Interrupted {
		t.Errorf("nothing runs: %+v", got)
	}
	k.verified()
}

func TestInterruptClearsTheQueue(t *testing.T) {
	k := newKit(t, nil)
	for range 4 {
		k.submit(command.SubmitTurn{SessionID: "sess_c", Create: true})
	}
	call[command.InterruptTurnResult](k, &command.InterruptTurn{SessionID: "sess_c", Queue: "clear"})
	k.view("sess_c", func(s *state.Session) {
		if th := s.Threads[0]; len(th.Queue) != 0 || len(th.Recent) != 3 {
			t.Errorf("got %s", k.json(th))
		}
	})
	k.verified()
}

func TestSteer(t *testing.T) {
	k := newKit(t, nil)
	running := k.submit(command.SubmitTurn{SessionID: "sess_s", Create: true})
	steer := func(expected string) command.SubmitTurn {
		return command.SubmitTurn{SessionID: "sess_s", Input: event.Raw(`"left"`), Options: &event.TurnOptions{QueuePolicy: "steer", ExpectedTurnID: expected}}
	}
	got := k.submit(steer(running.TurnID))
	if got.TurnID != running.TurnID || got.Status != "accepted" {
		t.Errorf("got %+v", got)
	}
	wrong := steer("turn_other")
	k.refused(admin, &wrong, fault.Conflict)
	k.view("sess_s", func(s *state.Session) {
		if s.Threads[0].Active.Steered != 1 {
			t.Error("the turn was not steered")
		}
	})
	k.finish(running)
	late := steer(running.TurnID)
	k.refused(admin, &late, fault.Conflict)
	if r := k.submit(steer("")); r.TurnID == running.TurnID || r.Status != "accepted" {
		t.Errorf("with nothing running: %+v", r)
	}
}

func TestInterruptPolicyRunsNext(t *testing.T) {
	k := newKit(t, nil)
	k.submit(command.SubmitTurn{SessionID: "sess_p", Create: true})
	k.submit(command.SubmitTurn{SessionID: "sess_p"})
	r := k.submit(command.SubmitTurn{SessionID: "sess_p", Options: &event.TurnOptions{QueuePolicy: "interrupt"}})
	k.view("sess_p", func(s *state.Session) {
		th := s.Threads[0]
		if th.Active.Interrupt == nil || th.Queue[0].TurnID != r.TurnID || len(th.Queue) != 2 {
			t.Errorf("got %s", k.json(th))
		}
	})
}

func TestLargeInputGoesBehindAReference(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.InlineBytes = 100 })
	long := strings.Repeat("long ", 1000)
	r := k.submit(command.SubmitTurn{Input: event.Raw(k.json(long))})
	p := k.events(r.SessionID)[2].Payload.(*event.TurnSubmitted)
	if p.InputRef == "" || p.Input != nil || !strings.HasPrefix(p.Preview, "long long") {
		t.Errorf("got %+v", p)
	}
	k.verified()
}
