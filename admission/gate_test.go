package admission_test

import (
	"testing"
	"time"

	"agentd/admission"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func newGate() (*admission.Gate, *clock) {
	c := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return admission.New(admission.Options{Busy: 2 * time.Second, Stalled: 2 * time.Second, Clock: func() time.Time { return c.now }, Waiting: 10}), c
}

// reasonOf is why an account is refused, or nothing.
func reasonOf(g *admission.Gate, account string) admission.Reason {
	if r := g.Admit(account, 0, 0); r != nil {
		return r.Reason
	}
	return ""
}

// A burst is let in: as long as one write of a second is quick, nothing stands in line. An
// account whose quickest write took too long is refused, and only that account; once its
// writes are quick again, or it writes nothing any more, it is let in.
func TestStandingDelayOfAnAccount(t *testing.T) {
	g, c := newGate()
	for range 20 {
		g.Took("noisy", 5*time.Second)
		c.pass(250 * time.Millisecond)
		g.Took("noisy", 10*time.Millisecond)
		c.pass(250 * time.Millisecond)
	}
	if r := reasonOf(g, "noisy"); r != "" {
		t.Errorf("a burst is refused: %s", r)
	}
	for range 20 {
		g.Took("noisy", 5*time.Second)
		g.Took("quiet", 50*time.Millisecond)
		c.pass(250 * time.Millisecond)
	}
	if r := reasonOf(g, "noisy"); r != admission.AccountBusy {
		t.Errorf("the noisy account is refused with %q", r)
	}
	for _, account := range []string{"quiet", "new"} {
		if r := reasonOf(g, account); r != "" {
			t.Errorf("account %s is refused with %q", account, r)
		}
	}
	if f := g.Figures(); f.Delay != 5*time.Second || f.Refused[admission.AccountBusy] != 1 {
		t.Errorf("the figures are %+v", f)
	}
	g.Took("noisy", time.Millisecond)
	if r := reasonOf(g, "noisy"); r != "" {
		t.Errorf("after a quick write: %q", r)
	}
	for range 20 {
		g.Took("noisy", 5*time.Second)
		c.pass(250 * time.Millisecond)
	}
	if r := reasonOf(g, "noisy"); r == "" {
		t.Error("the account is let in")
	}
	c.pass(time.Minute)
	if r := reasonOf(g, "noisy"); r != "" {
		t.Errorf("after a minute without writes: %q", r)
	}
}

// While one write is stuck nothing else tells of it: everybody is refused, and told to come
// back later the longer it takes.
func TestStalledStore(t *testing.T) {
	g, c := newGate()
	g.Begin()
	c.pass(time.Second)
	if r := reasonOf(g, "a"); r != "" {
		t.Errorf("after a second: %q", r)
	}
	for _, wait := range []time.Duration{3 * time.Second, 30 * time.Second} {
		c.pass(wait - g.Stalled())
		r := g.Admit("a", 0, 0)
		if r == nil || r.Reason != admission.StoreStalled || r.IsOwn() || r.Wait != wait || !g.IsStalled() {
			t.Fatalf("after %s: %+v", wait, r)
		}
	}
	c.pass(time.Hour)
	if r := g.Admit("a", 0, 0); r.Wait != 30*time.Second {
		t.Errorf("who comes after an hour shall wait %s", r.Wait)
	}
	g.End()
	if r := reasonOf(g, "a"); r != "" || g.IsStalled() {
		t.Errorf("after the write: %q", r)
	}
}

// What waits to begin is bounded, for an account and for all.
func TestLines(t *testing.T) {
	g, _ := newGate()
	for _, c := range []struct {
		own, all int
		want     admission.Reason
	}{{9, 39, ""}, {10, 10, admission.AccountLine}, {0, 40, admission.NodeLine}, {1000, 1000, admission.AccountLine}} {
		var got admission.Reason
		if r := g.Admit("a", c.own, c.all); r != nil {
			got = r.Reason
			if r.Wait < time.Second || r.Error() == "" {
				t.Errorf("%d of %d: %+v", c.own, c.all, r)
			}
		}
		if got != c.want {
			t.Errorf("%d of %d wait: %q, want %q", c.own, c.all, got, c.want)
		}
	}
}

// One account alone has all of a group. With another one beside it, its part follows how late
// those go on who waited for a group.
func TestQuantum(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q := admission.NewQuantum(1024)
	q.See("noisy", now)
	if n := q.Size(now); n != 1024 {
		t.Errorf("one account alone: %d", n)
	}
	q.See("quiet", now)
	if n := q.Size(now); n != 16 {
		t.Errorf("two accounts: %d", n)
	}
	for range 50 {
		q.Adjust(2*time.Millisecond, 50*time.Millisecond)
	}
	if n := q.Size(now); n != 8 {
		t.Errorf("after groups that held others up: %d", n)
	}
	for range 1000 {
		q.Adjust(20*time.Millisecond, time.Millisecond)
	}
	if n := q.Size(now); n != 1024 {
		t.Errorf("after groups that delayed no one: %d", n)
	}
	q.Adjust(0, time.Minute)
	if n := q.Size(now.Add(500 * time.Millisecond)); n >= 1024 {
		t.Errorf("half a second later: %d", n)
	}
	q.See("noisy", now.Add(2*time.Second))
	if n := q.Size(now.Add(2 * time.Second)); n != 1024 {
		t.Errorf("after the other account left: %d", n)
	}
}
