//go:build linux

package mcp

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// alive says whether a process runs; one that only waits to be reaped doesn't.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func TestCloseLeavesNoProcess(t *testing.T) {
	for _, mode := range []string{"real", "deaf"} {
		t.Run(mode, func(t *testing.T) {
			var mu sync.Mutex
			running := 0
			c := open(t, Options{OnProcess: func(_ string, _ int, up bool) {
				mu.Lock()
				defer mu.Unlock()
				if up {
					running++
				} else {
					running--
				}
			}}, self(t, "s", mode))
			pid := string(run(t, c, "mcp__s__pid", `{}`).Output)
			child := string(run(t, c, "mcp__s__child", `{}`).Output)
			if !alive(t, pid) || !alive(t, child) {
				t.Fatal("they don't run before Close")
			}
			c.Close()
			if alive(t, pid) {
				t.Error("the server runs on")
			}
			// Its children are killed with it, but reaped by somebody else.
			eventually(t, "the child's end", func() bool { return !alive(t, child) })
			mu.Lock()
			defer mu.Unlock()
			if running != 0 {
				t.Errorf("%d processes were not told to have ended", running)
			}
			if st := c.Status()[0].State; st != Closed {
				t.Errorf("state %s", st)
			}
			if _, err := findTool(t, c, "mcp__s__echo").Run(t.Context(), callOf(`{}`)); category(t, err).Retryable {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

func TestCrashTakesTheGroupAlong(t *testing.T) {
	c := open(t, newRecorder().options(), self(t, "s", "real"))
	child := string(run(t, c, "mcp__s__child", `{}`).Output)
	_, _ = findTool(t, c, "mcp__s__kill").Run(t.Context(), callOf(`{}`))
	eventually(t, "the child's end", func() bool { return !alive(t, child) })
}

func TestCloseDuringACall(t *testing.T) {
	c := open(t, Options{}, self(t, "s", "real"))
	h := newHost()
	call := callOf(`{}`)
	call.Host = h
	go func() {
		<-h.told
		c.Close()
	}()
	_, err := findTool(t, c, "mcp__s__wait").Run(t.Context(), call)
	if e := category(t, err); e.Category != "lost" {
		t.Errorf("got %+v", e)
	}
}

// The runtime is killed: the kernel ends the server, which ignores the end of its
// input and every polite signal.
func TestNoOrphanWhenTheRuntimeIsKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), modeVariable+"=parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	pid := lines.Text()
	lines.Scan()
	if state := lines.Text(); state != string(Ready) {
		t.Errorf("the server is %q", state)
	}
	if n, err := strconv.Atoi(pid); err != nil || n <= 1 || !alive(t, pid) {
		t.Fatalf("no server: %q", pid)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the server's end", func() bool { return !alive(t, pid) })
}
