package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentd/sandbox"
)

// Options of a manager.
type Options struct {
	// Report is what the kernel offers; see [sandbox.Probe].
	Report sandbox.Report
	// Grace is given to processes whose time or context ended, between asking and
	// killing. If zero, 2 seconds.
	Grace time.Duration
	// Now is the clock; if nil, time.Now.
	Now func() time.Time
}

// Manager runs processes and knows those that run.
type Manager struct {
	opts Options
	warm sandbox.Warm

	mu      sync.Mutex
	running map[string]*Process // nil while one is being started
	settled *sync.Cond          // one that was being started runs, or never will
	closing bool
	wg      sync.WaitGroup
}

// New makes a manager. Close it.
func New(opts Options) *Manager {
	if opts.Grace == 0 {
		opts.Grace = 2 * time.Second
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	m := &Manager{opts: opts, running: map[string]*Process{}}
	m.settled = sync.NewCond(&m.mu)
	return m
}

// Prepare says how a profile will be enforced.
func (m *Manager) Prepare(profile sandbox.Profile) (*sandbox.Plan, error) {
	return sandbox.Prepare(profile, m.opts.Report)
}

// Errors of Start.
var (
	// ErrClosed says that the manager takes no more processes.
	ErrClosed = errors.New("the process manager is closed")
	// ErrRunning says that a process of that id runs already.
	ErrRunning = errors.New("a process with that id is already running")
)

// Start starts a command. The process is in the ledger, and running, when it
// returns. A process that isn't in the background ends when ctx does.
func (m *Manager) Start(ctx context.Context, spec Spec) (*Process, error) {
	p, err := m.start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("start process %s: %w", spec.ProcessID, err)
	}
	return p, nil
}

func (m *Manager) start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.normalise(); err != nil {
		return nil, err
	}
	plan := spec.Plan
	if plan == nil {
		var err error
		if plan, err = m.Prepare(spec.Profile); err != nil {
			return nil, err
		}
	}
	p := &Process{manager: m, spec: spec, plan: plan, done: make(chan struct{})}
	if err := m.reserve(p.ID()); err != nil {
		return nil, err
	}
	if err := p.launch(ctx); err != nil {
		m.forget(p)
		m.wg.Done()
		return nil, err
	}
	closing := m.publish(p)
	go func() {
		defer m.wg.Done()
		p.follow(ctx, spec.timeout(plan))
	}()
	if closing {
		return nil, errors.Join(ErrClosed, p.Terminate(ctx, 0))
	}
	return p, nil
}

// normalise fills in defaults and says what is missing.
func (s *Spec) normalise() error {
	if s.ProcessID == "" {
		return errors.New("its id is missing")
	}
	if len(s.Argv) == 0 {
		if s.Line == "" {
			return errors.New("its command is missing")
		}
		s.Argv = []string{"/bin/sh", "-c", s.Line}
	}
	if s.MaxOutput <= 0 {
		s.MaxOutput = defaultMaxOutput
	}
	s.Rows, s.Cols = cmp.Or(s.Rows, 24), cmp.Or(s.Cols, 80)
	if s.Rows < 0 || s.Cols < 0 || s.Rows > maxSize || s.Cols > maxSize {
		return fmt.Errorf("a terminal can't have %d rows and %d columns", s.Rows, s.Cols)
	}
	return nil
}

// timeout is the shorter of the limits that apply.
func (s *Spec) timeout(plan *sandbox.Plan) time.Duration {
	timeout := time.Duration(s.TimeoutMs) * time.Millisecond
	wall := plan.Profile.Limits.WallClock
	if s.Background || wall == 0 {
		return timeout
	}
	if timeout == 0 || wall < timeout {
		return wall
	}
	return timeout
}

// reserve takes an id. It counts until the process's goroutine ends.
func (m *Manager) reserve(processID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return ErrClosed
	}
	if _, ok := m.running[processID]; ok {
		return ErrRunning
	}
	m.running[processID] = nil
	m.wg.Add(1)
	return nil
}

// publish makes a process known, and tells whether the manager is closing and has
// not seen it.
func (m *Manager) publish(p *Process) (closing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[p.ID()] = p
	m.settled.Broadcast()
	return m.closing
}

// forget gives the id of a process free.
func (m *Manager) forget(p *Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, p.ID())
	m.settled.Broadcast()
}

// launch starts the process, enters it into the ledger and lets it run.
func (p *Process) launch(ctx context.Context) error {
	files, err := openStreams(&p.spec, p.manager.opts.Now)
	if err != nil {
		return err
	}
	p.files = files
	p.child, err = p.manager.warm.Start(p.plan, sandbox.Command{
		Argv: p.spec.Argv, Dir: p.spec.Cwd, Env: p.spec.Env, TTY: p.spec.TTY, Supervise: p.spec.Supervise,
		Stdin: files.stdin, Stdout: files.stdout, Stderr: files.stderr,
	})
	p.files.closeTheirs()
	if err != nil {
		p.files.closeOurs()
		return err
	}
	p.started = p.manager.opts.Now()
	p.entry = p.identify()
	if err := p.enter(ctx); err != nil {
		p.child.Close() // the command has not run
		p.files.closeOurs()
		return err
	}
	p.files.read()
	// If the child is gone already, its exit says why.
	_ = p.child.Go()
	return nil
}

// enter writes the ledger.
func (p *Process) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.spec.Ledger == nil {
		return nil
	}
	if err := p.spec.Ledger(ctx, p.entry); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Get returns a running process, or nil.
func (m *Manager) Get(processID string) *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running[processID]
}

// Reach is Get for a caller that knows a process from the ledger, which has it a moment
// before it runs: it waits for that moment. The ledger's own writer must not call it.
func (m *Manager) Reach(processID string) *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		p, known := m.running[processID]
		if p != nil || !known {
			return p
		}
		m.settled.Wait()
	}
}

// List lists the running processes by the time of their start.
func (m *Manager) List() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Info
	for _, p := range m.running {
		if p != nil {
			all = append(all, p.info())
		}
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ProcessID, b.ProcessID))
	})
	return all
}

// Close takes no more processes, ends all that run, those in the background too,
// and waits for everything. They get the grace, or what is left of ctx.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closing = true
	var all []*Process
	for _, p := range m.running {
		if p != nil {
			all = append(all, p)
		}
	}
	m.mu.Unlock()
	var ending sync.WaitGroup
	errs := make([]error, len(all))
	for i, p := range all {
		ending.Go(func() { errs[i] = p.Terminate(ctx, m.opts.Grace) })
	}
	ending.Wait()
	m.wg.Wait()
	m.warm.Close()
	return errors.Join(errs...)
}
