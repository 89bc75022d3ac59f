package evidence

import (
	"encoding/json"
	"slices"

	"agentd/event"
)

// CaseParties are the others who had a part in the turns, with what they said and
// did. A replay asks none of them: it plays what is here.
type CaseParties struct {
	// Hooks are the runs of hooks, in the order in which they ended.
	Hooks []CaseHook `json:"hooks,omitempty"`
	// Peers are the comings and goings of peers that carry out tools.
	Peers []CasePeer `json:"peers,omitempty"`
	// Unanswered are the tool calls that a peer was given and did not answer: it went,
	// or it let the time pass.
	Unanswered []string `json:"unanswered,omitempty"`
	// Agents are the subagents that tool calls started, in the order of their turns.
	Agents []CaseAgent `json:"agents,omitempty"`
	// Generations is how deep they were below each other.
	Generations int64 `json:"generations,omitempty"`
	// Held are the turns of subagents that were stopped between two steps, Open those
	// that the recording has no end of.
	Held []CaseHold     `json:"held,omitempty"`
	Open []CaseOpenTurn `json:"open,omitempty"`
}

// CaseHook is a run of a hook: its answer, or why it gave none.
type CaseHook struct {
	// Acts is how many acts came before it.
	Acts    int    `json:"acts,omitempty"`
	EventID string `json:"eventId"`
	TurnID  string `json:"turnId,omitempty"`
	// ToolCallID and ToolName are those of the call that it was asked about.
	ToolCallID string `json:"toolCallId,omitempty"`
	ToolName   string `json:"toolName,omitempty"`
	Point      string `json:"point"`
	HandlerRef string `json:"handlerRef"`
	// Last says that no other hook of the point came after it.
	Last bool `json:"last,omitempty"`

	Decision       string    `json:"decision,omitempty"`
	Reason         string    `json:"reason,omitempty"`
	UpdatedInput   event.Raw `json:"updatedInput,omitempty"`
	UpdatedOutput  event.Raw `json:"updatedOutput,omitempty"`
	Context        []string  `json:"additionalContext,omitempty"`
	SuppressOutput bool      `json:"suppressOutput,omitempty"`
	AuditRefs      []string  `json:"auditRefs,omitempty"`

	ErrorCategory string `json:"errorCategory,omitempty"`
	ErrorMessage  string `json:"errorMessage,omitempty"`
	Retryable     bool   `json:"retryable,omitempty"`
	// FailureBehavior is open or closed; known of a hook that failed once.
	FailureBehavior string `json:"failureBehavior,omitempty"`
}

// Ends reports whether nothing of its point ran after it: it was the last one, or it
// forbade what the others would have been asked about.
func (h *CaseHook) Ends() bool {
	return h.Last || h.Decision == "deny" || h.Decision == "block" || h.ErrorCategory != "" && h.FailureBehavior == "closed"
}

// categoryLost is the failure of a hook that was cut off.
const categoryLost = "lost"

// partyFacts are what a recording remembers of others while it is made.
type partyFacts struct {
	// started are the hooks that run, by the run.
	started map[string]*event.HookStarted
	// cut are the places of hooks that were cut off and not asked again yet.
	cut []hookPlace
	peerFacts
	agentFacts
}

// hookPlace is where a hook is asked.
type hookPlace struct{ turnID, toolCallID, point, handlerRef string }

// parties returns the part of the case that is about others.
func (r *recording) parties() *CaseParties {
	if r.c.Parties == nil {
		r.c.Parties = &CaseParties{}
	}
	return r.c.Parties
}

// others takes what others said and did.
func (r *recording) others(e *event.Event) {
	r.peer(e)
	r.wishesAgent(e)
	switch p := e.Payload.(type) {
	case *event.HookStarted:
		if r.party.started == nil {
			r.party.started = map[string]*event.HookStarted{}
		}
		r.party.started[p.HookRunID] = p
	case *event.HookCompleted:
		r.hookAnswered(e, p)
	case *event.HookFailed:
		r.hookFailed(e, p)
	case *event.ToolFailed:
		if isLost(e) { // with what hooks were to say of its result
			r.party.cut = slices.DeleteFunc(r.party.cut, func(h hookPlace) bool {
				return h.toolCallID == e.ToolCallID && h.point == afterTool
			})
		}
	case *event.ActionRequired:
		if p.CredentialRef != "" {
			r.lacked(e, p)
		}
	}
}

// lacked takes a call that was refused for want of a credential: it is run again once
// somebody named one, and had a result before.
func (r *recording) lacked(e *event.Event, p *event.ActionRequired) {
	var offered struct {
		Enum []string `json:"enum"`
	}
	if json.Unmarshal(p.Schema, &offered) != nil || len(offered.Enum) == 0 {
		return // nobody could have been asked
	}
	r.c.Results = append(r.c.Results, CaseResult{
		EventID: e.ID, ToolCallID: applicable(e.ToolCallID), ToolName: p.ToolName, Arguments: r.args[e.ToolCallID],
		ErrorCategory: "unavailable", ErrorMessage: p.Reason, Credential: p.CredentialRef, CredentialRefs: offered.Enum,
	})
}

// hookAnswered takes the answer of a hook.
func (r *recording) hookAnswered(e *event.Event, p *event.HookCompleted) {
	h := r.hookRun(e, p.HookRunID, p.Point, p.HandlerRef)
	h.Last, h.Decision, h.Reason, h.SuppressOutput, h.AuditRefs = p.Last, p.Decision, p.Reason, p.SuppressOutput, p.AuditRefs
	whole := r.readInto(p.UpdatedInputRef, &h.UpdatedInput) && r.readInto(p.UpdatedToolOutputRef, &h.UpdatedOutput)
	for _, ref := range p.AdditionalContext {
		text := r.summary(ref)
		if text == nil {
			whole = false
			continue
		}
		h.Context = append(h.Context, text.Text)
	}
	if !whole {
		r.limit("what a hook gave is only behind its reference")
	}
	r.parties().Hooks = append(r.parties().Hooks, h)
}

// hookFailed takes the failure of a hook. One that was cut off is asked again by
// whoever goes on with the turn.
func (r *recording) hookFailed(e *event.Event, p *event.HookFailed) {
	h := r.hookRun(e, p.HookRunID, p.Point, p.HandlerRef)
	if p.ErrorCategory == categoryLost && !r.act.stopped { // else it ended with its turn
		r.party.cut = append(r.party.cut, h.place())
		return
	}
	h.Last, h.ErrorCategory, h.ErrorMessage, h.Retryable, h.FailureBehavior = p.Last, p.ErrorCategory, p.Message, p.Retryable, p.FailureBehavior
	r.parties().Hooks = append(r.parties().Hooks, h)
}

// hookRun is what every end of a hook's run says.
func (r *recording) hookRun(e *event.Event, runID, point, handlerRef string) CaseHook {
	h := CaseHook{EventID: e.ID, TurnID: e.TurnID, ToolCallID: applicable(e.ToolCallID), Point: point, HandlerRef: handlerRef}
	if s := r.party.started[runID]; s != nil {
		h.ToolName = s.Preview
	}
	if i := slices.Index(r.party.cut, h.place()); i >= 0 {
		r.party.cut = slices.Delete(r.party.cut, i, i+1)
	}
	return h
}

func (h *CaseHook) place() hookPlace {
	return hookPlace{h.TurnID, h.ToolCallID, h.Point, h.HandlerRef}
}

// readInto reads what is behind a reference, if there is one; it reports whether
// nothing is missing.
func (r *recording) readInto(ref string, into *event.Raw) bool {
	return ref == "" || r.read(ref, into)
}

// partiesEnd notes what others left open.
func (r *recording) partiesEnd() {
	r.peersEnd()
	r.agentsEnd()
	if len(r.party.cut) > 0 {
		r.limit("a hook was cut off and not asked again")
	}
}
