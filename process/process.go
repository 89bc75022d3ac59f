package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"agentd/sandbox"
)

// Spec is a command to run.
type Spec struct {
	// ProcessID is the process's name in facts. No two running processes of a
	// manager share one.
	ProcessID string
	// Argv is the program and its arguments; if empty, Line is given to "sh -c".
	Argv []string
	Line string
	// Cwd is where it starts; if empty, the profile's.
	Cwd string
	// TTY gives it a terminal of Rows and Cols (24 and 80 if zero).
	TTY        bool
	Rows, Cols int
	// Background lets it outlive the context of Start. Its time is bounded by
	// TimeoutMs alone.
	Background bool
	// Input keeps standard input open for Write. Otherwise it is empty, unless there
	// is a terminal.
	Input bool
	// Merge gives standard output and standard error one stream, "stdout", in the
	// order in which they were written.
	Merge bool
	// Env are variables beside those of the profile, "NAME=value".
	Env []string
	// Profile is the sandbox's; Plan, if not nil, is one that was prepared already.
	Profile sandbox.Profile
	Plan    *sandbox.Plan
	// TimeoutMs ends the process after that time. The profile's WallClock does too,
	// for processes that aren't in the background; the shorter one counts.
	TimeoutMs int64
	// MaxOutput bounds what is kept of each stream; 1 MiB if zero.
	MaxOutput int64
	// Supervise is asked before each program that the command starts; see
	// [sandbox.Command].
	Supervise func(sandbox.Start) (refusal string)
	// Ledger makes the process durable before it runs. If it fails, the process is
	// ended and Start fails with its error. Nil keeps no ledger.
	Ledger func(ctx context.Context, e Entry) error
	// Output is handed pieces of output. It may be nil.
	Output func(Chunk)
}

// Exit is how a process ended.
type Exit struct {
	sandbox.Exit
	// SignalName is the signal's, such as SIGKILL, or empty.
	SignalName string
	// TimedOut and Terminated say that the end came from us: by the time limit, or
	// by Terminate, a cancelled context or a closing manager.
	TimedOut, Terminated bool
	Started, Ended       time.Time
	// Stdout has the terminal's output if there was one, and both streams if they
	// were merged.
	Stdout, Stderr Output
	// Violation is the boundary that made the command fail, as far as that is known.
	Violation *sandbox.Violation
}

// Duration of the process.
func (e Exit) Duration() time.Duration { return e.Ended.Sub(e.Started) }

// Process is a running command.
type Process struct {
	manager *Manager
	spec    Spec
	plan    *sandbox.Plan
	child   *sandbox.Child
	entry   Entry
	started time.Time
	files   streams

	timedOut, terminated atomic.Bool
	done                 chan struct{} // closed when exit is complete
	exit                 Exit

	mu     sync.Mutex
	closed bool // standard input
}

// ID is the process's id.
func (p *Process) ID() string { return p.spec.ProcessID }

// Entry is what the ledger was given.
func (p *Process) Entry() Entry { return p.entry }

// Plan is the sandbox's.
func (p *Process) Plan() *sandbox.Plan { return p.plan }

// Done is closed when the process has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns how the process ended. When ctx ends first it returns its error, and
// the process goes on.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-p.done:
		return p.exit, nil
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("wait for process %s: %w", p.ID(), context.Cause(ctx))
	}
}

// Output is what was kept of standard output (or the terminal) and of standard
// error so far.
func (p *Process) Output() (stdout, stderr Output) { return p.files.output() }

// ErrNoInput says that a process takes no input (any more).
var ErrNoInput = errors.New("the process accepts no input")

// Write writes to standard input or the terminal. It waits until the process has
// room for all of it, or ctx ends.
func (p *Process) Write(ctx context.Context, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.files.input
	if w == nil || p.closed {
		return fmt.Errorf("write to process %s: %w", p.ID(), ErrNoInput)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.SetWriteDeadline(time.Now()) })
	_, err := w.Write(data)
	if !stop() {
		// The deadline may come after the write: take it back in any case.
		_ = w.SetWriteDeadline(time.Time{})
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("write to process %s: %w", p.ID(), err)
	}
	return nil
}

// endOfText is what a terminal takes for the end of input, at the start of a line.
const endOfText = 4

// CloseInput says that no more input comes.
func (p *Process) CloseInput() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files.input == nil || p.closed {
		return fmt.Errorf("close input of process %s: %w", p.ID(), ErrNoInput)
	}
	if p.spec.TTY {
		_, err := p.files.input.Write([]byte{endOfText})
		return err
	}
	p.closed = true
	return p.files.input.Close()
}

// Resize tells the terminal's size.
func (p *Process) Resize(rows, cols int) error {
	if !p.spec.TTY {
		return fmt.Errorf("resize process %s: it has no terminal", p.ID())
	}
	if rows <= 0 || cols <= 0 || rows > maxSize || cols > maxSize {
		return fmt.Errorf("resize process %s: %d rows and %d columns is not a valid size", p.ID(), rows, cols)
	}
	return setSize(p.files.tty, rows, cols)
}

// maxSize is the largest number that a terminal can have of rows or columns.
const maxSize = 1<<16 - 1

// Signal sends a signal to the command's process group.
func (p *Process) Signal(sig int) error {
	if err := p.child.Signal(sig, false); err != nil {
		return fmt.Errorf("signal process %s: %w", p.ID(), err)
	}
	return nil
}

// sigTerm asks for an end, by its number everywhere.
const sigTerm = 15

// Terminate ends the process with everything it started: with SIGTERM, and after
// the grace (or when ctx ends) without asking. It returns when nothing is left. A
// process that has ended already is fine.
func (p *Process) Terminate(ctx context.Context, grace time.Duration) error {
	p.terminated.Store(true)
	return p.end(ctx, grace)
}

// end ends the tree and waits for it.
func (p *Process) end(ctx context.Context, grace time.Duration) error {
	if grace > 0 && p.child.Signal(sigTerm, true) == nil {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.child.Done():
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	select {
	case <-p.child.Done():
		return nil
	default:
	}
	if err := p.child.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end process %s: %w", p.ID(), err)
	}
	<-p.child.Done()
	return nil
}

// follow is the life of a process: it waits for its end, or brings it about, and
// completes the exit. The manager waits for it.
func (p *Process) follow(ctx context.Context, timeout time.Duration) {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	cancelled := ctx.Done()
	if p.spec.Background {
		cancelled = nil
	}
	select {
	case <-p.child.Done():
	case <-expired:
		p.timedOut.Store(true)
		_ = p.end(context.Background(), p.manager.opts.Grace)
	case <-cancelled:
		p.terminated.Store(true)
		_ = p.end(context.Background(), p.manager.opts.Grace)
	}
	p.complete()
	p.manager.forget(p)
	close(p.done)
	// Taking namespaces down takes the kernel a moment, which isn't
	// waited for.
	p.child.Close()
}

// complete gathers what is known at the end.
func (p *Process) complete() {
	e := Exit{Exit: p.child.Wait(), Started: p.started, Ended: p.manager.opts.Now()}
	p.files.finish()
	e.Stdout, e.Stderr = p.files.output()
	e.TimedOut, e.Terminated = p.timedOut.Load(), p.terminated.Load()
	e.SignalName = signalName(e.Signal)
	if e.Failure != nil {
		// The stage tells which step failed; that a path was replaced says more.
		e.Failure = cmp.Or(p.plan.CheckPlaces(), e.Failure)
	}
	if !e.TimedOut && !e.Terminated || len(e.Refused) > 0 {
		e.Violation = sandbox.Classify(e.Exit, p.tail(e), p.plan)
	}
	p.exit = e
}

// ClassifyBytes is how much of the last output is read for a violation.
const ClassifyBytes = 8 << 10

// tail is the end of standard error, or of the one stream there is.
func (p *Process) tail(e Exit) string {
	out := e.Stderr
	if p.spec.TTY || p.spec.Merge {
		out = e.Stdout
	}
	return out.Last(ClassifyBytes)
}

// Info is a running process, for lists.
type Info struct {
	Entry
	Started time.Time
	// OutputBytes counts what it wrote so far.
	OutputBytes int64
}

func (p *Process) info() Info {
	stdout, stderr := p.files.totals()
	return Info{Entry: p.entry, Started: p.started, OutputBytes: stdout + stderr}
}

// signalName names a signal as facts do.
func signalName(sig int) string {
	if sig == 0 {
		return ""
	}
	return nameOf(sig)
}
