//go:build unix && !linux

package mcp

import (
	"os/exec"
	"syscall"
)

// ownProcessGroup makes the command the leader of a process group of its own. Nothing here
// ends it when the runtime is killed, but the end of its input.
func ownProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitProcess waits for the process and ends what is left of its group. Between the two
// the group's id could be given away, which needs all ids to be used up.
func awaitProcess(cmd *exec.Cmd, reaping func()) error {
	err := cmd.Wait()
	reaping()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return err
}

// termGroup asks the group of a command that wasn't reaped yet to terminate.
func termGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// killGroup ends the group of a command that wasn't reaped yet.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
