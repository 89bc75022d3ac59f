package event

import "time"

// PermissionEvaluated is a decision on whether something may run, before it runs.
type PermissionEvaluated struct {
	// Decision on the call.
	Decision string `json:"decision" enum:"@ruleDecision"`
	// DecisionSource says who or what decided.
	DecisionSource string `json:"decisionSource" enum:"@decisionSource"`
	// DecisionReason says why.
	DecisionReason string `json:"decisionReason" check:"nonempty"`
	// RuleRefs are the rules that the decision rests on.
	RuleRefs []string `json:"ruleRefs"`
	// Scope is what the decision is about: paths, hosts, the command's parts.
	Scope Raw `json:"scope"`
	// Destructive says that something may be lost that nothing brings back.
	Destructive bool `json:"destructive"`
	// ToolName is the tool of the call.
	ToolName string `json:"toolName" check:"nonempty"`
	// PermissionMode that the decision was made in.
	PermissionMode string `json:"permissionMode,omitempty"`
	// SafeArgs are the arguments, without secrets.
	SafeArgs Raw `json:"safeArgs,omitempty"`
	// InputRef is where large arguments are.
	InputRef string `json:"inputRef,omitempty"`
	// UpdatedInputRef is where the arguments are as a hook changed them.
	UpdatedInputRef string `json:"updatedInputRef,omitempty"`
	// ApprovalActionID is the action that asks for an approval.
	ApprovalActionID string `json:"approvalActionId,omitempty"`
	// ExpiresAt is when the decision is over.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Impact says what the call would do.
	Impact string `json:"impact,omitempty"`
	// RollbackAdvice says how it can be taken back.
	RollbackAdvice string `json:"rollbackAdvice,omitempty"`
	// Subcommands are the simple commands that a command line was parsed into.
	Subcommands []string `json:"subcommands,omitempty"`
	// GrantID is the earlier approval that answered an ask.
	GrantID string `json:"grantId,omitempty"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
	// ConfinementRef is what confines commands, and what bounds agents, from here on;
	// empty if it is what the session named before.
	ConfinementRef string `json:"confinementRef,omitempty"`
	// Lookups are what was found in the file system where the decision depends on it.
	Lookups []PathLookup `json:"lookups,omitempty"`
}

// PathLookup is what a decision found at a path.
type PathLookup struct {
	// Path that was looked up.
	Path string `json:"path" check:"nonempty"`
	// LeadsTo is where symbolic links lead; empty if there are none.
	LeadsTo string `json:"leadsTo,omitempty"`
	// ContentHash is that of the file, where an approval depends on its content.
	ContentHash string `json:"contentHash,omitempty"`
	// Script is the text of a shell script, where the decision depends on what it runs.
	Script string `json:"script,omitempty"`
}

// PermissionReviewed is the verdict of a reviewer, a model that is asked about a call
// before a person is. It is an input of the decision that follows.
type PermissionReviewed struct {
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// Verdict is allow, ask (a person has to decide), or failed, which is like ask.
	Verdict string `json:"verdict" enum:"allow ask failed"`
	// Reason is the reviewer's own, or says what failed.
	Reason string `json:"reason" check:"nonempty"`
	// Provider is the reviewer's provider.
	Provider string `json:"provider,omitempty"`
	// Model is the reviewer's model.
	Model string `json:"model,omitempty"`
	// ModelRequestID is the request that asked the reviewer.
	ModelRequestID string `json:"modelRequestId,omitempty"`
	// ErrorCategory says of what kind a failure was.
	ErrorCategory string `json:"errorCategory,omitempty" enum:"timeout budget malformed model unavailable too_large"`
	// Usage counts the tokens of the review.
	Usage *Usage `json:"usage,omitempty"`
	// CostUSD is what the review cost; absent where no price is known.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// DurationMs is how long the review took, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// InputHash is the hash of the input that was judged.
	InputHash string `json:"inputHash,omitempty"`
}

// PermissionRequested says that a person or the host is asked.
type PermissionRequested struct {
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// ActionID is the action that asks.
	ActionID string `json:"actionId" check:"nonempty"`
	// Reason says why, for people.
	Reason string `json:"reason" check:"nonempty"`
	// RuleRefs are the rules because of which it is asked.
	RuleRefs []string `json:"ruleRefs,omitempty"`
	// AskedOf says who is asked.
	AskedOf string `json:"askedOf,omitempty" enum:"human host channel"`
	// SubagentID is the subagent whose call it is.
	SubagentID string `json:"subagentId,omitempty"`
}

// PermissionResolved is the outcome of a request for permission.
type PermissionResolved struct {
	// Decision is the outcome.
	Decision string `json:"decision" enum:"@approvalDecision"`
	// DecisionSource says who or what decided.
	DecisionSource string `json:"decisionSource" enum:"mode rule hook human host_policy classifier default peer"`
	// DecisionReason says why.
	DecisionReason string `json:"decisionReason,omitempty"`
	// ActionID is the action that asked.
	ActionID string `json:"actionId,omitempty"`
	// ToolName is the tool that is called.
	ToolName string `json:"toolName,omitempty"`
	// Scope says for how long an approval holds.
	Scope string `json:"scope,omitempty" enum:"@approvalScope"`
	// GrantID is the approval that later calls may rest on.
	GrantID string `json:"grantId,omitempty"`
	// ExpiresAt is when that approval ends.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// ResolvedBy is who decided.
	ResolvedBy *Actor `json:"resolvedBy,omitempty"`
	// ChannelID is the channel that the answer came over.
	ChannelID string `json:"channelId,omitempty"`
	// PermissionMode is the mode that an approved plan is carried out in.
	PermissionMode string `json:"permissionMode,omitempty"`
}

// Enforcement names, per boundary, the mechanism that the kernel really
// enforces, or "none".
type Enforcement struct {
	// Filesystem is what confines files, or none.
	Filesystem string `json:"filesystem" check:"nonempty"`
	// Network is what confines connections, or none.
	Network string `json:"network" check:"nonempty"`
	// Processes is what confines other processes, or none.
	Processes string `json:"processes" check:"nonempty"`
	// Limits is what bounds resources, or none.
	Limits string `json:"limits" check:"nonempty"`
	// Rules is what holds deny and ask rules where a command starts programs.
	Rules string `json:"rules"`
}

// SandboxApplied says which boundary a tool or a process received.
type SandboxApplied struct {
	// Mode of the sandbox.
	Mode string `json:"mode" enum:"read_only workspace_write danger_full_access none"`
	// Cwd is the folder that the command begins in.
	Cwd string `json:"cwd"`
	// ReadRoots are the folders that can be read.
	ReadRoots []string `json:"readRoots"`
	// WriteRoots are the folders that can be changed.
	WriteRoots []string `json:"writeRoots"`
	// Network says whether connections are allowed.
	Network string `json:"network" enum:"@network"`
	// AllowedHosts are the hosts that can be reached.
	AllowedHosts []string `json:"allowedHosts,omitempty"`
	// Enforcement names what the kernel really enforces.
	Enforcement Enforcement `json:"enforcement"`
	// EnvironmentID is where the environment of the process is described.
	EnvironmentID string `json:"environmentRef,omitempty"`
	// ProcessLimits are the limits that hold, by name.
	ProcessLimits map[string]int64 `json:"processLimits,omitempty"`
	// Hidden paths can't be read, whatever the roots say.
	Hidden []string `json:"hidden,omitempty"`
	// Protected paths can't be changed, whatever the roots say.
	Protected []string `json:"protected,omitempty"`
	// NotEnforced names each boundary that was asked for and isn't there, and why.
	NotEnforced []string `json:"notEnforced,omitempty"`
	// HookRunID is the run of the hook whose process received the boundary; empty if
	// it is a tool's.
	HookRunID string `json:"hookRunId,omitempty"`
}

// SandboxViolation says that a boundary was hit.
type SandboxViolation struct {
	// Boundary says which boundary was hit.
	Boundary string `json:"boundary" enum:"filesystem network process limit environment rule workspace"`
	// Path is the path that was out of bounds.
	Path string `json:"path,omitempty"`
	// Host is the host that was out of bounds.
	Host string `json:"host,omitempty"`
	// Detail says what was tried, for people.
	Detail string `json:"detail" check:"nonempty"`
	// ToolName is the tool that tried.
	ToolName string `json:"toolName,omitempty"`
}

// HookStarted says that a hook runs.
type HookStarted struct {
	// HookRunID is the id of this run of the hook.
	HookRunID string `json:"hookRunId" check:"nonempty"`
	// Point is where in the work the hook is called.
	Point string `json:"point" enum:"@hookPoint"`
	// HandlerRef names the handler in the configuration.
	HandlerRef string `json:"handlerRef" check:"nonempty"`
	// TimeoutMs is how long the hook may take, in milliseconds.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
	// InputRef is where what the hook was given is.
	InputRef string `json:"inputRef,omitempty"`
	// Preview is the beginning of what the hook was given.
	Preview string `json:"preview,omitempty"`
}

// HookCompleted is a hook's answer.
type HookCompleted struct {
	// HookRunID is the id of this run of the hook.
	HookRunID string `json:"hookRunId" check:"nonempty"`
	// Point is where in the work the hook is called.
	Point string `json:"point" enum:"@hookPoint"`
	// HandlerRef names the handler in the configuration.
	HandlerRef string `json:"handlerRef" check:"nonempty"`
	// Decision is what the hook wants.
	Decision string `json:"decision" enum:"continue block allow deny ask"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// Reason is the hook's own, for people.
	Reason string `json:"reason,omitempty"`
	// OriginalInputRef is where the input is as it was before.
	OriginalInputRef string `json:"originalInputRef,omitempty"`
	// UpdatedInputRef is where the input is as the hook changed it.
	UpdatedInputRef string `json:"updatedInputRef,omitempty"`
	// UpdatedToolOutputRef is where a tool's output is as the hook changed it.
	UpdatedToolOutputRef string `json:"updatedToolOutputRef,omitempty"`
	// AdditionalContext point to what the hook adds to the context.
	AdditionalContext []string `json:"additionalContextRefs,omitempty"`
	// SuppressOutput says that the output is not shown to the model.
	SuppressOutput bool `json:"suppressOutput,omitempty"`
	// AuditRefs are what the hook wants to be kept.
	AuditRefs []string `json:"auditRefs,omitempty"`
	// Last says that no other hook of the point runs after this one.
	Last bool `json:"last,omitempty"`
}

// HookFailed says that a hook gave no answer, and what follows.
type HookFailed struct {
	// HookRunID is the id of this run of the hook.
	HookRunID string `json:"hookRunId" check:"nonempty"`
	// Point is where in the work the hook is called.
	Point string `json:"point" enum:"@hookPoint"`
	// HandlerRef names the handler in the configuration.
	HandlerRef string `json:"handlerRef" check:"nonempty"`
	// ErrorCategory says of what kind the failure is, for programs.
	ErrorCategory string `json:"errorCategory" enum:"timeout spawn exit malformed network internal lost"`
	// Message says what went wrong, for people.
	Message string `json:"message" check:"nonempty"`
	// Retryable says that another attempt may succeed.
	Retryable bool `json:"retryable"`
	// FailureBehavior says whether the work goes on (open) or not (closed).
	FailureBehavior string `json:"failureBehavior" enum:"open closed"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// Last says that no other hook of the point runs after this one.
	Last bool `json:"last,omitempty"`
}

// PolicyRule is one permission rule.
type PolicyRule struct {
	// RuleID is what decisions name the rule by.
	RuleID string `json:"ruleId,omitempty" secret:"refuse"`
	// Decision where the rule matches.
	Decision string `json:"decision" enum:"@ruleDecision"`
	// Tool is a glob over the names of tools.
	Tool string `json:"tool" check:"nonempty" secret:"refuse"`
	// Match narrows the rule: a glob over commands, paths or the input.
	Match string `json:"match,omitempty" secret:"refuse"`
	// Reason for people.
	Reason string `json:"reason,omitempty"`
	// Source says whose rule it is.
	Source string `json:"source,omitempty" enum:"@ruleSource"`
	// Origin says where a rule of the host comes from: its configuration, or a command
	// that added it.
	Origin string `json:"origin,omitempty" enum:"@policyOrigin"`
}

// PolicyChanged gives the whole policy of one source after the change.
type PolicyChanged struct {
	// Source says whose policy it is. That of a turn is its mode alone, and ends with it.
	// That of a project is what people kept when they answered questions there.
	Source string `json:"source" enum:"host workspace session project turn"`
	// Mode is the mode of the source from now on; absent if it has none.
	Mode string `json:"mode,omitempty" enum:"@permissionMode"`
	// ModeOrigin says where the host's mode comes from, as a rule's origin does.
	ModeOrigin string `json:"modeOrigin,omitempty" enum:"@policyOrigin"`
	// Rules are all rules of the source from now on.
	Rules []PolicyRule `json:"rules"`
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// ChangedBy is who changed it.
	ChangedBy *Actor `json:"changedBy,omitempty"`
	// Workspace is the folder whose rules these are, in the runtime's own session:
	// what its sessions are held to. Empty in a session. Account is whose they are, of a
	// project's.
	Workspace string `json:"workspace,omitempty"`
	// Account is whose rules those of a project are.
	Account string `json:"account,omitempty"`
	// Held says what the workspace's file has changed that doesn't count until a
	// person accepts it.
	Held []string `json:"held,omitempty"`
	// ApprovalActionID is the action whose answer changed it, such as the approval of
	// a plan.
	ApprovalActionID string `json:"approvalActionId,omitempty"`
}

// OutputStored says that a large output lives behind a reference.
type OutputStored struct {
	// OutputRef is the reference.
	OutputRef string `json:"outputRef" check:"nonempty"`
	// SizeBytes is the size of what is kept, in bytes.
	SizeBytes int64 `json:"sizeBytes"`
	// MediaType is the type of the output.
	MediaType string `json:"mediaType" check:"nonempty"`
	// Encoding is that of the bytes, if it is not that of the media type.
	Encoding string `json:"encoding,omitempty"`
	// Preview is the beginning of the output.
	Preview string `json:"preview"`
	// DroppedBytes counts what was not kept at all.
	DroppedBytes int64 `json:"droppedBytes,omitempty"`
	// Owner is the tool call or the process whose output it is.
	Owner string `json:"owner,omitempty"`
	// RedactedCount counts the secrets that were taken out before it was stored.
	RedactedCount int64 `json:"redactedCount"`
	// ExpiresAt is when the bytes may be deleted; absent if they are kept.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// OutputRedacted says that secrets were taken out of an output before it was stored.
type OutputRedacted struct {
	// OutputRef is the output, once it is stored.
	OutputRef string `json:"outputRef,omitempty"`
	// Count counts the secrets that were taken out.
	Count int64 `json:"count"`
	// Rules name what found them.
	Rules []string `json:"rules"`
	// Where says where in the output they were.
	Where string `json:"where,omitempty"`
}

// OutputExpired says that the bytes behind a reference are gone.
type OutputExpired struct {
	// OutputRef is the reference that leads nowhere now.
	OutputRef string `json:"outputRef" check:"nonempty"`
	// Reason says why the bytes are gone.
	Reason string `json:"reason" check:"nonempty"`
}
