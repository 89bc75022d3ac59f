package transcript

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"

	"agentd/cmd/agentd/internal/facts"
	"agentd/event"
)

// Form is how a transcript is written.
type Form string

// The forms of a transcript; those of files are how their names end.
const (
	Markdown Form = ".md"
	JSON     Form = ".json"
	// Line is JSON in one line.
	Line Form = "line"
)

// Write writes the conversation of a session, turn by turn, and returns how many turns it
// has. What was written when it fails isn't whole.
func Write(ctx context.Context, src facts.Source, sessionID string, form Form, w io.Writer) (turns int, err error) {
	p, err := makePlan(ctx, src, sessionID)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w)
	to := sink(&document{w: out, indent: form == JSON})
	if form == Markdown {
		to = &page{w: out}
	}
	if err := to.begin(p.head); err != nil {
		return 0, err
	}
	err = p.eachTurn(ctx, src, func(t *Turn) error {
		turns++
		return to.turn(turns, t)
	})
	if err == nil {
		err = to.end(p.head)
	}
	if err == nil {
		err = out.Flush()
	}
	return turns, err
}

// sink writes a transcript in a form.
type sink interface {
	begin(head *Transcript) error
	turn(n int, t *Turn) error
	end(head *Transcript) error
}

// place is where a fact stands among those of a session and of those that it continues.
type place struct {
	part     int
	sequence uint64
}

func (p place) isBefore(q place) bool {
	return p.part < q.part || p.part == q.part && p.sequence < q.sequence
}

// plan is what has to be known of a conversation before its first turn can be written.
type plan struct {
	// head is the transcript without its turns.
	head  *Transcript
	chain []part
	// removed are the turns that were taken back, and notes the turns behind which that is
	// said, by the fact that says it.
	removed map[string]bool
	notes   map[place]string
	// last is where the last fact of a turn is.
	last map[string]place
	// order are the turns that began, until the plan is made.
	order []string
}

// makePlan reads the facts of a conversation for the first time.
func makePlan(ctx context.Context, src facts.Source, sessionID string) (*plan, error) {
	p := &plan{
		head:    &Transcript{Format: Format, SessionID: sessionID, Turns: []*Turn{}},
		removed: map[string]bool{}, notes: map[place]string{}, last: map[string]place{},
	}
	var err error
	if p.chain, err = p.origins(ctx, src, sessionID); err != nil {
		return nil, err
	}
	end := len(p.chain) - 1
	for i, part := range p.chain {
		var main mainThread
		err := part.each(ctx, src, func(e *event.Event) {
			if i == end {
				p.head.ThroughSequence = e.Sequence
			}
			p.readHead(e, i == end)
			if main.owns(e) {
				p.readTurn(place{i, e.Sequence}, e)
			}
		})
		if err != nil && i == end {
			return nil, err
		}
		if err != nil {
			p.head.Incomplete = "the session that this one was forked from can't be read"
		}
	}
	p.chain[end].through = p.head.ThroughSequence // what comes later is later's
	p.order = nil
	return p, nil
}

// readHead takes what a fact says about the session.
func (p *plan) readHead(e *event.Event, isLast bool) {
	var w *event.Workspace
	switch x := e.Payload.(type) {
	case *event.SessionCreated:
		if !isLast {
			return
		}
		p.head.CreatedAt, p.head.Title, w = e.Time, x.Title, x.Workspace
	case *event.SessionUpdated:
		if w = x.Workspace; x.Title != nil {
			p.head.Title = *x.Title
		}
	}
	if w != nil && w.Root != "" {
		p.head.Workspace = w.Root
	}
}

// readTurn takes what a fact of the conversation says about the order of turns.
func (p *plan) readTurn(at place, e *event.Event) {
	if e.TurnID != "" {
		p.last[e.TurnID] = at
	}
	switch x := e.Payload.(type) {
	case *event.TurnStarted:
		if n := len(p.order); n == 0 || p.order[n-1] != e.TurnID {
			p.order = append(p.order, e.TurnID)
		}
	case *event.RollbackCompleted:
		for _, id := range x.RemovedTurns {
			p.removed[id] = true
		}
		p.order = slices.DeleteFunc(p.order, func(id string) bool { return p.removed[id] })
		if n := len(p.order); n > 0 {
			p.notes[at], p.last[p.order[n-1]] = p.order[n-1], at
		}
	}
}

// eachTurn reads the facts for the second time and hands over each turn behind its last
// one, in the order in which turns began; those that have not begun come last.
func (p *plan) eachTurn(ctx context.Context, src facts.Source, take func(*Turn) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fold{
		out: p.head, plan: p,
		read: func(ref string, most int64) ([]byte, error) { return facts.ReadContent(ctx, src, ref, most) },
	}
	var failed error
	hand := func(t *Turn) {
		if failed == nil {
			if failed = take(t); failed != nil {
				cancel() // nothing more has to be read
			}
		}
	}
	for i, part := range p.chain {
		f.begin()
		err := part.each(ctx, src, func(e *event.Event) {
			at := place{i, e.Sequence}
			f.foldFact(at, e)
			for len(f.began) > 0 && !at.isBefore(p.last[f.began[0].TurnID]) {
				hand(f.began[0])
				f.began = slices.Delete(f.began, 0, 1)
			}
		})
		if failed != nil {
			return failed
		}
		if err != nil && i == len(p.chain)-1 {
			return fmt.Errorf("read session %s: %w", part.session, err)
		}
	}
	for _, t := range slices.Concat(f.began, f.waiting) {
		hand(t)
	}
	return failed
}

// each reads the facts of a part.
func (p part) each(ctx context.Context, src facts.Source, with func(*event.Event)) error {
	return facts.Each(ctx, src, p.session, func(e *event.Event) {
		if p.through == 0 || e.Sequence <= p.through {
			with(e)
		}
	})
}
