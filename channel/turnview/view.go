package turnview

import (
	"slices"
	"strings"

	"agentd/event"
)

// View is how a turn stands.
type View struct {
	// TurnID is the turn. Without one the view follows the turns of the thread, each
	// to its end: an adapter begins the next with a new view.
	TurnID string
	// ThreadID is the turn's thread. Without one it is that of the turn's first event,
	// and any without a turn.
	ThreadID string
	// WithSubagents adds what subagents say and do. What they ask always counts: the
	// turn waits for it.
	WithSubagents bool

	// Calls are the model calls, oldest first.
	Calls []Call
	// Tools are the tool calls, oldest first.
	Tools []Tool
	// Actions are those that wait for an answer, oldest first.
	Actions []Action
	// Subagents are those that were heard of, oldest first.
	Subagents []Subagent
	// Plan is what the agent means to do.
	Plan []PlanItem
	// Blocked says why the thread doesn't go on; nil if it does.
	Blocked *Blocked
	// End is set once the turn is over.
	End *Ended
}

// Call is a model call.
type Call struct {
	// Agent is the subagent that asks; empty is the turn's own agent.
	Agent string
	ID    string
	// Purpose is turn, repair, compaction or classification; empty is turn.
	Purpose string
	// Parts are what was said, in order.
	Parts []Part
	// Answer is how the call ended, nil as long as it has no answer.
	Answer *event.ModelCompleted
	// Failed says that the call has no answer, and its parts don't count.
	Failed bool
}

// PartKind tells text from reasoning.
type PartKind string

// The kinds of parts.
const (
	Text      PartKind = "text"
	Reasoning PartKind = "reasoning"
)

// Part is a text, or the reasoning before one.
type Part struct {
	Kind    PartKind
	Content []byte
	Open    bool
}

// Tool is a tool call.
type Tool struct {
	Agent string
	ID    string
	// CallID is the model call that asked for it; empty if that wasn't seen.
	CallID string
	Name   string
	Args   event.Raw
	// Output is the end of what it wrote so far.
	Output []byte
}

// MaxOutput bounds how much of a tool's output is kept.
const MaxOutput = 8 << 10

// Action is something that waits for an answer. The records of actions in read models
// decode into it too.
type Action struct {
	// Agent is the subagent that asks; empty is the turn's own agent.
	Agent      string `json:"subagentId"`
	ID         string `json:"actionId"`
	TurnID     string `json:"turnId"`
	ToolCallID string `json:"toolCallId"`
	*event.ActionRequired
}

// WantsValue says that an input is asked for, not a yes or a no.
func (a *Action) WantsValue() bool { return slices.Contains(a.Decisions, "submit") }

// Subagent is an agent that works for the turn.
type Subagent struct {
	ID string
	// Run counts how often it began, from 1; Open says that it hasn't ended since.
	Run  int
	Open bool
}

// PlanItem is a step of a plan.
type PlanItem struct {
	Step string `json:"step"`
	// Status is pending, in_progress, completed or cancelled.
	Status string `json:"status"`
}

// Blocked is why a thread doesn't go on: until resume_thread, or until a node reaches the
// session's files.
type Blocked struct{ Reason, Code string }

// Block is why a thread of a session's snapshot waits.
type Block struct {
	Reason    string   `json:"reason"`
	Code      string   `json:"code"`
	ActionIDs []string `json:"actionIds"`
}

// Blocked is why the thread doesn't go on; nil if it does, or waits for an answer.
func (b *Block) Blocked() *Blocked {
	if b == nil || len(b.ActionIDs) > 0 {
		return nil
	}
	return &Blocked{Reason: b.Reason, Code: b.Code}
}

// Explain says so to a person, with what the client calls the command that lets it go on.
func (b *Blocked) Explain(resume string) string {
	if b.Code == event.PlaceUnreachable {
		return "the turn waits: " + b.Reason // which says that it goes on by itself
	}
	return "the turn is blocked: " + b.Reason + "; " + resume + " lets it go on"
}

// Kind is the code of the error with which a protocol ends what follows the turn.
func (b *Blocked) Kind() string {
	if b.Code == event.PlaceUnreachable {
		return b.Code
	}
	return "blocked"
}

// Speaks tells a model call whose answer is the agent's, to the user or as another try
// at an answer of the wrong form, from one for the runtime's own use.
func Speaks(purpose string) bool { return purpose == "" || purpose == "turn" || purpose == "repair" }

// Call returns a model call; nil if it isn't known.
func (v *View) Call(id string) *Call {
	return newest(v.Calls, func(c *Call) bool { return c.ID == id })
}

// Tool returns a tool call; nil if it isn't known.
func (v *View) Tool(id string) *Tool {
	return newest(v.Tools, func(t *Tool) bool { return t.ID == id })
}

// Subagent returns a subagent; nil if it isn't known.
func (v *View) Subagent(id string) *Subagent {
	return newest(v.Subagents, func(s *Subagent) bool { return s.ID == id })
}

// Last returns the newest call of the turn's own agent that has an answer; nil if
// there is none.
func (v *View) Last() *Call {
	return newest(v.Calls, func(c *Call) bool { return c.Agent == "" && c.Answer != nil })
}

func newest[T any](list []T, is func(*T) bool) *T {
	for i := len(list) - 1; i >= 0; i-- {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// AnswerText returns what a model answered. One that is too large for its event is read
// from where it is kept.
func AnswerText(p *event.ModelCompleted, read func(ref string) ([]byte, error)) (string, error) {
	if p.Message != nil && p.Message.Text != "" {
		return p.Message.Text, nil
	}
	m, err := p.Whole(read)
	if err != nil || m == nil {
		return "", err
	}
	return m.Text, nil
}

// Text is what the turn's own agent said, one model call after the other.
func (v *View) Text() string {
	var out []string
	for i := range v.Calls {
		if text := v.Calls[i].text(); text != "" && v.Calls[i].Agent == "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n\n")
}

func (c *Call) text() string {
	var b strings.Builder
	for _, p := range c.Parts {
		if p.Kind == Text && !c.Failed {
			b.Write(p.Content)
		}
	}
	return b.String()
}

// RulesText says which rules an answer for the project would keep, on one line.
func RulesText(rules []event.PolicyRule) string {
	var out []string
	for _, r := range rules {
		out = append(out, strings.TrimSpace(r.Decision+" "+r.Tool+" "+r.Match))
	}
	return strings.Join(strings.Fields(strings.Join(out, ", ")), " ")
}
