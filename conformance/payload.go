package conformance

import (
	"fmt"
	"strings"
)

// payloadRule is what the payload of a type has. Each of needs is a member, or several
// of which one is enough, with | between them.
type payloadRule struct {
	typ       string
	needs     []string
	level     Level
	paragraph string
}

// payloadRules are what the standard says about payloads.
var payloadRules = []payloadRule{
	{"turn.submitted", []string{"inputRef|input"}, Should, "Specification, Control plane (submit_turn)"},
	{"action.required", []string{"actionType", "prompt|schema", "decisions|decisionKind"}, Must, "Control plane, Action requests"},
	{"action.resolved", []string{"decision"}, Must, "Specification, Control plane (respond_action)"},
	{"tool.started", []string{"toolName", "safeArgs|inputRef"}, Should, "Tool and context, Tool invocation"},
	{"tool.result", []string{"preview|outputRef|result|status"}, Should, "Tool and context, Tool invocation"},
	{"tool.failed", []string{"errorCategory|failureCategory", "retryable"}, Should, "Tool and context, Tool invocation"},
	{"model.completed", []string{"usage", "stopReason"}, Should, "Runtime event stream, Provider adaptation"},
	{"model.failed", []string{"errorCategory|error|failureCategory"}, Should, "Runtime event stream, Provider adaptation"},
	{"permission.evaluated", []string{"decision", "decisionSource", "decisionReason"}, Should, "Permission and sandbox, Permission decision"},
	{"sandbox.applied", []string{"mode", "cwd", "readRoots", "writeRoots", "network"}, Should, "Permission and sandbox, Sandbox profile"},
	{"hook.started", []string{"point|hookPoint", "handlerRef"}, Should, "Hooks and policy, Events"},
	{"hook.completed", []string{"decision|status", "durationMs"}, Should, "Hooks and policy, Events"},
	{"hook.failed", []string{"failureBehavior"}, Should, "Hooks and policy, Events"},
	{"process.started", []string{"command", "cwd"}, Should, "Execution environment, Process lifecycle"},
	{"process.completed", []string{"exitCode", "durationMs"}, Should, "Execution environment, Process lifecycle"},
	{"routing.candidates.resolved", []string{"candidateCount"}, Should, "Model routing and limits, Candidate model set"},
	{"routing.decided", []string{"selectedModel", "decisionSource", "decisionReason", "candidateCount"}, Should, "Model routing and limits, Routing decision"},
	{"routing.single_candidate", []string{"candidateCount", "capabilityGap"}, Should, "Acceptance scenarios, Model routing and single candidate"},
	{"routing.not_possible", []string{"decisionReason|reason"}, Should, "Model routing and limits, Routing decision"},
	{"queue.changed", []string{"queue"}, Should, "Specification, Durable snapshots (queue_snapshot)"},
	{"context.compaction.completed", []string{"trigger", "affectedTurns", "summaryRef|summaryPreview|continuationRef"}, Should, "Tool and context, Compaction"},
	{"output.spilled", []string{"outputRef"}, Must, "Acceptance scenarios, Process stdin and output spill"},
	{"output.truncated", []string{"outputRef"}, Must, "Acceptance scenarios, Process stdin and output spill"},
	{"evidence.changed", []string{"packRef|replayRef|reviewRef|traceRef|verificationOutcomes|note"}, Should, "Runtime event stream, Large data"},
	{"task.attempt.failed", []string{"failureCategory|error|lastError"}, Should, "Agent task, Attempts and runs"},
	{"channel.connected", []string{"transport", "peerRole"}, Should, "Remote channels, Channel identity"},
	{"channel.permission_forwarded", []string{"actionId", "requestedBy", "target", "finalDecider"}, Should, "Remote channels, Remote permission bridge"},
	{"channel.permission_returned", []string{"actionId", "decision"}, Should, "Remote channels, Remote permission bridge"},
	{"snapshot.repaired", []string{"reason|recoveryMode|status"}, Should, "Remote channels, Recovery"},
}

// payloadChecks makes a check of each rule.
func payloadChecks() []Check {
	var out []Check
	for _, r := range payloadRules {
		verb := "has"
		if r.level == Should {
			verb = "should have"
		}
		out = append(out, Check{
			ID: "payload." + r.typ, Scope: Event, Level: r.level, Paragraph: r.paragraph,
			Says: fmt.Sprintf("The payload of %s %s %s.", r.typ, verb, strings.ReplaceAll(strings.Join(r.needs, ", "), "|", " or ")), event: r.check,
		})
	}
	return out
}

func (r payloadRule) check(f *fact) []string {
	if f.typ != r.typ {
		return nil
	}
	var out []string
	for _, need := range r.needs {
		if !f.has(strings.Split(need, "|")) {
			out = append(out, fmt.Sprintf("the payload of %s lacks %s", f.typ, strings.ReplaceAll(need, "|", " or ")))
		}
	}
	return out
}

// has reports whether an event has one of the members: in its payload, its references
// or its envelope.
func (f *fact) has(names []string) bool {
	for _, name := range names {
		for _, o := range []object{f.payload(), member(f.object, "refs"), f.object} {
			if v, there := o[name]; there && v != "" {
				return true
			}
		}
	}
	return false
}
