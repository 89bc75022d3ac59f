package evidence

import (
	"fmt"
	"slices"

	"agentd/event"
)

// Status of a signal in a pack.
const (
	// SignalExported: the pack has everything there is.
	SignalExported = "exported"
	// SignalNotApplicable: nothing of the kind happened in the scope.
	SignalNotApplicable = "not_applicable"
	// SignalUnsupported: it applies, but is not exported by this release.
	SignalUnsupported = "unsupported"
	// SignalMissingCorrelation: it applies, but facts lack the ids to join it.
	SignalMissingCorrelation = "missing_correlation"
)

// Signal says what became of one kind of evidence.
type Signal struct {
	Items  int64  `json:"items,omitempty"`
	Reason string `json:"reason,omitempty"`
	Signal string `json:"signal"`
	Status string `json:"status"`
}

// Gap is something that applies to the scope and is not in the pack.
type Gap struct {
	EventIDs []string `json:"eventIds,omitempty"`
	Reason   string   `json:"reason"`
	Signal   string   `json:"signal"`
}

// Several stands in a [Correlation] for an id that there are several of.
const Several = "multiple"

// maxIDs bounds the lists of ids in a pack; the whole is among its events.
const maxIDs = 1000

// correlation collects the ids by which a pack is joined to other records.
type correlation struct {
	lists     [5][]string
	seen      [5]map[string]bool
	truncated bool
}

// Correlation names the ids that a pack is about. The singular ones are the
// scope's, or the only ones there are; what has several, or none, is said to.
type Correlation struct {
	RunID     string   `json:"runId"`
	RunIDs    []string `json:"runIds"`
	RuntimeID string   `json:"runtimeId"`
	SessionID string   `json:"sessionId"`
	TaskID    string   `json:"taskId"`
	TaskIDs   []string `json:"taskIds"`
	ThreadID  string   `json:"threadId"`
	ThreadIDs []string `json:"threadIds"`
	TraceID   string   `json:"traceId"`
	TraceIDs  []string `json:"traceIds"`
	// Truncated says that a list has more than 1000 ids and is cut.
	Truncated bool     `json:"truncated,omitempty"`
	TurnID    string   `json:"turnId"`
	TurnIDs   []string `json:"turnIds"`
}

func (c *correlation) countFact(e *event.Event) {
	for i, id := range [5]string{e.ThreadID, e.TurnID, e.TaskID, e.RunID, e.TraceID} {
		if id == "" || id == event.NotApplicable || c.seen[i][id] {
			continue
		}
		if len(c.lists[i]) == maxIDs {
			c.truncated = true
			continue
		}
		if c.seen[i] == nil {
			c.seen[i] = map[string]bool{}
		}
		c.seen[i][id] = true
		c.lists[i] = append(c.lists[i], id)
	}
}

func (c *correlation) result(scope Scope, runtimeID string) Correlation {
	var one [5]string
	for i, given := range [5]string{scope.ThreadID, scope.TurnID, scope.TaskID} {
		switch {
		case given != "":
			one[i] = given
		case len(c.lists[i]) == 1:
			one[i] = c.lists[i][0]
		case len(c.lists[i]) == 0:
			one[i] = event.NotApplicable
		default:
			one[i] = Several
		}
		c.lists[i] = append([]string{}, c.lists[i]...)
	}
	if one[4] == event.NotApplicable {
		one[4] = "unavailable"
	}
	return Correlation{
		RuntimeID: runtimeID, SessionID: scope.SessionID, ThreadID: one[0], TurnID: one[1], TaskID: one[2], RunID: one[3], TraceID: one[4],
		ThreadIDs: c.lists[0], TurnIDs: c.lists[1], TaskIDs: c.lists[2], RunIDs: c.lists[3], TraceIDs: c.lists[4], Truncated: c.truncated,
	}
}

// signals says what became of each kind of evidence, and what is missing.
func (c *collector) signals(running []string) ([]Signal, []Gap) {
	out := []Signal{{Signal: "runtime", Status: SignalExported}, {Signal: "timeline", Status: SignalExported, Items: c.timeline.Events}}
	for _, name := range append([]string{"threads"}, lists...) {
		s := Signal{Signal: name, Status: SignalNotApplicable}
		if name == "threads" {
			s.Items = int64(len(c.ids.lists[0]))
		} else {
			s.Items = c.lists[name].sum.items
		}
		if s.Items > 0 {
			s.Status = SignalExported
		}
		out = append(out, s)
	}
	gaps := []Gap{}
	gap := func(signal, reason string, ids ...string) {
		if len(ids) > maxIDs {
			ids = ids[:maxIDs]
		}
		gaps = append(gaps, Gap{Signal: signal, Reason: reason, EventIDs: ids})
	}
	out = append(out, c.traceSignal(gap), c.undoSignal(gap))
	if c.base.Sequence > 0 {
		gap("events", RemovedNote(c.base))
	}
	if len(running) > 0 {
		gap("calls", "these calls had begun and not ended", running...)
	}
	if c.expired > 0 {
		gap("contents", fmt.Sprintf("%d outputs had expired", c.expired))
	}
	if len(c.degraded) > 0 {
		gap("history", "a recovery was partial", c.degraded...)
	}
	return out, gaps
}

func (c *collector) traceSignal(gap func(string, string, ...string)) Signal {
	s := Signal{Signal: "traces", Status: SignalNotApplicable, Reason: "no fact carries a trace id"}
	switch {
	case c.traced > 0 && c.untraced == 0:
		s.Status, s.Items, s.Reason = SignalExported, int64(len(c.ids.lists[4])), ""
	case c.traced > 0:
		s.Status, s.Items = SignalMissingCorrelation, c.untraced
		s.Reason = fmt.Sprintf("%d facts carry a trace id and %d don't", c.traced, c.untraced)
		gap("traces", s.Reason)
	}
	return s
}

func (c *collector) undoSignal(gap func(string, string, ...string)) Signal {
	s := Signal{Signal: "earlierFileContents", Status: SignalNotApplicable}
	if c.sealed > 0 {
		s.Status, s.Items, s.Reason = SignalUnsupported, c.sealed, "earlier contents of files are kept sealed, serve only to restore them, and are never exported"
		gap(s.Signal, s.Reason)
	}
	return s
}

// threadsInScope are the ids of the threads whose read models are exported.
func (c *collector) threadsInScope() []string { return slices.Clone(c.ids.lists[0]) }
