package stage

import (
	"slices"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

// Compiler turns specs into programs of stages that were forked; see [LauncherMode]. It
// keeps what it wrote last of how commands are confined: most commands of a server differ
// in the command alone. The zero value is ready for use, by many goroutines; nil keeps
// nothing.
type Compiler struct {
	mu   sync.Mutex
	kept []Confined // the newest last
}

// Confined is the part of a program before its command. It doesn't change.
type Confined struct {
	spec   string // which one it is, without the command
	code   []byte // rendered
	header header
	group  uint16 // the last step
	bad    bool
}

// maxConfined is how many are kept: there is one for each workspace that is worked in.
const maxConfined = 16

// Compile returns the program of a spec, in parts.
func (c *Compiler) Compile(s *Spec) ([][]byte, error) { return c.Confine(s).Program(s) }

// Program returns the whole program of a spec whose confinement this is, in parts. They
// must not be changed.
func (before Confined) Program(s *Spec) ([][]byte, error) {
	if before.bad {
		return nil, syscall.EINVAL
	}
	b := &builder{group: before.group}
	b.start(s)
	if b.bad {
		// What can't be told to the kernel is refused like what it refuses.
		b = &builder{group: before.group}
		b.step(StepStart)
		b.prctl(noSuchOption, 0)
	}
	at, h := codeAt+uint32(len(before.code)), before.header
	h.start = span{at, at + uint32(len(b.ops))*opSize}
	return [][]byte{joinProgram(h), before.code, b.render(at)}, nil
}

// Confine returns the part of a program before its command. It is written from a spec that
// has none, so that it can't depend on one.
func (c *Compiler) Confine(s *Spec) Confined {
	without := *s
	without.Path, without.Argv, without.Env, without.Dir, without.TTY = "", nil, nil, "", false
	if c == nil {
		return confineStage(&without, "")
	}
	spec := without.identify()
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.kept, func(k Confined) bool { return k.spec == spec })
	if i < 0 {
		c.kept = append(c.kept[max(0, len(c.kept)+1-maxConfined):], confineStage(&without, spec))
		i = len(c.kept) - 1
	}
	return c.kept[i]
}

// identify returns a text that no two different specs share. The encoded form leaves out
// what only a forked stage is told.
func (s *Spec) identify() string {
	w := &writer{b: EncodeSpec(s)}
	for _, limit := range s.OpenFiles {
		w.num(&limit)
	}
	w.num(&s.Watch)
	w.num(&s.EnterNet)
	return string(w.b)
}

func confineStage(s *Spec, spec string) Confined {
	b := newBuilder()
	h := b.stage(s)
	for _, part := range []*span{&h.prepare, &h.restrict} {
		part.from, part.to = codeAt+part.from*opSize, codeAt+part.to*opSize
	}
	return Confined{spec: spec, code: b.render(codeAt), header: h, group: b.group, bad: b.bad}
}

// noSuchOption is one that prctl calls invalid.
const noSuchOption = 1<<31 - 1

// stage writes what happens before the command.
func (b *builder) stage(s *Spec) (h header) {
	h.files = 3 + uint32(s.Tasks)
	if s.EnterNet != 0 {
		h.files++
	}
	b.takeFiles(s)
	b.prepare(s)
	h.prepare.to = uint32(len(b.ops))
	h.restrict.from = h.prepare.to
	b.restrict(s)
	h.restrict.to = uint32(len(b.ops))
	return h
}

// takeFiles takes over what came with the spec: standard input, output and error.
// The parent opened them: a file that is open for writing in this namespace would
// keep its mount from becoming read-only.
//
// Nothing else may reach the command, not even files that the parent's own parent
// left open: such a file, or a folder, is outside of every boundary.
func (b *builder) takeFiles(s *Spec) {
	if s.Probe {
		return
	}
	b.step(StepFiles)
	for to := range 3 {
		from := atFiles + 4*uint32(to)
		b.call(syscall.SYS_DUP3, load(from), value(to), value(0))
		b.closeCell(from)
	}
	if !s.KeepFiles {
		b.call(sysCloseRange, value(3), value(uint64(1<<32-1)), value(closeRangeCloexec))
	}
}

// prepare does what needs privileges: mounts and network. Nothing of the command
// runs yet.
func (b *builder) prepare(s *Spec) {
	b.step(StepDumpable)
	b.prctl(prSetDumpable, 0)
	if !s.PidNS {
		b.step(StepSubreaper)
		b.prctl(prSetSubreaper, 1)
	}
	if s.MountNS {
		b.mounts(s)
	}
	if s.EnterNet != 0 {
		b.step(StepEnterNet)
		fd := atFiles + 4*(3+uint32(s.Tasks))
		b.call(uintptr(s.EnterNet), load(fd), value(syscall.CLONE_NEWNET))
		b.closeCell(fd)
	}
	if s.Loopback {
		b.step(StepLoopback)
		b.loopbackUp()
	}
	if s.ProxyPort != 0 {
		b.step(StepListen)
		b.listen(s)
	}
}

func (b *builder) prctl(option, v uintptr) *op {
	return b.call(syscall.SYS_PRCTL, value(option), value(v), value(0), value(0), value(0))
}

// ifreqFlags is the part of struct ifreq that sets an interface's flags.
type ifreqFlags struct {
	name  [syscall.IFNAMSIZ]byte
	flags uint16
	_     [22]byte
}

// loopbackUp lets programs inside talk to each other. The namespace has no other
// device.
func (b *builder) loopbackUp() {
	fd := b.cell()
	b.call(sysSocket, value(syscall.AF_INET), value(syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC), value(0)).into(fd)
	req := ifreqFlags{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(req.name[:], "lo")
	b.call(syscall.SYS_IOCTL, load(fd), value(syscall.SIOCSIFFLAGS), address(place(b, req)))
	b.closeCell(fd)
}

// listen opens the proxy's door inside. A socket stays in the namespace where it
// was made, no matter which process has it: so the parent can accept on it, and no
// relay is needed.
func (b *builder) listen(s *Spec) {
	sa := syscall.RawSockaddrInet4{Family: syscall.AF_INET, Addr: [4]byte{127, 0, 0, 1}}
	port := (*[2]byte)(unsafe.Pointer(&sa.Port))
	port[0], port[1] = byte(s.ProxyPort>>8), byte(s.ProxyPort)
	fd := b.cell()
	b.call(sysSocket, value(syscall.AF_INET), value(syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC), value(0)).into(fd)
	b.call(sysBind, load(fd), address(place(b, sa)), value(unsafe.Sizeof(sa)))
	b.call(sysListen, load(fd), value(128))
	// Only now, so that the listener appears only once it listens.
	b.call(syscall.SYS_FCNTL, load(fd), value(syscall.F_DUPFD_CLOEXEC), value(0)).into(atListener)
	b.closeCell(fd)
}

// restrict gives up, on this thread and for what it forks, everything that the
// command shall not have. Seccomp is last: the filter may forbid the steps before.
func (b *builder) restrict(s *Spec) {
	b.step(StepTasks)
	b.enterTasks(s)
	b.step(StepLimits)
	b.limits(s)
	// Without no_new_privs a filter takes a capability that goes next.
	early := len(s.Seccomp) > 0 && !s.NoNewPrivs
	if early {
		b.step(StepSeccomp)
		b.seccomp(s)
	}
	if s.DropCaps {
		b.step(StepCaps)
		b.dropCaps()
	}
	if s.KeepCover {
		b.step(StepCaps)
		b.keepCover()
	}
	if s.NoNewPrivs {
		b.step(StepNoNewPrivs)
		b.prctl(prSetNoNewPrivs, 1)
	}
	if s.LandlockFS != 0 || s.LandlockNet != 0 || s.LandlockScoped != 0 {
		b.step(StepLandlock)
		b.landlock(s)
	}
	if len(s.Seccomp) > 0 && !early {
		b.step(StepSeccomp)
		b.seccomp(s)
	}
}

// enterTasks moves this one thread into its control groups. A thread that moves
// itself needs no lock over all processes, which moving a process would wait for
// during several milliseconds.
func (b *builder) enterTasks(s *Spec) {
	for i := range uint32(s.Tasks) {
		fd := atFiles + 4*(3+i)
		b.call(syscall.SYS_WRITE, load(fd), b.text("0"), value(1))
		b.closeCell(fd)
	}
}

func (b *builder) limits(s *Spec) {
	set := func(resource, soft, hard uint64) {
		b.call(sysPrlimit, value(0), value(resource), address(place(b, syscall.Rlimit{Cur: soft, Max: hard})), value(0))
	}
	for _, l := range s.Limits {
		set(l.Resource, l.Value, l.Value)
	}
	if s.OpenFiles != [2]uint64{} {
		set(syscall.RLIMIT_NOFILE, s.OpenFiles[0], s.OpenFiles[1])
	}
}

// start executes the command, in a process that was forked for it. A Go program
// ignores some signals if its parent ignored them, as nohup and shells in the
// background do, and its children would, too: a command that no Control-C reaches.
func (b *builder) start(s *Spec) {
	b.step(StepStart)
	argv, env := b.addresses(s.Argv), b.addresses(s.Env)
	for _, sig := range inherited {
		// Zero is SIG_DFL without flags.
		b.call(syscall.SYS_RT_SIGACTION, value(int(sig)), address(place(b, [4]uint64{})), value(0), value(signalSetSize))
	}
	b.call(syscall.SYS_SETSID)
	if s.TTY {
		b.call(syscall.SYS_IOCTL, value(0), value(syscall.TIOCSCTTY), value(1))
	}
	if s.Dir != "" {
		b.call(syscall.SYS_CHDIR, b.text(s.Dir))
	}
	b.call(syscall.SYS_RT_SIGPROCMASK, value(sigSetMask), address(atMask), value(0), value(signalSetSize))
	b.call(syscall.SYS_EXECVE, b.text(s.Path), address(argv), address(env))
}

// privateOptions are those of a private directory.
func privateOptions(s *Spec) string {
	if s.PrivateBytes == 0 {
		return "mode=1777"
	}
	return "mode=1777,size=" + strconv.FormatUint(s.PrivateBytes, 10)
}
