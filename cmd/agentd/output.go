package main

import (
	"io"
	"sync"

	"agentd/cmd/agentd/internal/terminal"
)

// output is standard output that isn't a terminal. It remembers the first error of writing,
// because not everyone who writes there looks at it: cobra's help doesn't, and neither does what
// shows a turn as it goes on. Without it a command whose file couldn't be written would have ended
// well, with a part of its answer.
type output struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

// watchOutput returns what a command writes to, and what says how that went. A terminal stays as
// it is: commands draw on it, and if it is gone there is no one to tell.
func watchOutput(stdout io.Writer) (io.Writer, func() error) {
	if terminal.IsTerminal(stdout) {
		return stdout, func() error { return nil }
	}
	o := &output{to: stdout}
	return o, o.failure
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// failure returns the first error of writing.
func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
