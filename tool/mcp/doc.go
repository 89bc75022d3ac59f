// Package mcp offers the tools of Model Context Protocol servers as tools of the
// runtime. It speaks the revisions 2025-11-25 and 2026-07-28 of the protocol, on
// the standard streams of a process that it starts and over streamable HTTP.
//
// # Contract
//
// [Open] never fails as a whole: each server is started, watched and started
// again by itself, with a growing pause between attempts. One that can't be had
// is [Unavailable] with a reason; what it offered stays listed, and calling it
// says at once why it can't be had.
//
// A server is not trusted. What it sends is bounded in size and number, its
// schemas must compile without fetching anything, its descriptions are cleaned,
// its word that a tool only reads counts only where [Server.TrustHints] says so,
// and its process inherits no more of the environment than [BaseEnv] names. A
// result that contradicts the tool's own output schema is passed on with a note
// that says so. Requests of a server for sampling or for a person's input are
// declined; asked for roots, the client answers with [Options.Root].
//
// A call ends when its context or its time limit does, at once, and the server
// gets a cancellation. When a server is lost in the middle of a call, the call
// fails with category "lost", because it can't be known how far it came; only a
// tool that is known to just read fails as "unavailable" and may be repeated.
// A call that certainly didn't reach its server is "unavailable" as well. Calls
// that an HTTP server refuses because it forgot the session are made again in a
// new one, once.
//
// A server over HTTP that answers 401 and has [Server.Credentials] can be signed in
// to: a call that it refused says which credential it lacks ([tool.Need]), and in the
// place of a server that can't be reached without one stands the tool sign_in. The
// call that comes with a choice ([tool.Call.Credentials]) uses it, and all after it,
// until the server refuses that one too. The token is read at each request.
//
// [Client.Close] returns when no process and no goroutine is left. A server's
// process leads a process group of its own that is ended whole, and on Linux the
// kernel ends the process if the runtime dies. Descendants that leave the group
// are for the sandbox that [Options.Exec] puts the process in.
//
// # Concurrency
//
// All methods may be called by many goroutines. One goroutine per server owns its
// connection and calls [Options.OnState] and [Options.OnChange], one call at a
// time a server, without holding a lock: they may call [Client.Tools] and
// [Client.Status], but not [Client.Close].
package mcp

import (
	"log/slog"
	"os"
	"os/exec"
	"time"

	"agentd/event"
)

// Server says how a server is reached: Command or URL is set.
type Server struct {
	// ID names the server in tool names. It is unique.
	ID string
	// Command is the program and its arguments, for a server on standard input and
	// output.
	Command []string
	// URL is the address of a server over HTTP.
	URL string
	// Env is added to what the process inherits, as "NAME=value".
	Env []string
	// Headers are sent with each HTTP request. They never follow a redirect to
	// another origin.
	Headers map[string]string
	// Credentials are the references of bearer tokens that a person may choose for a
	// server over HTTP when it answers 401, such as env:NAME; see [Options.Credential].
	// None is used before.
	Credentials []string
	// Cwd is the folder that the process starts in; Options.Root if empty.
	Cwd string
	// Timeout of a call; two minutes if zero.
	Timeout time.Duration
	// StartTimeout bounds start, handshake and first listing of the tools; 30
	// seconds if zero.
	StartTimeout time.Duration
	// Boundary says how the process is confined, for the facts of its calls; nil if
	// nothing is known of that.
	Boundary *event.SandboxApplied
	// TrustHints believes the server which of its tools only read and which destroy.
	TrustHints bool
	// Protocol is the revision to begin with; the newest if empty. The server may
	// settle for an older one.
	Protocol string
}

// Options configure a [Client]. The zero value is useful.
type Options struct {
	// Logger gets what helps to find out why a server doesn't work; nothing is
	// logged if nil.
	Logger *slog.Logger
	// Version of the runtime, told to servers; "dev" if empty.
	Version string
	// Root is the workspace: where processes start, and what servers are told that
	// ask for roots. Empty tells them none.
	Root string
	// Credential reads what is behind a reference, at each use of it. Its errors are
	// shown to people and models: they say nothing of what was read.
	Credential func(ref string) (string, error)
	// OnChange is called after the result of Tools changed.
	OnChange func()
	// OnState is called after the state of a server changed. The reason is for
	// people; it may hold the end of what the server wrote to its standard error.
	OnState func(server string, state State, reason string)
	// Exec changes a command before it is started, to place it in a sandbox or a
	// group; an error keeps it from starting. The command has its environment,
	// folder and standard streams; SysProcAttr is set as this package needs it.
	Exec func(server string, cmd *exec.Cmd) error
	// Limited says, from how the process of a server ended, whether a limit of its
	// sandbox ended it. Nil knows of no limits.
	Limited func(state *os.ProcessState) bool
	// OnProcess is called when the process of a server was started (running) and
	// when it was reaped.
	OnProcess func(server string, pid int, running bool)

	// pause before an attempt; a test sets it.
	pause func(attempt int) time.Duration
}

// State of a server.
type State string

// The states of a server.
const (
	// Starting: an attempt to reach it is under way.
	Starting State = "starting"
	// Ready: its tools can be called.
	Ready State = "ready"
	// Unavailable: the last attempt failed, or it was lost; another one follows.
	Unavailable State = "unavailable"
	// Closed: the client was closed.
	Closed State = "closed"
)

// Status is what is known about a server.
type Status struct {
	ID     string
	State  State
	Reason string
	// Name and Version are what the server calls itself, Protocol the revision that
	// is spoken with it.
	Name, Version, Protocol string
	// Tools counts what it offers, Skipped says what was left out and why.
	Tools   int
	Skipped []string
	// Connects counts how often it was reached.
	Connects int
	// Stderr is the end of what its last process wrote to its standard error.
	Stderr string
}

// Bounds on what a server may send. Each of them is stated where it is hit.
const (
	// maxMessage bounds a message in bytes.
	maxMessage = 16 << 20
	// maxSchema bounds a tool's schema in bytes.
	maxSchema = 64 << 10
	// maxDescription bounds a tool's description in bytes.
	maxDescription = 8 << 10
	// maxTools bounds the tools of a server, maxPages the pages they come in.
	maxTools = 512
	maxPages = 128
	// maxSkipped bounds the reasons in Status.Skipped.
	maxSkipped = 32
	// maxMedia bounds the pictures of a result in bytes, maxPictures in number.
	maxMedia    = 8 << 20
	maxPictures = 16
	// maxNote bounds a message of the server in an error, a note or a progress.
	maxNote = 2 << 10
	// defaultOutput bounds a result when the call doesn't.
	defaultOutput = 1 << 20
	// tailBytes of standard error are kept.
	tailBytes = 8 << 10
	// maxRounds bounds how often a server may ask for more input in one call.
	maxRounds = 4
	// maxGarbage bounds the bytes that aren't messages, on standard output, from one
	// message to the next.
	maxGarbage = 1 << 20
)

// Time limits that no server has an influence on.
const (
	defaultTimeout      = 2 * time.Minute
	defaultStartTimeout = 30 * time.Second
	// writeTimeout bounds a write to a process that doesn't read.
	writeTimeout = 30 * time.Second
	// stable is how long a connection must hold for the pauses to begin anew.
	stable = 30 * time.Second
	// eofGrace is how long a process has to leave, each, after its input was closed
	// and after it was asked to terminate.
	eofGrace  = 500 * time.Millisecond
	termGrace = 2 * time.Second
	// drainGrace is how long the output of a process that ended is read on.
	drainGrace = time.Second
)
