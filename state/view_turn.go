package state

import (
	"time"

	"agentd/event"
)

// TurnView is the wire form of a turn.
type TurnView struct {
	TurnID string `json:"turnId"`
	// ThreadID is the thread of the turn.
	ThreadID string `json:"threadId"`
	TaskID   string `json:"taskId,omitempty"`
	RunID    string `json:"runId,omitempty"`
	// Status is the turn's own, or blocked while it waits for an action.
	Status string `json:"status"`
	Phase  string `json:"phase"`
	// Source says who submitted the turn.
	Source string `json:"source"`
	// ChannelID is the channel that the input came through.
	ChannelID string `json:"channelId,omitempty"`
	// Preview is the beginning of the input.
	Preview string `json:"preview,omitempty"`

	// SubmittedBy submitted the turn.
	SubmittedBy *event.Actor `json:"submittedBy,omitempty"`
	// Options that the turn was submitted with.
	Options           *event.TurnOptions `json:"options,omitempty"`
	SubmittedSequence uint64             `json:"submittedSequence"`
	// SubmittedAt is when the turn was submitted.
	SubmittedAt time.Time `json:"submittedAt"`
	// StartedAt is when the turn began to run; absent until then.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// CompletedAt is when the turn ended; absent until then.
	CompletedAt time.Time `json:"completedAt,omitzero"`
	// Interrupt is set once the turn is to be stopped.
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	// Inherited says that the turn is of the session that this one was forked from:
	// its sequences, tool calls and tasks are found at Origin.
	Inherited bool        `json:"inherited,omitempty"`
	Origin    *TurnOrigin `json:"origin,omitempty"`
	// Steered counts the inputs that were added while it ran.
	Steered int64 `json:"steered,omitempty"`
	// Waiting are the pending actions of the turn.
	Waiting []string `json:"waiting,omitempty"`

	// StepCount counts the model calls, the one under way included.
	StepCount int64 `json:"stepCount"`
	// ToolCount counts the tool calls.
	ToolCount int64 `json:"toolCount"`
	// FailedTools counts the tool calls that failed.
	FailedTools int64 `json:"failedTools"`
	// Steps are those of the newest model call; older ones are in the journal.
	Steps []StepView `json:"steps,omitempty"`

	// Usage sums the tokens of its model calls.
	Usage event.Usage `json:"usage"`
	// CostState is what the turn cost.
	CostState TurnCost `json:"costState"`
	// Outcome of the turn; absent until it ended.
	Outcome string `json:"outcome,omitempty"`
	// FailureCategory classifies the failure.
	FailureCategory string `json:"failureCategory,omitempty"`
	// Error is why the turn failed.
	Error *event.Failure `json:"error,omitempty"`

	// TaskProfile is what the work needs.
	TaskProfile *event.TaskProfile `json:"taskProfile,omitempty"`
	// RoutingDecision is how its model was chosen.
	RoutingDecision *RoutingDecision `json:"routingDecision,omitempty"`
	// CandidateModelSet is what could be chosen.
	CandidateModelSet *CandidateSet `json:"candidateModelSet,omitempty"`
	// SandboxProfile is the boundary that was applied last.
	SandboxProfile *AppliedSandbox `json:"sandboxProfile,omitempty"`
	// HookRuns of the turn that are kept.
	HookRuns []HookRun `json:"hookRuns,omitempty"`
	// Processes of the turn that are kept.
	Processes []Process `json:"processes,omitempty"`
	// OutputRefs are the large outputs of the turn that are kept.
	OutputRefs []Output `json:"outputRefs,omitempty"`
}

// TurnCost is what a turn's requests cost as far as it is known: null if no price
// of any of them is.
type TurnCost struct {
	// CostUSD sums the requests whose price is known; null if none is.
	CostUSD *float64 `json:"costUSD"`
	// Unpriced counts the requests that no price is known for.
	Unpriced int64 `json:"unpriced,omitempty"`
}

func (t *Turn) cost() TurnCost {
	if t.Unpriced > 0 && t.CostUSD == 0 {
		return TurnCost{Unpriced: t.Unpriced}
	}
	usd := t.CostUSD
	return TurnCost{CostUSD: &usd, Unpriced: t.Unpriced}
}

// StepView is a model call or a tool call of a turn.
type StepView struct {
	// Kind says which of the two it is: model_call or tool_call.
	Kind string `json:"kind"`
	// ModelCall is the request to a model.
	ModelCall *ModelCall `json:"modelCall,omitempty"`
	// ToolCall is the call of a tool.
	ToolCall *ToolCall `json:"toolCall,omitempty"`
}

// QueuedTurn is a turn that waits.
type QueuedTurn struct {
	TurnID string `json:"turnId"`
	// TaskID is the task that the turn belongs to.
	TaskID string `json:"taskId,omitempty"`
	// RunID is the task's run that the turn belongs to.
	RunID string `json:"runId,omitempty"`
	// Status is queued.
	Status string `json:"status"`
	// Position from 1, first to run first.
	Position int `json:"position"`
	// ResumeState says what the turn waits for: "ready" for the first when nothing is in
	// its way, "behind_turn" or "blocked".
	ResumeState string `json:"resumeState"`
	Source      string `json:"source"`
	// Policy that put the turn into the queue.
	Policy string `json:"policy"`
	// Preview is the beginning of the input.
	Preview string `json:"preview,omitempty"`
	// SubmittedAt is when the turn was submitted.
	SubmittedAt time.Time `json:"submittedAt"`
}

func queuedTurns(t *Thread) []QueuedTurn {
	out := make([]QueuedTurn, 0, len(t.Queue))
	for i, q := range t.Queue {
		policy := "queue"
		if q.Options != nil && q.Options.QueuePolicy != "" {
			policy = q.Options.QueuePolicy
		}
		resume := resumeState(t)
		if resume == "ready" && i > 0 {
			resume = "behind_turn"
		}
		out = append(out, QueuedTurn{
			TurnID: q.TurnID, TaskID: q.TaskID, RunID: q.RunID, Status: TurnQueued, Position: i + 1, ResumeState: resume,
			Source: q.Source, Policy: policy, Preview: q.Preview, SubmittedAt: q.SubmittedAt,
		})
	}
	return out
}

// turns returns the inherited turns, the finished ones that are kept, the active one
// and those that wait, in that order.
func (s *Session) turns(t *Thread) []TurnView {
	out := make([]TurnView, 0, len(t.Inherited)+len(t.Recent)+len(t.Queue)+1)
	for i := range t.Inherited {
		out = append(out, inheritedView(&t.Inherited[i]))
	}
	for _, x := range t.Recent {
		out = append(out, s.turnView(t, x))
	}
	if t.Active != nil {
		out = append(out, s.turnView(t, t.Active))
	}
	for _, x := range t.Queue {
		out = append(out, s.turnView(t, x))
	}
	return out
}

func (s *Session) turnView(t *Thread, x *Turn) TurnView {
	v := TurnView{
		TurnID: x.TurnID, ThreadID: x.ThreadID, TaskID: x.TaskID, RunID: x.RunID, Status: x.Status, Phase: s.turnPhase(x),
		Source: x.Source, ChannelID: x.ChannelID, Preview: x.Preview, SubmittedBy: x.By, Options: x.Options,
		SubmittedSequence: x.SubmittedSequence, SubmittedAt: x.SubmittedAt, StartedAt: x.StartedAt, CompletedAt: x.EndedAt,
		Interrupt: x.Interrupt, Steered: x.Steered, Waiting: listCopy(x.Waiting),
		StepCount: x.Step, ToolCount: x.ToolCount, FailedTools: x.FailedTools, Steps: stepViews(x),
		Usage: x.Usage, CostState: x.cost(), Outcome: x.Outcome, FailureCategory: x.FailureCategory, Error: x.Error,
		HookRuns:   copied(func(h *HookRun) bool { return h.TurnID == x.TurnID }, s.Permission.Hooks, s.Permission.HookRuns),
		Processes:  copied(func(p *Process) bool { return p.TurnID == x.TurnID }, s.Environment.Active, s.Environment.Recent),
		OutputRefs: copied(func(o *Output) bool { return o.TurnID == x.TurnID }, s.Outputs.Recent),
	}
	if len(x.Waiting) > 0 {
		v.Status = ThreadBlocked
	}
	if r := t.Routing; r != nil {
		if r.Decision != nil && r.Decision.TurnID == x.TurnID {
			v.RoutingDecision, v.TaskProfile = r.Decision, r.Profile
		}
		if r.Candidates != nil && r.Candidates.TurnID == x.TurnID {
			v.CandidateModelSet = r.Candidates
		}
	}
	if t.Sandbox != nil && t.Sandbox.TurnID == x.TurnID {
		v.SandboxProfile = t.Sandbox
	}
	return v
}

// turnPhase is the turn's phase. Of a turn that waits it is what the oldest
// pending action asks for, whatever else the turn does in the meantime.
func (s *Session) turnPhase(x *Turn) string {
	for _, id := range x.Waiting {
		if a := s.Actions.Find(id); a != nil && a.Status == ActionPending {
			return waitingPhase(a.ActionType)
		}
	}
	return x.Phase
}

func stepViews(x *Turn) []StepView {
	var out []StepView
	if x.Call != nil {
		call := *x.Call
		out = append(out, StepView{Kind: "model_call", ModelCall: &call})
	}
	for _, c := range x.Tools {
		tool := *c
		out = append(out, StepView{Kind: "tool_call", ToolCall: &tool})
	}
	return out
}
