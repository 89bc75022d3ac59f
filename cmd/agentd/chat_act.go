package main

import (
	"encoding/json"
	"time"

	"agentd/command"
	"agentd/fault"
)

// answer sends the answer to a question, or asks again.
func (c *conversation) answer(q *question, line string) {
	answer, wrong := q.parse(line)
	if wrong != "" {
		c.print(c.view.ink.paint(yellow, "  "+wrong))
		return
	}
	c.unask()
	c.questions.drop(q)
	c.do(answer, nil, func(err error) {
		switch {
		case err == nil:
			c.view.note(green, markNote, q.describe(answer))
		case fault.KindOf(err) == fault.InvalidParams:
			c.view.note(yellow, markWarn, describe(err))
			c.questions.open = append([]*question{q}, c.questions.open...)
		default:
			c.view.note(yellow, markWarn, describe(err))
		}
		c.next()
	})
}

// submit hands a prompt in.
func (c *conversation) submit(text, policy string) {
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
		err := c.facts.do(c.ctx, p, res)
		if err == nil {
			c.opened = res.SessionID
		}
		c.hand(func() { c.submitted(text, policy, res, err) })
	}
}

func (c *conversation) submitted(text, policy string, res *command.SubmitTurnResult, err error) {
	if k := fault.KindOf(err); err != nil && policy == "steer" && (k == fault.Conflict || k == fault.PolicyRejected) {
		c.submit(text, "") // the turn that was meant has ended meanwhile
		return
	}
	if err != nil {
		c.view.note(red, markFailed, describe(err))
		if c.edit.value() == "" && c.ask == nil {
			c.edit.set(text) // so that it needn't be typed again
		}
		return
	}
	if c.follow == nil {
		c.session, c.thread = res.SessionID, res.ThreadID
		c.follow = startFollowing(c.ctx, c.facts, res.SessionID, 0)
	}
}

func (c *conversation) interruption(reason string) *command.InterruptTurn {
	return &command.InterruptTurn{SessionID: c.session, ThreadID: c.thread, Reason: reason}
}

// interrupt stops the turn that runs.
func (c *conversation) interrupt(reason string) {
	if c.active == "" {
		c.view.note(cyan, markNote, "nothing runs")
		return
	}
	c.view.work("stopping", time.Now())
	c.later(c.interruption(reason), nil, func(err error) {
		if err != nil {
			c.view.note(yellow, markWarn, describe(err))
		}
	})
}

// leave ends the conversation, at once or when the turn that runs here has ended.
func (c *conversation) leave() {
	switch {
	case c.leaving || c.active == "":
		c.left = true
	case c.remote():
		c.view.note(cyan, markNote, "the server goes on with the turn")
		c.left = true
	default:
		c.leaving = true
		if c.ask != nil {
			c.unask()
		}
		c.interrupt("agentd chat was left")
	}
}
