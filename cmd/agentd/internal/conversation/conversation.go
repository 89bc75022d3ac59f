// Package conversation drives a session for a person at a terminal.
//
// # Contract
//
// A [Conversation] submits what a person says, follows the session, keeps the questions
// that are open and carries out slash commands. It draws nothing and reads no keys: a
// [Front] does, and there are two of them, package tui and package chat. Everything goes
// through the public commands and event streams of a [facts.Source].
//
// # Concurrency
//
// One goroutine owns a Conversation: the one that [Front.Post] runs functions in.
// Commands run beside it and hand back what to do with their result. Close waits for
// all of them.
package conversation

import (
	"context"
	"io"
	"sync"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// Front is the client that a conversation is shown by. Its methods are called in the
// goroutine that owns the conversation, except for Post.
type Front interface {
	turntext.Stage
	// Post runs a function in the goroutine that owns the conversation. It may be called
	// from any goroutine, and does nothing once the client ends.
	Post(do func())
	// Ask shows a question that is due.
	Ask(q *turntext.Question)
	// Withdraw takes a question away that was answered elsewhere.
	Withdraw(q *turntext.Question)
	// Pick lets the user choose.
	Pick(p *Picker)
	// Confirm asks for a yes or a no.
	Confirm(lead string, take func(yes bool))
	// Draft puts a text where the user types, if nothing is there.
	Draft(text string)
	// Remember keeps what was said, so that it can be said again.
	Remember(text string)
	// Leave ends the client.
	Leave(err error)
}

// Options of a conversation. Source and Front are needed.
type Options struct {
	// Source carries out the turns.
	Source facts.Source
	Front  Front
	// Turn are the options of the turns that are submitted.
	Turn event.TurnOptions
	Ink  terminal.Ink
	// Describe returns an error as a person should read it.
	Describe func(error) string
	// Flat says that nothing is drawn over: what is done is told in lines.
	Flat bool
	// Folder is where the client was started; relative paths begin there.
	Folder string
	// Review writes the review behind a reference in a form: ".md", ".html" or ".json".
	Review func(ctx context.Context, ref, form string, w io.Writer) error
	// SameMachine says that the runtime's files are this machine's: what stands in a file
	// can be shown beside what a call would make of it.
	SameMachine bool
}

// Conversation is a session with a person.
type Conversation struct {
	source   facts.Source
	front    Front
	describe func(error) string
	folder   string
	review   func(ctx context.Context, ref, form string, w io.Writer) error
	// here says that the runtime's files are this machine's, root is where the session
	// works.
	here bool
	root string
	// View shows the facts.
	View *turntext.View

	session, thread string
	title           string
	options         event.TurnOptions
	follow          *facts.Follower
	// caughtUp is the sequence up to which facts are the past: what they ask may be
	// answered already.
	caughtUp uint64
	sequence uint64
	// onlyTurn is the turn that is shown of the past, where facts of others are between
	// its own; empty if there are none.
	onlyTurn string

	// active is the turn that runs, queue those that wait, texts what they say.
	active string
	queue  []event.QueueEntry
	texts  map[string]string
	// open are the turns that were handed in here and have not ended.
	open map[string]bool
	// lastTurn is the turn that ended last.
	lastTurn string
	status   Status
	models   []command.ModelRecord
	agents   agentTree
	calls    []*Call
	prompts  []string

	questions turntext.Questions
	asking    *turntext.Question

	// held are facts that wait for something that belongs before them.
	held    []*event.Event
	holding bool

	// ordered are commands that wait for each other; the goroutine that carries them
	// out owns opened, the session that the first turn made.
	ordered chan func()
	opened  string
	running sync.WaitGroup
	// pending counts what runs beside the owner and hands something back.
	pending int
	ctx     context.Context
	cancel  context.CancelFunc

	leaving bool
	left    bool
}

// New returns a conversation without a session: the first turn makes one.
func New(o *Options) *Conversation {
	c := &Conversation{
		source: o.Source, front: o.Front, describe: o.Describe, folder: o.Folder, review: o.Review, here: o.SameMachine, options: o.Turn, texts: map[string]string{}, open: map[string]bool{},
		ordered: make(chan func(), 64),
	}
	c.View = &turntext.View{Ink: o.Ink, Stage: o.Front, Prompts: true, Flat: o.Flat}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(func() {
		for do := range c.ordered {
			do()
		}
	})
	c.lookUpDefaults()
	return c
}

// Open takes up a session. Only its newest turn is shown, so that a long one opens as
// fast as a short one.
func (c *Conversation) Open(ctx context.Context, sessionID string) error {
	past, err := c.readPast(ctx, sessionID)
	if err != nil {
		return err
	}
	c.takeUp(past)
	return nil
}

// past is what is known of a session when it is taken up.
type past struct {
	session, title string
	thread         *state.ThreadReadModel
	last           uint64
}

func (c *Conversation) readPast(ctx context.Context, sessionID string) (*past, error) {
	if err := c.source.TakeUp(ctx, sessionID); err != nil {
		return nil, err
	}
	read, err := facts.Standing(ctx, c.source, sessionID)
	if err != nil {
		return nil, err
	}
	t, err := facts.MainThread(ctx, c.source, sessionID)
	if err != nil {
		return nil, err
	}
	return &past{session: sessionID, title: read.Title, thread: t, last: read.Sequence}, nil
}

func (c *Conversation) takeUp(p *past) {
	t := p.thread
	c.session, c.title, c.thread, c.caughtUp = p.session, p.title, t.ThreadID, p.last
	c.ordered <- func() { c.opened = p.session }
	c.status.takePast(t)
	c.root = t.Cwd
	for _, turn := range t.Turns {
		c.remember(turn.Preview)
	}
	for _, q := range t.QueuedTurns {
		c.texts[q.TurnID] = q.Preview
		c.queue = append(c.queue, event.QueueEntry{TurnID: q.TurnID, Position: int64(q.Position), Source: q.Source})
	}
	after := p.last
	if n := len(t.Turns); n > 0 {
		newest := &t.Turns[n-1]
		c.lastTurn = newest.TurnID
		switch {
		case newest.Inherited:
			after = 0 // a fork's own facts are few
		case n > 1 && t.Turns[n-2].CompletedAt.After(newest.SubmittedAt):
			// It waited, so that the facts of others lie between its submission and its run.
			after = max(newest.SubmittedSequence, p.last-min(p.last, maxCatchUp))
			c.onlyTurn = newest.TurnID
			c.View.ShowPrompt(newest.Preview)
		default:
			after = newest.SubmittedSequence - 1
		}
	}
	c.startFollowing(after)
	if t.Block != nil && len(t.Block.ActionIDs) == 0 {
		c.resumeThread()
	}
}

// maxCatchUp is how many facts are read of a turn that waited for others.
const maxCatchUp = 500

// startFollowing follows the session from behind a sequence.
func (c *Conversation) startFollowing(after uint64) {
	f := facts.StartPatientFollower(c.ctx, c.source, c.session, after)
	c.follow = f
	c.running.Go(func() {
		for n := range f.News {
			// What is there already comes with it, so that a burst is drawn once.
			batch := append(make([]facts.News, 0, 16), n)
			for len(batch) < maxBatch {
				select {
				case more, open := <-f.News:
					if open {
						batch = append(batch, more)
						continue
					}
				default:
				}
				break
			}
			c.front.Post(func() {
				if c.follow != f {
					return // the session was left meanwhile
				}
				for i := range batch {
					if c.takeNews(batch[i]); c.follow != f {
						return // the session is gone
					}
				}
				c.View.Refresh()
			})
		}
	})
}

// maxBatch is how many facts are taken at once.
const maxBatch = 256

// leaveSession forgets the session, so that another can be taken up.
func (c *Conversation) leaveSession() {
	if f := c.follow; f != nil {
		c.follow = nil
		c.running.Go(f.Stop)
	}
	if c.asking != nil {
		c.front.Withdraw(c.asking)
	}
	c.View.Rest()
	model, mode := c.status.defaultModel, c.status.defaultMode
	c.root, c.title = "", ""
	c.session, c.thread, c.active, c.lastTurn, c.onlyTurn, c.caughtUp, c.sequence = "", "", "", "", "", 0, 0
	c.queue, c.texts, c.open, c.questions, c.asking = nil, map[string]string{}, map[string]bool{}, turntext.Questions{}, nil
	c.held, c.holding, c.calls, c.agents = nil, false, nil, agentTree{}
	c.status = Status{defaultModel: model, defaultMode: mode}
	c.ordered <- func() { c.opened = "" }
}

// Close ends what runs beside the conversation, and waits for it.
func (c *Conversation) Close() {
	c.cancel()
	close(c.ordered)
	if c.follow != nil {
		c.follow.Stop()
	}
	c.running.Wait()
}

// Session is the session's id; empty before the first turn.
func (c *Conversation) Session() string { return c.session }

// Active reports whether a turn runs.
func (c *Conversation) Active() bool { return c.active != "" }

// Leaving reports whether the conversation ends when the running turn has.
func (c *Conversation) Leaving() bool { return c.leaving }

func (c *Conversation) remember(text string) {
	if n := len(c.prompts); text != "" && (n == 0 || c.prompts[n-1] != text) {
		c.prompts = append(c.prompts, text)
	}
	c.front.Remember(text)
}

// doInOrder carries out a command beside the owner, one after the other, and then what
// follows in the owner's goroutine.
func (c *Conversation) doInOrder(p command.Params, result any, then func(error)) {
	c.pending++
	c.ordered <- func() {
		err := c.source.Do(c.ctx, p, result)
		c.handBack(func() { then(err) })
	}
}

// handBack hands over what follows in the owner's goroutine.
func (c *Conversation) handBack(then func()) {
	c.front.Post(func() {
		c.pending--
		then()
	})
}

// beside carries out work beside the owner, and then what it returns in the owner's
// goroutine.
func (c *Conversation) beside(work func() (then func())) {
	c.pending++
	c.running.Go(func() { c.handBack(work()) })
}

// Pending reports whether something that was asked for has not answered yet.
func (c *Conversation) Pending() bool { return c.pending > 0 }

// doBeside is doInOrder for what takes long: others don't wait for it.
func (c *Conversation) doBeside(p command.Params, result any, then func(error)) {
	c.beside(func() func() {
		err := c.source.Do(c.ctx, p, result)
		return func() { then(err) }
	})
}

// lookUpDefaults finds out which model and mode hold before the first turn says so.
func (c *Conversation) lookUpDefaults() {
	models := &command.ListModelsResult{}
	c.doBeside(&command.ListModels{Page: command.Page{Limit: 1000}}, models, func(err error) {
		if err != nil {
			return // the first turn says what is wrong
		}
		c.models = models.Models
		for i := range c.models {
			if c.models[i].Default {
				c.status.defaultModel = c.models[i].ModelID
			}
		}
		c.View.Refresh()
	})
	policy := &command.PolicyResult{}
	c.doBeside(&command.GetPolicy{}, policy, func(err error) {
		if err != nil {
			return
		}
		c.status.defaultMode = policy.Mode
		c.View.Refresh()
	})
}
