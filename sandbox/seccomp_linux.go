package sandbox

import "golang.org/x/sys/unix"

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
	if w.supervise {
		f.when(unix.SYS_EXECVE, unix.SECCOMP_RET_USER_NOTIF)
		f.when(unix.SYS_EXECVEAT, unix.SECCOMP_RET_USER_NOTIF)
	}
	if w.nothingElse {
		f.ret(unix.SECCOMP_RET_ALLOW)
		return f.b
	}
	f.deny(denied)
	f.deny(deniedArch)
	if w.attributes {
		f.deny(deniedAttributes)
		f.deny(deniedAttributesArch)
	}
	if w.debug {
		f.deny(deniedDebug)
	}
	// The arguments of clone3 are in memory, out of a filter's sight: programs fall
	// back to clone when it isn't there.
	f.when(unix.SYS_CLONE3, errno(unix.ENOSYS))
	f.flags(unix.SYS_CLONE, newNamespaces)
	f.flags(unix.SYS_UNSHARE, newNamespaces|unix.CLONE_NEWTIME)
	f.terminal()
	f.sockets(w.families)
	if !w.anyPair {
		f.pairs()
	}
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f.b
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

func (f *filter) deny(calls []uint32) {
	for _, nr := range calls {
		f.when(nr, errno(unix.EPERM))
	}
}

// flags forbids a call whose first argument has one of the bits.
func (f *filter) flags(nr, bits uint32) {
	f.jump(nr, 4)
	f.load(offsetArg0)
	f.emit(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 0, 1, bits)
	f.ret(errno(unix.EPERM))
	f.ret(unix.SECCOMP_RET_ALLOW)
}

// terminal forbids to type into a terminal that others read from.
func (f *filter) terminal() {
	f.jump(unix.SYS_IOCTL, 6)
	f.load(offsetArg1)
	f.when(unix.TIOCSTI, errno(unix.EPERM))
	f.when(tiocLinux, errno(unix.EPERM))
	f.ret(unix.SECCOMP_RET_ALLOW)
}

// tiocLinux is the console's own ioctl, which can paste too.
const tiocLinux = 0x541c

// sockets allows the families and no other.
func (f *filter) sockets(families []uint32) {
	f.jump(unix.SYS_SOCKET, 2+2*len(families))
	f.load(offsetArg0)
	for _, family := range families {
		f.when(family, unix.SECCOMP_RET_ALLOW)
	}
	f.ret(errno(unix.EPERM))
}

// pairs forbids pairs of datagram sockets: such a socket can be connected again,
// to a stranger's.
func (f *filter) pairs() {
	f.jump(unix.SYS_SOCKETPAIR, 5)
	f.load(offsetArg1)
	f.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, 0xf)
	f.when(unix.SOCK_DGRAM, errno(unix.EPERM))
	f.ret(unix.SECCOMP_RET_ALLOW)
}
