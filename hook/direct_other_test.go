//go:build !unix

package hook

import (
	"os/exec"
	"time"
)

// group bounds the wait; there are no process groups here.
func group(cmd *exec.Cmd) { cmd.WaitDelay = time.Second }

func sweep(*exec.Cmd) {}

func status(cmd *exec.Cmd) int { return cmd.ProcessState.ExitCode() }
