package event

import "time"

// ProcessStarted enters a process into the ledger. It is durable before the
// process runs any code of the command.
type ProcessStarted struct {
	ProcessID string   `json:"processId" check:"nonempty"`
	Command   []string `json:"command"`
	Cwd       string   `json:"cwd"`
	TTY       bool     `json:"tty"`
	// Pid, StartTime, BootID and Cgroup identify the process after a restart.
	Pid        int64  `json:"pid,omitempty"`
	StartTime  string `json:"startTime,omitempty"`
	BootID     string `json:"bootId,omitempty"`
	Cgroup     string `json:"cgroup,omitempty"`
	Background bool   `json:"background,omitempty"`
	Rows       int64  `json:"rows,omitempty"`
	Cols       int64  `json:"cols,omitempty"`
}

// ProcessOutput is a piece of a process's output.
type ProcessOutput struct {
	ProcessID string `json:"processId" check:"nonempty"`
	Stream    string `json:"stream" enum:"stdout stderr tty"`
	Text      string `json:"text,omitempty"`
	// OutputRef is where a piece is that isn't text, or that comes after the text that the
	// facts of a process carry.
	OutputRef string `json:"outputRef,omitempty"`
	// Offset of the piece's first byte in the stream.
	Offset    int64 `json:"offset"`
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	Binary    bool  `json:"binary,omitempty"`
}

// ProcessInput says that something was written to a process.
type ProcessInput struct {
	ProcessID string `json:"processId" check:"nonempty"`
	SizeBytes int64  `json:"sizeBytes"`
	Preview   string `json:"preview,omitempty"`
	EOF       bool   `json:"eof,omitempty"`
	Rows      int64  `json:"rows,omitempty"`
	Cols      int64  `json:"cols,omitempty"`
	WrittenBy *Actor `json:"writtenBy,omitempty"`
}

// ProcessCompleted says that a process ended by itself.
type ProcessCompleted struct {
	ProcessID  string `json:"processId" check:"nonempty"`
	ExitCode   int64  `json:"exitCode"`
	Signal     string `json:"signal,omitempty"`
	DurationMs int64  `json:"durationMs"`
	OutputRef  string `json:"outputRef,omitempty"`
	StderrRef  string `json:"stderrRef,omitempty"`
	SizeBytes  int64  `json:"sizeBytes,omitempty"`
	CPUMs      int64  `json:"cpuMs,omitempty"`
	MaxRSS     int64  `json:"maxRssBytes,omitempty"`
}

// ProcessFailed says that a process could not run, or can no longer be identified.
type ProcessFailed struct {
	ProcessID     string `json:"processId" check:"nonempty"`
	ErrorCategory string `json:"errorCategory" enum:"spawn sandbox permission timeout transport lost"`
	Message       string `json:"message" check:"nonempty"`
	MayStillExist bool   `json:"mayStillExist,omitempty"`
	OutputRef     string `json:"outputRef,omitempty"`
}

// ProcessTerminated says that a process was ended.
type ProcessTerminated struct {
	ProcessID    string    `json:"processId" check:"nonempty"`
	Reason       string    `json:"reason" enum:"user policy parent_cancelled shutdown timeout recovery"`
	Signal       string    `json:"signal,omitempty"`
	Detail       string    `json:"detail,omitempty"`
	DurationMs   int64     `json:"durationMs,omitempty"`
	OutputRef    string    `json:"outputRef,omitempty"`
	TerminatedBy *Actor    `json:"terminatedBy,omitempty"`
	EndedAt      time.Time `json:"endedAt,omitzero"`
}
