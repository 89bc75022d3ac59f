//go:build !unix

package permission

import "os/exec"

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// killGroup ends a program.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
