package sandbox

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// supervisor answers the kernel's question whether a program may start. The process
// that asks waits meanwhile; when the listener is closed, every start is refused.
//
// The kernel reads the arguments again after the answer, so a program that rewrites
// them from another thread in that moment starts what nobody judged. Such a program
// could also copy what it wants to run, or do itself what the program would do: it is
// past what rules about programs can hold, and the rest of the sandbox holds it.
type supervisor struct {
	listener *os.File
	raw      syscall.RawConn
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
	// The file has to be waited for by the runtime's poller.
	fd, err := unix.FcntlInt(listener.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	pollable := os.NewFile(uintptr(fd), "supervisor")
	raw, err := pollable.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, pollable.Close())
	}
	_ = listener.Close() // pollable is a copy
	s := &supervisor{listener: pollable, raw: raw, ask: ask, done: make(chan struct{})}
	go s.serve()
	return s, nil
}

// close ends the supervision and waits for it.
func (s *supervisor) close() {
	_ = s.listener.Close()
	<-s.done
}

// refusals are what was refused so far.
func (s *supervisor) refusals() []Refused {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// serve answers until the last process of the command has ended. The first start is
// the command's own, which was judged before.
func (s *supervisor) serve() {
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
		_ = s.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
	}
}

// receive waits for the next start.
func (s *supervisor) receive() (*notification, error) {
	for {
		n := &notification{}
		var got error
		err := s.raw.Read(func(fd uintptr) bool {
			waiting := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			_, err := unix.Poll(waiting, 0)
			for errors.Is(err, unix.EINTR) {
				_, err = unix.Poll(waiting, 0)
			}
			switch {
			case err != nil:
				got = err
				return true
			case waiting[0].Revents&unix.POLLIN != 0:
				got = control(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
				return true
			case waiting[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
				got = os.ErrClosed
				return true
			}
			return false
		})
		switch {
		case err != nil:
			return nil, err
		case errors.Is(got, unix.ENOENT), errors.Is(got, unix.EINTR):
			continue // the process died before it was looked at
		case got != nil:
			return nil, got
		}
		return n, nil
	}
}

// control does an ioctl on the listener.
func (s *supervisor) control(request uintptr, arg unsafe.Pointer) error {
	var got error
	err := s.raw.Control(func(fd uintptr) { got = control(fd, request, arg) })
	return errors.Join(err, got)
}

func control(fd, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// judge says whether a program may start: zero, or the error that the caller gets.
func (s *supervisor) judge(n *notification, first bool) unix.Errno {
	if first || s.ask == nil {
		return 0
	}
	starts, err := startsOf(n)
	// What was read is about this process only if it still waits: its number may
	// belong to another by now.
	if gone := s.control(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)); gone != nil {
		return unix.ESRCH
	}
	var errno unix.Errno
	switch {
	case errors.As(err, &errno) && missing(errno):
		return errno // what the kernel would say, too
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

// missing says that there is no such program, or none that the user may look at:
// callers that search a list of folders go on with the next.
func missing(errno unix.Errno) bool {
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
