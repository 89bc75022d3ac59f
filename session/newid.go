package session

import (
	"context"

	"agentd/command"
	"agentd/fault"
)

// checkUnowned refuses an id that another account has, or that only an adapter may give.
// The answer is the same for every kind of thing: it doesn't say what has the id, nor
// where, nor whether anything has it. What the caller may see itself is left to the
// command, which compares it.
func (m *Manager) checkUnowned(ctx context.Context, caller command.Caller, noun, id string) error {
	if id == "" {
		return nil
	}
	owner, err := m.ownerOf(ctx, noun, id)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		if command.IsDerivedID(id) && !caller.Adapter {
			return errTakenID(id)
		}
		return nil
	case err != nil:
		return err
	case caller.Sees(owner):
		return nil
	}
	return errTakenID(id)
}

// errTakenID refuses an id, and says no more than that.
func errTakenID(id string) error {
	return fault.New(fault.Conflict, "the id %s can't be used here; choose another one", id)
}

// ownerOf returns the account that has an id; not found if none does. The id of a turn
// is its session's own.
func (m *Manager) ownerOf(ctx context.Context, noun, id string) (account string, err error) {
	sessionID := id
	switch noun {
	case "session":
	case "task":
		sessionID, err = m.TaskSession(ctx, id)
	case "channel":
		c, err := m.Channel(ctx, id)
		if err != nil {
			return "", err
		}
		return c.Account(), nil
	case "benchmark":
		sessionID, err = m.Locate(ctx, KindTrial, id)
	case KindJob, KindSchedule, KindSubagent:
		sessionID, err = m.Locate(ctx, noun, id)
	default:
		err = fault.New(fault.NotFound, "a %s can't be given an account of its own", noun)
	}
	if err != nil {
		return "", err
	}
	return m.Account(ctx, sessionID)
}
