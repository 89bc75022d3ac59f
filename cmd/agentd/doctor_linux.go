package main

import (
	"os"
	"strconv"
	"strings"
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

// machineFindings says which mechanisms the kernel offers. It only looks: what a
// sandbox enforces is said by the sandbox.
func machineFindings() []finding {
	return []finding{landlockFinding(), namespaceFinding(), cgroupFinding(), seccompFinding(), filesFinding()}
}

func landlockFinding() finding {
	// With this flag the call returns the version of the interface.
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return warn("sandbox: files", "use Linux 5.13 or newer with Landlock enabled", "Landlock is not available (%v)", errno)
	}
	return ok("sandbox: files", "Landlock, version %d of its interface", abi)
}

func namespaceFinding() finding {
	const name = "sandbox: namespaces"
	most := readNumber("/proc/sys/user/max_user_namespaces")
	if most == 0 {
		return warn(name, "set user.max_user_namespaces to a number above 0", "user namespaces are switched off")
	}
	if readNumber("/proc/sys/kernel/unprivileged_userns_clone") == 0 && os.Geteuid() != 0 {
		return warn(name, "set kernel.unprivileged_userns_clone=1", "ordinary users may not make user namespaces")
	}
	if readNumber("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1 && os.Geteuid() != 0 {
		return warn(name, "allow it in an AppArmor profile", "AppArmor restricts user namespaces")
	}
	return ok(name, "can be made, at most %d", most)
}

// readNumber reads a number from a file of the kernel; -1 if it isn't there.
func readNumber(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func cgroupFinding() finding {
	b, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return warn("sandbox: limits", "use a system with cgroup version 2", "cgroup version 2 is not mounted")
	}
	return ok("sandbox: limits", "cgroup version 2 (%s)", strings.TrimSpace(string(b)))
}

func seccompFinding() finding {
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err != nil {
		return warn("sandbox: system calls", "use a kernel with seccomp filters", "seccomp filters are not available")
	}
	return ok("sandbox: system calls", "seccomp filters")
}

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
