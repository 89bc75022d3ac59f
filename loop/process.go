package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/place"
	"agentd/permission"
	"agentd/process"
	"agentd/sandbox"
	"agentd/session"
	"agentd/state"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// processManager returns what runs commands. A runtime that never needs it doesn't pay for
// finding out what the kernel offers.
func (l *Loop) processManager() *process.Manager {
	l.commands.Store(true)
	return l.opt.Processes()
}

// confinement is what would confine a command, as the permission is decided by it, and
// what bounds agents in that place.
func (l *Loop) confinement(w workplace) Confinement {
	confined, _ := l.confinementBy(w)
	return confined
}

// confinementBy is confinement, with the plan that it tells of; nil if there is none.
func (l *Loop) confinementBy(w workplace) (Confinement, *sandbox.Plan) {
	bounds, unsure := findBounds(w.root, l.opt.Bounds)
	p, err := l.planBounded(w, asConfigured, false, bounds)
	if err != nil {
		return Confinement{Sandbox: permission.Sandbox{Mode: string(sandbox.WorkspaceWrite), Missing: err.Error()}, Bounds: bounds}, nil
	}
	exposed, uncovered, unheld := p.Exposed, p.Uncovered(), ""
	if p.Profile.Mode == sandbox.WorkspaceWrite {
		exposed = slices.Concat(exposed, unheldBounds(w.root, bounds, unsure))
		unheld = uncoveredBound(w.root, bounds, uncovered)
	}
	return Confinement{Bounds: bounds, Sandbox: permission.Sandbox{
		Mode: string(p.Profile.Mode), Filesystem: p.Enforcement.Filesystem != sandbox.None,
		Network:    p.Profile.Network == sandbox.NetworkAllow || p.Enforcement.Network != sandbox.None,
		WriteRoots: p.WriteRoots, Missing: strings.Join(p.NotEnforced, "; "), Exposed: strings.Join(exposed, "; "),
		Uncovered: uncovered, Unheld: unheld,
	}}, p
}

// callBoundary is the boundary of a call that may change something; nil for one that
// only reads.
func (l *Loop) callBoundary(r *toolRun) *event.SandboxApplied {
	info, kind := &r.entry.Info, r.entry.Kind()
	if b, ok := r.entry.Tool.(tool.Bounded); ok {
		return b.Boundary()
	}
	switch {
	case kind == toolkind.Shell:
		return r.commandBoundary()
	case info.IsReadOnly || info.RuntimeOwner != "local" || kind.LoopOwned() || kind == toolkind.UpdatePlan:
		return nil
	}
	p := &event.SandboxApplied{
		Mode: string(sandbox.WorkspaceWrite), Cwd: r.place.cwd, ReadRoots: []string{r.place.root}, WriteRoots: []string{r.place.root}, Network: "deny",
		Enforcement: event.Enforcement{Filesystem: "os.Root", Network: sandbox.None, Processes: sandbox.None, Limits: sandbox.None, Rules: sandbox.None},
	}
	if l.opt.Sandbox.Mode == sandbox.ReadOnly && r.confining != lifted {
		p.Mode, p.WriteRoots = string(sandbox.ReadOnly), []string{}
	}
	return p
}

// commandBoundary is the boundary that a command in that place gets under rules.
func (l *Loop) commandBoundary(w workplace, rules []event.PolicyRule) *event.SandboxApplied {
	p, err := l.planCommand(w, asConfigured, permission.NewGuard(rules, nil, nil) != nil)
	if err != nil {
		return NoBoundary(w.cwd, err.Error())
	}
	return BoundaryOf(p, w.cwd)
}

// commandBoundary is the boundary that a command of the call gets.
func (r *toolRun) commandBoundary() *event.SandboxApplied {
	if r.planned != nil && r.confining == asConfigured && !r.guard.supervised && r.coverable() == nil {
		// The decision that lets it run was just made by that plan.
		return BoundaryOf(r.coverCall(r.planned), r.place.cwd)
	}
	p, err := r.planCall(r.place.cwd)
	if err != nil {
		return NoBoundary(r.place.cwd, err.Error())
	}
	return BoundaryOf(p, r.place.cwd)
}

// NoBoundary is the fact of what runs without a sandbox, and why.
func NoBoundary(cwd, why string) *event.SandboxApplied {
	return &event.SandboxApplied{
		Mode: "none", Cwd: cwd, ReadRoots: []string{"/"}, WriteRoots: []string{"/"}, Network: "allow",
		Enforcement: event.Enforcement{Filesystem: sandbox.None, Network: sandbox.None, Processes: sandbox.None, Limits: sandbox.None, Rules: sandbox.None},
		NotEnforced: []string{why},
	}
}

// BoundaryOf is the fact of what a plan enforces.
func BoundaryOf(p *sandbox.Plan, cwd string) *event.SandboxApplied {
	return &event.SandboxApplied{
		Mode: string(p.Profile.Mode), Cwd: cwd, ReadRoots: p.ReadRoots, WriteRoots: p.WriteRoots, Network: string(p.Profile.Network),
		AllowedHosts: p.Profile.AllowedHosts, Enforcement: event.Enforcement(p.Enforcement), NotEnforced: p.NotEnforced,
		Hidden: p.Hidden, Protected: p.Protected(),
		ProcessLimits: statedLimits(&p.Profile.Limits),
	}
}

// statedLimits are limits as facts state them.
func statedLimits(limits *sandbox.Limits) map[string]int64 {
	stated := map[string]int64{
		"memoryMB": limits.MemoryMB, "processes": limits.Processes, "wallClockMs": limits.WallClock.Milliseconds(),
	}
	if limits.OpenFiles > 0 {
		stated["openFiles"] = limits.OpenFiles
	}
	return stated
}

// envNames are the names of the variables that a command sees.
func (l *Loop) envNames() []string {
	names := []string{"PATH", "HOME", "LANG", "TERM", "TMPDIR"}
	for _, e := range l.opt.Sandbox.Env {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	return names
}

// running is a command of a tool call, on its way into facts.
type running struct {
	l     *Loop
	k     key
	scope event.Scope
	id    string
	text  map[string]*redacted
	// captured is what facts hold of the output so far.
	captured   captured
	background bool
	host       *toolHost
	plan       *sandbox.Plan
	line       string
	// recorded says that the end of a command that was waited for is a fact.
	recorded func()
}

// Command implements [tool.Host]: it runs a command in the sandbox. The command is
// in the ledger before any of its code runs, and what it changes is found.
func (h *toolHost) Command(ctx context.Context, c *tool.Command) (*tool.Exit, error) {
	l := h.r.l
	plan, err := h.r.planCall(c.Cwd)
	if err != nil {
		return nil, err
	}
	rec, err := h.keeper()
	if err == nil && rec != nil {
		err = rec.Before(ctx)
	}
	if err != nil {
		return nil, err
	}
	x := &running{l: l, k: h.r.k, scope: h.r.scope, id: l.m.NewID(event.PrefixProcess), text: map[string]*redacted{}, background: c.Background, host: h, plan: plan, line: c.Line}
	x.scope.ProcessID = x.id
	recorded := l.beginRecording(x.id)
	p, err := l.processManager().Start(ctx, process.Spec{
		ProcessID: x.id, Line: c.Line, Cwd: c.Cwd, TTY: c.TTY, Background: c.Background, Input: c.Background || c.TTY, Merge: true,
		Plan: plan, Env: h.r.processTrace(x.id), TimeoutMs: c.TimeoutMs, MaxOutput: c.MaxOutput, Ledger: x.enter, Output: x.output,
		Supervise: h.r.supervision(plan, c.Line),
	})
	if err != nil {
		defer recorded()
		return nil, x.notStarted(err)
	}
	if c.Background {
		l.wg.Go(func() {
			defer recorded()
			x.follow(p)
		})
		return &tool.Exit{ProcessID: x.id, Running: true}, nil
	}
	x.recorded = recorded
	exit, err := p.Wait(context.WithoutCancel(ctx)) // the context ends the process, which is then waited for
	if err != nil {
		recorded()
		return nil, err
	}
	return x.finished(ctx, exit)
}

// enter writes the process into the ledger.
func (x *running) enter(_ context.Context, e process.Entry) error {
	p := e.Started()
	for i := range p.Command {
		p.Command[i] = x.l.redactText(p.Command[i])
	}
	return x.emitFirst(func(tx *session.Tx) {
		tx.Emit(event.Event{Type: event.TypeProcessStarted, Scope: x.scope, Payload: &p})
	})
}

// emit records facts of the process, whether or not its call still runs.
func (x *running) emit(facts func(*session.Tx)) error {
	return x.l.emitUntilBack(x.k.session, false, func(tx *session.Tx, _ bool) error {
		facts(tx)
		return nil
	})
}

// emitFirst records that the process begins. It waits at its first instruction until the
// ledger has it.
func (x *running) emitFirst(facts func(*session.Tx)) error {
	return x.l.emitUntilBack(x.k.session, true, func(tx *session.Tx, again bool) error {
		if again && tx.State.Environment.Find(x.id) != nil {
			return nil
		}
		if !x.host.r.mayEnter(tx.State) {
			return errMoved
		}
		facts(tx)
		return nil
	})
}

// emitLast records the end of the process, which is known here alone, once.
func (x *running) emitLast(facts func(*session.Tx)) error {
	return x.l.emitUntilBack(x.k.session, true, func(tx *session.Tx, again bool) error {
		if p := tx.State.Environment.Find(x.id); again && (p == nil || p.Status != state.ProcessRunning) {
			return nil
		}
		facts(tx)
		return nil
	})
}

// notStarted is the error of a command that never ran.
func (x *running) notStarted(err error) error {
	if errors.Is(err, errMoved) {
		x.host.r.moved = true // there is no such call any more
		return err
	}
	message := x.l.redactText(err.Error())
	failed := x.emit(func(tx *session.Tx) {
		if tx.State.Environment.Find(x.id) != nil {
			tx.Emit(event.Event{Type: event.TypeProcessFailed, Scope: x.scope, Payload: &event.ProcessFailed{
				ProcessID: x.id, ErrorCategory: "spawn", Message: message,
			}})
		}
	})
	category := tool.Execution
	if fault.KindOf(err) == fault.RateLimited { // a quota: the same command may run later
		category = tool.Unavailable
	}
	return tool.Errorf(category, "the command could not be started: %v", errors.Join(err, failed))
}

// validText is the text of a piece of output; what isn't UTF-8 in it is replaced.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// finished records the end of a command and tells the tool.
func (x *running) finished(ctx context.Context, exit process.Exit) (*tool.Exit, error) {
	last := x.heldBack()
	v, alone := x.violation(exit)
	fails := v != nil && (exit.Code != 0 && alone || v.Boundary == sandbox.BoundaryRule)
	if err := x.host.recordEnd(x, func(tx *session.Tx) {
		x.emitEnd(tx, exit, x.why(ctx, exit), last)
		if v != nil && !fails {
			x.emitViolation(tx, v)
		}
	}); err != nil {
		return nil, err
	}
	if errors.Is(exit.Failure, place.ErrReplaced) {
		return nil, replaced(exit.Failure)
	}
	if exit.Failure != nil {
		return nil, tool.Errorf(tool.Execution, "the command could not be started: %v", exit.Failure)
	}
	out := &tool.Exit{
		ProcessID: x.id, Code: exit.Code, Signal: exit.SignalName, TimedOut: exit.TimedOut,
		Output: joinOutput(exit.Stdout), Dropped: exit.Stdout.Dropped(),
	}
	if fails {
		err := tool.Errorf(tool.SandboxViolation, "%s", v.Detail)
		err.Boundary, err.Path, err.Host, err.Permanent = v.Boundary, v.Path, v.Host, v.Permanent
		err.Advice = "Stay within the workspace, or say why the command needs more."
		if x.host.r.confining == onlyReading {
			err.Advice = "The command ran unasked because it seemed only to read, and such a command can't write or reach a network. Do what changes something in a call that shows it."
		}
		if v.Boundary == sandbox.BoundaryRule {
			err.Category, err.Advice = tool.Denied, "Do not try the same in another way; say what you need and why."
		}
		if said := tool.Preview(string(out.Output), 1000); said != "" {
			err.Message += "; the command printed:\n" + said
		}
		return nil, err
	}
	return out, nil
}

// joinOutput is what was kept of a stream, with a mark where something is missing.
func joinOutput(o process.Output) []byte {
	if !o.Truncated() {
		return append(slices.Clone(o.Head), o.Tail...)
	}
	out := append(slices.Clone(o.Head), "\n[… output left out …]\n"...)
	return append(out, o.Tail...)
}

// why is the reason of an end that came from us.
func (x *running) why(ctx context.Context, exit process.Exit) string {
	cause := context.Cause(ctx)
	switch {
	case exit.TimedOut:
		return "timeout"
	case errors.Is(cause, errStopping) || x.l.ctx.Err() != nil:
		return "shutdown"
	case errors.Is(cause, errDeadline):
		return "timeout"
	case cause != nil:
		return "parent_cancelled"
	}
	return "user"
}

// emitEnd emits how the process ended.
func (x *running) emitEnd(tx *session.Tx, exit process.Exit, reason string, last *capturing) {
	x.emitCaptured(tx, last)
	if p := tx.State.Environment.Find(x.id); p == nil || p.Status != state.ProcessRunning {
		return
	}
	ms := exit.Duration().Milliseconds()
	ref := x.storeWhole(tx, exit.Stdout)
	if exit.Failure != nil {
		tx.Emit(event.Event{Type: event.TypeProcessFailed, Scope: x.scope, Payload: &event.ProcessFailed{
			ProcessID: x.id, ErrorCategory: "spawn", Message: x.l.redactText(exit.Failure.Error()),
		}})
		return
	}
	if exit.TimedOut || exit.Terminated {
		by := x.l.stoppedBy(x.id)
		tx.Emit(event.Event{Type: event.TypeProcessTerminated, Scope: x.scope, Payload: &event.ProcessTerminated{
			ProcessID: x.id, Reason: reason, Signal: exit.SignalName, DurationMs: ms, OutputRef: ref, EndedAt: exit.Ended,
			Detail: by.reason, TerminatedBy: by.by,
		}})
		return
	}
	tx.Emit(event.Event{Type: event.TypeProcessCompleted, Scope: x.scope, Payload: &event.ProcessCompleted{
		ProcessID: x.id, ExitCode: int64(exit.Code), Signal: exit.SignalName, DurationMs: ms, OutputRef: ref, SizeBytes: exit.Stdout.Total,
	}})
}

// follow waits for a process in the background.
func (x *running) follow(p *process.Process) {
	exit, err := p.Wait(context.Background()) // the manager ends it when the runtime stops
	if err == nil {
		last := x.heldBack()
		v, _ := x.violation(exit)
		err = x.emitLast(func(tx *session.Tx) {
			x.emitEnd(tx, exit, x.why(context.Background(), exit), last)
			if v != nil {
				x.emitViolation(tx, v)
			}
		})
	}
	if err != nil {
		x.l.opt.Logger.Warn("the end of a process could not be recorded", "processId", x.id, "error", err)
	}
}

// reapProcesses looks for what is left of a session's processes after a restart.
func (l *Loop) reapProcesses(ctx context.Context, sessionID string) []process.Fate {
	var entries []process.Entry
	err := l.m.View(ctx, sessionID, func(s *state.Session) error {
		for _, x := range s.Environment.Active {
			if l.isRecording(x.ProcessID) || (l.opt.Processes != nil && l.processManager().Get(x.ProcessID) != nil) {
				continue // this run's own, also while it begins
			}
			entries = append(entries, process.Entry{
				ProcessID: x.ProcessID, Command: x.Command, Cwd: x.Cwd, TTY: x.TTY, Background: x.Background,
				Pid: int(x.Pid), StartTime: x.StartTime, BootID: x.BootID, Cgroup: x.Cgroup,
			})
		}
		return nil
	})
	if err != nil || len(entries) == 0 {
		return nil // a session that can't be read is reported by what follows
	}
	return process.Reap(entries)
}

// recoverProcesses records what became of processes that an earlier run started, and what
// there is of their output.
func (l *Loop) recoverProcesses(tx *session.Tx, fates []process.Fate, outputs map[string][]byte) []string {
	var out []string
	for _, f := range fates {
		x := tx.State.Environment.Find(f.Entry.ProcessID)
		if x == nil || x.Status != state.ProcessRunning {
			continue
		}
		scope := processScope(tx.State, x)
		ref, kept := "", "nothing was captured of its output"
		if output := outputs[x.ProcessID]; len(output) > 0 {
			ref = tx.Blob(output, textMedia)
			kept = fmt.Sprintf("the %d bytes captured of its output are at %s", len(output), ref)
		}
		out = append(out, "process "+x.ProcessID+": "+f.Detail+"; "+kept)
		if f.State == process.Unreachable {
			tx.Emit(event.Event{Type: event.TypeProcessFailed, Scope: scope, Payload: &event.ProcessFailed{
				ProcessID: x.ProcessID, ErrorCategory: "lost", Message: f.Detail, MayStillExist: true, OutputRef: ref,
			}})
			continue
		}
		tx.Emit(event.Event{Type: event.TypeProcessTerminated, Scope: scope, Payload: &event.ProcessTerminated{
			ProcessID: x.ProcessID, Reason: "recovery", Detail: f.Detail, EndedAt: time.Time{}, OutputRef: ref,
		}})
	}
	return out
}
