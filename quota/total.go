package quota

import (
	"context"
	"maps"
	"time"
)

// Total is what is kept of an account over restarts: the quotas that no state in
// memory tells.
type Total struct {
	Sessions    int64 `json:"sessions"`
	StoredBytes int64 `json:"storedBytes"`
	// At is when the total held. Sessions that were created later are not in it.
	At time.Time `json:"at"`
}

// Share is what one of several processes uses of an account's quotas.
type Share struct {
	Total
	// Standing is what it uses of the other quotas, without those of which it uses nothing. It
	// ends with the process.
	Standing map[Name]int64 `json:"standing,omitempty"`
}

// Plus adds another share.
func (s *Share) Plus(other Share) {
	s.Sessions += other.Sessions
	s.StoredBytes += other.StoredBytes
	for n, used := range other.Standing {
		if s.Standing == nil {
			s.Standing = map[Name]int64{}
		}
		s.Standing[n] += used
	}
}

// of returns what the share has of one quota.
func (s *Share) of(n Name) int64 {
	switch n {
	case Sessions:
		return s.Sessions
	case StoredBytes:
		return s.StoredBytes
	default:
		return s.Standing[n]
	}
}

// keepEvery is how often a total is stored while it changes: so much of the
// stored bytes is forgotten in a crash.
const keepEvery = 5 * time.Second

// IsKept reports whether a quota is part of the total.
func (n Name) IsKept() bool { return n == Sessions || n == StoredBytes }

// Complete says that all sessions of the account are counted. Before, its total is
// not stored: it would pass for all there is.
func (a *Account) Complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.complete = true
}

// Due returns what this process uses if it changed and is to be stored now: some seconds after
// the last time, or at once. The caller stores it and says with [Account.Kept] what
// came of it; until then nothing is due.
func (a *Account) Due(now time.Time, atOnce bool) (Share, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.dirty || !a.complete || a.underway || (!atOnce && now.Sub(a.keptAt) < keepEvery) {
		return Share{}, false
	}
	a.underway, a.dirty, a.keptAt, a.settled = true, false, now, make(chan struct{})
	s := Share{Total: a.total()}
	s.At = now
	for i, n := range Names() {
		if !n.IsKept() {
			s.Plus(Share{Standing: map[Name]int64{n: a.used[i]}})
		}
	}
	maps.DeleteFunc(s.Standing, func(_ Name, used int64) bool { return used == 0 })
	return s, true
}

// total is what this process uses of the quotas that are kept; the caller holds the lock.
func (a *Account) total() Total {
	return Total{Sessions: a.used[Sessions.index()], StoredBytes: a.used[StoredBytes.index()]}
}

// Kept says whether the total that [Account.Due] returned was stored.
func (a *Account) Kept(stored bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underway {
		close(a.settled)
	}
	a.underway = false
	if !stored {
		a.dirty = true
	}
}

// AwaitKept waits until nothing that [Account.Due] returned is being stored, or ctx ends.
func (a *Account) AwaitKept(ctx context.Context) {
	a.mu.Lock()
	underway, settled := a.underway, a.settled
	a.mu.Unlock()
	if underway {
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
}

// SetOthers says what other processes use together. What this one uses is then its share, which
// can be negative for quotas that are part of a total.
func (a *Account) SetOthers(s Share, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, n := range Names() {
		a.others[i] = s.of(n)
	}
	a.othersAt, a.shared = now, true
}

// FollowsNow reports whether what other processes use was last asked for that long ago, to one
// of several callers: the others go by what is known.
func (a *Account) FollowsNow(now time.Time, age time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.othersAt) < age {
		return false
	}
	a.othersAt = now
	return true
}

// Own returns the share of this process, and whether it is known.
func (a *Account) Own() (t Total, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total(), a.shared && a.complete
}

// nearly is how many of the uses of a quota, at least, count as near to its limit.
const nearly = 16

// IsLimited reports whether a quota bounds the account at all.
func (a *Account) IsLimited(n Name) bool {
	limits := a.book.Limits(a.id)
	return limits.Of(n) > 0
}

// IsNear reports whether so little is left of a quota that what others use of it matters now.
func (a *Account) IsNear(n Name) bool {
	limits := a.book.Limits(a.id)
	limit := limits.Of(n)
	return limit > 0 && a.Used(n)+max(limit/10, nearly) >= limit
}
