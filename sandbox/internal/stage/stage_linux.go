package stage

import (
	"errors"
	"syscall"
	"unsafe"
)

// Exit codes of the stage itself. The command's outcome is reported over the
// socket.
const (
	exitDone   = 0
	exitFailed = 125
)

func init() { //nolint:gochecknoinits // measured: see the package comment, "Why it runs in an init function"
	mode, ok := syscall.Getenv(Marker)
	if !ok {
		return
	}
	// All init functions run on the startup thread, which package runtime
	// documents, and this one never returns: the thread is ours without
	// LockOSThread, whose first call would start one thread more.
	if mode == LauncherMode {
		syscall.Exit(launcher(ControlFD))
	}
	syscall.Exit(run(conn{ControlFD}))
}

// stage is the state of one run.
type stage struct {
	*Spec
	conn conn
	area *area
	prog header

	leaf   int
	pidfd  int
	status syscall.WaitStatus
	ended  bool
}

// run is the life of the stage.
func run(c conn) int {
	syscall.CloseOnExec(c.fd)
	spec, fds, err := c.receiveSpec()
	if err != nil {
		return exitFailed
	}
	s := &stage{Spec: spec, conn: c}
	s.compile(fds)
	s.area.run(s.prog.prepare, s.Probe)
	if s.Probe {
		s.area.run(s.prog.restrict, true)
	}
	if s.gaveUp() {
		return exitFailed
	}
	c.send(MsgReady, nil, int(s.area.listener))
	if s.Probe {
		return exitDone
	}
	if s.area.listener >= 0 {
		_ = syscall.Close(int(s.area.listener))
	}
	if kind, _, err := c.receive(); err != nil || kind != MsgGo {
		return exitDone // the parent changed its mind or died: nothing has run
	}
	s.area.run(s.prog.restrict, false)
	if s.area.supervisor >= 0 {
		c.send(MsgSupervise, nil, int(s.area.supervisor))
		_ = syscall.Close(int(s.area.supervisor))
	}
	s.start()
	if s.gaveUp() {
		return exitFailed
	}
	s.follow()
	return exitDone
}

// compile makes the program of what comes before the command, and the memory that
// it runs in.
func (s *stage) compile(fds []int) {
	b := newBuilder()
	h := b.stage(s.Spec)
	program := b.finish(h)
	memory := make([]uint64, (payloadAt+len(program)+7)/8)
	s.area = (*area)(unsafe.Pointer(&memory[0]))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), len(memory)*8)[payloadAt:], program)
	s.prog = *(*header)(unsafe.Add(unsafe.Pointer(s.area), payloadAt))
	s.area.listener, s.area.supervisor, s.area.watch = -1, -1, -1
	switch {
	case b.bad:
		s.area.fail(0, syscall.EINVAL)
	case !s.Probe && len(fds) != int(h.files):
		s.area.fail(0, syscall.EBADF)
	}
	for i, fd := range fds[:min(len(fds), maxRights)] {
		s.area.fds[i] = int32(fd)
	}
	if s.area.failures > 0 {
		s.prog = header{}
	}
}

// gaveUp reports the steps that failed, if any did.
func (s *stage) gaveUp() bool {
	var failed []Failed
	for _, f := range s.area.failed[:s.area.failures] {
		failed = append(failed, Failed{Step: stepName(f.name), Errno: uint64(f.errno)})
	}
	if len(failed) > 0 {
		s.conn.send(MsgFailed, EncodeFailed(failed), -1)
	}
	return len(failed) > 0
}

// inherited are the signals that a Go program keeps ignoring if its parent ignored
// them, as nohup and shells in the background do. Its children would, too: a command
// that no Control-C reaches.
var inherited = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE,
	syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	32, 33, // those of the C library, which Go leaves alone
}

// heedSignals gives the command the usual dispositions. The stage itself is the init of
// its namespace, which the kernel shields from the default, or has a session of its own.
func heedSignals() error {
	for _, sig := range inherited {
		if err := defaultSignal(sig); err != nil {
			return err
		}
	}
	return nil
}

// start forks the command from this thread, so that it inherits every
// restriction.
func (s *stage) start() {
	if s.area.failures > 0 {
		return
	}
	if err := s.forkExec(); err != 0 {
		s.area.fail(stepStart, err)
	}
}

func (s *stage) forkExec() syscall.Errno {
	attr := &syscall.ProcAttr{
		Dir:   s.Dir,
		Env:   s.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: s.TTY, Ctty: 0, PidFD: &s.pidfd},
	}
	if s.Env == nil {
		attr.Env = []string{}
	}
	if err := errors.Join(heedSignals(), s.keepLimit()); err != nil {
		return number(err)
	}
	pid, err := syscall.ForkExec(s.Path, s.Argv, attr)
	if err != nil {
		return number(err)
	}
	s.leaf = pid
	// The pipes and the terminal are the command's now: their other ends must see
	// the end when it, and not when the stage, closes them.
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	return 0
}

// keepLimit tells package syscall of a limit of open files: it gives what it forks
// back the one from before the runtime raised it, unless it knows of a new one.
func (s *stage) keepLimit() error {
	for _, l := range s.Limits {
		if l.Resource == syscall.RLIMIT_NOFILE {
			return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: l.Value, Max: l.Value})
		}
	}
	return nil
}

// number is what the kernel said.
func number(err error) syscall.Errno {
	errno := syscall.EINVAL
	errors.As(err, &errno)
	return errno
}
