package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"agentd/sandbox/internal/stage"

	"golang.org/x/sys/unix"
)

// Child is a command in its sandbox, with everything that it starts.
type Child struct {
	proc  *os.Process
	conn  *net.UnixConn
	group group
	pidNS bool
	// forked by a launcher: it takes a program, with this limit of open files.
	forked    bool
	openFiles [2]uint64
	programs  *programs
	// net is the network namespace that the command gets, if it may be used again, and
	// nets where it goes then. The stage enters it, unless it was born in it.
	net       *os.File
	nets      *namespaces
	entersNet bool
	noSockets bool // told at the end
	// groups is where the group goes when the stage has told that all went well.
	groups *groups
	told   bool

	done   chan struct{} // closed when exit is known
	closed chan struct{} // closed when nothing is left
	exit   Exit

	mu      sync.Mutex // guards what follows
	allowed []string
	tmp     string
	proxy   *proxy
	kill    bool
	// ask is the command's supervision, supervisor what serves it.
	ask        func(Start) string
	supervisor *supervisor
}

// errNoCommand says that there is nothing to run.
var errNoCommand = errors.New("no command")

// Start starts the process that will become the command. Nothing of the command
// runs before [Child.Go]. A child that was started must be closed.
func (p *Plan) Start(cmd Command) (*Child, error) {
	if err := cmd.check(); err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	c, err := p.beginStage(nil)
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	return c.become(p, cmd)
}

func (c Command) check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errNoCommand
	}
	return nil
}

// beginStage starts a stage in the namespaces and control groups of the plan, by the
// launcher if there is one. It waits for its specification.
func (p *Plan) beginStage(l *launcher) (*Child, error) {
	c := &Child{done: make(chan struct{}), closed: make(chan struct{}), pidNS: p.use.pid}
	var err error
	if l != nil && p.keepsGroup() {
		c.groups = &l.groups
		c.group, err = c.groups.takeGroup(p)
	} else {
		c.group, err = p.makeGroup()
	}
	if err != nil {
		return nil, err
	}
	sys, err := p.attributes(c.group)
	if err == nil {
		if l != nil && p.keepsNet() {
			c.takeNet(&l.nets, sys)
		}
		err = c.launchStage(sys, l)
	}
	if err != nil {
		c.returnNet()
		c.cleanUp()
		return nil, err
	}
	c.findNet()
	go c.followStage()
	return c, nil
}

// become makes a stage that waits the command's. If that fails, the child is
// closed.
func (c *Child) become(p *Plan, cmd Command) (*Child, error) {
	if err := c.sendSpec(p, cmd); err != nil {
		_ = c.Kill()
		c.Close()
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	return c, nil
}

// sendSpec sends the spec and the files.
func (c *Child) sendSpec(p *Plan, cmd Command) error {
	if err := c.group.limit(p); err != nil {
		return err
	}
	tmp := "/tmp"
	if p.Confined() && !p.use.mount {
		var err error
		if tmp, err = os.MkdirTemp("", "agentd-tmp-"); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.allowed, c.ask = p.Profile.AllowedHosts, cmd.Supervise
	if tmp != "/tmp" {
		c.tmp = tmp
	}
	c.mu.Unlock()
	fds, null, err := cmd.streams()
	defer closeDescriptors(null) // the stage has its own
	if err != nil {
		return err
	}
	tasks, done, err := c.group.enter()
	defer done() // the stage has its own
	if err != nil {
		return err
	}
	fds = append(fds, tasks...)
	if c.entersNet {
		fds = append(fds, int(c.net.Fd()))
	}
	message, err := c.message(p, cmd, tmp)
	if err != nil {
		return err
	}
	return c.sendParts(message, unix.UnixRights(fds...))
}

// sendParts sends a message that lies in parts, and descriptors with it.
func (c *Child) sendParts(parts [][]byte, rights []byte) error {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		n, failed = uninterrupted(func() (int, error) {
			return unix.SendmsgBuffers(int(fd), parts, rights, nil, unix.MSG_NOSIGNAL)
		})
		return failed != unix.EAGAIN //nolint:errorlint // a plain number of the kernel
	})
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	for _, part := range parts {
		sent := min(n, len(part))
		n -= sent
		if sent == len(part) {
			continue
		}
		if _, err := c.conn.Write(part[sent:]); err != nil {
			return err
		}
	}
	return nil
}

// streams are the descriptors of standard input, output and error. Those of null are to be
// closed again.
func (c Command) streams() (fds, null []int, err error) {
	for _, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		if f != nil {
			fds = append(fds, int(f.Fd()))
			continue
		}
		if null == nil {
			fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return nil, nil, fmt.Errorf("open %s: %w", os.DevNull, err)
			}
			null = append(null, fd)
		}
		fds = append(fds, null[0])
	}
	return fds, null, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Capabilities that the stage needs in a user namespace of ours.
var stageCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE}

// attributes says how the stage's process is made.
func (p *Plan) attributes(g group) (*syscall.SysProcAttr, error) {
	sys := &syscall.SysProcAttr{Setsid: true}
	for flag, used := range map[uintptr]bool{
		unix.CLONE_NEWNS: p.use.mount, unix.CLONE_NEWPID: p.use.pid, unix.CLONE_NEWIPC: p.use.ipc, unix.CLONE_NEWNET: p.use.net,
	} {
		if used {
			sys.Cloneflags |= flag
		}
	}
	if p.use.user {
		enterUser(sys)
	}
	if g.unified != "" {
		fd, err := unix.Open(g.unified, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open control group: %w", err)
		}
		sys.UseCgroupFD, sys.CgroupFD = true, fd
	}
	return sys, nil
}

// enterUser puts the process into a user namespace where every id is itself: root
// can map all, others themselves alone.
func enterUser(sys *syscall.SysProcAttr) {
	sys.Cloneflags |= unix.CLONE_NEWUSER
	uid, gid := os.Getuid(), os.Getgid()
	size := 1
	if uid == 0 {
		gid, size = 0, 1<<32-1
		sys.GidMappingsEnableSetgroups = true
	}
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: size}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: size}}
	sys.AmbientCaps = stageCaps
}

// launchStage starts the stage: by the launcher, or without one as a start of our own
// binary.
func (c *Child) launchStage(sys *syscall.SysProcAttr, l *launcher) (err error) {
	if sys.UseCgroupFD {
		defer unix.Close(sys.CgroupFD) // only named a place
	}
	if l != nil {
		c.forked, c.openFiles, c.programs = true, l.openFiles, &l.programs
		c.proc, c.conn, err = l.fork(sys)
		return err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close() // the stage has its own
	if c.proc, err = startSelf("1", theirs, sys); err != nil {
		return errors.Join(err, ours.Close())
	}
	c.conn = ours
	return nil
}

// startSelf starts our own binary as a stage, or as what the mode says.
func startSelf(mode string, control *os.File, sys *syscall.SysProcAttr) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close() // the stage has its own
	// One processor and no garbage collector: the stage lives for a few system
	// calls and must not be slower than they are.
	return os.StartProcess("/proc/self/exe", []string{"agentd-sandbox"}, &os.ProcAttr{
		Dir: "/", Env: []string{stage.Marker + "=" + mode, "GOMAXPROCS=1", "GOGC=off"},
		Files: []*os.File{null, null, null, control}, Sys: sys,
	})
}

// Pid of the process at the top of the tree, as the machine numbers it. Its end is
// the end of the tree.
func (c *Child) Pid() int { return c.proc.Pid }

// Cgroup is the directory of the tree's control group, or empty.
func (c *Child) Cgroup() string { return c.group.name() }

// Go lets the command run.
func (c *Child) Go() error { return c.sendMessage(stage.MsgGo, nil) }

// Signal sends a signal, by its number, to the command's process group, or to
// every process of the tree.
func (c *Child) Signal(sig int, all bool) error {
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
	}
	payload := []byte{byte(sig), 0}
	if all {
		payload[1] = 1
	}
	return c.sendMessage(stage.MsgSignal, payload)
}

func (c *Child) sendMessage(kind byte, payload []byte) error {
	if _, err := c.conn.Write(stage.Message(kind, payload)); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}

// Kill ends the whole tree at once. The end is there when [Child.Wait] returns.
func (c *Child) Kill() error {
	c.mu.Lock()
	c.kill = true
	c.mu.Unlock()
	if c.pidNS {
		// The kernel ends a pid namespace with its init.
		return c.proc.Kill()
	}
	// The stage ends the tree when its socket ends; if the command stopped it, it is
	// woken first. The control group, if there is one, needs no help.
	_ = c.proc.Signal(syscall.SIGCONT)
	err := c.conn.CloseWrite()
	if c.group.exists() {
		c.group.kill()
	}
	return err
}

// Done is closed when the command's whole tree has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait returns when the command's whole tree has ended.
func (c *Child) Wait() Exit {
	<-c.done
	return c.exit
}

// Close waits until nothing of the child is left: its process, its control group,
// its private directory, its proxy. A child that still runs is killed.
func (c *Child) Close() {
	select {
	case <-c.done:
	default:
		_ = c.Kill()
	}
	<-c.closed
}

// followStage reads what the stage says until it ends, then cleans up. It is the
// child's one goroutine.
func (c *Child) followStage() {
	defer close(c.closed)
	known := false
	for {
		kind, payload, file, err := c.receive()
		if err != nil {
			break
		}
		switch kind {
		case stage.MsgReady:
			c.serveProxy(file)
		case stage.MsgSupervise:
			c.supervise(file)
		case stage.MsgFailed:
			c.finishExit(c.failedExit(stageFailure(payload)))
			known = true
		case stage.MsgStopped:
			c.finishExit(c.failedExit(stageStopped(payload)))
			known = true
		case stage.MsgExited:
			c.finishExit(c.reportedExit(payload))
			known = true
		}
	}
	state, _ := c.proc.Wait()
	if !known {
		c.finishExit(c.vanishedExit(state))
	}
	c.returnNet() // nothing that was in it is left
	_ = c.conn.Close()
	c.cleanUp()
}

// finishExit makes the exit known.
func (c *Child) finishExit(e Exit) {
	if !e.Success() {
		e.OutOfMemory, e.ForksRefused = c.group.counts()
	}
	c.mu.Lock()
	if c.proxy != nil {
		e.RefusedHosts = c.proxy.refusedHosts()
	}
	if c.supervisor != nil {
		e.Refused = c.supervisor.refusals()
	}
	c.mu.Unlock()
	c.exit = e
	close(c.done)
}

// serveProxy accepts for the proxy inside.
func (c *Child) serveProxy(file *os.File) {
	if file == nil {
		return
	}
	defer file.Close() // FileListener has a copy
	listener, err := net.FileListener(file)
	if err != nil {
		return // connections inside are refused, which is the safe side
	}
	c.mu.Lock()
	c.proxy = newProxy(listener, c.allowed)
	c.mu.Unlock()
}

// supervise answers for the programs that the command starts. Without a listener the
// kernel refuses all of them, the command itself too.
func (c *Child) supervise(listener *os.File) {
	if listener == nil {
		return
	}
	c.mu.Lock()
	ask := c.ask
	c.mu.Unlock()
	s, err := newSupervisor(listener, ask)
	if err != nil {
		_ = listener.Close() // starts are refused, which is the safe side
		return
	}
	c.mu.Lock()
	c.supervisor = s
	c.mu.Unlock()
}

// cleanUp removes what the run needed outside.
func (c *Child) cleanUp() {
	c.mu.Lock()
	p, s, tmp := c.proxy, c.supervisor, c.tmp
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
	if p != nil {
		p.close()
	}
	if c.group.exists() {
		if !c.pidNS {
			c.group.kill()
		}
		if !c.told || !c.groups.takeBack(c.group) {
			c.group.remove()
		}
	}
	if tmp != "" {
		_ = os.RemoveAll(tmp)
	}
}

// reportedExit reads the status that the stage reports.
func (c *Child) reportedExit(payload []byte) Exit {
	x, err := stage.DecodeExited(payload)
	if err != nil {
		return Exit{Failure: fmt.Errorf("sandbox: exit status: %w", err)}
	}
	c.told, c.noSockets = true, x.NoSockets == 1
	e := statusExit(syscall.WaitStatus(x.WaitStatus))
	e.CPU = time.Duration(x.CPUMicros) * time.Microsecond
	e.MaxRSS = int64(x.MaxRSSKiB) << 10
	return e
}

// statusExit translates a wait status.
func statusExit(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Signal: int(status.Signal()), Code: 128 + int(status.Signal())}
	}
	return Exit{Code: status.ExitStatus()}
}

// failedExit is the exit of a child that did not start; one that was being killed
// in the meantime was killed.
func (c *Child) failedExit(why error) Exit {
	c.mu.Lock()
	killed := c.kill
	c.mu.Unlock()
	if killed {
		return c.vanishedExit(nil)
	}
	return Exit{Failure: why}
}

// vanishedExit is the exit of a child whose stage ended without a word.
func (c *Child) vanishedExit(state *os.ProcessState) Exit {
	c.mu.Lock()
	killed := c.kill
	c.mu.Unlock()
	e := Exit{Killed: true, Signal: int(syscall.SIGKILL), Code: 128 + int(syscall.SIGKILL)}
	if killed || state == nil {
		return e
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal, e.Code = int(status.Signal()), 128+int(status.Signal())
	}
	return e
}

// stageFailure names the steps that the stage could not do.
func stageFailure(payload []byte) error {
	failed, err := stage.DecodeFailed(payload)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	var all []error
	for _, f := range failed {
		all = append(all, stepFailure(f))
	}
	return errors.Join(all...)
}

// stageStopped names the step that a forked stage could not do.
func stageStopped(payload []byte) error {
	f, err := stage.DecodeStopped(payload)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return stepFailure(f)
}

func stepFailure(f stage.Failed) error {
	return fmt.Errorf("sandbox: %s: %w", f.Step, syscall.Errno(f.Errno))
}
