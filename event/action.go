package event

import "time"

// ActionRequired pauses work for a decision or an input.
type ActionRequired struct {
	ActionType string   `json:"actionType" enum:"tool_permission structured_input plan_approval credential sandbox_escape client_tool resume host_policy"`
	Prompt     string   `json:"prompt,omitempty"`
	Schema     Raw      `json:"schema,omitempty"`
	Decisions  []string `json:"decisions"`
	Scope      Raw      `json:"scope,omitempty"`
	ToolName   string   `json:"toolName,omitempty"`
	SafeArgs   Raw      `json:"safeArgs,omitempty"`
	InputRef   string   `json:"inputRef,omitempty"`
	// Reason says why the action is needed.
	Reason    string    `json:"reason,omitempty"`
	RuleRefs  []string  `json:"ruleRefs,omitempty"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// OnTimeout is the decision that applies when no answer arrives in time.
	OnTimeout   string `json:"onTimeout,omitempty" enum:"deny cancel"`
	Destructive bool   `json:"destructive,omitempty"`
	// OnceOnly says that an approval can't be for the session: what would run can
	// change between two calls.
	OnceOnly bool `json:"onceOnly,omitempty"`
	// KeepRules are what the scope project would keep: the rules by which calls like this
	// one run from then on. Without them the scope isn't offered. KeepFor is the project,
	// the folder that they hold in.
	KeepRules []PolicyRule `json:"keepRules,omitempty"`
	KeepFor   string       `json:"keepFor,omitempty"`
	// CredentialRef names what is asked for; the credential itself never appears.
	CredentialRef string `json:"credentialRef,omitempty"`
}

// ActionResolved is the answer to an action.
type ActionResolved struct {
	Decision       string `json:"decision" enum:"@actionAnswer"`
	Status         string `json:"status" enum:"resolved expired cancelled"`
	DecisionSource string `json:"decisionSource" enum:"human host_policy timeout runtime peer"`
	ActionType     string `json:"actionType,omitempty"`
	Payload        Raw    `json:"payload,omitempty"`
	PayloadRef     string `json:"payloadRef,omitempty"`
	Scope          string `json:"scope,omitempty" enum:"@approvalScope"`
	Reason         string `json:"reason,omitempty"`
	ResolvedBy     *Actor `json:"resolvedBy,omitempty"`
}
