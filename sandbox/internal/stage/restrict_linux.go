package stage

import (
	"syscall"
	"unsafe"
)

// capHead and capSets are what capget and capset take: the sets are effective,
// permitted and inheritable of the first 32 capabilities, then of the others.
type capHead struct {
	version uint32
	_       int32 // ourselves
}

type capSets [6]uint32

// dropCaps empties every set of capabilities and sees to it that no execve fills
// them again, not even for root.
func (b *builder) dropCaps() {
	b.prctl(prCapAmbient, prAmbientClear)
	const most = 64
	for c := range most {
		// EINVAL: past the last capability of this kernel. EPERM: without CAP_SETPCAP;
		// no_new_privs keeps execve from filling the sets.
		b.prctl(prCapbsetDrop, uintptr(c)).except(most-1-c, syscall.EINVAL, syscall.EPERM)
	}
	// SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP and SECBIT_NO_CAP_AMBIENT_RAISE, each
	// with its lock, and SECBIT_KEEP_CAPS_LOCKED.
	const bits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7
	b.prctl(prSetSecurebits, bits).except(0, syscall.EPERM)
	b.call(syscall.SYS_CAPSET, address(place(b, capHead{version: capVersion3})), address(place(b, capSets{})))
}

// The capabilities by which root gets below a mount: mounts and namespaces, the
// memory and the root folders of other processes, files by their handle, devices,
// and code in the kernel.
var belowCover = []uint32{2, 16, 17, 19, 21, 27, 38, 39} // DAC_READ_SEARCH SYS_MODULE SYS_RAWIO SYS_PTRACE SYS_ADMIN MKNOD PERFMON BPF

// keepCover gives up what would undo the cover of the hidden paths, for good. Root
// keeps all other rights.
func (b *builder) keepCover() {
	b.prctl(prCapAmbient, prAmbientClear)
	head, sets := place(b, capHead{version: capVersion3}), place(b, capSets{})
	b.call(syscall.SYS_CAPGET, address(head), address(sets))
	for _, c := range belowCover {
		b.prctl(prCapbsetDrop, uintptr(c)).except(0, syscall.EINVAL) // this kernel doesn't know it
		for i := range uint32(3) {
			b.compute(opClear, uint64(sets+4*(c/32*3+i)), 1<<(c%32))
		}
	}
	b.call(syscall.SYS_CAPSET, address(head), address(sets))
}

// fileRights are the Landlock rights that a file can have; the others are those
// of directories.
const fileRights = rightExecute | rightWriteFile | rightReadFile | rightTruncate | rightIoctlDev | rightResolveUnix

func (b *builder) landlock(s *Spec) {
	attr := rulesetAttr{fs: s.LandlockFS, net: s.LandlockNet, scoped: s.LandlockScoped}
	set := b.cell()
	b.call(sysCreateRuleset, address(place(b, attr)), value(unsafe.Sizeof(attr)), value(0)).into(set)
	for _, r := range s.Rules {
		if r.Access&s.LandlockFS != 0 {
			b.allow(set, r.Path, r.Access&s.LandlockFS)
		}
	}
	b.call(sysRestrictSelf, load(set), value(0))
	b.closeCell(set)
}

// allow adds one rule. What can't be reached needs none.
func (b *builder) allow(set uint32, path string, access uint64) {
	attr := place(b, pathBeneathAttr{access: access})
	fd := attr + uint32(unsafe.Offsetof(pathBeneathAttr{}.parent))
	opened := len(b.ops)
	b.call(syscall.SYS_OPENAT, cwd, b.text(path), value(oPath|syscall.O_CLOEXEC), value(0)).into(fd)
	b.call(sysFstat, load(fd), address(atStat))
	file := b.unlessMode(syscall.S_IFDIR)
	dir := b.jump()
	b.over(file)
	b.compute(opClear, uint64(attr), ^uint64(fileRights)&(1<<32-1))
	none := -1
	if access&fileRights == 0 {
		none = b.jump()
	}
	b.over(dir)
	b.call(sysAddRule, load(set), value(rulePathBeneath), address(attr), value(0))
	if none >= 0 {
		b.over(none)
	}
	b.closeCell(fd)
	b.ops[opened].except(len(b.ops)-opened-1, syscall.ENOENT, syscall.EACCES, syscall.ENOTDIR)
}

// filterSize is the size of one instruction of a filter, which has the form that
// the kernel takes.
const filterSize = 8

// maxFilter is the most that the kernel takes.
const maxFilter = 4096

func (b *builder) seccomp(s *Spec) {
	n := len(s.Seccomp) / filterSize
	if n > maxFilter || len(s.Seccomp)%filterSize != 0 {
		b.bad = true
		return
	}
	filter := b.bytes(s.Seccomp)
	prog := place(b, sockFprog{length: uint16(n), filter: uintptr(filter &^ inData)})
	b.compute(opRelocate, uint64(prog+uint32(unsafe.Offsetof(sockFprog{}.filter))), 1)
	if s.Supervise != 0 {
		b.rename(StepSupervise)
		b.call(uintptr(s.Supervise), value(seccompSetFilter), value(seccompListener), address(prog)).into(atSupervisor)
		return
	}
	if s.Watch != 0 {
		b.watchSockets(s, prog)
		return
	}
	b.call(syscall.SYS_PRCTL, value(prSetSeccomp), value(seccompFilterMode), address(prog))
}
