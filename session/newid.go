package session

import (
	"context"

	"agentd/command"
	"agentd/fault"
)

// CheckNewID refuses the creation of something under an id that another account has.
// The answer is the same for every kind of thing: it doesn't say what has the id, nor
// where. What the caller may see itself is left to the command, which compares it.
func (m *Manager) CheckNewID(ctx context.Context, caller command.Caller, p command.Params) error {
	id, owner, err := m.ownerOfNew(ctx, p)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil
	case err != nil:
		return err
	case id == "" || caller.Sees(owner):
		return nil
	}
	return fault.New(fault.Conflict, "the id %s can't be used here; choose another one", id)
}

// ownerOfNew returns the id under which a command makes something, and the account
// that has it already; not found if none does.
func (m *Manager) ownerOfNew(ctx context.Context, p command.Params) (id, account string, err error) {
	switch p := p.(type) {
	case *command.CreateSession:
		return m.ownerOf(ctx, p.SessionID, func(id string) (string, error) { return id, nil })
	case *command.SubmitTurn:
		if !p.Create {
			return "", "", nil
		}
		return m.ownerOf(ctx, p.SessionID, func(id string) (string, error) { return id, nil })
	case *command.CreateTask:
		return m.ownerOf(ctx, p.TaskID, func(id string) (string, error) { return m.TaskSession(ctx, id) })
	case *command.CreateJob:
		return m.ownerOfKind(ctx, KindJob, p.JobID)
	case *command.CreateSchedule:
		return m.ownerOfKind(ctx, KindSchedule, p.ScheduleID)
	case *command.SpawnSubagent:
		return m.ownerOfKind(ctx, KindSubagent, p.SubagentID)
	case *command.StartBenchmarkTrial:
		if p.Benchmark == nil {
			return "", "", nil // the command says so
		}
		return m.ownerOfKind(ctx, KindTrial, p.Benchmark.TrialID)
	case *command.ConnectChannel:
		if p.ChannelID == "" {
			return "", "", nil
		}
		c, err := m.Channel(ctx, p.ChannelID)
		if err != nil {
			return "", "", err
		}
		return p.ChannelID, c.Account(), nil
	}
	return "", "", nil
}

func (m *Manager) ownerOfKind(ctx context.Context, kind, id string) (string, string, error) {
	return m.ownerOf(ctx, id, func(id string) (string, error) { return m.Locate(ctx, kind, id) })
}

// ownerOf returns the account of the session that an id leads to.
func (m *Manager) ownerOf(ctx context.Context, id string, sessionOf func(string) (string, error)) (string, string, error) {
	if id == "" {
		return "", "", nil
	}
	sessionID, err := sessionOf(id)
	if err != nil {
		return "", "", err
	}
	account, err := m.Account(ctx, sessionID)
	return id, account, err
}
