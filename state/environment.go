package state

import (
	"time"

	"agentd/event"
)

// Statuses of a process.
const (
	ProcessRunning    = "running"
	ProcessCompleted  = "completed"
	ProcessFailed     = "failed"
	ProcessTerminated = "terminated"
)

// Environment is where the session's commands run and what runs there.
type Environment struct {
	// Cwd is the folder of the newest process or sandbox, CwdSequence the fact
	// that says so.
	Cwd         string `json:"cwd,omitempty"`
	CwdSequence uint64 `json:"cwdSequence,omitempty"`
	// Active is the ledger of processes that have not ended, oldest first.
	Active []*Process `json:"active,omitempty"`
	// Recent holds the last ended ones, oldest first.
	Recent []*Process `json:"recent,omitempty"`
	// Started counts all processes, Counts the ended ones by status.
	Started int64            `json:"started,omitempty"`
	Counts  map[string]int64 `json:"counts,omitempty"`
}

// Process is one entry of the ledger.
type Process struct {
	ProcessID  string   `json:"processId"`
	ThreadID   string   `json:"threadId,omitempty"`
	TurnID     string   `json:"turnId,omitempty"`
	StepID     string   `json:"stepId,omitempty"`
	ToolCallID string   `json:"toolCallId,omitempty"`
	Status     string   `json:"status"`
	Command    []string `json:"command,omitempty"`
	Cwd        string   `json:"cwd,omitempty"`
	TTY        bool     `json:"tty,omitempty"`
	Background bool     `json:"background,omitempty"`
	Rows       int64    `json:"rows,omitempty"`
	Cols       int64    `json:"cols,omitempty"`
	// Pid, StartTime, BootID and Cgroup identify the process after a restart.
	Pid       int64  `json:"pid,omitempty"`
	StartTime string `json:"startTime,omitempty"`
	BootID    string `json:"bootId,omitempty"`
	Cgroup    string `json:"cgroup,omitempty"`

	// StdoutBytes, StderrBytes and TTYBytes say how far each stream got.
	StdoutBytes int64 `json:"stdoutBytes,omitempty"`
	StderrBytes int64 `json:"stderrBytes,omitempty"`
	TTYBytes    int64 `json:"ttyBytes,omitempty"`
	InputBytes  int64 `json:"inputBytes,omitempty"`
	InputClosed bool  `json:"inputClosed,omitempty"`

	ExitCode      *int64 `json:"exitCode,omitempty"`
	Signal        string `json:"signal,omitempty"`
	ErrorCategory string `json:"errorCategory,omitempty"`
	Reason        string `json:"reason,omitempty"`
	// MayStillExist says that the process's end could not be proved.
	MayStillExist bool      `json:"mayStillExist,omitempty"`
	OutputRef     string    `json:"outputRef,omitempty"`
	StderrRef     string    `json:"stderrRef,omitempty"`
	DurationMs    int64     `json:"durationMs,omitempty"`
	StartedAt     time.Time `json:"startedAt,omitzero"`
	EndedAt       time.Time `json:"endedAt,omitzero"`
	StartSequence uint64    `json:"startSequence,omitempty"`
	EndSequence   uint64    `json:"endSequence,omitempty"`
}

func (v *Environment) open() bool { return len(v.Active) > 0 }

// Find returns a process of the working set, or nil.
func (v *Environment) Find(id string) *Process {
	for _, list := range [...][]*Process{v.Active, v.Recent} {
		if i := indexWhere(list, func(x *Process) bool { return x.ProcessID == id }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

func (v *Environment) setPlace(cwd string, sequence uint64) {
	if cwd != "" {
		v.Cwd, v.CwdSequence = cwd, sequence
	}
}

// process folds the facts of processes.
func (f *fold) process() {
	if p, ok := f.e.Payload.(*event.ProcessStarted); ok {
		f.processStarted(p)
		return
	}
	i := indexWhere(f.s.Environment.Active, func(x *Process) bool { return x.ProcessID == f.e.ProcessID })
	if i < 0 {
		return
	}
	x := f.s.Environment.Active[i]
	switch p := f.e.Payload.(type) {
	case *event.ProcessOutput:
		x.output(p)
	case *event.ProcessInput:
		x.InputBytes += p.SizeBytes
		x.InputClosed = x.InputClosed || p.EOF
		setIf(&x.Rows, p.Rows)
		setIf(&x.Cols, p.Cols)
	case *event.ProcessCompleted:
		code := p.ExitCode
		x.ExitCode, x.Signal, x.DurationMs, x.StderrRef = &code, p.Signal, p.DurationMs, p.StderrRef
		f.endProcess(i, ProcessCompleted, p.OutputRef)
	case *event.ProcessFailed:
		x.ErrorCategory, x.Reason, x.MayStillExist = p.ErrorCategory, preview(p.Message), p.MayStillExist
		f.endProcess(i, ProcessFailed, p.OutputRef)
		f.incident("process_"+p.ErrorCategory, x.ProcessID+": "+p.Message, p.MayStillExist)
	case *event.ProcessTerminated:
		x.Reason, x.Signal, x.DurationMs = p.Reason, p.Signal, p.DurationMs
		f.endProcess(i, ProcessTerminated, p.OutputRef)
	}
}

func (f *fold) processStarted(p *event.ProcessStarted) {
	env := &f.s.Environment
	if env.Find(f.e.ProcessID) != nil {
		return
	}
	env.Started++
	env.setPlace(p.Cwd, f.e.Sequence)
	env.Active = append(env.Active, &Process{
		ProcessID: f.e.ProcessID, ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, StepID: f.e.StepID, ToolCallID: f.e.ToolCallID, Status: ProcessRunning,
		Command: firstN(p.Command, keepRefs), Cwd: p.Cwd, TTY: p.TTY, Background: p.Background, Rows: p.Rows, Cols: p.Cols,
		Pid: p.Pid, StartTime: p.StartTime, BootID: p.BootID, Cgroup: p.Cgroup,
		StartedAt: f.e.Time, StartSequence: f.e.Sequence,
	})
}

// output notes how far a stream got.
func (x *Process) output(p *event.ProcessOutput) {
	end := p.Offset + max(p.SizeBytes, int64(len(p.Text)))
	switch p.Stream {
	case "stdout":
		x.StdoutBytes = max(x.StdoutBytes, end)
	case "stderr":
		x.StderrBytes = max(x.StderrBytes, end)
	case "tty":
		x.TTYBytes = max(x.TTYBytes, end)
	}
}

func (f *fold) endProcess(i int, status, outputRef string) {
	env := &f.s.Environment
	x := env.Active[i]
	x.Status, x.EndedAt, x.EndSequence = status, f.e.Time, f.e.Sequence
	setIf(&x.OutputRef, outputRef)
	env.Counts = addCount(env.Counts, status, 1)
	env.Active = removed(env.Active, i)
	if len(env.Recent) == keepRecent {
		f.evict("process/"+env.Recent[0].ProcessID, env.Recent[0])
	}
	env.Recent = recent(env.Recent, x, keepRecent)
}
