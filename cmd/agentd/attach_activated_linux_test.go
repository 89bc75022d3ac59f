package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// units returns what "agentd daemon unit" prints.
func (p *person) units() map[string]string {
	p.Helper()
	var said struct {
		Units map[string]string `json:"units"`
	}
	if err := json.Unmarshal([]byte(p.output("daemon", "unit", "--json")), &said); err != nil {
		p.Fatal(err)
	}
	return said.Units
}

// activator does what a service manager does with the units: it listens on the socket,
// and while no service runs it starts one when a client connects.
type activator struct {
	p      *person
	socket *os.File
	done   chan struct{}
	ended  chan struct{}
}

func (p *person) activator() *activator {
	p.Helper()
	_, rest, _ := strings.Cut(p.units()["agentd.socket"], "ListenStream=")
	path, _, _ := strings.Cut(rest, "\n")
	l, err := net.Listen("unix", strings.Replace(path, "%t", runtimeHome, 1)) // as a service manager reads it
	if err != nil {
		p.Fatal(err)
	}
	socket, err := l.(*net.UnixListener).File()
	if err != nil {
		p.Fatal(err)
	}
	v := &activator{p: p, socket: socket, done: make(chan struct{}), ended: make(chan struct{})}
	go v.serve()
	p.Cleanup(func() {
		close(v.done)
		stopOwnServer(p.T, p.home)
		<-v.ended
		_ = l.Close() // which removes the socket
	})
	return v
}

func (v *activator) serve() {
	defer close(v.ended)
	for {
		poll := []unix.PollFd{{Fd: int32(v.socket.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 10)
		select {
		case <-v.done:
			return
		default:
		}
		if n == 0 || err != nil {
			continue
		}
		cmd := v.p.command("daemon", "run")
		cmd.Path, cmd.Args = "/bin/bash", append([]string{"bash", "-c", `LISTEN_PID=$$ exec -a agentd "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Env = append(cmd.Env, "LISTEN_FDS=1")
		cmd.ExtraFiles = []*os.File{v.socket}
		out, err := cmd.CombinedOutput()
		if e, ok := err.(*exec.ExitError); ok && e.Sys().(syscall.WaitStatus).Signaled() { //nolint:errorlint // as it comes from Wait
			continue // the test killed it
		}
		if err != nil {
			v.p.Errorf("the service: %v\n%s", err, out)
			return
		}
	}
}

// TestSocketActivation: a server of the service manager is started by being used, again
// when it has ended or was killed, and isn't replaced for what its unit doesn't say.
func TestSocketActivation(t *testing.T) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("skipped: there is no bash to set LISTEN_PID with")
	}
	p := newPerson(t)
	p.activator()
	hello := func(env ...string) string {
		t.Helper()
		cmd := p.command("run", "hello")
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "You said: hello") {
			t.Errorf("%v: %s", err, out)
		}
		return string(out)
	}
	hello()
	first := p.serverNote()
	if !first.Managed || !first.Background {
		t.Errorf("%+v", first)
	}
	hello()
	if said := hello("NO_PROXY=one"); !strings.Contains(said, "started by the service manager, with another value of NO_PROXY; what its unit says counts") {
		t.Error(said)
	}
	if n := p.serverNote(); n.PID != first.PID {
		t.Error("the server was replaced")
	}
	p.output("daemon", "stop")
	hello()
	second := p.serverNote()
	if second.PID == first.PID || !second.Managed {
		t.Errorf("%+v", second)
	}
	if err := syscall.Kill(second.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	hello()
	p.output("daemon", "restart")
	hello()
	if n := p.serverNote(); n.PID == second.PID || !n.Managed {
		t.Errorf("%+v", n)
	}
	if n := len(p.sessions()); n != 6 {
		t.Errorf("%d sessions", n)
	}
	if _, err := os.Stat(filepath.Join(p.home, ".local", "share", "agentd", logFile)); err == nil {
		t.Error("a command started a server itself")
	}
}

// TestUnitsAreValid asks systemd about the units.
func TestUnitsAreValid(t *testing.T) {
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("skipped: there is no systemd-analyze")
	}
	p := newPerson(t)
	dir := t.TempDir()
	var files []string
	for name, text := range p.units() {
		writeFile(t, dir, name, text)
		files = append(files, filepath.Join(dir, name))
	}
	cmd := exec.Command(program, append([]string{"verify", "--user"}, files...)...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), dir) {
		t.Errorf("%v: %s", err, out)
	}
}
