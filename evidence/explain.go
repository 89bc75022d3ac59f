package evidence

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/internal/clip"
)

// Question is what [Explain] is asked about: one of the ids is set. ItemID may come
// with the JobID that it belongs to.
type Question struct {
	ToolCallID, ActionID, TurnID, TaskID string
	SubagentID, JobID, ItemID, EventID   string
}

// Explain answers why something was allowed, blocked, routed or failed: the chain
// of facts that led to it, in order, and a short answer made of them. It reports
// false if no fact is about it. The facts are read more than once: what a fact
// names may have been recorded before it.
func Explain(facts iter.Seq2[*event.Event, error], q Question) (*command.ExplainResult, bool, error) {
	x := &explanation{q: q, threads: map[string]bool{}, named: map[string]bool{}}
	for _, read := range []func(*event.Event){x.narrowQuestion, x.link, x.addRelevantFact} {
		for e, err := range facts {
			if err != nil {
				return nil, false, err
			}
			read(e)
		}
	}
	if len(x.facts) == 0 {
		return nil, false, nil
	}
	return &command.ExplainResult{Answer: x.joinAnswer(), Facts: x.facts}, true, nil
}

// explanation collects what is said about a question.
type explanation struct {
	q Question
	// threads are those that did the work that is asked about.
	threads map[string]bool
	// named are the facts that those about the question name: the approval that
	// still held, the policy that a rule or a mode came from.
	named map[string]bool
	chain policyChain
	facts []command.ExplainedFact
	// key are the sentences that make the answer, in order.
	key []string
}

// narrowQuestion narrows the question to what its facts are known by: the tool call of an
// action, the threads of an item, whatever a single fact is about.
func (x *explanation) narrowQuestion(e *event.Event) {
	switch {
	case x.q.EventID != "" && e.ID == x.q.EventID:
		x.named[e.ID] = true
		x.narrow(e)
	case x.q.ActionID != "" && e.ActionID == x.q.ActionID:
		x.addToolCall(e)
	case x.q.SubagentID != "" && e.SubagentID == x.q.SubagentID && e.Type == event.TypeSubagentSpawned:
		x.addToolCall(e)
	case x.ofItem(e):
		if p, ok := e.Payload.(*event.JobItemStarted); ok && p.AssignedThreadID != "" {
			x.threads[p.AssignedThreadID] = true
		}
	}
}

// addToolCall adds the tool call that a fact belongs to.
func (x *explanation) addToolCall(e *event.Event) {
	if e.ToolCallID != "" && e.ToolCallID != event.NotApplicable {
		x.q.ToolCallID = e.ToolCallID
	}
}

// narrow asks about the nearest thing that a fact belongs to.
func (x *explanation) narrow(e *event.Event) {
	given := func(id string) bool { return id != "" && id != event.NotApplicable }
	switch {
	case given(e.ToolCallID):
		x.q.ToolCallID = e.ToolCallID
	case given(e.ActionID):
		x.q.ActionID = e.ActionID
	case given(e.JobItemID):
		x.q.JobID, x.q.ItemID = e.JobID, e.JobItemID
	case given(e.JobID):
		x.q.JobID = e.JobID
	case given(e.TurnID):
		x.q.TurnID = e.TurnID
	case given(e.TaskID):
		x.q.TaskID = e.TaskID
	}
}

// policyChain remembers, while the facts are read in order, what held when.
type policyChain struct {
	// byRule is the fact that a rule came from, byMode the one that a mode did.
	byRule map[string]string
	byMode map[string]string
	grants map[string]string
}

func (c *policyChain) recordPolicyFact(e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.PolicyChanged:
		for _, r := range p.Rules {
			setFirst(&c.byRule, p.Source+":"+r.RuleID, e.ID)
		}
		if p.Mode != "" {
			setFirst(&c.byMode, p.Mode, e.ID)
		}
	case *event.PermissionResolved:
		if p.GrantID != "" {
			setFirst(&c.grants, p.GrantID, e.ID)
		}
	}
}

func setFirst(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// link finds the facts that a decision rests on.
func (x *explanation) link(e *event.Event) {
	x.chain.recordPolicyFact(e)
	p, ok := e.Payload.(*event.PermissionEvaluated)
	if !ok || !x.isAbout(e) {
		return
	}
	for _, ref := range p.RuleRefs {
		x.name(x.chain.byRule[ref])
	}
	x.name(x.chain.grants[p.GrantID])
	if p.DecisionSource == "mode" {
		x.name(x.chain.byMode[p.PermissionMode])
	}
}

func (x *explanation) name(eventID string) {
	if eventID != "" {
		x.named[eventID] = true
	}
}

// addRelevantFact adds a fact if it is about the question, or one of those names it.
func (x *explanation) addRelevantFact(e *event.Event) {
	if !x.named[e.ID] && !x.isAbout(e) {
		return
	}
	says, key := describeFact(e)
	if p, ok := e.Payload.(*event.ModelCompleted); ok && x.q.ToolCallID != "" {
		says = requestSentence(p, x.q.ToolCallID)
		key = says != ""
	}
	if says == "" && e.ID == x.q.EventID {
		says = string(e.Type) + " was recorded."
	}
	if says == "" {
		return
	}
	x.facts = append(x.facts, command.ExplainedFact{EventID: e.ID, Sequence: e.Sequence, Type: string(e.Type), Says: says})
	if key || x.named[e.ID] {
		x.key = append(x.key, says)
	}
}

// isAbout reports whether a fact belongs to what is asked about.
func (x *explanation) isAbout(e *event.Event) bool {
	q := &x.q
	switch {
	case q.ToolCallID != "" && e.ToolCallID == q.ToolCallID, q.ActionID != "" && e.ActionID == q.ActionID:
		return true
	case q.ActionID != "" && waitsFor(e, q.ActionID), q.SubagentID != "" && e.SubagentID == q.SubagentID:
		return true
	case x.ofItem(e), x.threads[e.ThreadID]:
		return true
	case q.ItemID == "" && q.JobID != "" && e.JobID == q.JobID:
		return ofJob(e)
	case q.ToolCallID != "":
		p, ok := e.Payload.(*event.ModelCompleted)
		return ok && requestSentence(p, q.ToolCallID) != ""
	case q.TurnID != "":
		return e.TurnID == q.TurnID
	case q.TaskID != "":
		return e.TaskID == q.TaskID || (e.ParentTaskID == q.TaskID && ofTask(e))
	}
	return false
}

// ofItem reports whether a fact belongs to the item of a job that is asked about.
func (x *explanation) ofItem(e *event.Event) bool {
	return x.q.ItemID != "" && e.JobItemID == x.q.ItemID && (x.q.JobID == "" || e.JobID == x.q.JobID)
}

// waitsFor reports whether a fact says that a task waits for an action.
func waitsFor(e *event.Event, actionID string) bool {
	p, ok := e.Payload.(*event.TaskStatusChanged)
	return ok && slices.Contains(p.Blockers, actionID)
}

// ofTask reports whether a fact tells of a task itself, not of the work in it.
func ofTask(e *event.Event) bool {
	says, _ := sayTask(e)
	return says != ""
}

// ofJob reports whether a fact tells of a job or its items, not of the work in them.
func ofJob(e *event.Event) bool {
	says, _ := sayJob(e)
	return says != ""
}

// requestSentence says that a model asked for a call, or nothing.
func requestSentence(p *event.ModelCompleted, toolCallID string) string {
	if p.Message == nil {
		return ""
	}
	for _, c := range p.Message.ToolCalls {
		if c.ToolCallID == toolCallID {
			return fmt.Sprintf("The model %s asked for %s with %s.", p.Model, c.ToolName, clipText(string(c.Arguments)))
		}
	}
	return ""
}

// joinAnswer joins what matters most. The facts say the rest.
func (x *explanation) joinAnswer() string {
	if len(x.key) == 0 {
		return x.facts[len(x.facts)-1].Says
	}
	const most = 12
	key := x.key
	if len(key) > most {
		left := "(1 more fact in between.)"
		if n := len(key) - most; n > 1 {
			left = fmt.Sprintf("(%d more facts in between.)", n)
		}
		key = append(append(append([]string{}, key[:most/2]...), left), key[len(key)-most/2:]...)
	}
	return strings.Join(key, " ")
}

// clipText shortens what a sentence quotes.
func clipText(s string) string { return clip.Text(s, 300) }
