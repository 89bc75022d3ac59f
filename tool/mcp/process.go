package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// BaseEnv names the variables that the process of a server inherits. All others,
// and with them the keys of providers, stay with the runtime.
func BaseEnv() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ",
		"SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA", "USERPROFILE",
	}
}

// process is a server on the standard streams of a process.
type process struct {
	cfg  Server
	opts Options
	tail *tail
	lost func(error)
	cmd  *exec.Cmd
	// in is what the process reads, out what it writes.
	in, out *os.File
	// exited is closed when the process was reaped, after exit was set.
	exited chan struct{}
	exit   error
	// drained is closed when out is no longer read.
	drained chan struct{}
	// work waits for the goroutine that the process belongs to.
	work     sync.WaitGroup
	started  bool
	stopOnce sync.Once

	mu sync.Mutex
	// reaped says that the process's id may belong to another process.
	reaped bool
}

func newProcess(cfg Server, opts Options, lost func(error)) *process {
	return &process{cfg: cfg, opts: opts, tail: &tail{}, lost: lost, exited: make(chan struct{}), drained: make(chan struct{})}
}

// Connect implements [sdk.Transport]: it starts the process.
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.cfg.Command[0], err)
	}
	t := &sdk.IOTransport{
		Reader: newMessages(p.out, p.tail, p.lost, sync.OnceFunc(func() { close(p.drained) })),
		Writer: deadlineWriter{p.in},
		// The reader has its own bound; what it repairs may be a little longer.
		MaxLineLength: 2*maxMessage + 4096,
	}
	conn, err := t.Connect(ctx)
	return notingConn{conn}, err
}

// start runs the command with pipes for its standard streams.
func (p *process) start() error {
	cmd := exec.Command(p.cfg.Command[0], p.cfg.Command[1:]...) //nolint:noctx // It outlives every context; stop ends it.
	cmd.Env = processEnv(os.LookupEnv, p.cfg.Env)
	cmd.Dir = p.cfg.Cwd
	cmd.Stderr = p.tail
	// A descendant that left the group may keep standard error open for ever.
	cmd.WaitDelay = drainGrace
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, inR.Close(), inW.Close())
	}
	cmd.Stdin, cmd.Stdout = inR, outW
	ownProcessGroup(cmd)
	p.cmd, p.in, p.out = cmd, inW, outR
	err = p.launch()
	// The child has its own copies of these ends, or never will.
	_, _ = inR.Close(), outW.Close()
	if err != nil {
		_, _ = inW.Close(), outR.Close()
	}
	return err
}

// launch starts the command on a goroutine that stays until it was reaped.
func (p *process) launch() error {
	if p.opts.Exec != nil {
		if err := p.opts.Exec(p.cfg.ID, p.cmd); err != nil {
			return err
		}
	}
	begun := make(chan error)
	p.work.Go(func() {
		// The kernel ends the process with the thread that started it, so this
		// thread must not do anything else, or end, before the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		begun <- err
		if err == nil {
			p.tend()
		}
	})
	err := <-begun
	p.started = err == nil
	return err
}

// tend waits for the end of the process, ends its group and reaps it.
func (p *process) tend() {
	pid := p.cmd.Process.Pid
	p.reportProcess(pid, true)
	p.exit = awaitProcess(p.cmd, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reaped = true
	})
	p.reportProcess(pid, false)
	close(p.exited)
	// What it wrote last is still to be read; but a descendant that left the group
	// may keep the pipe open for ever.
	timer := time.NewTimer(drainGrace)
	defer timer.Stop()
	select {
	case <-p.drained:
	case <-timer.C:
	}
	_ = p.out.Close()
}

// signal sends a signal to the process's group while it surely is its own.
func (p *process) signal(send func(*exec.Cmd)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		send(p.cmd)
	}
}

func (p *process) reportProcess(pid int, running bool) {
	if p.opts.OnProcess != nil {
		p.opts.OnProcess(p.cfg.ID, pid, running)
	}
}

// stop ends the process: first politely by the end of its input, then by asking
// the group to terminate, then by killing it.
func (p *process) stop(<-chan struct{}) {
	p.stopOnce.Do(func() {
		if !p.started {
			return
		}
		_ = p.in.Close()
		if !p.exits(eofGrace) {
			p.signal(termGroup)
		}
		if !p.exits(termGrace) {
			p.signal(killGroup)
		}
		p.work.Wait()
	})
}

func (p *process) exits(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// because implements carrier.
func (p *process) because() string {
	if !p.started || !p.exits(drainGrace) {
		return p.appendStderr("")
	}
	how := "the server's process ended without an error"
	if p.exit != nil && !errors.Is(p.exit, exec.ErrWaitDelay) {
		how = "the server's process ended: " + p.exit.Error()
	}
	return p.appendStderr(how)
}

// appendStderr adds the end of standard error.
func (p *process) appendStderr(how string) string {
	last := p.tail.last(500)
	switch {
	case last == "":
		return how
	case how == "":
		return "it wrote: " + last
	default:
		return how + "; it wrote: " + last
	}
}

// limited says whether a limit of its sandbox ended the process.
func (p *process) limited() bool {
	return p.opts.Limited != nil && p.started && p.exits(drainGrace) && p.opts.Limited(p.cmd.ProcessState)
}

// abort implements carrier: nothing that is written in a handshake can hang.
func (p *process) abort() {}

// reached implements carrier.
func (p *process) reached() bool { return p.started }

// processEnv is what the process gets: of the runtime's only the base, and what
// is configured.
func processEnv(lookup func(string) (string, bool), extra []string) []string {
	// Not nil even if empty: nil would hand over everything.
	env := []string{}
	for _, name := range BaseEnv() {
		if v, ok := lookup(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}

// deadlineWriter gives up on a process that doesn't read its input.
type deadlineWriter struct{ *os.File }

func (w deadlineWriter) Write(b []byte) (int, error) {
	// Where pipes have no deadlines, such a process is given up when it is stopped.
	_ = w.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.File.Write(b)
}

var _ io.WriteCloser = deadlineWriter{}
