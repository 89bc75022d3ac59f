package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/tool/toolkind"
)

// question is an action that waits for a person, with what is known about it.
type question struct {
	id       string
	required *event.ActionRequired
	// evaluated is the decision that led to it, if it is about a tool call.
	evaluated *event.PermissionEvaluated
}

// isInput says that a value is wanted, not a yes or a no.
func (q *question) isInput() bool { return slices.Contains(q.required.Decisions, "submit") }

// panel returns the lines that say what is asked and why.
func (q *question) panel(k ink, cols int) []string {
	p := q.required
	if q.isInput() {
		return append([]string{k.paint(yellow, "? ") + k.paint(bold, plainText(p.Prompt))}, q.choiceLines(k)...)
	}
	if q.isPlan() {
		return q.planPanel(k, cols)
	}
	title := "Allow " + p.ToolName + "?"
	if p.ActionType == "sandbox_escape" {
		title = "Allow " + p.ToolName + " to run outside of the sandbox?"
	}
	if p.ToolName == "" {
		title = plainText(p.Prompt)
	}
	line := k.paint(yellow, "? ") + k.paint(bold, title)
	if p.Destructive {
		line += "  " + k.paint(red, "destructive")
	}
	out := []string{line}
	for _, text := range q.wanted() {
		out = append(out, excerpt(k, text, maxAsked, cols)...)
	}
	return append(out, q.reasons(k, cols)...)
}

// maxAsked is how many lines of a call are shown before it is allowed.
const maxAsked = 20

// wanted is what would be done: the command, or the change of a file.
func (q *question) wanted() []string {
	p := q.required
	args, _ := toolkind.ReadArguments(p.SafeArgs) // what isn't there is not shown
	switch toolkind.Of(p.ToolName) {
	case toolkind.WriteFile:
		return []string{args.Path, prefixed("+ ", args.Content)}
	case toolkind.EditFile:
		return []string{args.Path, prefixed("- ", args.Old), prefixed("+ ", args.New)}
	case toolkind.Shell:
		return []string{args.Command}
	default:
	}
	if short := shortArgs(p.ToolName, p.SafeArgs); p.ToolName != "" && short != "" {
		return []string{short}
	}
	return nil
}

// prefixed puts a mark before each line.
func prefixed(mark, text string) string {
	if text == "" {
		return ""
	}
	return mark + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+mark)
}

func (q *question) reasons(k ink, cols int) []string {
	var out []string
	add := func(what, text string) {
		if text == "" {
			return
		}
		lines := wrapped(what+": "+plainText(text), cols-2)
		for i, line := range lines {
			if rest, first := strings.CutPrefix(line, what+":"); first && i == 0 {
				line = k.paint(dim, what+":") + rest
			}
			out = append(out, "  "+line)
		}
	}
	add("why", q.required.Reason)
	add("rules", strings.Join(q.required.RuleRefs, ", "))
	if e := q.evaluated; e != nil && q.required.Destructive {
		add("impact", e.Impact)
		add("undo", e.RollbackAdvice)
	}
	if !q.required.ExpiresAt.IsZero() {
		add("expires", q.required.ExpiresAt.Local().Format("15:04:05"))
	}
	return out
}

// prompt is what stands before the answer.
func (q *question) prompt() string {
	switch {
	case q.isPlan():
		return planPrompt
	case !q.isInput() && q.required.OnceOnly:
		return "[y] once  [n] no, with a reason if you like: "
	case !q.isInput():
		return "[y] once  [a] for this session  [n] no, with a reason if you like: "
	case len(q.choices()) > 0:
		return "number or value: "
	case q.wantsText() || len(q.schema()) == 0:
		return "> "
	}
	return "JSON: "
}

// parse turns a line into the answer, or says what is wrong with it.
func (q *question) parse(line string) (*command.RespondAction, string) {
	line = strings.TrimSpace(line)
	r := &command.RespondAction{ActionID: q.id}
	if line == "/cancel" && slices.Contains(q.required.Decisions, "cancel") {
		r.Decision = "cancel"
		return r, ""
	}
	if q.isInput() {
		r.Decision = "submit"
		var wrong string
		r.Payload, wrong = q.value(line)
		return r, wrong
	}
	word, reason, _ := strings.Cut(line, " ")
	if q.isPlan() {
		return q.parsePlan(r, strings.ToLower(word), strings.TrimSpace(reason))
	}
	switch strings.ToLower(word) {
	case "y", "yes":
		r.Decision = "allow"
	case "a", "always":
		if q.required.OnceOnly {
			return r, "this can be allowed once, not for the session: what it runs may change between two calls; answer y or n"
		}
		r.Decision, r.Scope = "allow", "session"
	case "n", "no":
		r.Decision, r.Reason = "deny", strings.TrimSpace(reason)
	default:
		return r, "answer y, a or n"
	}
	if reason != "" && r.Decision != "deny" {
		// A sentence that happens to begin with such a word is no approval.
		return r, "answer y, a or n"
	}
	return r, ""
}

// describe says what an answer was.
func (q *question) describe(r *command.RespondAction) string {
	switch {
	case q.isPlan():
		return describePlan(r)
	case r.Decision == "submit":
		return "answered: " + clip(plainText(string(r.Payload)), 60)
	case r.Scope == "session":
		return "allowed for this session"
	case r.Decision == "allow":
		return "allowed once"
	case r.Decision == "deny":
		return facets("denied", r.Reason)
	}
	return "cancelled"
}

func (q *question) schema() map[string]any {
	var s map[string]any
	if json.Unmarshal(q.required.Schema, &s) != nil {
		return nil
	}
	return s
}

func (q *question) wantsText() bool { return q.schema()["type"] == "string" }

// choices are the values of a schema that lists them.
func (q *question) choices() []any {
	s := q.schema()
	if list, ok := s["enum"].([]any); ok {
		return list
	}
	if s["type"] == "boolean" {
		return []any{true, false}
	}
	return nil
}

func (q *question) choiceLines(k ink) []string {
	var out []string
	for i, c := range q.choices() {
		out = append(out, fmt.Sprintf("  %s %s", k.paint(cyan, strconv.Itoa(i+1)), plainText(fmt.Sprint(c))))
	}
	if out == nil && len(q.schema()) > 0 && !q.wantsText() {
		out = append(out, k.paint(dim, "  fits "+plainText(string(q.required.Schema))))
	}
	return out
}

// value turns a line into the value that the schema asks for, as far as that can
// be told here; the runtime checks it.
func (q *question) value(line string) (event.Raw, string) {
	list := q.choices()
	for _, c := range list {
		if strings.EqualFold(fmt.Sprint(c), line) {
			return marshal(c), ""
		}
	}
	if len(list) > 0 {
		n, err := strconv.Atoi(line)
		if err != nil || n < 1 || n > len(list) {
			return nil, fmt.Sprintf("choose 1 to %d", len(list))
		}
		return marshal(list[n-1]), ""
	}
	if q.wantsText() {
		return marshal(line), ""
	}
	return inputValue(line), ""
}

func marshal(v any) event.Raw {
	b, err := json.Marshal(v)
	if err != nil {
		return nil // what JSON was made of can be made JSON again
	}
	return b
}

// asked keeps the questions that are open, oldest first.
type asked struct {
	open []*question
	// evaluated are decisions by tool call, until their question comes.
	evaluated map[string]*event.PermissionEvaluated
}

// fact notes questions and answers. It returns the question that a fact answers,
// if it was open.
func (q *asked) fact(e *event.Event) (answered *question) {
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		if q.evaluated == nil {
			q.evaluated = map[string]*event.PermissionEvaluated{}
		}
		if p.Decision == "ask" {
			q.evaluated[e.ToolCallID] = p
		}
	case *event.ActionRequired:
		q.open = append(q.open, &question{id: e.ActionID, required: p, evaluated: q.evaluated[e.ToolCallID]})
		delete(q.evaluated, e.ToolCallID)
	case *event.ActionResolved:
		i := slices.IndexFunc(q.open, func(x *question) bool { return x.id == e.ActionID })
		if i >= 0 {
			answered = q.open[i]
			q.open = slices.Delete(q.open, i, i+1)
		}
	}
	return answered
}

// first is the question that is due, or nil.
func (q *asked) first() *question {
	if len(q.open) == 0 {
		return nil
	}
	return q.open[0]
}

// howAnswered says who answered a question that was still being asked here.
func howAnswered(e *event.Event) string {
	p, ok := e.Payload.(*event.ActionResolved)
	switch {
	case !ok:
		return "answered"
	case p.DecisionSource == "timeout":
		return "nobody answered in time: " + p.Decision
	case p.DecisionSource == "runtime":
		return "not asked any more"
	}
	return "answered by somebody else: " + p.Decision
}

// drop takes a question away that was answered here.
func (q *asked) drop(x *question) {
	q.open = slices.DeleteFunc(q.open, func(o *question) bool { return o == x })
}
