package stage

import (
	"syscall"
	"unsafe"
)

// A program is what a stage does, as a list of system calls that were thought out
// beforehand: [compile] decides, run carries out. It needs nothing of Go's runtime
// while it runs, so a process that was forked and never executed anything can do
// it, too.
//
// It lives in the stage's memory behind the area, and all that it names is an
// offset from the area's begin.

// op is one instruction.
type op struct {
	code  uint32
	nr    uint32 // of the system call
	name  uint16 // index in stepNames
	group uint16 // the step, in order
	until uint16 // when this one fails, everything up to that step is left out
	kinds uint32 // what each argument is, four bits for each
	// store is where the result goes, if not zero: an int32.
	store uint32
	on    [3]reaction
	args  [6]uint64
}

// reaction says what to do about an error that isn't one: leave out the next
// instructions.
type reaction struct {
	errno uint16
	skip  uint16
}

// anyError stands for every error.
const anyError = 1<<16 - 1

// Codes of instructions.
const (
	// opCall is a system call.
	opCall = iota
	// opJump leaves out args[1] instructions.
	opJump
	// opUnlessMode leaves them out unless the file that was looked at last is of the
	// type args[0].
	opUnlessMode
	// opUnlessOpen leaves them out if the descriptor at args[0] is none.
	opUnlessOpen
	// opUnlessOther leaves them out if the file that was looked at last is the one
	// with the device args[0] and the inode args[2].
	opUnlessOther
	// opClear clears the bits args[1] of the uint32 at args[0].
	opClear
	// opRelocate makes addresses of args[1] offsets at args[0], which count from
	// args[2].
	opRelocate
)

// Kinds of arguments.
const (
	argValue   = iota // the value itself
	argAddress        // the address of what is at that offset
	argLoad           // the int32 that is there
)

const opSize = uint32(unsafe.Sizeof(op{}))

// span is a part of a program: its first instruction and the end of its last one.
type span struct{ from, to uint32 }

// header begins a program.
type header struct {
	prepare, restrict, start span
	// files is the number of descriptors that come with the program.
	files uint32
}

// payloadAt is where a program begins in the stage's memory.
const payloadAt = 8 << 10

// area is the part of the stage's memory before the program: its state.
type area struct {
	_        uint64 // no offset of zero
	conn     int32
	listener int32
	// supervisor is asked before each start of a program.
	supervisor int32
	// watch is asked before each socket is made, sockets says that one was.
	watch    int32
	sockets  uint32
	notice   notice
	verdict  verdict
	leaf     int32
	ended    uint32
	status   uint32
	failures uint32
	pipe     [2]int32
	fds      [maxRights]int32
	mask     uint64 // signals that were blocked before
	head     [HeaderSize + 3]byte
	text     [64]byte
	poll     [3]pollFD
	failed   [maxFailures]failure
	msg      msghdr
	vec      [2]iovec
	control  [128]byte
	stat     [256]byte
	info     [128]byte
	usage    syscall.Rusage
	clone    [11]uint64
	extents  uint32
	extent   [maxExtents]extent
}

// The area fits in front of the program.
const _ = uint(payloadAt - unsafe.Sizeof(area{}))

// failure is a step that could not be done.
type failure struct{ name, errno uint32 }

const maxFailures = 32

// msghdr and iovec are the kernel's, with addresses as numbers.
type msghdr struct {
	name       uintptr
	namelen    uint32
	iov        uintptr
	iovlen     uintptr
	control    uintptr
	controllen uintptr
	flags      int32
}

type iovec struct{ base, length uintptr }

// Offsets in the area that programs name.
const (
	atFiles      = uint32(unsafe.Offsetof(area{}.fds))
	atListener   = uint32(unsafe.Offsetof(area{}.listener))
	atSupervisor = uint32(unsafe.Offsetof(area{}.supervisor))
	atWatch      = uint32(unsafe.Offsetof(area{}.watch))
	atStat       = uint32(unsafe.Offsetof(area{}.stat))
	atMask       = uint32(unsafe.Offsetof(area{}.mask))
)

// run carries out a part of a program. It stops at the first step that fails; a
// probe goes on with the next one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (a *area) run(part span, probe bool) {
	base := unsafe.Pointer(a)
	var until uint16
	for pc := part.from; pc < part.to; pc += opSize {
		o := (*op)(unsafe.Add(base, pc))
		if o.group <= until {
			continue
		}
		if o.code != opCall {
			pc += a.compute(o)
			continue
		}
		r, _, errno := syscall.RawSyscall6(uintptr(o.nr), a.arg(o, 0), a.arg(o, 1), a.arg(o, 2), a.arg(o, 3), a.arg(o, 4), a.arg(o, 5))
		if errno == 0 {
			if o.store != 0 {
				*(*int32)(unsafe.Add(base, o.store)) = int32(r)
			}
			continue
		}
		if skip, ok := o.react(errno); ok {
			pc += skip
			continue
		}
		a.fail(uint32(o.name), errno)
		if !probe {
			return
		}
		until = o.until
	}
}

// compute does an instruction that is no system call, and says how much to leave
// out after it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (a *area) compute(o *op) uint32 {
	base := unsafe.Pointer(a)
	switch o.code {
	case opJump:
		return uint32(o.args[1]) * opSize
	case opUnlessOpen:
		if *(*int32)(unsafe.Add(base, uintptr(o.args[0]))) < 0 {
			return uint32(o.args[1]) * opSize
		}
	case opUnlessMode:
		st := (*syscall.Stat_t)(unsafe.Pointer(&a.stat))
		if uint64(st.Mode)&syscall.S_IFMT != o.args[0] {
			return uint32(o.args[1]) * opSize
		}
	case opUnlessOther:
		st := (*syscall.Stat_t)(unsafe.Pointer(&a.stat))
		if uint64(st.Dev) == o.args[0] && st.Ino == o.args[2] { //nolint:unconvert // narrower on some architectures
			return uint32(o.args[1]) * opSize
		}
	case opClear:
		*(*uint32)(unsafe.Add(base, uintptr(o.args[0]))) &^= uint32(o.args[1])
	case opRelocate:
		for i := uintptr(0); i < uintptr(o.args[1]); i++ {
			*(*uintptr)(unsafe.Add(base, uintptr(o.args[0])+i*wordSize)) += uintptr(base) + uintptr(o.args[2])
		}
	}
	return 0
}

// wordSize is the size of an address.
const wordSize = unsafe.Sizeof(uintptr(0))

// arg is one argument of a system call.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (a *area) arg(o *op, i int) uintptr {
	v := uintptr(o.args[i])
	switch o.kinds >> (4 * uint(i)) & 15 {
	case argAddress:
		return uintptr(unsafe.Pointer(a)) + v
	case argLoad:
		return uintptr(*(*int32)(unsafe.Add(unsafe.Pointer(a), v)))
	}
	return v
}

// react says how much to leave out after an error, if it is none.
//
//go:nosplit
//go:norace
func (o *op) react(errno syscall.Errno) (uint32, bool) {
	for i := range o.on {
		if e := o.on[i].errno; e == uint16(errno) || e == anyError {
			return uint32(o.on[i].skip) * opSize, true
		}
	}
	return 0, false
}

// fail notes a step that failed.
//
//go:nosplit
//go:norace
func (a *area) fail(name uint32, errno syscall.Errno) {
	if a.failures < maxFailures {
		a.failed[a.failures] = failure{name: name, errno: uint32(errno)}
		a.failures++
	}
}
