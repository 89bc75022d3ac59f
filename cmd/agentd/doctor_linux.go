package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBytes returns the space that is left on a directory's disk.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// machineFindings says what the machine offers beside the sandbox.
func machineFindings() []finding { return []finding{filesFinding()} }

func filesFinding() finding {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return warn("open files", "", "%v", err)
	}
	if lim.Cur < 8192 {
		return warn("open files", "raise it, for example with ulimit -n 65536", "the limit is %d; every client and every table of the store needs one", lim.Cur)
	}
	return ok("open files", "the limit is %d", lim.Cur)
}
