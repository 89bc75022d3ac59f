package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

var (
	threadStatuses  = []string{"idle", "queued", "running", "blocked", "completed", "failed", "cancelled", "stale", "unknown"}
	attemptStatuses = []string{"idle", "queued", "preparing", "running", "blocked", "streaming", "retrying", "completed", "failed", "cancelled", "stale", "unknown", "unavailable", "not_applicable"}
	taskStatuses    = []string{
		"draft", "accepted", "queued", "preparing", "running", "waiting_input", "waiting_permission", "waiting_resource", "blocked", "paused", "retrying",
		"cancelling", "cancelled", "timed_out", "failed", "lost", "completed", "archived", "stale", "unknown",
	}
	visibilities = []string{"foreground", "background", "internal", "hidden", "unknown"}
)

func oneOf(name string, words []string) want {
	return want{name, isOneOf(words...), "one of " + strings.Join(words, ", ")}
}

func strictDocument(o object) bool { return text(o, "schemaVersion") == strictVersion }

func snapshotChecks() []Check {
	const session, thread, profile = "State snapshots, Session snapshot", "State snapshots, Thread read model", "Lime AgentRuntime profile"
	return []Check{
		{ID: "snapshot.members", Scope: Snapshot, Level: Must, Paragraph: session, Says: "A snapshot says which session and schema it is of, and lists its threads.", document: func(o object) []string {
			return required(o, want{"schemaVersion", isText, "a text"}, want{"sessionId", isText, "a text"}, want{"threads", isList, "a list"})
		}},
		{ID: "snapshot.profile", Scope: Snapshot, Level: Must, Paragraph: profile, Says: "A snapshot of the strict profile has a runtime, a time, at least one thread, its tasks and the summaries of tasks, routing, telemetry and evidence.", document: checkSnapshotProfile},
		{ID: "snapshot.thread", Scope: Snapshot, Level: Must, Paragraph: thread, Says: "A thread has an id and one of the thread's statuses.", document: eachThread(func(_, t object) []string {
			return required(t, want{"threadId", isText, "a text"}, oneOf("status", threadStatuses))
		})},
		{ID: "snapshot.thread_profile", Scope: Snapshot, Level: Must, Paragraph: profile, Says: "A thread of the strict profile has turns, pending requests, queued turns, incidents and a summary of its evidence.", document: eachThread(func(o, t object) []string {
			if !strictDocument(o) {
				return nil
			}
			return required(t, want{"turns", isList, "a list"}, want{"pendingRequests", isList, "a list"}, want{"queuedTurns", isList, "a list"},
				want{"incidents", isList, "a list"}, want{"evidenceSummary", isObject, "an object"})
		})},
		{ID: "snapshot.turn", Scope: Snapshot, Level: Must, Paragraph: thread, Says: "A turn has an id and a status.", document: eachThread(func(_, t object) []string {
			var out []string
			for _, turn := range list(t, "turns") {
				out = append(out, required(turn, want{"turnId", isText, "a text"}, want{"status", isText, "a text"})...)
			}
			return out
		})},
		{ID: "snapshot.threads_unique", Scope: Snapshot, Level: Must, Paragraph: "Specification, Required identity model (thread_id)", Says: "A snapshot has each thread once.", document: func(o object) []string {
			return repeated(list(o, "threads"), "threadId")
		}},
		{ID: "snapshot.turns_unique", Scope: Snapshot, Level: Must, Paragraph: "Specification, Required identity model (turn_id)", Says: "A thread has each turn once.", document: eachThread(func(_, t object) []string {
			return repeated(list(t, "turns"), "turnId")
		})},
		{ID: "snapshot.task_session", Scope: Snapshot, Level: Must, Paragraph: "Specification, Required identity model (task_id)", Says: "A snapshot's tasks are of its own session.", document: func(o object) []string {
			var out []string
			for _, t := range list(o, "tasks") {
				if s := text(t, "sessionId"); s != "" && s != text(o, "sessionId") {
					out = append(out, fmt.Sprintf("task %s is of session %s", text(t, "taskId"), s))
				}
			}
			return out
		}},
		{ID: "snapshot.waiting", Scope: Snapshot, Level: Must, Paragraph: "State snapshots, Snapshot honesty", Says: "A thread whose active turn waits for an answer is not completed.", document: eachThread(checkWaiting)},
	}
}

func checkSnapshotProfile(o object) []string {
	if !strictDocument(o) {
		return nil
	}
	out := required(o, want{"runtimeId", isText, "a text"}, want{"updatedAt", isTime, "a time"}, want{"tasks", isList, "a list"},
		want{"taskSummary", isObject, "an object"}, want{"routingLimitSummary", isObject, "an object"},
		want{"telemetrySummary", isObject, "an object"}, want{"evidenceRefs", isList, "a list"})
	if threads, ok := o["threads"].([]any); ok && len(threads) == 0 {
		out = append(out, "threads is empty")
	}
	return out
}

// checkWaiting looks at pending requests of the turn that the thread calls active.
func checkWaiting(_, t object) []string {
	if text(t, "status") != "completed" || text(t, "activeTurnId") == "" {
		return nil
	}
	for _, r := range list(t, "pendingRequests") {
		if text(r, "turnId") == text(t, "activeTurnId") && (text(r, "status") == "" || text(r, "status") == "pending") {
			return []string{fmt.Sprintf("thread %s is completed while action %s is pending", text(t, "threadId"), text(r, "actionId"))}
		}
	}
	return nil
}

// eachThread applies a check to all threads of a snapshot, or to the one that the
// document is.
func eachThread(check func(o, thread object) []string) func(object) []string {
	return func(o object) []string {
		if _, snapshot := o["threads"]; !snapshot {
			return check(object{}, o)
		}
		var out []string
		for _, t := range list(o, "threads") {
			out = append(out, check(o, t)...)
		}
		return out
	}
}

// repeated says which ids are there twice.
func repeated(all []object, name string) []string {
	seen := map[string]bool{}
	var out []string
	for _, o := range all {
		id := text(o, name)
		if id != "" && seen[id] {
			out = append(out, fmt.Sprintf("%s %s is there twice", name, id))
		}
		seen[id] = true
	}
	return out
}

func taskChecks() []Check {
	const record, attempts = "Agent task, Task record", "Agent task, Attempts and runs"
	return []Check{
		{ID: "task.record", Scope: Task, Level: Must, Paragraph: record, Says: "A task has an id and one of the task's statuses.", document: func(t object) []string {
			return append(required(t, want{"taskId", isText, "a text"}, oneOf("status", taskStatuses)), optional(t, oneOf("visibility", visibilities))...)
		}},
		{ID: "task.attempt", Scope: Task, Level: Must, Paragraph: attempts, Says: "An attempt has a run id and one of the attempt's statuses.", document: func(t object) []string {
			var out []string
			for _, a := range list(t, "attempts") {
				out = append(out, required(a, want{"runId", isText, "a text"}, oneOf("status", attemptStatuses))...)
			}
			return out
		}},
		{ID: "task.attempts_kept", Scope: Task, Level: Must, Paragraph: attempts, Says: "Attempts are kept apart: no two have the same run.", document: func(t object) []string {
			return repeated(list(t, "attempts"), "runId")
		}},
		{ID: "task.current_run", Scope: Task, Level: Must, Paragraph: record, Says: "The current run is one of the attempts, where they are listed.", document: func(t object) []string {
			run, all := text(t, "currentRunId"), list(t, "attempts")
			if run == "" || len(all) == 0 || slices.ContainsFunc(all, func(a object) bool { return text(a, "runId") == run }) {
				return nil
			}
			return []string{fmt.Sprintf("task %s has the current run %s, which is none of its attempts", text(t, "taskId"), run)}
		}},
		{ID: "task.reconciled", Scope: Task, Level: Must, Paragraph: "Agent task, Status model (completed)", Says: "A completed task has no attempt that is still active.", document: func(t object) []string {
			var out []string
			for _, a := range list(t, "attempts") {
				if text(t, "status") == "completed" && slices.Contains([]string{"queued", "preparing", "running", "streaming", "retrying"}, text(a, "status")) {
					out = append(out, fmt.Sprintf("task %s is completed while run %s is %s", text(t, "taskId"), text(a, "runId"), text(a, "status")))
				}
			}
			return out
		}},
		{ID: "task.relationship", Scope: Task, Level: Must, Paragraph: "Agent task, Task record (relationships)", Says: "An edge of the task graph has a kind and a target.", document: func(t object) []string {
			var out []string
			for _, r := range list(t, "relationships") {
				out = append(out, required(r, want{"kind", isText, "a text"}, want{"targetId", isText, "a text"})...)
			}
			return out
		}},
	}
}

func packChecks() []Check {
	return []Check{
		{ID: "pack.correlation", Scope: Pack, Level: Must, Paragraph: "Evidence and replay, Evidence pack", Says: "A pack is joined to the facts it was made from: runtime and session.", document: checkCorrelation},
		{ID: "trial.correlation", Scope: Trial, Level: Must, Paragraph: "Evidence and replay, Benchmark export", Says: "A trial's pack is joined to the runtime's facts.", document: checkCorrelation},
		{ID: "trial.benchmark", Scope: Trial, Level: Must, Paragraph: "Evidence and replay, Benchmark export", Says: "A trial's pack names data set, version, task, trial, configuration and role.", document: func(o object) []string {
			b := member(o, "benchmark")
			return required(b, want{"datasetId", isText, "a text"}, want{"datasetVersion", isText, "a text"}, want{"taskId", isText, "a text"},
				want{"trialId", isText, "a text"}, want{"configurationId", isText, "a text"}, oneOf("role", []string{"baseline", "candidate", "control"}))
		}},
		{ID: "trial.refs", Scope: Trial, Level: Must, Paragraph: "Evidence and replay, Benchmark export", Says: "A trial's pack refers to trajectory, transcript and artifact manifest, or says that they are unavailable.", document: func(o object) []string {
			return required(member(o, "refs"), want{"trajectoryRef", isText, "a text"}, want{"runtimeTranscriptRef", isText, "a text"}, want{"artifactManifestRef", isText, "a text"})
		}},
		{ID: "trial.honest", Scope: Trial, Level: Must, Paragraph: "Specification, Durable snapshots and read models", Says: "Unknown is better than inferred success: a trial is eligible for promotion only with a reward and a count of regressions that is 0.", document: checkEligible},
	}
}

func checkCorrelation(o object) []string {
	c := member(o, "runtimeCorrelation")
	return required(c, want{"runtimeId", isText, "a text"}, want{"sessionId", isText, "a text"})
}

func checkEligible(o object) []string {
	in := member(o, "decisionInputs")
	if in["promotionEligible"] != true {
		return nil
	}
	var out []string
	if n, ok := in["p0QcGateRegressionCount"].(json.Number); !ok || n.String() != "0" {
		out = append(out, "promotionEligible is true although p0QcGateRegressionCount is "+shorten(in["p0QcGateRegressionCount"]))
	}
	if !isNumber(member(o, "reward")["value"]) && !isNumber(member(o, "metrics")["reward"]) {
		out = append(out, "promotionEligible is true without a reward")
	}
	return out
}
