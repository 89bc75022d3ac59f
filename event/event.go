package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Type names what happened, for example "turn.submitted". The constants are
// generated from the catalogue.
type Type string

// Schema versions that an envelope may carry.
const (
	// SchemaStandard marks a type of the Agent Runtime standard. "Lime" is the
	// standard's name for its strict profile, and 0.4.0 the standard's version.
	SchemaStandard = "lime-profile-0.4.0"
	// SchemaExtension marks a type of agentd's own.
	SchemaExtension = "agentd-1"
)

// NotApplicable stands where the strict profile demands an id that the fact
// doesn't have, such as the tool call of "tool.catalog.resolved". It is never
// replaced by an invented id.
const NotApplicable = "not_applicable"

// RuntimeSession is the session that holds the facts that belong to no user's
// session: the host's policy, channels, permissions asked outside a session.
const RuntimeSession = "sess_runtime"

// Event is one fact: an envelope and its payload.
//
// RuntimeID, ID, Time and Sequence are set by the session's writer when the
// event is appended; code that produces an event leaves them empty.
type Event struct {
	Type      Type
	ID        string
	Time      time.Time
	RuntimeID string
	SessionID string
	Sequence  uint64

	Scope

	Payload Payload

	// Refs points to large or foreign facts: name to reference.
	Refs map[string]string
	// Benchmark is set on benchmark.* events, which must carry it.
	Benchmark *Benchmark
	// Reward is set on benchmark.reward.recorded, which must carry it.
	Reward *Reward
	// Comparison is set on benchmark.comparison.completed, which must carry it.
	Comparison *Comparison
}

// Scope is the set of ids that say what a fact belongs to. An empty string
// means that the fact doesn't carry that id.
type Scope struct {
	// ThreadID is the thread, a line of turns.
	ThreadID string
	// TurnID is the turn.
	TurnID string
	// TaskID is the task that the work is for.
	TaskID string
	// RunID is the run, one execution of a turn or a task.
	RunID string
	// AttemptID is the attempt at the task.
	AttemptID string
	// ParentTaskID is the task that the task is a part of.
	ParentTaskID string
	// RootTaskID is the task at the top of the task's tree.
	RootTaskID string
	// StepID is the step of the turn; all facts of one call share it.
	StepID string
	// ToolCallID is the tool call.
	ToolCallID string
	// ActionID is the action, a decision or an input that is waited for.
	ActionID string
	// SubagentID is the subagent.
	SubagentID string
	// ArtifactID is the deliverable.
	ArtifactID string
	// EvidenceID is the evidence.
	EvidenceID string
	// ProcessID is the process.
	ProcessID string
	// ChannelID is the channel, the connection of a peer.
	ChannelID string
	// JobID is the job.
	JobID string
	// JobItemID is the item of the job.
	JobItemID string
	// ModelRequestID is the request to a model.
	ModelRequestID string
	// RequestID is the request of a client that led to it.
	RequestID string
	// TraceID is the trace that it belongs to, as telemetry shows it.
	TraceID string
	// SpanID is the span that it belongs to, as telemetry shows it.
	SpanID string
}

// Payload is the typed content of an event. The set is closed: every payload
// is a pointer to a struct of this package that the catalogue names, and its
// methods are generated.
type Payload interface {
	// appendJSON appends the payload as a JSON object.
	appendJSON(dst []byte) []byte
	// fieldDecoder reads what appendJSON wrote. It gives up, with the payload in any
	// state, at whatever else it meets, valid JSON or not.
	fieldDecoder
	// check reports the first field that doesn't fit.
	check() error
}

// Raw is a JSON value that agentd carries but doesn't interpret: a tool's
// arguments, a caller's metadata, a schema. It is kept as it came, without
// insignificant white space. Nil and empty mean absent.
type Raw = json.RawMessage

// SchemaVersion returns the schema that an event of type t satisfies.
func (t Type) SchemaVersion() string {
	if d, ok := Lookup(t); ok {
		return d.schemaVersion()
	}
	return SchemaStandard
}

// Check reports why e can't be appended, or nil. It checks e against the
// catalogue: a known type, the right payload, every id that the type needs,
// and payload fields that fit. It doesn't look at the fields that the session's
// writer sets.
func Check(e *Event) error {
	d, ok := Lookup(e.Type)
	if !ok {
		return fmt.Errorf("event: type %q is not in the catalogue", e.Type)
	}
	if e.SessionID == "" {
		return fmt.Errorf("event: %s: sessionId is missing", e.Type)
	}
	if missing := e.missing(d.Needs); missing != 0 {
		return fmt.Errorf("event: %s: %s is missing", e.Type, missing)
	}
	if e.Payload == nil || payloadIndex(e.Payload) != d.payloadIndex {
		return fmt.Errorf("event: %s: payload is %T, the catalogue says %s", e.Type, e.Payload, d.PayloadName())
	}
	if err := e.Payload.check(); err != nil {
		return fmt.Errorf("event: %s: payload: %w", e.Type, err)
	}
	if e.Benchmark != nil {
		if err := e.Benchmark.check(); err != nil {
			return fmt.Errorf("event: %s: benchmark: %w", e.Type, err)
		}
	}
	if e.Reward != nil {
		if err := e.Reward.check(); err != nil {
			return fmt.Errorf("event: %s: reward: %w", e.Type, err)
		}
	}
	if e.Comparison != nil {
		if err := e.Comparison.check(); err != nil {
			return fmt.Errorf("event: %s: comparison: %w", e.Type, err)
		}
	}
	return nil
}
