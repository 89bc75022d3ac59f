package telemetry

// SchemaURL names the semantic conventions that attribute names are taken from:
// the last release that contains those for GenAI.
const SchemaURL = "https://opentelemetry.io/schemas/1.41.0"

// ScopeName is the instrumentation scope of all spans and metrics.
const ScopeName = "agentd/telemetry"

// Operations, as gen_ai.operation.name has them, and our own kinds of spans. A
// span's name is its operation, with a name of low cardinality where it has one.
const (
	OpInvokeAgent = "invoke_agent"
	OpChat        = "chat"
	OpExecuteTool = "execute_tool"

	OpTaskRun        = "task_run"
	OpJobRun         = "job_run"
	OpJobItem        = "job_item"
	OpResolveContext = "resolve_context"
	OpCompactContext = "compact_context"
	OpProcessExec    = "process_exec"
	OpHookRun        = "hook_run"
	OpWait           = "wait"
	OpArtifactWrite  = "artifact_write"
	OpEvidenceExport = "evidence_export"
)

// Attributes of the semantic conventions.
const (
	AttrErrorType         = "error.type"
	AttrOperation         = "gen_ai.operation.name"
	AttrProvider          = "gen_ai.provider.name"
	AttrRequestModel      = "gen_ai.request.model"
	AttrRequestStream     = "gen_ai.request.stream"
	AttrResponseModel     = "gen_ai.response.model"
	AttrResponseID        = "gen_ai.response.id"
	AttrFinishReasons     = "gen_ai.response.finish_reasons"
	AttrTimeToFirstChunk  = "gen_ai.response.time_to_first_chunk"
	AttrInputTokens       = "gen_ai.usage.input_tokens"                //nolint:gosec // a name, no credential
	AttrOutputTokens      = "gen_ai.usage.output_tokens"               //nolint:gosec // a name, no credential
	AttrCacheReadTokens   = "gen_ai.usage.cache_read.input_tokens"     //nolint:gosec // a name, no credential
	AttrCacheWriteTokens  = "gen_ai.usage.cache_creation.input_tokens" //nolint:gosec // a name, no credential
	AttrReasoningTokens   = "gen_ai.usage.reasoning.output_tokens"     //nolint:gosec // a name, no credential
	AttrTokenType         = "gen_ai.token.type"                        //nolint:gosec // a name, no credential
	AttrConversation      = "gen_ai.conversation.id"
	AttrAgentName         = "gen_ai.agent.name"
	AttrAgentID           = "gen_ai.agent.id"
	AttrToolName          = "gen_ai.tool.name"
	AttrToolCallID        = "gen_ai.tool.call.id"
	AttrToolType          = "gen_ai.tool.type"
	AttrToolArguments     = "gen_ai.tool.call.arguments"
	AttrToolResult        = "gen_ai.tool.call.result"
	AttrInputMessages     = "gen_ai.input.messages"
	AttrOutputMessages    = "gen_ai.output.messages"
	AttrProcessExecutable = "process.executable.name"
	AttrProcessExitCode   = "process.exit.code"
	AttrHTTPStatus        = "http.response.status_code"
	AttrOverflow          = "otel.metric.overflow"
)

// Attributes of our own: the ids that join spans to facts.
const (
	AttrRuntimeID   = "agentruntime.runtime.id"
	AttrSessionID   = "agentruntime.session.id"
	AttrThreadID    = "agentruntime.thread.id"
	AttrTurnID      = "agentruntime.turn.id"
	AttrTaskID      = "agentruntime.task.id"
	AttrRunID       = "agentruntime.run.id"
	AttrAttemptID   = "agentruntime.attempt.id"
	AttrStepID      = "agentruntime.step.id"
	AttrToolCall    = "agentruntime.tool_call.id"
	AttrActionID    = "agentruntime.action.id"
	AttrSubagentID  = "agentruntime.subagent.id"
	AttrArtifactID  = "agentruntime.artifact.id"
	AttrEvidenceID  = "agentruntime.evidence.id"
	AttrProcessID   = "agentruntime.process.id"
	AttrChannelID   = "agentruntime.channel.id"
	AttrJobID       = "agentruntime.job.id"
	AttrJobItemID   = "agentruntime.job_item.id"
	AttrModelCallID = "agentruntime.model_request.id"
	AttrRequestID   = "agentruntime.request.id"
	AttrHookRunID   = "agentruntime.hook_run.id"
	// AttrEventID is the fact that ended the span.
	AttrEventID = "agentruntime.event.id"
	// AttrCorrelation says what keeps a span from being joined.
	AttrCorrelation = "agentruntime.correlation"
)

// Attributes of our own: what happened.
const (
	AttrStatus      = "agentruntime.status"
	AttrSource      = "agentruntime.source"
	AttrOutcome     = "agentruntime.outcome"
	AttrSteps       = "agentruntime.steps"
	AttrCostUSD     = "agentruntime.cost.usd"
	AttrQueueWait   = "agentruntime.queue.wait"
	AttrAttempt     = "agentruntime.attempt"
	AttrStep        = "agentruntime.step"
	AttrPurpose     = "agentruntime.model.purpose"
	AttrTaskKind    = "agentruntime.task.kind"
	AttrReason      = "agentruntime.reason"
	AttrRetryable   = "agentruntime.retryable"
	AttrPolicy      = "agentruntime.tool.policy"
	AttrOwner       = "agentruntime.tool.owner"
	AttrDuration    = "agentruntime.duration"
	AttrTruncated   = "agentruntime.output.truncated"
	AttrSizeBytes   = "agentruntime.size_bytes"
	AttrPoint       = "agentruntime.hook.point"
	AttrHandler     = "agentruntime.hook.handler"
	AttrDecision    = "agentruntime.decision"
	AttrDecidedBy   = "agentruntime.decision.source"
	AttrActionType  = "agentruntime.action.type"
	AttrItems       = "agentruntime.context.items"
	AttrOmissions   = "agentruntime.context.omissions"
	AttrTokensEst   = "agentruntime.context.estimated_tokens"
	AttrBackground  = "agentruntime.process.background"
	AttrTTY         = "agentruntime.process.tty"
	AttrCPUTime     = "agentruntime.process.cpu_time"
	AttrSignal      = "agentruntime.process.signal"
	AttrChange      = "agentruntime.artifact.change"
	AttrKind        = "agentruntime.kind"
	AttrMediaType   = "agentruntime.media_type"
	AttrBoundary    = "agentruntime.sandbox.boundary"
	AttrCode        = "agentruntime.code"
	AttrLimitName   = "agentruntime.limit.name"
	AttrRetryAfter  = "agentruntime.retry_after"
	AttrDepth       = "agentruntime.subagent.depth"
	AttrJobItems    = "agentruntime.job.items"
	AttrJobFailed   = "agentruntime.job.failed_items"
	AttrConcurrency = "agentruntime.job.concurrency"
	AttrWillRetry   = "agentruntime.will_retry"
	AttrFailureMode = "agentruntime.hook.failure"
)

// Values that attributes have beside those of the facts.
const (
	// MissingCorrelation: the fact that began it is not known.
	MissingCorrelation = "missing_correlation"
	// Unknown: nothing says how it ended.
	Unknown = "unknown"
)

// providers maps names of providers to those that the conventions list.
var providers = map[string]string{
	"gemini": "gcp.gemini", "vertex": "gcp.vertex_ai", "bedrock": "aws.bedrock", "mistral": "mistral_ai", "xai": "x_ai",
}

func providerName(id string) string {
	if known, ok := providers[id]; ok {
		return known
	}
	return safeName(id)
}

// maxName bounds the names that are taken over from facts.
const maxName = 96

// safeName returns s if it looks like a name and not like content.
func safeName(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > maxName {
		return Unknown
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '_', c == '-', c == '.', c == ':', c == '/', c == '@':
		default:
			return Unknown
		}
	}
	return s
}
