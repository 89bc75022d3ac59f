package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"agentd/event"
)

// maxAdvisedEvent is the size from which an event surely carries what belongs behind
// a reference.
const maxAdvisedEvent = 256 << 10

// standardTypes are the types of the standard's list.
var standardTypes = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, d := range event.Catalog() {
		if !d.Extension {
			out[string(d.Type)] = true
		}
	}
	return out
})

// scopeIDs are the ids that the strict profile demands of types.
var scopeIDs = []struct {
	types *regexp.Regexp
	ids   []string
}{
	{regexp.MustCompile(`^thread\.`), []string{"threadId"}},
	{regexp.MustCompile(`^(turn|model|reasoning|tool|action|permission|sandbox|hook|context|routing|cost|rate_limit|quota)\.`), []string{"threadId", "turnId"}},
	{regexp.MustCompile(`^tool\.`), []string{"stepId", "toolCallId"}},
	{regexp.MustCompile(`^action\.`), []string{"actionId"}},
	{regexp.MustCompile(`^task\.`), []string{"taskId"}},
	{regexp.MustCompile(`^task\.attempt\.`), []string{"runId"}},
	{regexp.MustCompile(`^subagent\.`), []string{"subagentId"}},
	{regexp.MustCompile(`^evidence\.changed$`), []string{"evidenceId"}},
	{regexp.MustCompile(`^benchmark\.(trial|reward)\.`), []string{"taskId", "runId"}},
	{regexp.MustCompile(`^benchmark\.trial\.started$`), []string{"threadId", "turnId"}},
}

// envelopeIDs are all ids of the envelope.
var envelopeIDs = []string{
	"sessionId", "threadId", "turnId", "taskId", "runId", "attemptId", "parentTaskId", "rootTaskId", "stepId", "toolCallId", "actionId", "subagentId",
	"artifactId", "evidenceId", "requestId", "processId", "channelId", "jobId", "jobItemId", "modelRequestId", "queueId",
}

// envelopeObjects are the members of the envelope that hold structured facts.
var envelopeObjects = []string{
	"refs", "task", "taskAttempt", "taskRelationship", "taskGraph", "taskProgress", "taskAcceptance", "worker", "deliveryState", "permissionDecision",
	"sandboxProfile", "routingDecision", "candidateModelSet", "taskProfile", "limitState", "limitEvent", "costState", "hookRun", "executionEnvironment",
	"channel", "job", "jobItem", "output", "historyBoundary", "telemetry", "correlation", "benchmark", "trajectory", "reward", "comparison",
}

func envelopeChecks() []Check {
	const envelope, profile = "Specification, Event envelope", "Lime AgentRuntime profile"
	return []Check{
		{ID: "event.identity", Scope: Event, Level: Must, Paragraph: envelope, Says: "An event has a type and an event id.", event: func(f *fact) []string {
			return required(f.object, want{"type", isText, "a text"}, want{"eventId", isText, "a text"})
		}},
		{ID: "event.timestamp", Scope: Event, Level: Must, Paragraph: envelope, Says: "An event has its producer's timestamp, as RFC 3339 writes it.", event: func(f *fact) []string {
			return required(f.object, want{"timestamp", isTime, "a time"})
		}},
		{ID: "event.sequence", Scope: Event, Level: Must, Paragraph: envelope, Says: "A sequence is a number from 0 on.", event: func(f *fact) []string {
			return optional(f.object, want{"sequence", isCount, "a number from 0 on"})
		}},
		{ID: "event.ids", Scope: Event, Level: Must, Paragraph: "Specification, Required identity model", Says: "An id that is there is a text that isn't empty.", event: checkIDs},
		{ID: "event.members", Scope: Event, Level: Must, Paragraph: envelope, Says: "Members of the envelope that hold structured facts are objects.", event: checkObjects},
		{ID: "event.profile", Scope: Event, Level: Must, Paragraph: profile, Says: "An event of the strict profile has a runtime, a session, a sequence and an object as its payload.", event: checkProfile},
		{ID: "event.type", Scope: Event, Level: Must, Paragraph: "Specification, Standard event classes", Says: "An event of the strict profile has a type of the standard's list; types of a vendor carry a schema version of their own.", event: func(f *fact) []string {
			if f.strict() && f.typ != "" && !standardTypes()[f.typ] {
				return []string{fmt.Sprintf("type %q is not in the standard's list", f.typ)}
			}
			return nil
		}},
		{ID: "event.scope", Scope: Event, Level: Must, Paragraph: profile, Says: "An event of the strict profile carries the ids of its scope, or not_applicable.", event: checkScope},
		{ID: "event.benchmark", Scope: Event, Level: Must, Paragraph: "Benchmark trials, Events", Says: "A benchmark's event carries benchmark, and refs, reward or comparison where its type has them.", event: checkBenchmark},
		{ID: "event.versioned", Scope: Event, Level: Should, Paragraph: envelope, Says: "An event says which schema it satisfies.", event: func(f *fact) []string {
			return required(f.object, want{"schemaVersion", isText, "a text"})
		}},
		{ID: "event.size", Scope: Event, Level: Should, Paragraph: "Runtime event stream, Large data", Says: "Large outputs, packs and raw payloads are behind references.", event: func(f *fact) []string {
			if f.size > maxAdvisedEvent {
				return []string{fmt.Sprintf("the event has %d bytes", f.size)}
			}
			return nil
		}},
	}
}

func checkIDs(f *fact) []string {
	var out []string
	for _, name := range envelopeIDs {
		out = append(out, optional(f.object, want{name, isText, "a text that isn't empty"})...)
	}
	return out
}

func checkObjects(f *fact) []string {
	var out []string
	for _, name := range envelopeObjects {
		out = append(out, optional(f.object, want{name, isObject, "an object"})...)
	}
	return out
}

func checkProfile(f *fact) []string {
	if !f.strict() {
		return nil
	}
	out := required(f.object, want{"runtimeId", isText, "a text"}, want{"payload", isObject, "an object"})
	for _, name := range []string{"sessionId", "sequence"} {
		if _, there := f.object[name]; !there { // what else it is, others say
			out = append(out, name+" is missing")
		}
	}
	return out
}

func checkScope(f *fact) []string {
	if !f.strict() {
		return nil
	}
	var missing []string
	for _, s := range scopeIDs {
		if !s.types.MatchString(f.typ) {
			continue
		}
		for _, id := range s.ids {
			if _, there := f.object[id]; !there && !slices.Contains(missing, id) {
				missing = append(missing, id)
			}
		}
	}
	for i, id := range missing {
		missing[i] = fmt.Sprintf("%s needs %s", f.typ, id)
	}
	return missing
}

var benchmarkMembers = map[string][]string{
	"benchmark.trial.started": {"refs"}, "benchmark.trial.completed": {"refs"}, "benchmark.trial.failed": {"refs"},
	"benchmark.reward.recorded": {"refs"}, "benchmark.comparison.completed": {"refs", "comparison"},
}

func checkBenchmark(f *fact) []string {
	if !f.strict() || len(f.typ) < 10 || f.typ[:10] != "benchmark." {
		return nil
	}
	var out []string
	for _, name := range append([]string{"benchmark"}, benchmarkMembers[f.typ]...) {
		if _, there := f.object[name]; !there {
			out = append(out, fmt.Sprintf("%s needs %s", f.typ, name))
		}
	}
	if b := member(f.object, "benchmark"); b != nil {
		out = append(out, optional(b, want{"role", isOneOf("baseline", "candidate", "control"), "baseline, candidate or control"})...)
	}
	if r := member(f.object, "reward"); r != nil {
		out = append(out, optional(r, want{"value", isNumber, "a number"}, want{"criteria", isList, "a list"})...)
	}
	if c := member(f.object, "comparison"); c != nil {
		out = append(out, optional(c,
			want{"meanRewardDelta", isNumber, "a number"}, want{"timeoutRateDelta", isNumber, "a number"},
			want{"evidenceCompletenessRate", isNumber, "a number"}, want{"p0QcGateRegressionCount", isCount, "a number from 0 on"})...)
	}
	return out
}
