package stage

import (
	"syscall"
	"unsafe"
)

// What is here and in forked_linux.go runs in a process that was forked from a Go
// program and executes nothing: there are no other threads, and whatever lock of
// the runtime was held at the fork stays held. So nothing here may need the runtime:
// no allocation, no growth of the stack, no channel, no panic that is relied
// on. Hence the directives: nosplit (the linker checks how deep it goes), norace and
// nocheckptr (both instruments call the runtime), and system calls that don't tell
// the scheduler.

// raw does a system call that can't fail, or whose failure shows elsewhere.
//
//go:nosplit
//go:norace
func raw(nr, a, b, c uintptr) {
	_, _, _ = syscall.RawSyscall6(nr, a, b, c, 0, 0, 0) //nolint:dogsled // that is the point of it
}

// exit ends the process.
//
//go:nosplit
//go:norace
func exit(code uintptr) {
	for {
		raw(syscall.SYS_EXIT_GROUP, code, 0, 0)
	}
}

// shut closes a descriptor.
//
//go:nosplit
//go:norace
func shut(fd int32) {
	raw(syscall.SYS_CLOSE, uintptr(fd), 0, 0)
}

// rightsAt is where the descriptors begin in a control message.
const rightsAt = (unsafe.Sizeof(syscall.Cmsghdr{}) + wordSize - 1) &^ (wordSize - 1)

// receiveFiles reads the first bytes of a message into the head, and the
// descriptors that come with them. It returns how many bytes and descriptors.
//
//go:nosplit
//go:norace
func (a *area) receiveFiles(fd int32, length uintptr) (n, files int) {
	a.vec[0] = iovec{uintptr(unsafe.Pointer(&a.head)), length}
	a.msg = msghdr{
		iov: uintptr(unsafe.Pointer(&a.vec)), iovlen: 1,
		control: uintptr(unsafe.Pointer(&a.control)), controllen: unsafe.Sizeof(a.control),
	}
	r, _, errno := syscall.RawSyscall6(sysRecvmsg, uintptr(fd), uintptr(unsafe.Pointer(&a.msg)), syscall.MSG_CMSG_CLOEXEC, 0, 0, 0)
	for errno == syscall.EINTR {
		r, _, errno = syscall.RawSyscall6(sysRecvmsg, uintptr(fd), uintptr(unsafe.Pointer(&a.msg)), syscall.MSG_CMSG_CLOEXEC, 0, 0, 0)
	}
	if errno != 0 {
		return -1, 0
	}
	head := (*syscall.Cmsghdr)(unsafe.Pointer(&a.control))
	if a.msg.controllen < rightsAt || head.Level != syscall.SOL_SOCKET || head.Type != syscall.SCM_RIGHTS {
		return int(r), 0
	}
	files = min(int(uintptr(head.Len)-rightsAt)/4, maxRights)
	for i := range files {
		a.fds[i] = *(*int32)(unsafe.Add(unsafe.Pointer(&a.control), rightsAt+4*uintptr(i)))
	}
	return int(r), files
}

// fill reads n bytes to an offset of the memory; false is the end of the socket.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (a *area) fill(fd int32, at, n uintptr) bool {
	for n > 0 {
		r, _, errno := syscall.RawSyscall6(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(a))+at, n, 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || r == 0 {
			return false
		}
		at, n = at+r, n-r
	}
	return true
}

// sendText sends the first bytes of the text, with a descriptor beside them unless that
// is negative. If the parent is gone, the end of the socket says so too.
//
//go:nosplit
//go:norace
func (a *area) sendText(fd int32, n uintptr, file int32) {
	a.vec[0] = iovec{uintptr(unsafe.Pointer(&a.text)), n}
	a.msg = msghdr{iov: uintptr(unsafe.Pointer(&a.vec)), iovlen: 1}
	if file >= 0 {
		head := (*syscall.Cmsghdr)(unsafe.Pointer(&a.control))
		head.SetLen(int(rightsAt) + 4)
		head.Level, head.Type = syscall.SOL_SOCKET, syscall.SCM_RIGHTS
		*(*int32)(unsafe.Add(unsafe.Pointer(&a.control), rightsAt)) = file
		a.msg.control, a.msg.controllen = uintptr(unsafe.Pointer(&a.control)), (rightsAt+4+wordSize-1)&^(wordSize-1)
	}
	raw(sysSendmsg, uintptr(fd), uintptr(unsafe.Pointer(&a.msg)), syscall.MSG_NOSIGNAL)
}

// putHeader writes the header of a message into the text.
//
//go:nosplit
//go:norace
func (a *area) putHeader(kind byte, size uint32) {
	a.text[0] = kind
	a.number(1, uint64(size), 4)
}

// number writes a number with the given count of bytes into the text.
//
//go:nosplit
//go:norace
func (a *area) number(at int, v uint64, bytes int) {
	for i := range bytes {
		if at+i < len(a.text) {
			a.text[at+i] = byte(v >> (8 * uint(i)))
		}
	}
}
