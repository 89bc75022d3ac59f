package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/permission"
	"agentd/state"
)

// pressKey takes a key.
func (c *conversation) pressKey(k key) {
	switch {
	case k.name == "ctrl-c":
		c.ctrlC()
	case k.name == "ctrl-d" && len(c.edit.text) == 0:
		c.leave()
	case k.name == "ctrl-l":
		c.Print(strings.Split(strings.Repeat("\n", 40), "\n")...)
	case k.name == keyEnter:
		c.takeLine(false)
	case k.name == keyAltEnter:
		c.takeLine(true)
	case k.name == keyEscape && c.ask != nil && c.ask.question == nil:
		c.endAsking()
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
		c.endAsking()
	case c.active != "":
		c.interruptTurn("Ctrl-C")
	case len(c.edit.text) > 0:
		c.edit.takeLine()
	default:
		c.leave()
	}
}

// takeLine takes the line that was typed.
func (c *conversation) takeLine(steer bool) {
	if c.ask != nil {
		line := c.edit.value()
		c.edit.set("")
		c.ask.take(line)
		return
	}
	text := strings.TrimSpace(c.edit.takeLine())
	switch {
	case text == "":
	case strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//"):
		c.edit.remember(text)
		c.runSlash(text)
	case steer && c.active != "":
		c.submitTurn(text, "steer")
	default:
		c.submitTurn(strings.TrimPrefix(text, "/"), "")
	}
}

// slashHelp lists the commands of a conversation.
var slashHelp = [][2]string{
	{"/steer TEXT", "add text to the running turn (also Alt-Enter)"},
	{"/queue", "show the queue; /queue drop N, /queue first N"},
	{"/interrupt", "stop the running turn (also Ctrl-C)"},
	{"/model [MODEL]", "show or choose the model, as provider/model"},
	{"/mode [MODE]", "show or choose the permission mode"},
	{"/diff", "show what the last turn changed"},
	{"/undo", "undo the last turn and its file changes"},
	{"/compact", "replace the conversation by a summary in the context"},
	{"/cost", "show what the session used"},
	{"/resume", "resume a blocked conversation"},
	{"/help", "show this"},
	{"/quit", "leave (also Ctrl-D)"},
}

// runSlash carries out a command of the conversation. A line that begins with two
// slashes is a prompt that begins with one.
func (c *conversation) runSlash(line string) {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/help", "/?":
		c.showHelp()
	case "/quit", "/exit":
		c.leave()
	case "/interrupt":
		c.interruptTurn("/interrupt")
	case "/steer":
		c.steerTurn(rest)
	case "/queue":
		c.queueCommand(rest)
	case "/model":
		c.chooseModel(rest)
	case "/mode":
		c.chooseMode(rest)
	default:
		c.runSessionSlash(name)
	}
}

// runSessionSlash carries out what needs a session.
func (c *conversation) runSessionSlash(name string) {
	commands := map[string]func(){"/undo": c.startUndo, "/diff": c.showDiff, "/compact": c.compactThread, "/cost": c.showCost, "/resume": c.resumeThread}
	do, known := commands[name]
	switch {
	case !known:
		c.view.Warn("there is no " + name + "; /help lists the commands")
	case c.session == "":
		c.view.Info("the conversation is empty")
	default:
		do()
	}
}

func (c *conversation) showHelp() {
	c.view.Separate()
	for _, h := range slashHelp {
		c.Print(fmt.Sprintf("  %s %s", c.view.Ink.Paint(terminal.Cyan, fmt.Sprintf("%-16s", h[0])), h[1]))
	}
}

func (c *conversation) steerTurn(text string) {
	switch {
	case text == "":
		c.view.Warn("/steer TEXT")
	case c.active == "":
		c.submitTurn(text, "")
	default:
		c.submitTurn(text, "steer")
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
		c.view.Warn("/queue, /queue drop N or /queue first N")
		return
	}
	id := c.queue[n-1].TurnID
	var p command.Params = &command.RemoveQueuedTurn{SessionID: c.session, TurnID: id}
	if what == "first" {
		p = &command.PromoteQueuedTurn{SessionID: c.session, TurnID: id}
	}
	res := &command.QueueResult{}
	c.doInOrder(p, res, func(err error) {
		if err != nil {
			c.view.Warn(c.describe(err))
			return
		}
		c.queue = res.Queue
		c.showQueue()
	})
}

func (c *conversation) showQueue() {
	if len(c.queue) == 0 {
		c.view.Info("nothing waits")
		return
	}
	c.view.Separate()
	for i, q := range c.queue {
		c.Print(fmt.Sprintf("  %d  %s", i+1, terminal.Clip(terminal.Plain(c.texts[q.TurnID]), 100)))
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
		c.view.Info("model: " + now)
		return
	}
	c.options.Model = name
	c.view.Info("the next turns use " + name)
}

func (c *conversation) chooseMode(name string) {
	switch {
	case name == "":
		now := c.options.PermissionMode
		if now == "" {
			now = "the session's"
		}
		c.view.Info("mode: " + now + "; the modes are " + strings.Join(permission.Modes(), ", "))
	case !slices.Contains(permission.Modes(), name):
		c.view.Warn("unknown mode " + name + "; use one of " + strings.Join(permission.Modes(), ", "))
	default:
		c.options.PermissionMode = name
		c.view.Info("the next turns run in mode " + name)
	}
}

// compactThread replaces the past by a summary.
func (c *conversation) compactThread() {
	c.view.ChangeStatus("compacting")
	c.doBeside(&command.CompactThread{SessionID: c.session, ThreadID: c.thread}, nil, func(err error) {
		if c.active == "" {
			c.view.ChangeStatus("")
		}
		if err != nil {
			c.view.Warn(c.describe(err))
		}
	})
}

func (c *conversation) showCost() {
	t := &state.ThreadReadModel{}
	c.doInOrder(&command.GetThreadRead{SessionID: c.session, ThreadID: c.thread}, t, func(err error) {
		if err != nil {
			c.view.Warn(c.describe(err))
			return
		}
		cost, sum := t.CostState, "no price is known"
		if cost.TotalUSD != nil {
			sum = terminal.Money(*cost.TotalUSD)
		}
		if cost.Unpriced > 0 {
			sum += fmt.Sprintf(" (without %s)", terminal.Plural(cost.Unpriced, "request of unknown price"))
		}
		c.view.Info(terminal.JoinDots(sum, terminal.Plural(cost.ModelCalls, "model call"), terminal.Tokens(&cost.Usage)+" tokens", terminal.Plural(t.TurnCount, "turn")))
	})
}

// resumeThread lets a blocked thread go on.
func (c *conversation) resumeThread() {
	res := &command.ResumeThreadResult{}
	c.doInOrder(&command.ResumeThread{SessionID: c.session, ThreadID: c.thread}, res, func(err error) {
		if err != nil {
			c.view.Warn(c.describe(err))
			return
		}
		c.view.Info(terminal.JoinDots(strings.ReplaceAll(res.Status, "_", " "), res.Reason))
	})
}

// showDiff shows what the last turn changed.
func (c *conversation) showDiff() {
	c.previewRollback(true, func(_ *command.RollbackThread, res *command.RollbackThreadResult) {
		c.view.Separate()
		if res.Diff == "" {
			c.Print("  nothing changed")
			return
		}
		c.Print(turntext.DiffLines(c.view.Ink, res.Diff)...)
	})
}

// startUndo shows what would be taken back, and takes it back if that is wanted.
func (c *conversation) startUndo() {
	if c.active != "" {
		c.view.Warn("a turn runs; /interrupt it first")
		return
	}
	c.previewRollback(false, func(p *command.RollbackThread, res *command.RollbackThreadResult) {
		c.view.Separate()
		c.Print(turntext.RollbackLines(c.view.Ink, res)...)
		c.askLine(&lineWanted{lead: "undo it? [y] yes  [n] no: ", take: func(line string) { c.answerUndo(p, line) }})
	})
}

func (c *conversation) answerUndo(p *command.RollbackThread, line string) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
	case "n", "no", "":
		c.endAsking()
		c.view.Info("nothing was changed")
		return
	default:
		return
	}
	c.endAsking()
	p.Preview = false
	c.doBeside(p, nil, func(err error) {
		if err != nil {
			c.view.Fail(c.describe(err))
		}
	})
}

// previewRollback previews what taking back the last turn would do.
func (c *conversation) previewRollback(diff bool, then func(*command.RollbackThread, *command.RollbackThreadResult)) {
	c.running.Go(func() {
		p, err := facts.PlanRollback(c.ctx, c.source, c.session, "")
		res := &command.RollbackThreadResult{}
		if err == nil {
			p.Preview, p.Diff, p.Files = true, diff, "restore"
			err = c.source.Do(c.ctx, p, res)
			p.Diff = false
		}
		c.handBack(func() {
			if err != nil {
				c.view.Warn(c.describe(err))
				return
			}
			then(p, res)
		})
	})
}
