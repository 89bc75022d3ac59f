package conversation

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// takeNews takes what the follower delivers.
func (c *Conversation) takeNews(n facts.News) {
	switch {
	case n.Err != nil && fault.KindOf(n.Err) == fault.NotFound:
		c.sessionGone("the session isn't there any more")
		return
	case n.Err != nil:
		c.front.Leave(n.Err)
		return
	case n.Lost != nil:
		if !c.status.Lost {
			c.status.Lost = true
			c.View.Warn("the connection to the server is lost, trying again")
		}
		return
	case n.Fact.Data == nil && !n.Connected:
		return // the follower has ended
	}
	if c.status.Lost {
		c.status.Lost = false
		c.View.Note(terminal.Green, turntext.MarkNote, "connected again")
	}
	if n.Connected {
		return
	}
	e, err := event.Decode(n.Fact.Data)
	if err != nil {
		return // a fact of a newer server
	}
	if c.holding {
		c.held = append(c.held, e)
		return
	}
	c.takeFact(e)
}

// takeFact takes one fact of the session.
func (c *Conversation) takeFact(e *event.Event) {
	c.sequence = e.Sequence
	answered := c.questions.Track(e)
	if answered != nil && c.asking == answered {
		c.asking = nil
		c.front.Withdraw(answered)
		c.View.Info(turntext.HowAnswered(e))
	}
	c.agents.track(e)
	c.followPlan(e)
	if c.followSession(e) {
		return
	}
	if c.isShown(e) {
		c.trackFact(e)
		c.View.ShowFact(e)
		c.showChange(e)
	}
	c.View.Below = c.agents.lines(c.View.Ink)
	c.askDue()
	c.View.Asking = c.asking != nil
}

// isShown reports whether a fact is one of the thread itself, or says how one of its
// subagents began or ended.
func (c *Conversation) isShown(e *event.Event) bool {
	switch {
	case facts.IsSubagentFact(e):
		return true
	case e.ThreadID != c.thread && e.ThreadID != "":
		return false
	case c.onlyTurn != "" && e.Sequence <= c.caughtUp && e.TurnID != c.onlyTurn:
		return false
	}
	if text, waits := c.texts[e.TurnID]; waits && facts.IsTurnEnd(e) {
		// It was taken out of the queue: the turn that runs isn't over.
		c.View.Info("removed from the queue: " + shortPrompt(text))
		delete(c.texts, e.TurnID)
		delete(c.open, e.TurnID)
		return false
	}
	p, updated := e.Payload.(*event.ThreadUpdated)
	// What blocks the thread is resumed when it is taken up.
	return !updated || p.Status != "blocked" || e.Sequence > c.caughtUp
}

// trackFact keeps what the status line and the commands need.
func (c *Conversation) trackFact(e *event.Event) {
	c.status.track(e)
	switch p := e.Payload.(type) {
	case *event.SessionCreated:
		if c.title = p.Title; p.Workspace != nil {
			c.root = p.Workspace.Root
		}
	case *event.TurnSubmitted:
		text := turntext.InputText(p.Input)
		if text == "" {
			text = p.Preview
		}
		c.remember(text)
		if p.Status == "queued" {
			c.texts[e.TurnID] = text
			c.View.Note(terminal.Cyan, "+", "queued: "+text)
		}
	case *event.TurnStarted:
		c.active = e.TurnID
		if text, waited := c.texts[e.TurnID]; waited {
			c.View.ShowPrompt(text)
			delete(c.texts, e.TurnID)
		}
	case *event.TurnCompleted, *event.TurnFailed:
		c.turnEnded(e)
	case *event.QueueChanged:
		c.queue = p.Queue
	case *event.ToolStarted:
		c.trackCall(e, p.ToolName, p.SafeArgs)
	case *event.ToolArgs:
		c.trackCall(e, p.ToolName, p.SafeArgs)
	case *event.ToolResult:
		c.endCall(e, p.Preview, p.OutputRef, p.Truncated)
	case *event.ToolFailed:
		c.endCall(e, p.Message, "", false)
	}
}

func (c *Conversation) turnEnded(e *event.Event) {
	c.lastTurn = e.TurnID
	delete(c.open, e.TurnID)
	if c.active == e.TurnID {
		c.active = ""
	}
	if c.leaving {
		c.left = true
		c.front.Leave(nil)
	}
}

// maxCalls is how many tool calls can be looked at.
const maxCalls = 500

// Call is a tool call whose output can be looked at.
type Call struct {
	ID, Name, Args string
	// Preview is the beginning of the output, Ref where all of it is.
	Preview, Ref string
	// Diff is what it changed.
	Diff  string
	Ended bool
}

func (c *Conversation) call(id string) *Call {
	for _, x := range slices.Backward(c.calls) {
		if x.ID == id {
			return x
		}
	}
	return nil
}

func (c *Conversation) trackCall(e *event.Event, name string, args event.Raw) {
	x := c.call(e.ToolCallID)
	if x == nil {
		x = &Call{ID: e.ToolCallID}
		if c.calls = append(c.calls, x); len(c.calls) > maxCalls {
			c.calls = c.calls[1:]
		}
	}
	if x.Name = terminal.Plain(name); len(args) > 0 {
		x.Args = turntext.ShortArgs(name, args)
	}
}

func (c *Conversation) endCall(e *event.Event, preview, ref string, truncated bool) {
	x := c.call(e.ToolCallID)
	if x == nil {
		return
	}
	x.Ended, x.Preview = true, preview
	if truncated {
		x.Ref = ref
	}
}

// Calls are the tool calls of the session that ended, oldest first.
func (c *Conversation) Calls() []*Call {
	var out []*Call
	for _, x := range c.calls {
		if x.Ended {
			out = append(out, x)
		}
	}
	return out
}

// AskedCall is the call that a question is about; nil if there is none.
func (c *Conversation) AskedCall() *Call {
	q := c.asking
	if q == nil || q.IsInput() || q.Required.ToolName == "" {
		return nil
	}
	x := &Call{ID: q.ID, Name: q.Title(), Preview: q.Wanted(), Diff: q.Diff()}
	if len(q.Required.SafeArgs) == 0 {
		x.Ref = q.Required.InputRef
	}
	return x
}

// ReadOutput hands over everything that a tool call wrote, and what it changed. The
// preview is handed over at once if there is nothing more.
func (c *Conversation) ReadOutput(x *Call, take func(text string)) {
	if x.Ref == "" {
		take(outputText(x, x.Preview))
		return
	}
	c.beside(func() func() {
		data, err := facts.ReadContent(c.ctx, c.source, x.Ref, maxOutput)
		return func() {
			if err != nil {
				take(outputText(x, x.Preview) + "\n\n" + c.describe(err))
				return
			}
			text := string(data)
			if len(data) == maxOutput {
				text += "\n… all of it: agentd output " + x.Ref
			}
			take(outputText(x, text))
		}
	})
}

// maxOutput is how much of an output is read to be looked at.
const maxOutput = 4 << 20

func outputText(x *Call, output string) string {
	if x.Diff != "" {
		output = strings.TrimRight(output, "\n") + "\n\n" + x.Diff
	}
	return terminal.PlainBlock(strings.ToValidUTF8(strings.ReplaceAll(output, "\r\n", "\n"), "\uFFFD"))
}

// showChange shows what an edit changed. What comes next waits for it, so that it
// stands where it belongs. What is past isn't asked for again.
func (c *Conversation) showChange(e *event.Event) {
	p, ok := e.Payload.(*event.ToolResult)
	if !ok || len(p.ChangedFiles) == 0 || e.Sequence <= c.caughtUp {
		return
	}
	session := c.session
	res := &command.GetDiffResult{}
	c.holding = true
	c.doBeside(&command.GetDiff{SessionID: c.session, ToolCallID: e.ToolCallID}, res, func(err error) {
		if c.session != session {
			return
		}
		if err == nil && res.Diff != "" {
			if x := c.call(e.ToolCallID); x != nil {
				x.Diff = res.Diff
			}
			c.View.ShowDiff(res.Diff)
		}
		c.release()
	})
}

// release takes the facts that were held back.
func (c *Conversation) release() {
	c.holding = false
	for len(c.held) > 0 && !c.holding {
		e := c.held[0]
		c.held = c.held[1:]
		c.takeFact(e)
	}
	c.View.Refresh()
}

// askDue puts the question that is due.
func (c *Conversation) askDue() {
	q := c.questions.Due()
	if q == nil || c.asking != nil || c.sequence < c.caughtUp || c.left {
		return
	}
	c.View.Flush()
	c.asking = q
	c.readBefore(q)
	c.front.Ask(q)
}

// maxBefore bounds the files that are read to show a change.
const maxBefore = 1 << 20

// readBefore gives a question what stands in the file now, where that can be told.
func (c *Conversation) readBefore(q *turntext.Question) {
	path := q.Path()
	if path == "" || !c.here {
		return
	}
	if !filepath.IsAbs(path) {
		root := cmp.Or(c.root, q.Required.KeepFor)
		if root == "" {
			return
		}
		path = filepath.Join(root, path)
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBefore {
		return // it is new, or no text to compare with
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a program of the agent may put a pipe there now
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // it was only read
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return
	}
	if text, err := io.ReadAll(io.LimitReader(f, maxBefore)); err == nil && utf8.Valid(text) {
		q.ShowBefore(string(text))
	}
}
