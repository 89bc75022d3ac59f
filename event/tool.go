package event

// ToolInfo describes one tool as an inventory lists it.
type ToolInfo struct {
	// ToolName is the tool's name.
	ToolName string `json:"toolName" check:"nonempty"`
	// Description is what the model is told of the tool.
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON Schema of the arguments.
	InputSchema Raw `json:"inputSchema,omitempty"`
	// InputSchemaRef is where a large schema is.
	InputSchemaRef string `json:"inputSchemaRef,omitempty"`
	// Capabilities that the tool needs or offers.
	Capabilities []string `json:"capabilities,omitempty"`
	// Policy says what becomes of a call before its arguments are known.
	Policy string `json:"policy" enum:"allowed ask denied sandboxed unavailable"`
	// RuntimeOwner says who carries the tool out.
	RuntimeOwner string `json:"runtimeOwner" enum:"local mcp_server hosted_connector provider_native workflow subagent client"`
	// IsReadOnly says that the tool changes nothing.
	IsReadOnly bool `json:"isReadOnly"`
	// IsConcurrencySafe says that calls of the tool may run beside each other.
	IsConcurrencySafe bool `json:"isConcurrencySafe"`
	// IsDestructive says that a call may lose something that nothing brings back.
	IsDestructive bool `json:"isDestructive"`
	// InterruptBehavior says what an interrupt does to a running call.
	InterruptBehavior string `json:"interruptBehavior" enum:"@interruptBehavior"`
	// MetadataRef is where more is said of the tool.
	MetadataRef string `json:"metadataRef,omitempty"`
	// Reason says why the tool can't be used.
	Reason string `json:"reason,omitempty"`
	// Source names what offers the tool where that comes and goes, such as
	// channel:ID.
	Source string `json:"source,omitempty"`
}

// ToolCatalogResolved says which tools a turn may use.
type ToolCatalogResolved struct {
	// ToolCount counts the tools.
	ToolCount int64 `json:"toolCount"`
	// Tools are the tools; absent where they are many or as before.
	Tools []ToolInfo `json:"tools,omitempty"`
	// InventoryRef is where the whole inventory is.
	InventoryRef string `json:"inventoryRef,omitempty"`
	// Digest tells equal inventories apart from changed ones.
	Digest string `json:"digest,omitempty"`
}

// PolicyPending is the policy of a call that nothing has been decided about.
const PolicyPending = "pending"

// ToolStarted says that a model asked for a tool call. Whether it runs is decided
// afterwards; [ToolProgress] of the phase running says that it does. Every call has one.
type ToolStarted struct {
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// SafeArgs are the arguments, without secrets.
	SafeArgs Raw `json:"safeArgs,omitempty"`
	// InputRef is where large arguments are.
	InputRef string `json:"inputRef,omitempty"`
	// Policy is what was decided about the call; pending until something is.
	Policy string `json:"policy" enum:"allowed asked denied sandboxed pending"`
	// RuntimeOwner says who carries the tool out.
	RuntimeOwner string `json:"runtimeOwner,omitempty"`
	// IsReadOnly says that the tool changes nothing.
	IsReadOnly bool `json:"isReadOnly"`
	// IsDestructive says that the call may lose something that nothing brings back.
	IsDestructive bool `json:"isDestructive,omitempty"`
	// IsConcurrencySafe says that the call may run beside others.
	IsConcurrencySafe bool `json:"isConcurrencySafe,omitempty"`
	// InterruptBehavior says what an interrupt does to the call while it runs.
	InterruptBehavior string `json:"interruptBehavior,omitempty" enum:"@interruptBehavior"`
	// AttemptCount is in the facts of older versions alone: see [ToolStarted.Runs].
	AttemptCount int64 `json:"attemptCount,omitempty"`
}

// Runs reports whether the call runs with this fact. Older versions wrote it once the
// call was allowed, and again for each further attempt.
func (p *ToolStarted) Runs() bool { return p.Policy != PolicyPending }

// ToolArgs gives the arguments of a call that are not those of its start: a hook
// rewrote them.
type ToolArgs struct {
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// SafeArgs are the new arguments, without secrets.
	SafeArgs Raw `json:"safeArgs,omitempty"`
	// InputRef is where large arguments are.
	InputRef string `json:"inputRef,omitempty"`
	// Source says who changed the arguments.
	Source string `json:"source,omitempty" enum:"model hook user runtime"`
}

// Phases of a tool call.
const (
	// PhaseRunning: the call begins to run. What it does comes after this fact.
	PhaseRunning = "running"
	// PhaseLost: nothing runs the call any more and its outcome isn't known. It only
	// reads, so it is run again.
	PhaseLost = "lost"
)

// ToolProgress is a step, a sign of life or a piece of output of a tool call.
type ToolProgress struct {
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// Phase is set where the call begins to run, or was lost and is run again. Until
	// the first "running" nothing of the call has happened.
	Phase string `json:"phase,omitempty" enum:"running lost"`
	// Message says what the tool does now, for people.
	Message string `json:"message,omitempty"`
	// Fraction is how much is done, from 0 to 1.
	Fraction *float64 `json:"fraction,omitempty"`
	// Text is a piece of output.
	Text string `json:"text,omitempty"`
	// Index is the ordinal of the piece within the call.
	Index int64 `json:"index,omitempty"`
	// Policy says by what a call runs, AttemptCount how often it began to.
	Policy string `json:"policy,omitempty" enum:"allowed asked sandboxed"`
	// AttemptCount counts how often the call began to run.
	AttemptCount int64 `json:"attemptCount,omitempty"`
	// Links name the facts that the call rests on.
	Links *ToolLinks `json:"links,omitempty"`
}

// ToolLinks name the facts that a tool call rests on: the last of each kind.
type ToolLinks struct {
	// PermissionEventID is the permission.evaluated about it.
	PermissionEventID string `json:"permissionEventId,omitempty"`
	// ApprovalActionID is the action that asked a person about it.
	ApprovalActionID string `json:"approvalActionId,omitempty"`
	// SandboxEventID is the sandbox.applied with the boundary that it got.
	SandboxEventID string `json:"sandboxEventId,omitempty"`
}

// ToolResult ends a tool call with a result. A command's non-zero exit is a result.
type ToolResult struct {
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// Status says whether the tool succeeded, failed in its own words, or goes on in the
	// background.
	Status string `json:"status" enum:"ok error background"`
	// Preview is the beginning of the output, as the model sees it.
	Preview string `json:"preview"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// OutputRef is where the whole output is, if the preview is not.
	OutputRef string `json:"outputRef,omitempty"`
	// SizeBytes is the size of the whole output in bytes.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// MediaType is the type of the output.
	MediaType string `json:"mediaType,omitempty"`
	// Truncated says that the preview is not the whole output, which is at OutputRef.
	Truncated bool `json:"truncated,omitempty"`
	// StructuredContent is the result as data, if the tool gives one.
	StructuredContent Raw `json:"structuredContent,omitempty"`
	// StructuredRef is where a large result as data is.
	StructuredRef string `json:"structuredRef,omitempty"`
	// ArtifactRefs point to deliverables that the call made.
	ArtifactRefs []string `json:"artifactRefs,omitempty"`
	// ImageRefs point to images in the output.
	ImageRefs []string `json:"imageRefs,omitempty"`
	// ExitCode of a command; null while it runs in the background.
	ExitCode OptionalInt `json:"exitCode,omitzero"`
	// ProcessID is the process that the call started.
	ProcessID string `json:"processId,omitempty"`
	// ChangedFiles lists what the call changed under the workspace.
	ChangedFiles []FileChange `json:"changedFiles,omitempty"`
	// Links name the facts that the call rests on.
	Links *ToolLinks `json:"links,omitempty"`
}

// FileChange is one changed file, with its earlier content kept for undo.
type FileChange struct {
	// Path is the path of the file, relative to the workspace if it is inside.
	Path string `json:"path" check:"nonempty"`
	// Change says what became of the file.
	Change string `json:"change" enum:"@fileChange"`
	// BeforeRef is where its earlier content is.
	BeforeRef string `json:"beforeRef,omitempty"`
	// AfterHash is the hash of its content after the change.
	AfterHash string `json:"afterHash,omitempty"`
	// Mode has its permission bits after the change, as Unix has them.
	Mode int64 `json:"mode,omitempty"`
	// Note says why the earlier content could not be kept.
	Note string `json:"note,omitempty"`
}

// ToolFailed ends a tool call without a result.
type ToolFailed struct {
	// ToolName is the tool that is called.
	ToolName string `json:"toolName" check:"nonempty"`
	// ErrorCategory says of what kind the failure is, for programs.
	ErrorCategory string `json:"errorCategory" enum:"invalid_input not_found denied sandbox_violation timeout interrupted lost hook_blocked execution unavailable"`
	// Message says what went wrong, for people and the model.
	Message string `json:"message" check:"nonempty"`
	// Retryable says that another attempt may succeed.
	Retryable bool `json:"retryable"`
	// Advice says what to do next.
	Advice string `json:"advice,omitempty"`
	// DurationMs is how long it took, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// OutputRef is where the output is that came before the failure.
	OutputRef string `json:"outputRef,omitempty"`
	// ChangedFiles lists what the call changed before it failed.
	ChangedFiles []FileChange `json:"changedFiles,omitempty"`
	// Links name the facts that the call rests on.
	Links *ToolLinks `json:"links,omitempty"`
}
