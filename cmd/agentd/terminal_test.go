package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// emulator is as much of a terminal as agentd needs: what was written can be read
// as a person would see it. It fails on what it doesn't know, so that nothing
// unexpected reaches a real one.
type emulator struct {
	cols, rows int
	// lines holds everything, also what has left the screen; top is the first line
	// that is on it.
	lines    [][]string
	top      int
	row, col int
	rest     string
	unknown  []string
}

func newEmulator(cols, rows int) *emulator {
	return &emulator{cols: cols, rows: rows, lines: [][]string{{}}}
}

// write takes what a program writes.
func (e *emulator) write(s string) {
	s, e.rest = e.rest+s, ""
	for s != "" {
		switch {
		case s[0] == 0x1b:
			n := e.escape(s)
			if n == 0 {
				e.rest = s
				return
			}
			s = s[n:]
		case s[0] == '\r':
			e.col, s = 0, s[1:]
		case s[0] == '\n':
			e.down()
			s = s[1:]
		case s[0] < ' ':
			e.unknown = append(e.unknown, s[:1])
			s = s[1:]
		default:
			if !utf8.FullRuneInString(s) {
				e.rest = s
				return
			}
			r, n := utf8.DecodeRuneInString(s)
			e.put(string(r))
			s = s[n:]
		}
	}
}

func (e *emulator) down() {
	e.row++
	for e.row >= len(e.lines) {
		e.lines = append(e.lines, nil)
	}
	e.top = max(e.top, e.row-e.rows+1)
}

// put writes one character where the cursor stands. As in a real terminal a line
// is broken only when a character follows that has no place.
func (e *emulator) put(s string) {
	w := ansi.StringWidth(s)
	if e.col+w > e.cols {
		e.down()
		e.col = 0
	}
	line := e.lines[e.row]
	for len(line) < e.col+w {
		line = append(line, " ")
	}
	if w == 0 && e.col > 0 {
		line[e.col-1] += s
	} else if w > 0 {
		line[e.col] = s
		for i := 1; i < w; i++ {
			line[e.col+i] = ""
		}
	}
	e.lines[e.row] = line
	e.col += w
}

// escape carries out a sequence and returns its length; 0 if it isn't whole.
func (e *emulator) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	if s[1] != '[' {
		e.unknown = append(e.unknown, s[:2])
		return 2
	}
	end := 2
	for end < len(s) && (s[end] < 0x40 || s[end] > 0x7e) {
		end++
	}
	if end == len(s) {
		return 0
	}
	n := 0
	for _, c := range s[2:end] {
		n = n*10 + int(c-'0')
	}
	switch s[end] {
	case 'm', 'h', 'l':
	case 'A':
		e.row = max(e.row-n, e.top)
	case 'C':
		e.col = min(e.col+n, e.cols-1)
	case 'J':
		e.lines = e.lines[:e.row+1]
		e.lines[e.row] = e.lines[e.row][:min(e.col, len(e.lines[e.row]))]
	default:
		e.unknown = append(e.unknown, s[:end+1])
	}
	return end + 1
}

// text is everything that can be seen, also by scrolling back.
func (e *emulator) text() string {
	var out []string
	for _, l := range e.lines {
		out = append(out, strings.TrimRight(strings.Join(l, ""), " "))
	}
	return strings.Join(out, "\n")
}

// resize does what terminals do when they become narrower: lines are broken anew.
func (e *emulator) resize(cols, rows int) {
	var lines [][]string
	at, col := 0, e.col
	for i, l := range e.lines {
		if i == e.row {
			at = len(lines) + e.col/cols
			col = e.col % cols
		}
		for len(l) > cols {
			lines = append(lines, l[:cols])
			l = l[cols:]
		}
		lines = append(lines, l)
	}
	e.lines, e.row, e.col, e.cols, e.rows = lines, at, col, cols, rows
	e.top = max(0, len(lines)-rows)
}

// console is agentd at a terminal of its own.
type console struct {
	t    *testing.T
	cmd  *exec.Cmd
	pty  *os.File
	done sync.WaitGroup

	mu     sync.Mutex
	more   *sync.Cond
	screen *emulator
	raw    strings.Builder
	closed bool
}

// atTerminal runs agentd at a terminal; env is added to its environment.
func atTerminal(t *testing.T, cols, rows int, cmd *exec.Cmd, env ...string) *console {
	t.Helper()
	c := &console{t: t, cmd: cmd, screen: newEmulator(cols, rows)}
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
			t.Logf("the terminal shows:\n%s", c.screen.text())
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
		c.screen.write(string(buf[:n]))
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
		text := c.screen.text()
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
	if len(c.screen.unknown) > 0 {
		c.t.Errorf("what a terminal may not know was written: %q", c.screen.unknown)
	}
	return c.cmd.ProcessState.ExitCode()
}

func (c *console) resize(cols, rows int) {
	c.t.Helper()
	c.mu.Lock()
	c.screen.resize(cols, rows)
	c.mu.Unlock()
	if err := pty.Setsize(c.pty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		c.t.Fatal(err)
	}
}
