package command

import (
	"time"

	"agentd/event"
)

// RespondAction answers an action.
type RespondAction struct {
	Mutation
	// ActionID is the action that waits.
	ActionID string `json:"actionId" check:"id"`
	// Decision is one of those that the action offers.
	Decision string `json:"decision" enum:"@actionAnswer"`
	// Payload is the answer's content: structured input, the permissionMode that an
	// approved plan is carried out in, or the reference of a credential.
	Payload event.Raw `json:"payload,omitempty"`
	// Scope of an allow: once (default), session, or project, which keeps the rules that
	// the action offers (keepRules).
	Scope string `json:"scope,omitempty" enum:"@approvalScope"`
	// ExpiresInMs is how long an allow for the session holds; as long as the session if
	// absent.
	ExpiresInMs int64 `json:"expiresInMs,omitempty" max:"31622400000"`
	// Reason for people.
	Reason string `json:"reason,omitempty" max:"10000"`
	// ChannelID is the channel that the answer comes through, if it does.
	ChannelID string `json:"channelId,omitempty" check:"id"`
	// Peer says that a peer answers for its task.
	Peer *PeerStep `json:"peer,omitempty"`
}

// Command implements [Params].
func (*RespondAction) Command() Name                { return "respond_action" }
func (*RespondAction) returns(*RespondActionResult) {}

// Validate implements [Params].
func (p *RespondAction) Validate() error { return check(p) }

// RespondActionResult is the action's standing after the answer.
type RespondActionResult struct {
	// ActionID is the action's id.
	ActionID string `json:"actionId"`
	// Status of the action.
	Status string `json:"status" enum:"@actionStatus"`
	// KeptRules are the rules that an answer for the project kept.
	KeptRules []ProjectRule `json:"keptRules,omitempty"`
}

// ListActions lists actions.
type ListActions struct {
	Page
	// SessionID keeps the actions of one session.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Status keeps the actions with that status; all if absent.
	Status string `json:"status,omitempty" enum:"@actionStatus"`
	// Type keeps the actions that ask for this kind of answer, such as tool_permission.
	Type string `json:"type,omitempty" enum:"@actionType"`
	// Tool keeps the actions about calls of this tool.
	Tool string `json:"tool,omitempty" max:"256"`
	Narrowing
	// Sort is what the actions are ordered by; default id.
	Sort string `json:"sort,omitempty" enum:"id created updated"`
}

// Command implements [Params].
func (*ListActions) Command() Name              { return "list_actions" }
func (*ListActions) returns(*ListActionsResult) {}

// Validate implements [Params].
func (p *ListActions) Validate() error { return checkNarrowing(p, &p.Narrowing) }

// ListActionsResult is a page of actions, each the action's record.
type ListActionsResult struct {
	// Actions of this page.
	Actions []event.Raw `json:"actions" as:"action"`
	// Total counts the actions that the filters keep, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// ActionRecord is the record of an action. This is the part that callers in Go rely on.
type ActionRecord struct {
	// ActionID is the action's id.
	ActionID string `json:"actionId"`
	// SessionID of the action.
	SessionID string `json:"sessionId"`
	// ThreadID of the action.
	ThreadID string `json:"threadId"`
	// TurnID that waits for the action.
	TurnID string `json:"turnId"`
	// ToolCallID that the action is about, if it is about one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// SubagentID is the child that asks, if one does.
	SubagentID string `json:"subagentId,omitempty"`
	// SubagentRole is the role of the child that asks.
	SubagentRole string `json:"subagentRole,omitempty"`
	// ParentThreadID is the thread that the child works for.
	ParentThreadID string `json:"parentThreadId,omitempty"`
	// ParentTurnID is the turn that the child works for.
	ParentTurnID string `json:"parentTurnId,omitempty"`
	// Status of the action.
	Status string `json:"status" enum:"@actionStatus"`
	// ActionType says what kind of answer is asked for.
	ActionType string `json:"actionType"`
	// Prompt for people.
	Prompt string `json:"prompt,omitempty"`
	// Schema of the payload that an answer must have.
	Schema event.Raw `json:"schema,omitempty"`
	// Decisions that the action offers.
	Decisions []string `json:"decisions,omitempty"`
	// ToolName of the tool that asks.
	ToolName string `json:"toolName,omitempty"`
	// SafeArgs are the tool's arguments, without secrets.
	SafeArgs event.Raw `json:"safeArgs,omitempty"`
	// Reason says why the action is needed.
	Reason string `json:"reason,omitempty"`
	// KeepRules are what an answer with scope project would keep; without them that scope
	// isn't offered.
	KeepRules []event.PolicyRule `json:"keepRules,omitempty"`
	// KeepFor is the project that they would be kept for, a folder.
	KeepFor string `json:"keepFor,omitempty"`
	// CredentialRef names what a credential is asked for.
	CredentialRef string `json:"credentialRef,omitempty"`
	// ExpiresAt is when the action answers itself.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// ChannelID is the channel whose peer is to act, if only that one can.
	ChannelID string `json:"channelId,omitempty"`
	// CreatedAt is when the action was asked for.
	CreatedAt time.Time `json:"createdAt"`
	// Decision that was taken.
	Decision string `json:"decision,omitempty"`
}
