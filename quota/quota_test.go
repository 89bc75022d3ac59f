package quota_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/quota"
)

func newAccount(t testing.TB, l quota.Limits) *quota.Account {
	t.Helper()
	b := &quota.Book{}
	b.SetPolicy(quota.Policy{Accounts: l})
	a, err := b.Account("acme", func(*quota.Account) (quota.Total, error) { return quota.Total{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestConcurrentReservationsStayWithinTheLimit(t *testing.T) {
	const limit, callers = 100, 16
	a := newAccount(t, quota.Limits{Sessions: limit})
	var got, refused atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range limit {
				if err := a.Reserve(quota.Sessions, 1); err == nil {
					got.Add(1)
				} else if _, ok := errors.AsType[*quota.ReachedError](err); ok {
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got.Load() != limit || refused.Load() != (callers-1)*limit || a.Used(quota.Sessions) != limit {
		t.Errorf("%d reserved, %d refused, %d in use", got.Load(), refused.Load(), a.Used(quota.Sessions))
	}
}

func TestReservationOfASessionIsReplacedByWhatItUses(t *testing.T) {
	a := newAccount(t, quota.Limits{QueuedTurns: 3})
	for range 3 {
		if err := a.ReserveIn(quota.QueuedTurns, "sess_1", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.ReserveIn(quota.QueuedTurns, "sess_2", 1); err == nil {
		t.Error("a fourth turn was let in")
	}
	a.Set(quota.QueuedTurns, "sess_1", 1)
	a.Set(quota.QueuedTurns, "sess_1", 1)
	if used := a.Used(quota.QueuedTurns); used != 1 {
		t.Errorf("%d in use after the session said 1", used)
	}
	if err := a.ReserveIn(quota.QueuedTurns, "sess_2", 2); err != nil {
		t.Error(err)
	}
}

func TestPolicyOfAnAccount(t *testing.T) {
	p := quota.Policy{
		Operator: quota.Limits{Sessions: 1}, Accounts: quota.Limits{Sessions: 2}, Overrides: map[string]quota.Limits{"big": {Sessions: 3}},
	}
	for account, want := range map[string]int64{"": 1, "acme": 2, "big": 3} {
		if l := p.For(account); l.Of(quota.Sessions) != want {
			t.Errorf("account %q has the limit %d, want %d", account, l.Sessions, want)
		}
	}
}

func TestFailedLoadIsTriedAgain(t *testing.T) {
	b := &quota.Book{}
	broken := errors.New("the disk is gone")
	if _, err := b.Account("acme", func(*quota.Account) (quota.Total, error) { return quota.Total{}, broken }); !errors.Is(err, broken) {
		t.Fatalf("the error is %v", err)
	}
	a, err := b.Account("acme", func(*quota.Account) (quota.Total, error) { return quota.Total{Sessions: 7, StoredBytes: 9}, nil })
	if err != nil || a.Used(quota.Sessions) != 7 || a.Used(quota.StoredBytes) != 9 {
		t.Errorf("%v, %d sessions, %d bytes", err, a.Used(quota.Sessions), a.Used(quota.StoredBytes))
	}
}

func TestTotalIsStoredOnceAtATime(t *testing.T) {
	a := newAccount(t, quota.Limits{})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a.Add(quota.StoredBytes, 5)
	if _, due := a.Due(now, true); due {
		t.Error("a total was due before all sessions were counted")
	}
	a.Complete()
	total, due := a.Due(now, false)
	if !due || total.StoredBytes != 5 || !total.At.Equal(now) {
		t.Fatalf("due %v: %+v", due, total)
	}
	a.Add(quota.StoredBytes, 1)
	if _, due := a.Due(now.Add(time.Hour), true); due {
		t.Error("a second total was due while the first was being stored")
	}
	a.Kept(false)
	if _, due := a.Due(now.Add(time.Second), false); due {
		t.Error("a total was due again at once")
	}
	if total, due := a.Due(now.Add(time.Minute), false); !due || total.StoredBytes != 6 {
		t.Errorf("due %v: %+v", due, total)
	}
	a.Kept(true)
	a.Add(quota.Subscriptions, 1)
	if _, due := a.Due(now.Add(time.Hour), true); due {
		t.Error("a total was due though nothing that it holds changed")
	}
}

func TestFactIsDueOncePerMinute(t *testing.T) {
	a := newAccount(t, quota.Limits{})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := []bool{
		a.Tell(quota.Sessions, now), a.Tell(quota.Sessions, now.Add(59*time.Second)), a.Tell(quota.Schedules, now), a.Tell(quota.Sessions, now.Add(time.Minute)),
	}
	for i, want := range []bool{true, false, true, true} {
		if got[i] != want {
			t.Errorf("call %d: %v", i, got[i])
		}
	}
}

func BenchmarkReserve(b *testing.B) {
	a := newAccount(b, quota.Limits{Sessions: 1 << 60})
	for b.Loop() {
		if err := a.Reserve(quota.Sessions, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSharesOfProcessesAddUp(t *testing.T) {
	b := &quota.Book{}
	b.SetPolicy(quota.Policy{Accounts: quota.Limits{Schedules: 3}})
	a, err := b.Account("acme", func(a *quota.Account) (quota.Total, error) {
		a.SetOthers(quota.Share{Standing: map[quota.Name]int64{quota.Schedules: 1}}, time.Now())
		a.Complete()
		return quota.Total{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	own := func() quota.Share {
		t.Helper()
		s, due := a.Due(time.Now(), true)
		if !due {
			t.Fatal("nothing is due after a change")
		}
		a.Kept(true)
		return s
	}
	for range 2 {
		if err := a.ReserveIn(quota.Schedules, "sess_1", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.ReserveIn(quota.Schedules, "sess_2", 1); err == nil {
		t.Error("a fourth schedule was let in")
	}
	if s := own(); s.Standing[quota.Schedules] != 2 {
		t.Errorf("the share is %+v", s)
	}
	a.Set(quota.Schedules, "sess_1", 2)
	if _, due := a.Due(time.Now(), true); due {
		t.Error("a share was due though nothing changed")
	}
	b.Leave("sess_1")
	b.Leave("sess_1")
	if s := own(); len(s.Standing) > 0 || a.Used(quota.Schedules) != 1 || b.UsedBy(quota.Schedules)["acme"] != 0 {
		t.Errorf("the share is %+v after the session left, %d are in use", s, a.Used(quota.Schedules))
	}
}
