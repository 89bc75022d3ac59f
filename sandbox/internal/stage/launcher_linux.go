package stage

import (
	"syscall"
	"unsafe"
)

// LauncherMode is the value of [Marker] that makes our binary a launcher: a process
// that does nothing but fork stages when it is asked to, so that no stage has to
// begin with the start of a Go program.
const LauncherMode = "launcher"

// What a launcher is sent, with the socket of the new stage and, if there
// is a control group to be born in, its directory.
const (
	// AskedSize is the size of a request: the flags of clone.
	AskedSize = 8
	// AnswerSize is the size of an answer: the process id, or an error below zero.
	AnswerSize = 8
)

// launcher is the life of a launcher. The process that was started forks one more
// and ends: the new one has a single thread and no runtime that would wake up from
// time to time. Its parent is ours.
func launcher(fd int) int {
	const size = payloadAt + MaxMessage
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return exitFailed
	}
	a := (*area)(unsafe.Pointer(&memory[0]))
	begin := uintptr(unsafe.Pointer(a))
	a.planTrim(extent{begin, begin + size})
	a.conn, a.listener, a.supervisor, a.watch = int32(fd), -1, -1, -1
	all := ^uint64(0)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigBlock, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&a.mask)), signalSetSize, 0, 0)
	if errno != 0 {
		return exitFailed
	}
	roomy()
	if a.split() != 0 {
		return exitFailed
	}
	return exitDone
}

// The lives of what is forked are called through these: the linker counts how much
// stack a chain of functions uses that don't check it, and takes a call that it
// can't follow for the begin of a new one. Each chain keeps to the linker's bound, and
// roomy sees to it that there is room for all of them.
var (
	serveRequests = (*area).serve
	liveForked    = (*area).forked
	followCommand = (*area).follow
)

// stackRoom is what the forked processes find on their stack: many times what they
// use, and less than the window that is kept of it.
const stackRoom = 32 << 10

// roomy makes the stack grow now, while there is a runtime that can do it. It doesn't
// shrink again: only the garbage collector makes it, and that is off.
//
//go:noinline
func roomy() byte {
	var room [stackRoom]byte
	for i := range room {
		room[i] = byte(i)
	}
	return room[len(room)/2]
}

// split forks the launcher proper.
//
//go:nosplit
//go:norace
func (a *area) split() syscall.Errno {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.CLONE_PARENT)|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		a.trim()
		serveRequests(a)
	}
	return errno
}

// serve forks a stage for each request until the socket ends.
//
//go:nosplit
//go:norace
func (a *area) serve() {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	a.number(0, uint64(pid), AnswerSize)
	a.sendText(a.conn, AnswerSize, -1)
	for {
		n, files := a.receiveFiles(a.conn, AskedSize)
		if n <= 0 {
			exit(exitDone)
		}
		pid, errno := uintptr(0), syscall.EINVAL
		switch {
		case a.msg.flags&syscall.MSG_CTRUNC != 0:
			// A descriptor found no room. Without that of its control group a stage
			// would be born outside of it.
			errno = syscall.EMFILE
		case n == AskedSize && files > 0:
			pid, errno = a.fork(*(*uint64)(unsafe.Pointer(&a.head)), files)
		}
		for i := range files {
			shut(a.fds[i])
		}
		answer := uint64(pid)
		if errno != 0 {
			answer = -uint64(errno)
		}
		a.number(0, answer, AnswerSize)
		a.sendText(a.conn, AnswerSize, -1)
	}
}

// fork makes a stage. It is a child of the launcher's parent.
//
//go:nosplit
//go:norace
func (a *area) fork(flags uint64, files int) (uintptr, syscall.Errno) {
	flags |= syscall.CLONE_PARENT
	var pid uintptr
	var errno syscall.Errno
	if files > 1 {
		a.clone = [len(a.clone)]uint64{0: flags | cloneIntoCgroup, 10: uint64(a.fds[1])}
		pid, _, errno = syscall.RawSyscall6(sysClone3, uintptr(unsafe.Pointer(&a.clone)), unsafe.Sizeof(a.clone), 0, 0, 0, 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(flags)|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	liveForked(a, files)
	return 0, 0
}
