package tui

import (
	"bytes"
	"os"
	"sync"
	"sync/atomic"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// ttyOutput is the terminal, and tells when something was drawn for the first time:
// lines can be put above the drawing only when there is one.
type ttyOutput struct {
	*os.File
	once  sync.Once
	drawn chan struct{}
	// mark is the mark of the drawing that was written last; marked tells
	// that one was written.
	mark   atomic.Bool
	marked chan struct{}
}

// Write implements [io.Writer].
func (t *ttyOutput) Write(b []byte) (int, error) {
	n, err := t.File.Write(b)
	if bytes.Contains(b, []byte(ansi.SetModeBracketedPaste)) { // it comes with the first drawing
		t.once.Do(func() { close(t.drawn) })
	}
	t.findMark(b)
	return n, err
}

// findMark looks for the title of the window, which carries the mark of the [settler].
func (t *ttyOutput) findMark(b []byte) {
	const begin, end = "\x1b]2;", "\a"
	i := bytes.LastIndex(b, []byte(begin))
	if i < 0 {
		return
	}
	title, _, _ := bytes.Cut(b[i+len(begin):], []byte(end))
	if len(title) == 0 {
		return // the terminal is given to another program
	}
	t.mark.Store(bytes.HasSuffix(title, []byte(titleMark)))
	select {
	case t.marked <- struct{}{}:
	default: // it is told already that there is something new
	}
}

// printMsg are lines that are to be put above the drawing.
type printMsg []string

// printer puts finished lines above what is drawn, in the order in which they came. Any
// goroutine may add lines.
type printer struct {
	mu    sync.Mutex
	more  sync.Cond
	lines []string
	// room is how many lines may be put above the drawing at once: more would push a
	// part of the drawing out of the screen.
	room int
	// paused says that the drawing isn't on the screen.
	paused bool
	closed bool
}

func newPrinter() *printer {
	p := &printer{room: 1}
	p.more.L = &p.mu
	return p
}

// enqueueLines adds lines behind those that wait to be printed.
func (p *printer) enqueueLines(lines ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.lines = append(p.lines, lines...)
		p.more.Signal()
	}
}

func (p *printer) setRoom(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = max(n, 1)
}

// pause keeps the lines until resume.
func (p *printer) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
}

// resume goes on printing.
func (p *printer) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	p.more.Signal()
}

// putBack takes lines back that were taken before the pause and not printed.
func (p *printer) putBack(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(lines, p.lines...)
}

// close lets the printer end once everything is printed.
func (p *printer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.more.Signal()
}

// takeLines waits for lines; none means that there will be no more.
func (p *printer) takeLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (len(p.lines) == 0 || p.paused) && !p.closed {
		p.more.Wait()
	}
	n := min(len(p.lines), p.room)
	out := p.lines[:n:n]
	p.lines = p.lines[n:]
	return out
}

// run prints until the printer is closed, and then ends the program.
func (p *printer) run(program *tea.Program, tty *ttyOutput, ended chan struct{}) {
	go func() { // the event loop may end before anything was drawn
		<-ended
		p.close()
	}()
	select {
	case <-tty.drawn:
	case <-ended:
		return
	}
	for {
		lines := p.takeLines()
		if len(lines) == 0 {
			program.Send(tea.QuitMsg{})
			return
		}
		for i, line := range lines {
			if line == "" {
				lines[i] = " " // nothing at all isn't printed
			}
		}
		program.Send(printMsg(lines))
	}
}
