//go:build unix

package rundir

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const (
	// presenceVariable has the test program attend in the folder clients.
	presenceVariable = "AGENTD_TEST_ATTEND"
	clients          = "clients"
)

func TestMain(m *testing.M) {
	if os.Getenv(presenceVariable) == "" {
		os.Exit(m.Run())
	}
	if _, err := Attend(clients); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("here\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has enough
	os.Exit(0)
}

// attending is another process that is present in dir.
func attending(t *testing.T, dir string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self)
	cmd.Dir = filepath.Dir(dir)
	cmd.Env = append(os.Environ(), presenceVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "here\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, func() {
		_ = in.Close()
		_ = cmd.Wait() // it may have been killed
	}
}

func count(t *testing.T, p *Presence, dir string, want int) {
	t.Helper()
	if n, err := p.Others(dir); err != nil || n != want {
		t.Errorf("%d others, %v; want %d", n, err, want)
	}
}

func TestPresence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), clients)
	count(t, nil, dir, 0) // no folder is no one
	me, err := Attend(dir)
	if err != nil {
		t.Fatal(err)
	}
	count(t, me, dir, 0)
	count(t, nil, dir, 1)
	killed, endKilled := attending(t, dir)
	_, endLeft := attending(t, dir)
	count(t, me, dir, 2)
	// Neither a process that was killed nor one that just ended counts, and nothing of
	// them stays.
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	endKilled()
	count(t, me, dir, 1)
	endLeft()
	count(t, me, dir, 0)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	me.Leave()
	me.Leave()
	count(t, me, dir, 0)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	var none *Presence
	none.Leave()
}

// What is no file of a client doesn't count, and nothing outside is touched.
func TestPresenceAmongRuins(t *testing.T) {
	root := t.TempDir()
	dir, outside := filepath.Join(root, clients), filepath.Join(root, "outside")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for path := range map[string]bool{filepath.Join(dir, "1-stale"): true, outside: true} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	count(t, nil, dir, 0)
	if err := os.Symlink(outside, filepath.Join(dir, "2-link")); err != nil {
		t.Fatal(err)
	}
	if n, err := (*Presence)(nil).Others(dir); err == nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	if _, err := Attend(outside); err == nil {
		t.Error("a file can be attended")
	}
}

// Many come, are counted and go at the same time; whoever has come is never taken for
// what was left behind.
func TestPresenceOfMany(t *testing.T) {
	dir := filepath.Join(t.TempDir(), clients)
	lock := filepath.Join(t.TempDir(), "lock")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				p, err := Attend(dir)
				if err != nil {
					t.Error(err)
					return
				}
				unlock, err := Lock(t.Context(), lock)
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := (*Presence)(nil).Others(dir); err != nil || n < 1 {
					t.Errorf("%d, %v", n, err)
				}
				unlock()
				p.Leave()
			}
		})
	}
	all.Wait()
}
