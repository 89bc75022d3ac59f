package conformance

import "slices"

// Scope says what a check looks at.
type Scope string

// The scopes.
const (
	// Input is what is read before it is known what it is.
	Input Scope = "input"
	// Event is one event.
	Event Scope = "event"
	// Stream is the events of one source, in their order.
	Stream Scope = "stream"
	// Snapshot is a session snapshot, and each of its threads.
	Snapshot Scope = "snapshot"
	// Task is a task's record, alone or in a snapshot.
	Task Scope = "task"
	// Across is several documents of one session: its stream and its snapshots.
	Across Scope = "across"
	// Pack is an exported evidence pack.
	Pack Scope = "pack"
	// Trial is the pack of a benchmark trial.
	Trial Scope = "trial"
)

// Level is how strongly the standard says something.
type Level string

// The levels. A document that lacks what it should have still conforms.
const (
	Must   Level = "must"
	Should Level = "should"
)

// Check is one requirement of the standard.
type Check struct {
	// ID names the check in reports, for ever.
	ID    string `json:"id"`
	Scope Scope  `json:"scope"`
	Level Level  `json:"level"`
	// Paragraph is where the standard says it.
	Paragraph string `json:"paragraph"`
	// Says is the requirement in our words.
	Says string `json:"says"`

	// One of these is set, as the scope demands; those of the input and across documents
	// are made by the checker itself.
	event    func(*fact) []string
	stream   func(Limits) observer
	document func(object) []string
}

// observer is a check of a stream while it is read.
type observer interface {
	// observe returns what is wrong with an event after those before it.
	observe(f *fact) []string
	// full reports whether something had to be forgotten.
	full() bool
}

// Checks returns all checks, in the order of the reference.
func Checks() []Check {
	return slices.Concat(inputChecks(), envelopeChecks(), payloadChecks(), streamChecks(), snapshotChecks(), taskChecks(), acrossChecks(), packChecks())
}

// The checks of the input, which the reader itself makes.
const (
	checkJSON   = "input.json"
	checkKind   = "input.kind"
	checkBounds = "input.bounds"
	checkEmpty  = "input.empty"
)

func inputChecks() []Check {
	return []Check{
		{ID: checkJSON, Scope: Input, Level: Must, Paragraph: "Runtime event stream, Envelope", Says: "A document is JSON, and a line of a stream is one JSON object."},
		{ID: checkKind, Scope: Input, Level: Must, Paragraph: "Specification, Scope", Says: "A document is an event, a snapshot, a thread, a task or a pack."},
		{ID: checkBounds, Scope: Input, Level: Must, Paragraph: "Runtime event stream, Large data", Says: "Large data is behind references: no event and no document is larger than can be read."},
		{ID: checkEmpty, Scope: Input, Level: Must, Paragraph: "Specification, Profiles and conformance", Says: "There is something to check: an event, or another document. What has none is neither right nor wrong, so it is no proof of anything."},
	}
}
