// Package turntext shows turns as text: at a terminal, or line by line.
//
// # Contract
//
// A [View] is given facts and puts lines on a [Stage]; a [Question] is an action that
// waits for a person: how it is shown, and what the lines mean that answer it.
// [Questions] keeps the open ones. They decide nothing, call nothing and read no input:
// the code that drives a session does.
//
// # Concurrency
//
// Each value is for one goroutine.
package turntext

import (
	"io"
	"strings"
	"time"

	"agentd/channel/turnview"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/model"
	"agentd/tool/toolkind"
)

// View turns facts into what a person sees of a conversation. It decides nothing
// and asks no one. One goroutine uses it.
type View struct {
	Ink   terminal.Ink
	Stage Stage
	// Answer takes the model's text as it comes, where the stage doesn't show it.
	Answer io.Writer
	// Prompts says that what the user says is shown too.
	Prompts bool
	// Flat says that nothing is drawn over, so that what goes on has no lines of its own.
	Flat bool
	// Asking says that a person is waited for, so that nothing seems to go on.
	Asking bool
	// Below are lines that stand below what goes on.
	Below []string

	// turn is the turn that runs, or that ran last.
	turn      turnview.View
	text      markdown
	reasoning string
	// spoke says that the model's last answer has a text.
	spoke bool
	// last is the kind of what was printed last.
	last kind
	// openLine says that the answer's last line has no end yet.
	openLine bool
	writeErr error

	tools  []*shownTool
	status string
	since  time.Time
	frame  int
	// filesAway says that the thread waits for files that no live node reaches.
	filesAway bool
	// warned are the notes that are said once.
	warned map[string]bool
	// later is what came in the middle of a text, and follows it.
	later []aside
}

// aside is a note, or lines that stand by themselves.
type aside struct {
	colour, mark, text string
	lines              []string
}

// shownTool is a tool call that has no end yet. It is shown while it runs.
type shownTool struct {
	id, name, args string
	input          event.Raw
	running        bool
	since          time.Time
	// allowed says who let it run, if that was no rule, mode or person.
	allowed string
	// tail is the end of what it wrote so far.
	tail string
}

// ShowFact shows one fact.
func (v *View) ShowFact(e *event.Event) {
	if v.turn.End != nil {
		v.turn = turnview.View{}
	}
	v.turn.WithSubagents = true // the caller says whose facts are shown
	for _, c := range v.turn.Fold(e) {
		v.showChange(c, e.Time)
	}
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		v.submitted(p)
	case *event.TurnStarted:
		v.SetStatus("thinking", e.Time)
	case *event.TurnSteered:
		v.Note(terminal.Cyan, "↪", "steered: "+p.Preview)
	case *event.TurnCompleted:
		v.completed(p)
	case *event.TurnFailed:
		v.failed(p)
	case *event.TurnInterruptRequested:
		v.ChangeStatus("stopping")
	default:
		if !v.showTool(e) {
			v.showAside(e)
		}
	}
	v.Refresh()
}

// submitted shows what a user said.
func (v *View) submitted(p *event.TurnSubmitted) {
	if !v.Prompts || p.Status == "queued" {
		return
	}
	text := InputText(p.Input)
	if text == "" {
		text = p.Preview
	}
	v.ShowPrompt(text)
}

// maxPrompt is how many lines of a prompt are shown: who pasted more knows it.
const maxPrompt = 20

// ShowPrompt shows a prompt.
func (v *View) ShowPrompt(text string) {
	v.Flush()
	cols, _ := v.Stage.Size()
	lines := []string{""}
	rows := terminal.Wrap(strings.TrimSpace(terminal.PlainBlock(text)), cols-2)
	for i, line := range rows[:min(len(rows), maxPrompt)] {
		lead := "› "
		if i > 0 {
			lead = "  "
		}
		lines = append(lines, v.Ink.Paint(terminal.Bold, lead+line))
	}
	if left := len(rows) - maxPrompt; left > 0 {
		lines = append(lines, v.Ink.Paint(terminal.Dim, "  … "+terminal.Plural(int64(left), "more line")))
	}
	v.Stage.Print(append(lines, "")...)
	v.last = kindNone
}

// showChange shows what a model says.
func (v *View) showChange(c turnview.Change, at time.Time) {
	switch c := c.(type) {
	case turnview.ModelAsked:
		v.spoke = false
		switch {
		case c.Purpose == "compaction":
			v.SetStatus("compacting", at)
		case c.Attempt > 1:
			v.SetStatus("thinking, attempt "+terminal.Count(c.Attempt), at)
		default:
			v.SetStatus("thinking", at)
		}
	case turnview.PartGrown:
		if c.Kind == turnview.Reasoning {
			v.think(c.Content)
		} else {
			v.write(c.Content)
		}
	case turnview.PartClosed:
		v.Flush()
	case turnview.ModelFailed:
		if c.ErrorCategory != "interrupted" && c.ErrorCategory != "rate_limited" { // these have facts of their own
			v.Warn(terminal.JoinDots(c.Provider+"/"+c.Model, strings.ReplaceAll(c.ErrorCategory, "_", " ")+": "+c.Message))
		}
	}
}

// think takes a piece of the model's reasoning.
func (v *View) think(text string) {
	if v.Answer == nil {
		v.reasoning += terminal.PlainBlock(text)
	}
}

// maxReasoning is how many lines of a finished piece of reasoning stay.
const maxReasoning = 12

func (v *View) endReasoning() {
	text := strings.TrimSpace(v.reasoning)
	if v.reasoning = ""; text == "" {
		return
	}
	cols, _ := v.Stage.Size()
	lines := terminal.Wrap(text, cols-2)
	if left := len(lines) - maxReasoning; left > 0 {
		lines = append(lines[:maxReasoning], "… "+terminal.Plural(int64(left), "more line"))
	}
	for i := range lines {
		lines[i] = v.Ink.Paint(terminal.Dim, "  "+lines[i])
	}
	v.gap(kindText)
	v.Stage.Print(lines...)
}

// write takes a piece of the answer.
func (v *View) write(text string) {
	v.spoke = true
	text = terminal.PlainBlock(text)
	if v.Answer == nil {
		v.blocks(v.text.append(text))
		return
	}
	v.openLine = !strings.HasSuffix(text, "\n")
	if _, err := io.WriteString(v.Answer, text); err != nil && v.writeErr == nil {
		v.writeErr = err
	}
}

func (v *View) blocks(blocks []string) {
	cols, _ := v.Stage.Size()
	for _, b := range blocks {
		v.gap(kindText)
		v.Stage.Print(renderBlock(v.Ink, b, cols)...)
	}
}

// kind of what is printed: an empty line stands between kinds, and between
// paragraphs of a text.
type kind int

const (
	kindNone kind = iota
	kindText
	kindTool
	kindNote
	kindEnd
)

// gap leaves an empty line before something of a kind, if one is due.
func (v *View) gap(k kind) {
	if v.last != kindNone && (k != v.last || k == kindText) && v.Answer == nil {
		v.Stage.Print("")
	}
	v.last = k
}

// Flush finishes the text that was coming.
func (v *View) Flush() {
	v.endReasoning()
	if v.Answer == nil {
		v.blocks(v.text.finish())
		later := v.later
		v.later = nil
		for _, n := range later {
			if n.lines != nil {
				v.Insert(n.lines...)
				continue
			}
			v.Note(n.colour, n.mark, n.text)
		}
		return
	}
	if v.openLine {
		v.openLine = false
		if _, err := io.WriteString(v.Answer, "\n"); err != nil && v.writeErr == nil {
			v.writeErr = err
		}
	}
}

// completed ends a turn with what it took.
func (v *View) completed(p *event.TurnCompleted) {
	v.Rest()
	if note := UnusualEnd(p, v.spoke); note != "" {
		v.Warn(note)
	}
	line := terminal.JoinDots(terminal.Plural(p.Steps, "step"), terminal.Took(p.DurationMs), terminal.Tokens(p.Usage)+" tokens", costOf(p.Usage, p.CostUSD))
	v.gap(kindEnd)
	v.Stage.Print(v.Ink.Paint(terminal.Dim, line))
}

// failed ends a turn that has no answer. Where only one turn is shown, its end is
// the end of the program, which says why.
func (v *View) failed(p *event.TurnFailed) {
	v.Rest()
	if !v.Prompts {
		return
	}
	if p.FailureCategory == "interrupted" {
		v.Note(terminal.Yellow, MarkFailed, terminal.JoinDots("interrupted", terminal.Took(p.DurationMs)))
		return
	}
	v.Fail("the turn failed (" + strings.ReplaceAll(p.FailureCategory, "_", " ") + "): " + WhyFailed(p))
}

// WhyFailed says why a turn failed, and what to do next where that is known.
func WhyFailed(p *event.TurnFailed) string {
	why := turnview.Ended{Failed: p}.Reason()
	next := ""
	if p.Error != nil {
		next = p.Error.Advice
	}
	category, _, _ := strings.Cut(why, ": ")
	switch {
	case next != "" || p.FailureCategory != "model_failed":
	case category == model.Auth:
		next = `the provider refused the key: "agentd login" stores another one, or correct the variable or file that holds it`
	case category == model.Network:
		next = `"agentd doctor --network" tries the addresses of the providers`
	case category == model.ContextOverflow:
		next = "go on in a new session, or compact this one first (/compact in agentd chat)"
	}
	if next != "" {
		why += "; " + next
	}
	return why
}

// UnusualEnd says what an answer lacks although its turn ended well; empty if
// nothing.
func UnusualEnd(p *event.TurnCompleted, spoke bool) string {
	switch p.Outcome {
	case "refusal":
		return "the model declined to continue; undo the turn (agentd undo) and ask differently, or use another model"
	case "max_tokens":
		return "the answer is cut off at the model's output limit; ask it to continue"
	case "other":
		return "the answer may be incomplete: the provider ended it for a reason of its own"
	}
	if !spoke && len(p.StructuredOutput) == 0 {
		return "the model's last answer is empty"
	}
	return ""
}

func costOf(u *event.Usage, usd float64) string {
	if usd == 0 && u != nil && u.InputTokens+u.OutputTokens > 0 {
		return "" // no price is known
	}
	return terminal.Money(usd)
}

// Rest ends everything that was under way.
func (v *View) Rest() {
	v.Flush()
	v.tools, v.status = nil, ""
}

// SetStatus says what goes on, and since when.
func (v *View) SetStatus(status string, since time.Time) { v.status, v.since = status, since }

// ChangeStatus says what goes on now in what began before; an empty text says nothing.
func (v *View) ChangeStatus(status string) { v.status = status }

// WriteErr returns why the answer could not be written, or nil.
func (v *View) WriteErr() error { return v.writeErr }

// Spoke reports whether the model's last answer has a text.
func (v *View) Spoke() bool { return v.spoke }

// Separate leaves an empty line before a note or a question that the caller prints, if
// one is due.
func (v *View) Separate() { v.gap(kindNote) }

// Info adds a note about something ordinary.
func (v *View) Info(text string) { v.Note(terminal.Cyan, MarkNote, text) }

// Warn adds a note about something that should be known.
func (v *View) Warn(text string) { v.Note(terminal.Yellow, MarkWarn, text) }

// Fail adds a note about something that failed.
func (v *View) Fail(text string) { v.Note(terminal.Red, MarkFailed, text) }

// maxNote bounds a note: most of them quote someone.
const maxNote = 300

// Note adds a line beside the conversation. One that comes in the middle of a
// paragraph, a table or some code doesn't break it, but waits below for its end.
func (v *View) Note(colour, mark, text string) {
	if v.Answer == nil && v.text.rest != "" {
		v.later = append(v.later, aside{colour: colour, mark: mark, text: text})
		return
	}
	v.Flush()
	cols, _ := v.Stage.Size()
	v.gap(kindNote)
	for i, line := range terminal.Wrap(terminal.Clip(terminal.Plain(text), maxNote), cols-2) {
		lead := "  "
		if i == 0 {
			lead = v.Ink.Paint(colour, mark) + " "
		}
		v.Stage.Print(lead + line)
	}
}

// Insert adds lines that stand by themselves, such as the result of a command. Like
// notes they never break a text that is still coming, but wait for its end.
func (v *View) Insert(lines ...string) {
	if v.Answer == nil && v.text.rest != "" {
		v.later = append(v.later, aside{lines: lines})
		return
	}
	v.Flush()
	v.Stage.Print(lines...)
	v.last = kindNote
}

// noteOnce adds a note the first time only.
func (v *View) noteOnce(colour, mark, text string) {
	if v.warned == nil {
		v.warned = map[string]bool{}
	}
	if !v.warned[text] {
		v.warned[text] = true
		v.Note(colour, mark, text)
	}
}

// SpinEvery is how often what changes is painted anew.
const SpinEvery = 120 * time.Millisecond

// Rows of what changes.
const (
	textRows   = 10
	thinkRows  = 4
	outputRows = 3
)

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Refresh shows what goes on now.
func (v *View) Refresh() { v.Stage.Show(v.live(time.Now())) }

// Tick moves the spinner; Refresh shows it.
func (v *View) Tick() { v.frame++ }

// live returns the lines that change.
func (v *View) live(now time.Time) []string {
	cols, _ := v.Stage.Size()
	var out []string
	if v.text.rest != "" {
		out = append(out, v.text.live(func(block string) []string { return renderBlock(v.Ink, block, cols) }, textRows)...)
	} else if v.reasoning != "" {
		for _, line := range lastRows(v.reasoning, thinkRows, cols-2) {
			out = append(out, v.Ink.Paint(terminal.Dim, "  "+line))
		}
	}
	for _, n := range v.later {
		if n.lines == nil {
			out = append(out, v.Ink.Paint(n.colour, n.mark)+" "+terminal.Clip(terminal.Plain(n.text), max(cols-2, 10)))
		}
	}
	spin := string(spinner[v.frame%len(spinner)])
	running := false
	for _, t := range v.tools {
		if !t.running || v.Asking {
			continue
		}
		running = true
		out = append(out, v.Ink.Paint(terminal.Cyan, spin)+" "+terminal.Clip(t.name+" "+t.args, max(cols-12, 10))+v.Ink.Paint(terminal.Dim, elapsed(now, t.since)))
		if t.tail != "" {
			for _, line := range lastRows(t.tail, outputRows, cols-4) {
				out = append(out, v.Ink.Paint(terminal.Dim, "  │ "+line))
			}
		}
	}
	if v.status != "" && !running && !v.Asking {
		out = append(out, v.Ink.Paint(terminal.Cyan, spin)+" "+v.Ink.Paint(terminal.Dim, v.status+elapsed(now, v.since)))
	}
	return append(out, v.Below...)
}

// elapsed says for how many seconds something goes on, once that is worth saying.
func elapsed(now, since time.Time) string {
	d := now.Sub(since)
	if since.IsZero() || d < 2*time.Second {
		return ""
	}
	return " " + d.Truncate(time.Second).String()
}

// previewLines says how many lines stay of the output of a tool that had no error. That
// of some is for the model, not for people.
func previewLines(kind toolkind.Kind) int {
	switch kind {
	case toolkind.ReadFile, toolkind.ListFiles, toolkind.UpdatePlan, toolkind.RequestInput, toolkind.PresentPlan:
		return 0
	case toolkind.SearchFiles:
		return 3
	case toolkind.Other, toolkind.WriteFile, toolkind.EditFile, toolkind.Shell, toolkind.SpawnAgent:
	}
	return maxPreview
}
