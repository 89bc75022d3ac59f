package index

import (
	"sync"

	"agentd/event"
)

// hotFacts keeps facts that this process has just made durable, until they are folded:
// they needn't be read and decoded again then. It never has to have them: what is not
// here is in the store.
type hotFacts struct {
	mu sync.Mutex
	// bySession has the facts of each session without a gap between first and last; only
	// those of wanted types are kept.
	bySession map[string]*hotRange
	size      int
}

type hotRange struct {
	first, last uint64
	facts       []Event
	size        int
}

const (
	// maxHot is how much is kept, about, in bytes.
	maxHot = 32 << 20
	// maxHotFact is the largest fact that is kept. One that is larger may be stored in
	// parts, and what is folded is what a reader of the stored fact sees.
	maxHotFact = 8 << 10
	// hotFactSize is what a fact takes beside its texts.
	hotFactSize = 512
	// turnFacts is how many of a turn's facts are kept, about.
	turnFacts = 16
)

// add keeps the facts of a batch, which the caller goes on to use.
func (h *hotFacts) addBatch(sessionID string, facts []event.Event, wanted map[event.Type]bool) {
	if len(facts) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.bySession[sessionID]
	if r != nil && r.last+1 != facts[0].Sequence {
		h.drop(sessionID, r)
		r = nil
	}
	if r == nil {
		if h.size >= maxHot {
			return
		}
		if h.bySession == nil {
			h.bySession = map[string]*hotRange{}
		}
		r = &hotRange{first: facts[0].Sequence}
		h.bySession[sessionID] = r
	}
	r.last = facts[len(facts)-1].Sequence
	for i := range facts {
		if !wanted[facts[i].Type] {
			continue
		}
		size := textSize(facts[i].Payload)
		if size > maxHotFact {
			h.drop(sessionID, r)
			return
		}
		if r.facts == nil {
			r.facts = make([]Event, 0, turnFacts)
		}
		r.facts = append(r.facts, EventOf(&facts[i]))
		r.size += size + hotFactSize
		h.size += size + hotFactSize
	}
	if h.size > maxHot {
		h.drop(sessionID, r)
	}
}

func (h *hotFacts) drop(sessionID string, r *hotRange) {
	h.size -= r.size
	delete(h.bySession, sessionID)
}

// has reports whether the facts of a part of a session are all here.
func (h *hotFacts) has(s *span) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.bySession[s.sessionID]
	return r != nil && r.first <= s.first && r.last >= s.last
}

// takeSpan returns the facts of a part of a session, if all are here, and forgets
// everything up to its end.
func (h *hotFacts) takeSpan(s *span) ([]Event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.bySession[s.sessionID]
	if r == nil {
		return nil, false
	}
	whole := r.first <= s.first && r.last >= s.last
	if r.last > s.last && whole {
		return r.cutThrough(h, s), true
	}
	h.drop(s.sessionID, r)
	if !whole {
		return nil, false
	}
	return r.from(s.first), true
}

// from returns the facts from a sequence on.
func (r *hotRange) from(first uint64) []Event {
	i := 0
	for i < len(r.facts) && r.facts[i].Sequence < first {
		i++
	}
	return r.facts[i:]
}

// cutThrough takes out the facts up to the end of a span and returns those in it.
func (r *hotRange) cutThrough(h *hotFacts, s *span) []Event {
	rest := r.from(s.last + 1)
	taken := (&hotRange{facts: r.facts[:len(r.facts)-len(rest)]}).from(s.first)
	kept := 0
	for i := range rest {
		kept += textSize(rest[i].Payload) + hotFactSize
	}
	h.size += kept - r.size
	r.first, r.facts, r.size = s.last+1, append([]Event(nil), rest...), kept
	return taken
}

// textSize is how much text the parts of a fact have that can be long.
func textSize(payload event.Payload) int {
	switch p := payload.(type) {
	case *event.TurnSubmitted:
		return len(p.Input) + len(p.Preview) + len(p.Metadata)
	case *event.TurnSteered:
		return len(p.Input) + len(p.Preview) + len(p.Metadata)
	case *event.TurnCompleted:
		return len(p.Preview) + len(p.StructuredOutput)
	case *event.TurnFailed:
		if p.Error != nil {
			return len(p.Error.Message)
		}
	case *event.ModelCompleted:
		n := len(p.Preview)
		if m := p.Message; m != nil {
			n += len(m.Text) + len(m.Reasoning) + len(m.Native)
			for i := range m.ToolCalls {
				n += 256 + len(m.ToolCalls[i].Arguments)
			}
		}
		return n
	case *event.ModelFailed:
		return len(p.Message)
	case *event.ToolStarted:
		return len(p.SafeArgs)
	case *event.ToolArgs:
		return len(p.SafeArgs)
	case *event.ToolResult:
		return len(p.Preview) + len(p.StructuredContent) + 256*len(p.ChangedFiles)
	case *event.ToolFailed:
		return len(p.Message) + 256*len(p.ChangedFiles)
	}
	return 0
}
