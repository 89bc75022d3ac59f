// Command testlog runs "go test" and prints of it what a person wants to see:
//
//	testlog go test -race ./...
//
// # Contract
//
// A line for each package, and the whole output of what failed, as "go test"
// without -v prints them; then, which "go test" keeps to itself, the slowest tests,
// and every test that was skipped, under the reason that it gave. So whatever a machine lacks shows
// in the log of a run. The exit status is that of "go test".
//
// It adds -json to the command, after the first argument "test", and reads what
// comes; lines that are not JSON are passed on.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

func main() {
	status, err := runCommand(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
	}
	os.Exit(status)
}

// runCommand runs the command and returns its exit status. An interrupt reaches the
// command too, as it is in the same group of the terminal, and ends both.
func runCommand(command []string, stdout, stderr io.Writer) (int, error) {
	at := slices.Index(command, "test")
	if at < 1 {
		return 2, errors.New("usage: testlog go test [ARGUMENT...]")
	}
	args := slices.Insert(slices.Clone(command[1:]), at, "-json")
	cmd := exec.Command(command[0], args...) //nolint:gosec,noctx // the command is the caller's; it ends by itself
	cmd.Stderr = stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	log := newReport(stdout)
	readErr := log.read(pipe)
	if readErr != nil { // else the command would wait for a reader
		_, _ = io.Copy(io.Discard, pipe)
	}
	err = cmd.Wait()
	log.finish()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), readErr
	}
	if err = errors.Join(err, readErr); err != nil {
		return 1, err
	}
	return 0, nil
}

// read takes lines of any length.
func (r *report) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
