package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentd/sandbox"

	"golang.org/x/sys/unix"
)

// Reap looks for what is left of processes that an earlier run of ours started, and
// ends it. It must not be given entries of processes that this run manages.
func Reap(entries []Entry) []Fate {
	boot := bootID()
	fates := make([]Fate, len(entries))
	for i, e := range entries {
		fates[i] = reapEntry(e, boot)
	}
	return fates
}

func reapEntry(e Entry, boot string) Fate {
	if e.BootID != "" && boot != "" && e.BootID != boot {
		return Fate{e, Gone, "the machine was started again since"}
	}
	left := sandbox.KillCgroup(e.Cgroup)
	if e.Pid <= 0 || e.StartTime == "" {
		if left > 0 {
			return Fate{e, Ended, fmt.Sprintf("%d processes of its control group were ended; the ledger doesn't identify the process itself", left)}
		}
		return Fate{e, Unreachable, "the ledger doesn't identify the process"}
	}
	state, detail := endProcess(e)
	if state == Gone && left > 0 {
		return Fate{e, Ended, fmt.Sprintf("%d processes of its control group were ended", left)}
	}
	return Fate{e, state, detail}
}

// endProcess ends a process if it is the one that the entry means. The descriptor
// is opened first and the start time is compared after: a pid that was given to
// another process in between can't be hit.
func endProcess(e Entry) (State, string) {
	fd, err := unix.PidfdOpen(e.Pid, 0)
	if err == unix.ESRCH {
		return Gone, "no process has its pid"
	}
	if err != nil {
		return Unreachable, fmt.Sprintf("pid %d: %v", e.Pid, err)
	}
	defer unix.Close(fd) // named a process
	switch startTime(e.Pid) {
	case "":
		return Gone, "it ended just now"
	case e.StartTime:
	default:
		return Gone, "its pid belongs to another process"
	}
	if zombie(e.Pid) {
		return Gone, "it has ended and waits for its parent"
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err == unix.ESRCH {
		return Gone, "it ended just now"
	} else if err != nil {
		return Unreachable, fmt.Sprintf("pid %d: kill: %v", e.Pid, err)
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	deadline := time.Now().Add(reapFor)
	for {
		n, err := unix.Poll(poll, int(max(time.Until(deadline).Milliseconds(), 0)))
		switch {
		case n > 0:
			return Ended, "it was still there"
		case err == unix.EINTR && time.Now().Before(deadline):
		default:
			return Unreachable, fmt.Sprintf("pid %d did not end within %s", e.Pid, reapFor)
		}
	}
}

// bootID identifies the run of the kernel.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// Fields of /proc/PID/stat after the command's name.
const (
	statState = 0
	statStart = 19
)

// startTime is when a process started, in ticks since the boot; empty if there is
// no such process.
func startTime(pid int) string { return statField(pid, statStart) }

// zombie tells whether a process has ended but was not waited for.
func zombie(pid int) bool { return statField(pid, statState) == "Z" }

func statField(pid, field int) string {
	// By plain calls: package os asks twice for the end, and whether it can wait for it.
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd) // opened for reading
	var room [1024]byte  // some fifty numbers and a name of 64 bytes at most
	n, err := unix.Read(fd, room[:])
	for err == unix.EINTR {
		n, err = unix.Read(fd, room[:])
	}
	if err != nil {
		return ""
	}
	b := room[:n]
	// The name is in parentheses and may hold anything, parentheses too.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) <= field {
		return ""
	}
	return string(fields[field])
}

// nameOf names a signal.
func nameOf(sig int) string {
	if name := unix.SignalName(syscall.Signal(sig)); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(sig)
}
