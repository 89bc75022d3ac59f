package facts

import (
	"context"
	"encoding/json"
	"fmt"

	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// Diff returns what was changed in the workspace, also as the answer came.
func Diff(ctx context.Context, f Source, p *command.GetDiff) (*command.GetDiffResult, json.RawMessage, error) {
	var raw json.RawMessage
	if err := f.Do(ctx, p, &raw); err != nil {
		return nil, nil, err
	}
	res := &command.GetDiffResult{}
	if err := json.Unmarshal(raw, res); err != nil {
		return nil, nil, fmt.Errorf("result of get_diff: %w", err)
	}
	return res, raw, nil
}

// PlanDiff returns the command that shows what the last turn of a session changed, or a
// turn and those after it, or the whole session.
func PlanDiff(ctx context.Context, f Source, sessionID, turn string, all bool) (*command.GetDiff, error) {
	p := &command.GetDiff{SessionID: sessionID}
	last, err := Sequence(ctx, f, sessionID)
	if err != nil {
		return nil, err
	}
	if all {
		p.ToSequence = &last
		return p, nil
	}
	t, err := MainThread(ctx, f, sessionID)
	if err != nil {
		return nil, err
	}
	own := ownFinished(t)
	if turn == "" {
		if len(own) == 0 {
			return nil, fmt.Errorf("session %s has no finished turn", sessionID)
		}
		p.TurnID = own[len(own)-1].TurnID
		return p, nil
	}
	from := uint64(0)
	for _, x := range own {
		if x.TurnID == turn {
			from = x.SubmittedSequence
		}
	}
	if from == 0 && t.Truncated {
		// The read model has the newest turns only; the facts have all.
		if err := Each(ctx, f, sessionID, func(e *event.Event) {
			if e.Type == event.TypeTurnSubmitted && e.TurnID == turn {
				from = e.Sequence
			}
		}); err != nil {
			return nil, err
		}
	}
	if from == 0 {
		return nil, fmt.Errorf("there is no finished turn %s in session %s", turn, sessionID)
	}
	p.FromSequence, p.ToSequence = &from, &last
	return p, nil
}

// ownFinished are the turns of a thread that ended, without those that a fork inherits.
func ownFinished(t *state.ThreadReadModel) []state.TurnView {
	var out []state.TurnView
	for i := range t.Turns {
		if x := t.Turns[i]; x.TurnID != t.ActiveTurnID && !x.Inherited {
			out = append(out, x)
		}
	}
	return out
}
