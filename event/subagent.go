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
	ParentThreadID   string     `json:"parentThreadId" check:"nonempty"`
	ParentTurnID     string     `json:"parentTurnId,omitempty"`
	ParentSubagentID string     `json:"parentSubagentId,omitempty"`
	ChildThreadID    string     `json:"childThreadId" check:"nonempty"`
	Role             string     `json:"role,omitempty"`
	Nickname         string     `json:"nickname,omitempty"`
	Isolation        *Isolation `json:"isolation,omitempty"`
	Model            string     `json:"model,omitempty"`
	Depth            int64      `json:"depth"`
	InputRef         string     `json:"inputRef,omitempty"`
	Input            Raw        `json:"input,omitempty"`
	SpawnedBy        *Actor     `json:"spawnedBy,omitempty"`
	Metadata         Raw        `json:"metadata,omitempty"`
	// Peer is the agent that the child is, if it is another one: a configured one's
	// id, or the address of a card. PeerTaskID is the local task that it works on.
	Peer       string `json:"peer,omitempty"`
	PeerTaskID string `json:"peerTaskId,omitempty"`
}

// SubagentStatus says what a child does now.
type SubagentStatus struct {
	Status string `json:"status" enum:"spawned running waiting blocked idle resumed interrupted stale unknown"`
	Reason string `json:"reason,omitempty"`
}

// SubagentMessage is input to a child or output of it.
type SubagentMessage struct {
	Text       string `json:"text,omitempty"`
	Input      Raw    `json:"input,omitempty"`
	MessageRef string `json:"messageRef,omitempty"`
	From       *Actor `json:"from,omitempty"`
	TurnID     string `json:"turnId,omitempty"`
}

// SubagentEnded ends a child: completed, failed or closed.
type SubagentEnded struct {
	Status     string   `json:"status" enum:"completed failed closed"`
	Reason     string   `json:"reason,omitempty"`
	Error      *Failure `json:"error,omitempty"`
	MessageRef string   `json:"messageRef,omitempty"`
	Preview    string   `json:"preview,omitempty"`
	Usage      *Usage   `json:"usage,omitempty"`
	CostUSD    float64  `json:"costUSD,omitempty"`
}
