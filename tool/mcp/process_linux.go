package mcp

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownProcessGroup makes the command the leader of a process group of its own that doesn't
// outlive the runtime.
func ownProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitProcess waits until the process ended, ends what is left of its group, and reaps
// it; reaping is called before its id may be given away.
func awaitProcess(cmd *exec.Cmd, reaping func()) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	reaping()
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	return cmd.Wait()
}

// termGroup asks the group of a command that wasn't reaped yet to terminate.
func termGroup(cmd *exec.Cmd) {
	if unix.Kill(-cmd.Process.Pid, unix.SIGTERM) != nil {
		_ = cmd.Process.Signal(unix.SIGTERM)
	}
}

// killGroup ends the group of a command that wasn't reaped yet. A sandbox may have
// placed the process in another group.
func killGroup(cmd *exec.Cmd) {
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	_ = cmd.Process.Kill()
}
