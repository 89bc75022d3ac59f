package stage

import (
	"errors"
	"syscall"
)

// Exit codes of the stage itself. What became of the command is told over the
// socket.
const (
	exitDone   = 0
	exitFailed = 125
)

func init() { //nolint:gochecknoinits // measured: see the package comment, "Why it runs in an init function"
	if _, ok := syscall.Getenv(Marker); ok {
		// All init functions run on the startup thread, which package runtime
		// documents, and this one never returns: the thread is ours without
		// LockOSThread, whose first call would start one thread more.
		syscall.Exit(run(conn{ControlFD}))
	}
}

// stage is the state of one run.
type stage struct {
	*Spec
	conn   conn
	failed []Failed

	trees    []int // clones of Keep, in its order
	devices  []int // clones of devices, in the order of the table
	tasks    []int // open files of Tasks
	listener int   // the proxy's listener, or -1

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
	s := &stage{Spec: spec, conn: c, listener: -1}
	s.step(StepFiles, func() error { return s.takeFiles(fds) })
	s.prepare()
	if s.Probe {
		s.restrict()
	}
	if len(s.failed) > 0 {
		c.send(MsgFailed, EncodeFailed(s.failed), -1)
		return exitFailed
	}
	c.send(MsgReady, nil, s.listener)
	if s.Probe {
		return exitDone
	}
	if s.listener >= 0 {
		_ = syscall.Close(s.listener)
	}
	if kind, _, err := c.receive(); err != nil || kind != MsgGo {
		return exitDone // the parent changed its mind or died: nothing has run
	}
	s.restrict()
	if len(s.failed) == 0 {
		s.step("start the command", s.start)
	}
	if len(s.failed) > 0 {
		c.send(MsgFailed, EncodeFailed(s.failed), -1)
		return exitFailed
	}
	s.follow()
	return exitDone
}

// step does one step unless one before failed; a probe tries them all. It tells
// whether the step was done.
func (s *stage) step(name string, do func() error) bool {
	if len(s.failed) > 0 && !s.Probe {
		return false
	}
	err := do()
	if err == nil {
		return true
	}
	errno := syscall.EINVAL
	errors.As(err, &errno)
	s.failed = append(s.failed, Failed{Step: name, Errno: uint64(errno)})
	return false
}

// inherited are the signals that a Go program goes on to ignore if whoever started it
// did, as nohup and shells in the background do. Its children would, too: a command
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
func (s *stage) start() error {
	attr := &syscall.ProcAttr{
		Dir:   s.Dir,
		Env:   s.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: s.TTY, Ctty: 0, PidFD: &s.pidfd},
	}
	if s.Env == nil {
		attr.Env = []string{}
	}
	if err := heedSignals(); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(s.Path, s.Argv, attr)
	if err != nil {
		return err
	}
	s.leaf = pid
	// The pipes and the terminal are the command's now: their other ends must see
	// the end when it, and not when the stage, closes them.
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	return nil
}
