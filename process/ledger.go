package process

import (
	"time"

	"agentd/event"
)

// Entry is what the ledger keeps of a process.
type Entry struct {
	ProcessID  string
	Command    []string
	Cwd        string
	TTY        bool
	Background bool
	Rows, Cols int
	// Pid is the machine's number of the process at the top of the tree. StartTime,
	// in ticks since the boot, and BootID make it unique for ever.
	Pid       int
	StartTime string
	BootID    string
	// Cgroup is the directory of the tree's control group, if it has one.
	Cgroup string
}

// Started is the entry as a fact.
func (e Entry) Started() event.ProcessStarted {
	s := event.ProcessStarted{
		ProcessID: e.ProcessID, Command: e.Command, Cwd: e.Cwd, TTY: e.TTY, Background: e.Background,
		Pid: int64(e.Pid), StartTime: e.StartTime, BootID: e.BootID, Cgroup: e.Cgroup,
	}
	if e.TTY {
		s.Rows, s.Cols = int64(e.Rows), int64(e.Cols)
	}
	return s
}

// identify describes a process that was just started.
func (p *Process) identify() Entry {
	e := Entry{
		ProcessID: p.spec.ProcessID, Command: p.spec.Argv, Cwd: p.spec.Cwd, TTY: p.spec.TTY, Background: p.spec.Background,
		Pid: p.child.Pid(), Cgroup: p.child.Cgroup(),
	}
	if e.Cwd == "" {
		e.Cwd = p.plan.Profile.Cwd
	}
	if e.TTY {
		e.Rows, e.Cols = p.spec.Rows, p.spec.Cols
	}
	e.StartTime, e.BootID = startTime(e.Pid), bootID()
	return e
}

// State is what became of a process that an earlier run of ours started.
type State string

// The states that Reap tells.
const (
	// Gone: it had ended before.
	Gone State = "gone"
	// Ended: something of it was still there and has been ended.
	Ended State = "ended"
	// Unreachable: it may still be there, and could not be ended or told apart.
	Unreachable State = "unreachable"
)

// Fate is what Reap found out about one entry.
type Fate struct {
	Entry  Entry
	State  State
	Detail string
}

// MayStillExist tells whether something of the process may be running.
func (f Fate) MayStillExist() bool { return f.State == Unreachable }

// reapFor bounds the wait for the end of one process that was killed.
const reapFor = 5 * time.Second
