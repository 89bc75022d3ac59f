package event

import "time"

// ProcessStarted enters a process into the ledger. It is durable before the
// process runs any code of the command.
type ProcessStarted struct {
	// ProcessID is the id of the process in the ledger.
	ProcessID string `json:"processId" check:"nonempty"`
	// Command is the program and its arguments.
	Command []string `json:"command"`
	// Cwd is the folder that it begins in.
	Cwd string `json:"cwd"`
	// TTY says that it has a terminal.
	TTY bool `json:"tty"`
	// Pid, StartTime, BootID and Cgroup identify the process after a restart.
	Pid int64 `json:"pid,omitempty"`
	// StartTime is when the kernel says that it began.
	StartTime string `json:"startTime,omitempty"`
	// BootID names the start of the machine since which it runs.
	BootID string `json:"bootId,omitempty"`
	// Cgroup is the control group that it is in.
	Cgroup string `json:"cgroup,omitempty"`
	// Background says that the call which started it does not wait for it.
	Background bool `json:"background,omitempty"`
	// Rows is the height of its terminal.
	Rows int64 `json:"rows,omitempty"`
	// Cols is the width of its terminal.
	Cols int64 `json:"cols,omitempty"`
}

// ProcessOutput is a piece of a process's output.
type ProcessOutput struct {
	// ProcessID is the process that it is about.
	ProcessID string `json:"processId" check:"nonempty"`
	// Stream says where the process wrote it.
	Stream string `json:"stream" enum:"stdout stderr tty"`
	// Text is the piece, if it is text.
	Text string `json:"text,omitempty"`
	// OutputRef is where a piece is that isn't text, or that comes after the text that the
	// facts of a process carry.
	OutputRef string `json:"outputRef,omitempty"`
	// Offset of the piece's first byte in the stream.
	Offset int64 `json:"offset"`
	// SizeBytes is the size of the piece in bytes.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// Binary says that the piece is not text.
	Binary bool `json:"binary,omitempty"`
}

// ProcessInput says that something was written to a process.
type ProcessInput struct {
	// ProcessID is the process that it is about.
	ProcessID string `json:"processId" check:"nonempty"`
	// SizeBytes is how many bytes were written.
	SizeBytes int64 `json:"sizeBytes"`
	// Preview is the beginning of what was written, without secrets.
	Preview string `json:"preview,omitempty"`
	// EOF says that nothing more comes.
	EOF bool `json:"eof,omitempty"`
	// Rows is the new height of the terminal.
	Rows int64 `json:"rows,omitempty"`
	// Cols is the new width of the terminal.
	Cols int64 `json:"cols,omitempty"`
	// WrittenBy is who wrote it.
	WrittenBy *Actor `json:"writtenBy,omitempty"`
}

// ProcessCompleted says that a process ended by itself.
type ProcessCompleted struct {
	// ProcessID is the process that it is about.
	ProcessID string `json:"processId" check:"nonempty"`
	// ExitCode is what the process ended with.
	ExitCode int64 `json:"exitCode"`
	// Signal is the signal that ended it, if one did.
	Signal string `json:"signal,omitempty"`
	// DurationMs is how long it ran, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// OutputRef is where the whole output is.
	OutputRef string `json:"outputRef,omitempty"`
	// StderrRef is where the whole error output is, if it is kept apart.
	StderrRef string `json:"stderrRef,omitempty"`
	// SizeBytes is the size of the whole output in bytes.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// CPUMs is the processor time that it used, in milliseconds.
	CPUMs int64 `json:"cpuMs,omitempty"`
	// MaxRSS is the most memory that it had, in bytes.
	MaxRSS int64 `json:"maxRssBytes,omitempty"`
}

// ProcessFailed says that a process could not run, or can no longer be identified.
type ProcessFailed struct {
	// ProcessID is the process that it is about.
	ProcessID string `json:"processId" check:"nonempty"`
	// ErrorCategory says of what kind the failure is, for programs.
	ErrorCategory string `json:"errorCategory" enum:"spawn sandbox permission timeout transport lost"`
	// Message says what went wrong, for people.
	Message string `json:"message" check:"nonempty"`
	// MayStillExist says that the process may still run, out of reach.
	MayStillExist bool `json:"mayStillExist,omitempty"`
	// OutputRef is where the output is that was seen.
	OutputRef string `json:"outputRef,omitempty"`
}

// ProcessTerminated says that a process was ended.
type ProcessTerminated struct {
	// ProcessID is the process that it is about.
	ProcessID string `json:"processId" check:"nonempty"`
	// Reason says on whose behalf it was ended.
	Reason string `json:"reason" enum:"user policy parent_cancelled shutdown timeout recovery"`
	// Signal is the signal that was sent.
	Signal string `json:"signal,omitempty"`
	// Detail says more, for people.
	Detail string `json:"detail,omitempty"`
	// DurationMs is how long it ran, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// OutputRef is where the whole output is.
	OutputRef string `json:"outputRef,omitempty"`
	// TerminatedBy is who ended it.
	TerminatedBy *Actor `json:"terminatedBy,omitempty"`
	// EndedAt is when it was found to have ended.
	EndedAt time.Time `json:"endedAt,omitzero"`
}
