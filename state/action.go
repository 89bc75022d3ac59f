package state

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"agentd/event"
)

// Actions are the decisions and inputs that work waits or waited for.
type Actions struct {
	// Pending actions, oldest first. They leave only by a fact that resolves them.
	Pending []*Action `json:"pending,omitempty"`
	// Recent holds the last resolved ones, oldest first.
	Recent []*Action `json:"recent,omitempty"`
}

// Statuses of an action.
const (
	ActionPending  = "pending"
	ActionResolved = "resolved"
	ActionExpired  = "expired"
)

// ActionClientTool is the type of the action that a call of a client's tool is.
const ActionClientTool = "client_tool"

// Action is one request for a decision or an input.
type Action struct {
	ActionID  string `json:"actionId"`
	SessionID string `json:"sessionId"`
	ThreadID  string `json:"threadId"`
	TurnID    string `json:"turnId"`
	// TaskID is the task that waits.
	TaskID string `json:"taskId,omitempty"`
	// StepID is that of the call which asks, or of the action itself.
	StepID     string `json:"stepId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	SubagentID string `json:"subagentId,omitempty"`
	// SubagentRole is the role of the child that asks.
	SubagentRole   string    `json:"subagentRole,omitempty"`
	ParentThreadID string    `json:"parentThreadId,omitempty"`
	ParentTurnID   string    `json:"parentTurnId,omitempty"`
	Status         string    `json:"status"`
	ActionType     string    `json:"actionType"`
	Prompt         string    `json:"prompt,omitempty"`
	Schema         event.Raw `json:"schema,omitempty"`
	Decisions      []string  `json:"decisions,omitempty"`
	// Scope is what an approval would be for: paths, hosts, parts of a command.
	Scope    event.Raw `json:"scope,omitempty"`
	ToolName string    `json:"toolName,omitempty"`
	SafeArgs event.Raw `json:"safeArgs,omitempty"`
	// InputRef is where large arguments are.
	InputRef string `json:"inputRef,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// RuleRefs are the rules that ask.
	RuleRefs []string `json:"ruleRefs,omitempty"`
	// Destructive says that something may be lost that nothing brings back.
	Destructive bool `json:"destructive,omitempty"`
	// OnceOnly says that an approval can't be for the session.
	OnceOnly bool `json:"onceOnly,omitempty"`
	// KeepRules are what an answer for the project would keep, KeepFor is that project.
	KeepRules []event.PolicyRule `json:"keepRules,omitempty"`
	KeepFor   string             `json:"keepFor,omitempty"`
	// CredentialRef names what a credential is asked for.
	CredentialRef string    `json:"credentialRef,omitempty"`
	ExpiresAt     time.Time `json:"expiresAt,omitzero"`
	// OnTimeout is the decision that is taken if no one answers in time.
	OnTimeout string `json:"onTimeout,omitempty"`
	// ChannelID is the channel whose peer is to act, if only that one can.
	ChannelID string    `json:"channelId,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// RequiredSequence is where the request is found.
	RequiredSequence uint64 `json:"requiredSequence"`
	// ResolvedSequence is where the answer is found.
	ResolvedSequence uint64 `json:"resolvedSequence,omitempty"`

	Decision string `json:"decision,omitempty"`
	// DecisionSource says who or what decided.
	DecisionSource string `json:"decisionSource,omitempty"`
	// DecisionReason says why it was decided so.
	DecisionReason string `json:"decisionReason,omitempty"`
	// GrantScope says how long an approval holds: once, or for the session.
	GrantScope string `json:"grantScope,omitempty"`
	// Payload of the answer.
	Payload event.Raw `json:"payload,omitempty"`
	// PayloadRef is where a large payload is.
	PayloadRef string `json:"payloadRef,omitempty"`
	// ResolvedBy answered it.
	ResolvedBy *event.Actor `json:"resolvedBy,omitempty"`
	// ResolvedAt is when it was answered.
	ResolvedAt time.Time `json:"resolvedAt,omitzero"`
	// AnsweredThrough is the channel that the answer came through.
	AnsweredThrough string `json:"answeredThrough,omitempty"`
}

// Find returns a pending or recently resolved action, or nil.
func (a *Actions) Find(id string) *Action {
	for _, list := range [...][]*Action{a.Pending, a.Recent} {
		for _, x := range list {
			if x.ActionID == id {
				return x
			}
		}
	}
	return nil
}

// RunOf returns the run of the turn that an action belongs to, empty if it belongs
// to none that is unfinished.
func (s *Session) RunOf(a *Action) string {
	if t := s.Thread(a.ThreadID); t != nil {
		if turn := t.Turn(a.TurnID); turn != nil && turn.TaskID == a.TaskID {
			return turn.RunID
		}
	}
	return ""
}

func (f *fold) actionRequired(p *event.ActionRequired) {
	a := &Action{
		ActionID: f.e.ActionID, SessionID: f.e.SessionID, ThreadID: f.e.ThreadID, TurnID: f.e.TurnID,
		TaskID: f.e.TaskID, StepID: f.e.StepID, ToolCallID: f.e.ToolCallID, SubagentID: f.e.SubagentID,
		Status: ActionPending, ActionType: p.ActionType, Prompt: p.Prompt, Schema: p.Schema, Decisions: p.Decisions,
		Scope: p.Scope, ToolName: p.ToolName, SafeArgs: p.SafeArgs, InputRef: p.InputRef, Reason: p.Reason, RuleRefs: p.RuleRefs,
		Destructive: p.Destructive, OnceOnly: p.OnceOnly, KeepRules: p.KeepRules, KeepFor: p.KeepFor, CredentialRef: p.CredentialRef, ExpiresAt: journalTime(p.ExpiresAt), OnTimeout: p.OnTimeout,
		ChannelID: f.e.ChannelID, CreatedAt: f.e.Time, RequiredSequence: f.e.Sequence,
	}
	if child := f.s.Subagents.Find(f.e.SubagentID); child != nil {
		a.SubagentRole, a.ParentThreadID, a.ParentTurnID = child.Role, child.ParentThreadID, child.ParentTurnID
	}
	f.s.Actions.Pending = append(f.s.Actions.Pending, a)
	if turn := f.turn(); turn != nil {
		turn.Waiting = append(turn.Waiting, a.ActionID)
		turn.Phase = waitingPhase(p.ActionType)
		for _, c := range turn.Tools {
			if c.ToolCallID != f.e.ToolCallID {
				continue
			}
			c.ActionID = a.ActionID
			if a.asksForCall() {
				c.Status, c.Decision = ToolRequested, "ask" // it runs again with the answer
			}
		}
		f.turnTaskWaits(turn)
	}
}

// turnTaskWaits gives the task of a turn the status that its turn has. The task's
// own fact follows in the same write; in the facts of older versions there is none.
func (f *fold) turnTaskWaits(turn *Turn) {
	t := f.s.TurnTask(turn)
	if t == nil {
		return
	}
	asked, block := "", ""
	if len(turn.Waiting) > 0 {
		asked = "tool_permission"
		if a := f.s.Actions.Find(turn.Waiting[0]); a != nil {
			asked = a.ActionType
		}
	}
	if thread := f.s.Thread(turn.ThreadID); thread != nil && thread.Block != nil {
		block = cmp.Or(thread.Block.Reason, ThreadBlocked)
	}
	status, reason := TurnTaskStatus(asked, block)
	t.StatusReason, t.Blockers = reason, firstN(turn.Waiting, keepRefs)
	t.UpdatedAt, t.StatusSequence = f.e.Time, f.e.Sequence
	f.setTaskStatus(t, status)
}

// TurnTask returns the implicit task of a turn while its status is the turn's to
// say; nil for a task of its own and for one whose facts have the word, such as one
// that is being cancelled.
func (s *Session) TurnTask(turn *Turn) *Task {
	t := s.Tasks.Find(turn.TaskID)
	if t == nil || t.TaskKind != TaskKindTurn {
		return nil
	}
	switch t.Status {
	case TaskRunning, TaskWaitingInput, TaskWaitingPermission, TaskWaitingResource, TaskBlocked:
		return t
	}
	return nil
}

// TurnTaskStatus is the status of the task of a turn that waits for an action of
// that type, or whose thread is blocked for that reason; empty is neither.
func TurnTaskStatus(asked, block string) (status, reason string) {
	switch {
	case asked != "" && AsksPermission(asked):
		return TaskWaitingPermission, "waits for a permission"
	case asked != "":
		return waitingPhase(asked), "waits for an answer"
	case block != "":
		return TaskBlocked, block
	}
	return TaskRunning, ""
}

// AsksPermission reports whether an action of that type is a request for permission:
// its answer is one to allow or deny, and permission.resolved tells it.
func AsksPermission(actionType string) bool {
	return actionType == "tool_permission" || actionType == "sandbox_escape" || actionType == "plan_approval"
}

// asksForCall reports whether the action asks for the credential that a tool call
// was refused for.
func (a *Action) asksForCall() bool {
	return a.ActionType == "credential" && a.CredentialRef != "" && a.ToolName != ""
}

// waitingPhase is the phase of a turn that waits for an action of that type.
func waitingPhase(actionType string) string {
	switch actionType {
	case "structured_input":
		return "waiting_input"
	case "credential", "client_tool", ActionResume:
		return "waiting_resource"
	default:
		return "waiting_permission"
	}
}

func (f *fold) actionResolved(p *event.ActionResolved) {
	a := f.takePending(f.e.ActionID)
	if a == nil {
		return
	}
	a.Status = ActionResolved
	if p.Status == "expired" {
		a.Status = ActionExpired
	}
	a.Decision, a.DecisionSource, a.DecisionReason = p.Decision, p.DecisionSource, p.Reason
	a.GrantScope, a.Payload, a.PayloadRef = p.Scope, p.Payload, p.PayloadRef
	a.ResolvedBy, a.ResolvedAt, a.ResolvedSequence = p.ResolvedBy, f.e.Time, f.e.Sequence
	a.AnsweredThrough = f.e.ChannelID
	if len(f.s.Actions.Recent) == keepActions {
		f.evict("action/"+f.s.Actions.Recent[0].ActionID, f.s.Actions.Recent[0])
	}
	f.s.Actions.Recent = recent(f.s.Actions.Recent, a, keepActions)
	turn := f.turn()
	if a.asksForCall() {
		f.credentialAnswered(a, turn)
	}
	if turn == nil {
		return
	}
	f.resumeAnswered(a, turn)
	turn.Waiting = withoutValue(turn.Waiting, a.ActionID)
	if len(turn.Waiting) == 0 {
		turn.Phase = "running"
	}
	f.turnTaskWaits(turn)
}

// ActionResume is the type of an action that asks whether a failed model call can be made
// again.
const ActionResume = "resume"

// resumeAnswered lets a failed model call be made again at once, or lets it stand.
func (f *fold) resumeAnswered(a *Action, turn *Turn) {
	c := turn.Call
	if a.ActionType != ActionResume || c == nil || c.Status != CallFailed {
		return
	}
	if a.Decision == "allow" || a.Decision == "submit" {
		c.Retryable, c.Tries, c.RetryAfterMs = true, 0, nil
	} else {
		c.Declined = true
	}
}

// keepCredentials bounds the references that a session remembers; one that was
// dropped is asked for again.
const keepCredentials = 50

// Credential is the reference that was chosen when a credential was asked for.
type Credential struct {
	// Name says what it is for, Reference where it is read from; see
	// [event.ActionRequired.CredentialRef].
	Name      string    `json:"name"`
	Reference string    `json:"reference"`
	ActionID  string    `json:"actionId"`
	At        time.Time `json:"at"`
	Sequence  uint64    `json:"sequence"`
}

// credentialAnswered lets the call that asked run again, or not, and remembers the
// reference.
func (f *fold) credentialAnswered(a *Action, turn *Turn) {
	var ref string
	given := (a.Decision == "submit" || a.Decision == "allow") && json.Unmarshal(a.Payload, &ref) == nil && ref != ""
	if given {
		kept := slices.DeleteFunc(slices.Clone(f.s.Credentials), func(c Credential) bool { return c.Name == a.CredentialRef })
		f.s.Credentials = recent(kept, Credential{
			Name: a.CredentialRef, Reference: ref, ActionID: a.ActionID, At: f.e.Time, Sequence: f.e.Sequence,
		}, keepCredentials)
	}
	if turn == nil {
		return
	}
	for _, c := range turn.Tools {
		if c.ActionID == a.ActionID && c.Status == ToolRequested {
			if c.Decision = a.Decision; given {
				c.Decision = "allow"
			}
		}
	}
}

func (f *fold) takePending(id string) *Action {
	for i, a := range f.s.Actions.Pending {
		if a.ActionID == id {
			f.s.Actions.Pending = append(f.s.Actions.Pending[:i], f.s.Actions.Pending[i+1:]...)
			if len(f.s.Actions.Pending) == 0 {
				f.s.Actions.Pending = nil
			}
			return a
		}
	}
	return nil
}

// withoutValue returns list without the value; nil when nothing is left.
func withoutValue(list []string, v string) []string {
	var out []string
	for _, x := range list {
		if x != v {
			out = append(out, x)
		}
	}
	return out
}
