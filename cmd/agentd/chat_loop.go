package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
)

// conversation is a session at the terminal. Everything in it belongs to the goroutine
// of loop; commands run beside it and hand back what to do with their result.
type conversation struct {
	*app
	facts  facts
	view   *view
	screen *screen

	session, thread string
	options         event.TurnOptions
	follow          *follower
	// caughtUp is the sequence up to which facts are the past: what they ask may be
	// answered already.
	caughtUp uint64
	sequence uint64

	// active is the turn that runs, queue those that wait, texts what they say.
	active string
	queue  []event.QueueEntry
	texts  map[string]string
	model  string
	cost   float64
	lost   bool

	edit      editor
	live      []string
	questions asked
	// ask is a line that is wanted before the conversation goes on; draft is what
	// was being typed when it came.
	ask   *lineWanted
	draft string

	// ordered are commands that wait for each other; the goroutine that carries them
	// out owns opened, the session that the first turn made.
	ordered chan func()
	opened  string
	results chan func()
	running sync.WaitGroup
	ctx     context.Context //nolint:containedctx // it bounds the commands of this conversation, and ends with close
	cancel  context.CancelFunc

	leaving bool
	left    bool
	dead    bool
	failure error
}

// lineWanted is a line that somebody waits for.
type lineWanted struct {
	lead string
	take func(line string)
	// question is what it answers, if it is an action.
	question *question
}

func newChat(a *app, f facts, s *screen) *conversation {
	c := &conversation{
		app: a, facts: f, screen: s, texts: map[string]string{},
		ordered: make(chan func(), 64), results: make(chan func(), 64),
	}
	c.view = &view{ink: a.ink(a.out), stage: c, prompts: true}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(func() {
		for do := range c.ordered {
			do()
		}
	})
	return c
}

// print implements [stage].
func (c *conversation) print(lines ...string) { c.screen.print(lines...) }

// show implements [stage].
func (c *conversation) show(lines []string) { c.live = lines }

// size implements [stage].
func (c *conversation) size() (cols, rows int) { return c.screen.size() }

// open takes up a session, if one is meant.
func (c *conversation) open(ctx context.Context, sessionID string) error {
	if sessionID == "" {
		return nil
	}
	if err := takeUp(ctx, c.facts, sessionID); err != nil {
		return err
	}
	none := 0
	var s command.SessionRead
	if err := c.facts.do(ctx, &command.GetSession{SessionID: sessionID, Limit: &none}, &s); err != nil {
		return err
	}
	t, err := mainThread(ctx, c.facts, sessionID)
	if err != nil {
		return err
	}
	c.session, c.thread, c.caughtUp = sessionID, t.ThreadID, s.Sequence
	if t.CostState.TotalUSD != nil {
		c.cost = *t.CostState.TotalUSD
	}
	for _, turn := range t.Turns {
		c.edit.remember(turn.Preview)
	}
	for _, q := range t.QueuedTurns {
		c.texts[q.TurnID] = q.Preview
		c.queue = append(c.queue, event.QueueEntry{TurnID: q.TurnID, Position: int64(q.Position), Source: q.Source})
	}
	after := s.Sequence
	if n := len(t.Turns); n > 0 {
		after = t.Turns[n-1].SubmittedSequence - 1
	}
	c.follow = startFollowing(c.ctx, c.facts, sessionID, after)
	if t.Block != nil {
		c.resume()
	}
	return nil
}

func (c *conversation) welcome() {
	k := c.view.ink
	what := "new session"
	if c.session != "" {
		what = "session " + c.session
	}
	cols, _ := c.size()
	for i, line := range wrapped("agentd "+facets(c.version, what, "/help lists the commands"), cols) {
		if rest, first := strings.CutPrefix(line, "agentd"); first && i == 0 {
			c.print(k.paint(bold, "agentd") + k.paint(dim, rest))
			continue
		}
		c.print(k.paint(dim, line))
	}
	c.print("")
}

// loop waits for keys, facts and results until the user leaves.
func (c *conversation) loop(ctx context.Context, t *rawTerminal) error {
	tick := time.NewTicker(spinEvery)
	defer tick.Stop()
	stop := ctx.Done()
	for !c.left {
		c.view.refresh()
		c.paint()
		if c.screen.err != nil {
			return c.gone()
		}
		var facts chan told
		if c.follow != nil {
			facts = c.follow.facts
		}
		select {
		case k, open := <-t.keys:
			if !open {
				return c.gone()
			}
			c.press(k)
		case f := <-facts:
			c.told(f)
			c.drain(facts)
		case do := <-c.results:
			do()
		case <-tick.C:
			c.view.frame++
		case <-stop:
			stop = nil
			c.leave()
		case <-t.hangup:
			return c.gone()
		}
	}
	return c.failure
}

// drain takes what is there already, so that a burst is painted once.
func (c *conversation) drain(facts chan told) {
	for range 256 {
		select {
		case f := <-facts:
			c.told(f)
		default:
			return
		}
	}
}

// gone ends a conversation whose terminal was closed. A turn that runs here is
// interrupted: nobody would carry it on.
func (c *conversation) gone() error {
	c.dead = true
	if c.active != "" && !c.remote() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.facts.do(ctx, c.interruption("the terminal was closed"), nil) // there is nobody to tell
	}
	return errors.New("the terminal is gone")
}

func (c *conversation) remote() bool {
	_, remote := c.facts.(*remoteFacts)
	return remote
}

// close ends what runs beside the loop.
func (c *conversation) close() {
	c.cancel()
	close(c.ordered)
	if c.follow != nil {
		c.follow.stop()
	}
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	for {
		select {
		case <-c.results:
		case <-done:
			return
		}
	}
}

// do carries out a command beside the loop, one after the other, and then what
// follows in the loop.
func (c *conversation) do(p command.Params, result any, then func(error)) {
	c.ordered <- func() {
		err := c.facts.do(c.ctx, p, result)
		c.hand(func() { then(err) })
	}
}

// later is do for what takes long: others don't wait for it.
func (c *conversation) later(p command.Params, result any, then func(error)) {
	c.running.Go(func() {
		err := c.facts.do(c.ctx, p, result)
		c.hand(func() { then(err) })
	})
}

func (c *conversation) hand(do func()) {
	select {
	case c.results <- do:
	case <-c.ctx.Done():
	}
}

// told takes what the follower delivers.
func (c *conversation) told(t told) {
	switch {
	case t.err != nil:
		c.failure, c.left = t.err, true
		return
	case t.lost != nil:
		if !c.lost {
			c.lost = true
			c.view.note(yellow, markWarn, "the connection to the server is lost, trying again")
		}
		return
	case t.fact.data == nil:
		return // the follower has ended
	}
	if c.lost {
		c.lost = false
		c.view.note(green, markNote, "connected again")
	}
	e, err := event.Decode(t.fact.data)
	if err != nil {
		return // a fact of a newer server
	}
	c.sequence = t.fact.sequence
	c.fact(e)
}

// fact takes one fact of the session.
func (c *conversation) fact(e *event.Event) {
	answered := c.questions.fact(e)
	if answered != nil && c.ask != nil && c.ask.question == answered {
		c.unask()
		c.view.note(cyan, markNote, howAnswered(e))
	}
	if e.ThreadID == c.thread || e.ThreadID == "" || isSubagentFact(e) {
		c.track(e)
		c.view.fact(e)
	}
	c.next()
}

// track keeps what the status line and the commands need.
func (c *conversation) track(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		text := inputText(p.Input)
		c.edit.remember(text)
		if p.Status == "queued" {
			c.texts[e.TurnID] = text
			c.view.note(cyan, "+", "queued: "+text)
		}
	case *event.TurnStarted:
		c.active = e.TurnID
		if text, waited := c.texts[e.TurnID]; waited {
			c.view.said(text)
			delete(c.texts, e.TurnID)
		}
	case *event.TurnCompleted, *event.TurnFailed:
		if c.active == e.TurnID {
			c.active = ""
		}
		c.left = c.left || c.leaving
	case *event.QueueChanged:
		c.queue = p.Queue
	case *event.RoutingDecision:
		c.model = p.SelectedProvider + "/" + p.SelectedModel
	case *event.CostRecorded:
		c.cost = p.SessionCostUSD
	}
}

// next puts the question that is due.
func (c *conversation) next() {
	q := c.questions.first()
	if q == nil || c.ask != nil || c.sequence < c.caughtUp {
		return
	}
	c.view.flush()
	c.view.gap(kindNote)
	cols, _ := c.size()
	c.print(q.panel(c.view.ink, cols)...)
	c.want(&lineWanted{lead: q.prompt(), question: q, take: func(line string) { c.answer(q, line) }})
}

// want asks for a line; what was being typed comes back afterwards.
func (c *conversation) want(w *lineWanted) {
	if c.ask == nil {
		c.draft = c.edit.value()
	}
	c.ask = w
	c.edit.set("")
}

func (c *conversation) unask() {
	c.ask = nil
	c.edit.set(c.draft)
	c.draft = ""
}
