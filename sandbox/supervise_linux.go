package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// supervisor answers the kernel's question whether a program may start. The process
// that asks waits in the meantime; when the listener is closed, every start is refused.
//
// The kernel reads the arguments and looks up the path again after the answer. A program
// that rewrites the arguments from another thread in that moment, or exchanges a link or
// a file on the path, starts what was not judged. Such a program could also copy what it wants to run, or do itself what the program would do: it is
// past what rules about programs can hold, and the rest of the sandbox holds it.
type supervisor struct {
	listener *os.File
	fd       int // the listener's
	stop     int // an eventfd that ends serve
	ask      func(Start) string
	done     chan struct{} // closed when serve has ended

	mu      sync.Mutex
	refused []Refused
}

// maxRefusals bounds the refusals that are kept.
const maxRefusals = 16

// notification is struct seccomp_notif, answer struct seccomp_notif_resp.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type answer struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// newSupervisor takes over a listener and serves it.
func newSupervisor(listener *os.File, ask func(Start) string) (*supervisor, error) {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	s := &supervisor{listener: listener, fd: int(listener.Fd()), stop: stop, ask: ask, done: make(chan struct{})}
	// Without it each question and each answer may wake another processor, which costs
	// more than the question. Kernels before 6.6 don't know it.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(s.fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) //nolint:dogsled // it is a matter of speed
	go s.serve()
	return s, nil
}

// close ends the supervision and waits for it.
func (s *supervisor) close() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s.stop, one[:]) // fails only if the counter is full: then it is readable, too
	<-s.done
	_ = unix.Close(s.stop)
}

// refusals are what was refused so far.
func (s *supervisor) refusals() []Refused {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// serve answers until the last process of the command has ended. The first start is
// the command's own, which was judged before. It has a thread of its own, so that the
// kernel can switch from the process that asks to it and back.
func (s *supervisor) serve() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	defer s.listener.Close() // without us every start is refused, and none waits
	for first := true; ; first = false {
		n, err := s.receive()
		if err != nil {
			return
		}
		a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if errno := s.judge(n, first); errno != 0 {
			a.errno, a.flags = -int32(errno), 0
		}
		// A process that is gone needs no answer.
		_ = control(s.fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
	}
}

// receive waits for the next start.
func (s *supervisor) receive() (*notification, error) {
	for {
		waiting := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.stop), Events: unix.POLLIN}}
		if _, err := unix.Poll(waiting, -1); errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return nil, err
		}
		if waiting[1].Revents != 0 || waiting[0].Revents&unix.POLLIN == 0 {
			return nil, os.ErrClosed
		}
		n := &notification{}
		err := control(s.fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
			continue // the process died before it was looked at
		}
		return n, err
	}
}

// control does an ioctl on the listener.
func control(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// judge says whether a program may start: zero, or the error that the caller gets. What
// is judged is an agent's choice, so a panic refuses this start and nothing else.
func (s *supervisor) judge(n *notification, first bool) (errno unix.Errno) {
	if first || s.ask == nil {
		return 0
	}
	defer func() {
		if failure := recover(); failure != nil {
			s.refuse(Refused{Reason: fmt.Sprintf("a program was not started because judging it failed: %v", failure)})
			errno = unix.EACCES
		}
	}()
	starts, err := startsOf(n)
	// What was read is about this process only if it still waits: its number may
	// belong to another by now.
	if gone := control(s.fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)); gone != nil {
		return unix.ESRCH
	}
	var known unix.Errno
	switch {
	case errors.As(err, &known) && isMissing(known):
		return known // what the kernel would say, too
	case err != nil:
		s.refuse(Refused{Reason: "a program was not started because what it is can't be found out: " + err.Error()})
		return unix.EACCES
	}
	for _, start := range starts {
		if reason := s.ask(start); reason != "" {
			s.refuse(Refused{Start: start, Reason: reason})
			return unix.EACCES
		}
	}
	return 0
}

// isMissing says that there is no such program, or none that the user may look at:
// callers that search a list of folders go on with the next.
func isMissing(errno unix.Errno) bool {
	switch errno {
	case unix.EACCES, unix.ENOENT, unix.ENOTDIR, unix.ENAMETOOLONG, unix.EFAULT, unix.E2BIG, unix.EBADF:
		return true
	default:
		return false
	}
}

func (s *supervisor) refuse(r Refused) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) < maxRefusals {
		s.refused = append(s.refused, r)
	}
}
