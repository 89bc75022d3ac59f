package event

import (
	"fmt"
	"strings"
)

// enums are the enumerations that several fields share or that code outside of the
// catalogues lists. A field names one by `enum:"@permissionMode"`; one that stands at
// a single field alone is written out there.
var enums = map[string]string{ //nolint:gosec // the names of tokens and credentials are none
	"actionAnswer":        "allow deny cancel submit",
	"actionStatus":        "pending resolved expired",
	"actionType":          "tool_permission structured_input plan_approval credential sandbox_escape client_tool resume host_policy",
	"approvalDecision":    "allow deny timeout cancel",
	"approvalScope":       "once session project",
	"artifactChange":      "created updated deleted observed",
	"attemptWorker":       "runtime external peer",
	"channelTransport":    "websocket sse json_rpc grpc http_json stdio in_process custom",
	"compactionTrigger":   "context_fraction requested context_overflow",
	"comparisonMethod":    "paired welch",
	"criterionStatus":     "open satisfied waived",
	"decisionSource":      "mode rule hook human host_policy classifier default",
	"deliveryMechanism":   "polling streaming subscription push",
	"deliveryOutcome":     "delivered failing gave_up refused",
	"direction":           "inbound outbound",
	"exportKind":          "evidence replay review benchmark_trial",
	"fileChange":          "created modified deleted",
	"finalDecider":        "local remote",
	"headroom":            "ok low blocked unknown not_applicable",
	"hookPoint":           "session_start user_prompt_submit pre_tool_use permission_request post_tool_use post_tool_failure post_sampling stop",
	"interruptBehavior":   "cancel block ignore",
	"missedRuns":          "skip run_once run_all",
	"modelFailure":        "rate_limited overloaded server_error timeout network auth invalid_request context_overflow content_filter interrupted malformed",
	"modelPurpose":        "turn compaction repair classification",
	"modelStatus":         "ready no_credential",
	"modelStop":           "end_turn tool_use max_tokens stop_sequence refusal other",
	"network":             "deny allow proxy",
	"overlappingRuns":     "skip queue allow",
	"peerRole":            "client host worker remote_runtime peer_agent tool_server",
	"peerTaskStatus":      "running idle waiting_input waiting_permission completed_unreconciled completed failed cancelled rejected missing unreachable unknown",
	"permissionAnswer":    "allow deny cancel",
	"permissionMode":      "default untrusted on_request on_failure never plan bypass auto",
	"policyOrigin":        "configuration stored",
	"queueAfterInterrupt": "keep clear",
	"queuePolicy":         "queue reject interrupt steer",
	"recoveryMode":        "replay snapshot_repair",
	"rollbackChange":      "restored deleted kept conflict unavailable",
	"rollbackFiles":       "restore keep",
	"ruleDecision":        "allow ask deny",
	"ruleSource":          "host workspace session project",
	"runtimeChange":       "token_created token_rotated token_revoked quotas_set quotas_reset retention_started node_drained node_opened node_forgotten",
	"scheduledKind":       "job task",
	"taskRelation":        "parent child blocks blocked_by source_task source_attempt spawned_subagent assigned_thread produced_artifact consumed_artifact evidence",
	"taskStatus":          "draft accepted queued preparing running waiting_input waiting_permission waiting_resource blocked paused retrying cancelling cancelled timed_out failed lost completed archived stale unknown",
	"taskVisibility":      "foreground background internal hidden",
	"taskWorker":          "runtime external",
	"threadStatus":        "idle queued running blocked completed failed cancelled stale unknown",
	"tokenRole":           "admin client observer",
	"trialRole":           "baseline candidate control",
	"trialStatus":         "running completed failed unknown",
	"turnAccepted":        "accepted queued",
	"sortOrder":           "asc desc",
	"workOrder":           "id created updated title cost",
}

// EnumValues returns the values of an enum tag, nil if it is empty. A name that isn't
// declared panics: it is a mistake in a catalogue.
func EnumValues(tag string) []string {
	name, shared := strings.CutPrefix(tag, "@")
	if !shared {
		return strings.Fields(tag)
	}
	values, ok := enums[name]
	if !ok {
		panic(fmt.Sprintf("event: the enumeration %q isn't declared", name))
	}
	return strings.Fields(values)
}
