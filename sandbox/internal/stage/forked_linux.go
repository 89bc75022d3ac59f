package stage

import (
	"syscall"
	"unsafe"
)

// forked is the life of a stage that was forked: that of the package comment, carried
// out by a program that the parent compiled. It is the init of a pid namespace.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (a *area) forked(files int) {
	a.born(files)
	h := a.program()
	if h == nil {
		exit(exitFailed)
	}
	a.run(h.prepare, false)
	a.giveUp()
	if a.listener >= 0 { // else there is nothing that the parent waits for
		a.putHeader(MsgReady, 0)
		a.sendText(a.conn, HeaderSize, a.listener)
		shut(a.listener)
	}
	if a.order() != MsgGo {
		exit(exitDone) // the parent changed its mind or died: nothing has run
	}
	a.run(h.restrict, false)
	a.giveUp()
	if a.supervisor >= 0 {
		a.putHeader(MsgSupervise, 0)
		a.sendText(a.conn, HeaderSize, a.supervisor)
		shut(a.supervisor)
	}
	a.launch(h.start)
	a.giveUp()
	followCommand(a)
	exit(exitDone)
}

// born parts from the launcher: of its descriptors only the stage's own socket stays.
//
//go:nosplit
//go:norace
func (a *area) born(files int) {
	shut(a.conn)
	a.conn = a.fds[0]
	if files > 1 {
		shut(a.fds[1])
	}
	raw(syscall.SYS_SETSID, 0, 0, 0)
}

// program receives what to do, or nil.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (a *area) program() *header {
	n, files := a.receiveFiles(a.conn, HeaderSize)
	if n <= 0 || !a.fill(a.conn, unsafe.Offsetof(a.head)+uintptr(n), HeaderSize-uintptr(n)) || a.head[0] != MsgProgram {
		return nil
	}
	size := a.size()
	if size < unsafe.Sizeof(header{}) || size > MaxMessage || !a.fill(a.conn, payloadAt, size) {
		return nil
	}
	h := (*header)(unsafe.Add(unsafe.Pointer(a), payloadAt))
	if uint32(files) != h.files {
		return nil
	}
	return h
}

// size is that of the message whose header was read.
//
//go:nosplit
//go:norace
func (a *area) size() uintptr {
	return uintptr(a.head[1]) | uintptr(a.head[2])<<8 | uintptr(a.head[3])<<16 | uintptr(a.head[4])<<24
}

// giveUp reports the step that failed, if one did, and ends.
//
//go:nosplit
//go:norace
func (a *area) giveUp() {
	if a.failures == 0 {
		return
	}
	a.putHeader(MsgStopped, 8)
	a.number(HeaderSize, uint64(a.failed[0].name), 4)
	a.number(HeaderSize+4, uint64(a.failed[0].errno), 4)
	a.sendText(a.conn, HeaderSize+8, -1)
	exit(exitFailed)
}

// order reads one message of the parent and returns its kind, zero if there is no
// parent. The payload, that of a signal, is behind the header in the text.
//
//go:nosplit
//go:norace
func (a *area) order() byte {
	if !a.fill(a.conn, unsafe.Offsetof(a.head), HeaderSize) {
		return 0
	}
	size := a.size()
	if size > 2 || !a.fill(a.conn, unsafe.Offsetof(a.text)+HeaderSize, size) || (a.head[0] == MsgSignal) != (size == 2) {
		return 0
	}
	return a.head[0]
}

// launch starts the command. The pipes and the terminal are the command's then: their
// other ends must see the end when it, and not when the stage, closes them.
//
//go:nosplit
//go:norace
func (a *area) launch(start span) {
	pid, errno := a.spawn(start)
	if errno != 0 {
		a.fail(stepStart, errno)
		return
	}
	a.leaf = int32(pid)
	for fd := range int32(3) {
		shut(fd)
	}
}

// spawn forks the command without a copy of the memory, and returns when it was executed
// or has ended; why it wasn't executed is noted in the memory. See vfork for what this
// function may do.
//
//go:noinline
//go:nosplit
//go:norace
func (a *area) spawn(start span) (uintptr, syscall.Errno) {
	pid, errno := vfork()
	if errno != 0 || pid != 0 {
		return pid, syscall.Errno(errno)
	}
	a.run(start, false)
	exit(exitFailed)
	return 0, 0
}

// follow waits for the command and for orders, and ends when the command's whole
// tree has ended.
//
//go:nosplit
//go:norace
func (a *area) follow() {
	child := uint64(1) << (uint(syscall.SIGCHLD) - 1)
	children, _, errno := syscall.RawSyscall6(syscall.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&child)), signalSetSize, syscall.O_CLOEXEC, 0, 0)
	if errno != 0 {
		a.killAll()
		return
	}
	a.poll[0], a.poll[1] = pollFD{fd: a.conn, events: pollIn}, pollFD{fd: int32(children), events: pollIn}
	a.poll[2] = pollFD{fd: a.watch, events: pollIn} // the kernel skips one below zero
	for {
		left := a.reap(syscall.WNOHANG)
		if a.ended != 0 {
			if left {
				a.killAll()
			}
			a.report()
			return
		}
		a.poll[0].revents, a.poll[1].revents, a.poll[2].revents = 0, 0, 0
		raw(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&a.poll)), uintptr(len(a.poll)), 0)
		if a.poll[0].revents != 0 && !a.obey() {
			a.killAll()
			return
		}
		if a.poll[1].revents != 0 {
			raw(syscall.SYS_READ, children, uintptr(unsafe.Pointer(&a.info)), unsafe.Sizeof(a.info))
		}
		if a.poll[2].revents&pollIn != 0 {
			a.noteSocket()
		}
	}
}

// obey sends the signal that the parent asks for; false says that there is no
// parent.
//
//go:nosplit
//go:norace
func (a *area) obey() bool {
	if a.order() != MsgSignal {
		return false
	}
	target, sig := -int(a.leaf), uintptr(a.text[HeaderSize])
	raw(syscall.SYS_KILL, uintptr(target), sig, 0)
	if a.text[HeaderSize+1] != 0 {
		raw(syscall.SYS_KILL, ^uintptr(0), sig, 0)
	}
	return true
}

// reap collects ended children; false says that there are none any more.
//
//go:nosplit
//go:norace
func (a *area) reap(options uintptr) bool {
	for {
		var status uint32
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), options, 0, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return false
		case pid == 0:
			return true
		case int32(pid) == a.leaf:
			a.status, a.ended = status, 1
		}
	}
}

// killAll ends everything that the command started and waits for it.
//
//go:nosplit
//go:norace
func (a *area) killAll() {
	raw(syscall.SYS_KILL, ^uintptr(0), uintptr(syscall.SIGKILL), 0)
	a.reap(0)
}

// report tells how the command ended; see [EncodeExited].
//
//go:nosplit
//go:norace
func (a *area) report() {
	who := syscall.RUSAGE_CHILDREN
	raw(syscall.SYS_GETRUSAGE, uintptr(who), uintptr(unsafe.Pointer(&a.usage)), 0)
	micros := (a.usage.Utime.Sec+a.usage.Stime.Sec)*1e6 + a.usage.Utime.Usec + a.usage.Stime.Usec
	a.putHeader(MsgExited, 32)
	a.number(HeaderSize, uint64(a.status), 8)
	a.number(HeaderSize+8, uint64(micros), 8)
	a.number(HeaderSize+16, uint64(a.usage.Maxrss), 8)
	a.number(HeaderSize+24, a.noSockets(), 8)
	a.sendText(a.conn, HeaderSize+32, -1)
}
