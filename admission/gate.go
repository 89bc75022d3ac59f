// Package admission says whether more work may begin, and shares room between accounts.
//
// A [Gate] refuses by what the store sustains, not by a number that someone chose: it is told
// how long writes take, and refuses while even the quickest of the last second took too long.
// [Slots] bound what is done at once. A [Quantum] says how much of an account is written
// together while others write, too.
//
// The package knows nothing of sessions, facts or doors, keeps nothing on disk and starts no
// goroutine. All methods may be called by many goroutines, except those of Quantum.
package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a [Gate]. The zero value is valid.
type Options struct {
	// Busy is how long the writes of an account may take before more of its work is
	// refused. If zero, it defaults to 10 s.
	Busy time.Duration
	// Stalled is how long one write to the store may be under way before the work of
	// all accounts is refused. If zero, it defaults to 5 s.
	Stalled time.Duration
	// Window is the time in which the quickest write counts. If zero, it defaults to 1 s.
	Window time.Duration
	// Waiting bounds how much of an account may wait to begin; four times as much of
	// all together. If zero, it defaults to 8192.
	Waiting int
	// Clock defaults to [time.Now].
	Clock func() time.Time
}

// Reason says why work is refused.
type Reason string

// The reasons. They are label values of a metric.
const (
	// StoreStalled means that the store doesn't take the writes of any account in time.
	StoreStalled Reason = "store_stalled"
	// AccountBusy means that an account writes more than the store takes.
	AccountBusy Reason = "account_busy"
	// AccountLine means that too much of an account waits to begin.
	AccountLine Reason = "account_line"
	// NodeLine means that too much of all accounts waits to begin.
	NodeLine Reason = "node_line"
)

// Reasons returns all reasons.
func Reasons() []Reason { return []Reason{StoreStalled, AccountBusy, AccountLine, NodeLine} }

// Refusal says why work may not begin now, and when to try again.
type Refusal struct {
	Reason Reason
	// Wait is how long to wait before trying again.
	Wait time.Duration
	// Delay is how long writes take, Waiting how much waits, where that is the reason.
	Delay   time.Duration
	Waiting int
}

// Error implements error.
func (r *Refusal) Error() string {
	switch r.Reason {
	case StoreStalled:
		return fmt.Sprintf("the store has not taken a write for %s", r.Delay.Round(time.Millisecond))
	case AccountBusy:
		return fmt.Sprintf("writes of this account take %s, because it writes more than the store takes", r.Delay.Round(time.Millisecond))
	case AccountLine:
		return fmt.Sprintf("%d threads of this account wait to be worked on", r.Waiting)
	case NodeLine:
	}
	return fmt.Sprintf("%d threads wait to be worked on", r.Waiting)
}

// IsOwn reports whether the caller's own account is the reason.
func (r *Refusal) IsOwn() bool { return r.Reason == AccountBusy || r.Reason == AccountLine }

// Gate decides whether more work may begin.
type Gate struct {
	opt Options
	// began is when the write that is under way began, in nanoseconds; 0 while there is none.
	began atomic.Int64

	mu       sync.Mutex
	accounts map[string]*delays
	swept    time.Time
	refused  map[Reason]uint64
}

// New returns a gate that lets everything in until it is told of writes.
func New(opt Options) *Gate {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&opt.Busy, 10 * time.Second}, {&opt.Stalled, 5 * time.Second}, {&opt.Window, time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if opt.Waiting <= 0 {
		opt.Waiting = 8192
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	return &Gate{opt: opt, accounts: map[string]*delays{}, refused: map[Reason]uint64{}}
}

// delays are how long the writes of an account took: the quickest of the window that began
// at since, and that of the window before.
type delays struct {
	since         time.Time
	least, before time.Duration
	// counts says that before is of the window right before this one.
	counts bool
}

// Begin says that a write to the store begins, End that it ended. There is one at a time.
func (g *Gate) Begin() { g.began.Store(g.opt.Clock().UnixNano()) }

// End says that the write to the store ended.
func (g *Gate) End() { g.began.Store(0) }

// Took says how long a write of an account took, from when it was decided to when its
// caller went on.
func (g *Gate) Took(account string, d time.Duration) {
	now := g.opt.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.accounts[account]
	if a == nil {
		g.sweep(now)
		g.accounts[account] = &delays{since: now, least: d}
		return
	}
	if age := now.Sub(a.since); age >= g.opt.Window {
		a.before, a.counts = a.least, age < 2*g.opt.Window+a.least
		a.since, a.least = now, d
		return
	}
	a.least = min(a.least, d)
}

// sweep forgets accounts that wrote nothing lately.
func (g *Gate) sweep(now time.Time) {
	if now.Sub(g.swept) < 10*g.opt.Window {
		return
	}
	g.swept = now
	for id, a := range g.accounts {
		if g.isOver(a, now) {
			delete(g.accounts, id)
		}
	}
}

// isOver reports whether what is known of an account's writes is of the past.
func (g *Gate) isOver(a *delays, now time.Time) bool {
	return now.Sub(a.since) > 2*g.opt.Window+a.least
}

// standing returns how long the quickest of an account's last writes took.
func (g *Gate) standing(account string, now time.Time) time.Duration {
	a := g.accounts[account]
	switch {
	case a == nil || g.isOver(a, now):
		return 0
	case a.counts:
		return min(a.least, a.before)
	case now.Sub(a.since) < g.opt.Window:
		return 0 // one window has to pass before anything is said
	}
	return a.least
}

// Stalled returns for how long the write that is under way has been.
func (g *Gate) Stalled() time.Duration {
	began := g.began.Load()
	if began == 0 {
		return 0
	}
	return max(0, g.opt.Clock().Sub(time.Unix(0, began)))
}

// IsStalled reports whether the work of all accounts is refused.
func (g *Gate) IsStalled() bool { return g.Stalled() > g.opt.Stalled }

// Admit returns why work of an account may not begin, or nil. Own is how much of the account
// waits already, all how much of all accounts.
func (g *Gate) Admit(account string, own, all int) *Refusal {
	if stalled := g.Stalled(); stalled > g.opt.Stalled {
		return g.refuse(&Refusal{Reason: StoreStalled, Delay: stalled, Wait: stalled})
	}
	switch {
	case own >= g.opt.Waiting:
		return g.refuse(&Refusal{Reason: AccountLine, Waiting: own, Wait: waitInLine})
	case all >= 4*g.opt.Waiting:
		return g.refuse(&Refusal{Reason: NodeLine, Waiting: all, Wait: waitInLine})
	}
	g.mu.Lock()
	delay := g.standing(account, g.opt.Clock())
	g.mu.Unlock()
	if delay > g.opt.Busy {
		return g.refuse(&Refusal{Reason: AccountBusy, Delay: delay, Wait: delay})
	}
	return nil
}

// Bounds of what a refused caller is told to wait.
const (
	leastWait  = time.Second
	mostWait   = 30 * time.Second
	waitInLine = 5 * time.Second
)

func (g *Gate) refuse(r *Refusal) *Refusal {
	r.Wait = min(max(r.Wait, leastWait), mostWait)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused[r.Reason]++
	return r
}

// Figures are the measurements of a gate, for operators.
type Figures struct {
	// Delay is how long the quickest of the last writes of the slowest account took,
	// Stalled for how long the write under way has been.
	Delay, Stalled time.Duration
	// Refused counts refusals by their reason.
	Refused map[Reason]uint64
}

// Figures returns the measurements so far.
func (g *Gate) Figures() Figures {
	f := Figures{Stalled: g.Stalled(), Refused: map[Reason]uint64{}}
	now := g.opt.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.accounts {
		f.Delay = max(f.Delay, g.standing(id, now))
	}
	for _, r := range Reasons() {
		f.Refused[r] = g.refused[r]
	}
	return f
}
