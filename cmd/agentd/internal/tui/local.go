package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"

	"agentd/cmd/agentd/internal/terminal"
)

// localCommand is a command that the user runs with "!".
type localCommand struct {
	stop context.CancelFunc
}

// maxLocal is how much of a command's output is kept.
const maxLocal = 64 << 10

// runLocal runs a command of the user in the folder, with the user's own rights. The
// agent sees its output with the next prompt.
func (c *client) runLocal(line string) {
	if c.shell != nil {
		c.talk.View.Warn("a command runs already; Esc stops it")
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.shell = &localCommand{stop: cancel}
	c.talk.View.Insert("", c.ink.Paint(terminal.Cyan, "! ")+c.ink.Paint(terminal.Bold, terminal.Plain(line)))
	shell := c.options.Env["SHELL"]
	if shell == "" {
		shell = "/bin/sh"
	}
	cmd := exec.CommandContext(ctx, shell, "-c", line)
	cmd.Dir = c.options.Folder
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	ownGroup(cmd)
	err := cmd.Start() // before it can be stopped
	c.beside.Go(func() {
		defer cancel()
		if err == nil {
			err = cmd.Wait()
		}
		c.Post(func() { c.localEnded(line, out, err) })
	})
}

// tail keeps the beginning of what is written to it.
type tail struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more bool
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	room := maxLocal - t.b.Len()
	t.more = t.more || len(b) > room
	t.b.Write(b[:min(len(b), max(room, 0))])
	return len(b), nil
}

// String implements [fmt.Stringer].
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

func (c *client) localEnded(line string, out *tail, err error) {
	c.shell = nil
	text := terminal.PlainBlock(strings.ToValidUTF8(strings.ReplaceAll(out.String(), "\r", ""), ""))
	var lines []string
	if trimmed := strings.TrimRight(text, "\n"); trimmed != "" {
		for l := range strings.SplitSeq(trimmed, "\n") {
			lines = append(lines, "  "+strings.ReplaceAll(l, "\t", "    "))
		}
	}
	how := "exit 0"
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		how = exit.String()
	case err != nil:
		how = err.Error()
	}
	if err != nil || out.more {
		end := how
		if out.more {
			end += ", the output is cut"
		}
		lines = append(lines, c.ink.Paint(terminal.Dim, "  "+end))
	}
	c.talk.View.Insert(lines...)
	c.ran = append(c.ran, fmt.Sprintf("I ran `%s` (%s):\n```\n%s\n```", line, how, strings.TrimRight(text, "\n")))
	c.talk.View.Refresh()
}

// openEditor lets the user write the input in an editor.
func (c *client) openEditor() {
	editor := c.options.Env["VISUAL"]
	if editor == "" {
		editor = c.options.Env["EDITOR"]
	}
	if editor == "" {
		c.talk.View.Warn("set EDITOR or VISUAL to the editor to use")
		c.talk.View.Refresh()
		return
	}
	f, err := os.CreateTemp("", "agentd-prompt-*.md")
	if err == nil {
		_, err = f.WriteString(c.edit.value())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		c.talk.View.Warn("the editor can't be opened: " + err.Error())
		return
	}
	// The setting may have arguments, which a shell takes apart as its user expects.
	cmd := exec.Command("/bin/sh", "-c", editor+` "$1"`, "sh", f.Name()) //nolint:noctx // the user's editor, until it is closed
	cmd.Stdout = c.out
	c.run(tea.Exec(borrower{cmd}, func(err error) tea.Msg {
		return postMsg(func() { c.editorClosed(f.Name(), err) })
	}))
}

func (c *client) editorClosed(name string, err error) {
	text, read := os.ReadFile(name)
	_ = os.Remove(name) // it may be gone already
	if err = errors.Join(err, read); err != nil {
		c.talk.View.Warn("the editor: " + err.Error())
		c.talk.View.Refresh()
		return
	}
	c.edit.set(strings.TrimRight(terminal.PlainBlock(string(text)), "\n"))
}
