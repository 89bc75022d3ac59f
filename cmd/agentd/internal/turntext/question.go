package turntext

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
	"agentd/tool/toolkind"
)

// Question is an action that waits for a person, with what is known about it.
type Question struct {
	ID       string
	Required *event.ActionRequired
	// evaluated is the decision that led to it, if it is about a tool call.
	evaluated *event.PermissionEvaluated
	// reviewed is what a reviewer said about the call, if one was asked.
	reviewed *event.PermissionReviewed
	// before is what stands in the file that the call would change, if that is known.
	before string
	// filling is how far an object is filled in, line by line.
	filling *filling
}

// IsInput says that a value is wanted, not a yes or a no.
func (q *Question) IsInput() bool { return slices.Contains(q.Required.Decisions, "submit") }

// Intro is Panel without the answers, which the caller shows.
func (q *Question) Intro(k terminal.Ink, cols int) []string {
	if !q.IsInput() {
		return q.Panel(k, cols)
	}
	var out []string
	for i, line := range terminal.Wrap(terminal.PlainBlock(q.Required.Prompt), cols-2) {
		lead := "  "
		if i == 0 {
			lead = k.Paint(terminal.Yellow, "? ")
		}
		out = append(out, lead+k.Paint(terminal.Bold, line))
	}
	return out
}

// Lines is Panel for those who answer in lines: what a line is for stands before it.
func (q *Question) Lines(k terminal.Ink, cols int) []string {
	if q.asksFields() {
		return q.Intro(k, cols)
	}
	return q.Panel(k, cols)
}

// Panel returns the lines that say what is asked and why.
func (q *Question) Panel(k terminal.Ink, cols int) []string {
	p := q.Required
	if q.IsInput() {
		return append([]string{k.Paint(terminal.Yellow, "? ") + k.Paint(terminal.Bold, terminal.Plain(p.Prompt))}, q.choiceLines(k)...)
	}
	if q.IsPlan() {
		return q.planPanel(k, cols)
	}
	title := q.Title()
	if p.ToolName == "" {
		title = terminal.Plain(p.Prompt) // whole
	}
	line := k.Paint(terminal.Yellow, "? ") + k.Paint(terminal.Bold, title)
	if p.Destructive {
		line += "  " + k.Paint(terminal.Red, "destructive")
	}
	out := append([]string{line}, q.change(k, cols)...)
	for _, text := range q.wanted() {
		out = append(out, quoted(k, text, maxAsked, cols)...)
	}
	return append(out, q.Reasons(k, cols)...)
}

// maxPath is how many lines the path of a file takes at most: those of the longest.
const maxPath = 256

// maxAsked is how many lines of a call are shown before it is allowed.
const maxAsked = 20

// wanted is what would be done: the command, or the change of a file. Nothing in it can
// be hidden.
func (q *Question) wanted() []string {
	p := q.Required
	args, _ := toolkind.ReadArguments(p.SafeArgs) // what isn't there is not shown
	switch toolkind.Of(p.ToolName) {
	case toolkind.WriteFile, toolkind.EditFile:
		nothing := args.Old == args.New && args.Content == q.before // known of it, or changed by it
		if nothing || args.Content+args.Old+args.New == "" {
			return []string{terminal.Exact(args.Path)}
		}
		return nil
	case toolkind.Shell:
		return []string{terminal.Exact(args.Command)}
	default:
	}
	if short := terminal.Exact(shortArgs(p.ToolName, p.SafeArgs)); p.ToolName != "" && short != "" {
		return []string{short}
	}
	return nil
}

// change is what a call would do to a file, drawn as a diff.
func (q *Question) change(k terminal.Ink, cols int) []string {
	diff := q.Diff()
	if diff == "" {
		return nil
	}
	var out []string
	if path := terminal.Exact(q.Path()); ansi.StringWidth(path) > cols-titleRest { // the title is cut, and its end says where
		out = quoted(k, path, maxPath, cols)
	}
	return append(out, DrawDiff(k, diff, cols, maxAsked*2)...)
}

// Wanted is what would be done, whole: the command, or the arguments of the call.
func (q *Question) Wanted() string { return strings.Join(q.wanted(), "\n") }

// Diff is what a call would do to a file: what goes, what comes, and what stays around it;
// empty if it isn't known.
func (q *Question) Diff() string {
	args, _ := toolkind.ReadArguments(q.Required.SafeArgs) // what isn't there is not shown
	if args.Content+args.Old+args.New == "" {
		return ""
	}
	switch toolkind.Of(q.Required.ToolName) {
	case toolkind.WriteFile:
		return UnifiedDiff(args.Path, q.before, args.Content, 3)
	case toolkind.EditFile:
		before, after := args.Old, args.New
		if strings.Count(q.before, args.Old) == 1 && args.Old != "" {
			before, after = q.before, strings.Replace(q.before, args.Old, args.New, 1)
		}
		return UnifiedDiff(args.Path, before, after, 3)
	default:
		return ""
	}
}

// Path is the file that a call would change; empty if it changes none that is known.
func (q *Question) Path() string {
	switch toolkind.Of(q.Required.ToolName) {
	case toolkind.WriteFile, toolkind.EditFile:
		args, _ := toolkind.ReadArguments(q.Required.SafeArgs) // without them there is none
		return args.Path
	default:
		return ""
	}
}

// ShowBefore gives the question what stands in the file now, so that a change is shown
// where it would happen.
func (q *Question) ShowBefore(content string) { q.before = content }

// Reasons are the lines that say why it is asked and what it would do.
func (q *Question) Reasons(k terminal.Ink, cols int) []string {
	var out []string
	add := func(what, text string) {
		if text == "" {
			return
		}
		lines := terminal.Wrap(what+": "+terminal.Plain(text), cols-2)
		for i, line := range lines {
			if rest, first := strings.CutPrefix(line, what+":"); first && i == 0 {
				line = k.Paint(terminal.Dim, what+":") + rest
			}
			out = append(out, "  "+line)
		}
	}
	add("why", q.Required.Reason)
	if r := q.reviewed; r != nil && r.Verdict == "ask" {
		add("reviewer", terminal.JoinDots("left it to you", r.Reason))
	} else if r != nil {
		add("reviewer", terminal.JoinDots("gave no verdict", r.Reason))
	}
	add("rules", strings.Join(q.Required.RuleRefs, ", "))
	if kept := q.keptRules(); kept != "" {
		add("always", "an answer for the project keeps: "+kept+" in "+q.Required.KeepFor)
	}
	if e := q.evaluated; e != nil && q.Required.Destructive {
		add("impact", e.Impact)
		add("undo", e.RollbackAdvice)
	}
	if !q.Required.ExpiresAt.IsZero() {
		add("expires", q.Required.ExpiresAt.Local().Format("15:04:05"))
	}
	return out
}

// keptRules are the rules that an answer for the project would keep, as people read
// them.
func (q *Question) keptRules() string {
	var out []string
	for _, r := range q.Required.KeepRules {
		out = append(out, strings.TrimSpace(r.Decision+" "+r.Tool+" "+r.Match))
	}
	return terminal.Exact(strings.Join(out, ", "))
}

// Prompt is what stands before the answer.
func (q *Question) Prompt() string {
	switch {
	case q.IsPlan():
		return planPrompt
	case q.asksFields():
		return q.filling.prompt()
	case !q.IsInput() && q.Required.OnceOnly:
		return "[y] once  [n] no, and why if you like: "
	case !q.IsInput() && len(q.Required.KeepRules) > 0:
		return "[y] once  [a] this session  [p] this project  [n] no, and why if you like: "
	case !q.IsInput():
		return "[y] once  [a] this session  [n] no, and why if you like: "
	case len(q.Choices()) > 0:
		return "number or value: "
	case q.wantsText() || len(q.schema()) == 0:
		return "> "
	}
	return "JSON: "
}

// Parse turns a line into the answer, or says what is wrong with it. It returns neither
// where more lines belong to the answer: Prompt asks for the next.
func (q *Question) Parse(line string) (*command.RespondAction, string) {
	line = strings.TrimSpace(line)
	r := &command.RespondAction{ActionID: q.ID}
	if line == "/cancel" && q.CanCancel() {
		r.Decision = "cancel"
		return r, ""
	}
	if q.IsInput() {
		r.Decision = "submit"
		var wrong string
		if q.asksFields() {
			if r.Payload, wrong = q.filling.takeLine(line); r.Payload == nil && wrong == "" {
				return nil, ""
			}
			return r, wrong
		}
		r.Payload, wrong = q.value(line)
		return r, wrong
	}
	word, reason := line, ""
	if i := strings.IndexAny(line, AfterAnswer); i >= 0 {
		word, reason = line[:i], strings.TrimLeft(line[i:], AfterAnswer)
	}
	if q.IsPlan() {
		return q.parsePlan(r, strings.ToLower(word), strings.TrimSpace(reason))
	}
	switch strings.ToLower(word) {
	case "y", "yes":
		r.Decision = "allow"
	case "a", "always":
		if q.Required.OnceOnly {
			return r, "this can only be allowed once, because what it runs may change between two calls; answer y or n"
		}
		r.Decision, r.Scope = "allow", "session"
	case "p", "project":
		if len(q.Required.KeepRules) == 0 {
			return r, "no rule can be kept for this; " + q.choices()
		}
		r.Decision, r.Scope = "allow", "project"
	case "n", "no":
		r.Decision, r.Reason = "deny", strings.TrimSpace(reason)
	default:
		return r, q.choices()
	}
	if line != word && r.Decision != "deny" {
		// A sentence that happens to begin with such a word is no approval.
		return r, q.choices()
	}
	return r, ""
}

// CanCancel says that the question can be left without an answer.
func (q *Question) CanCancel() bool { return slices.Contains(q.Required.Decisions, "cancel") }

// choices says what can be answered.
func (q *Question) choices() string {
	if q.Required.OnceOnly {
		return "answer y or n"
	}
	if len(q.Required.KeepRules) > 0 {
		return "answer y, a, p or n"
	}
	return "answer y, a or n"
}

// Describe says what an answer was.
func (q *Question) Describe(r *command.RespondAction) string {
	switch {
	case q.IsPlan():
		return q.describePlan(r)
	case r.Decision == "submit":
		return "answered: " + terminal.Clip(terminal.Plain(sayValue(r.Payload)), 60)
	case r.Scope == "session":
		return "allowed for this session"
	case r.Scope == "project":
		return terminal.JoinDots("allowed for this project", "kept: "+q.keptRules())
	case r.Decision == "allow":
		return "allowed once"
	case r.Decision == "deny":
		return terminal.JoinDots("denied", r.Reason)
	}
	return "cancelled"
}

func (q *Question) schema() map[string]any {
	var s map[string]any
	if json.Unmarshal(q.Required.Schema, &s) != nil {
		return nil
	}
	return s
}

func (q *Question) wantsText() bool { return q.schema()["type"] == "string" }

// Choices are the values of a schema that lists them.
func (q *Question) Choices() []any {
	s := q.schema()
	if list, ok := s["enum"].([]any); ok {
		return list
	}
	if s["type"] == "boolean" {
		return []any{true, false}
	}
	return nil
}

func (q *Question) choiceLines(k terminal.Ink) []string {
	var out []string
	for i, c := range q.Choices() {
		out = append(out, fmt.Sprintf("  %s %s", k.Paint(terminal.Cyan, strconv.Itoa(i+1)), terminal.Plain(ChoiceText(c))))
	}
	if out == nil && len(q.schema()) > 0 && !q.wantsText() {
		out = append(out, k.Paint(terminal.Dim, "  fits "+terminal.Plain(string(q.Required.Schema))))
	}
	return out
}

// value turns a line into the value that the schema asks for, as far as that can
// be told here; the runtime checks it.
func (q *Question) value(line string) (event.Raw, string) {
	list := q.Choices()
	for _, c := range list {
		if strings.EqualFold(ChoiceText(c), line) {
			return MarshalValue(c), ""
		}
	}
	if len(list) > 0 {
		n, err := strconv.Atoi(line)
		if err != nil || n < 1 || n > len(list) {
			return nil, fmt.Sprintf("choose 1 to %d", len(list))
		}
		return MarshalValue(list[n-1]), ""
	}
	if q.wantsText() {
		return MarshalValue(line), ""
	}
	return InputValue(line), ""
}

// Questions keeps the questions that are open, oldest first.
type Questions struct {
	open []*Question
	// evaluated are decisions by tool call, until their question comes.
	evaluated map[string]*event.PermissionEvaluated
	// reviewed are verdicts of a reviewer, in the same way.
	reviewed map[string]*event.PermissionReviewed
	// given are the questions that an answer was given to here, until a fact says that they
	// were answered.
	given map[string]bool
}

// Track notes questions and answers. It returns the question that a fact answers,
// if it was open.
func (q *Questions) Track(e *event.Event) (answered *Question) {
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		if q.evaluated == nil {
			q.evaluated = map[string]*event.PermissionEvaluated{}
		}
		if p.Decision == "ask" {
			q.evaluated[e.ToolCallID] = p
		}
	case *event.PermissionReviewed:
		if q.reviewed == nil {
			q.reviewed = map[string]*event.PermissionReviewed{}
		}
		if p.Verdict != "allow" {
			q.reviewed[e.ToolCallID] = p
		}
	case *event.ActionRequired:
		q.open = append(q.open, &Question{ID: e.ActionID, Required: p, evaluated: q.evaluated[e.ToolCallID], reviewed: q.reviewed[e.ToolCallID]})
		delete(q.evaluated, e.ToolCallID)
		delete(q.reviewed, e.ToolCallID)
	case *event.ActionResolved:
		delete(q.given, e.ActionID)
		i := slices.IndexFunc(q.open, func(x *Question) bool { return x.ID == e.ActionID })
		if i >= 0 {
			answered = q.open[i]
			q.open = slices.Delete(q.open, i, i+1)
		}
	}
	return answered
}

// PutBack makes a question that was dropped the next one again, unless it was
// answered elsewhere meanwhile.
func (q *Questions) PutBack(x *Question) {
	if q.given[x.ID] {
		delete(q.given, x.ID)
		q.open = append([]*Question{x}, q.open...)
	}
}

// Due is the question that is due, or nil.
func (q *Questions) Due() *Question {
	if len(q.open) == 0 {
		return nil
	}
	return q.open[0]
}

// HowAnswered says who answered a question that was still being asked here.
func HowAnswered(e *event.Event) string {
	p, ok := e.Payload.(*event.ActionResolved)
	switch {
	case !ok:
		return "answered"
	case p.DecisionSource == "timeout":
		return "not answered in time: " + p.Decision
	case p.DecisionSource == "runtime":
		return "no longer asked"
	}
	return "answered elsewhere: " + p.Decision
}

// Drop takes a question away that was answered here.
func (q *Questions) Drop(x *Question) {
	if q.given == nil {
		q.given = map[string]bool{}
	}
	q.given[x.ID] = true
	q.open = slices.DeleteFunc(q.open, func(o *Question) bool { return o == x })
}
