package sandbox

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Warm starts commands faster: it keeps one stage ready that has not been told yet
// what to become, in the namespaces of the plan that was used last. The zero value
// is ready for use; close it.
type Warm struct {
	mu      sync.Mutex
	spare   *spare
	planned bool          // a spare will be made
	filled  chan struct{} // not nil while it is being made
	closed  bool
	wg      sync.WaitGroup
}

// refillAfter is how long a new spare waits for the command to end, so that the two
// don't compete for the processors: most commands are short.
const refillAfter = 20 * time.Millisecond

// spare is a stage that waits.
type spare struct {
	*Child
	kind kind
	// mounts is /proc/self/mountinfo, opened before the stage's namespace was made:
	// the kernel marks it when the mounts have changed since.
	mounts *os.File
}

// kind is what a stage is born with. Plans of one kind can use each other's.
type kind struct {
	user, mount, pid, net, ipc bool
	cgroupV2, pids, memory     bool
}

func (p *Plan) kind() kind {
	u := p.use
	return kind{u.user, u.mount, u.pid, u.net, u.ipc, u.cgroupV2, u.cgroupPids || !u.pid, u.cgroupMemory}
}

// Start is [Plan.Start] with a stage that is ready, if there is one.
func (w *Warm) Start(p *Plan, cmd Command) (*Child, error) {
	if err := cmd.check(); err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	c, err := w.start(p, cmd)
	if err == nil {
		w.refill(p, c.done)
	}
	return c, err
}

func (w *Warm) start(p *Plan, cmd Command) (*Child, error) {
	if c := w.take(p.kind()); c != nil {
		if c, err := c.become(p, cmd); err == nil {
			return c, nil
		}
		// It died a moment ago, or has become stale in a way that nobody foresaw.
	}
	return p.Start(cmd)
}

// take returns the spare if it is of the kind and still as good as new. One that
// is being made is waited for: it is further than a new one would be.
func (w *Warm) take(want kind) *Child {
	w.mu.Lock()
	if w.spare == nil && w.filled != nil {
		filled := w.filled
		w.mu.Unlock()
		<-filled
		w.mu.Lock()
	}
	s := w.spare
	w.spare = nil
	w.mu.Unlock()
	if s == nil {
		return nil
	}
	if s.kind == want && s.fresh() {
		_ = s.mounts.Close()
		return s.Child
	}
	s.discard()
	return nil
}

// fresh tells whether the stage still waits and sees the mounts of now.
func (s *spare) fresh() bool {
	select {
	case <-s.done:
		return false
	default:
	}
	fds := []unix.PollFd{{Fd: int32(s.mounts.Fd()), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 0
}

func (s *spare) discard() {
	_ = s.mounts.Close()
	s.Close()
}

// refill makes a spare in the background, unless one is there or planned, when the
// command has ended or has run for a while.
func (w *Warm) refill(p *Plan, ended <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.spare != nil || w.planned {
		return
	}
	w.planned = true
	w.wg.Go(func() {
		timer := time.NewTimer(refillAfter)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
		w.fill(p)
	})
}

// fill makes a spare.
func (w *Warm) fill(p *Plan) {
	w.mu.Lock()
	w.planned = false
	if w.closed || w.spare != nil || w.filled != nil {
		w.mu.Unlock()
		return
	}
	filled := make(chan struct{})
	w.filled = filled
	w.mu.Unlock()
	s := p.spare()
	w.mu.Lock()
	w.filled = nil
	if !w.closed {
		w.spare, s = s, nil
	}
	w.mu.Unlock()
	close(filled)
	if s != nil {
		s.discard()
	}
}

// spare makes one, or nothing: whoever needs a stage then makes it and sees why not.
func (p *Plan) spare() *spare {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	c, err := p.begin()
	if err != nil {
		_ = mounts.Close()
		return nil
	}
	return &spare{Child: c, kind: p.kind(), mounts: mounts}
}

// Close ends the spare. Children that were started go on.
func (w *Warm) Close() {
	w.mu.Lock()
	w.closed = true
	s := w.spare
	w.spare = nil
	w.mu.Unlock()
	if s != nil {
		s.discard()
	}
	w.wg.Wait()
}
