package chat

import (
	"encoding/json"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/fault"
)

// answerQuestion sends the answer to a question, or asks again.
func (c *conversation) answerQuestion(q *turntext.Question, line string) {
	answer, wrong := q.Parse(line)
	if wrong != "" {
		c.Print(c.view.Ink.Paint(terminal.Yellow, "  "+wrong))
		return
	}
	c.endAsking()
	c.questions.Drop(q)
	c.doInOrder(answer, nil, func(err error) {
		switch {
		case err == nil:
			c.view.Note(terminal.Green, turntext.MarkNote, q.Describe(answer))
		case fault.KindOf(err) == fault.InvalidParams:
			c.view.Warn(c.describe(err))
			c.questions.PutBack(q)
		default:
			c.view.Warn(c.describe(err))
		}
		c.askDue()
	})
}

// submitTurn hands a prompt in.
func (c *conversation) submitTurn(text, policy string) {
	input, err := json.Marshal(text)
	if err != nil {
		return // a text is always JSON
	}
	o := c.options
	o.QueuePolicy = policy
	if policy == "steer" {
		o.ExpectedTurnID = c.active
	}
	p := &command.SubmitTurn{SessionID: c.session, Input: input, Options: &o}
	res := &command.SubmitTurnResult{}
	c.ordered <- func() {
		// The first turn makes the session; one that was typed right behind it must
		// not make another.
		if p.SessionID == "" {
			p.SessionID = c.opened
		}
		err := c.source.Do(c.ctx, p, res)
		if err == nil {
			c.opened = res.SessionID
		}
		c.handBack(func() { c.turnSubmitted(text, policy, res, err) })
	}
}

func (c *conversation) turnSubmitted(text, policy string, res *command.SubmitTurnResult, err error) {
	if k := fault.KindOf(err); err != nil && policy == "steer" && (k == fault.Conflict || k == fault.PolicyRejected) {
		c.submitTurn(text, "") // the turn that was meant has ended meanwhile
		return
	}
	if err != nil {
		c.view.Fail(c.describe(err))
		if c.edit.value() == "" && c.ask == nil {
			c.edit.set(text) // so that it needn't be typed again
		}
		return
	}
	if c.follow == nil {
		c.session, c.thread = res.SessionID, res.ThreadID
		c.follow = facts.StartFollower(c.ctx, c.source, res.SessionID, 0)
	}
}

func (c *conversation) interruption(reason string) *command.InterruptTurn {
	return &command.InterruptTurn{SessionID: c.session, ThreadID: c.thread, Reason: reason}
}

// interruptTurn stops the turn that runs.
func (c *conversation) interruptTurn(reason string) {
	if c.active == "" {
		c.view.Info("nothing runs")
		return
	}
	c.view.SetStatus("stopping", time.Now())
	c.doBeside(c.interruption(reason), nil, func(err error) {
		if err != nil {
			c.view.Warn(c.describe(err))
		}
	})
}

// leave ends the conversation, at once or when the turn that runs here has ended.
func (c *conversation) leave() {
	switch {
	case c.leaving || c.active == "":
		c.left = true
	case c.source.Remote():
		c.view.Info("the server continues the turn")
		c.left = true
	default:
		c.leaving = true
		if c.ask != nil {
			c.endAsking()
		}
		c.interruptTurn("agentd chat was left")
	}
}
