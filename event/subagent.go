package event

// Isolation bounds a subagent.
type Isolation struct {
	// Tools that the subagent may use; its parent's if absent.
	Tools []string `json:"tools,omitempty"`
	// PermissionMode of the subagent; its parent's if absent.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// Cwd is the folder that the subagent works in.
	Cwd string `json:"cwd,omitempty" secret:"refuse"`
	// BudgetUSD is the subagent's share of its parent's budget.
	BudgetUSD float64 `json:"budgetUSD,omitempty"`
}

// SubagentSpawned creates a child with a thread of its own.
type SubagentSpawned struct {
	// ParentThreadID is the thread that wanted the child.
	ParentThreadID string `json:"parentThreadId" check:"nonempty"`
	// ParentTurnID is the turn that wanted the child.
	ParentTurnID string `json:"parentTurnId,omitempty"`
	// ParentSubagentID is the subagent that wanted the child, if one did.
	ParentSubagentID string `json:"parentSubagentId,omitempty"`
	// ChildThreadID is the thread of the child.
	ChildThreadID string `json:"childThreadId" check:"nonempty"`
	// Role says what the child is for.
	Role string `json:"role,omitempty"`
	// Nickname is the name of the child, for people.
	Nickname string `json:"nickname,omitempty"`
	// Isolation is what bounds the child.
	Isolation *Isolation `json:"isolation,omitempty"`
	// Model is the model that the child uses, if it has one of its own.
	Model string `json:"model,omitempty"`
	// Depth is how deep the child is nested: 1 for one of a main thread.
	Depth int64 `json:"depth"`
	// InputRef is where a large input is.
	InputRef string `json:"inputRef,omitempty"`
	// Input is what the child is told first.
	Input Raw `json:"input,omitempty"`
	// SpawnedBy is who wanted the child.
	SpawnedBy *Actor `json:"spawnedBy,omitempty"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
	// Peer is the agent that the child is, if it is another one: a configured one's
	// id, or the address of a card. PeerTaskID is the local task that it works on.
	Peer string `json:"peer,omitempty"`
	// PeerTaskID is the local task that the peer works on.
	PeerTaskID string `json:"peerTaskId,omitempty"`
}

// SubagentStatus says what a child does now.
type SubagentStatus struct {
	// Status is what the child does.
	Status string `json:"status" enum:"spawned running waiting blocked idle resumed interrupted stale unknown"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
}

// SubagentMessage is input to a child or output of it.
type SubagentMessage struct {
	// Text is the message, or its beginning.
	Text string `json:"text,omitempty"`
	// Input is the message as a list of parts.
	Input Raw `json:"input,omitempty"`
	// MessageRef is where a large message is.
	MessageRef string `json:"messageRef,omitempty"`
	// From is who said it.
	From *Actor `json:"from,omitempty"`
	// TurnID is the turn of the child that it belongs to.
	TurnID string `json:"turnId,omitempty"`
}

// SubagentEnded ends a child: completed, failed or closed.
type SubagentEnded struct {
	// Status says how the child ended.
	Status string `json:"status" enum:"completed failed closed"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Error says what went wrong.
	Error *Failure `json:"error,omitempty"`
	// MessageRef is where the child's last message is.
	MessageRef string `json:"messageRef,omitempty"`
	// Preview is the beginning of the child's last message.
	Preview string `json:"preview,omitempty"`
	// Usage counts the tokens of the child.
	Usage *Usage `json:"usage,omitempty"`
	// CostUSD is what the child cost in US dollars, as far as prices are known.
	CostUSD float64 `json:"costUSD,omitempty"`
}
