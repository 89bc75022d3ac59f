package stage

import (
	"errors"
	"syscall"
	"unsafe"
)

// restrict gives up, on this thread and for what it forks, everything that the
// command shall not have. Seccomp is last: the filter may forbid the steps before.
func (s *stage) restrict() {
	s.step(StepTasks, s.enterTasks)
	s.step(StepLimits, s.setLimits)
	if s.DropCaps {
		s.step(StepCaps, dropCaps)
	}
	if s.KeepCover {
		s.step(StepCaps, keepCover)
	}
	if s.NoNewPrivs {
		s.step(StepNoNewPrivs, func() error { return prctl(prSetNoNewPrivs, 1) })
	}
	if s.LandlockFS != 0 || s.LandlockNet != 0 || s.LandlockScoped != 0 {
		s.step(StepLandlock, s.landlock)
	}
	if len(s.Seccomp) > 0 {
		s.step(StepSeccomp, s.seccomp)
	}
}

// enterTasks moves this one thread into its control groups. A thread that moves
// itself needs no lock over all processes, which moving a process would wait for
// during several milliseconds.
func (s *stage) enterTasks() error {
	for _, fd := range s.tasks {
		if _, err := syscall.Write(fd, []byte("0")); err != nil {
			return err
		}
		_ = syscall.Close(fd)
	}
	return nil
}

func (s *stage) setLimits() error {
	for _, l := range s.Limits {
		// By package syscall: it gives a forked child back the limit of open files
		// from before the runtime raised it, unless it knows of a new one.
		if err := syscall.Setrlimit(int(l.Resource), &syscall.Rlimit{Cur: l.Value, Max: l.Value}); err != nil {
			return err
		}
	}
	return nil
}

// dropCaps empties every set of capabilities and sees to it that no execve fills
// them again, not even for root.
func dropCaps() error {
	if err := prctl(prCapAmbient, prAmbientClear); err != nil {
		return err
	}
	for c := range uintptr(64) {
		err := prctl(prCapbsetDrop, c)
		if errors.Is(err, syscall.EINVAL) {
			break // past the last capability of this kernel
		}
		if errors.Is(err, syscall.EPERM) {
			break // without CAP_SETPCAP: no_new_privs keeps execve from filling the sets
		}
		if err != nil {
			return err
		}
	}
	// SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP and SECBIT_NO_CAP_AMBIENT_RAISE, each
	// with its lock, and SECBIT_KEEP_CAPS_LOCKED.
	const bits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7
	if err := prctl(prSetSecurebits, bits); err != nil && !errors.Is(err, syscall.EPERM) {
		return err
	}
	head := struct {
		version uint32
		pid     int32
	}{version: capVersion3}
	var none [6]uint32 // effective, permitted and inheritable, twice 32 of each
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none)), 0)
	return result(errno)
}

// The capabilities by which root gets below a mount: mounts and namespaces, the
// memory and the root folders of other processes, files by their handle, devices,
// and code in the kernel.
var belowCover = []uintptr{2, 16, 17, 19, 21, 27, 38, 39} // DAC_READ_SEARCH SYS_MODULE SYS_RAWIO SYS_PTRACE SYS_ADMIN MKNOD PERFMON BPF

// keepCover gives up what would undo the cover of the hidden paths, for good. Root
// keeps all other rights.
func keepCover() error {
	if err := prctl(prCapAmbient, prAmbientClear); err != nil {
		return err
	}
	head := struct {
		version uint32
		pid     int32
	}{version: capVersion3}
	var sets [6]uint32 // effective, permitted and inheritable of the first 32, then of the others
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&sets)), 0); errno != 0 {
		return errno
	}
	for _, c := range belowCover {
		if err := prctl(prCapbsetDrop, c); err != nil && !errors.Is(err, syscall.EINVAL) {
			return err // EINVAL: this kernel doesn't know it
		}
		for i := range 3 {
			sets[int(c/32)*3+i] &^= 1 << (c % 32)
		}
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&sets)), 0)
	return result(errno)
}

// fileRights are the Landlock rights that a file can have; the others are those
// of directories.
const fileRights = rightExecute | rightWriteFile | rightReadFile | rightTruncate | rightIoctlDev | rightResolveUnix

func (s *stage) landlock() error {
	attr := rulesetAttr{fs: s.LandlockFS, net: s.LandlockNet, scoped: s.LandlockScoped}
	set, _, errno := syscall.RawSyscall(sysCreateRuleset, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	defer syscall.Close(int(set)) // a descriptor that only named the rules
	for _, r := range s.Rules {
		if err := s.allow(set, r); err != nil {
			return err
		}
	}
	if _, _, errno := syscall.RawSyscall(sysRestrictSelf, set, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// allow adds one rule.
func (s *stage) allow(set uintptr, r Rule) error {
	fd, err := syscall.Open(r.Path, oPath|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT || err == syscall.EACCES || err == syscall.ENOTDIR {
		return nil // what can't be reached needs no rule
	}
	if err != nil {
		return err
	}
	defer syscall.Close(fd) // a descriptor that only named a place
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return err
	}
	access := r.Access & s.LandlockFS
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		access &= fileRights
	}
	if access == 0 {
		return nil
	}
	attr := pathBeneathAttr{access: access, parent: int32(fd)}
	_, _, errno := syscall.RawSyscall6(sysAddRule, set, rulePathBeneath, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// filterSize is the size of one instruction.
const filterSize = 8

func (s *stage) seccomp() error {
	n := len(s.Seccomp) / filterSize
	if n == 0 || n > 4096 || len(s.Seccomp)%filterSize != 0 {
		return syscall.EINVAL
	}
	program := make([]sockFilter, n)
	for i := range program {
		b := s.Seccomp[i*filterSize:]
		program[i] = sockFilter{
			code: uint16(b[0]) | uint16(b[1])<<8, jt: b[2], jf: b[3],
			k: uint32(b[4]) | uint32(b[5])<<8 | uint32(b[6])<<16 | uint32(b[7])<<24,
		}
	}
	prog := sockFprog{length: uint16(n), filter: &program[0]}
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, seccompFilterMode, uintptr(unsafe.Pointer(&prog)))
	return result(errno)
}
