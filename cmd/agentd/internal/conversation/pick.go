package conversation

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
	"agentd/permission"
)

// Choice is something that can be picked. Its texts may be what others wrote: a front
// makes them plain.
type Choice struct {
	Label, Detail string
	// Value is what the choice stands for.
	Value string
	// Current marks what holds now.
	Current bool
}

// Picker is a list to choose from.
type Picker struct {
	Title, Hint string
	// Load lists the choices for what is typed. The function that takes them is called
	// in the goroutine that owns the conversation.
	Load func(query string, then func([]Choice, error))
	// Filters says that the list is the same for every query: the front narrows it.
	Filters bool
	// Live says that the list changes by itself and is loaded anew while it is shown.
	Live bool
	// Query is typed already.
	Query string
	Take  func(Choice)
	// Drop takes a choice away; nil if that can't be done.
	Drop func(Choice)
}

// load carries out a command and hands over what becomes of its result.
func load[R any](c *Conversation, p command.Params, then func([]Choice, error), list func(*R) []Choice) {
	var res R
	c.doBeside(p, &res, func(err error) {
		if err != nil {
			then(nil, err)
			return
		}
		then(list(&res), nil)
	})
}

// pickSession lets the user find a session and goes there.
func (c *Conversation) pickSession(query string) {
	list := func(query string, then func([]Choice, error)) {
		p := &command.ListSessions{Page: command.Page{Limit: 50}, Query: query, Sort: "updated"}
		load(c, p, then, func(res *command.ListSessionsResult) []Choice {
			var out []Choice
			for i := range res.Sessions {
				s := &res.Sessions[i]
				if s.SessionID == event.RuntimeSession {
					continue
				}
				title := s.Title
				if title == "" {
					title = s.SessionID
				}
				waits := ""
				if s.PendingActions > 0 {
					waits = "waits for you"
				}
				detail := terminal.JoinDots(Ago(time.Since(s.UpdatedAt)), terminal.Plural(s.TurnCount, "turn"), shownStatus(s.Status), waits)
				out = append(out, Choice{Label: title, Value: s.SessionID, Current: s.SessionID == c.session, Detail: detail})
			}
			return out
		})
	}
	c.front.Pick(&Picker{Title: "Sessions", Hint: "type to search", Load: list, Live: true, Query: query, Take: func(x Choice) { c.switchTo(x.Value) }})
}

// shownStatus leaves out what most sessions are.
func shownStatus(status string) string {
	if status == "open" || status == "idle" {
		return ""
	}
	return status
}

// Ago says how long something is past.
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return terminal.Count(int64(d.Minutes())) + "m ago"
	case d < 48*time.Hour:
		return terminal.Count(int64(d.Hours())) + "h ago"
	}
	return terminal.Count(int64(d.Hours())/24) + "d ago"
}

// switchTo leaves the session and takes up another. A turn that runs goes on.
func (c *Conversation) switchTo(sessionID string) {
	if sessionID == c.session {
		return
	}
	c.beside(func() func() {
		past, err := c.readPast(c.ctx, sessionID)
		return func() {
			if err != nil {
				c.View.Warn(c.describe(err))
				return
			}
			c.leaveSession()
			c.View.Separate()
			c.View.Info("session " + sessionID)
			c.takeUp(past)
			c.View.Refresh()
		}
	})
}

// newSession begins anew: the next turn makes a session.
func (c *Conversation) newSession() {
	c.leaveSession()
	c.View.Info("a new session begins with the next turn")
}

func (c *Conversation) pickModel() {
	list := func(_ string, then func([]Choice, error)) {
		now := c.Status()
		var out []Choice
		for i := range c.models {
			m := &c.models[i]
			window, price := "", ""
			if m.ContextWindow > 0 {
				window = terminal.Count(m.ContextWindow) + " context"
			}
			if m.Price != nil {
				price = terminal.Money(m.Price.InputPerMTok) + "/" + terminal.Money(m.Price.OutputPerMTok) + " per Mtok"
			}
			status := ""
			if m.Status == "no_credential" {
				status = "no key"
			}
			out = append(out, Choice{Label: m.ModelID, Value: m.ModelID, Current: m.ModelID == cmp.Or(now.NextModel, now.Model), Detail: terminal.JoinDots(status, window, price)})
		}
		then(out, nil)
	}
	c.front.Pick(&Picker{Title: "Model of the next turns", Hint: "type to search", Load: list, Filters: true, Take: func(x Choice) { c.setModel(x.Value) }})
}

// modeHelp says what each mode lets happen without a question.
var modeHelp = map[string]string{
	permission.ModeDefault: "reads run, everything else asks", permission.ModeUntrusted: "only reads inside the workspace run", permission.ModeAuto: "what stays in the sandbox runs",
	permission.ModeOnRequest: "like auto, and the model may ask for more", permission.ModeOnFailure: "like auto, and asks when the sandbox refuses",
	permission.ModeNever: "like auto, and what would ask is denied", permission.ModePlan: "reads only; ends with a plan", permission.ModeBypass: "nothing asks but what a rule says",
}

func (c *Conversation) pickMode() {
	list := func(_ string, then func([]Choice, error)) {
		now := c.Status()
		var out []Choice
		for _, m := range permission.Modes() {
			out = append(out, Choice{Label: m, Detail: modeHelp[m], Value: m, Current: m == cmp.Or(now.NextMode, now.Mode)})
		}
		then(out, nil)
	}
	c.front.Pick(&Picker{Title: "Permission mode of the next turns", Load: list, Filters: true, Take: func(x Choice) { c.chooseMode(x.Value) }})
}

// pickOutput lets the user choose a tool call to look at.
func (c *Conversation) pickOutput() {
	calls := c.Calls()
	if len(calls) == 0 {
		c.View.Info("no tool was called yet")
		return
	}
	list := func(_ string, then func([]Choice, error)) {
		var out []Choice
		for _, x := range slices.Backward(calls) {
			out = append(out, Choice{Label: x.Name + " " + x.Args, Value: x.ID})
		}
		then(out, nil)
	}
	c.front.Pick(&Picker{Title: "Output of a tool", Load: list, Filters: true, Take: func(x Choice) {
		if call := c.call(x.Value); call != nil {
			c.ReadOutput(call, func(text string) {
				c.View.Insert(append([]string{"", c.View.Ink.Paint(terminal.Bold, terminal.Plain(x.Label))}, strings.Split(strings.TrimRight(text, "\n"), "\n")...)...)
				c.View.Refresh()
			})
		}
	}})
}

// SearchHistory lets the user find what was said before, in any session.
func (c *Conversation) SearchHistory(query string) {
	list := func(query string, then func([]Choice, error)) {
		words := strings.Fields(query)
		for i := range words {
			words[i] += "*"
		}
		p := &command.ListTurns{Page: command.Page{Limit: 200}, Query: strings.Join(words, " ")}
		load(c, p, then, func(res *command.ListTurnsResult) []Choice {
			seen := map[string]bool{}
			var out []Choice
			add := func(text, detail string) {
				if text = strings.TrimSpace(text); text != "" && !seen[text] {
					seen[text] = true
					out = append(out, Choice{Label: text, Detail: detail, Value: text})
				}
			}
			for _, text := range slices.Backward(c.prompts) {
				if contains(text, query) {
					add(text, "")
				}
			}
			for i := range res.Turns {
				add(res.Turns[i].Preview, Ago(time.Since(res.Turns[i].StartedAt)))
			}
			return out
		})
	}
	c.front.Pick(&Picker{Title: "History", Hint: "type to search", Load: list, Query: query, Take: func(x Choice) { c.front.Draft(x.Value) }})
}

// contains reports whether a text has all words of a query.
func contains(text, query string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// GoBack lets the user choose an earlier turn: it and those after it are taken back,
// and what it said can be said differently.
func (c *Conversation) GoBack() {
	if c.session == "" {
		c.View.Info("the conversation is empty")
		return
	}
	if c.active != "" {
		c.View.Warn("a turn runs; interrupt it first")
		return
	}
	list := func(_ string, then func([]Choice, error)) {
		session := c.session
		c.beside(func() func() {
			t, err := facts.MainThread(c.ctx, c.source, session)
			return func() {
				if err != nil {
					then(nil, err)
					return
				}
				var out []Choice
				for i := range slices.Backward(t.Turns) {
					x := &t.Turns[i]
					out = append(out, Choice{Label: x.Preview, Detail: Ago(time.Since(x.SubmittedAt)), Value: x.TurnID})
				}
				then(out, nil)
			}
		})
	}
	c.front.Pick(&Picker{Title: "Go back to before", Hint: "Enter shows what would be undone", Load: list, Filters: true, Take: func(x Choice) { c.planBack(x) }})
}

func (c *Conversation) planBack(x Choice) {
	c.previewRollback(x.Value, func(p *command.RollbackThread, res *command.RollbackThreadResult) {
		c.confirmRollback(p, res, func() { c.front.Draft(x.Label) })
	})
}

// previewRollback previews what taking back a turn, or the last one, would do.
func (c *Conversation) previewRollback(turn string, then func(*command.RollbackThread, *command.RollbackThreadResult)) {
	session := c.session
	c.beside(func() func() {
		p, res, err := c.planRollback(c.ctx, session, turn)
		return func() {
			if err != nil {
				c.View.Warn(c.describe(err))
				return
			}
			then(p, res)
			c.View.Refresh()
		}
	})
}

func (c *Conversation) planRollback(ctx context.Context, session, turn string) (*command.RollbackThread, *command.RollbackThreadResult, error) {
	p, err := facts.PlanRollback(ctx, c.source, session, turn)
	if err != nil {
		return nil, nil, err
	}
	p.Preview, p.Files = true, "restore"
	res := &command.RollbackThreadResult{}
	return p, res, c.source.Do(ctx, p, res)
}
