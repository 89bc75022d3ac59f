package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
)

// person is a user with a home, a project and a model that plays a script.
type person struct {
	*testing.T
	home, project string
}

const crowdScript = `answers:
  - when: {contains: build}
    text: I write it.
    tools: [{name: write_file, arguments: {path: out.txt, content: "made\n"}}]
  - when: {contains: build}
    text: It is built.
`

func newPerson(t *testing.T) *person {
	t.Helper()
	home := t.TempDir()
	p := &person{T: t, home: home, project: filepath.Join(home, "project")}
	for _, dir := range []string{p.project, filepath.Join(home, ".config", "agentd")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(home, ".config", "agentd"), "s.yaml", crowdScript)
	writeFile(t, filepath.Join(home, ".config", "agentd"), "config.yaml", "providers: [{id: s, kind: script, script: "+home+"/.config/agentd/s.yaml, models: [{id: m, capabilities: [tools, streaming]}]}]\n")
	_ = noting(t) // what is recorded is read after the server has ended
	t.Cleanup(func() { stopOwnServer(t, home) })
	return p
}

// command is agentd in the project, without data that is named.
func (p *person) command(args ...string) *exec.Cmd {
	p.Helper()
	cmd := self(p.T, args...)
	cmd.Dir = p.project
	cmd.Env = append(cmd.Env, "HOME="+p.home, "AGENTD_DATA=")
	return cmd
}

// output runs a command that must succeed.
func (p *person) output(args ...string) string {
	p.Helper()
	var errs bytes.Buffer
	cmd := p.command(args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		p.Errorf("%v: %v\n%s%s", args, err, out, errs.String())
	}
	return string(out)
}

func (p *person) serverNote() *serverNote {
	p.Helper()
	n, err := readNote(filepath.Join(p.home, ".local", "share", "agentd"))
	if err != nil || n == nil {
		p.Fatalf("no server: %v", err)
	}
	return n
}

func (p *person) sessions() []command.SessionSummary {
	p.Helper()
	var res command.ListSessionsResult
	if err := json.Unmarshal([]byte(p.output("sessions", "--json")), &res); err != nil {
		p.Fatal(err)
	}
	return slices.DeleteFunc(res.Sessions, func(s command.SessionSummary) bool { return s.SessionID == event.RuntimeSession })
}

// starts counts the servers that were started, by their log.
func (p *person) starts() int {
	p.Helper()
	log, err := os.ReadFile(filepath.Join(p.home, ".local", "share", "agentd", logFile))
	if err != nil {
		p.Fatal(err)
	}
	return bytes.Count(log, []byte(`"msg":"ready"`))
}

// sessions are those that the editor is shown.
func (e *pipe) sessions() int {
	e.p.Helper()
	var list struct {
		Sessions []struct{} `json:"sessions"`
	}
	e.call("session/list", map[string]any{}, &list)
	return len(list.Sessions)
}

// Twenty terminals and five editors start at once, in one folder: there is one server,
// and all see the same sessions. Killed under them, it comes back, once, and nothing is
// lost or doubled.
func TestManyClientsShareOneServer(t *testing.T) {
	p := newPerson(t)
	const terminals, editors = 20, 5
	var all sync.WaitGroup
	for i := range terminals {
		all.Go(func() {
			if out := p.output("run", fmt.Sprintf("hello %d", i)); out != fmt.Sprintf("You said: hello %d\n", i) {
				t.Errorf("terminal %d: %q", i, out)
			}
		})
	}
	open := make([]*pipe, editors)
	for i := range open {
		open[i] = p.editor()
	}
	all.Wait()
	if n := p.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	sameForAll := func(want int) {
		t.Helper()
		if got := len(p.sessions()); got != want {
			t.Errorf("a terminal sees %d sessions, want %d", got, want)
		}
		for i, e := range open {
			if got := e.sessions(); got != want {
				t.Errorf("editor %d sees %d sessions, want %d", i, got, want)
			}
		}
	}
	sameForAll(terminals)

	// A turn waits for an approval while its server is killed. Another terminal answers,
	// which starts the server again; the first one sees the end.
	waiting := p.command("run", "--wait", "--json", "please build")
	facts, err := waiting.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(facts)
	lines.Buffer(nil, 1<<20)
	var action string
	for action == "" && lines.Scan() {
		if strings.Contains(lines.Text(), `"type":"action.required"`) {
			if action, err = between(lines.Text(), `"actionId":"`, `"`); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := p.serverNote()
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.output("approve", action)
	ends := 0
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"type":"turn.completed"`) {
			ends++
		}
	}
	if err := waiting.Wait(); err != nil || ends != 1 {
		t.Errorf("the turn ended %d times, %v", ends, err)
	}
	if made, err := os.ReadFile(filepath.Join(p.project, "out.txt")); err != nil || string(made) != "made\n" {
		t.Errorf("%q, %v", made, err)
	}
	if n := p.starts(); n != 2 || p.serverNote().PID == before.PID {
		t.Errorf("%d servers were started", n)
	}
	sameForAll(terminals + 1)
	for _, s := range p.sessions() {
		if s.TurnCount != 1 || s.Status != "completed" {
			t.Errorf("%+v", s)
		}
	}
	if out := p.output("verify"); !strings.Contains(out, "no problems found") {
		t.Error(out)
	}
}

// What earlier processes left behind, and what isn't the user's, doesn't get in the way
// and isn't used.
func TestOwnServerAmongRuins(t *testing.T) {
	p := newPerson(t)
	p.output("run", "hello")
	n := p.serverNote()
	if err := syscall.Kill(n.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The socket, the note and the lock of a dead server are there.
	for _, path := range []string{n.Socket, filepath.Join(p.home, ".local", "share", "agentd", noteFile), filepath.Join(p.home, ".local", "share", "agentd", startLock)} {
		if !exists(path) {
			t.Fatalf("%s is gone", path)
		}
	}
	p.output("run", "hello again")
	if got := len(p.sessions()); got != 2 {
		t.Errorf("%d sessions", got)
	}
	p.output("daemon", "stop")
	// A folder that can't be written is passed over.
	cmd := p.command("run", "third")
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR=/proc", "TMPDIR="+runtimeHome)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "You said: third") {
		t.Errorf("%v: %s", err, out)
	}
	// A folder that is gone is said to be.
	gone := filepath.Join(p.home, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd = p.command()
	cmd.Env = append(cmd.Env, startsVariable+"=")
	cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", `cd "$1" && rmdir "$1" && exec -a agentd "$0" run fourth`, cmd.Path, gone}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "the current folder can't be used") {
		t.Errorf("%v: %s", err, out)
	}
}

// Another user can neither use the server nor be taken for it.
func TestOwnServerIsForItsUserAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	p := newPerson(t)
	p.output("run", "hello")
	n := p.serverNote()
	script := `exec -a agentd "$0" run --server "unix:$1" hello`
	cmd := p.command()
	cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", script, cmd.Path, n.Socket}
	cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+n.Token, "HOME=/", startsVariable+"=")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("another user used it: %s", out)
	}
	if err := os.Chown(n.Socket, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	refused := p.command("run", "hello")
	out, err := refused.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "belongs to another user") {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.Chown(n.Socket, 0, 0); err != nil {
		t.Fatal(err)
	}
}

// TestServerThatHasNotLeftItsNote: a server listens where the one before did, whose note is still
// there. Who goes by that note isn't known to it, and waits for its own.
func TestServerThatHasNotLeftItsNote(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.output("run", "hello")
	file := filepath.Join(p.home, ".local", "share", "agentd", noteFile)
	own := mustRead(t, file)
	former := bytes.ReplaceAll(own, []byte(p.serverNote().Token), []byte(strings.Repeat("0", len(p.serverNote().Token))))
	replace := func(data []byte) {
		t.Helper()
		next := file + ".next"
		if err := os.WriteFile(next, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	replace(former)
	asks := p.command("sessions", "--json")
	var out bytes.Buffer
	asks.Stdout, asks.Stderr = &out, &out
	if err := asks.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- asks.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("it didn't wait: %v %s", err, &out)
	case <-time.After(time.Second): // what it waits for comes no sooner
	}
	replace(own)
	if err := <-ended; err != nil || !strings.Contains(out.String(), "sess_") {
		t.Errorf("%v %s", err, &out)
	}
}
