package state

import (
	"time"

	"agentd/event"
)

// Statuses of a hook's run.
const (
	HookRunning   = "running"
	HookCompleted = "completed"
	HookFailed    = "failed"
)

// HookRun is one run of a hook.
type HookRun struct {
	// HookRunID is the run's id.
	HookRunID string `json:"hookRunId"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Point at which the hook ran.
	Point string `json:"point"`
	// HandlerRef names the hook.
	HandlerRef string `json:"handlerRef"`
	// Status of the run.
	Status string `json:"status"`
	// Decision of the hook.
	Decision string `json:"decision,omitempty"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ErrorCategory classifies the failure.
	ErrorCategory string `json:"errorCategory,omitempty"`
	// FailureBehavior says what a failure means: open lets the work go on, closed blocks it.
	FailureBehavior string `json:"failureBehavior,omitempty"`
	// Sandbox is the mode of its boundary.
	Sandbox string `json:"sandbox,omitempty"` // the mode of its boundary
	// TimeoutMs is how long it may take.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// UpdatedInputRef is where the arguments are as the hook changed them.
	UpdatedInputRef string `json:"updatedInputRef,omitempty"`
	// UpdatedOutput is where the output is as the hook changed it.
	UpdatedOutput string `json:"updatedToolOutputRef,omitempty"`
	// ContextRefs are what the hook adds to the context.
	ContextRefs []string `json:"additionalContextRefs,omitempty"`
	// AuditRefs are what the hook wants to be kept.
	AuditRefs []string `json:"auditRefs,omitempty"`
	// StartedAt is when it began; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// EndedAt is when it ended; absent until then.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Sequence is where the run's newest fact is found.
	Sequence uint64 `json:"sequence"`
}

func (f *fold) hookStarted(p *event.HookStarted) {
	h := f.takeHook(p.HookRunID, p.Point, p.HandlerRef)
	h.Status, h.TimeoutMs, h.StartedAt = HookRunning, p.TimeoutMs, f.e.Time
	f.s.Permission.Hooks = append(f.s.Permission.Hooks, h)
}

// hookConfined notes the boundary of a hook that is under way.
func (f *fold) hookConfined(p *event.SandboxApplied) {
	for _, h := range f.s.Permission.Hooks {
		if h.HookRunID == p.HookRunID {
			h.Sandbox, h.Sequence = p.Mode, f.e.Sequence
		}
	}
}

func (f *fold) hookCompleted(p *event.HookCompleted) {
	h := f.takeHook(p.HookRunID, p.Point, p.HandlerRef)
	h.Status, h.Decision, h.Reason, h.DurationMs = HookCompleted, p.Decision, preview(p.Reason), p.DurationMs
	h.UpdatedInputRef, h.UpdatedOutput = p.UpdatedInputRef, p.UpdatedToolOutputRef
	h.ContextRefs, h.AuditRefs = firstN(p.AdditionalContext, keepItems), firstN(p.AuditRefs, keepItems)
	f.endHook(h)
	f.hooksTold(p.Point, p.Last)
	f.hookDecides(p.Point, p.Decision, p.HandlerRef, p.Reason)
}

func (f *fold) hookFailed(p *event.HookFailed) {
	h := f.takeHook(p.HookRunID, p.Point, p.HandlerRef)
	h.Status, h.ErrorCategory, h.Reason, h.DurationMs = HookFailed, p.ErrorCategory, preview(p.Message), p.DurationMs
	h.FailureBehavior = p.FailureBehavior
	f.endHook(h)
	f.hooksTold(p.Point, p.Last && p.ErrorCategory != "lost")
	f.incident("hook_"+p.ErrorCategory, p.HandlerRef+": "+p.Message, false)
	if p.FailureBehavior == "closed" && p.ErrorCategory != "lost" && p.Point != "stop" {
		f.hookDecides(p.Point, "block", p.HandlerRef, p.Message)
	}
}

// takeHook takes a hook out of those under way, or makes it known.
func (f *fold) takeHook(id, point, handler string) *HookRun {
	perm := &f.s.Permission
	h := &HookRun{HookRunID: id}
	if i := indexWhere(perm.Hooks, func(x *HookRun) bool { return x.HookRunID == id }); i >= 0 {
		h = perm.Hooks[i]
		perm.Hooks = removed(perm.Hooks, i)
	}
	h.ThreadID, h.TurnID, h.ToolCallID = f.e.ThreadID, f.e.TurnID, f.e.ToolCallID
	h.Point, h.HandlerRef, h.Sequence = point, handler, f.e.Sequence
	return h
}

func (f *fold) endHook(h *HookRun) {
	perm := &f.s.Permission
	h.EndedAt = f.e.Time
	perm.HookCounts = addCount(perm.HookCounts, h.Status, 1)
	perm.HookRuns = recent(perm.HookRuns, h, keepRecent)
}

// hooksTold notes that the last hook which is told of an answer was.
func (f *fold) hooksTold(point string, last bool) {
	turn := f.turn()
	if turn == nil || !last || point != "post_sampling" || turn.Call == nil || turn.Call.Status != CallCompleted {
		return
	}
	call := *turn.Call
	call.Told = true
	turn.Call = &call
}

// hookDecides notes what a hook's word means for its turn: before a turn and after
// an answer it may end the turn, at the end it may keep the turn going.
func (f *fold) hookDecides(point, decision, handler, reason string) {
	turn := f.turn()
	if turn == nil || (decision != "block" && decision != "deny") {
		return
	}
	switch point {
	case "user_prompt_submit", "post_sampling", "session_start":
		turn.HookBlocked = preview("the hook " + handler + " blocked the turn: " + reason)
	case "stop":
		turn.Stops++
		turn.Steered++
	}
}
