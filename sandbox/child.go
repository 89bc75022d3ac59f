package sandbox

import (
	"os"
	"time"
)

// Command is what runs in a sandbox.
type Command struct {
	// Argv is the program and its arguments. A name without a slash is looked up in
	// the PATH that the command gets.
	Argv []string
	// Dir is where it starts; if empty, the profile's Cwd.
	Dir string
	// Env are further variables, "NAME=value".
	Env []string
	// TTY makes Stdin the controlling terminal.
	TTY bool
	// Supervise, if not nil, is asked before each program that the command or
	// anything below it starts, and refuses it by returning why. The command itself is
	// not asked about. It works where [Enforcement.Rules] isn't none, is called by one
	// goroutine, and must not wait for the command.
	Supervise func(Start) (refusal string)
	// Stdin, Stdout and Stderr are the command's. Nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
}

// Start is a program that a command is about to start, as the kernel was asked to.
type Start struct {
	// Path of the program's file as the sandbox sees it, absolute and without links.
	Path string
	// Dev and Ino are what the file is known by under all of its names.
	Dev, Ino uint64
	// Argv are the arguments, with the name that the caller gave it first.
	Argv []string
	// Dir is the working directory.
	Dir string
	// Resolve says which file a path means to the process that starts the program: its
	// path without links and what it is known by, unless that can't be told. It works
	// until the start is answered.
	Resolve func(path string) (file string, id Identity, ok bool)
}

// Refused is a start that was refused, with the reason that was given.
type Refused struct {
	Start  Start
	Reason string
}

// Exit is how a command ended.
type Exit struct {
	// Code of the command, or 128 and the signal's number, as a shell says it.
	Code int
	// Signal that ended it, by its number, or 0.
	Signal int
	// Failure says why the command could not be started; then nothing of it ran.
	Failure error
	// Killed says that the tree was ended from outside, so that its own status
	// isn't known.
	Killed bool
	// CPU and MaxRSS (bytes, of the largest process) of the whole tree.
	CPU    time.Duration
	MaxRSS int64
	// OutOfMemory counts processes that the control group's limit ended,
	// ForksRefused forks that it refused.
	OutOfMemory  int64
	ForksRefused int64
	// RefusedHosts are what the proxy did not let through.
	RefusedHosts []string
	// Refused are the first starts of programs that were refused.
	Refused []Refused
}

// Success tells whether the command ran and said that all is well.
func (e Exit) Success() bool { return e.Failure == nil && !e.Killed && e.Code == 0 }
