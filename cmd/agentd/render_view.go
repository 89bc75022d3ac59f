package main

import (
	"io"
	"strings"
	"time"

	"agentd/channel/turnview"
	"agentd/event"
	"agentd/tool/toolkind"
)

// view turns facts into what a person sees of a conversation. It decides nothing
// and asks nobody. One goroutine uses it.
type view struct {
	ink   ink
	stage stage
	// answer takes the model's text as it comes, where the stage doesn't show it.
	answer io.Writer
	// prompts says that what the user says is shown too.
	prompts bool

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

	tools  []*runningTool
	status string
	since  time.Time
	frame  int
	// warned are the notes that are said once.
	warned map[string]bool
	// later are notes that came in the middle of a text, and follow it.
	later []note
}

// note is a line beside the conversation.
type note struct{ colour, mark, text string }

// runningTool is a tool call that has no end yet.
type runningTool struct {
	id, name, args string
	since          time.Time
	// tail is the end of what it wrote so far.
	tail string
}

// fact shows one fact.
func (v *view) fact(e *event.Event) {
	if v.turn.End != nil {
		v.turn = turnview.View{}
	}
	v.turn.WithSubagents = true // the caller says whose facts are shown
	for _, c := range v.turn.Fold(e) {
		v.show(c, e.Time)
	}
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		v.submitted(p)
	case *event.TurnStarted:
		v.work("thinking", e.Time)
	case *event.TurnSteered:
		v.note(cyan, "↪", "steered: "+p.Preview)
	case *event.TurnCompleted:
		v.completed(p)
	case *event.TurnFailed:
		v.failed(p)
	case *event.TurnInterruptRequested:
		v.work("stopping", v.since)
	default:
		if !v.tool(e) {
			v.aside(e)
		}
	}
	v.refresh()
}

// submitted shows what a user said.
func (v *view) submitted(p *event.TurnSubmitted) {
	if !v.prompts || p.Status == "queued" {
		return
	}
	text := inputText(p.Input)
	if text == "" {
		text = p.Preview
	}
	v.said(text)
}

// said shows a prompt.
func (v *view) said(text string) {
	v.flush()
	cols, _ := v.stage.size()
	lines := []string{""}
	for i, line := range wrapped(strings.TrimSpace(plainBlock(text)), cols-2) {
		lead := "› "
		if i > 0 {
			lead = "  "
		}
		lines = append(lines, v.ink.paint(bold, lead+line))
	}
	v.stage.print(append(lines, "")...)
	v.last = kindNone
}

// show shows what a model says.
func (v *view) show(c turnview.Change, at time.Time) {
	switch c := c.(type) {
	case turnview.ModelAsked:
		v.spoke = false
		switch {
		case c.Purpose == "compaction":
			v.work("compacting", at)
		case c.Attempt > 1:
			v.work("thinking, attempt "+count(c.Attempt), at)
		default:
			v.work("thinking", at)
		}
	case turnview.PartGrown:
		if c.Kind == turnview.Reasoning {
			v.think(c.Content)
		} else {
			v.write(c.Content)
		}
	case turnview.PartClosed:
		v.flush()
	case turnview.ModelFailed:
		if c.ErrorCategory != "interrupted" && c.ErrorCategory != "rate_limited" { // these have facts of their own
			v.note(yellow, markWarn, facets(c.Provider+"/"+c.Model, strings.ReplaceAll(c.ErrorCategory, "_", " ")+": "+c.Message))
		}
	}
}

// think takes a piece of the model's reasoning.
func (v *view) think(text string) {
	if v.answer == nil {
		v.reasoning += plainBlock(text)
	}
}

// maxReasoning is how many lines of a finished piece of reasoning stay.
const maxReasoning = 12

func (v *view) endReasoning() {
	text := strings.TrimSpace(v.reasoning)
	if v.reasoning = ""; text == "" {
		return
	}
	cols, _ := v.stage.size()
	lines := wrapped(text, cols-2)
	if left := len(lines) - maxReasoning; left > 0 {
		lines = append(lines[:maxReasoning], "… "+plural(int64(left), "more line"))
	}
	for i := range lines {
		lines[i] = v.ink.paint(dim, "  "+lines[i])
	}
	v.gap(kindText)
	v.stage.print(lines...)
}

// write takes a piece of the answer.
func (v *view) write(text string) {
	v.spoke = true
	text = plainBlock(text)
	if v.answer == nil {
		v.blocks(v.text.add(text))
		return
	}
	v.openLine = !strings.HasSuffix(text, "\n")
	if _, err := io.WriteString(v.answer, text); err != nil && v.writeErr == nil {
		v.writeErr = err
	}
}

func (v *view) blocks(blocks []string) {
	cols, _ := v.stage.size()
	for _, b := range blocks {
		v.gap(kindText)
		v.stage.print(renderBlock(v.ink, b, cols)...)
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
func (v *view) gap(k kind) {
	if v.last != kindNone && (k != v.last || k == kindText) && v.answer == nil {
		v.stage.print("")
	}
	v.last = k
}

// flush finishes the text that was coming.
func (v *view) flush() {
	v.endReasoning()
	if v.answer == nil {
		v.blocks(v.text.end())
		later := v.later
		v.later = nil
		for _, n := range later {
			v.note(n.colour, n.mark, n.text)
		}
		return
	}
	if v.openLine {
		v.openLine = false
		if _, err := io.WriteString(v.answer, "\n"); err != nil && v.writeErr == nil {
			v.writeErr = err
		}
	}
}

// completed ends a turn with what it took.
func (v *view) completed(p *event.TurnCompleted) {
	v.rest()
	if note := unusualEnd(p, v.spoke); note != "" {
		v.note(yellow, markWarn, note)
	}
	line := facets(plural(p.Steps, "step"), took(p.DurationMs), tokens(p.Usage)+" tokens", costOf(p.Usage, p.CostUSD))
	v.gap(kindEnd)
	v.stage.print(v.ink.paint(dim, line))
}

// failed ends a turn that has no answer. Where only one turn is shown, its end is
// the end of the program, which says why.
func (v *view) failed(p *event.TurnFailed) {
	v.rest()
	if !v.prompts {
		return
	}
	if p.FailureCategory == "interrupted" {
		v.note(yellow, markFailed, facets("interrupted", took(p.DurationMs)))
		return
	}
	v.note(red, markFailed, "the turn failed ("+strings.ReplaceAll(p.FailureCategory, "_", " ")+"): "+turnview.Ended{Failed: p}.Reason())
}

// unusualEnd says what an answer lacks although its turn ended well; empty if
// nothing.
func unusualEnd(p *event.TurnCompleted, spoke bool) string {
	switch p.Outcome {
	case "refusal":
		return "the model declined to go on; take the turn back (agentd undo) and ask differently, or ask another model"
	case "max_tokens":
		return "the answer is cut off: the model has written as much as it may at once; ask it to go on"
	case "other":
		return "the answer may not be whole: the provider ended it for a reason of its own"
	}
	if !spoke && len(p.StructuredOutput) == 0 {
		return "the last answer of the model is empty"
	}
	return ""
}

func costOf(u *event.Usage, usd float64) string {
	if usd == 0 && u != nil && u.InputTokens+u.OutputTokens > 0 {
		return "" // no price is known
	}
	return money(usd)
}

// rest ends everything that was under way.
func (v *view) rest() {
	v.flush()
	v.tools, v.status = nil, ""
}

// work says what goes on.
func (v *view) work(status string, since time.Time) { v.status, v.since = status, since }

// maxNote bounds a note: most of them quote somebody.
const maxNote = 300

// note adds a line beside the conversation. One that comes in the middle of a
// paragraph, a table or some code doesn't break it, but waits below for its end.
func (v *view) note(colour, mark, text string) {
	if v.answer == nil && v.text.rest != "" {
		v.later = append(v.later, note{colour, mark, text})
		return
	}
	v.flush()
	cols, _ := v.stage.size()
	v.gap(kindNote)
	for i, line := range wrapped(clip(plainText(text), maxNote), cols-2) {
		lead := "  "
		if i == 0 {
			lead = v.ink.paint(colour, mark) + " "
		}
		v.stage.print(lead + line)
	}
}

// once adds a note the first time only.
func (v *view) once(colour, mark, text string) {
	if v.warned == nil {
		v.warned = map[string]bool{}
	}
	if !v.warned[text] {
		v.warned[text] = true
		v.note(colour, mark, text)
	}
}

// Rows of what changes.
const (
	textRows   = 10
	thinkRows  = 4
	outputRows = 3
)

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// refresh shows what goes on now.
func (v *view) refresh() { v.stage.show(v.live(time.Now())) }

// tick moves the spinner.
func (v *view) tick() {
	v.frame++
	v.refresh()
}

// live returns the lines that change.
func (v *view) live(now time.Time) []string {
	cols, _ := v.stage.size()
	var out []string
	if v.text.rest != "" {
		out = append(out, lastRows(v.text.rest, textRows, cols)...)
	} else if v.reasoning != "" {
		for _, line := range lastRows(v.reasoning, thinkRows, cols-2) {
			out = append(out, v.ink.paint(dim, "  "+line))
		}
	}
	for _, n := range v.later {
		out = append(out, v.ink.paint(n.colour, n.mark)+" "+clip(plainText(n.text), max(cols-2, 10)))
	}
	spin := string(spinner[v.frame%len(spinner)])
	for _, t := range v.tools {
		out = append(out, v.ink.paint(cyan, spin)+" "+clip(t.name+" "+t.args, max(cols-12, 10))+v.ink.paint(dim, elapsed(now, t.since)))
		if t.tail != "" {
			for _, line := range lastRows(t.tail, outputRows, cols-4) {
				out = append(out, v.ink.paint(dim, "  │ "+line))
			}
		}
	}
	if v.status != "" && len(v.tools) == 0 {
		out = append(out, v.ink.paint(cyan, spin)+" "+v.ink.paint(dim, v.status+elapsed(now, v.since)))
	}
	return out
}

// elapsed says for how many seconds something goes on, once that is worth saying.
func elapsed(now, since time.Time) string {
	d := now.Sub(since)
	if since.IsZero() || d < 2*time.Second {
		return ""
	}
	return " " + d.Truncate(time.Second).String()
}

// isTurnEnd reports whether a fact ends a turn.
func isTurnEnd(e *event.Event) bool {
	return e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed
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
