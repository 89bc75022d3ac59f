package session

import (
	"context"
	"errors"

	"agentd/command"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// ErrUnreachable says that a process is known, and that this agentd can do nothing to it.
var ErrUnreachable = errors.New("session: the process can't be reached")

// FindProcess returns the session of a process and what is known of it, if the
// caller may see it.
func (m *Manager) FindProcess(ctx context.Context, caller command.Caller, processID string) (string, *state.Process, error) {
	r := &request{m: m, caller: caller}
	missing := fault.New(fault.NotFound, "there is no process %s", processID)
	v, err := m.opt.Store.Get(ctx, kindProcess, processID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil, missing
	}
	if err != nil {
		return "", nil, storeFault(err)
	}
	sessionID := string(v)
	p, err := r.findProcess(ctx, sessionID, processID)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil, missing
	}
	return sessionID, p, err
}

// findProcess reads what is known of a process, also when it ended long ago.
func (r *request) findProcess(ctx context.Context, sessionID, processID string) (*state.Process, error) {
	return findKept(ctx, r, sessionID, "process", processID, func(st *state.Session) *state.Process { return st.Environment.Find(processID) })
}

func (r *request) listProcesses(ctx context.Context, p *command.ListProcesses) (*command.ListProcessesResult, error) {
	page, err := r.m.ListCards(ctx, r.caller, &CardQuery{
		Kind: ProcessCards, Page: &p.Page, Narrow: &p.Narrowing, SessionID: p.SessionID, Status: p.Status, Type: p.Type, Parent: p.TurnID, Sort: p.Sort,
	})
	if err != nil {
		return nil, err
	}
	res := &command.ListProcessesResult{Processes: []command.ProcessRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, c := range page.Things() {
		x, err := r.findProcess(ctx, c.SessionID, c.ID)
		if fault.KindOf(err) == fault.NotFound {
			continue // its session was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		record := ProcessRecord(x)
		record.SessionID = c.SessionID
		res.Processes = append(res.Processes, record)
	}
	return res, nil
}

// ProcessRecord is a process as commands tell it.
func ProcessRecord(x *state.Process) command.ProcessRecord {
	return command.ProcessRecord{
		ProcessID: x.ProcessID, ThreadID: x.ThreadID, TurnID: x.TurnID, ToolCallID: x.ToolCallID, Background: x.Background,
		Status: x.Status, Command: x.Command, Cwd: x.Cwd, TTY: x.TTY, ExitCode: x.ExitCode,
		OutputRef: x.OutputRef, StartedAt: x.StartedAt, EndedAt: x.EndedAt, DurationMs: x.DurationMs,
	}
}
