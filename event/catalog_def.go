package event

import (
	"iter"
	"reflect"
	"strings"
	"sync"
)

// Family groups the types that describe one thing.
type Family string

// The families, in the order in which the reference lists them.
const (
	FamilySession    Family = "session"
	FamilyThread     Family = "thread"
	FamilyTurn       Family = "turn"
	FamilyTask       Family = "task"
	FamilyRun        Family = "run"
	FamilyModel      Family = "model"
	FamilyReasoning  Family = "reasoning"
	FamilyTool       Family = "tool"
	FamilyAction     Family = "action"
	FamilyQueue      Family = "queue"
	FamilyContext    Family = "context"
	FamilyArtifact   Family = "artifact"
	FamilyEvidence   Family = "evidence"
	FamilySubagent   Family = "subagent"
	FamilyLimit      Family = "limit"
	FamilySnapshot   Family = "snapshot"
	FamilyRuntime    Family = "runtime"
	FamilyPermission Family = "permission"
	FamilySandbox    Family = "sandbox"
	FamilyHook       Family = "hook"
	FamilyPolicy     Family = "policy"
	FamilyProcess    Family = "process"
	FamilyRouting    Family = "routing"
	FamilyChannel    Family = "channel"
	FamilyJob        Family = "job"
	FamilySchedule   Family = "schedule"
	FamilyOutput     Family = "output"
	FamilyHistory    Family = "history"
	FamilyBenchmark  Family = "benchmark"
)

// Emitter is a part of agentd that appends facts. Emitters combine with |.
type Emitter uint8

// The emitters.
const (
	// BySession is the decision of a command against the session's state.
	BySession Emitter = 1 << iota
	// ByLoop is the execution of turns, recovery included.
	ByLoop
	// ByWork is the scheduler of tasks, subagents, jobs and schedules.
	ByWork
	// ByChannel is a remote channel or a protocol adapter.
	ByChannel
	// ByEvidence is the export of evidence, replays, reviews and trials.
	ByEvidence
	// ByRuntime is the runtime itself: warnings, errors, snapshots, retention.
	ByRuntime
)

var emitterNames = []string{"session", "loop", "work", "channel", "evidence", "runtime"}

// String lists the emitters by name.
func (m Emitter) String() string {
	var names []string
	for i, n := range emitterNames {
		if m&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// Needs is the set of envelope fields that a type must carry.
type Needs uint32

// What a type can need. Session is implied: every event has one.
const (
	Thread Needs = 1 << iota
	Turn
	Task
	Run
	Attempt
	Step
	ToolCall
	Action
	Subagent
	Artifact
	Evidence
	Process
	Channel
	Job
	JobItem
	ModelRequest
	Refs
	BenchmarkInfo
	ComparisonInfo
	RewardInfo
)

var needNames = []string{
	"threadId", "turnId", "taskId", "runId", "attemptId", "stepId", "toolCallId", "actionId",
	"subagentId", "artifactId", "evidenceId", "processId", "channelId", "jobId", "jobItemId",
	"modelRequestId", "refs", "benchmark", "comparison", "reward",
}

// Names returns the wire names of the fields in n.
func (n Needs) Names() []string {
	var names []string
	for i, s := range needNames {
		if n&(1<<i) != 0 {
			names = append(names, s)
		}
	}
	return names
}

// String joins the names with commas.
func (n Needs) String() string { return strings.Join(n.Names(), ", ") }

// Common scopes.
const (
	inTurn = Thread | Turn
	inTool = Thread | Turn | Step | ToolCall
)

// missing returns the needs that e doesn't satisfy.
func (e *Event) missing(needs Needs) Needs {
	var out Needs
	for left := needs; left != 0; left &= left - 1 {
		if n := left & -left; !e.carries(n) {
			out |= n
		}
	}
	return out
}

// carries reports whether e has the one field that n names.
func (e *Event) carries(n Needs) bool {
	switch n { //nolint:exhaustive // inTurn and inTool are sets, not fields
	case Thread:
		return e.ThreadID != ""
	case Turn:
		return e.TurnID != ""
	case Task:
		return e.TaskID != ""
	case Run:
		return e.RunID != ""
	case Attempt:
		return e.AttemptID != ""
	case Step:
		return e.StepID != ""
	case ToolCall:
		return e.ToolCallID != ""
	case Action:
		return e.ActionID != ""
	case Subagent:
		return e.SubagentID != ""
	case Artifact:
		return e.ArtifactID != ""
	case Evidence:
		return e.EvidenceID != ""
	case Process:
		return e.ProcessID != ""
	case Channel:
		return e.ChannelID != ""
	case Job:
		return e.JobID != ""
	case JobItem:
		return e.JobItemID != ""
	case ModelRequest:
		return e.ModelRequestID != ""
	case Refs:
		return e.Refs != nil
	case BenchmarkInfo:
		return e.Benchmark != nil
	case ComparisonInfo:
		return e.Comparison != nil
	case RewardInfo:
		return e.Reward != nil
	}
	return false
}

// Def is the catalogue's entry for one event type.
type Def struct {
	// Type is the name on the wire.
	Type Type
	// Family is the group that the type belongs to.
	Family Family
	// Needs lists the envelope fields that an event of this type must carry.
	Needs Needs
	// Payload is a nil pointer of the payload's type. Several types may share one.
	Payload any
	// By says which parts of agentd may emit the type.
	By Emitter
	// Extension is true for a type that the standard doesn't list.
	Extension bool
	// Since is the first release that emits the type.
	Since string
	// Means is one line that says what happened.
	Means string

	payloadIndex int
}

// PayloadName returns the name of the payload's struct.
func (d *Def) PayloadName() string { return reflect.TypeOf(d.Payload).Elem().Name() }

func (d *Def) schemaVersion() string {
	if d.Extension {
		return SchemaExtension
	}
	return SchemaStandard
}

// Catalog returns the entries of all types, standard ones first, each group in
// the standard's order. The slice is the caller's.
func Catalog() []Def {
	return append([]Def(nil), catalog...)
}

// Types yields all types in the order of [Catalog].
func Types() iter.Seq[Type] {
	return func(yield func(Type) bool) {
		for i := range catalog {
			if !yield(catalog[i].Type) {
				return
			}
		}
	}
}

// Lookup returns the entry of one type.
func Lookup(t Type) (*Def, bool) {
	i, ok := byType()[t]
	if !ok {
		return nil, false
	}
	return &catalog[i], true
}

// TypeOf returns a type by its name, which for those of the catalogue costs no memory.
func TypeOf(name []byte) Type {
	if i, ok := byType()[Type(name)]; ok {
		return catalog[i].Type
	}
	return Type(name)
}

var byType = sync.OnceValue(func() map[Type]int {
	m := make(map[Type]int, len(catalog))
	for i := range catalog {
		d := &catalog[i]
		d.payloadIndex = payloadIndexOf(d.PayloadName())
		m[d.Type] = i
	}
	return m
})
