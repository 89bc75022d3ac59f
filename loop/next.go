package loop

import (
	"slices"
	"time"

	"agentd/state"
)

// Effect is what a thread does next. The set is closed: see the types below.
// Effects are compared with ==, so they hold nothing but plain values.
type Effect interface{ effect() }

type (
	// Nothing is to be done: the thread is idle, blocked, or waits for an answer.
	Nothing struct{}
	// StartTurn takes an accepted or queued turn into work: its context, its tools
	// and its model are chosen.
	StartTurn struct{ TurnID string }
	// Prepare chooses context, tools and model of a turn that was started without.
	Prepare struct{ TurnID string }
	// CallModel asks the model.
	CallModel struct {
		TurnID string
		// Step is the ordinal of the call within the turn, Attempt of the try.
		Step, Attempt int64
		// Repair says that the last answer must be given again in the right form.
		Repair bool
	}
	// AskResume asks whether a request that failed for want of a key or of a quota can be
	// made again.
	AskResume struct{ TurnID, ModelRequestID string }
	// Fallback chooses the next model of the chain after a failure.
	Fallback struct{ TurnID, Cause string }
	// RunTools judges and runs the calls From up to, not including, To of the last
	// answer; those that have ended are left alone.
	RunTools struct {
		TurnID   string
		From, To int
	}
	// FinishTool ends a tool call whose action was answered.
	FinishTool struct{ TurnID, ToolCallID, ActionID string }
	// Compact replaces earlier turns by a summary. CompactionID is set when
	// it was requested.
	Compact struct {
		TurnID, CompactionID, Trigger string
		Attempt                       int64
	}
	// CheckOutput checks the final answer against the turn's output schema.
	CheckOutput struct {
		TurnID   string
		Repaired bool
	}
	// TellHooks runs the post_sampling hooks on a model's answer.
	TellHooks struct{ TurnID, ModelRequestID string }
	// CompleteTurn ends a turn well.
	CompleteTurn struct{ TurnID, Outcome string }
	// FailTurn ends a turn otherwise.
	FailTurn struct{ TurnID, Category, Message string }
	// CancelTurn ends an interrupted turn.
	CancelTurn struct{ TurnID, Reason string }
	// ExpireAction resolves an action that wasn't answered in time.
	ExpireAction struct{ ActionID string }
)

func (Nothing) effect()      {}
func (StartTurn) effect()    {}
func (Prepare) effect()      {}
func (CallModel) effect()    {}
func (AskResume) effect()    {}
func (Fallback) effect()     {}
func (RunTools) effect()     {}
func (FinishTool) effect()   {}
func (Compact) effect()      {}
func (CheckOutput) effect()  {}
func (TellHooks) effect()    {}
func (CompleteTurn) effect() {}
func (FailTurn) effect()     {}
func (CancelTurn) effect()   {}
func (ExpireAction) effect() {}

// Policy is what a decision needs to know of the configuration. It doesn't
// change while the runtime runs.
type Policy struct {
	// MaxSteps bounds the model calls of a turn that says nothing else.
	MaxSteps int64
	// MaxTries bounds the requests of one step to one model; it is 2 where another
	// model could answer.
	MaxTries int64
	// FallbackOn lists the error categories after which another model is asked.
	FallbackOn []string
	// MaxRetryAfter is the longest that a provider may ask to be left alone before it
	// counts as failed; 0 is no bound. Where another model could answer the bound is
	// MaxFallbackWait.
	MaxRetryAfter   time.Duration
	MaxFallbackWait time.Duration
	// WaitForResources keeps work whose model has no valid key or no quota left waiting for
	// a person, who can mend that, instead of failing it.
	WaitForResources bool
	// MaxRepeats is how often a model may ask for the same calls in a row and get
	// the same results.
	MaxRepeats int64
	// CompactAt is the part of the context window at which a thread is compacted;
	// 0 is never.
	CompactAt float64
	// MaxCompactions bounds the tries of a compaction in a row. After so many
	// failures one more is made each time the thread has grown by CompactAgain, a
	// part of the context window, and one in each turn whose request is too long.
	MaxCompactions int64
	CompactAgain   float64
	// MaxToolTries bounds the runs of a read-only call whose outcome was lost.
	MaxToolTries int64
	// PostSampling says that hooks run on each answer before it is acted on.
	PostSampling bool
}

// DefaultPolicy is the policy that is used unless another one is configured.
func DefaultPolicy() Policy {
	return Policy{
		MaxSteps: 50, MaxTries: 4, FallbackOn: []string{"rate_limited", "overloaded", "timeout", "server_error"},
		MaxRetryAfter: 2 * time.Minute, MaxFallbackWait: 2 * time.Second, WaitForResources: true, MaxRepeats: 5, CompactAt: 0.8, MaxCompactions: 3, CompactAgain: 0.05, MaxToolTries: 3,
	}
}

// Next decides what a thread does next: a pure function of its facts, the
// configuration and the time. A crash, a restart or an answer that comes after
// days isn't a special case: the facts alone determine the next effect.
func (p *Policy) Next(s *state.Session, threadID string, now time.Time) Effect {
	t := s.Thread(threadID)
	if t == nil {
		return Nothing{}
	}
	if id := expired(s, threadID, now); id != "" {
		return ExpireAction{id}
	}
	turn := t.Active
	if s.History.RollingBack(threadID) != nil || (t.Block != nil && (turn == nil || turn.Interrupt == nil)) {
		return Nothing{}
	}
	if turn != nil && turn.Interrupt != nil {
		if turn.Interrupt.Inactivity() {
			return FailTurn{turn.TurnID, "timed_out", turn.Interrupt.Reason}
		}
		return CancelTurn{turn.TurnID, turn.Interrupt.Reason}
	}
	if e := requestedCompaction(t); e != nil {
		return e
	}
	switch {
	case turn == nil && len(t.Queue) > 0:
		return StartTurn{t.Queue[0].TurnID}
	case turn == nil:
		return Nothing{}
	case turn.Status == state.TurnAccepted:
		return StartTurn{turn.TurnID}
	case !deadline(turn).IsZero() && !now.Before(deadline(turn)):
		return FailTurn{turn.TurnID, "timed_out", "the turn's time limit has passed"}
	}
	return p.nextInTurn(t, turn)
}

// deadline is when a turn that runs has used its time; zero if it has no limit.
func deadline(turn *state.Turn) time.Time {
	if turn.Options == nil || turn.Options.TimeoutMs <= 0 || turn.StartedAt.IsZero() {
		return time.Time{}
	}
	return turn.StartedAt.Add(time.Duration(turn.Options.TimeoutMs) * time.Millisecond)
}

// expired returns an action of the thread that wasn't answered in time.
func expired(s *state.Session, threadID string, now time.Time) string {
	for _, a := range s.Actions.Pending {
		if a.ThreadID != threadID {
			continue
		}
		if at := endsAt(s, a); !at.IsZero() && !now.Before(at) {
			return a.ActionID
		}
	}
	return ""
}

// endsAt is when a pending action ends unanswered: when it expires, or when the
// peer that alone could act is gone; zero if it waits for ever.
func endsAt(s *state.Session, a *state.Action) time.Time {
	at := a.ExpiresAt
	if a.ChannelID == "" {
		return at
	}
	gone := a.CreatedAt // of a channel that nothing is known of any more
	if c := s.Channels.Find(a.ChannelID); c != nil {
		gone = c.GoneAt()
	}
	if !gone.IsZero() && (at.IsZero() || gone.Before(at)) {
		return gone
	}
	return at
}

// wakeAt is when a thread that has nothing to do must be looked at again; zero
// if only a fact can change that.
func wakeAt(s *state.Session, threadID string) time.Time {
	t := s.Thread(threadID)
	if t == nil {
		return time.Time{}
	}
	var at time.Time
	if t.Active != nil {
		at = deadline(t.Active)
	}
	for _, a := range s.Actions.Pending {
		if ends := endsAt(s, a); a.ThreadID == threadID && !ends.IsZero() && (at.IsZero() || ends.Before(at)) {
			at = ends
		}
	}
	return at
}

// requestedCompaction is the compaction that was requested, once the thread
// is between two steps; nil if there is none.
func requestedCompaction(t *state.Thread) Effect {
	if t.Context == nil || t.Context.Running == nil || t.Context.Running.Trigger != "requested" {
		return nil
	}
	r := t.Context.Running
	if t.Active != nil && (t.Active.Call != nil && t.Active.Call.Status == state.CallRunning || atWork(t.Active)) {
		return nil
	}
	return Compact{TurnID: r.TurnID, CompactionID: r.CompactionID, Trigger: r.Trigger, Attempt: max(r.Attempt, 1)}
}

// atWork reports whether a tool call of the turn runs or is about to. One that
// waits for a person does neither, and may wait for long.
func atWork(turn *state.Turn) bool {
	return slices.ContainsFunc(turn.Tools, func(c *state.ToolCall) bool {
		ended := c.Status == state.ToolDone || c.Status == state.ToolFailed
		return !ended && !slices.Contains(turn.Waiting, c.ActionID)
	})
}

// nextInTurn decides within a turn that runs.
func (p *Policy) nextInTurn(t *state.Thread, turn *state.Turn) Effect {
	if turn.HookBlocked != "" {
		return FailTurn{turn.TurnID, "hook_blocked", turn.HookBlocked}
	}
	if turn.QuotaBlocked != "" {
		return FailTurn{turn.TurnID, "quota_blocked", turn.QuotaBlocked}
	}
	if !prepared(t, turn) {
		return Prepare{turn.TurnID}
	}
	if t.Routing.Decision == nil {
		return FailTurn{turn.TurnID, "routing_not_possible", t.Routing.NotPossible}
	}
	c := turn.Call
	if c == nil {
		return p.callModel(t, turn, 1, 1)
	}
	switch c.Status {
	case state.CallRunning:
		return Nothing{} // it is running, or recovery will find that it isn't
	case state.CallFailed:
		if len(turn.Waiting) > 0 {
			return Nothing{} // until a person says that it can go on
		}
		return p.afterFailure(t, turn)
	}
	if p.PostSampling && !c.Told {
		return TellHooks{turn.TurnID, c.ModelRequestID}
	}
	if e := p.nextTool(t, turn); e != nil {
		return e
	}
	if c.StopReason == "tool_use" || len(turn.Tools) > 0 || turn.Steered > turn.SteeredSeen {
		return p.callModel(t, turn, c.Step+1, 1)
	}
	if turn.Options != nil && len(turn.Options.OutputSchema) > 0 && c.StopReason != "refusal" {
		return CheckOutput{turn.TurnID, c.Purpose == "repair"}
	}
	return CompleteTurn{turn.TurnID, c.StopReason}
}

// prepared reports whether the turn's model was chosen, or found impossible.
func prepared(t *state.Thread, turn *state.Turn) bool {
	r := t.Routing
	if r == nil {
		return false
	}
	if r.Decision != nil {
		return r.Decision.TurnID == turn.TurnID
	}
	return r.NotPossible != "" && r.Candidates != nil && r.Candidates.TurnID == turn.TurnID
}

// nextTool decides about the tool calls of the last answer; nil when all ended.
// They are taken in order; neighbours that only read run side by side.
func (p *Policy) nextTool(t *state.Thread, turn *state.Turn) Effect {
	tools := turn.Tools
	from := slices.IndexFunc(tools, func(c *state.ToolCall) bool { return !p.ended(c) })
	if from < 0 {
		return nil
	}
	to := from + 1
	if t.Inventory.SideBySide(tools[from].ToolName) {
		for to < len(tools) && t.Inventory.SideBySide(tools[to].ToolName) {
			to++
		}
	}
	for _, c := range tools[from:to] {
		switch {
		case p.ended(c):
		case c.Status == state.ToolRunning && answerEndsCall(c) && !slices.Contains(turn.Waiting, c.ActionID):
			return FinishTool{turn.TurnID, c.ToolCallID, c.ActionID}
		case c.Status == state.ToolRunning: // it is running, or waits for an answer
		case c.Decision != "ask":
			return RunTools{turn.TurnID, from, to}
		}
	}
	return Nothing{}
}

// ended reports whether nothing is left to do for a call.
func (p *Policy) ended(c *state.ToolCall) bool {
	return c.Status == state.ToolDone || (c.Status == state.ToolFailed && !p.startsAgain(c))
}

// startsAgain reports whether a call of an older version goes on after its failure:
// there a call that only reads and was lost had an end for each attempt.
func (p *Policy) startsAgain(c *state.ToolCall) bool {
	return !c.Asked && c.IsReadOnly && c.ErrorCategory == "lost" && p.runsAgain(c)
}

// runsAgain reports whether a call whose outcome was lost is run again.
func (p *Policy) runsAgain(c *state.ToolCall) bool {
	return c.CanRepeat() && c.Attempts < p.MaxToolTries
}

// callModel decides on a call within the turn's limits.
func (p *Policy) callModel(t *state.Thread, turn *state.Turn, step, attempt int64) Effect {
	switch {
	case step > p.maxSteps(turn):
		return FailTurn{turn.TurnID, "step_limit", "the turn has used its model calls"}
	case turn.Repeats >= p.MaxRepeats:
		return FailTurn{turn.TurnID, "step_limit", "the model repeats the same calls and gets the same results"}
	case attempt == 1 && p.full(t) && p.mayCompact(t, turn):
		return Compact{TurnID: turn.TurnID, Trigger: "context_fraction", Attempt: compactionAttempt(t)}
	}
	repair := attempt > 1 && turn.Call != nil && turn.Call.Purpose == "repair"
	return CallModel{TurnID: turn.TurnID, Step: step, Attempt: attempt, Repair: repair}
}

// maxSteps is how many model calls the turn may make.
func (p *Policy) maxSteps(turn *state.Turn) int64 {
	if turn.Options != nil && turn.Options.MaxSteps > 0 {
		return turn.Options.MaxSteps
	}
	return p.MaxSteps
}

// full reports whether the thread has used the part of the context window at
// which it is compacted.
func (p *Policy) full(t *state.Thread) bool {
	if p.CompactAt <= 0 || t.Context == nil || t.Context.Resolved == nil || t.Context.Resolved.ContextWindow == 0 {
		return false
	}
	return float64(t.ContextTokens) >= p.CompactAt*float64(t.Context.Resolved.ContextWindow)
}

// mayCompact bounds compactions: none while the last ones failed too often, unless
// there is more to gain by now, and none again before the model answered.
func (p *Policy) mayCompact(t *state.Thread, turn *state.Turn) bool {
	if t.Context != nil && t.Context.Failures >= p.MaxCompactions && !p.worthAnother(t, turn) {
		return false
	}
	return !compactedSince(t, turn)
}

// worthAnother reports whether a thread whose compactions failed too often has
// changed so much since the last one that one more is made. That one's failure is
// measured from in turn, so nothing is tried twice in the same situation.
func (p *Policy) worthAnother(t *state.Thread, turn *state.Turn) bool {
	last := t.Context.LastFailure
	if last == nil || t.Context.Resolved == nil {
		return false
	}
	if c := turn.Call; c != nil && c.Status == state.CallFailed && c.ErrorCategory == "context_overflow" {
		return last.TurnID != turn.TurnID
	}
	grown := float64(t.Size() - last.Tokens)
	return p.CompactAgain > 0 && grown > 0 && grown >= p.CompactAgain*float64(t.Context.Resolved.ContextWindow)
}

// compactedSince reports whether the thread was compacted after the turn's last
// model call ended.
func compactedSince(t *state.Thread, turn *state.Turn) bool {
	if t.Context == nil || t.Context.Boundary == nil {
		return false
	}
	var since uint64
	if turn.Call != nil {
		since = turn.Call.EndSequence
	} else {
		since = turn.SubmittedSequence
	}
	return t.Context.Boundary.Sequence > since
}

func compactionAttempt(t *state.Thread) int64 {
	if t.Context == nil {
		return 1
	}
	return t.Context.Failures + 1
}
