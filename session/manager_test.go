package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/event/eventtest"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

func TestActionIsAnsweredOnce(t *testing.T) {
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	id := k.ask(r, "allow", "deny")
	list := call[command.ListActionsResult](k, &command.ListActions{Status: "pending"})
	if len(list.Actions) != 1 {
		t.Fatalf("%d pending actions", len(list.Actions))
	}
	k.refused(admin, &command.RespondAction{ActionID: id, Decision: "submit"}, fault.InvalidParams)
	k.refused(admin, &command.RespondAction{ActionID: "action_none", Decision: "allow"}, fault.NotFound)
	k.reopen(nil) // a pending action survives
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := map[string]int{}
	for i := range 20 {
		wg.Go(func() {
			decision := []string{"allow", "deny"}[i%2]
			_, err := runCommand(k.m, admin, &command.RespondAction{ActionID: id, Decision: decision})
			if err == nil {
				mu.Lock()
				won[decision]++
				mu.Unlock()
			} else if fault.KindOf(err) != fault.Conflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("answers that were accepted: %v", won)
	}
	n := 0
	for _, e := range k.events(r.SessionID) {
		if e.Type == event.TypeActionResolved {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d facts action.resolved", n)
	}
	if list := call[command.ListActionsResult](k, &command.ListActions{SessionID: r.SessionID, Status: "resolved"}); len(list.Actions) != 1 {
		t.Errorf("%d resolved actions", len(list.Actions))
	}
	k.verified()
}

func TestAccountsDontSeeEachOther(t *testing.T) {
	k := newKit(t, nil)
	acme := command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	other := command.Caller{Account: "other", Actor: event.Actor{Kind: "user"}}
	r := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: event.Raw(`"secret"`)})
	id := k.ask(r, "allow")
	for _, p := range []command.Params{
		&command.GetSession{SessionID: r.SessionID},
		&command.GetThreadRead{SessionID: r.SessionID, ThreadID: r.ThreadID},
		&command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`"x"`)},
		&command.InterruptTurn{SessionID: r.SessionID},
		&command.ResumeThread{SessionID: r.SessionID, ThreadID: r.ThreadID},
		&command.RespondAction{ActionID: id, Decision: "allow"},
		&command.ListActions{SessionID: r.SessionID},
	} {
		k.refused(other, p, fault.NotFound)
	}
	if got := callAs[command.ListSessionsResult](k, other, &command.ListSessions{}); len(got.Sessions) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := callAs[command.ListActionsResult](k, other, &command.ListActions{}); len(got.Actions) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := callAs[command.ListSessionsResult](k, acme, &command.ListSessions{}); len(got.Sessions) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestCreateSessionTwice(t *testing.T) {
	k := newKit(t, nil)
	p := &command.CreateSession{SessionID: "sess_x", Title: "one", Metadata: event.Raw(`{"a": 1}`)}
	first := call[command.CreateSessionResult](k, p)
	if again := call[command.CreateSessionResult](k, p); *again != *first {
		t.Errorf("%+v is not %+v", again, first)
	}
	k.refused(admin, &command.CreateSession{SessionID: "sess_x", Title: "two"}, fault.Conflict)
	k.refused(admin, &command.CreateSession{SessionID: event.RuntimeSession}, fault.InvalidParams)
	k.refused(admin, &command.CreateSession{SessionID: "../etc"}, fault.InvalidParams)
}

func TestListSessionsPages(t *testing.T) {
	k := newKit(t, nil)
	for i := range 25 {
		call[command.CreateSessionResult](k, &command.CreateSession{Title: fmt.Sprintf("number %d", i)})
	}
	seen := map[string]bool{}
	p := &command.ListSessions{Page: command.Page{Limit: 10}}
	pages := 0
	for {
		res := call[command.ListSessionsResult](k, p)
		for _, s := range res.Sessions {
			if seen[s.SessionID] {
				t.Errorf("%s twice", s.SessionID)
			}
			seen[s.SessionID] = true
		}
		pages++
		if p.Cursor = res.NextCursor; p.Cursor == "" {
			break
		}
	}
	if len(seen) != 25 || pages != 3 {
		t.Errorf("%d sessions on %d pages", len(seen), pages)
	}
	if res := call[command.ListSessionsResult](k, &command.ListSessions{Query: "NUMBER 7"}); len(res.Sessions) != 1 {
		t.Errorf("query: %+v", res)
	}
	k.refused(admin, &command.ListSessions{Page: command.Page{Limit: 1001}}, fault.InvalidParams)
}

func TestHistoryWindows(t *testing.T) {
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	k.finish(r)
	limit := 3
	p := &command.GetSession{SessionID: r.SessionID, Limit: &limit}
	var sequences []uint64
	for {
		got := call[session.GetSessionResult](k, p)
		var window []uint64
		for _, raw := range got.History.Events {
			e, err := event.Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			window = append(window, e.Sequence)
		}
		sequences = append(window, sequences...)
		if !got.History.Truncated {
			break
		}
		p.Before = jsonNumber(got.History.Cursor)
	}
	if len(sequences) != 7 {
		t.Fatalf("got %v", sequences)
	}
	for i, seq := range sequences {
		if seq != uint64(i+1) {
			t.Errorf("got %v", sequences)
		}
	}
}

func TestSnapshotSatisfiesTheStrictSchema(t *testing.T) {
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	k.submit(command.SubmitTurn{SessionID: r.SessionID})
	k.ask(r, "allow", "deny")
	got := call[session.GetSessionResult](k, &command.GetSession{SessionID: r.SessionID})
	eventtest.StrictSnapshot(t).Accept(t, []byte(k.json(got)))
	read := call[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: r.SessionID, ThreadID: r.ThreadID})
	if read.Status != "blocked" || read.Phase != "waiting_permission" {
		t.Errorf("a turn that waits for approval is %s/%s", read.Status, read.Phase)
	}
	res := call[command.ResumeThreadResult](k, &command.ResumeThread{SessionID: r.SessionID, ThreadID: r.ThreadID})
	if res.Status != "blocked" {
		t.Errorf("got %+v", res)
	}
}

func TestIdleSessionsLeaveMemoryAndComeBack(t *testing.T) {
	tune := func(o *session.Options) { o.IdleAfter, o.SnapshotEvery = time.Millisecond, 4 }
	k := newKit(t, tune)
	var results []*command.SubmitTurnResult
	for range 20 {
		r := k.submit(command.SubmitTurn{})
		k.finish(r)
		results = append(results, r)
	}
	for k.m.Loaded() > 0 {
		time.Sleep(time.Millisecond)
	}
	for _, r := range results {
		again := k.submit(command.SubmitTurn{SessionID: r.SessionID})
		if again.Sequence != 8 {
			t.Errorf("the next turn is fact %d", again.Sequence)
		}
	}
	k.verified()
}

func TestNothingIsShownBeforeItIsDurable(t *testing.T) {
	faulty := storetest.Faulty(storetest.NewMem())
	k := newKitOn(t, faulty, nil)
	r := k.submit(command.SubmitTurn{})
	sub, err := k.m.Subscribe(context.Background(), r.SessionID, r.Sequence+1)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	reached, release := faulty.HoldAppend(1)
	submitted := make(chan *command.SubmitTurnResult, 1)
	go func() { submitted <- k.submit(command.SubmitTurn{SessionID: r.SessionID}) }()
	within(t, reached)
	read := make(chan int64, 1)
	go func() { // a read that sees the pending turn must wait for it
		got, err := runCommand(k.m, admin, &command.GetThreadRead{SessionID: r.SessionID, ThreadID: r.ThreadID})
		if err != nil {
			t.Error(err)
			read <- 0
			return
		}
		read <- int64(len(got.(*state.ThreadReadModel).QueuedTurns))
	}()
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if records, err := sub.Next(short); err == nil {
		t.Errorf("a subscriber was shown %d facts that are not durable", len(records))
	}
	select {
	case <-submitted:
		t.Error("the command was acknowledged before its facts were durable")
	case <-read:
		t.Error("a read was answered with facts that are not durable")
	default:
	}
	release()
	within(t, submitted)
	if n := within(t, read); n != 1 {
		t.Errorf("the read shows %d queued turns", n)
	}
	if records, err := sub.Next(context.Background()); err != nil || len(records) == 0 {
		t.Errorf("got %d records, %v", len(records), err)
	}
}

func TestFailedAppendChangesNothing(t *testing.T) {
	faulty := storetest.Faulty(storetest.NewMem())
	k := newKitOn(t, faulty, nil)
	r := k.submit(command.SubmitTurn{SessionID: "sess_f", Create: true})
	faulty.FailAppend(1, store.ErrNoSpace)
	f := k.refusal(admin, &command.SubmitTurn{SessionID: "sess_f", Input: event.Raw(`"x"`)}, fault.Unavailable)
	if !errors.Is(f, store.ErrNoSpace) {
		t.Errorf("got %v", f)
	}
	k.view("sess_f", func(s *state.Session) {
		if len(s.Threads[0].Queue) != 0 || s.Sequence != 4 {
			t.Errorf("the failed turn is in the state: %s", k.json(s.Threads[0]))
		}
	})
	if r := k.submit(command.SubmitTurn{SessionID: "sess_f"}); r.Sequence != 5 {
		t.Errorf("got %+v", r)
	}
	k.finish(r)
	k.verified()
}

func TestUnknownOutcomeIsSafeToRepeat(t *testing.T) {
	for _, applied := range []bool{true, false} {
		faulty := storetest.Faulty(storetest.NewMem())
		k := newKitOn(t, faulty, nil)
		k.submit(command.SubmitTurn{SessionID: "sess_u", Create: true})
		faulty.LoseAnswer(1, applied)
		p := command.SubmitTurn{SessionID: "sess_u", TurnID: "turn_u", Input: event.Raw(`"x"`)}
		k.refused(admin, &p, fault.Unavailable)
		r := k.submit(p)
		if r.Sequence != 5 || len(k.events("sess_u")) != 7 {
			t.Errorf("applied %v: %+v, %d facts", applied, r, len(k.events("sess_u")))
		}
		k.verified()
	}
}

func TestFormerOwnerIsFenced(t *testing.T) {
	mem := storetest.NewMem()
	one := newKitOn(t, mem, nil)
	r := one.submit(command.SubmitTurn{SessionID: "sess_o", Create: true})
	mem.Expire() // the first node's lease is over; a second one takes the session
	two := newKitOn(t, mem.Node(), nil)
	two.submit(command.SubmitTurn{SessionID: "sess_o", TurnID: "turn_two"})
	_, err := runCommand(one.m, admin, &command.SubmitTurn{SessionID: "sess_o", TurnID: "turn_one", Input: event.Raw(`"x"`)})
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("the former owner wrote: %v", err)
	}
	for _, e := range two.events(r.SessionID) {
		if e.TurnID == "turn_one" {
			t.Error("the former owner's fact is in the log")
		}
	}
}

func TestSubscribersGetEveryFactOnceAndInOrder(t *testing.T) {
	k := newKit(t, func(o *session.Options) { o.TailEvents = 8 })
	r := k.submit(command.SubmitTurn{SessionID: "sess_w", Create: true})
	const writers, each = 4, 50
	total := 4 + writers*each*3
	var wg sync.WaitGroup
	for range 5 {
		sub, err := k.m.Subscribe(context.Background(), r.SessionID, 0)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer sub.Close()
			for want := uint64(1); want <= uint64(total); {
				records, err := sub.Next(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				for _, rec := range records {
					if rec.Sequence != want {
						t.Errorf("got %d, want %d", rec.Sequence, want)
						return
					}
					want++
				}
			}
		})
	}
	for range writers {
		wg.Go(func() {
			for range each {
				k.submit(command.SubmitTurn{SessionID: r.SessionID})
			}
		})
	}
	wg.Wait()
}

func TestFactsThatDontFitFailLoudly(t *testing.T) {
	k := newKit(t, nil)
	r := k.submit(command.SubmitTurn{})
	scope := event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID}
	for name, e := range map[string]event.Event{
		"an id is missing":         {Type: event.TypeModelDelta, Scope: event.Scope{ThreadID: r.ThreadID}, Payload: &event.ModelDelta{}},
		"the payload is another's": {Type: event.TypeModelDelta, Scope: scope, Payload: &event.ReasoningDelta{}},
		"no payload":               {Type: event.TypeModelDelta, Scope: scope},
		"an unknown type":          {Type: "model.dreamt", Scope: scope, Payload: &event.ModelDelta{}},
		"a value out of its set":   {Type: event.TypeRunStatus, Scope: scope, Payload: &event.RunStatus{Phase: "asleep"}},
		"somebody else's fact":     {Type: event.TypeSessionDeleted, Payload: &event.SessionDeleted{DeletedSessionID: r.SessionID}},
	} {
		err := k.m.Emit(context.Background(), r.SessionID, event.ByLoop, func(tx *session.Tx) error {
			tx.Emit(event.Event{Type: event.TypeModelDelta, Scope: scope, Payload: &event.ModelDelta{Text: "fine"}})
			tx.Emit(e)
			return nil
		})
		if fault.KindOf(err) != fault.Internal {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(k.events(r.SessionID)); n != 4 {
		t.Errorf("%d facts", n)
	}
	k.finish(r) // the writer is as it was
	k.verified()
}

func TestFiguresCountWhatWasWritten(t *testing.T) {
	faulty := storetest.Faulty(storetest.NewMem())
	k := newKitOn(t, faulty, nil)
	r := k.submit(command.SubmitTurn{})
	sub, err := k.m.Subscribe(context.Background(), r.SessionID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	faulty.FailAppend(1, store.ErrNoSpace)
	k.refused(admin, &command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`"x"`)}, fault.Unavailable)
	f := k.m.Figures()
	if f.Facts != 4 || f.Commits != 2 || f.Batches != 2 || f.Failures != 1 || f.Subscribers != 1 || f.Bytes == 0 {
		t.Errorf("got %+v", f)
	}
	total := uint64(0)
	for _, n := range f.AppendCounts {
		total += n
	}
	if total != f.Commits || len(f.AppendCounts) != len(f.AppendBounds)+1 {
		t.Errorf("got %+v", f)
	}
}

// TestRuntimeSessionIsTheAdmins: also before it has a fact. An account that could write
// its first fact would see it once, and be told that it isn't there from then on.
func TestRuntimeSessionIsTheAdmins(t *testing.T) {
	k := newKit(t, nil)
	write := func(c command.Caller) error {
		_, err := session.Write(t.Context(), k.m, c, &command.SetPolicy{}, event.RuntimeSession, event.BySession, func(*session.Tx) (*command.PolicyResult, error) {
			return &command.PolicyResult{}, nil
		})
		return err
	}
	for range 2 {
		if err := write(command.Caller{Account: "acme"}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("an account got %v", err)
		}
		if err := write(admin); err != nil {
			t.Error(err)
		}
	}
}
