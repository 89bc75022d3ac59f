package stage

import (
	"errors"
	"strconv"
	"syscall"
	"unsafe"
)

// Names of steps. A probe's report is read by them.
const (
	StepFiles      = "take over the command's files"
	StepDumpable   = "hide the stage from the command"
	StepSubreaper  = "adopt orphans"
	StepTasks      = "enter the control group"
	StepPrivate    = "make mounts private"
	StepClone      = "clone a tree"
	StepReadOnly   = "make mounts read-only"
	StepTmpfs      = "mount a private file system"
	StepDev        = "mount /dev"
	StepProc       = "mount /proc"
	StepPidMax     = "bound the pids"
	StepAttach     = "attach a tree"
	StepProtect    = "protect a file"
	StepHide       = "hide a path"
	StepLoopback   = "bring up the loopback device"
	StepListen     = "listen for the proxy"
	StepLimits     = "set resource limits"
	StepNoNewPrivs = "set no_new_privs"
	StepCaps       = "drop capabilities"
	StepLandlock   = "restrict by Landlock"
	StepSeccomp    = "load the seccomp filter"
)

// devices that are harmless to everybody.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// deviceAttr keeps a device's mode and owner: the node is the machine's own. What
// is written to the device doesn't pass through the mount.
const deviceAttr = attrReadOnly | attrNoSuid | attrNoExec

// prepare does what needs privileges: mounts and network. Nothing of the command
// runs yet.
func (s *stage) prepare() {
	s.step(StepDumpable, func() error { return prctl(prSetDumpable, 0) })
	if !s.PidNS {
		s.step(StepSubreaper, func() error { return prctl(prSetSubreaper, 1) })
	}
	if s.MountNS {
		s.mounts()
	}
	if s.Loopback {
		s.step(StepLoopback, loopbackUp)
	}
	if s.ProxyPort != 0 {
		s.step(StepListen, s.listen)
	}
}

// takeFiles takes over what came with the spec: standard input, output and error,
// and the files of control groups. The parent opened them: a file that is open for
// writing in this namespace would keep its mount from becoming read-only.
func (s *stage) takeFiles(fds []int) error {
	if s.Probe {
		return nil
	}
	if len(fds) != 3+int(s.Tasks) {
		return syscall.EBADF
	}
	for to, from := range fds[:3] {
		if err := syscall.Dup3(from, to, 0); err != nil {
			return err
		}
		_ = syscall.Close(from)
	}
	s.tasks = fds[3:]
	return nil
}

// mounts builds the view of the file system. Trees that stay are cloned first and
// attached last, so that their own flags (a read-only volume in a workspace) are
// never changed.
func (s *stage) mounts() {
	s.step(StepPrivate, func() error {
		return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	})
	s.step(StepClone, s.cloneTrees)
	if s.ReadOnly {
		s.step(StepReadOnly, func() error {
			return setAttr(atFdcwd, "/", atRecursive, attrReadOnly|attrNoSuid|attrNoDev)
		})
	}
	s.step(StepTmpfs, s.privateTrees)
	if s.Dev {
		s.step(StepDev, s.mountDev)
	}
	if s.Proc {
		s.mountProc()
	}
	s.step(StepAttach, s.attachTrees)
	s.step(StepProtect, s.protect)
	s.step(StepHide, s.hide)
}

func (s *stage) cloneTrees() error {
	for _, t := range s.Keep {
		fd, err := openTree(t.Path, openTreeClone|openTreeCloexec|atRecursive)
		if err != nil {
			return err
		}
		attr := uint64(attrNoSuid | attrNoDev)
		if t.ReadOnly {
			attr |= attrReadOnly
		}
		if err := setAttr(fd, "", atEmptyPath|atRecursive, attr); err != nil {
			return err
		}
		s.trees = append(s.trees, fd)
	}
	if !s.Dev {
		return nil
	}
	for _, name := range devices {
		fd, err := openTree("/dev/"+name, openTreeClone|openTreeCloexec)
		if err != nil {
			fd = -1 // a container may lack one
		} else if err := setAttr(fd, "", atEmptyPath, deviceAttr); err != nil {
			return err
		}
		s.devices = append(s.devices, fd)
	}
	return nil
}

// tmpfs mounts an empty file system.
func tmpfs(path string, flags uintptr, options string) error {
	return syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|flags, options)
}

func (s *stage) privateTrees() error {
	options := "mode=1777"
	if s.PrivateBytes != 0 {
		options += ",size=" + strconv.FormatUint(s.PrivateBytes, 10)
	}
	for _, path := range s.Private {
		err := tmpfs(path, 0, options)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
	}
	return nil
}

// mountDev replaces /dev: a device that stayed could be read or written in spite
// of read-only mounts, and with it the disk below every boundary.
func (s *stage) mountDev() error {
	if err := tmpfs("/dev", syscall.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return err
	}
	for i, fd := range s.devices {
		if fd < 0 {
			continue
		}
		path := "/dev/" + devices[i]
		if err := touch(path); err != nil {
			return err
		}
		if err := moveMount(fd, path); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		if err := syscall.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := syscall.Mount("devpts", "/dev/pts", "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return err
	}
	if err := tmpfs("/dev/shm", 0, "mode=1777,size="+strconv.FormatUint(max(s.PrivateBytes, 1<<20), 10)); err != nil {
		return err
	}
	for link, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := syscall.Symlink(target, "/dev/"+link); err != nil {
			return err
		}
	}
	return setAttr(atFdcwd, "/dev", 0, attrReadOnly)
}

func touch(path string) error {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// mountProc shows the processes of the namespace alone. It is read-only: for a
// process of root the files of /proc/sys are open without any capability.
func (s *stage) mountProc() {
	mounted := s.step(StepProc, func() error {
		return syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	})
	if !mounted {
		return
	}
	if s.PidMax != 0 {
		s.step(StepPidMax, func() error {
			return writeFile("/proc/sys/kernel/pid_max", strconv.FormatUint(s.PidMax, 10))
		})
	}
	s.step(StepProc, func() error {
		return setAttr(atFdcwd, "/proc", 0, attrReadOnly)
	})
}

func writeFile(path, text string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, []byte(text))
	if closed := syscall.Close(fd); err == nil {
		err = closed
	}
	return err
}

// attachTrees puts the kept trees back. One that lay below a private directory
// needs the way to it made anew.
func (s *stage) attachTrees() error {
	for i, fd := range s.trees {
		path := s.Keep[i].Path
		err := moveMount(fd, path)
		if errors.Is(err, syscall.ENOENT) {
			if err = makeWay(fd, path); err == nil {
				err = moveMount(fd, path)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeWay makes the place where a tree is put: a directory, or an empty file if the
// tree is a file.
func makeWay(fd int, path string) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return mkdirAll(path)
	}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			if err := mkdirAll(path[:i]); err != nil {
				return err
			}
			break
		}
	}
	file, err := syscall.Open(path, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return syscall.Close(file)
}

// mkdirAll makes a directory and those above it.
func mkdirAll(path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if err := syscall.Mkdir(path[:i], 0o755); err != nil && err != syscall.EEXIST {
			return err
		}
	}
	return nil
}

// protect puts each file over itself, read-only. The name is a mount then, which
// can be neither renamed, removed nor replaced from inside, and no hard link leads
// out of it.
func (s *stage) protect() error {
	for _, path := range s.Protected {
		var st syscall.Stat_t
		err := syscall.Lstat(path, &st)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFREG {
			continue
		}
		if err != nil {
			return err
		}
		fd, err := openTree(path, openTreeClone|openTreeCloexec|atNoFollow)
		if err != nil {
			return err
		}
		if err := setAttr(fd, "", atEmptyPath, attrReadOnly|attrNoSuid|attrNoDev); err != nil {
			return err
		}
		if err := moveMount(fd, path); err != nil {
			return err
		}
		_ = syscall.Close(fd)
	}
	return nil
}

// hide covers paths. One that isn't there, or not any more, needs no cover.
func (s *stage) hide() error {
	for _, path := range s.Hidden {
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			if err == syscall.ENOENT || err == syscall.ENOTDIR {
				continue
			}
			return err
		}
		if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			if err := tmpfs(path, syscall.MS_NOEXEC|syscall.MS_RDONLY, "mode=000,size=4k"); err != nil {
				return err
			}
			continue
		}
		if err := syscall.Mount("/dev/null", path, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// ifreqFlags is the part of struct ifreq that sets an interface's flags.
type ifreqFlags struct {
	name  [syscall.IFNAMSIZ]byte
	flags uint16
	_     [22]byte
}

// loopbackUp lets programs inside talk to each other. The namespace has no other
// device.
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd) // a socket that carried nothing
	req := ifreqFlags{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(req.name[:], "lo")
	_, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}

// listen opens the proxy's door inside. A socket stays in the namespace where it
// was made, whoever holds it: so the parent can accept on it, and no relay is
// needed.
func (s *stage) listen() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(s.ProxyPort), Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := syscall.Listen(fd, 128); err != nil {
		return err
	}
	s.listener = fd
	return nil
}
