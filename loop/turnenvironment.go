package loop

import (
	"context"
	"encoding/json"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// getTurnEnvironment answers get_execution_environment for a turn, from its facts.
func (l *Loop) getTurnEnvironment(ctx context.Context, caller command.Caller, p *command.GetExecutionEnvironment) (*environment, error) {
	var turn *state.Turn
	var processes []command.ProcessRecord
	err := l.m.ViewAs(ctx, caller, p.SessionID, func(s *state.Session) error {
		for _, x := range s.Environment.Active {
			if x.TurnID == p.TurnID {
				processes = append(processes, session.ProcessRecord(x))
			}
		}
		for _, t := range s.Threads {
			if x := t.Known(p.TurnID); x != nil {
				kept := *x
				turn = &kept
			}
		}
		return nil
	})
	if err == nil && turn == nil {
		turn, err = l.finishedTurn(ctx, p.SessionID, p.TurnID)
	}
	switch {
	case err != nil:
		return nil, err
	case p.ThreadID != "" && turn.ThreadID != p.ThreadID:
		return nil, fault.New(fault.NotFound, "turn %s is of thread %s, not of %s", p.TurnID, turn.ThreadID, p.ThreadID)
	case turn.Environment == nil:
		return nil, fault.New(fault.NotFound, "no environment is known of turn %s: it has not started, or an earlier version of agentd ran it", p.TurnID)
	}
	return recordedEnvironment(turn, processes), nil
}

// finishedTurn returns a turn that left the session's working set.
func (l *Loop) finishedTurn(ctx context.Context, sessionID, turnID string) (*state.Turn, error) {
	b, err := l.m.Record(ctx, sessionID, "turn/"+turnID)
	if fault.KindOf(err) == fault.NotFound {
		return nil, fault.New(fault.NotFound, "there is no turn %s in session %s", turnID, sessionID)
	}
	if err != nil {
		return nil, err
	}
	turn := &state.Turn{}
	if err := json.Unmarshal(b, turn); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of turn %s can't be read", turnID)
	}
	return turn, nil
}

// recordedEnvironment is the environment that a turn was started in, with the processes
// that it left running.
func recordedEnvironment(turn *state.Turn, processes []command.ProcessRecord) *environment {
	e := turn.Environment
	out := &environment{
		EnvironmentRead: command.EnvironmentRead{Cwd: e.Cwd, WorkspaceRoots: []string{e.WorkspaceRoot}, Processes: processes},
		WorkspaceID:     e.WorkspaceID, AdditionalRoots: append([]string{}, e.AdditionalRoots...), Shell: e.Shell, OS: e.OS, Arch: e.Arch, EnvRef: e.EnvRef, Env: []string{},
		PermissionMode: turn.Mode, TurnID: turn.TurnID, SandboxMode: e.SandboxMode, NetworkProfile: e.NetworkProfile, ResourceLimits: e.ResourceLimits,
	}
	if out.ResourceLimits == nil {
		out.ResourceLimits = map[string]int64{}
	}
	if out.PermissionMode == "" {
		out.PermissionMode = event.NotApplicable
	}
	return out
}
