package stage

import (
	"syscall"
	"unsafe"
)

// threadPointer is the address of the thread's own memory, where a C library has
// the kernel write to.
func threadPointer() (uintptr, bool) {
	const getFS = 0x1003
	var fs uintptr
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, getFS, uintptr(unsafe.Pointer(&fs)), 0)
	return fs, errno == 0 && fs != 0
}
