package loop

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/process"
	"agentd/session"
	"agentd/state"
)

// reachProcess finds a running process. One that is known and can't be reached any more
// is a fault, and a warning in its session.
func (l *Loop) reachProcess(ctx context.Context, caller command.Caller, p command.Params, processID string) (string, *state.Process, *process.Process, error) {
	sessionID, known, err := l.m.FindProcess(ctx, caller, processID)
	if err != nil {
		return "", nil, nil, err
	}
	if l.opt.Processes != nil {
		if x := l.processManager().Reach(processID); x != nil {
			return sessionID, known, x, nil
		}
	}
	why := "process " + processID + " can't be reached: it is " + known.Status
	if known.Status == state.ProcessRunning {
		why = "process " + processID + " can't be reached: it belongs to an earlier run of agentd"
	}
	_, err = session.Write(ctx, l.m, caller, unkeyed{p}, sessionID, event.BySession|event.ByLoop|event.ByRuntime, func(tx *session.Tx) (*struct{}, error) {
		tx.Emit(event.Event{Type: event.TypeRuntimeWarning, Scope: processScope(tx.State, known), Payload: &event.RuntimeNotice{
			Code: "process_unreachable", Message: why, Advice: "list_processes shows what is known of it",
		}})
		return &struct{}{}, nil
	})
	if err != nil {
		return "", nil, nil, err
	}
	return "", nil, nil, fault.Wrap(fault.Unavailable, session.ErrUnreachable, "%s", why)
}

// unkeyed is a command without its idempotency key, which belongs to the outcome.
type unkeyed struct{ command.Params }

// processScope is that of a fact about a process: of its call, of the turn that made
// the call with its task, and of the child whose thread it is.
func processScope(s *state.Session, x *state.Process) event.Scope {
	scope := event.Scope{ThreadID: x.ThreadID, TurnID: x.TurnID, StepID: x.StepID, ToolCallID: x.ToolCallID, ProcessID: x.ProcessID}
	t := s.Thread(x.ThreadID)
	if t == nil {
		return scope
	}
	scope.SubagentID = t.SubagentID
	if turn := t.Known(x.TurnID); turn != nil {
		scope.TaskID, scope.RunID = turn.TaskID, turn.RunID
	}
	return scope
}

// writeStdin writes to a process. The same key again doesn't write twice.
func (l *Loop) writeStdin(ctx context.Context, caller command.Caller, p *command.WriteProcessStdin) (*command.WriteProcessStdinResult, error) {
	sessionID, known, x, err := l.reachProcess(ctx, caller, p, p.ProcessID)
	if err != nil {
		return nil, err
	}
	data, err := p.Bytes()
	if err != nil {
		return nil, err
	}
	given := givenInput{p.ProcessID, caller.Account, p.Key()}
	if err := l.inputs.giveOnce(given, p, x, func() error { return giveInput(ctx, x, data, p.EOF) }); err != nil {
		return nil, err
	}
	command.NoteDone(ctx, false) // no other node can do this, nor find it
	preview := l.redactText(validText([]byte(clip.Text(string(data), 200))))
	res, err := session.Write(ctx, l.m, caller, p, sessionID, event.BySession, func(tx *session.Tx) (*command.WriteProcessStdinResult, error) {
		tx.Emit(event.Event{Type: event.TypeProcessInput, Scope: processScope(tx.State, known), Payload: &event.ProcessInput{
			ProcessID: p.ProcessID, SizeBytes: int64(len(data)), Preview: preview, EOF: p.EOF, WrittenBy: session.ActorOf(caller),
		}})
		return &command.WriteProcessStdinResult{ProcessID: p.ProcessID, WrittenBytes: int64(len(data))}, nil
	})
	if err == nil {
		l.inputs.forget(given)
	}
	return res, err
}

func giveInput(ctx context.Context, x *process.Process, data []byte, eof bool) error {
	if len(data) > 0 {
		if err := x.Write(ctx, data); err != nil {
			return inputFault(err)
		}
	}
	if eof {
		if err := x.CloseInput(); err != nil {
			return inputFault(err)
		}
	}
	return nil
}

func inputFault(err error) error {
	if errors.Is(err, process.ErrNoInput) {
		return fault.Wrap(fault.Conflict, err, "the process accepts no input")
	}
	return fault.Wrap(fault.Unavailable, err, "the process didn't accept the input")
}

func (l *Loop) resizeProcess(ctx context.Context, caller command.Caller, p *command.ResizeProcess) (*command.ProcessResult, error) {
	sessionID, known, x, err := l.reachProcess(ctx, caller, p, p.ProcessID)
	if err != nil {
		return nil, err
	}
	if !known.TTY {
		return nil, fault.New(fault.Conflict, "process %s has no terminal", p.ProcessID)
	}
	if err := x.Resize(int(p.Rows), int(p.Cols)); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the terminal could not be resized")
	}
	return session.Write(ctx, l.m, caller, p, sessionID, event.BySession, func(tx *session.Tx) (*command.ProcessResult, error) {
		tx.Emit(event.Event{Type: event.TypeProcessInput, Scope: processScope(tx.State, known), Payload: &event.ProcessInput{
			ProcessID: p.ProcessID, Rows: p.Rows, Cols: p.Cols, WrittenBy: session.ActorOf(caller),
		}})
		return &command.ProcessResult{ProcessID: p.ProcessID, Status: state.ProcessRunning}, nil
	})
}

// terminateGrace is what a process gets between the first signal and the kill.
const terminateGrace = 2 * time.Second

// terminateProcess ends a process and all that it started.
func (l *Loop) terminateProcess(ctx context.Context, caller command.Caller, p *command.TerminateProcess) (*command.ProcessResult, error) {
	sessionID, known, x, err := l.reachProcess(ctx, caller, p, p.ProcessID)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // once begun it is carried out
	if sig, ok := signals[strings.TrimPrefix(p.Signal, "SIG")]; ok && sig != syscall.SIGTERM && sig != syscall.SIGKILL {
		if err := x.Signal(int(sig)); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "the signal could not be sent to the process")
		}
		wait, cancel := context.WithTimeout(ctx, terminateGrace)
		_, _ = x.Wait(wait) // what remains is ended below
		cancel()
	}
	grace := terminateGrace
	if strings.HasSuffix(p.Signal, "KILL") {
		grace = 0
	}
	reason := l.redactText(p.Reason)
	// Whichever goroutine records the end first, the fact names the requester.
	l.noteStopping(p.ProcessID, &stop{reason, session.ActorOf(caller)})
	defer l.noteStopping(p.ProcessID, nil)
	if err := x.Terminate(ctx, grace); err != nil {
		return nil, fault.Wrap(fault.Unavailable, errors.Join(session.ErrUnreachable, err), "the process could not be ended")
	}
	command.NoteDone(ctx, false)
	exit, err := x.Wait(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "it is not known how the process ended")
	}
	l.awaitRecorded(p.ProcessID)
	return session.Write(ctx, l.m, caller, p, sessionID, event.BySession, func(tx *session.Tx) (*command.ProcessResult, error) {
		now := tx.State.Environment.Find(p.ProcessID)
		if now != nil && now.Status == state.ProcessRunning {
			tx.Emit(event.Event{Type: event.TypeProcessTerminated, Scope: processScope(tx.State, known), Payload: &event.ProcessTerminated{
				ProcessID: p.ProcessID, Reason: "user", Signal: exit.SignalName, Detail: reason, DurationMs: exit.Duration().Milliseconds(),
				TerminatedBy: session.ActorOf(caller), EndedAt: exit.Ended,
			}})
		}
		return &command.ProcessResult{ProcessID: p.ProcessID, Status: state.ProcessTerminated}, nil
	})
}

// stop is the wish of a caller to end a process.
type stop struct {
	reason string
	by     *event.Actor
}

// noteStopping notes who is ending a process; nil takes the note away.
func (l *Loop) noteStopping(processID string, s *stop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == nil {
		delete(l.stops, processID)
		return
	}
	l.stops[processID] = *s
}

// stoppedBy returns who is ending a process, if anyone is.
func (l *Loop) stoppedBy(processID string) stop {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stops[processID]
}
