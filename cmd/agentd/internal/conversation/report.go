package conversation

import (
	"fmt"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/state"
)

func (c *Conversation) showCost() {
	t := &state.ThreadReadModel{}
	c.doInOrder(&command.GetThreadRead{SessionID: c.session, ThreadID: c.thread}, t, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		c.View.Info(c.costText(t))
		c.View.Refresh()
	})
}

// costText says what a thread used.
func (c *Conversation) costText(t *state.ThreadReadModel) string {
	cost, sum := t.CostState, "no price is known"
	if cost.TotalUSD != nil {
		sum = terminal.Money(*cost.TotalUSD)
	}
	if cost.Unpriced > 0 && cost.TotalUSD != nil {
		sum += fmt.Sprintf(" (without %s that no price is known for)", terminal.Plural(cost.Unpriced, "request"))
	}
	s := c.Status()
	context := ""
	if s.ContextWindow > 0 {
		context = "context " + terminal.Count(s.ContextTokens) + " of " + terminal.Count(s.ContextWindow)
	}
	return terminal.JoinDots(sum, terminal.Plural(cost.ModelCalls, "model call"), terminal.Tokens(&cost.Usage)+" tokens", terminal.Plural(t.TurnCount, "turn"), context)
}

// showStatus says how the session stands.
func (c *Conversation) showStatus() {
	if c.session == "" {
		c.showStanding("", "")
		return
	}
	t := &state.ThreadReadModel{}
	c.doInOrder(&command.GetThreadRead{SessionID: c.session, ThreadID: c.thread}, t, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		c.showStanding(t.SessionID, c.costText(t))
	})
}

func (c *Conversation) showStanding(session, used string) {
	if session == "" {
		session = "new; the next turn makes it"
	}
	s := c.Status()
	then := func(now, next string) string {
		if next != "" {
			return now + ", then " + next
		}
		return now
	}
	queue, waits := "", s.WaitsFor
	if s.Queued > 0 {
		queue = terminal.Plural(int64(s.Queued), "turn")
	}
	if c.asking != nil {
		waits = "you: " + c.asking.Title()
	}
	folder := c.root
	if folder == "" && c.here {
		folder = c.folder
	}
	cols, _ := c.front.Size()
	lines := []string{""}
	for _, row := range [][2]string{
		{"session", session},
		{"title", c.title},
		{"folder", folder},
		{"model", then(s.Model, s.NextModel)},
		{"mode", then(s.Mode, s.NextMode)},
		{"used", used},
		{"queue", queue},
		{"waits for", waits},
	} {
		if row[1] == "" {
			continue
		}
		for i, line := range terminal.Wrap(terminal.Plain(row[1]), max(cols-14, 16)) {
			name := row[0]
			if i > 0 {
				name = ""
			}
			lines = append(lines, "  "+c.View.Ink.Paint(terminal.Dim, fmt.Sprintf("%-10s", name))+" "+line)
		}
	}
	c.View.Insert(lines...)
	c.View.Refresh()
}

// resumeThread lets a blocked thread go on.
func (c *Conversation) resumeThread() {
	res := &command.ResumeThreadResult{}
	c.doInOrder(&command.ResumeThread{SessionID: c.session, ThreadID: c.thread}, res, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		c.View.Info(terminal.JoinDots(strings.ReplaceAll(res.Status, "_", " "), res.Reason))
		c.View.Refresh()
	})
}

// showDiff shows what the last turn changed.
func (c *Conversation) showDiff() {
	session := c.session
	c.beside(func() func() {
		p, err := facts.PlanDiff(c.ctx, c.source, session, "", false)
		res := &command.GetDiffResult{}
		if err == nil {
			err = c.source.Do(c.ctx, p, res)
		}
		return func() {
			switch {
			case err != nil:
				c.View.Warn(c.describe(err))
			case res.Diff == "":
				c.View.Info("the last turn changed no file")
			default:
				c.View.ShowWholeDiff(res.Diff)
			}
			c.View.Refresh()
		}
	})
}

// startUndo shows what would be taken back, and takes it back if that is wanted.
func (c *Conversation) startUndo() {
	if c.active != "" {
		c.View.Warn("a turn runs; /interrupt it first")
		return
	}
	c.previewRollback("", func(p *command.RollbackThread, res *command.RollbackThreadResult) {
		c.confirmRollback(p, res, func() {})
	})
}

func (c *Conversation) confirmRollback(p *command.RollbackThread, res *command.RollbackThreadResult, then func()) {
	c.View.Insert(append([]string{""}, turntext.RollbackLines(c.View.Ink, res)...)...)
	c.front.Confirm("undo it?", func(yes bool) {
		if !yes {
			c.View.Info("nothing was changed")
			return
		}
		p.Preview = false
		c.doBeside(p, nil, func(err error) {
			if err != nil {
				c.View.Fail(c.describe(err))
				return
			}
			then()
		})
	})
}

// explainTurn says why what happened in the last turn happened.
func (c *Conversation) explainTurn() {
	turn := c.active
	if turn == "" {
		turn = c.lastTurn
	}
	if turn == "" {
		c.View.Info("there is no turn yet")
		return
	}
	res := &command.ExplainResult{}
	c.doBeside(&command.Explain{SessionID: c.session, TurnID: turn}, res, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		cols, _ := c.front.Size()
		lines := []string{""}
		for _, line := range terminal.Wrap(terminal.PlainBlock(res.Answer), cols-2) {
			lines = append(lines, "  "+line)
		}
		for _, f := range res.Facts {
			for i, line := range terminal.Wrap(terminal.Plain(f.Says), max(cols-12, 20)) {
				lead := fmt.Sprintf("  %6d  ", f.Sequence)
				if i > 0 {
					lead = strings.Repeat(" ", 10)
				}
				lines = append(lines, c.View.Ink.Paint(terminal.Dim, lead)+line)
			}
		}
		c.View.Insert(lines...)
		c.View.Refresh()
	})
}

// listTasks lists the tasks of the session.
func (c *Conversation) listTasks() {
	res := &command.ListTasksResult{}
	p := &command.ListTasks{Page: command.Page{Limit: command.MaxPage}, SessionID: c.session}
	c.doBeside(p, res, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		var rows [][3]string
		for i := range res.Tasks {
			t := &res.Tasks[i]
			text := t.Title
			if text == "" {
				text = t.Objective
			}
			rows = append(rows, [3]string{t.Status, text, t.StatusReason})
		}
		c.table(rows, "there are no tasks")
	})
}

// listAgents lists the subagents of the session, children below their parents.
func (c *Conversation) listAgents() {
	res := &command.ListSubagentsResult{}
	c.doBeside(&command.ListSubagents{Page: command.Page{Limit: command.MaxPage}, SessionID: c.session, Descendants: true}, res, func(err error) {
		if err != nil {
			c.View.Warn(c.describe(err))
			return
		}
		var rows [][3]string
		for i := range res.Subagents {
			a := &res.Subagents[i]
			name := a.Nickname
			if name == "" {
				name = a.Role
			}
			if name == "" {
				name = "agent"
			}
			rows = append(rows, [3]string{a.Status, strings.Repeat("  ", depth(res.Subagents, a)) + name, a.LastMessage})
		}
		c.table(rows, "there are no subagents")
	})
}

// depth counts the parents of a subagent.
func depth(all []command.SubagentRecord, a *command.SubagentRecord) int {
	n := 0
	for parent := a.ParentSubagentID; parent != "" && n < maxDepth; n++ {
		i := slices.IndexFunc(all, func(x command.SubagentRecord) bool { return x.SubagentID == parent })
		if i < 0 {
			break
		}
		parent = all[i].ParentSubagentID
	}
	return n
}

// table shows rows of a status, a name and a remark, each on one line.
func (c *Conversation) table(rows [][3]string, none string) {
	if len(rows) == 0 {
		c.View.Info(none)
		c.View.Refresh()
		return
	}
	cols, _ := c.front.Size()
	lines := []string{""}
	for _, r := range rows {
		line := terminal.Clip(terminal.Plain(terminal.JoinDots(r[1], r[2])), max(cols-15, 10))
		lines = append(lines, "  "+c.View.Ink.Paint(terminal.Dim, fmt.Sprintf("%-11s", r[0]))+" "+line)
	}
	c.View.Insert(lines...)
	c.View.Refresh()
}
