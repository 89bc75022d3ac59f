package pebble

import (
	"context"
	"fmt"
	"sync"

	"agentd/store"

	pdb "github.com/cockroachdb/pebble/v2"
)

// Pebble makes writers wait inside a commit when flushes or compactions fall
// behind, and there they can't be called back: if the disk is full or the store
// has failed, they wait for ever. So its own limits are out of reach, and the
// engine keeps these before a commit begins, where a wait can end.
const (
	maxBuffers   = 4    // full-sized buffers in memory, the current one included
	layers       = 15   // layers of young tables that are worth a compaction; Pebble counts in halves
	maxSublevels = 30   // layers of young tables that a read has to look at
	outOfReach   = 1000 // Pebble's own limits
)

// signal tells that something has changed in the background. Its channel is
// closed at the next change.
type signal struct {
	mu      sync.Mutex
	version uint64
	next    chan struct{}
}

func newSignal() *signal { return &signal{next: make(chan struct{})} }

// raise is called by Pebble with its own locks held: it must not call back.
func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	close(s.next)
	s.next = make(chan struct{})
}

func (s *signal) state() (version uint64, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.next
}

// listen raises the signal when Pebble's buffers or tables change.
func (s *signal) listen(l *pdb.EventListener) {
	l.WALCreated = func(pdb.WALCreateInfo) { s.raise() }
	l.FlushEnd = func(pdb.FlushInfo) { s.raise() }
	l.CompactionEnd = func(pdb.CompactionInfo) { s.raise() }
}

// writable waits until a write can be taken, or returns why it can't. The commit
// lock is held.
func (s *Store) writable(ctx context.Context) error {
	for {
		version, next := s.signal.state()
		if err := s.refusal(); err != nil {
			return err
		}
		if version == s.relaxed || !s.pressed() {
			s.relaxed = version
			return nil
		}
		s.opts.Logger.Warn("pebble: appends wait for flushes and compactions")
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return store.ErrClosed
		}
	}
}

// refusal returns why nothing can be written now, or nil.
func (s *Store) refusal() error {
	if err := s.Err(); err != nil {
		return err
	}
	if s.guard.flushBlocked() {
		return fmt.Errorf("%w: a table could not be written to %s", store.ErrNoSpace, s.dir)
	}
	return s.space.check()
}

// pressed reports whether the background has fallen behind. Buffers are counted
// by their size: the first ones are small, and Pebble gathers several before it
// writes them out.
func (s *Store) pressed() bool {
	m := s.db.Metrics()
	return m.MemTable.Size > maxBuffers*uint64(s.opts.MemTableBytes) || m.Levels[0].Sublevels > maxSublevels
}
