//go:build !unix

package mcp

import "os/exec"

// ownProcessGroup does nothing: there are no process groups here.
func ownProcessGroup(*exec.Cmd) {}

// awaitProcess waits for the process.
func awaitProcess(cmd *exec.Cmd, reaping func()) error {
	defer reaping()
	return cmd.Wait()
}

// termGroup does nothing: the end of its input is all that the process is told.
func termGroup(*exec.Cmd) {}

// killGroup ends the process, and leaves what it started.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
