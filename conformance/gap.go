package conformance

import "fmt"

// The checks of sequences that are left out.
const (
	checkGap    = "stream.gap"
	checkSparse = "stream.sparse"
)

// gapChecks are about sequences that are left out. What the standard says of them: a
// sequence grows within a stream when possible, and a runtime that can't replay from one
// must record a snapshot repair and mark the gap. So a gap without such a mark is one that
// no reader can explain. The strict profile numbers every event; elsewhere numbers may be
// sparse, and a gap is advice.
func gapChecks() []Check {
	return []Check{
		{
			ID: checkGap, Scope: Stream, Level: Must, Paragraph: "Remote channels, Recovery; Runtime event stream, Ordering and Recovery",
			Says: "No sequence of a session of the strict profile is left out between two of its events, unless snapshot.repaired or snapshot.updated marks the gap. What retention removed before the first event is no gap, and a stream that is declared partial, such as a filtered one, isn't held to it.",
			stream: func(l Limits) observer {
				return &gaps{strict: true, last: newMemory[int64](l.Remembered), numbered: true}
			},
		},
		{
			ID: checkSparse, Scope: Stream, Level: Should, Paragraph: "Specification, Event envelope (sequence)",
			Says: "Outside of the strict profile the sequences of a session, or of the stream, follow each other, so that readers can tell that nothing is missing. The standard asks only that they grow.",
			stream: func(l Limits) observer {
				return &gaps{last: newMemory[int64](l.Remembered), numbered: true}
			},
		},
	}
}

// unknownPlace says that it isn't known where a session stands.
const unknownPlace = -1

// gaps looks for sequences that are left out.
type gaps struct {
	// strict looks at events of the strict profile, and otherwise at the others.
	strict bool
	last   *memory[int64]
	// numbered holds while the stream's own numbers follow each other, whichever session an
	// event is of; before is the last of them.
	numbered bool
	before   int64
	seen     bool
}

func (g *gaps) full() bool { return g.last.full() }

// lost says that something in the stream couldn't be read.
func (g *gaps) lost() {
	g.numbered = false
	for id := range g.last.values {
		g.last.values[id] = unknownPlace
	}
}

func (g *gaps) observe(f *fact) []string {
	if f.session == "" {
		return nil
	}
	last, known := g.last.values[f.session]
	repaired := f.typ == "snapshot.repaired" || f.typ == "snapshot.updated"
	if f.sequence < 0 || known && f.sequence <= last {
		// Another check reports it; what follows can't be judged by it.
		g.last.put(f.session, unknownPlace)
		return nil
	}
	g.numbered = g.numbered && (!g.seen || f.sequence == g.before+1)
	g.before, g.seen = f.sequence, true
	g.last.put(f.session, f.sequence)
	if !known || last == unknownPlace || f.sequence == last+1 || g.numbered || repaired || f.strict() != g.strict {
		return nil
	}
	if f.sequence == last+2 {
		return []string{fmt.Sprintf("sequence %d of session %s is missing", last+1, f.session)}
	}
	return []string{fmt.Sprintf("sequences %d to %d of session %s are missing", last+1, f.sequence-1, f.session)}
}

// newStream begins a stream that has all events from its first on, unless streams are
// declared partial.
func (c *Checker) newStream() *eventStream {
	s := c.newWindow()
	if c.partial {
		return s
	}
	for i := range c.checks {
		if observe := c.checks[i].stream; observe != nil && isGapCheck(c.checks[i].ID) {
			s.observers, s.ids = append(s.observers, observe(c.limits)), append(s.ids, i)
		}
	}
	return s
}

// isGapCheck reports whether a check of streams makes no sense where events were left
// out on purpose.
func isGapCheck(id string) bool { return id == checkGap || id == checkSparse }

// lost says that a part of the stream couldn't be read: what is missing there is no gap.
func (s *eventStream) lost() {
	for _, o := range s.observers {
		if g, ok := o.(*gaps); ok {
			g.lost()
		}
	}
}
