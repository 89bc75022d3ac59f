package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"agentd/cmd/agentd/internal/terminal/termtest"
)

// console is agentd at a terminal of its own.
type console struct {
	t    *testing.T
	cmd  *exec.Cmd
	pty  *os.File
	done sync.WaitGroup

	mu     sync.Mutex
	more   *sync.Cond
	screen *termtest.Emulator
	raw    strings.Builder
	closed bool
}

// atTerminal runs agentd at a terminal; env is added to its environment.
func atTerminal(t *testing.T, cols, rows int, cmd *exec.Cmd, env ...string) *console {
	t.Helper()
	c := &console{t: t, cmd: cmd, screen: termtest.New(cols, rows)}
	c.more = sync.NewCond(&c.mu)
	cmd.Env = append(append(cmd.Env, "TERM=xterm-256color"), env...)
	var err error
	c.pty, err = pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)})
	if err != nil {
		t.Fatal(err)
	}
	c.done.Go(c.read)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = c.pty.Close()
		c.done.Wait()
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", c.screen.Text())
		}
	})
	return c
}

func (c *console) read() {
	buf := make([]byte, 4096)
	for {
		n, err := c.pty.Read(buf)
		c.mu.Lock()
		c.raw.Write(buf[:n])
		c.screen.Write(string(buf[:n]))
		c.closed = err != nil
		c.more.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return // EIO: the program has closed the terminal
		}
	}
}

// until waits until what is seen fulfils a condition.
func (c *console) until(what string, holds func(text string) bool) string {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	late := false
	if end, limited := c.t.Deadline(); limited {
		// What is seen is worth more than the stacks that the end of time prints.
		defer time.AfterFunc(time.Until(end)-5*time.Second, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			late = true
			c.more.Broadcast()
		}).Stop()
	}
	for {
		text := c.screen.Text()
		if holds(text) {
			return text
		}
		if c.closed || late {
			c.t.Fatalf("the program ended, or the time is over, without %s:\n%s", what, text)
		}
		c.more.Wait()
	}
}

// see waits until a text is seen.
func (c *console) see(text string) string {
	c.t.Helper()
	return c.until(text, func(all string) bool { return strings.Contains(all, text) })
}

// typing writes keys.
func (c *console) typing(keys string) {
	c.t.Helper()
	if _, err := c.pty.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// end waits for the program and returns its exit code.
func (c *console) end() int {
	c.t.Helper()
	c.done.Wait()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if len(c.screen.Unknown) > 0 {
		c.t.Errorf("what a terminal may not know was written: %q", c.screen.Unknown)
	}
	return c.cmd.ProcessState.ExitCode()
}

func (c *console) resize(cols, rows int) {
	c.t.Helper()
	c.mu.Lock()
	c.screen.Resize(cols, rows)
	c.mu.Unlock()
	if err := pty.Setsize(c.pty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		c.t.Fatal(err)
	}
}
