package conformance

import (
	"fmt"
	"strings"
)

// validEvents is a session in short: a type, ids as name=value, and the payload.
const validEvents = `
session.created | | {"title":"Fix the build"}
thread.started | threadId=thread_1 | {"status":"idle"}
turn.submitted | TURN | {"inputRef":"input://turn_1","source":"user","status":"accepted"}
task.created | threadId=thread_1 turnId=turn_1 taskId=task_1 | {"objective":"Fix the build","status":"accepted"}
turn.started | TURN | {"status":"running"}
task.attempt.started | TURN | {"status":"running"}
task.attempt.failed | TURN | {"status":"failed","failureCategory":"model_failed","retryable":true}
task.retrying | taskId=task_1 | {"status":"retrying"}
task.attempt.started | threadId=thread_1 turnId=turn_1 taskId=task_1 runId=run_2 | {"status":"running"}
routing.candidates.resolved | TURN | {"candidateCount":1,"candidates":["a/b"]}
routing.single_candidate | TURN | {"candidateCount":1,"selectedModel":"b","decisionSource":"default","decisionReason":"the only one","capabilityGap":"none"}
routing.decided | TURN | {"candidateCount":1,"selectedProvider":"a","selectedModel":"b","decisionSource":"default","decisionReason":"the only one"}
routing.not_possible | TURN | {"candidateCount":0,"decisionReason":"no model can see pictures"}
tool.catalog.resolved | TURN stepId=not_applicable toolCallId=not_applicable | {"tools":[]}
model.requested | TURN modelRequestId=req_1 | {"provider":"a","model":"b"}
model.delta | TURN modelRequestId=req_1 | {"text":"I will run the tests.","index":0}
model.completed | TURN modelRequestId=req_1 | {"usage":{"inputTokens":10,"outputTokens":5},"stopReason":"tool_use"}
model.requested | TURN modelRequestId=req_2 | {"provider":"a","model":"b"}
model.failed | TURN modelRequestId=req_2 | {"errorCategory":"overloaded","retryable":true}
tool.started | TOOL | {"toolName":"shell","safeArgs":{"command":"make test"},"policy":"ask"}
permission.evaluated | TOOL | {"decision":"ask","decisionSource":"mode","decisionReason":"commands ask","destructive":false}
action.required | TOOL actionId=action_1 | {"actionType":"tool_permission","prompt":"Run make test?","decisions":["allow","deny"]}
channel.connected | channelId=chan_1 | {"transport":"websocket","peerRole":"host"}
channel.permission_forwarded | TOOL actionId=action_1 channelId=chan_1 | {"actionId":"action_1","requestedBy":{"kind":"agent"},"target":"shell","finalDecider":"remote"}
action.resolved | TOOL actionId=action_1 | {"decision":"allow","decisionSource":"human"}
channel.permission_returned | TOOL actionId=action_1 channelId=chan_1 | {"actionId":"action_1","decision":"allow"}
hook.started | TOOL | {"point":"pre_tool_use","handlerRef":"hook_1"}
hook.completed | TOOL | {"decision":"continue","durationMs":3}
hook.failed | TOOL | {"failureBehavior":"open"}
sandbox.applied | TOOL | {"mode":"workspace_write","cwd":"/w","readRoots":["/"],"writeRoots":["/w"],"network":"deny"}
process.started | TOOL processId=proc_1 | {"command":"make test","cwd":"/w"}
process.output | TOOL processId=proc_1 | {"stream":"stdout","text":"ok"}
process.input | TOOL processId=proc_1 | {"bytes":2}
output.spilled | TOOL | {"outputRef":"output://1","sizeBytes":100000}
output.truncated | TOOL | {"outputRef":"output://1","sizeBytes":100000}
process.completed | TOOL processId=proc_1 | {"exitCode":0,"durationMs":900}
tool.progress | TOOL | {"phase":"running"}
tool.result | TOOL | {"toolName":"shell","status":"ok","preview":"ok","durationMs":910}
tool.started | threadId=thread_1 turnId=turn_1 taskId=task_1 stepId=step_2 toolCallId=tool_2 | {"toolName":"read_file","safeArgs":{"path":"x"},"policy":"allowed"}
tool.failed | threadId=thread_1 turnId=turn_1 taskId=task_1 stepId=step_2 toolCallId=tool_2 | {"toolName":"read_file","errorCategory":"not_found","retryable":false}
context.compaction.started | TURN | {"trigger":"context_full"}
context.compaction.completed | TURN | {"trigger":"context_full","affectedTurns":["turn_0"],"summaryRef":"output://2"}
queue.changed | threadId=thread_1 | {"queue":[],"reason":"started"}
job.created | jobId=job_1 | {"status":"pending"}
job.started | jobId=job_1 | {"status":"running"}
job.completed | jobId=job_1 | {"status":"completed"}
history.rollback.started | threadId=thread_1 | {"targetTurnId":"turn_0"}
history.rollback.completed | threadId=thread_1 | {"targetTurnId":"turn_0"}
snapshot.repaired | | {"reason":"retention","status":"stale"}
benchmark.dataset.resolved | BENCHMARK | {}
benchmark.trial.started | TURN BENCHMARK REFS | {"status":"running"}
benchmark.trial.completed | TURN BENCHMARK REFS | {"status":"completed"}
benchmark.reward.recorded | TURN BENCHMARK REFS REWARD | {"value":1}
benchmark.comparison.completed | BENCHMARK REFS COMPARISON | {"decision":"hold"}
evidence.changed | TURN evidenceId=evidence_1 | {"packRef":"evidence://1"}
turn.completed | TURN | {"status":"completed","outcome":"success"}
task.attempt.completed | threadId=thread_1 turnId=turn_1 taskId=task_1 runId=run_2 | {"status":"completed"}
task.completed | taskId=task_1 | {"status":"completed"}
`

// validShort are the short words of validEvents.
var validShort = strings.NewReplacer(
	"TURN", "threadId=thread_1 turnId=turn_1 taskId=task_1 runId=run_1",
	"TOOL", "threadId=thread_1 turnId=turn_1 taskId=task_1 stepId=step_1 toolCallId=tool_1",
)

// validMembers are members of the envelope that are objects.
var validMembers = map[string]string{
	"BENCHMARK":  `"benchmark":{"datasetId":"small-fixes","datasetVersion":"1","taskId":"a","trialId":"trial_1","configurationId":"base","role":"baseline"}`,
	"REFS":       `"refs":{"trajectoryRef":"output://3"}`,
	"REWARD":     `"reward":{"value":1,"criteria":["tests pass"]}`,
	"COMPARISON": `"comparison":{"meanRewardDelta":0.5,"timeoutRateDelta":0,"evidenceCompletenessRate":1,"decision":"hold"}`,
}

// validStream returns the events of a session that conforms.
func validStream() []object {
	var out []object
	for line := range strings.SplitSeq(strings.TrimSpace(validEvents), "\n") {
		parts := strings.SplitN(line, "|", 3)
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		n := len(out) + 1
		var b strings.Builder
		fmt.Fprintf(&b, `{"type":%q,"eventId":"evt_%03d","timestamp":"2026-05-11T10:%02d:%02dZ","schemaVersion":%q,"runtimeId":"runtime_1","sessionId":"sess_1","sequence":%d`,
			parts[0], n, n/60, n%60, strictVersion, n)
		for word := range strings.FieldsSeq(validShort.Replace(parts[1])) {
			if m, ok := validMembers[word]; ok {
				b.WriteString("," + m)
				continue
			}
			name, id, _ := strings.Cut(word, "=")
			fmt.Fprintf(&b, ",%q:%q", name, id)
		}
		b.WriteString(`,"payload":` + parts[2] + "}")
		out = append(out, parse(b.String()))
	}
	return out
}

// validDocuments conform, one of each kind.
var validDocuments = map[string]string{
	"snapshot": `{
		"schemaVersion":"lime-profile-0.4.0","runtimeId":"runtime_1","sessionId":"sess_1","updatedAt":"2026-05-11T10:05:00Z",
		"threads":[{"threadId":"thread_1","status":"completed","activeTurnId":"turn_1","turns":[{"turnId":"turn_1","status":"completed"}],
			"pendingRequests":[],"queuedTurns":[],"incidents":[],"evidenceSummary":{"evidenceRefs":["evidence_1"]}}],
		"tasks":[{"taskId":"task_1","sessionId":"sess_1","status":"completed","currentRunId":"run_2",
			"attempts":[{"runId":"run_1","status":"failed"},{"runId":"run_2","status":"completed"}]}],
		"taskSummary":{"active":0,"completed":1},"routingLimitSummary":{"candidateCount":1},"telemetrySummary":{"joinStatus":"joined"},"evidenceRefs":["evidence_1"]}`,
	"thread": `{"threadId":"thread_1","status":"blocked","phase":"waiting_permission","activeTurnId":"turn_1","turns":[{"turnId":"turn_1","status":"blocked"}],
		"pendingRequests":[{"actionId":"action_1","turnId":"turn_1","status":"pending"}],"queuedTurns":[],"incidents":[],"evidenceSummary":{}}`,
	"task": `{"taskId":"task_1","sessionId":"sess_1","status":"completed","visibility":"foreground","currentRunId":"run_2",
		"attempts":[{"runId":"run_1","status":"failed"},{"runId":"run_2","status":"completed"}],"relationships":[{"kind":"parent","targetId":"task_0"}]}`,
	"pack": `{"evidenceId":"evidence_1","runtimeCorrelation":{"runtimeId":"runtime_1","sessionId":"sess_1","threadId":"thread_1"},"events":[]}`,
	"trial": `{"schemaVersion":"lime-profile-0.4.0",
		"benchmark":{"datasetId":"small-fixes","datasetVersion":"1","taskId":"a","trialId":"trial_1","configurationId":"cand","role":"candidate"},
		"runtimeCorrelation":{"runtimeId":"runtime_1","sessionId":"sess_1"},
		"refs":{"trajectoryRef":"output://3","runtimeTranscriptRef":"output://4","artifactManifestRef":"output://5"},
		"metrics":{"reward":1},"decisionInputs":{"p0QcGateRegressionCount":0,"promotionEligible":true},"reward":{"value":1}}`,
}

// brokenDocuments are the ways in which the valid documents are broken.
var brokenDocuments = []struct {
	check, of string
	change    func(object)
}{
	{"snapshot.members", "snapshot", func(o object) { o["threads"] = object{} }},
	{"snapshot.profile", "snapshot", func(o object) { delete(o, "taskSummary") }},
	{"snapshot.thread", "snapshot", func(o object) { list(o, "threads")[0]["status"] = "dreaming" }},
	{"snapshot.thread_profile", "snapshot", func(o object) { delete(list(o, "threads")[0], "incidents") }},
	{"snapshot.turn", "snapshot", func(o object) { delete(list(list(o, "threads")[0], "turns")[0], "status") }},
	{"snapshot.threads_unique", "snapshot", func(o object) { o["threads"] = append(o["threads"].([]any), o["threads"].([]any)...) }},
	{"snapshot.turns_unique", "snapshot", func(o object) {
		t := list(o, "threads")[0]
		t["turns"] = append(t["turns"].([]any), t["turns"].([]any)...)
	}},
	{"snapshot.task_session", "snapshot", func(o object) { list(o, "tasks")[0]["sessionId"] = "sess_other" }},
	{"snapshot.waiting", "thread", func(o object) { o["status"] = "completed" }},
	{"task.record", "task", func(o object) { o["status"] = "dreaming" }},
	{"task.attempt", "task", func(o object) { list(o, "attempts")[0]["status"] = "lost" }},
	{"task.attempts_kept", "task", func(o object) { list(o, "attempts")[0]["runId"] = "run_2" }},
	{"task.current_run", "task", func(o object) { o["currentRunId"] = "run_9" }},
	{"task.reconciled", "task", func(o object) { list(o, "attempts")[1]["status"] = "running" }},
	{"task.relationship", "task", func(o object) { delete(list(o, "relationships")[0], "targetId") }},
	{"pack.correlation", "pack", func(o object) { delete(member(o, "runtimeCorrelation"), "sessionId") }},
	{"trial.correlation", "trial", func(o object) { delete(member(o, "runtimeCorrelation"), "runtimeId") }},
	{"trial.benchmark", "trial", func(o object) { delete(member(o, "benchmark"), "configurationId") }},
	{"trial.refs", "trial", func(o object) { delete(member(o, "refs"), "trajectoryRef") }},
	{"trial.honest", "trial", func(o object) { delete(member(o, "decisionInputs"), "p0QcGateRegressionCount") }},
}
