package postgres

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// lease is what this process knows of its node's lease. It counts from before it asked, so
// it never takes a lease for longer than the database does.
type lease struct {
	mu    sync.Mutex
	term  uint64
	asked time.Time
	// broken says that the last renewal failed, and since is when the one before it was
	// acknowledged, by the database's clock; see beginAfter for what it is at first.
	broken bool
	since  time.Time
	// patient is until when other nodes are waited for after the database was out of reach, or
	// may have been.
	patient time.Time
}

// renewed notes a renewal that was asked for at a time.
func (l *lease) renewed(asked time.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := asked.Sub(l.asked)
	if gap > ttl {
		l.term++
	}
	if l.outlasted(asked, ttl) {
		l.patient = asked.Add(ttl)
	}
	l.asked, l.broken = asked, false
}

// beginAfter notes that this process becomes the node, and that whether the database was in reach
// since that moment, by its own clock, isn't known; the zero time if there is nobody to wait for.
func (l *lease) beginAfter(since, asked time.Time, ttl time.Duration) {
	if since.IsZero() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.patient = since, asked.Add(ttl)
}

// wasInterrupted reports whether the lease couldn't be renewed for so long before that time that
// leases of other nodes may have ended for the same reason.
func (l *lease) wasInterrupted(asked time.Time, ttl time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outlasted(asked, ttl)
}

// outlasted is wasInterrupted for a caller that holds the lock. A node renews its lease when a
// third of it is over, so two thirds were left of any when the database went away.
func (l *lease) outlasted(asked time.Time, ttl time.Duration) bool {
	return l.broken && asked.Sub(l.asked) > ttl/2
}

// interrupted notes that a renewal failed, and when the last one was acknowledged.
func (l *lease) interrupted(acknowledged time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken, l.since = true, acknowledged
}

// witness returns up to when a lease must have ended for its node to be gone, by the
// database's clock: any that is over, unless the database was out of reach. Then the first node
// that reaches it again would take the sessions of all others, which live, know how what they
// do ended, and renew their leases a moment later. So it gives them as long as a lease lasts.
func (l *lease) witness() pgtype.Timestamptz {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken || time.Now().Before(l.patient) {
		return pgtype.Timestamptz{Time: l.since, Valid: true}
	}
	return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
}

// giveUp ends the lease for this process.
func (l *lease) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Time{}
}

// Term implements [store.Shared].
func (s *Store) Term() (n uint64, held bool) {
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	return s.lease.term, time.Since(s.lease.asked) < s.opts.LeaseTTL
}
