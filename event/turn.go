package event

// TurnOptions are the choices that a caller makes for one turn.
type TurnOptions struct {
	// Model to use, as "provider/model", or the model alone with Provider.
	Model string `json:"model,omitempty"`
	// Provider of the model.
	Provider string `json:"provider,omitempty"`
	// PermissionMode of this turn; the session's if absent.
	PermissionMode string `json:"permissionMode,omitempty" enum:"@permissionMode"`
	// QueuePolicy says what happens on a busy thread; default queue.
	QueuePolicy string `json:"queuePolicy,omitempty" enum:"@queuePolicy"`
	// ExpectedTurnID is the turn that the input is meant to steer.
	ExpectedTurnID string `json:"expectedTurnId,omitempty" secret:"refuse"`
	// MaxSteps bounds the turn's model calls.
	MaxSteps int64 `json:"maxSteps,omitempty"`
	// Tools that the turn may use; all that the session has if absent.
	Tools []string `json:"tools,omitempty"`
	// OutputSchema is the JSON Schema that the final answer satisfies.
	OutputSchema Raw `json:"outputSchema,omitempty"`
	// Cwd is the folder that the turn works in, within the workspace.
	Cwd string `json:"cwd,omitempty" secret:"refuse"`
	// TimeoutMs ends the turn after that time.
	TimeoutMs int64 `json:"timeoutMs,omitempty"`
}

// TurnSubmitted is the durable acceptance of a turn, before any work on it.
type TurnSubmitted struct {
	// Status says whether the turn may start at once or waits.
	Status string `json:"status" enum:"@turnAccepted"`
	// Source says what the turn comes from.
	Source string `json:"source" enum:"user system channel task job subagent schedule benchmark replay"`
	// Input is a list of parts; a large one is behind InputRef.
	Input Raw `json:"input,omitempty"`
	// InputRef is where a large input is.
	InputRef string `json:"inputRef,omitempty"`
	// Preview is the beginning of the input, for people.
	Preview string `json:"preview,omitempty"`
	// Position in the queue, from 1; absent when the turn starts at once.
	Position int64 `json:"position,omitempty"`
	// Options are the choices that the caller made.
	Options *TurnOptions `json:"options,omitempty"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
	// SubmittedBy is who submitted it.
	SubmittedBy *Actor `json:"submittedBy,omitempty"`
	// TraceState came with the caller's trace; it is handed on to those who are asked.
	TraceState string `json:"traceState,omitempty"`
}

// TurnStarted says that a turn left the queue and runs.
type TurnStarted struct {
	// Status is running.
	Status string `json:"status" enum:"running"`
	// AttemptCount counts the starts of the turn; more than one after a recovery.
	AttemptCount int64 `json:"attemptCount,omitempty"`
	// QueueWaitMs is how long the turn waited in the queue, in milliseconds.
	QueueWaitMs int64 `json:"queueWaitMs,omitempty"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
	// Environment is where the turn works, Policy what its calls are judged by.
	Environment *ExecutionEnvironment `json:"environment,omitempty"`
	// Policy is what the calls of the turn are judged by.
	Policy *TurnPolicy `json:"policy,omitempty"`
}

// ExecutionEnvironment is where the commands of a turn run, and the boundary that the
// configuration wants for them. What the kernel enforces is told when a command runs.
type ExecutionEnvironment struct {
	// WorkspaceID names the workspace.
	WorkspaceID string `json:"workspaceId" check:"nonempty"`
	// WorkspaceRoot is the path of the workspace's folder.
	WorkspaceRoot string `json:"workspaceRoot" check:"nonempty"`
	// Cwd is the folder that commands begin in.
	Cwd string `json:"cwd" check:"nonempty"`
	// AdditionalRoots are folders outside of the workspace that can be written.
	AdditionalRoots []string `json:"additionalRoots,omitempty"`
	// Shell is the program that runs command lines.
	Shell string `json:"shell" check:"nonempty"`
	// OS is the operating system.
	OS string `json:"os" check:"nonempty"`
	// Arch is the architecture of the processor.
	Arch string `json:"arch" check:"nonempty"`
	// EnvRef is where the names of the variables are that a command sees; not_applicable
	// before the first.
	EnvRef string `json:"envRef" check:"nonempty"`
	// SandboxMode is the mode that commands are confined in.
	SandboxMode string `json:"sandboxMode" check:"nonempty"`
	// NetworkProfile says what commands may connect to.
	NetworkProfile string `json:"networkProfile" check:"nonempty"`
	// ResourceLimits are the limits of a command, by name.
	ResourceLimits map[string]int64 `json:"resourceLimits,omitempty"`
}

// TurnPolicy is the permission policy that holds when a turn starts.
type TurnPolicy struct {
	// Mode is the mode that decides which calls are asked about.
	Mode string `json:"mode" enum:"@permissionMode"`
	// ModeSource says whose mode it is.
	ModeSource string `json:"modeSource" enum:"turn thread session_policy session host parent"`
	// InteractionAllowed says that a person can be asked.
	InteractionAllowed bool `json:"interactionAllowed"`
	// HostMode and HostRules are the host's policy; the rules are cut where they are
	// many, and whole in the configuration. RuleCount counts all rules that hold.
	HostMode string `json:"hostMode" enum:"@permissionMode"`
	// HostRules are rules of the host, cut where they are many.
	HostRules []PolicyRule `json:"hostRules,omitempty"`
	// RuleCount counts all rules that hold.
	RuleCount int64 `json:"ruleCount"`
}

// TurnCompleted ends a turn well.
type TurnCompleted struct {
	// Status is completed.
	Status string `json:"status" enum:"completed"`
	// Outcome says how the turn ended.
	Outcome string `json:"outcome" check:"nonempty"`
	// Steps counts the model calls of the turn.
	Steps int64 `json:"steps"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// Usage counts the tokens that were used.
	Usage *Usage `json:"usage,omitempty"`
	// CostUSD is what the turn cost in US dollars, as far as prices are known.
	CostUSD float64 `json:"costUSD,omitempty"`
	// Preview of the final message; the whole is in model.completed.
	Preview string `json:"preview,omitempty"`
	// MessageRef is where the whole final message is, if it is long.
	MessageRef string `json:"messageRef,omitempty"`
	// StructuredOutput satisfies the turn's output schema.
	StructuredOutput Raw `json:"structuredOutput,omitempty"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
}

// TurnFailed ends a turn otherwise. An interrupted turn has status "cancelled".
type TurnFailed struct {
	// Status is failed, or cancelled for an interrupted turn.
	Status string `json:"status" enum:"failed cancelled"`
	// Outcome says how the turn ended.
	Outcome string `json:"outcome" check:"nonempty"`
	// FailureCategory says of what kind the failure is, for programs.
	FailureCategory string `json:"failureCategory" enum:"interrupted timed_out step_limit quota_blocked routing_not_possible model_failed tool_failed hook_blocked lost internal"`
	// Error says what went wrong.
	Error *Failure `json:"error" check:"nonnil"`
	// Steps counts the model calls of the turn.
	Steps int64 `json:"steps"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// Usage counts the tokens that were used.
	Usage *Usage `json:"usage,omitempty"`
	// CostUSD is what the turn cost in US dollars, as far as prices are known.
	CostUSD float64 `json:"costUSD,omitempty"`
	// ConfigurationRef is the configuration that decisions are made under from here on;
	// empty if it is the one that the session named before.
	ConfigurationRef string `json:"configurationRef,omitempty"`
}

// TurnInterruptRequested records the wish to stop a turn; the loop acts on it.
type TurnInterruptRequested struct {
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Queue says what becomes of the turns that wait.
	Queue string `json:"queue" enum:"@queueAfterInterrupt"`
	// RequestedBy is who wants it.
	RequestedBy *Actor `json:"requestedBy,omitempty"`
	// Cause says that no person wants it: the turn showed no progress for longer than
	// its work may, and fails as timed out.
	Cause string `json:"cause,omitempty" enum:"inactivity"`
}

// InterruptInactivity is the cause of an interrupt of a turn that shows no progress.
const InterruptInactivity = "inactivity"

// TurnSteered adds input to a running turn.
type TurnSteered struct {
	// Input is a list of parts; a large one is behind InputRef.
	Input Raw `json:"input,omitempty"`
	// InputRef is where a large input is.
	InputRef string `json:"inputRef,omitempty"`
	// Preview is the beginning of the input, for people.
	Preview string `json:"preview,omitempty"`
	// SubmittedTurnID is the id that the caller gave to the input. No turn has it: it
	// tells the same submission from another one.
	SubmittedTurnID string `json:"submittedTurnId,omitempty"`
	// Options are the choices that came with the input.
	Options *TurnOptions `json:"options,omitempty"`
	// Metadata is what the caller wants kept with it; the runtime does not interpret it.
	Metadata Raw `json:"metadata,omitempty"`
	// SubmittedBy is who submitted it.
	SubmittedBy *Actor `json:"submittedBy,omitempty"`
}
