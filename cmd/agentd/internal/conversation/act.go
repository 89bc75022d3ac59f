package conversation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"time"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/fault"
)

// Message is what a person says: a text, and what is attached to it.
type Message struct {
	Text  string
	Parts []command.Part
}

// input returns the message as the input of a turn.
func (m *Message) input() (json.RawMessage, error) {
	if len(m.Parts) == 0 {
		return json.Marshal(m.Text)
	}
	parts := []command.Part{}
	if m.Text != "" {
		parts = append(parts, command.Part{Type: "text", Text: m.Text})
	}
	return json.Marshal(append(parts, m.Parts...))
}

// Say hands in a message. On a busy thread it waits in the queue, or is given to the
// turn that runs if it steers.
func (c *Conversation) Say(m *Message, steer bool) {
	if steer && c.active != "" {
		c.submitTurn(m, "steer")
		return
	}
	c.submitTurn(m, "")
}

func (c *Conversation) submitTurn(m *Message, policy string) {
	input, err := m.input()
	if err != nil {
		c.View.Fail(err.Error())
		return
	}
	o := c.options
	o.QueuePolicy = policy
	if policy == "steer" {
		o.ExpectedTurnID = c.active
	}
	// The id is ours, so that asking again after a lost connection makes no second turn.
	p := &command.SubmitTurn{SessionID: c.session, TurnID: "turn_" + strings.ToLower(rand.Text()), Input: input, Options: &o}
	res := &command.SubmitTurnResult{}
	if policy != "steer" {
		c.open[p.TurnID] = true
	}
	c.ordered <- func() {
		// The first turn makes the session; one that was typed right behind it must
		// not make another.
		if p.SessionID == "" {
			p.SessionID = c.opened
		}
		err := c.doPatiently(p, res)
		if err == nil {
			c.opened = res.SessionID
		}
		c.front.Post(func() {
			if err != nil {
				delete(c.open, p.TurnID)
			}
			c.turnSubmitted(m, policy, res, err)
			c.View.Refresh()
		})
	}
}

// How often a command is tried again when the server restarts before it answers, and when
// no server is listening yet: starting one may take long.
const (
	submitTries = 20
	startTries  = 240
	submitPause = 250 * time.Millisecond
)

// doPatiently carries out a command that may be repeated, and tries again while the
// server can't be reached.
func (c *Conversation) doPatiently(p command.Params, res any) error {
	for cut, refused := 0, 0; ; {
		err := c.source.Do(c.ctx, p, res)
		if errors.Is(err, syscall.ECONNREFUSED) {
			refused++
		} else {
			cut++
		}
		if err == nil || !c.source.Remote() || fault.KindOf(err) != fault.Unavailable || cut >= submitTries || refused >= startTries {
			return err
		}
		timer := time.NewTimer(submitPause)
		select {
		case <-c.ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

func (c *Conversation) turnSubmitted(m *Message, policy string, res *command.SubmitTurnResult, err error) {
	if k := fault.KindOf(err); err != nil && policy == "steer" && (k == fault.Conflict || k == fault.PolicyRejected) {
		c.submitTurn(m, "") // the turn that was meant has ended meanwhile
		return
	}
	if err != nil {
		c.View.Fail(c.describe(err))
		c.front.Draft(m.Text) // so that it needn't be typed again
		return
	}
	if c.follow == nil {
		c.session, c.thread = res.SessionID, res.ThreadID
		c.startFollowing(0)
	}
}

// Idle reports whether everything that was said has been dealt with.
func (c *Conversation) Idle() bool { return len(c.open) == 0 && c.active == "" && c.pending == 0 }

// Answer sends the answer to the question that is asked.
func (c *Conversation) Answer(q *turntext.Question, answer *command.RespondAction) {
	if c.asking == q {
		c.asking = nil
	}
	c.View.Asking = false
	c.questions.Drop(q)
	c.pending++
	c.ordered <- func() {
		err := c.doPatiently(answer, nil) // the same answer twice is one
		c.handBack(func() {
			c.answered(q, answer, err)
			c.askDue()
			c.View.Refresh()
		})
	}
}

// answered tells what became of an answer. A question that stays open is asked again; one
// that was answered elsewhere, or that is gone, isn't put back.
func (c *Conversation) answered(q *turntext.Question, answer *command.RespondAction, err error) {
	if err == nil {
		c.View.Note(terminal.Green, turntext.MarkNote, q.Describe(answer))
		return
	}
	c.View.Warn(c.describe(err))
	if k := fault.KindOf(err); k != fault.Conflict && k != fault.NotFound {
		c.questions.PutBack(q)
	}
}

func (c *Conversation) interruption(reason string) *command.InterruptTurn {
	return &command.InterruptTurn{SessionID: c.session, ThreadID: c.thread, Reason: reason}
}

// Interrupt stops the turn that runs.
func (c *Conversation) Interrupt(reason string) {
	if c.active == "" {
		c.View.Info("nothing runs")
		return
	}
	c.View.SetStatus("stopping", time.Now())
	c.doBeside(c.interruption(reason), nil, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
		}
	})
}

// Leave ends the conversation, at once or when the turn that runs here has ended.
func (c *Conversation) Leave() {
	switch {
	case c.leaving || c.active == "":
		c.left = true
		c.front.Leave(nil)
	case c.source.Remote():
		c.View.Info("the server continues the turn")
		c.left = true
		c.front.Leave(nil)
	default:
		c.leaving = true
		if c.asking != nil {
			c.front.Withdraw(c.asking)
		}
		c.Interrupt("agentd chat was left")
	}
}

// Abandon ends a conversation whose terminal was closed. A turn that runs here is
// interrupted: nothing would carry it on.
func (c *Conversation) Abandon() {
	if c.active == "" || c.source.Remote() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // no person waits for this
	defer cancel()
	_ = c.source.Do(ctx, c.interruption("the terminal was closed"), nil) // the terminal that would show the error is gone
}
