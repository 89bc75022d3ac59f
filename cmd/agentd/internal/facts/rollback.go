package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"agentd/command"
	"agentd/event"
)

// Rollback takes turns back, or says what that would do. It returns the result also as
// it came.
func Rollback(ctx context.Context, f Source, p *command.RollbackThread) (*command.RollbackThreadResult, json.RawMessage, error) {
	var raw json.RawMessage
	if err := f.Do(ctx, p, &raw); err != nil {
		return nil, nil, err
	}
	res := &command.RollbackThreadResult{}
	if err := json.Unmarshal(raw, res); err != nil {
		return nil, nil, fmt.Errorf("result of rollback_thread: %w", err)
	}
	return res, raw, nil
}

// PlanRollback returns the command that takes back a turn, or the last one, and
// those after it.
func PlanRollback(ctx context.Context, f Source, sessionID, turn string) (*command.RollbackThread, error) {
	t, err := MainThread(ctx, f, sessionID)
	if err != nil {
		return nil, err
	}
	p := &command.RollbackThread{SessionID: sessionID, ThreadID: t.ThreadID}
	var turns, inherited []string
	for _, x := range t.Turns {
		if x.TurnID != t.ActiveTurnID {
			turns = append(turns, x.TurnID)
		}
		if x.Inherited {
			inherited = append(inherited, x.TurnID)
		}
	}
	at := len(turns) - 1
	if turn != "" {
		at = slices.Index(turns, turn)
	}
	if at < 1 && t.Truncated {
		// The read model has the newest turns only; the facts have all.
		if turns, err = finishedTurns(ctx, f, sessionID, t.ThreadID); err != nil {
			return nil, err
		}
		turns = append(inherited, turns...)
		if at = len(turns) - 1; turn != "" {
			at = slices.Index(turns, turn)
		}
	}
	switch {
	case at < 0 && turn != "":
		return nil, fmt.Errorf("there is no finished turn %s in session %s", turn, sessionID)
	case at < 0:
		return nil, fmt.Errorf("session %s has no finished turn", sessionID)
	case at == 0:
		p.ToStart = true
	default:
		p.ToTurnID = turns[at-1]
	}
	return p, nil
}

// finishedTurns reads the finished turns of a thread from its facts, oldest first,
// without those that were taken back.
func finishedTurns(ctx context.Context, f Source, sessionID, threadID string) ([]string, error) {
	var turns []string
	err := Each(ctx, f, sessionID, func(e *event.Event) {
		if e.ThreadID != threadID {
			return
		}
		if IsTurnEnd(e) {
			turns = append(turns, e.TurnID)
		}
		if p, ok := e.Payload.(*event.RollbackCompleted); ok {
			turns = slices.DeleteFunc(turns, func(id string) bool { return slices.Contains(p.RemovedTurns, id) })
		}
	})
	return turns, err
}
