package tui

import (
	tea "charm.land/bubbletea/v2"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
)

// ask is a question that waits for the user: what is asked stands above, the answers
// here.
type ask struct {
	chooser

	// question is what the agent asks; nil if the program itself asks for a yes or a no,
	// which confirm takes.
	question *turntext.Question
	confirm  func(yes bool)
	title    string
	form     *form
	// focused says that keys answer it. A question that comes while something is typed
	// waits for Tab, so that what was meant for the input is no answer.
	focused bool
	wrong   string
}

// Ask implements [conversation.Front].
func (c *client) Ask(q *turntext.Question) {
	c.talk.View.Separate()
	c.talk.View.Insert(q.Intro(c.ink, c.cols)...)
	a := &ask{question: q, title: q.Title(), focused: !c.isBusyTyping()}
	if a.answers = q.Answers(); len(a.answers) == 0 {
		a.form = newForm(q)
	}
	// It comes before what else may be open: nothing goes on without it.
	if c.over != nil {
		c.waiting = append([]overlay{c.over}, c.waiting...)
	}
	c.over = a
	c.menu.close()
	c.notify("agentd waits for you: " + q.Title())
}

// Confirm implements [conversation.Front].
func (c *client) Confirm(lead string, take func(yes bool)) {
	a := &ask{title: lead, confirm: take, focused: !c.isBusyTyping()}
	a.answers = turntext.YesOrNo()
	a.at = len(a.answers) - 1 // Enter alone changes nothing
	c.open(a)
}

// isBusyTyping reports whether the next keys are meant for something else than a question
// that comes now.
func (c *client) isBusyTyping() bool { return len(c.edit.text) > 0 || c.over != nil }

// Withdraw implements [conversation.Front].
func (c *client) Withdraw(q *turntext.Question) {
	is := func(o overlay) bool { a, ok := o.(*ask); return ok && a.question == q }
	if is(c.over) {
		c.closeOverlay()
		return
	}
	for i, o := range c.waiting {
		if is(o) {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return
		}
	}
}

func (a *ask) press(c *client, k tea.Key) bool {
	switch name := k.Keystroke(); name {
	case "esc", "ctrl+c":
		if a.question == nil {
			a.decide(c, false)
			return false
		}
		c.talk.Interrupt(map[string]string{"esc": "Esc", "ctrl+c": "Ctrl-C"}[name])
		return false
	case "ctrl+d":
		c.talk.Leave()
		return false
	case "ctrl+o":
		c.openPager()
		return false
	}
	if a.form != nil {
		if a.form.press(k) {
			r, wrong := a.form.answer(a.question)
			a.send(c, r, wrong)
		}
		return false
	}
	a.takeChoice(c, a.chooser.press(k))
	return false
}

// takeChoice acts on what keys made of the choice.
func (a *ask) takeChoice(c *client, what chosen) {
	switch what {
	case nothingYet:
	case answered:
		if a.question == nil {
			a.decide(c, a.at == 0)
			return
		}
		a.send(c, a.answers[a.at].Respond(a.reasonText()), "")
	case words, wordsSent:
		a.toInput(c, a.takeWords())
		if what == wordsSent {
			c.enter(false)
		}
	}
}

// toInput puts words into the input and leaves the question alone: it waits for Tab then,
// as if it had come while they were typed.
func (a *ask) toInput(c *client, text string) {
	if a.question == nil {
		a.at = len(a.answers) - 1
	}
	a.focused = false
	c.takePaste(text)
}

// decide takes the yes or no. The overlay is closed first: another may be there
// afterwards.
func (a *ask) decide(c *client, yes bool) {
	c.closeOverlay()
	a.confirm(yes)
}

// send gives the answer, or says what is wrong with it. The overlay is closed first:
// another may be there afterwards.
func (a *ask) send(c *client, r *command.RespondAction, wrong string) {
	if a.wrong = wrong; wrong != "" {
		return
	}
	c.closeOverlay()
	c.talk.Answer(a.question, r)
}

func (a *ask) paste(c *client, text string) {
	if a.form != nil {
		a.form.paste(text)
		return
	}
	a.takeChoice(c, a.chooser.paste(text))
}

func (a *ask) draw(c *client, cols, _ int) (lines []string, row, col int) {
	k := c.ink
	if !a.focused { // the cursor is in the input
		return []string{k.Paint(terminal.Yellow, "? ") + terminal.Plain(a.title) + k.Paint(terminal.Dim, "  Tab answers")}, -1, 0
	}
	if a.question == nil {
		lines = append(lines, k.Paint(terminal.Yellow, "? ")+k.Paint(terminal.Bold, terminal.Plain(a.title)))
	}
	drawn := a.chooser.draw
	if a.form != nil {
		drawn = a.form.draw
	}
	below, row, col := drawn(k, cols)
	if row >= 0 {
		row += len(lines)
	}
	lines = append(lines, below...)
	if a.wrong != "" {
		lines = append(lines, k.Paint(terminal.Yellow, "  "+terminal.Plain(a.wrong)))
	}
	for _, line := range terminal.Wrap(a.hint(), cols-2) {
		lines = append(lines, k.Paint(terminal.Dim, "  "+line))
	}
	return lines, row, col
}

// hint says what the keys do.
func (a *ask) hint() string {
	switch {
	case a.question == nil:
		return "Enter answers, Esc means no"
	case a.form != nil && a.form.at < len(a.form.fields)-1:
		return "Enter goes on, Tab and Shift-Tab change the field, Esc interrupts the turn"
	case a.question.IsInput():
		return "Enter answers, Esc interrupts the turn"
	}
	return "Enter answers, Ctrl-O shows all of it, Esc interrupts the turn"
}
