package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/rundir"
	"agentd/cmd/agentd/internal/terminal"
)

// Exit codes, as documented in every command's help.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitBlocked = 3
)

// Main is the program. Its zero value is ready to use.
type Main struct {
	// Version of the build; "devel" if empty.
	Version string
	// Program is the name that the program was started by, under which it starts the
	// user's server in the background. If empty, none is started.
	Program string
}

// Run carries out one command line and returns the exit code. It changes nothing
// of the process but what the command asks for, so tests may call it beside each
// other. When ctx ends the command stops as on SIGTERM.
func (m *Main) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	stdout, unwritten := watchOutput(stdout)
	a := &app{version: m.Version, program: m.Program, in: stdin, out: stdout, err: stderr, env: envMap(env)}
	a.jsonErrors = slices.Contains(args, "--json")
	a.completing = len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
	if a.version == "" {
		a.version = "devel"
	}
	root := a.root() //nolint:contextcheck // cobra hands the context to the command
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = unwritten()
	}
	return a.exit(cmd, err)
}

// app is what all commands of one run share.
type app struct {
	version string
	program string
	in      io.Reader
	out     io.Writer
	err     io.Writer
	env     map[string]string
	// json says that standard output holds JSON only.
	json bool
	// jsonErrors says that an error is written as JSON. It is known before the
	// command line was understood, because it may be what is wrong.
	jsonErrors bool
	// completing says that a shell asks what could follow; only then is it of use to
	// know the values of flags.
	completing bool
	// warnedNoKey says that the missing key of the user was reported.
	warnedNoKey bool
	// table is the table of settings, which most commands have flags of.
	table []config.Setting
	// background says that this process is the user's own server.
	background bool
	// server is the address that --server names.
	server string
	// presence says to other processes that this one uses the user's server.
	presence *rundir.Presence
	// keyring has what the system's keyring answered.
	keyring askedKeyring
}

func envMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			m[k] = v
		}
	}
	return m
}

// exitError ends the program with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef is a mistake on the command line.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// silent ends the program with a code after everything was said.
func silent(code int) error { return &exitError{code, nil} }

// sayf tells something about the run itself. Where standard error can't be
// written there is no one to tell. What is told quotes files, names and answers of
// others, which must not reach the terminal as they are.
func (a *app) sayf(format string, args ...any) {
	_, _ = fmt.Fprintln(a.err, terminal.Sentences(terminal.PlainBlock(fmt.Sprintf(format, args...)), terminal.Width(a.err)))
}
