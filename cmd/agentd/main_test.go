package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// stateHome is where the processes of tests keep the key that tells whose data a
// directory holds, and runtimeHome where their sockets are: the same for all of them, and
// never the user's own, whose folders may be broken or have servers in them.
var stateHome, runtimeHome string

// reporting runs the tests and says what was run again.
type reporting struct{ testscript.TestingM }

func (r reporting) Run() int {
	var err error
	if stateHome, err = os.MkdirTemp("/tmp", "agentd-state-*"); err == nil { // a socket's path is short
		runtimeHome = filepath.Join(stateHome, "run")
		err = os.Mkdir(runtimeHome, 0o700)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := r.TestingM.Run()
	replayed.Report(os.Stdout)
	if err := os.RemoveAll(stateHome); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestMain lets the test binary be agentd itself when it is run under that name,
// so that tests run real processes.
func TestMain(m *testing.M) {
	testscript.Main(reporting{m}, map[string]func(){"agentd": noted, "tinymcp": tinyMCP})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: recordScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   cmdExits,
			"waitfor": cmdWaitFor,
			"capture": cmdCapture,
			"replace": cmdReplace,
		},
	})
}

// cmdExits runs a program and wants an exit code: exits CODE PROGRAM ARGUMENT...
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("the exit code is %d, want %d", got, want)
	}
}

// cmdWaitFor waits until a file is there: waitfor FILE.
func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: waitfor FILE")
	}
	for {
		_, err := os.Stat(ts.MkAbs(args[0]))
		if (err == nil) != neg {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// cmdCapture sets a variable to what stands between two texts of a file:
// capture NAME FILE BEFORE AFTER.
func cmdCapture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: capture NAME FILE BEFORE AFTER")
	}
	found, err := between(ts.ReadFile(args[1]), args[2], args[3])
	ts.Check(err)
	ts.Setenv(args[0], found)
}

// cmdReplace copies a file with another text in a place: replace FROM TO OLD NEW.
func cmdReplace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: replace FROM TO OLD NEW")
	}
	before := ts.ReadFile(args[0])
	after := strings.Replace(before, args[2], args[3], 1)
	if after == before {
		ts.Fatalf("%s has no %s", args[0], args[2])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(after), 0o600))
}

// self returns a command that runs agentd as a process of its own.
func self(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"agentd"}, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(ownEnv(t, cmd.Dir), "AGENTD_DATA="+dataOf(args))
	return cmd
}

// programOr returns a command that runs another program, or agentd if none is named.
func programOr(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := self(t, args...)
	if path != "" {
		cmd.Path = path
	}
	return cmd
}

// ownEnv is the environment of a test's process, which has nothing of the environment and
// the folders of the user who runs the tests.
func ownEnv(t *testing.T, home string) []string {
	t.Helper()
	return append(ownFolders(home), "PATH="+os.Getenv("PATH"), "GOCOVERDIR="+os.Getenv("GOCOVERDIR"), noKeyring, noting(t))
}

// ownFolders are the variables that name folders.
func ownFolders(home string) []string {
	return []string{"HOME=" + home, "XDG_STATE_HOME=" + stateHome, "XDG_RUNTIME_DIR=" + runtimeHome}
}

// noKeyring keeps tests away from the keyring of whoever runs them.
const noKeyring = "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent/bus"

// stopOwnServer ends the server that commands of a user with a home started in the
// background, if there is one.
func stopOwnServer(tb testing.TB, home string) {
	tb.Helper()
	dir := filepath.Join(home, ".local", "share", "agentd")
	n, err := readNote(dir)
	if err != nil || n == nil || !n.Background {
		return
	}
	if conn, err := dialNoted(context.Background(), n); err == nil {
		_ = conn.Close()
		if err := stopNoted(context.Background(), n); err != nil {
			tb.Error(err)
		}
	}
}

// dataOf is the data of a command that doesn't name it: the folder's, unless its
// configuration does.
func dataOf(args []string) string {
	for i, arg := range args[:max(0, len(args)-1)] {
		if arg != "--config" {
			continue
		}
		if text, err := os.ReadFile(args[i+1]); err == nil && strings.HasPrefix(string(text), "data: ") {
			return ""
		}
	}
	return "./.agentd"
}

// accepted makes a directory that a test filled one that agentd uses.
func accepted(t *testing.T, dir string) {
	t.Helper()
	if err := (&app{env: map[string]string{"XDG_STATE_HOME": stateHome}}).keeper().Accept(dir); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// between returns the text between two others.
func between(text, before, after string) (string, error) {
	_, rest, ok := strings.Cut(text, before)
	found, _, end := strings.Cut(rest, after)
	if !ok || !end || found == "" {
		return "", fmt.Errorf("there is nothing between %q and %q in:\n%s", before, after, text)
	}
	return found, nil
}
