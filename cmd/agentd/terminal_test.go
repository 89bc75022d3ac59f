package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	// torn says that the terminal became narrower in the middle of a drawing, of which it
	// then keeps a part.
	torn bool
	// patience is how much oftener than not the programs must be seen idle.
	patience int
}

// atTerminal runs agentd at a terminal; env is added to its environment.
func atTerminal(t *testing.T, cols, rows int, cmd *exec.Cmd, env ...string) *console {
	t.Helper()
	c := &console{t: t, cmd: cmd, screen: termtest.New(cols, rows), patience: idlePatience}
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

// until waits until what is seen fulfils a condition. It fails with what is on the screen
// when the program ends, when the time of the tests is nearly over, or when nothing is
// drawn and no program of the tests does anything: then it would wait for ever.
func (c *console) until(what string, holds func(text string) bool) string {
	c.t.Helper()
	text, err := c.waitFor(holds)
	if err != nil {
		c.t.Fatalf("%v without %s; the terminal shows:\n%s", err, what, text)
	}
	return text
}

func (c *console) waitFor(holds func(text string) bool) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stalled error
	stop := make(chan struct{})
	defer close(stop)
	watched := false
	for {
		text := c.screen.Text()
		switch {
		case holds(text):
			return text, nil
		case c.closed:
			return text, errors.New("the program ended")
		case stalled != nil:
			return text, stalled
		}
		if !watched {
			watched = true
			go c.watch(stop, func(err error) { stalled = err })
		}
		c.more.Wait()
	}
}

// How often the programs are looked at, and how much oftener than not they must be idle.
const (
	watchEvery   = 500 * time.Millisecond
	idlePatience = 60
)

// watch tells when it is of no use to wait any longer.
func (c *console) watch(stop <-chan struct{}, tell func(error)) {
	end, limited := c.t.Deadline()
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	idle, before := 0, 0
	for {
		select {
		case <-stop:
			return
		case now := <-ticks.C:
			working := programsWork()
			c.mu.Lock()
			switch {
			case c.raw.Len() != before:
				idle, before = 0, c.raw.Len()
			case working: // on a busy machine a timer that goes off looks like this for a while
				idle = max(idle-1, 0)
			default:
				idle++
			}
			var err error
			switch {
			case limited && now.After(end.Add(-10*time.Second)):
				err = errors.New("the time of the tests is over")
			case idle >= c.patience:
				err = errors.New("the program waits for something and draws nothing")
			}
			if err != nil {
				tell(err)
				c.more.Broadcast()
			}
			c.mu.Unlock()
		}
	}
}

// programsWork reports whether a program of this test binary runs, or would if the machine
// weren't busy: a thread of it isn't asleep. Where that can't be told, it says yes.
func programsWork() bool {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return true
	}
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return true
	}
	for _, link := range all {
		dir := filepath.Dir(link)
		if exe, err := os.Readlink(link); err != nil || exe != self || filepath.Base(dir) == strconv.Itoa(os.Getpid()) {
			continue
		}
		threads, _ := filepath.Glob(filepath.Join(dir, "task", "*", "stat")) // the pattern is right
		for _, file := range threads {
			stat, err := os.ReadFile(file)
			if err != nil {
				continue // it ended
			}
			// The state follows the name, which stands in brackets.
			if i := bytes.LastIndexByte(stat, ')'); i >= 0 && i+2 < len(stat) && stat[i+2] != 'S' {
				return true
			}
		}
	}
	return false
}

// TestConsoleTellsWhatItSees: a text that never comes is an error with the screen in it,
// not a test that hangs.
func TestConsoleTellsWhatItSees(t *testing.T) {
	c := atTerminal(t, 80, 24, self(t, "chat", "--plain", "--model", "script/script"))
	c.see("/help lists the commands")
	c.bear(2)
	text, err := c.waitFor(func(text string) bool { return strings.Contains(text, "never said") })
	if err == nil || !strings.Contains(err.Error(), "draws nothing") || !strings.Contains(text, "/help lists the commands") {
		t.Errorf("%v with the screen %q", err, text)
	}
	c.bear(idlePatience)
	c.patience = idlePatience
	c.typing("/quit\n")
	if _, err := c.waitFor(func(string) bool { return false }); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("after the end: %v", err)
	}
}

// bear changes how much oftener than not the programs must be seen idle.
func (c *console) bear(patience int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = patience
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
	if text, err := c.waitFor(func(string) bool { return c.closed }); err != nil {
		c.t.Fatalf("%v and doesn't end; the terminal shows:\n%s", err, text)
	}
	c.done.Wait()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if len(c.screen.Unknown) > 0 {
		c.t.Errorf("what a terminal may not know was written: %q", c.screen.Unknown)
	}
	for _, drawn := range drawings {
		if !c.torn && strings.Contains(c.screen.Text(), drawn) {
			c.t.Errorf("a part of a drawing was left behind: %q", drawn)
		}
	}
	return c.cmd.ProcessState.ExitCode()
}

// drawings are texts of what is drawn over, of which nothing stays.
var drawings = []string{"▸ y yes", "Enter answers", "Tab answers", "Esc closes", "› say what to do", "Enter queues, Alt-Enter", " · waits for "}

// resize changes the size of the terminal, and waits until the program draws.
func (c *console) resize(cols, rows int) {
	c.t.Helper()
	c.mu.Lock()
	c.screen.Resize(cols, rows)
	before := c.raw.Len()
	c.mu.Unlock()
	if err := pty.Setsize(c.pty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		c.t.Fatal(err)
	}
	c.until("a new drawing", func(string) bool { return c.raw.Len() > before })
}
