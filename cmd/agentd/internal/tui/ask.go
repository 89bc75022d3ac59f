package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
)

// ask is a question that waits for the user: what is asked stands above, the answers
// here.
type ask struct {
	question *turntext.Question
	answers  []turntext.Answer
	at       int
	// reason is what the answer is given with, if it takes one.
	reason editor
	form   *form
	// focused says that keys answer it. A question that comes while something is typed
	// waits for Tab, so that what was meant for the input is no answer.
	focused bool
	wrong   string
	// typed are the letters since the last other key: they choose an answer, until they
	// turn out to be words for the input.
	typed string
}

// Ask implements [conversation.Front].
func (c *client) Ask(q *turntext.Question) {
	c.talk.View.Separate()
	c.talk.View.Insert(q.Intro(c.ink, c.cols)...)
	a := &ask{question: q, answers: q.Answers(), focused: len(c.edit.text) == 0}
	if len(a.answers) == 0 {
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
	a.pressChoice(c, k)
	return false
}

func (a *ask) pressChoice(c *client, k tea.Key) {
	chosen := &a.answers[a.at]
	switch name := k.Keystroke(); name {
	case "up", "ctrl+p":
		a.at, a.typed = max(a.at-1, 0), ""
	case "down", "ctrl+n", "tab":
		a.at, a.typed = min(a.at+1, len(a.answers)-1), ""
	case "enter":
		a.send(c, chosen.Respond(a.reasonTyped()), "")
	default:
		if chosen.TakesReason && a.reason.press(k) || k.Text == "" {
			return
		}
		a.pressLetter(c, k.Text)
	}
}

// pressLetter chooses the answer of a letter. Letters that belong to no answer are the
// beginning of words, which go to the input with those before them: the question waits
// for Tab then, as if it had come while they were typed.
func (a *ask) pressLetter(c *client, letter string) {
	a.typed = strings.TrimLeft(a.typed+letter, " ")
	i := slices.IndexFunc(a.answers, func(x turntext.Answer) bool { return x.Key == letter })
	switch {
	case i >= 0:
		a.at, a.wrong = i, ""
	case a.typed == "ye" || a.typed == "yes": // the word of the first answer
	default:
		a.toInput(c, a.typed)
	}
}

// toInput puts what was typed or pasted into the input, and leaves the question alone.
func (a *ask) toInput(c *client, text string) {
	a.at, a.typed, a.focused = 0, "", false
	c.takePaste(text)
}

// reasonTyped is the reason, without the rest of a "no" that was typed out.
func (a *ask) reasonTyped() string {
	reason := strings.TrimSpace(a.reason.value())
	if rest, isWord := strings.CutPrefix(reason, "o"); isWord && a.answers[a.at].Key == "n" {
		if rest == "" || strings.ContainsRune(" ,.;:!", rune(rest[0])) {
			return strings.TrimLeft(rest, " ,.;:!")
		}
	}
	return reason
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
	switch {
	case a.form != nil:
		a.form.paste(text)
	case a.answers[a.at].TakesReason:
		a.reason.insert(text)
	default:
		a.toInput(c, a.typed+text)
	}
}

func (a *ask) draw(c *client, cols, _ int) (lines []string, row, col int) {
	k := c.ink
	row = -1
	if !a.focused { // the cursor is in the input
		return []string{k.Paint(terminal.Yellow, "? ") + a.question.Title() + k.Paint(terminal.Dim, "  Tab answers")}, -1, 0
	}
	if a.form != nil {
		lines, row, col = a.form.draw(k, cols)
	}
	for i := range a.answers {
		x := &a.answers[i]
		mark, text := "  ", terminal.Plain(x.Text)
		if i == a.at {
			row, col = len(lines), 2
			mark, text = k.Paint(terminal.Cyan, "▸ "), k.Paint(terminal.Bold, text)
		}
		lines = append(lines, fmt.Sprintf("%s%s %s", mark, k.Paint(terminal.Cyan, x.Key), text))
		if i == a.at && x.TakesReason {
			typed, r, at := a.reason.seen("    why: ", cols)
			row, col = len(lines)+r, at
			lines = append(lines, typed...)
		}
	}
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
	case a.form != nil && a.form.at < len(a.form.fields)-1:
		return "Enter goes on, Tab and Shift-Tab change the field, Esc interrupts the turn"
	case a.question.IsInput():
		return "Enter answers, Esc interrupts the turn"
	}
	return "Enter answers, Ctrl-O shows all of it, Esc interrupts the turn"
}
