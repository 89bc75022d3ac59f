package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Warm starts commands faster: it keeps a launcher that forks stages, and one stage
// ready that has not been told yet what to become, in the namespaces of the plan that
// was used last. The zero value is ready for use; close it.
type Warm struct {
	mu      sync.Mutex
	spare   *spare
	planned bool          // a spare will be made
	filled  chan struct{} // not nil while it is being made
	closed  bool
	wg      sync.WaitGroup

	launcher *launcher // nil before the first spare, and when it was lost
	launched int       // how many there were
}

// maxLaunchers is how many launchers are tried: where they fail, stages are started
// without.
const maxLaunchers = 3

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
	if c := w.takeSpare(p.kind()); c != nil {
		if c, err := c.become(p, cmd); err == nil {
			return c, nil
		}
		// It died a moment ago, or has become stale in an unforeseen way.
	}
	w.mu.Lock()
	l := w.launcher
	w.mu.Unlock()
	c, err := w.begin(p, l)
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	return c.become(p, cmd)
}

// begin starts a stage by the launcher, and without it if that fails: a caller that needs
// the stage then sees why it can't be had.
func (w *Warm) begin(p *Plan, l *launcher) (*Child, error) {
	if l != nil && p.use.pid {
		c, err := p.beginStage(l)
		if err == nil {
			return c, nil
		}
		if l.isLost() { // and not merely refused by the kernel
			w.lose(l)
		}
	}
	return p.beginStage(nil)
}

// lose gives up a launcher that failed.
func (w *Warm) lose(l *launcher) {
	w.mu.Lock()
	ours := w.launcher == l
	if ours {
		w.launcher = nil
	}
	w.mu.Unlock()
	if ours {
		l.close()
	}
}

// launch returns the launcher, and starts it if there is none. Only the one who makes
// the spare does. What begins no pid namespace needs none: the stage is no init then
// and has more to do than a launcher's can.
func (w *Warm) launch(p *Plan) *launcher {
	w.mu.Lock()
	l := w.launcher
	wanted := l == nil && !w.closed && p.use.pid && canFork && w.launched < maxLaunchers
	if wanted {
		w.launched++
	}
	w.mu.Unlock()
	if !wanted {
		return l
	}
	l, err := startLauncher()
	if err != nil {
		return nil
	}
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.launcher = l
	}
	w.mu.Unlock()
	if closed {
		l.close()
		return nil
	}
	return l
}

// canFork says where launchers are known to work: the system call that forks takes
// its arguments in another order on some architectures.
const canFork = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// takeSpare returns the spare if it is of the kind and still as good as new. One that
// is being made is waited for: it is further than a new one would be.
func (w *Warm) takeSpare(want kind) *Child {
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
	s := w.makeSpare(p)
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

// makeSpare makes one, or nothing: a caller that needs a stage then makes it and sees why
// not.
func (w *Warm) makeSpare(p *Plan) *spare {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	c, err := w.begin(p, w.launch(p))
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
	w.mu.Lock()
	l := w.launcher
	w.launcher = nil
	w.mu.Unlock()
	if l != nil {
		l.close()
	}
}
