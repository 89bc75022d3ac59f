package event

// ToolInfo describes one tool as an inventory lists it.
type ToolInfo struct {
	ToolName          string   `json:"toolName" check:"nonempty"`
	Description       string   `json:"description,omitempty"`
	InputSchema       Raw      `json:"inputSchema,omitempty"`
	InputSchemaRef    string   `json:"inputSchemaRef,omitempty"`
	Capabilities      []string `json:"capabilities,omitempty"`
	Policy            string   `json:"policy" enum:"allowed ask denied sandboxed unavailable"`
	RuntimeOwner      string   `json:"runtimeOwner" enum:"local mcp_server hosted_connector provider_native workflow subagent client"`
	IsReadOnly        bool     `json:"isReadOnly"`
	IsConcurrencySafe bool     `json:"isConcurrencySafe"`
	IsDestructive     bool     `json:"isDestructive"`
	InterruptBehavior string   `json:"interruptBehavior" enum:"@interruptBehavior"`
	MetadataRef       string   `json:"metadataRef,omitempty"`
	Reason            string   `json:"reason,omitempty"`
	// Source names what offers the tool where that comes and goes, such as
	// channel:ID.
	Source string `json:"source,omitempty"`
}

// ToolCatalogResolved says which tools a turn may use.
type ToolCatalogResolved struct {
	ToolCount    int64      `json:"toolCount"`
	Tools        []ToolInfo `json:"tools,omitempty"`
	InventoryRef string     `json:"inventoryRef,omitempty"`
	// Digest tells equal inventories apart from changed ones.
	Digest string `json:"digest,omitempty"`
}

// ToolStarted says that a tool call begins.
type ToolStarted struct {
	ToolName          string `json:"toolName" check:"nonempty"`
	SafeArgs          Raw    `json:"safeArgs,omitempty"`
	InputRef          string `json:"inputRef,omitempty"`
	Policy            string `json:"policy" enum:"allowed asked denied sandboxed pending"`
	RuntimeOwner      string `json:"runtimeOwner,omitempty"`
	IsReadOnly        bool   `json:"isReadOnly"`
	IsDestructive     bool   `json:"isDestructive,omitempty"`
	InterruptBehavior string `json:"interruptBehavior,omitempty" enum:"@interruptBehavior"`
	AttemptCount      int64  `json:"attemptCount,omitempty"`
}

// ToolArgs gives the arguments as the provider asked for them, or as they were
// rewritten.
type ToolArgs struct {
	ToolName string `json:"toolName" check:"nonempty"`
	SafeArgs Raw    `json:"safeArgs,omitempty"`
	InputRef string `json:"inputRef,omitempty"`
	Source   string `json:"source,omitempty" enum:"model hook user runtime"`
}

// ToolProgress is a sign of life or a piece of output of a running tool.
type ToolProgress struct {
	ToolName string   `json:"toolName" check:"nonempty"`
	Message  string   `json:"message,omitempty"`
	Fraction *float64 `json:"fraction,omitempty"`
	Text     string   `json:"text,omitempty"`
	Index    int64    `json:"index,omitempty"`
}

// ToolResult ends a tool call with a result. A command's non-zero exit is a result.
type ToolResult struct {
	ToolName   string `json:"toolName" check:"nonempty"`
	Status     string `json:"status" enum:"ok error background"`
	Preview    string `json:"preview"`
	DurationMs int64  `json:"durationMs"`
	OutputRef  string `json:"outputRef,omitempty"`
	SizeBytes  int64  `json:"sizeBytes,omitempty"`
	MediaType  string `json:"mediaType,omitempty"`
	// Truncated says that the preview is not the whole output, which is at OutputRef.
	Truncated         bool     `json:"truncated,omitempty"`
	StructuredContent Raw      `json:"structuredContent,omitempty"`
	StructuredRef     string   `json:"structuredRef,omitempty"`
	ArtifactRefs      []string `json:"artifactRefs,omitempty"`
	ImageRefs         []string `json:"imageRefs,omitempty"`
	// ExitCode of a command; null while it runs in the background.
	ExitCode  OptionalInt `json:"exitCode,omitzero"`
	ProcessID string      `json:"processId,omitempty"`
	// ChangedFiles lists what the call changed under the workspace.
	ChangedFiles []FileChange `json:"changedFiles,omitempty"`
}

// FileChange is one changed file, with its earlier content kept for undo.
type FileChange struct {
	Path      string `json:"path" check:"nonempty"`
	Change    string `json:"change" enum:"created modified deleted"`
	BeforeRef string `json:"beforeRef,omitempty"`
	AfterHash string `json:"afterHash,omitempty"`
	Mode      int64  `json:"mode,omitempty"`
	// Note says why the earlier content could not be kept.
	Note string `json:"note,omitempty"`
}

// ToolFailed ends a tool call without a result.
type ToolFailed struct {
	ToolName      string `json:"toolName" check:"nonempty"`
	ErrorCategory string `json:"errorCategory" enum:"invalid_input not_found denied sandbox_violation timeout interrupted lost hook_blocked execution unavailable"`
	Message       string `json:"message" check:"nonempty"`
	Retryable     bool   `json:"retryable"`
	Advice        string `json:"advice,omitempty"`
	DurationMs    int64  `json:"durationMs,omitempty"`
	OutputRef     string `json:"outputRef,omitempty"`
	// ChangedFiles lists what the call changed before it failed.
	ChangedFiles []FileChange `json:"changedFiles,omitempty"`
}
