//go:build !linux

package sandbox

import (
	"errors"
	"os"
	"runtime"
)

// errUnsupported is the answer where there is no sandbox.
var errUnsupported = errors.New("running commands is only supported on Linux")

// Probe reports that nothing is enforced on this operating system.
func Probe() Report {
	no := unavailable("%s has no sandbox", runtime.GOOS)
	return Report{
		Kernel: runtime.GOOS, Landlock: no, Seccomp: no, NoNewPrivs: no, Supervise: no, UserNamespace: no, MountNamespace: no,
		PidNamespace: no, NetworkNamespace: no, ProcMount: no, PidMax: no, CgroupKill: no, CgroupPids: no, CgroupMemory: no, Rlimits: no,
	}
}

// ofAnotherUser isn't asked here what a command could change: there are none.
func ofAnotherUser(os.FileInfo) bool { return true }

// Child is a command in a sandbox. On this operating system there is none.
type Child struct{}

// Start says that commands can't run here.
func (p *Plan) Start(Command) (*Child, error) { return nil, errUnsupported }

// LookPath finds nothing.
func (p *Plan) LookPath(string) (Identity, bool) { return Identity{}, false }

// Pid is 0.
func (c *Child) Pid() int { return 0 }

// Cgroup is empty.
func (c *Child) Cgroup() string { return "" }

// Go fails.
func (c *Child) Go() error { return errUnsupported }

// Signal fails.
func (c *Child) Signal(int, bool) error { return errUnsupported }

// Kill fails.
func (c *Child) Kill() error { return errUnsupported }

// Wait returns at once.
func (c *Child) Wait() Exit { return Exit{Failure: errUnsupported} }

// Done is nil.
func (c *Child) Done() <-chan struct{} { return nil }

// Close does nothing.
func (c *Child) Close() {}

// KillCgroup finds nothing.
func KillCgroup(string) int { return 0 }

// Warm does nothing here.
type Warm struct{}

// Start says that commands can't run here.
func (w *Warm) Start(p *Plan, cmd Command) (*Child, error) { return p.Start(cmd) }

// Close does nothing.
func (w *Warm) Close() {}
