package evidence

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"agentd/event"
	"agentd/state"
	"agentd/store"
)

// Entry is a fact in a list of a pack: where it is, what it belongs to, and what
// it says in words. The fact itself is among the pack's events.
type Entry struct {
	ActionID   string     `json:"actionId,omitempty"`
	At         time.Time  `json:"at"`
	EventID    string     `json:"eventId"`
	ProcessID  string     `json:"processId,omitempty"`
	RunID      string     `json:"runId,omitempty"`
	Says       string     `json:"says,omitempty"`
	Sequence   uint64     `json:"sequence"`
	SubagentID string     `json:"subagentId,omitempty"`
	TaskID     string     `json:"taskId,omitempty"`
	ThreadID   string     `json:"threadId,omitempty"`
	ToolCallID string     `json:"toolCallId,omitempty"`
	TurnID     string     `json:"turnId,omitempty"`
	Type       event.Type `json:"type"`
	// Content is the payload where the words would not be enough.
	Content any `json:"content,omitempty"`
}

func entryOf(e *event.Event) Entry {
	says, _ := describeFact(e)
	return Entry{
		ActionID: e.ActionID, At: e.Time, EventID: e.ID, ProcessID: e.ProcessID, RunID: e.RunID, Says: says, Sequence: e.Sequence,
		SubagentID: e.SubagentID, TaskID: e.TaskID, ThreadID: e.ThreadID, ToolCallID: applicable(e.ToolCallID), TurnID: e.TurnID, Type: e.Type,
	}
}

func applicable(id string) string {
	if id == event.NotApplicable {
		return ""
	}
	return id
}

// lists are the names of the list sections, in the order of the pack.
var lists = []string{
	"turns", "modelCalls", "toolCalls", "failedCalls", "artifacts", "context", "compactions", "routing", "permission",
	"sandbox", "hooks", "processes", "limits", "tasks", "subagents", "jobs", "channels", "history", "incidents",
	"trials", "verification", "notes", "redactions", "contents",
}

// collector folds the facts of a scope into the sections of a pack.
type collector struct {
	scope Scope
	// readable says whether what is behind a reference can be read now.
	readable func(ref string) bool
	state    *state.Session
	// base replaces the facts that were removed.
	base  *store.Snapshot
	lists map[string]*spool

	timeline timeline
	ids      correlation
	open     map[string]*openCall
	turns    map[string]*turnLine
	refs     map[string]bool
	// sealed counts earlier contents of files, expired contents that are gone,
	// traced and untraced facts by whether they carry a trace id.
	sealed, expired, traced, untraced int64
	degraded                          []string
}

func newCollector(scope Scope, readable func(string) bool) *collector {
	c := &collector{
		scope: scope, readable: readable, state: state.New(scope.SessionID), lists: map[string]*spool{},
		open: map[string]*openCall{}, turns: map[string]*turnLine{}, refs: map[string]bool{},
	}
	c.timeline.Types = map[string]int64{}
	for _, name := range lists {
		c.lists[name] = newSpool()
	}
	return c
}

func (c *collector) close() error {
	var errs []error
	for _, s := range c.lists {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// foldFact folds a fact, and adds it to the sections if it is in scope.
func (c *collector) foldFact(e *event.Event, data []byte) error {
	if _, err := c.state.Apply(e); err != nil {
		return err
	}
	if !c.scope.has(e) {
		return nil
	}
	c.timeline.appendFact(e)
	c.ids.countFact(e)
	c.correlate(e)
	for _, step := range []func(*event.Event) error{c.calls, c.listed, c.records} {
		if err := step(e); err != nil {
			return err
		}
	}
	return c.contents(e, data)
}

// correlate counts the facts that a trace can be joined to, as the read models do.
func (c *collector) correlate(e *event.Event) {
	if e.TraceID != "" {
		c.traced++
	} else {
		c.untraced++
	}
}

// families says which list holds the facts of a family.
var families = map[event.Family]string{
	event.FamilyRouting: "routing", event.FamilyPermission: "permission", event.FamilyAction: "permission", event.FamilyPolicy: "permission",
	event.FamilySandbox: "sandbox", event.FamilyHook: "hooks", event.FamilyProcess: "processes", event.FamilyLimit: "limits",
	event.FamilyTask: "tasks", event.FamilySubagent: "subagents", event.FamilyJob: "jobs", event.FamilyChannel: "channels",
	event.FamilyHistory: "history", event.FamilyRuntime: "incidents", event.FamilyBenchmark: "trials",
}

// listed adds a fact to the list of its family.
func (c *collector) listed(e *event.Event) error {
	d, ok := event.Lookup(e.Type)
	if !ok || e.Type == event.TypeProcessOutput {
		return nil
	}
	name, ok := families[d.Family]
	if !ok {
		return nil
	}
	x := entryOf(e)
	if x.Says == "" || d.Family == event.FamilyLimit || d.Family == event.FamilySandbox {
		x.Content = e.Payload
	}
	if d.Family == event.FamilyBenchmark {
		x.Content = benchmarkFact{e.Benchmark, e.Comparison, e.Payload, e.Refs}
	}
	return c.lists[name].add(x)
}

// benchmarkFact is what a fact of a trial says: which trial it is about stands beside
// its payload.
type benchmarkFact struct {
	Benchmark  *event.Benchmark  `json:"benchmark,omitempty"`
	Comparison *event.Comparison `json:"comparison,omitempty"`
	Payload    event.Payload     `json:"payload"`
	Refs       map[string]string `json:"refs,omitempty"`
}

// records adds what has a list of its own.
func (c *collector) records(e *event.Event) error {
	x := entryOf(e)
	add := func(name string) error {
		x.Content = e.Payload
		return c.lists[name].add(x)
	}
	switch p := e.Payload.(type) {
	case *event.ContextResolved:
		return add("context")
	case *event.CompactionCompleted, *event.CompactionFailed:
		return add("compactions")
	case *event.ArtifactChanged:
		return add("artifacts")
	case *event.OutputRedacted:
		return add("redactions")
	case *event.BenchmarkRewardRecorded: // a verdict from outside
		return add("verification")
	case *event.EvidenceChanged:
		return c.evidence(e, p)
	case *event.OutputExpired:
		c.expired++
	case *event.HistoryReconstructed:
		if p.Degraded {
			c.degraded = append(c.degraded, e.ID)
		}
	}
	return nil
}

func (c *collector) evidence(e *event.Event, p *event.EvidenceChanged) error {
	x := entryOf(e)
	if len(p.VerificationOutcomes) > 0 {
		x.Content = p.VerificationOutcomes
		if err := c.lists["verification"].add(x); err != nil {
			return err
		}
	}
	if p.Note == "" {
		return nil
	}
	x.Content, x.Says = nil, p.Note
	return c.lists["notes"].add(x)
}

// Content is something that facts refer to.
type Content struct {
	// EventID and Sequence are those of the first fact that refers to it.
	EventID  string `json:"eventId"`
	Ref      string `json:"ref"`
	Sequence uint64 `json:"sequence"`
	// Status is stored, or unavailable: expired, or not for export.
	Status string `json:"status"`
}

// contents adds what a fact refers to, each once.
func (c *collector) contents(e *event.Event, data []byte) error {
	for _, ref := range store.RefsIn(data, math.MaxInt, notExported) {
		if c.refs[ref] {
			continue
		}
		c.refs[ref] = true
		x := Content{EventID: e.ID, Ref: ref, Sequence: e.Sequence, Status: "unavailable"}
		if c.readable != nil && c.readable(ref) {
			x.Status = "stored"
		}
		if err := c.lists["contents"].add(x); err != nil {
			return err
		}
	}
	return nil
}

// notExported is a member that refers to what is never exported: earlier contents of
// files serve to restore them and nothing else.
const notExported = `"beforeRef":`

// timeline counts facts.
type timeline struct {
	Events        int64            `json:"events"`
	FirstAt       time.Time        `json:"firstAt"`
	FirstSequence uint64           `json:"firstSequence"`
	LastAt        time.Time        `json:"lastAt"`
	LastSequence  uint64           `json:"lastSequence"`
	Types         map[string]int64 `json:"types"`
}

func (t *timeline) appendFact(e *event.Event) {
	if t.Events == 0 {
		t.FirstAt, t.FirstSequence = e.Time, e.Sequence
	}
	t.Events++
	t.LastAt, t.LastSequence = e.Time, e.Sequence
	t.Types[string(e.Type)]++
}

// sortedBy returns the values of a map in the order of a number.
func sortedBy[V any](m map[string]V, key func(V) uint64) []V {
	return slices.SortedFunc(maps.Values(m), func(a, b V) int { return cmp.Compare(key(a), key(b)) })
}
