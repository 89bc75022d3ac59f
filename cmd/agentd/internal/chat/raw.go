package chat

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/charmbracelet/x/term"
	"github.com/muesli/cancelreader"
)

// rawTerminal reads keys one by one. Its owner calls close, which puts the
// terminal back as it was.
type rawTerminal struct {
	in, out *os.File
	old     *term.State
	reader  cancelreader.CancelReader
	wait    sync.WaitGroup
	// keys delivers what is pressed; it is closed when the terminal is gone.
	keys chan key
	done chan struct{}
	// hangup tells that the terminal was closed.
	hangup chan os.Signal
}

// Bracketed paste tells pasted lines from typed ones.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

func openRaw(in, out *os.File) (*rawTerminal, error) {
	r, err := cancelreader.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	t := &rawTerminal{in: in, out: out, reader: r, keys: make(chan key, 64), done: make(chan struct{}), hangup: make(chan os.Signal, 1)}
	signal.Notify(t.hangup, syscall.SIGHUP)
	if t.old, err = term.MakeRaw(in.Fd()); err != nil {
		signal.Stop(t.hangup)
		return nil, errors.Join(fmt.Errorf("terminal: %w", err), r.Close())
	}
	_, _ = out.WriteString(pasteOn) // a terminal that is gone is noticed when it is read
	t.wait.Go(t.read)
	return t, nil
}

func (t *rawTerminal) read() {
	defer close(t.keys)
	var keys keyReader
	buf := make([]byte, 4096)
	for {
		n, err := t.reader.Read(buf)
		for _, k := range keys.feed(buf[:n]) {
			select {
			case t.keys <- k:
			case <-t.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// close restores the terminal. One that is gone needs nothing restored.
func (t *rawTerminal) close() error {
	close(t.done)
	t.reader.Cancel()
	t.wait.Wait()
	signal.Stop(t.hangup)
	_, _ = t.out.WriteString(pasteOff)
	_ = term.Restore(t.in.Fd(), t.old)
	if err := t.reader.Close(); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}
