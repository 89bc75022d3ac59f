package tui

import (
	"bytes"
	"io"
	"os/exec"
	"runtime/pprof"
	"time"
)

// borrower is a program that has the terminal until it ends.
//
// Bubble Tea stops the clock of its drawings in a goroutine that it doesn't wait for, and
// starts it again when the program is over. If that ends sooner than the goroutine, as an
// editor does that can't be started, the clock stops behind its new start and nothing is
// drawn any more (https://github.com/charmbracelet/bubbletea/issues/1778). So this waits
// for it.
type borrower struct{ *exec.Cmd }

// Run implements [tea.ExecCommand].
func (b borrower) Run() error {
	err := b.Cmd.Run()
	for isDrawing() {
		time.Sleep(time.Millisecond)
	}
	return err
}

// SetStdin implements [tea.ExecCommand].
func (b borrower) SetStdin(in io.Reader) { b.Stdin = in }

// SetStdout implements [tea.ExecCommand]. The output is set already.
func (b borrower) SetStdout(io.Writer) {}

// SetStderr implements [tea.ExecCommand].
func (b borrower) SetStderr(w io.Writer) { b.Stderr = w }

// isDrawing reports whether there is a goroutine that has Bubble Tea draw.
func isDrawing() bool {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return false
	}
	return bytes.Contains(all.Bytes(), []byte("(*Program).startRenderer.func"))
}
