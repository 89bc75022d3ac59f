package conversation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/permission"
)

// Command is a slash command.
type Command struct {
	// Name begins with a slash; Args shows what may follow.
	Name, Args, Help string
	// NeedsSession says that there is nothing to do before the first turn.
	NeedsSession bool
	Run          func(rest string)
	// Complete lists the values of the argument; nil if it has none.
	Complete func() []string
}

// Commands are the slash commands, in the order of the help. Those of the front come
// last.
func (c *Conversation) Commands() []Command {
	no := func(do func()) func(string) { return func(string) { do() } }
	return []Command{
		{Name: "/new", Help: "begin a new session", Run: no(c.newSession)},
		{Name: "/sessions", Args: "[TEXT]", Help: "find a session and continue it", Run: c.pickSession},
		{Name: "/model", Args: "[MODEL]", Help: "choose the model of the next turns", Run: c.chooseModel, Complete: c.modelNames},
		{Name: "/mode", Args: "[MODE]", Help: "choose the permission mode of the next turns", Run: c.chooseMode, Complete: permission.Modes},
		{Name: "/undo", Help: "undo the last turn and its file changes", NeedsSession: true, Run: no(c.startUndo)},
		{Name: "/back", Help: "go back to an earlier turn and say something else (also Esc Esc)", NeedsSession: true, Run: no(c.GoBack)},
		{Name: "/diff", Help: "show what the last turn changed", NeedsSession: true, Run: no(c.showDiff)},
		{Name: "/output", Help: "look at all that a tool wrote (also Ctrl-O)", NeedsSession: true, Run: no(c.pickOutput)},
		{Name: "/why", Help: "explain the last turn: what was allowed, and why", NeedsSession: true, Run: no(c.explainTurn)},
		{Name: "/tasks", Help: "list the tasks of the session", NeedsSession: true, Run: no(c.listTasks)},
		{Name: "/agents", Help: "list the subagents of the session", NeedsSession: true, Run: no(c.listAgents)},
		{Name: "/queue", Args: "[drop N|first N]", Help: "show or change the queue", Run: c.queueCommand},
		{Name: "/steer", Args: "TEXT", Help: "add text to the running turn (also Alt-Enter)", Run: c.steerTurn},
		{Name: "/interrupt", Help: "stop the running turn (also Esc)", Run: func(string) { c.Interrupt("/interrupt") }},
		{Name: "/compact", Help: "replace the conversation by a summary in the context", NeedsSession: true, Run: no(c.compactThread)},
		{Name: "/cost", Help: "show what the session used", NeedsSession: true, Run: no(c.showCost)},
		{Name: "/status", Help: "show the session, its model and mode, and who is waited for", Run: no(c.showStatus)},
		{Name: "/export", Args: "[FILE]", Help: "write the conversation to a file: .md or .json", NeedsSession: true, Run: c.exportTranscript},
		{Name: "/review", Args: "[FILE]", Help: "write a review of the session to a file: .md, .html or .json", NeedsSession: true, Run: c.exportReview},
		{Name: "/resume", Help: "resume a blocked conversation", NeedsSession: true, Run: no(c.resumeThread)},
		{Name: "/quit", Help: "leave (also Ctrl-D)", Run: no(c.Leave)},
	}
}

// otherNames are what other terminals call our commands: fingers that know them arrive.
var otherNames = map[string]string{
	"/exit": "/quit", "/clear": "/new", "/models": "/model", "/permissions": "/mode", "/approvals": "/mode",
	"/rewind": "/back", "/timeline": "/back", "/summarize": "/compact", "/subagents": "/agents", "/ps": "/tasks",
	"/context": "/cost", "/usage": "/cost", "/themes": "/theme", "/?": "/help", "/switch": "/sessions",
}

// IsCommand reports whether a line begins with one of the commands, by whatever name.
func IsCommand(line string, all []Command) bool {
	i, _, _ := findCommand(line, all)
	return i >= 0
}

// findCommand returns the place of the command that a line begins with, or -1, its name and
// the rest of the line.
func findCommand(line string, all []Command) (i int, name, rest string) {
	name, rest, _ = strings.Cut(line, " ")
	if ours, known := otherNames[name]; known {
		name = ours
	}
	return slices.IndexFunc(all, func(x Command) bool { return x.Name == name }), name, rest
}

// RunSlash carries out a line that begins with a slash.
func (c *Conversation) RunSlash(line string, all []Command) {
	i, name, rest := findCommand(line, all)
	switch {
	case i < 0:
		c.View.Warn("there is no " + name + "; /help lists the commands" + suggest(name, all))
	case all[i].NeedsSession && c.session == "":
		c.View.Info("the conversation is empty")
	default:
		all[i].Run(strings.TrimSpace(rest))
	}
	c.View.Refresh()
}

// suggest names a command that begins alike.
func suggest(name string, all []Command) string {
	for _, x := range all {
		if len(name) > 2 && strings.HasPrefix(x.Name, name[:3]) {
			return "; did you mean " + x.Name + "?"
		}
	}
	return ""
}

// HelpLines list the commands.
func HelpLines(k terminal.Ink, all []Command, cols int) []string {
	wide := 0
	for _, x := range all {
		wide = max(wide, len(x.Name)+1+len(x.Args))
	}
	wide = min(wide, max(cols/2, 8))
	var out []string
	for _, x := range all {
		left := fmt.Sprintf("%-*s", wide, strings.TrimSpace(x.Name+" "+x.Args))
		lines := terminal.Wrap(x.Help, max(cols-wide-4, 12))
		for i, line := range lines {
			if i > 0 {
				left = strings.Repeat(" ", wide)
			}
			out = append(out, "  "+k.Paint(terminal.Cyan, left)+" "+line)
		}
	}
	return out
}

func (c *Conversation) steerTurn(text string) {
	if text == "" {
		c.View.Warn("/steer TEXT")
		return
	}
	c.Say(&Message{Text: text}, true)
}

// queueCommand shows or changes what waits.
func (c *Conversation) queueCommand(rest string) {
	what, number, _ := strings.Cut(rest, " ")
	if what == "" {
		c.showQueue()
		return
	}
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 1 || n > len(c.queue) || (what != "drop" && what != "first") {
		c.View.Warn("/queue, /queue drop N or /queue first N")
		return
	}
	c.changeQueue(what, c.queue[n-1].TurnID)
}

func (c *Conversation) changeQueue(what, turnID string) {
	var p command.Params = &command.RemoveQueuedTurn{SessionID: c.session, TurnID: turnID}
	text := c.texts[turnID]
	if what == "first" {
		p = &command.PromoteQueuedTurn{SessionID: c.session, TurnID: turnID}
	}
	res := &command.QueueResult{}
	c.doInOrder(p, res, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		if what == "drop" {
			delete(c.open, turnID)
			return // the facts tell the rest, here and elsewhere
		}
		c.View.Info("runs next: " + shortPrompt(text))
		c.View.Refresh()
	})
}

// shortPrompt is what a prompt is called in a line about it.
func shortPrompt(text string) string { return terminal.Clip(terminal.Plain(text), 60) }

// showQueue lets the user look at the queue, and change it.
func (c *Conversation) showQueue() {
	if len(c.queue) == 0 {
		c.View.Info("nothing waits")
		return
	}
	load := func(_ string, then func([]Choice, error)) {
		var list []Choice
		for i, q := range c.queue {
			list = append(list, Choice{Label: strconv.Itoa(i+1) + "  " + c.texts[q.TurnID], Value: q.TurnID})
		}
		then(list, nil)
	}
	c.front.Pick(&Picker{
		Title: "Queue", Hint: "Enter runs it next, Delete removes it", Load: load, Live: true,
		Take: func(x Choice) { c.changeQueue("first", x.Value) },
		Drop: func(x Choice) { c.changeQueue("drop", x.Value) },
	})
}

func (c *Conversation) modelNames() []string {
	var out []string
	for i := range c.models {
		out = append(out, c.models[i].ModelID)
	}
	return out
}

// chooseModel chooses among the models that there are.
func (c *Conversation) chooseModel(name string) {
	res := &command.ListModelsResult{}
	c.doInOrder(&command.ListModels{Page: command.Page{Limit: 1000}}, res, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		if c.models = res.Models; name == "" {
			c.pickModel()
			return
		}
		c.setModel(name)
	})
}

func (c *Conversation) setModel(name string) {
	var same []string
	for i := range c.models {
		m := &c.models[i]
		if m.ModelID == name || m.Model == name {
			same = append(same, m.ModelID)
		}
		if m.ModelID == name {
			same = []string{name}
			break
		}
	}
	switch {
	case len(same) == 0:
		names := terminal.Clip(strings.Join(c.modelNames(), ", "), 200)
		c.View.Warn("there is no model " + name + "; use one of " + names)
	case len(same) > 1:
		c.View.Warn(name + " is ambiguous; use one of " + strings.Join(same, ", "))
	default:
		i := slices.IndexFunc(c.models, func(m command.ModelRecord) bool { return m.ModelID == same[0] })
		if c.models[i].Status == "no_credential" {
			c.View.Warn(terminal.JoinDots(same[0]+" can't be used yet", c.models[i].CredentialHint))
			return
		}
		c.options.Model = same[0]
		c.View.Info("the next turns use " + same[0])
	}
	c.View.Refresh()
}

// chooseMode chooses among the permission modes.
func (c *Conversation) chooseMode(name string) {
	switch {
	case name == "":
		c.pickMode()
	case !slices.Contains(permission.Modes(), name):
		c.View.Warn("unknown mode " + name + "; use one of " + strings.Join(permission.Modes(), ", "))
	default:
		c.options.PermissionMode = name
		c.View.Info("the next turns run in mode " + name)
	}
}

// NextMode goes to the next of the modes that are chosen most.
func (c *Conversation) NextMode() {
	usual := []string{permission.ModeDefault, permission.ModeAuto, permission.ModePlan}
	now := c.Status()
	at := slices.Index(usual, cmp.Or(now.NextMode, now.Mode))
	c.options.PermissionMode = usual[(at+1)%len(usual)]
}

// compactThread replaces the past by a summary.
func (c *Conversation) compactThread() {
	c.View.ChangeStatus("compacting")
	c.doBeside(&command.CompactThread{SessionID: c.session, ThreadID: c.thread}, nil, func(err error) {
		if c.active == "" {
			c.View.ChangeStatus("")
		}
		if err != nil {
			c.View.Warn(c.describe(err))
		}
		c.View.Refresh()
	})
}
