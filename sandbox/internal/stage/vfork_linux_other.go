//go:build linux && !amd64 && !arm64

package stage

import "syscall"

// vfork isn't known here, and nothing that needs it is forked.
func vfork() (pid, errno uintptr) { return 0, uintptr(syscall.ENOSYS) }
