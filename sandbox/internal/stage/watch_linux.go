package stage

import (
	"syscall"
	"unsafe"
)

// A forked stage can watch whether anything that the command starts makes a socket:
// the filter hands such calls to a listener, the stage notes that there was one and
// lets it go on. What was never made can have left nothing in the network namespace,
// which can be used again then. The note is made before the call goes on, and without
// a word of the stage none does.

// notice is struct seccomp_notif, verdict struct seccomp_notif_resp.
type notice struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type verdict struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// watchSockets loads a filter with a listener, which the stage keeps.
func (b *builder) watchSockets(s *Spec, prog uint32) {
	install := func(flags int) *op {
		o := b.call(uintptr(s.Watch), value(seccompSetFilter), value(flags), address(prog))
		return o.into(atWatch)
	}
	// A call that waits for the stage is interrupted by nothing but its end: no program
	// expects it of this one. Kernels before 5.19 don't know that.
	install(seccompListener|seccompKillable).except(1, syscall.EINVAL)
	loaded := b.jump()
	install(seccompListener)
	b.over(loaded)
	// Without it each question and each answer may wake another processor. Kernels before
	// 6.6 don't know it.
	b.call(syscall.SYS_IOCTL, load(atWatch), value(notifSetFlags), value(notifSyncWakeUp)).except(0, anyError)
}

// noteSocket notes that a socket is being made, and lets it.
//
//go:nosplit
//go:norace
func (a *area) noteSocket() {
	a.notice = notice{}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_IOCTL, uintptr(a.watch), notifReceive, uintptr(unsafe.Pointer(&a.notice)), 0, 0, 0)
	if errno != 0 {
		return // who asked is gone, and has made none
	}
	a.sockets = 1
	a.verdict = verdict{id: a.notice.id, flags: notifContinue}
	raw(syscall.SYS_IOCTL, uintptr(a.watch), notifSend, uintptr(unsafe.Pointer(&a.verdict)))
}

// noSockets is 1 if no socket was made, for certain.
//
//go:nosplit
//go:norace
func (a *area) noSockets() uint64 {
	if a.watch < 0 || a.sockets != 0 {
		return 0
	}
	return 1
}
