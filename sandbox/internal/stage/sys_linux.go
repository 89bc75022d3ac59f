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
	atEffective       = 0x200
	moveEmptyPath     = 0x4
	moveOntoEmptyPath = 0x40
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
	sysPrlimit        = syscall.SYS_PRLIMIT64
	sysClone3         = 435
	sysCloseRange     = 436
	sysOpenat2        = 437
	sysFaccessat2     = 439
	resolveNoSymlinks = 0x4
	seccompSetFilter  = 1
	seccompListener   = 0x8
	seccompKillable   = 0x20
	notifReceive      = 0xc0502100
	notifSend         = 0xc0182101
	notifSetFlags     = 0x40082104
	notifSyncWakeUp   = 1
	notifContinue     = 1
	closeRangeCloexec = 4
	cloneIntoCgroup   = 0x200000000
	sigBlock          = 0
	sigSetMask        = 2
	signalSetSize     = 8
)

// mountAttr is struct mount_attr.
type mountAttr struct{ set, _, _, _ uint64 }

const mountAttrSize = unsafe.Sizeof(mountAttr{})

// openHow is struct open_how.
type openHow struct{ flags, _, resolve uint64 }

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

// sockFprog is a program of classic BPF: its length and its address.
type sockFprog struct {
	length uint16
	filter uintptr
}

func result(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// defaultSignal sets a signal's disposition to the default.
func defaultSignal(sig syscall.Signal) error {
	var action [4]uint64 // struct sigaction: zero is SIG_DFL without flags
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, signalSetSize, 0, 0)
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
