package chat

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
)

// conversation is a session at the terminal. Everything in it belongs to the goroutine
// of loop; commands run beside it and hand back what to do with their result.
type conversation struct {
	source   facts.Source
	version  string
	describe func(error) string
	view     *turntext.View
	screen   *turntext.Screen

	session, thread string
	options         event.TurnOptions
	follow          *facts.Follower
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
	questions turntext.Questions
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

// lineWanted is a line that is waited for.
type lineWanted struct {
	lead string
	take func(line string)
	// question is what it answers, if it is an action.
	question *turntext.Question
}

func newConversation(o *Options, s *turntext.Screen) *conversation {
	c := &conversation{
		source: o.Source, version: o.Version, describe: o.Describe, screen: s, options: o.Turn, texts: map[string]string{},
		ordered: make(chan func(), 64), results: make(chan func(), 64),
	}
	c.view = &turntext.View{Ink: o.Ink, Stage: c, Prompts: true}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(func() {
		for do := range c.ordered {
			do()
		}
	})
	return c
}

// Print implements [turntext.Stage].
func (c *conversation) Print(lines ...string) { c.screen.Print(lines...) }

// Show implements [turntext.Stage].
func (c *conversation) Show(lines []string) { c.live = lines }

// Size implements [turntext.Stage].
func (c *conversation) Size() (cols, rows int) { return c.screen.Size() }

// open takes up a session, if one is meant.
func (c *conversation) open(ctx context.Context, sessionID string) error {
	if sessionID == "" {
		return nil
	}
	if err := c.source.TakeUp(ctx, sessionID); err != nil {
		return err
	}
	last, err := facts.Sequence(ctx, c.source, sessionID)
	if err != nil {
		return err
	}
	t, err := facts.MainThread(ctx, c.source, sessionID)
	if err != nil {
		return err
	}
	c.session, c.thread, c.caughtUp = sessionID, t.ThreadID, last
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
	after := last
	if n := len(t.Turns); n > 0 {
		after = t.Turns[n-1].SubmittedSequence - 1
	}
	c.follow = facts.StartFollower(c.ctx, c.source, sessionID, after)
	if t.Block != nil {
		c.resumeThread()
	}
	return nil
}

func (c *conversation) showWelcome() {
	k := c.view.Ink
	what := "new session"
	if c.session != "" {
		what = "session " + c.session
	}
	cols, _ := c.Size()
	for i, line := range terminal.Wrap("agentd "+terminal.JoinDots(c.version, what, "/help lists the commands"), cols) {
		if rest, first := strings.CutPrefix(line, "agentd"); first && i == 0 {
			c.Print(k.Paint(terminal.Bold, "agentd") + k.Paint(terminal.Dim, rest))
			continue
		}
		c.Print(k.Paint(terminal.Dim, line))
	}
	c.Print("")
}

// loop waits for keys, facts and results until the user leaves.
func (c *conversation) loop(ctx context.Context, t *rawTerminal) error {
	tick := time.NewTicker(turntext.SpinEvery)
	defer tick.Stop()
	stop := ctx.Done()
	for !c.left {
		c.view.Refresh()
		c.paintLive()
		if c.screen.Err() != nil {
			return c.terminalGone()
		}
		var news chan facts.News
		if c.follow != nil {
			news = c.follow.News
		}
		select {
		case k, open := <-t.keys:
			if !open {
				return c.terminalGone()
			}
			c.pressKey(k)
		case n := <-news:
			c.takeNews(n)
			c.drainNews(news)
		case do := <-c.results:
			do()
		case <-tick.C:
			c.view.Tick()
		case <-stop:
			stop = nil
			c.leave()
		case <-t.hangup:
			return c.terminalGone()
		}
	}
	return c.failure
}

// drainNews takes what is there already, so that a burst is painted once.
func (c *conversation) drainNews(news chan facts.News) {
	for range 256 {
		select {
		case n := <-news:
			c.takeNews(n)
		default:
			return
		}
	}
}

// terminalGone ends a conversation whose terminal was closed. A turn that runs here is
// interrupted: no one would carry it on.
func (c *conversation) terminalGone() error {
	c.dead = true
	if c.active != "" && !c.source.Remote() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.source.Do(ctx, c.interruption("the terminal was closed"), nil) // the terminal that would show the error is gone
	}
	return errors.New("the terminal is gone")
}

// close ends what runs beside the loop.
func (c *conversation) close() {
	c.cancel()
	close(c.ordered)
	if c.follow != nil {
		c.follow.Stop()
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

// doInOrder carries out a command beside the loop, one after the other, and then what
// follows in the loop.
func (c *conversation) doInOrder(p command.Params, result any, then func(error)) {
	c.ordered <- func() {
		err := c.source.Do(c.ctx, p, result)
		c.handBack(func() { then(err) })
	}
}

// doBeside is do for what takes long: others don't wait for it.
func (c *conversation) doBeside(p command.Params, result any, then func(error)) {
	c.running.Go(func() {
		err := c.source.Do(c.ctx, p, result)
		c.handBack(func() { then(err) })
	})
}

func (c *conversation) handBack(do func()) {
	select {
	case c.results <- do:
	case <-c.ctx.Done():
	}
}

// takeNews takes what the follower delivers.
func (c *conversation) takeNews(n facts.News) {
	switch {
	case n.Err != nil:
		c.failure, c.left = n.Err, true
		return
	case n.Lost != nil:
		if !c.lost {
			c.lost = true
			c.view.Warn("the connection to the server is lost, trying again")
		}
		return
	case n.Fact.Data == nil:
		return // the follower has ended
	}
	if c.lost {
		c.lost = false
		c.view.Note(terminal.Green, turntext.MarkNote, "connected again")
	}
	e, err := event.Decode(n.Fact.Data)
	if err != nil {
		return // a fact of a newer server
	}
	c.sequence = n.Fact.Sequence
	c.takeFact(e)
}

// takeFact takes one fact of the session.
func (c *conversation) takeFact(e *event.Event) {
	answered := c.questions.Track(e)
	if answered != nil && c.ask != nil && c.ask.question == answered {
		c.endAsking()
		c.view.Info(turntext.HowAnswered(e))
	}
	if e.ThreadID == c.thread || e.ThreadID == "" || facts.IsSubagentFact(e) {
		c.trackFact(e)
		c.view.ShowFact(e)
	}
	c.askDue()
}

// trackFact keeps what the status line and the commands need.
func (c *conversation) trackFact(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		text := turntext.InputText(p.Input)
		c.edit.remember(text)
		if p.Status == "queued" {
			c.texts[e.TurnID] = text
			c.view.Note(terminal.Cyan, "+", "queued: "+text)
		}
	case *event.TurnStarted:
		c.active = e.TurnID
		if text, waited := c.texts[e.TurnID]; waited {
			c.view.ShowPrompt(text)
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

// askDue puts the question that is due.
func (c *conversation) askDue() {
	q := c.questions.Due()
	if q == nil || c.ask != nil || c.sequence < c.caughtUp {
		return
	}
	c.view.Flush()
	c.view.Separate()
	cols, _ := c.Size()
	c.Print(q.Panel(c.view.Ink, cols)...)
	c.askLine(&lineWanted{lead: q.Prompt(), question: q, take: func(line string) { c.answerQuestion(q, line) }})
}

// askLine asks for a line; what was being typed comes back afterwards.
func (c *conversation) askLine(w *lineWanted) {
	if c.ask == nil {
		c.draft = c.edit.value()
	}
	c.ask = w
	c.edit.set("")
}

func (c *conversation) endAsking() {
	c.ask = nil
	c.edit.set(c.draft)
	c.draft = ""
}
