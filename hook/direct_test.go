package hook

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"

	"agentd/event"
)

// direct is an [Exec] that runs a command as it is, without a sandbox, with PATH
// and LANG and what the hook asks for as its environment. A runtime that has a
// sandbox gives its own.
func direct(ctx context.Context, c Command) (Exit, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = c.Cwd
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}, c.Env...)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	stdout, stderr := &bounded{most: c.MaxOutput + 1}, &bounded{most: c.MaxOutput}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	group(cmd)
	if c.Confined != nil {
		if err := c.Confined(unconfined(c.Cwd)); err != nil {
			return Exit{}, err
		}
	}
	if err := cmd.Start(); err != nil {
		return Exit{}, err
	}
	err := cmd.Wait()
	sweep(cmd)
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil && !brokenPipe(err) {
		return Exit{}, err
	}
	return Exit{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: status(cmd)}, nil
}

// unconfined is the boundary of a process that has none.
func unconfined(cwd string) *event.SandboxApplied {
	return &event.SandboxApplied{
		Mode: "none", Cwd: cwd, ReadRoots: []string{"/"}, WriteRoots: []string{"/"}, Network: "allow",
		Enforcement: event.Enforcement{Filesystem: "none", Network: "none", Processes: "none", Limits: "none"},
		NotEnforced: []string{"this runtime runs hooks without a sandbox"},
	}
}

// brokenPipe says that the command didn't read its whole input, which it may.
func brokenPipe(err error) bool {
	var p *os.PathError
	return errors.As(err, &p) && p.Op == "write"
}

// bounded keeps the beginning of what is written and takes the rest too, so that
// the writer isn't held up.
type bounded struct {
	bytes.Buffer
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
