package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
	"agentd/session"
	"agentd/state"
	"agentd/store/storetest"
)

// acme and other are callers of two accounts.
var (
	acme  = command.Caller{Account: "acme", Actor: event.Actor{Kind: "user"}}
	other = command.Caller{Account: "other", Actor: event.Actor{Kind: "user"}}
)

// limited bounds accounts with a name.
func limited(l quota.Limits) func(*session.Options) {
	return func(o *session.Options) { o.Quotas = quota.Policy{Accounts: l} }
}

// used returns what an account uses of a quota.
func (k *kit) used(account string, name quota.Name) int64 {
	k.Helper()
	for _, q := range call[command.GetQuotasResult](k, &command.GetQuotas{Account: account}).Quotas {
		if q.Quota == string(name) {
			return q.Used
		}
	}
	k.Fatalf("there is no quota %s", name)
	return 0
}

func text(s string) event.Raw { return event.Raw(fmt.Sprintf("%q", s)) }

func TestSessionsOfAnAccountAreBounded(t *testing.T) {
	k := newKit(t, limited(quota.Limits{Sessions: 3}))
	var made, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			var p command.Params = &command.CreateSession{}
			if i%2 == 0 {
				p = &command.SubmitTurn{Input: text("hello")} // which opens a session, too
			}
			_, err := runCommand(k.m, acme, p)
			var f *fault.Error
			switch {
			case err == nil:
				made.Add(1)
			case errors.As(err, &f) && f.Kind == fault.RateLimited && f.RetryAfter == 0:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 3 || refused.Load() != 9 || k.used("acme", quota.Sessions) != 3 {
		t.Errorf("%d made, %d refused, %d in use", made.Load(), refused.Load(), k.used("acme", quota.Sessions))
	}
	call[command.CreateSessionResult](k, &command.CreateSession{})
	callAs[command.CreateSessionResult](k, other, &command.CreateSession{})

	blocked := k.factsOf(event.RuntimeSession, event.TypeQuotaBlocked)
	if len(blocked) != 1 {
		t.Fatalf("%d facts of the quota, want one for all refusals", len(blocked))
	}
	q := blocked[0].Payload.(*event.QuotaState)
	if q.Account != "acme" || q.QuotaName != "sessions" || *q.Limit != 3 || *q.Used != 3 || *q.Remaining != 0 {
		t.Errorf("the fact is %+v", q)
	}
}

// factsOf returns the facts of a type in a session.
func (k *kit) factsOf(sessionID string, t event.Type) []*event.Event {
	k.Helper()
	records, _, err := k.m.Events(context.Background(), admin, sessionID, 0, 1000)
	if err != nil {
		k.Fatal(err)
	}
	var out []*event.Event
	for _, rec := range records {
		e, err := event.Decode(rec.Data)
		if err != nil {
			k.Fatal(err)
		}
		if e.Type == t {
			out = append(out, e)
		}
	}
	return out
}

func TestRefusedCreationUsesNothing(t *testing.T) {
	k := newKit(t, limited(quota.Limits{Sessions: 1}))
	callAs[command.CreateSessionResult](k, acme, &command.CreateSession{SessionID: "sess_a", Title: "first"})
	k.refused(acme, &command.CreateSession{SessionID: "sess_a", Title: "second"}, fault.Conflict)
	k.refused(acme, &command.CreateSession{SessionID: "sess_b"}, fault.RateLimited)
	k.refused(admin, &command.GetSession{SessionID: "sess_b"}, fault.NotFound)
	if n := k.used("acme", quota.Sessions); n != 1 {
		t.Errorf("%d sessions in use", n)
	}
	k.m.SetQuotas(quota.Policy{Accounts: quota.Limits{Sessions: 2}})
	callAs[command.CreateSessionResult](k, acme, &command.CreateSession{SessionID: "sess_b"})
}

func TestQueuedTurnsOfAnAccountAreBoundedOverItsSessions(t *testing.T) {
	k := newKit(t, limited(quota.Limits{QueuedTurns: 3}))
	one := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: text("runs")})
	two := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: text("runs")})
	submit := func(r *command.SubmitTurnResult) command.Params {
		return &command.SubmitTurn{SessionID: r.SessionID, Input: text("waits")}
	}
	callAs[command.SubmitTurnResult](k, acme, submit(one))
	waiting := callAs[command.SubmitTurnResult](k, acme, submit(two))
	callAs[command.SubmitTurnResult](k, acme, submit(two))
	if f := k.refusal(acme, submit(one), fault.RateLimited); f.RetryAfter == 0 {
		t.Error("waiting would help, and nothing says how long")
	}
	if n := len(k.factsOf(one.SessionID, event.TypeQuotaBlocked)); n != 1 {
		t.Errorf("%d facts of the quota in the session where it was reached", n)
	}
	k.reopen(limited(quota.Limits{QueuedTurns: 3}))
	for _, r := range []*command.SubmitTurnResult{one, two} { // recovery looks at all sessions with open work
		if err := k.m.View(context.Background(), r.SessionID, func(*state.Session) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	k.refused(acme, submit(one), fault.RateLimited)
	callAs[command.QueueResult](k, acme, &command.RemoveQueuedTurn{SessionID: two.SessionID, TurnID: waiting.TurnID})
	if n := k.used("acme", quota.QueuedTurns); n != 2 {
		t.Errorf("%d turns wait after one was removed", n)
	}
	callAs[command.SubmitTurnResult](k, acme, submit(one))
}

func TestFullStorageStopsWhatAddsAndNotWhatEnds(t *testing.T) {
	k := newKit(t, nil)
	r := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: text("runs")})
	stored := k.used("acme", quota.StoredBytes)
	if stored == 0 {
		t.Fatal("nothing was counted")
	}
	big := make([]byte, 100<<10)
	for i := range big {
		big[i] = 'x'
	}
	callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{SessionID: r.SessionID, Input: text(string(big))})
	if more := k.used("acme", quota.StoredBytes) - stored; more < int64(len(big)) {
		t.Errorf("an input of %d bytes was counted with %d", len(big), more)
	}
	k.m.SetQuotas(quota.Policy{Accounts: quota.Limits{StoredBytes: 1000}})
	k.refused(acme, &command.SubmitTurn{SessionID: r.SessionID, Input: text("more")}, fault.RateLimited)
	k.refused(acme, &command.CreateSession{}, fault.RateLimited)
	k.refused(acme, &command.SubmitTurn{Input: text("more")}, fault.RateLimited)
	callAs[command.InterruptTurnResult](k, acme, &command.InterruptTurn{SessionID: r.SessionID, Queue: "clear"})
	if n := k.used("acme", quota.QueuedTurns); n != 0 {
		t.Errorf("%d turns wait after the queue was cleared", n)
	}
	callAs[session.GetSessionResult](k, acme, &command.GetSession{SessionID: r.SessionID})
}

func TestUseSurvivesRestartAndCrash(t *testing.T) {
	mem := storetest.NewMem()
	k := newKitOn(t, mem, limited(quota.Limits{Sessions: 5}))
	for range 4 {
		callAs[command.CreateSessionResult](k, acme, &command.CreateSession{})
	}
	stored := k.used("acme", quota.StoredBytes)
	k.reopen(limited(quota.Limits{Sessions: 5}))
	k.countedSessions("acme", 4)
	if n := k.used("acme", quota.StoredBytes); n != stored {
		t.Errorf("%d bytes after a restart, %d before", n, stored)
	}
	callAs[command.CreateSessionResult](k, acme, &command.CreateSession{})
	// Another manager over the same store sees what a crash leaves: no total of the
	// last session was stored.
	crashed := newKitOn(t, mem, limited(quota.Limits{Sessions: 5}))
	crashed.countedSessions("acme", 5)
	crashed.refused(acme, &command.CreateSession{}, fault.RateLimited)
}

// countedSessions holds how many sessions an account has; so few are counted before
// the answer.
func (k *kit) countedSessions(account string, want int64) {
	k.Helper()
	if got := k.used(account, quota.Sessions); got != want {
		k.Fatalf("%d sessions are counted, want %d", got, want)
	}
}

func TestSubscriptionsOfAnAccountAreBounded(t *testing.T) {
	k := newKit(t, limited(quota.Limits{Subscriptions: 2}))
	ctx := context.Background()
	r := callAs[command.CreateSessionResult](k, acme, &command.CreateSession{})
	sub, err := k.m.SubscribeAs(ctx, acme, r.SessionID, 0)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := k.m.SubscribeAllAs(ctx, acme, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.m.SubscribeAs(ctx, acme, r.SessionID, 0); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("a third stream: %v", err)
	}
	if _, err := k.m.SubscribeAllAs(ctx, acme, ""); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("a third stream: %v", err)
	}
	sub.Close()
	sub.Close()
	feed.Close()
	feed.Close()
	if n := k.used("acme", quota.Subscriptions); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

func TestQuotasOfOthersAreForAdmins(t *testing.T) {
	k := newKit(t, limited(quota.Limits{Sessions: 7}))
	callAs[command.CreateSessionResult](k, acme, &command.CreateSession{})
	callAs[command.CreateSessionResult](k, other, &command.CreateSession{})
	own := callAs[command.GetQuotasResult](k, acme, &command.GetQuotas{})
	for _, q := range own.Quotas {
		if q.Account != "acme" {
			t.Errorf("acme is shown %+v", q)
		}
	}
	if q := own.Quotas[0]; q.Quota != "sessions" || q.Used != 1 || q.Limit == nil || *q.Limit != 7 {
		t.Errorf("%+v", q)
	}
	for _, account := range []string{"other", "nobody"} {
		k.refused(acme, &command.GetQuotas{Account: account}, fault.Forbidden)
	}
	seen := map[string]bool{}
	for _, q := range call[command.GetQuotasResult](k, &command.GetQuotas{}).Quotas {
		seen[q.Account] = true
	}
	if !seen["acme"] || !seen["other"] || !seen[""] {
		t.Errorf("an admin is shown %v", seen)
	}
}

func TestProcessesOfAnAccountAreBounded(t *testing.T) {
	k := newKit(t, limited(quota.Limits{Processes: 1}))
	r := callAs[command.SubmitTurnResult](k, acme, &command.SubmitTurn{Input: text("runs")})
	scope := func(id string) event.Scope {
		return event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, RunID: r.RunID, ProcessID: id}
	}
	start := func(id string) error {
		return k.m.Emit(context.Background(), r.SessionID, event.ByLoop, func(tx *session.Tx) error {
			tx.Emit(event.Event{Type: event.TypeProcessStarted, Scope: scope(id), Payload: &event.ProcessStarted{ProcessID: id, Command: []string{"sleep"}, Cwd: "/"}})
			return nil
		})
	}
	if err := start("proc_1"); err != nil {
		t.Fatal(err)
	}
	if err := start("proc_2"); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("a second process: %v", err)
	}
	if err := k.m.Emit(context.Background(), r.SessionID, event.ByLoop, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypeProcessCompleted, Scope: scope("proc_1"), Payload: &event.ProcessCompleted{ProcessID: "proc_1"}})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := start("proc_3"); err != nil {
		t.Error(err)
	}
}
