package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Arguments are 64 bits; everything that is looked
// at here fits into the lower half, and both architectures are little endian.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArg0 = 16
	offsetArg1 = 24
)

// filterWants says what a filter forbids beside what it always does.
type filterWants struct {
	// families are the address families of sockets that can be made.
	families []uint32
	// anyPair allows every pair of sockets; else connected ones only.
	anyPair bool
	// attributes forbids to change modes, owners, times and extended attributes.
	attributes bool
	// debug forbids to look into other processes.
	debug bool
	// watch tells a listener of sockets that may be made.
	watch bool
	// supervise asks a listener before a program starts; nothingElse forbids nothing.
	supervise, nothingElse bool
}

// denied are system calls that only attacks and administrators need. io_uring is
// among them because what it does is not seen by a filter.
var denied = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

// deniedAttributes change a file without writing to it.
var deniedAttributes = []uint32{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
}

// deniedDebug look into other processes.
var deniedDebug = []uint32{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD}

// newNamespaces are the flags of clone and unshare that make namespaces. The one
// for time is left out for clone, where the bit belongs to the exit signal.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// seccompFilter assembles a filter for the kernel, or nil on an architecture
// without a table of system calls here.
func seccompFilter(w filterWants) []byte {
	if auditArch == 0 {
		return nil
	}
	var f filter
	f.load(offsetArch)
	f.unless(auditArch, unix.SECCOMP_RET_KILL_PROCESS)
	f.load(offsetNr)
	if foreignBit != 0 {
		f.emit(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, foreignBit)
		f.ret(unix.SECCOMP_RET_KILL_PROCESS)
	}
	var c cases
	if w.supervise {
		c.answerCalls(unix.SECCOMP_RET_USER_NOTIF, unix.SYS_EXECVE, unix.SYS_EXECVEAT)
	}
	if !w.nothingElse {
		w.forbid(&c)
	}
	f.choose(c)
	return f.b
}

// forbid adds the calls that a filter forbids, or looks at.
func (w *filterWants) forbid(c *cases) {
	c.answerCalls(errno(unix.EPERM), slices.Concat(denied, deniedArch)...)
	if w.attributes {
		c.answerCalls(errno(unix.EPERM), slices.Concat(deniedAttributes, deniedAttributesArch)...)
	}
	if w.debug {
		c.answerCalls(errno(unix.EPERM), deniedDebug...)
	}
	// The arguments of clone3 are in memory, out of a filter's sight: programs fall
	// back to clone when it isn't there.
	c.answerCalls(errno(unix.ENOSYS), unix.SYS_CLONE3)
	c.inspectCall(unix.SYS_CLONE, flags(newNamespaces))
	c.inspectCall(unix.SYS_UNSHARE, flags(newNamespaces|unix.CLONE_NEWTIME))
	c.inspectCall(unix.SYS_IOCTL, terminal())
	c.inspectCall(unix.SYS_SOCKET, sockets(w.families, w.made()))
	if !w.anyPair {
		c.inspectCall(unix.SYS_SOCKETPAIR, pairs(w.made()))
	}
}

// made is what becomes of a socket that may be made.
func (w *filterWants) made() uint32 {
	if w.watch {
		return unix.SECCOMP_RET_USER_NOTIF
	}
	return unix.SECCOMP_RET_ALLOW
}

// errno is the action that fails a system call.
func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// filter is a program of classic BPF under construction.
type filter struct{ b []byte }

func (f *filter) emit(code uint16, jt, jf uint8, k uint32) {
	f.b = append(f.b, byte(code), byte(code>>8), jt, jf, byte(k), byte(k>>8), byte(k>>16), byte(k>>24))
}

func (f *filter) load(offset uint32) { f.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }
func (f *filter) ret(action uint32)  { f.emit(unix.BPF_RET|unix.BPF_K, 0, 0, action) }
func (f *filter) jump(k uint32, skip int) {
	f.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, uint8(skip), k)
}

// when returns the action if the loaded value is k.
func (f *filter) when(k, action uint32) {
	f.jump(k, 1)
	f.ret(action)
}

// unless returns the action if the loaded value isn't k.
func (f *filter) unless(k, action uint32) {
	f.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, k)
	f.ret(action)
}

// flags forbids a call whose first argument has one of the bits.
func flags(bits uint32) []byte {
	var f filter
	f.load(offsetArg0)
	f.emit(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, bits)
	f.ret(errno(unix.EPERM))
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f.b
}

// terminal forbids to type into a terminal that others read from.
func terminal() []byte {
	var f filter
	f.load(offsetArg1)
	f.when(unix.TIOCSTI, errno(unix.EPERM))
	f.when(tiocLinux, errno(unix.EPERM))
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f.b
}

// tiocLinux is the console's own ioctl, which can paste too.
const tiocLinux = 0x541c

// sockets lets the families be made, and no other.
func sockets(families []uint32, made uint32) []byte {
	var f filter
	f.load(offsetArg0)
	for _, family := range families {
		f.when(family, made)
	}
	f.ret(errno(unix.EPERM))
	return f.b
}

// pairs forbids pairs of datagram sockets: such a socket can be connected again,
// to a stranger's.
func pairs(made uint32) []byte {
	var f filter
	f.load(offsetArg1)
	f.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, 0xf)
	f.when(unix.SOCK_DGRAM, errno(unix.EPERM))
	f.ret(made)
	return f.b
}
