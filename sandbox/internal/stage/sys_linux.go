package stage

import (
	"syscall"
	"unsafe"
)

// What package syscall lacks, by the names of x/sys/unix: importing that would put
// the initialisation of dozens of packages before ours. A test compares them.
const (
	sysOpenTree       = 428
	sysMoveMount      = 429
	sysMountSetattr   = 442
	sysCreateRuleset  = 444
	sysAddRule        = 445
	sysRestrictSelf   = 446
	openTreeClone     = 0x1
	openTreeCloexec   = syscall.O_CLOEXEC
	atFdcwd           = -0x64
	atEmptyPath       = 0x1000
	atRecursive       = 0x8000
	atNoFollow        = 0x100
	moveEmptyPath     = 0x4
	attrReadOnly      = 0x1
	attrNoSuid        = 0x2
	attrNoDev         = 0x4
	attrNoExec        = 0x8
	prSetDumpable     = 4
	prSetSeccomp      = 22
	prCapbsetDrop     = 24
	prSetSecurebits   = 28
	prSetSubreaper    = 36
	prSetNoNewPrivs   = 38
	prCapAmbient      = 47
	prAmbientClear    = 4
	seccompFilterMode = 2
	capVersion3       = 0x20080522
	rulePathBeneath   = 1
	oPath             = 0x200000
	pollIn            = 1
	rightExecute      = 0x1
	rightWriteFile    = 0x2
	rightReadFile     = 0x4
	rightTruncate     = 0x4000
	rightIoctlDev     = 0x8000
	rightResolveUnix  = 0x10000
)

// mountAttr is struct mount_attr.
type mountAttr struct{ set, clr, propagation, usernsFD uint64 }

// pollFD is struct pollfd.
type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// rulesetAttr is struct landlock_ruleset_attr up to the scopes.
type rulesetAttr struct{ fs, net, scoped uint64 }

// pathBeneathAttr is struct landlock_path_beneath_attr.
type pathBeneathAttr struct {
	access uint64
	parent int32
}

// sockFilter and sockFprog are a program of classic BPF.
type sockFilter struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

type sockFprog struct {
	length uint16
	filter *sockFilter
}

func result(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func prctl(option, value uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0)
	return result(errno)
}

// defaultSignal sets a signal's disposition to the default.
func defaultSignal(sig syscall.Signal) error {
	var action [4]uint64 // struct sigaction: zero is SIG_DFL without flags
	const setSize = 8
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, setSize, 0, 0)
	return result(errno)
}

func openTree(path string, flags uintptr) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	at := atFdcwd
	fd, _, errno := syscall.RawSyscall(sysOpenTree, uintptr(at), uintptr(unsafe.Pointer(p)), flags)
	return int(fd), result(errno)
}

func moveMount(fd int, path string) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	var empty byte
	at := atFdcwd
	_, _, errno := syscall.RawSyscall6(sysMoveMount, uintptr(fd), uintptr(unsafe.Pointer(&empty)),
		uintptr(at), uintptr(unsafe.Pointer(p)), moveEmptyPath, 0)
	return result(errno)
}

// setAttr changes the flags of a mount, or with a path of "" those of a tree.
func setAttr(fd int, path string, flags uintptr, set uint64) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	attr := mountAttr{set: set}
	_, _, errno := syscall.RawSyscall6(sysMountSetattr, uintptr(fd), uintptr(unsafe.Pointer(p)),
		flags, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	return result(errno)
}

// poll waits for descriptors; none just waits.
func poll(fds []pollFD, ms int) (int, error) {
	timeout := syscall.NsecToTimespec(int64(ms) * 1e6)
	var first unsafe.Pointer
	if len(fds) > 0 {
		first = unsafe.Pointer(&fds[0])
	}
	n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(first), uintptr(len(fds)), uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	return int(n), result(errno)
}
