package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"agentd/event"
	"agentd/permission"
	"agentd/state"
)

// Reviewer says which model is asked about calls before a person is, and what it may
// allow. See [permission.Review].
type Reviewer struct {
	// Model is the model, as provider/model.
	Model string `json:"model"`
	permission.ReviewBounds
	// Timeout bounds one review; zero is 30 seconds.
	Timeout time.Duration `json:"timeout,omitempty"`
	// SessionCostUSD bounds what the reviews of one session may cost; zero is no bound
	// but the session's budget.
	SessionCostUSD float64 `json:"sessionCostUSD,omitempty"`
}

// Verdicts of a reviewer.
const (
	verdictAllow  = "allow"
	verdictAsk    = "ask"
	verdictFailed = "failed"
)

// reviewOf is the verdict about a call, as the facts have it, and what a reviewer may
// allow. A verdict about another input, which a hook has replaced, is none.
func (c *Configuration) reviewOf(turn *state.Turn, call *Call) (*permission.Review, permission.ReviewBounds) {
	if c.Reviewer == nil || turn == nil {
		return nil, permission.ReviewBounds{}
	}
	found := findCall(turn, call.ToolCallID)
	if found == nil || found.Review == nil || found.Review.InputHash != inputHash(call.Input) {
		return nil, c.Reviewer.ReviewBounds
	}
	v := found.Review
	return &permission.Review{Allow: v.Verdict == verdictAllow, Reason: v.Reason, Model: v.Model}, c.Reviewer.ReviewBounds
}

// inputHash is the hash of an input, as facts of a review name it.
func inputHash(input event.Raw) string {
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:16])
}
