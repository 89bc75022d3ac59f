// Package tool is the port to what an agent can do: tools with a schema, the
// inventory of those that a turn may use, and the tools that are built in.
//
// # Contract
//
// A [Tool] says what it is ([Tool.Info]) and runs one [Call] at a time per
// goroutine. Its input was checked against its schema before. It ends with a
// [Result] or with an [*Error] whose message tells the model what to do better;
// it stops soon after its context ends, and it never writes outside the
// workspace. What happens on the way (progress, changed files, processes) it
// tells its [Host], which records it. A tool decides nothing about permissions:
// the caller has asked before.
package tool

import (
	"context"
	"fmt"

	"agentd/event"
)

// Tool is something that an agent can do. Its methods may be called by many
// goroutines.
type Tool interface {
	// Info describes the tool. Policy and Reason are left to the inventory.
	Info() event.ToolInfo
	// Run carries out a call. See the package comment for its obligations. A call
	// that was stopped may return what it had beside the error.
	Run(ctx context.Context, call *Call) (*Result, error)
}

// Availability is implemented by a tool that is not always there, such as one of a
// server that can be down.
type Availability interface {
	// Available reports whether a call can be made now, and if not, why.
	Available() (ok bool, reason string)
}

// Bounded is implemented by a tool that is confined in a way of its own, such as
// one that a process beside the runtime carries out.
type Bounded interface {
	// Boundary says how a call is confined; nil if nothing is known of that.
	Boundary() *event.SandboxApplied
}

// Call is one use of a tool.
type Call struct {
	// SessionID, ThreadID, TurnID and ToolCallID are the call's ids in facts.
	SessionID, ThreadID, TurnID, ToolCallID string
	// Input is a JSON object that satisfies the tool's schema.
	Input event.Raw
	// Root is the workspace: an absolute path without symbolic links. Cwd is the
	// folder within it that relative paths start from.
	Root, Cwd string
	// MaxOutput bounds the bytes of Result.Output that are kept; a tool that has
	// more keeps the beginning and the end and counts what it dropped.
	MaxOutput int64
	// Outside says that this call was allowed to leave the sandbox.
	Outside bool
	// Denied says that a rule denies reading the file at an absolute path, which a tool
	// that reads many files leaves out. Nil denies none.
	Denied func(path string) bool
	// Credentials are the references that people gave for credentials in the call's
	// session, by [Need.Name].
	Credentials map[string]string
	// TraceParent and TraceState are the W3C trace context of the call, if it has one.
	TraceParent, TraceState string
	// Host runs the call.
	Host Host
}

// Host is what the runtime offers a tool while it runs. Its methods may be called
// by many goroutines until Run returns.
type Host interface {
	// Progress tells that the tool is alive, how far it is (0 to 1, negative if it
	// can't tell) and a piece of its output. It is gathered and bounded by the host.
	Progress(message string, fraction float64, text string)
	// Changing is called before the tool changes the file at path (absolute, within
	// the workspace): the host keeps what is there now, so that it can be undone.
	// It returns an error if the change must not happen.
	Changing(ctx context.Context, path string) error
	// Command runs a command in the sandbox. Only the shell tool needs it.
	Command(ctx context.Context, c *Command) (*Exit, error)
}

// Command is a command line for [Host.Command].
type Command struct {
	// Line is given to the shell.
	Line string
	// Cwd is absolute.
	Cwd string
	// TTY gives it a terminal.
	TTY bool
	// Background lets it outlive the call.
	Background bool
	// TimeoutMs ends it after that time; 0 is the host's default.
	TimeoutMs int64
	// MaxOutput bounds the output that is kept.
	MaxOutput int64
}

// Exit is how a command ended.
type Exit struct {
	ProcessID string
	// Code is the exit status; 128+n after signal n.
	Code int
	// Signal that ended it, such as SIGKILL.
	Signal string
	// Output is stdout and stderr as they came, bounded; Dropped counts the rest.
	Output  []byte
	Dropped int64
	// Running says that it goes on in the background.
	Running bool
	// TimedOut says that the time limit ended it.
	TimedOut bool
	// Changed lists what it changed under the workspace.
	Changed []event.FileChange
}

// Result is what a call gave.
type Result struct {
	// Output is what the model is to see, UTF-8 text unless MediaType says otherwise.
	Output []byte
	// MediaType of Output; text/plain if empty.
	MediaType string
	// Dropped counts the bytes of the output that were not kept.
	Dropped int64
	// Structured is the result as JSON, for tools that have one.
	Structured event.Raw
	// IsError says that the tool ran and tells of an error: the model sees it.
	IsError bool
	// Media are pictures for the model.
	Media []Media
	// ExitCode of a command; nil for other tools and for one that still runs.
	ExitCode *int
	// ProcessID of a command; Background says that it still runs.
	ProcessID  string
	Background bool
	// Changed lists the files that the call changed.
	Changed []event.FileChange
	// Preview is what people are shown; the beginning of Output if empty.
	Preview string
}

// Media is a picture or another content that isn't text.
type Media struct {
	MediaType string
	Data      []byte
}

// Categories of a failed call; those of tool.failed.
const (
	InvalidInput     = "invalid_input"
	NotFound         = "not_found"
	Denied           = "denied"
	SandboxViolation = "sandbox_violation"
	Timeout          = "timeout"
	Interrupted      = "interrupted"
	Lost             = "lost"
	HookBlocked      = "hook_blocked"
	Execution        = "execution"
	Unavailable      = "unavailable"
)

// Error is a call without a result.
type Error struct {
	// Category is one of tool.failed's error categories.
	Category string
	Message  string
	// Misfits are the places of a document that break its schema, the first ones; nil
	// if that isn't the reason. The message tells the same.
	Misfits []Misfit
	// Advice says what to do instead.
	Advice    string
	Retryable bool
	// Boundary, Path and Host say what was hit, for a sandbox violation. Liftable says
	// that the call would work outside of the sandbox.
	Boundary, Path, Host string
	Liftable             bool
	// Permanent says that no approval lifts the boundary.
	Permanent bool
	// Credential is what the call was refused for want of, before it did anything; nil
	// if that isn't the reason. The runtime may ask a person which one to use, and runs
	// the call again.
	Credential *Need
}

// Need is a credential that a call lacks.
type Need struct {
	// Name is what the credential is for, as facts and [Call.Credentials] name it.
	Name string
	// For is the same in words for people.
	For string
	// References are those that may be given, such as env:NAME: where a credential is
	// read from, never the credential.
	References []string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Category, e.Message) }

// Errorf returns an error of a category.
func Errorf(category, format string, args ...any) *Error {
	return &Error{Category: category, Message: fmt.Sprintf(format, args...)}
}
