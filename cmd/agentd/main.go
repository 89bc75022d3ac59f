// Command agentd is the Agent Runtime as a program: the server, and the control
// plane from a shell.
//
// # Contract
//
// Everything is in [Main]: the binary and the end-to-end tests run the same
// code. What a command prints for people goes to standard output, what it has to
// say about itself (logs, progress, advice) to standard error, and with --json
// standard output holds JSON and nothing else. Exit codes are 0 for done, 1 for
// failed (for "verify": problems were found), 2 for a command line or a
// configuration that can't be used, and 3 for "run" when the turn waits for an
// action that no one can answer.
//
// Commands that need the facts talk to the server that --server names. With --data or
// AGENTD_DATA it is the server that holds that directory, or they open it
// themselves. With neither it is the user's own server, which they start in the
// background if it doesn't run; see [connect] and [app.attach].
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "agentd/cmd/agentd/internal/collector" // before all others
)

func main() {
	if profile, ok := os.LookupEnv(confineVariable); ok {
		os.Exit(runConfined(profile, os.Args[1:], os.Environ()))
	}
	os.Exit(run())
}

// run is the program with the process's own surroundings.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once: the facts are safe, and a person who
	// asks twice doesn't want to wait.
	context.AfterFunc(ctx, stop)
	m := Main{Version: buildVersion(), Program: os.Args[0]}
	return m.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
}
