//go:build linux && (amd64 || arm64)

package stage

// vfork forks a process that shares the memory, and lets the caller go on when that has
// executed a program or ended. The new process runs on the same stack: it must not
// return from the function that calls this, and that function must return at once.
//
//go:noescape
func vfork() (pid, errno uintptr)
