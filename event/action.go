package event

import "time"

// ActionRequired pauses work for a decision or an input.
type ActionRequired struct {
	// ActionType says what is asked for.
	ActionType string `json:"actionType" enum:"@actionType"`
	// Prompt is the question, for people.
	Prompt string `json:"prompt,omitempty"`
	// Schema is the JSON Schema that an input must satisfy.
	Schema Raw `json:"schema,omitempty"`
	// Decisions are the answers that are accepted.
	Decisions []string `json:"decisions"`
	// Scope is what the decision is about: paths, hosts, parts of a command.
	Scope Raw `json:"scope,omitempty"`
	// ToolName is the tool whose call waits.
	ToolName string `json:"toolName,omitempty"`
	// SafeArgs are the arguments, without secrets.
	SafeArgs Raw `json:"safeArgs,omitempty"`
	// InputRef is where large arguments are.
	InputRef string `json:"inputRef,omitempty"`
	// Reason says why the action is needed.
	Reason string `json:"reason,omitempty"`
	// RuleRefs are the rules because of which it is asked.
	RuleRefs []string `json:"ruleRefs,omitempty"`
	// ExpiresAt is when it is decided without an answer; absent if it waits for ever.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// OnTimeout is the decision that applies when no answer arrives in time.
	OnTimeout string `json:"onTimeout,omitempty" enum:"deny cancel"`
	// Destructive says that what is asked about may lose something for good.
	Destructive bool `json:"destructive,omitempty"`
	// OnceOnly says that an approval can't be for the session: what would run can
	// change between two calls.
	OnceOnly bool `json:"onceOnly,omitempty"`
	// KeepRules are what the scope project would keep: the rules by which calls like this
	// one run from then on. Without them the scope isn't offered. KeepFor is the project,
	// the folder that they hold in.
	KeepRules []PolicyRule `json:"keepRules,omitempty"`
	// KeepFor is the project, the folder that kept rules would hold in.
	KeepFor string `json:"keepFor,omitempty"`
	// CredentialRef names what is asked for; the credential itself never appears.
	CredentialRef string `json:"credentialRef,omitempty"`
}

// ActionResolved is the answer to an action.
type ActionResolved struct {
	// Decision is the answer.
	Decision string `json:"decision" enum:"@actionAnswer"`
	// Status says how the action ended.
	Status string `json:"status" enum:"resolved expired cancelled"`
	// DecisionSource says who or what answered.
	DecisionSource string `json:"decisionSource" enum:"human host_policy timeout runtime peer"`
	// ActionType is what was asked for.
	ActionType string `json:"actionType,omitempty"`
	// Payload is the input that was given, without secrets.
	Payload Raw `json:"payload,omitempty"`
	// PayloadRef is where a large input is.
	PayloadRef string `json:"payloadRef,omitempty"`
	// Scope says for how long an approval holds.
	Scope string `json:"scope,omitempty" enum:"@approvalScope"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ResolvedBy is who answered.
	ResolvedBy *Actor `json:"resolvedBy,omitempty"`
}
