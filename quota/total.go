package quota

import "time"

// Total is what is kept of an account over restarts: the quotas that no state in
// memory tells.
type Total struct {
	Sessions    int64 `json:"sessions"`
	StoredBytes int64 `json:"storedBytes"`
	// At is when the total held. Sessions that were created later are not in it.
	At time.Time `json:"at"`
}

// keepEvery is how often a total is stored while it changes: so much of the
// stored bytes is forgotten in a crash.
const keepEvery = 5 * time.Second

// kept reports whether a quota is part of the total.
func (n Name) kept() bool { return n == Sessions || n == StoredBytes }

// Complete says that all sessions of the account are counted. Before, its total is
// not stored: it would pass for all there is.
func (a *Account) Complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.complete = true
}

// Due returns the total if it changed and is to be stored now: some seconds after
// the last time, or at once. The caller stores it and says with [Account.Kept] what
// came of it; until then nothing is due.
func (a *Account) Due(now time.Time, atOnce bool) (Total, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.dirty || !a.complete || a.underway || (!atOnce && now.Sub(a.keptAt) < keepEvery) {
		return Total{}, false
	}
	a.underway, a.dirty, a.keptAt = true, false, now
	return Total{Sessions: a.used[Sessions.index()], StoredBytes: a.used[StoredBytes.index()], At: now}, true
}

// Kept says whether the total that [Account.Due] returned was stored.
func (a *Account) Kept(stored bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.underway = false
	if !stored {
		a.dirty = true
	}
}
