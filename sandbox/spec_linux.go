package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentd/sandbox/internal/stage"

	"golang.org/x/sys/unix"
)

// Rights of Landlock, by the ABI that brought them.
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// devicePaths can be written in every profile.
var devicePaths = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
}

// systemPaths can be read even where read roots narrow everything else.
var systemPaths = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix", "/dev", "/proc", "/sys",
	"/run/systemd/resolve", // where many machines keep what /etc/resolv.conf points to
}

// privatePaths get a file system of their own.
var privatePaths = []string{"/tmp", "/var/tmp"}

// confinement says to the stage what the plan decided, but for the command.
func (p *Plan) confinement(g group, tmp string, supervised, watched bool) *stage.Spec {
	u := p.use
	s := &stage.Spec{
		MountNS: u.mount, PidNS: u.pid, NetNS: u.net,
		NoNewPrivs: u.noNewPrivs, DropCaps: u.dropCaps,
		Tasks: uint64(len(g.tasks())), Limits: p.rlimits(),
		Loopback: u.net, KeepFiles: p.report.Inherited != "",
	}
	if u.proxy {
		s.ProxyPort = proxyPort
	}
	if u.mount {
		s.Pinned, s.Protected = p.pinned(), p.Profile.Protected
		for _, path := range p.Profile.Hidden {
			if !p.isHiddenInside(path) {
				s.Hidden = append(s.Hidden, p.identifiedFile(path))
			}
		}
		s.KeepCover = u.cover && !u.dropCaps
	}
	if u.mount && !u.cover {
		s.ReadOnly, s.Dev, s.Proc = true, true, u.proc
		s.Private, s.PrivateBytes = privatePaths, p.privateBytes()
		s.Keep = p.keptTrees()
	}
	if u.pidMax {
		s.PidMax = uint64(max(p.Profile.Limits.Processes, minPidMax))
	}
	if u.landlock {
		p.landlock(s, tmp)
	}
	if u.seccomp || supervised {
		wants := p.filterWants(supervised)
		wants.watch = watched
		s.Seccomp = seccompFilter(wants)
	}
	if supervised {
		s.Supervise = unix.SYS_SECCOMP
	} else if watched {
		s.Watch = unix.SYS_SECCOMP
	}
	return s
}

// command adds to a specification what runs.
func (p *Plan) command(s *stage.Spec, cmd Command, tmp string) {
	port := 0
	if p.use.proxy {
		port = proxyPort
	}
	env := commandEnv(p.Profile, os.LookupEnv, cmd.TTY, tmp, port)
	for _, entry := range cmd.Env {
		env = setEnv(env, entry)
	}
	s.Argv, s.Env, s.Dir, s.TTY = cmd.Argv, env, firstNonEmpty(cmd.Dir, p.Profile.Cwd), cmd.TTY
	s.Path = lookPath(cmd.Argv[0], env, s.Dir)
}

// isHiddenInside says that a path isn't there inside, because a private directory is in its
// place: nothing has to be covered.
func (p *Plan) isHiddenInside(path string) bool {
	in := func(dir string) bool { return pathWithin(path, dir) }
	return !p.use.cover && slices.ContainsFunc(privatePaths, in) &&
		!slices.ContainsFunc(p.keptTrees(), func(t stage.Tree) bool { return in(t.Path) })
}

// identifiedFile is a path with what it is known by.
func (p *Plan) identifiedFile(path string) stage.File {
	id := p.Profile.Identities[path]
	return stage.File{Path: path, Dev: id.Dev, Ino: id.Ino}
}

// pinned are the folders that may not be renamed, outermost first: those of the
// profile, and all between a write root and what is covered below it. A cover has a
// name, and would come off if a folder above it got another.
func (p *Plan) pinned() []string {
	var out []string
	above := func(path string) {
		for dir := filepath.Dir(path); dir != "/" && dir != "." && p.inWriteRoot(dir); dir = filepath.Dir(dir) {
			if !slices.Contains(p.WriteRoots, dir) {
				out = append(out, dir)
			}
		}
	}
	for _, path := range slices.Concat(p.Profile.Hidden, p.Profile.Protected, p.Profile.Pinned) {
		above(path)
	}
	for _, path := range p.Profile.Pinned {
		if p.inWriteRoot(path) && !slices.Contains(p.WriteRoots, path) {
			out = append(out, path)
		}
	}
	slices.Sort(out) // a folder sorts before what is in it
	return slices.Compact(out)
}

// message says to the stage what to do, in its own language and in parts.
func (c *Child) message(p *Plan, cmd Command, tmp string) ([][]byte, error) {
	supervised := p.use.supervise && cmd.Supervise != nil
	if !c.forked {
		s := p.confinement(c.group, tmp, supervised, false)
		p.command(s, cmd, tmp)
		return fitting(stage.MsgSpec, stage.EncodeSpec(s))
	}
	kind := programKind{p, c.group.unified != "", len(c.group.tasks()), supervised, c.net != nil && p.keepsNet(), c.entersNet}
	confined := c.programs.confine(kind, p.use.mount, func() *stage.Spec { return c.confinement(&kind, tmp) })
	var s stage.Spec
	p.command(&s, cmd, tmp)
	program, err := confined.Program(&s)
	if err != nil {
		return nil, err
	}
	return fitting(stage.MsgProgram, program...)
}

// confinement is what a forked stage is told of the plan.
func (c *Child) confinement(kind *programKind, tmp string) *stage.Spec {
	s := kind.plan.confinement(c.group, tmp, kind.supervised, kind.watched)
	limited := slices.ContainsFunc(s.Limits, func(l stage.Limit) bool { return l.Resource == unix.RLIMIT_NOFILE })
	if !limited {
		s.OpenFiles = c.openFiles
	}
	if kind.entersNet {
		s.EnterNet, s.Loopback = unix.SYS_SETNS, false // which is up there
	}
	return s
}

// fitting frames a message that the stage would take. The kernel takes less, and
// gives the same reason.
func fitting(kind byte, parts ...[]byte) ([][]byte, error) {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if size > stage.MaxMessage {
		return nil, syscall.E2BIG
	}
	return slices.Concat([][]byte{stage.Header(kind, size)}, parts), nil
}

// proxyPort is where the proxy listens inside; the namespace is the command's own.
const proxyPort = 3128

// privateBytes bounds each private directory: it is memory.
func (p *Plan) privateBytes() uint64 {
	mb := p.Profile.Limits.MemoryMB
	if mb == 0 {
		mb = 1024
	}
	return uint64(mb) << 20
}

// keptTrees are the trees that stay: the write roots, and what can be read below a
// directory that becomes private.
func (p *Plan) keptTrees() []stage.Tree {
	var trees []stage.Tree
	below := func(path string) bool {
		return slices.ContainsFunc(privatePaths, func(dir string) bool { return pathWithin(path, dir) })
	}
	for _, path := range outermost(slices.Concat([]string{p.Profile.Root}, p.Profile.ReadRoots, p.Profile.Kept)) {
		if below(path) && !slices.ContainsFunc(p.WriteRoots, func(w string) bool { return pathWithin(path, w) }) {
			trees = append(trees, stage.Tree{File: p.identifiedFile(path), ReadOnly: true})
		}
	}
	for _, path := range p.WriteRoots {
		trees = append(trees, stage.Tree{File: p.identifiedFile(path)})
	}
	return trees
}

// landlock adds the rules for files, and the scopes.
func (p *Plan) landlock(s *stage.Spec, tmp string) {
	abi := p.report.LandlockABI
	s.LandlockFS = landlockRights(abi)
	if abi >= 6 {
		s.LandlockScoped = unix.LANDLOCK_SCOPE_SIGNAL
		if p.Profile.Network != NetworkAllow {
			s.LandlockScoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
	}
	if abi >= 4 && p.use.denySockets {
		s.LandlockNet = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	for _, path := range p.readable() {
		s.Rules = append(s.Rules, stage.Rule{Path: path, Access: readRights})
	}
	devices := devicePaths
	if s.Dev {
		devices = []string{"/dev"} // which has nothing but them, and can't be written to
	}
	for _, path := range devices {
		s.Rules = append(s.Rules, stage.Rule{Path: path, Access: deviceRights})
	}
	writable := append(slices.Clone(p.WriteRoots), tmp)
	if p.use.mount {
		writable = append(append(writable, privatePaths...), "/dev/shm")
		slices.Sort(writable)
		writable = slices.Compact(writable) // the command's own folder may be one of them
	}
	for _, path := range writable {
		s.Rules = append(s.Rules, stage.Rule{Path: path, Access: readRights | writeRights})
	}
}

// landlockRights are all that the ABI knows, so that what isn't allowed is
// forbidden.
func landlockRights(abi int) uint64 {
	rights := uint64(readRights | writeRights)
	if abi < 2 {
		rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < 3 {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// readable are the places that can be read. Where hidden paths can't be covered
// they are left out: every neighbour on the way to them is allowed instead.
func (p *Plan) readable() []string {
	var roots []string
	if len(p.Profile.ReadRoots) == 0 {
		roots = []string{"/"}
	} else {
		roots = slices.Concat(p.ReadRoots, p.Profile.Kept, systemPaths)
	}
	if p.use.mount {
		return roots
	}
	var all []string
	for _, root := range roots {
		all = append(all, withoutHidden(root, p.Profile.Hidden)...)
	}
	return all
}

// withoutHidden returns what is below root but not below the hidden paths.
func withoutHidden(root string, hidden []string) []string {
	inside := false
	for _, h := range hidden {
		if pathWithin(root, h) {
			return nil
		}
		inside = inside || pathWithin(h, root)
	}
	if !inside {
		return []string{root}
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			all = append(all, withoutHidden(filepath.Join(root, e.Name()), hidden)...)
		}
	}
	return all
}

// filterWants says what seccomp forbids under this plan.
func (p *Plan) filterWants(supervised bool) filterWants {
	if !p.use.seccomp {
		return filterWants{supervise: supervised, nothingElse: true}
	}
	w := filterWants{
		supervise:  supervised,
		families:   []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK},
		attributes: p.use.denyAttributes,
		debug:      !p.use.pid && !p.use.landlock,
	}
	if p.Profile.Network == NetworkAllow {
		w.families, w.anyPair = append(w.families, unix.AF_UNIX), true
	}
	if p.use.denySockets {
		w.families = nil
	}
	return w
}

// rlimits are the limits that hold for each process.
func (p *Plan) rlimits() []stage.Limit {
	l := p.Profile.Limits
	limits := []stage.Limit{{Resource: unix.RLIMIT_CORE}}
	add := func(resource int, value int64) {
		if value > 0 {
			limits = append(limits, stage.Limit{Resource: uint64(resource), Value: uint64(value)})
		}
	}
	// The data of a process, not its address space: many runtimes reserve far more
	// of that than they use. A control group counts better.
	if !p.use.cgroupMemory {
		add(unix.RLIMIT_DATA, l.MemoryMB<<20)
	}
	add(unix.RLIMIT_CPU, int64((l.CPU+time.Second-1)/time.Second))
	add(unix.RLIMIT_FSIZE, l.FileSizeMB<<20)
	add(unix.RLIMIT_NOFILE, atMost(unix.RLIMIT_NOFILE, l.OpenFiles))
	if p.use.nproc {
		add(unix.RLIMIT_NPROC, l.Processes+stageThreads)
	}
	return limits
}

// atMost is a limit, or our own hard one if that is lower: an ordinary user can't
// raise it, and what is asked for is that there be no more.
func atMost(resource int, value int64) int64 {
	var own unix.Rlimit
	if unix.Getrlimit(resource, &own) == nil && uint64(value) > own.Max {
		return int64(own.Max)
	}
	return value
}

// LookPath finds a program by its name in the PATH of the plan's commands, or by its
// absolute path.
func (p *Plan) LookPath(name string) (Identity, bool) {
	path := lookPath(name, commandEnv(p.Profile, os.LookupEnv, false, "/tmp", 0), p.Profile.Cwd)
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		path = p.Profile.Cwd + "/" + name // not cleaned: ".." depends on the links before it
	}
	var st unix.Stat_t
	if !filepath.IsAbs(path) || unix.Stat(path, &st) != nil {
		return Identity{}, false
	}
	return Identity{Dev: uint64(st.Dev), Ino: st.Ino}, true //nolint:unconvert // narrower on some architectures
}

// lookPath finds a program in the PATH of the command's environment. What isn't
// found is left to execve, whose error says it.
func lookPath(name string, env []string, dir string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, entry := range env {
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			path := filepath.Join(d, name)
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	return name
}

// ofAnotherUser reports whether a file belongs to another user than this process runs as.
func ofAnotherUser(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) != os.Geteuid()
}
