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
	// ProcessID is the process's id.
	ProcessID string `json:"processId"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// StepID is the step that it belongs to.
	StepID string `json:"stepId,omitempty"`
	// ToolCallID is the call that started it.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Status of the process.
	Status string `json:"status"`
	// Command that was started, word by word.
	Command []string `json:"command,omitempty"`
	// Cwd is the folder that it began in.
	Cwd string `json:"cwd,omitempty"`
	// TTY says that it has a terminal.
	TTY bool `json:"tty,omitempty"`
	// Background says that the call went on without waiting for the end.
	Background bool `json:"background,omitempty"`
	// Rows of its terminal.
	Rows int64 `json:"rows,omitempty"`
	// Cols of its terminal.
	Cols int64 `json:"cols,omitempty"`
	// Pid is the kernel's number for it. With start time, boot and cgroup it identifies the
	// process after a restart.
	Pid int64 `json:"pid,omitempty"`
	// StartTime is the kernel's word for when it began.
	StartTime string `json:"startTime,omitempty"`
	// BootID of the machine that it runs on.
	BootID string `json:"bootId,omitempty"`
	// Cgroup that the kernel counts it in.
	Cgroup string `json:"cgroup,omitempty"`

	// StdoutBytes says how far its output got.
	StdoutBytes int64 `json:"stdoutBytes,omitempty"`
	// StderrBytes says how far its error output got.
	StderrBytes int64 `json:"stderrBytes,omitempty"`
	// TTYBytes says how far its terminal's output got.
	TTYBytes int64 `json:"ttyBytes,omitempty"`
	// InputBytes counts the bytes that it was sent.
	InputBytes int64 `json:"inputBytes,omitempty"`
	// InputClosed says that its input is at the end.
	InputClosed bool `json:"inputClosed,omitempty"`

	// ExitCode that it ended with; absent if it was killed or has not ended.
	ExitCode *int64 `json:"exitCode,omitempty"`
	// Signal that ended it.
	Signal string `json:"signal,omitempty"`
	// ErrorCategory classifies the failure.
	ErrorCategory string `json:"errorCategory,omitempty"`
	// Reason says why it ended or could not begin.
	Reason string `json:"reason,omitempty"`
	// MayStillExist says that the process's end could not be proved.
	MayStillExist bool `json:"mayStillExist,omitempty"`
	// OutputRef is where its output is.
	OutputRef string `json:"outputRef,omitempty"`
	// StderrRef is where its error output is.
	StderrRef string `json:"stderrRef,omitempty"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// StartSequence is where its start is found.
	StartSequence uint64 `json:"startSequence,omitempty"`
	// EndSequence is where its end is found.
	EndSequence uint64 `json:"endSequence,omitempty"`
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
