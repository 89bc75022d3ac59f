package loop

import (
	"slices"

	"agentd/state"
)

// afterFailure decides what follows a model call without an answer. Asking again
// is safe whenever the provider says so: nothing of a broken answer was used.
func (p *Policy) afterFailure(t *state.Thread, turn *state.Turn) Effect {
	c := turn.Call
	if d := t.Routing.Decision; d.SelectedProvider != c.Provider || d.SelectedModel != c.Model {
		return p.callModel(t, turn, c.Step, c.Attempt+1) // another model was chosen since
	}
	another := len(t.Routing.Decision.FallbackChain) > 0 && slices.Contains(p.FallbackOn, c.ErrorCategory)
	tries := p.MaxTries
	if another {
		tries = min(2, tries)
	}
	switch {
	case c.ErrorCategory == "interrupted":
		return p.callModel(t, turn, c.Step, c.Attempt+1)
	case c.ErrorCategory == "context_overflow" && c.Tries < 2 && p.mayCompact(t, turn):
		return Compact{TurnID: turn.TurnID, Trigger: "context_overflow", Attempt: compactionAttempt(t)}
	case c.ErrorCategory == "context_overflow" && c.Tries < 2 && compactedSince(t, turn):
		return p.callModel(t, turn, c.Step, c.Attempt+1)
	case c.Retryable && c.Tries < tries && p.patient(c, another):
		return p.callModel(t, turn, c.Step, c.Attempt+1)
	case another:
		return Fallback{turn.TurnID, c.ErrorCategory}
	}
	if p.awaitsResource(turn) {
		return AskResume{turn.TurnID, c.ModelRequestID}
	}
	return FailTurn{turn.TurnID, "model_failed", c.ErrorCategory + ": " + c.Message}
}

// awaitsResource reports whether a failed call waits for a person: the provider refuses
// the key, or the account is used up, which time alone doesn't mend. It does if something
// would be lost: the answers of a turn so far, or an attempt at a task. A turn that has
// nothing yet fails at once, and so does work of which there may be much, or that is
// measured.
func (p *Policy) awaitsResource(turn *state.Turn) bool {
	c := turn.Call
	missing := c.ErrorCategory == "auth" || c.ErrorCategory == "rate_limited" && !c.Retryable
	if !p.WaitForResources || c.Declined || !missing {
		return false
	}
	switch turn.Source {
	case "task":
		return true
	case "user", "channel":
		return c.Step > 1
	}
	return false
}

// patient reports whether a provider that wants to be left alone is waited for: not for
// long where another model could answer at once.
func (p *Policy) patient(c *state.ModelCall, another bool) bool {
	bound := p.MaxRetryAfter
	if another && p.MaxFallbackWait > 0 && (bound == 0 || p.MaxFallbackWait < bound) {
		bound = p.MaxFallbackWait
	}
	return bound == 0 || c.RetryAfterMs == nil || *c.RetryAfterMs <= bound.Milliseconds()
}
