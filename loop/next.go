package loop

import "agentd/state"

// Effect is what a thread does next. The set is closed: see the types below.
type Effect interface{ effect() }

type (
	// Nothing is to be done: the thread is idle, blocked, or waits for an answer.
	Nothing struct{}
	// StartTurn takes an accepted or queued turn into work.
	StartTurn struct{ TurnID string }
	// CallModel asks the model.
	CallModel struct {
		TurnID string
		// Step is the ordinal of the call within the turn, Attempt of the try.
		Step, Attempt int64
	}
	// StartTool begins a tool call that the model asked for.
	StartTool struct{ TurnID, ToolCallID string }
	// FinishTool ends a tool call whose action was answered.
	FinishTool struct{ TurnID, ToolCallID, ActionID string }
	// CompleteTurn ends a turn well.
	CompleteTurn struct{ TurnID, Outcome string }
	// FailTurn ends a turn otherwise.
	FailTurn struct{ TurnID, Category, Message string }
	// CancelTurn ends a turn that somebody interrupted.
	CancelTurn struct{ TurnID, Reason string }
)

func (Nothing) effect()      {}
func (StartTurn) effect()    {}
func (CallModel) effect()    {}
func (StartTool) effect()    {}
func (FinishTool) effect()   {}
func (CompleteTurn) effect() {}
func (FailTurn) effect()     {}
func (CancelTurn) effect()   {}

// Limits of a turn that says nothing else.
const (
	defaultMaxSteps = 50
	maxAttempts     = 3
)

// Next decides what a thread does next: a pure function of its facts. A crash, a
// restart or an answer that comes after days is no special case: whoever has the
// facts has the next effect.
func Next(s *state.Session, threadID string) Effect {
	t := s.Thread(threadID)
	if t == nil || (t.Block != nil && (t.Active == nil || t.Active.Interrupt == nil)) {
		return Nothing{}
	}
	turn := t.Active
	switch {
	case turn == nil && len(t.Queue) > 0:
		return StartTurn{t.Queue[0].TurnID}
	case turn == nil:
		return Nothing{}
	case turn.Interrupt != nil:
		return CancelTurn{turn.TurnID, turn.Interrupt.Reason}
	case turn.Status == state.TurnAccepted:
		return StartTurn{turn.TurnID}
	}
	return nextInTurn(s, turn)
}

// nextInTurn decides within a turn that runs.
func nextInTurn(s *state.Session, turn *state.Turn) Effect {
	c := turn.Call
	if c == nil {
		return callModel(turn, 1, 1)
	}
	switch c.Status {
	case state.CallRunning:
		return Nothing{} // somebody is at it, or recovery will say that nobody is
	case state.CallFailed:
		if c.Retryable && (c.Attempt < maxAttempts || c.ErrorCategory == "interrupted") {
			return callModel(turn, c.Step, c.Attempt+1)
		}
		return FailTurn{turn.TurnID, "model_failed", c.ErrorCategory + ": " + c.Message}
	}
	if e := nextTool(s, turn); e != nil {
		return e
	}
	if c.StopReason == "tool_use" || turn.Steered > turn.SteeredSeen {
		return callModel(turn, c.Step+1, 1)
	}
	return CompleteTurn{turn.TurnID, c.StopReason}
}

// nextTool decides about the tool calls of the last answer; nil when all ended.
func nextTool(s *state.Session, turn *state.Turn) Effect {
	for _, tool := range turn.Tools {
		switch tool.Status {
		case state.ToolRequested:
			return StartTool{turn.TurnID, tool.ToolCallID}
		case state.ToolRunning:
			a := s.Actions.Find(tool.ActionID)
			if a == nil || a.Status == state.ActionPending {
				return Nothing{}
			}
			return FinishTool{turn.TurnID, tool.ToolCallID, tool.ActionID}
		}
	}
	return nil
}

func callModel(turn *state.Turn, step, attempt int64) Effect {
	limit := int64(defaultMaxSteps)
	if turn.Options != nil && turn.Options.MaxSteps > 0 {
		limit = turn.Options.MaxSteps
	}
	if step > limit {
		return FailTurn{turn.TurnID, "step_limit", "the turn has used its model calls"}
	}
	return CallModel{turn.TurnID, step, attempt}
}
