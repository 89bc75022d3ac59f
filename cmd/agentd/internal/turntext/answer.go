package turntext

import (
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/permission"
)

// Answer is one of the answers that a question offers.
type Answer struct {
	// Key chooses it, and so does Word, typed whole; it is in lower case.
	Key, Word, Text string
	// TakesReason says that words can go with it.
	TakesReason bool
	answer      command.RespondAction
}

// Respond returns the answer as a command, with the words that go with it.
func (a *Answer) Respond(reason string) *command.RespondAction {
	out := a.answer
	if a.TakesReason {
		out.Reason = reason
	}
	return &out
}

// Title says in one line what is asked.
func (q *Question) Title() string {
	p := q.Required
	switch {
	case q.IsPlan():
		return "Approve this plan?"
	case q.IsInput() || p.ToolName == "":
		return terminal.Clip(terminal.Plain(p.Prompt), 200)
	case p.ActionType == "sandbox_escape":
		return "Allow " + terminal.Plain(p.ToolName) + " to run outside of the sandbox?"
	}
	return "Allow " + terminal.Plain(p.ToolName) + "?"
}

// Answers are what can be chosen; none if a value is wanted that has to be typed.
func (q *Question) Answers() []Answer {
	respond := func(decision string) command.RespondAction {
		return command.RespondAction{ActionID: q.ID, Decision: decision}
	}
	if q.IsInput() {
		var out []Answer
		for i, c := range q.Choices() {
			text := ChoiceText(c)
			a := Answer{Key: strconv.Itoa(i + 1), Word: strings.ToLower(text), Text: text, answer: respond("submit")}
			a.answer.Payload = MarshalValue(c)
			out = append(out, a)
		}
		return out
	}
	yes, no := respond("allow"), respond("deny")
	if q.IsPlan() {
		auto := yes
		yes.Payload, auto.Payload = PlanChoice(permission.ModeDefault), PlanChoice(permission.ModeAuto)
		return []Answer{
			{Key: "y", Word: "yes", Text: "approve, ask before each change", answer: yes},
			{Key: "a", Word: "auto", Text: "approve, continue in mode auto", answer: auto},
			{Key: "n", Word: "no", Text: "keep planning, and say what to change", TakesReason: true, answer: no},
		}
	}
	out := []Answer{{Key: "y", Word: "yes", Text: "yes, once", answer: yes}}
	if !q.Required.OnceOnly {
		session := yes
		session.Scope = "session"
		out = append(out, Answer{Key: "a", Word: "always", Text: "yes, for this session", answer: session})
	}
	if kept := q.keptRules(); kept != "" {
		project := yes
		project.Scope = "project"
		out = append(out, Answer{Key: "p", Word: "project", Text: "yes, always in this project: " + kept, answer: project})
	}
	return append(out, Answer{Key: "n", Word: "no", Text: "no, and say why", TakesReason: true, answer: no})
}

// YesOrNo are the answers to a question of the program itself. The safe one is the last.
func YesOrNo() []Answer {
	return []Answer{{Key: "y", Word: "yes", Text: "yes"}, {Key: "n", Word: "no", Text: "no"}}
}

// AfterAnswer are the characters that end the word of an answer: what follows them goes with
// it.
const AfterAnswer = " ,.;:!"
