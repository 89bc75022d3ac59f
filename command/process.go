package command

import (
	"encoding/base64"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// WriteProcessStdin writes to a process.
type WriteProcessStdin struct {
	Mutation
	// ProcessID is the process's id.
	ProcessID string `json:"processId" check:"id"`
	// Data is written as text.
	Data string `json:"data,omitempty" max:"16777216" secret:"pass"`
	// Base64 is written as the bytes that it stands for. true instead of a text says
	// that data is in base64.
	Base64 Base64 `json:"base64,omitempty" also:"boolean" max:"22369624" secret:"pass"`
	// EOF closes the process's input after the data.
	EOF bool `json:"eof,omitempty"`
}

// Command implements [Params].
func (*WriteProcessStdin) Command() Name                    { return "write_process_stdin" }
func (*WriteProcessStdin) returns(*WriteProcessStdinResult) {}

// Validate implements [Params].
func (p *WriteProcessStdin) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	_, err := p.Bytes()
	return err
}

// Bytes returns what is to be written.
func (p *WriteProcessStdin) Bytes() ([]byte, error) {
	param, text := "base64", string(p.Base64)
	switch {
	case p.Base64 == DataIsBase64:
		param, text = "data", p.Data
	case p.Data != "" && p.Base64 != "":
		return nil, fault.Param("base64", "give either data or base64, not both")
	case p.Base64 == "":
		text = p.Data
	}
	switch {
	case text == "" && !p.EOF:
		return nil, fault.Param("data", "is missing: give data, base64 or eof")
	case p.Base64 == "":
		return []byte(text), nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fault.Param(param, "is not base64")
	}
	return b, nil
}

// Base64 is a text in base64, or [DataIsBase64].
type Base64 string

// DataIsBase64 is what true on the wire becomes. As base64 it stands for nothing.
const DataIsBase64 Base64 = "="

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Base64) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true":
		*t = DataIsBase64
		return nil
	case "false":
		*t = ""
		return nil
	}
	if err := wire.DecodeValue("", b, (*string)(t)); err != nil {
		return err
	}
	if *t == DataIsBase64 {
		*t = "==" // not base64 either, and not what true means
	}
	return nil
}

// WriteProcessStdinResult says how much was written.
type WriteProcessStdinResult struct {
	// ProcessID is the process's id.
	ProcessID string `json:"processId"`
	// WrittenBytes counts what the process's input took.
	WrittenBytes int64 `json:"writtenBytes"`
}

// TerminateProcess ends a process and what it started.
type TerminateProcess struct {
	Mutation
	// ProcessID is the process's id.
	ProcessID string `json:"processId" check:"id"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// Signal to send first; default TERM. What remains after a while is killed.
	Signal string `json:"signal,omitempty" enum:"HUP INT QUIT KILL TERM USR1 USR2 SIGHUP SIGINT SIGQUIT SIGKILL SIGTERM SIGUSR1 SIGUSR2"`
}

// Command implements [Params].
func (*TerminateProcess) Command() Name          { return "terminate_process" }
func (*TerminateProcess) returns(*ProcessResult) {}

// Validate implements [Params].
func (p *TerminateProcess) Validate() error { return check(p) }

// ResizeProcess changes the size of a process's terminal.
type ResizeProcess struct {
	Mutation
	// ProcessID is the process's id.
	ProcessID string `json:"processId" check:"id"`
	// Rows of the terminal.
	Rows int64 `json:"rows" min:"1" max:"10000"`
	// Cols are the columns of the terminal.
	Cols int64 `json:"cols" min:"1" max:"10000"`
}

// Command implements [Params].
func (*ResizeProcess) Command() Name          { return "resize_process" }
func (*ResizeProcess) returns(*ProcessResult) {}

// Validate implements [Params].
func (p *ResizeProcess) Validate() error { return check(p) }

// ProcessResult is a process's standing after a command.
type ProcessResult struct {
	// ProcessID is the process's id.
	ProcessID string `json:"processId"`
	// Status of the process.
	Status string `json:"status"`
}

// ListProcesses lists processes.
type ListProcesses struct {
	Page
	// SessionID keeps the processes of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Status keeps the processes with that status.
	Status string `json:"status,omitempty" enum:"running completed failed terminated"`
	// TurnID keeps the processes that this turn started.
	TurnID string `json:"turnId,omitempty" check:"id"`
	// Type keeps the processes that run in the background, or those that a call waits for.
	Type string `json:"type,omitempty" enum:"foreground background"`
	Narrowing
	// Sort is what the processes are ordered by; default id.
	Sort string `json:"sort,omitempty" enum:"id created updated duration"`
}

// Command implements [Params].
func (*ListProcesses) Command() Name                { return "list_processes" }
func (*ListProcesses) returns(*ListProcessesResult) {}

// Validate implements [Params].
func (p *ListProcesses) Validate() error { return checkNarrowing(p, &p.Narrowing) }

// ListProcessesResult is a page of processes.
type ListProcessesResult struct {
	// Processes of this page.
	Processes []ProcessRecord `json:"processes"`
	// Total counts the processes that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ProcessRecord is the record of a process.
type ProcessRecord struct {
	// ProcessID is the process's id.
	ProcessID string `json:"processId"`
	// SessionID is the session that it runs for.
	SessionID string `json:"sessionId,omitempty"`
	// ThreadID is the thread that it runs for.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that started it.
	TurnID string `json:"turnId,omitempty"`
	// ToolCallID is the call that started it.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Background says that no call waits for its end.
	Background bool `json:"background,omitempty"`
	// Status of the process.
	Status string `json:"status"`
	// Command is the program and its arguments.
	Command []string `json:"command,omitempty"`
	// Cwd is the folder that it runs in.
	Cwd string `json:"cwd,omitempty"`
	// TTY says that it has a terminal.
	TTY bool `json:"tty,omitempty"`
	// ExitCode of a process that ended by itself.
	ExitCode *int64 `json:"exitCode,omitempty"`
	// OutputRef is where its output is.
	OutputRef string `json:"outputRef,omitempty"`
	// StartedAt is when it was started.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// DurationMs is how long it ran.
	DurationMs int64 `json:"durationMs,omitempty"`
}
