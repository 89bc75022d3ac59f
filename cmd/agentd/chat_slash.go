package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/permission"
	"agentd/state"
)

// press takes a key.
func (c *conversation) press(k key) {
	switch {
	case k.name == "ctrl-c":
		c.ctrlC()
	case k.name == "ctrl-d" && len(c.edit.text) == 0:
		c.leave()
	case k.name == "ctrl-l":
		c.print(strings.Split(strings.Repeat("\n", 40), "\n")...)
	case k.name == keyEnter:
		c.enter(false)
	case k.name == keyAltEnter:
		c.enter(true)
	case k.name == keyEscape && c.ask != nil && c.ask.question == nil:
		c.unask()
	default:
		c.edit.press(k)
	}
}

// ctrlC interrupts what runs, else empties the line, else leaves.
func (c *conversation) ctrlC() {
	switch {
	case c.leaving:
		c.left = true
	case c.ask != nil && c.ask.question == nil:
		c.unask()
	case c.active != "":
		c.interrupt("Ctrl-C")
	case len(c.edit.text) > 0:
		c.edit.take()
	default:
		c.leave()
	}
}

// enter takes the line that was typed.
func (c *conversation) enter(steer bool) {
	if c.ask != nil {
		line := c.edit.value()
		c.edit.set("")
		c.ask.take(line)
		return
	}
	text := strings.TrimSpace(c.edit.take())
	switch {
	case text == "":
	case strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//"):
		c.edit.remember(text)
		c.slash(text)
	case steer && c.active != "":
		c.submit(text, "steer")
	default:
		c.submit(strings.TrimPrefix(text, "/"), "")
	}
}

// slashHelp lists the commands of a conversation.
var slashHelp = [][2]string{
	{"/steer TEXT", "give a text to the turn that runs (also Alt-Enter)"},
	{"/queue", "show what waits; /queue drop N, /queue first N"},
	{"/interrupt", "stop the turn that runs (also Ctrl-C)"},
	{"/model [MODEL]", "show or choose the model, as provider/model"},
	{"/mode [MODE]", "show or choose the permission mode"},
	{"/diff", "show what the last turn changed"},
	{"/undo", "take the last turn back, with its files"},
	{"/compact", "replace the past by a summary in the context"},
	{"/cost", "show what the session took"},
	{"/resume", "let a blocked conversation go on"},
	{"/help", "show this"},
	{"/quit", "leave (also Ctrl-D)"},
}

// slash carries out a command of the conversation. A line that begins with two
// slashes is a prompt that begins with one.
func (c *conversation) slash(line string) {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/help", "/?":
		c.help()
	case "/quit", "/exit":
		c.leave()
	case "/interrupt":
		c.interrupt("/interrupt")
	case "/steer":
		c.steer(rest)
	case "/queue":
		c.queueCommand(rest)
	case "/model":
		c.chooseModel(rest)
	case "/mode":
		c.chooseMode(rest)
	default:
		c.slashSession(name)
	}
}

// slashSession carries out what needs a session.
func (c *conversation) slashSession(name string) {
	commands := map[string]func(){"/undo": c.undo, "/diff": c.diff, "/compact": c.compact, "/cost": c.showCost, "/resume": c.resume}
	do, known := commands[name]
	switch {
	case !known:
		c.view.note(yellow, markWarn, "there is no "+name+"; /help lists the commands")
	case c.session == "":
		c.view.note(cyan, markNote, "nothing was said yet")
	default:
		do()
	}
}

func (c *conversation) help() {
	c.view.gap(kindNote)
	for _, h := range slashHelp {
		c.print(fmt.Sprintf("  %s %s", c.view.ink.paint(cyan, fmt.Sprintf("%-16s", h[0])), h[1]))
	}
}

func (c *conversation) steer(text string) {
	switch {
	case text == "":
		c.view.note(yellow, markWarn, "/steer TEXT")
	case c.active == "":
		c.submit(text, "")
	default:
		c.submit(text, "steer")
	}
}

// queueCommand shows or changes what waits.
func (c *conversation) queueCommand(rest string) {
	what, number, _ := strings.Cut(rest, " ")
	if what == "" {
		c.showQueue()
		return
	}
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 1 || n > len(c.queue) || (what != "drop" && what != "first") {
		c.view.note(yellow, markWarn, "/queue, /queue drop N or /queue first N")
		return
	}
	id := c.queue[n-1].TurnID
	var p command.Params = &command.RemoveQueuedTurn{SessionID: c.session, TurnID: id}
	if what == "first" {
		p = &command.PromoteQueuedTurn{SessionID: c.session, TurnID: id}
	}
	res := &command.QueueResult{}
	c.do(p, res, func(err error) {
		if err != nil {
			c.view.note(yellow, markWarn, describe(err))
			return
		}
		c.queue = res.Queue
		c.showQueue()
	})
}

func (c *conversation) showQueue() {
	if len(c.queue) == 0 {
		c.view.note(cyan, markNote, "nothing waits")
		return
	}
	c.view.gap(kindNote)
	for i, q := range c.queue {
		c.print(fmt.Sprintf("  %d  %s", i+1, clip(plainText(c.texts[q.TurnID]), 100)))
	}
}

func (c *conversation) chooseModel(name string) {
	if name == "" {
		now := c.options.Model
		if now == "" {
			now = c.model
		}
		if now == "" {
			now = "the default"
		}
		c.view.note(cyan, markNote, "model: "+now)
		return
	}
	c.options.Model = name
	c.view.note(cyan, markNote, "the next turns are answered by "+name)
}

func (c *conversation) chooseMode(name string) {
	switch {
	case name == "":
		now := c.options.PermissionMode
		if now == "" {
			now = "the session's"
		}
		c.view.note(cyan, markNote, "mode: "+now+"; there are "+strings.Join(permission.Modes(), ", "))
	case !slices.Contains(permission.Modes(), name):
		c.view.note(yellow, markWarn, "there is no mode "+name+"; there are "+strings.Join(permission.Modes(), ", "))
	default:
		c.options.PermissionMode = name
		c.view.note(cyan, markNote, "the next turns run in mode "+name)
	}
}

// compact replaces the past by a summary.
func (c *conversation) compact() {
	c.view.work("compacting", c.view.since)
	c.later(&command.CompactThread{SessionID: c.session, ThreadID: c.thread}, nil, func(err error) {
		if c.active == "" {
			c.view.status = ""
		}
		if err != nil {
			c.view.note(yellow, markWarn, describe(err))
		}
	})
}

func (c *conversation) showCost() {
	t := &state.ThreadReadModel{}
	c.do(&command.GetThreadRead{SessionID: c.session, ThreadID: c.thread}, t, func(err error) {
		if err != nil {
			c.view.note(yellow, markWarn, describe(err))
			return
		}
		cost, sum := t.CostState, "no price is known"
		if cost.TotalUSD != nil {
			sum = money(*cost.TotalUSD)
		}
		if cost.Unpriced > 0 {
			sum += fmt.Sprintf(" (without %s)", plural(cost.Unpriced, "request of unknown price"))
		}
		c.view.note(cyan, markNote, facets(sum, plural(cost.ModelCalls, "model call"), tokens(&cost.Usage)+" tokens", plural(t.TurnCount, "turn")))
	})
}

// resume lets a blocked thread go on.
func (c *conversation) resume() {
	res := &command.ResumeThreadResult{}
	c.do(&command.ResumeThread{SessionID: c.session, ThreadID: c.thread}, res, func(err error) {
		if err != nil {
			c.view.note(yellow, markWarn, describe(err))
			return
		}
		c.view.note(cyan, markNote, facets(strings.ReplaceAll(res.Status, "_", " "), res.Reason))
	})
}

// diff shows what the last turn changed.
func (c *conversation) diff() {
	c.rollback(true, func(_ *command.RollbackThread, res *command.RollbackThreadResult) {
		c.view.gap(kindNote)
		if res.Diff == "" {
			c.print("  nothing changed")
			return
		}
		c.print(diffLines(c.view.ink, res.Diff)...)
	})
}

// undo shows what would be taken back, and takes it back if that is wanted.
func (c *conversation) undo() {
	if c.active != "" {
		c.view.note(yellow, markWarn, "a turn runs; /interrupt it first")
		return
	}
	c.rollback(false, func(p *command.RollbackThread, res *command.RollbackThreadResult) {
		c.view.gap(kindNote)
		c.print(undoLines(c.view.ink, res)...)
		c.want(&lineWanted{lead: "take it back? [y] yes  [n] no: ", take: func(line string) { c.undoAnswer(p, line) }})
	})
}

func (c *conversation) undoAnswer(p *command.RollbackThread, line string) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
	case "n", "no", "":
		c.unask()
		c.view.note(cyan, markNote, "nothing was changed")
		return
	default:
		return
	}
	c.unask()
	p.Preview = false
	c.later(p, nil, func(err error) {
		if err != nil {
			c.view.note(red, markFailed, describe(err))
		}
	})
}

// rollback previews what taking back the last turn would do.
func (c *conversation) rollback(diff bool, then func(*command.RollbackThread, *command.RollbackThreadResult)) {
	c.running.Go(func() {
		p, err := planRollback(c.ctx, c.facts, c.session, "")
		res := &command.RollbackThreadResult{}
		if err == nil {
			p.Preview, p.Diff, p.Files = true, diff, "restore"
			err = c.facts.do(c.ctx, p, res)
			p.Diff = false
		}
		c.hand(func() {
			if err != nil {
				c.view.note(yellow, markWarn, describe(err))
				return
			}
			then(p, res)
		})
	})
}
