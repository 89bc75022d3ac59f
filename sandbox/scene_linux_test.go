package sandbox

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// scene is what an attempt tries to reach.
type scene struct {
	outside, workspace, hidden string
	guard                      string // a protected file of the workspace
	tcp, udp, unix, gram       string
	abstract, tmp              string
	victim                     *exec.Cmd
	reached                    atomic.Int64 // connections and datagrams that came out
	settled                    chan struct{}
	start                      starter // of the stages; forked if nil
}

// lastWord is a datagram that isn't counted: what was sent before it has been.
const lastWord = "last word"

// settle waits until all that was sent is counted: each socket is served in order.
func (s *scene) settle() error {
	for address, network := range map[string]string{s.tcp: "tcp", s.unix: "unix", s.abstract: "unix"} {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, c) // until it is closed by who counts
		_ = c.Close()
		s.reached.Add(-1)
	}
	for network, address := range map[string]string{"udp": s.udp, "unixgram": s.gram} {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		_, err = io.WriteString(c, lastWord)
		_ = c.Close()
		if err != nil {
			return err
		}
		<-s.settled
	}
	return nil
}

// guardText is what the protected file says.
const guardText = "rules"

// runAttempt runs one attempt.
func (s *scene) runAttempt(t *testing.T, plan *Plan, a attempt) result {
	t.Helper()
	s.restore(t)
	start := forked
	if s.start != nil {
		start = s.start
	}
	return runBy(t, start, plan, `attack() { `+attackEnv+`="$1" "$ATTACKER" "$2"; }; `+a.line, s.env()...)
}

// newScene sets up what can be attacked.
func newScene(t *testing.T) *scene {
	t.Helper()
	base := workspace(t)
	s := &scene{outside: base + "/outside", workspace: base + "/ws"}
	s.hidden, s.guard = s.workspace+"/.data/store", s.workspace+"/.guard"
	for _, dir := range []string{s.outside, s.workspace} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copySelf(t, s.workspace+"/attacker")
	s.listen(t)
	s.victim = exec.Command("sleep", "100000")
	s.victim.Env = []string{"PLANTED=TOP-" + "SECRET"}
	if err := s.victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.victim.Process.Kill()
		_ = s.victim.Wait()
	})
	tmp, err := os.MkdirTemp("/tmp", "agentd-escape-") //nolint:usetesting // the machine's /tmp is what the attempt is about
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	s.tmp = tmp
	return s
}

// restore puts back what an attempt may have changed.
func (s *scene) restore(t *testing.T) {
	t.Helper()
	s.reached.Store(0)
	if err := os.MkdirAll(s.hidden, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{s.outside + "/victim": "original", s.hidden + "/token": "TOP-" + "SECRET", s.guard: guardText} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(s.workspace + "/other") // it need not be there
	if err := os.Chtimes(s.outside+"/victim", time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) env() []string {
	return []string{
		"OUT=" + s.outside, "HID=" + s.hidden, "GUARD=" + s.guard, "WS=" + s.workspace, "TCP=" + s.tcp, "UDP=" + s.udp, "UNIX=" + s.unix, "GRAM=" + s.gram,
		"ABSTRACT=" + s.abstract, fmt.Sprintf("PID=%d", s.victim.Process.Pid), "ATTACKER=" + s.workspace + "/attacker",
		"TMPMARK=" + filepath.Base(s.tmp), "NAP=" + nap("8123"), "GORACE=atexit_sleep_ms=0",
	}
}

// listen opens sockets of every kind and counts who gets through.
func (s *scene) listen(t *testing.T) {
	t.Helper()
	s.settled = make(chan struct{}, 1)
	s.unix, s.gram, s.abstract = s.outside+"/socket", s.outside+"/gram", "@agentd-test-"+filepath.Base(filepath.Dir(s.outside))
	for network, address := range map[string]*string{"tcp": &s.tcp, "unix": &s.unix, "abstract": &s.abstract} {
		at, kind := *address, network
		switch network {
		case "tcp":
			at = "127.0.0.1:0"
		case "abstract":
			kind = "unix"
		}
		l, err := net.Listen(kind, at)
		if err != nil {
			t.Fatal(err)
		}
		*address = l.Addr().String()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				s.reached.Add(1)
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close(); <-done })
	}
	for network, address := range map[string]*string{"udp": &s.udp, "unixgram": &s.gram} {
		at := *address
		if network == "udp" {
			at = "127.0.0.1:0"
		}
		c, err := net.ListenPacket(network, at)
		if err != nil {
			t.Fatal(err)
		}
		*address = c.LocalAddr().String()
		done := make(chan struct{})
		go func() {
			defer close(done)
			buf := make([]byte, 16)
			for {
				n, _, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				if string(buf[:n]) == lastWord {
					s.settled <- struct{}{}
					continue
				}
				s.reached.Add(1)
			}
		}()
		t.Cleanup(func() { _ = c.Close(); <-done })
	}
}

// copySelf puts the test binary where the sandbox can see it.
func copySelf(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(self, to) == nil {
		return
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
