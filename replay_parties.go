package agentd

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"agentd/event"
	"agentd/evidence"
	"agentd/hook"
	"agentd/state"
	"agentd/tool"
)

// parties plays what others said and did in a recording.
type parties struct {
	p *replaying
	// hooks and peers are what has not been played yet.
	hooks []evidence.CaseHook
	peers []evidence.CasePeer
	// moving is held while peers come and go; tokens let those come back that went.
	moving sync.Mutex
	tokens map[string]string
	// spawns are the subagents that are still to be started from outside.
	spawns []evidence.CaseAgent
	// silent are the calls that peers will not answer.
	silent []string
	// calls are the calls of the recording by those of the replay, as far as they are
	// known; threads the turns of subagents by their threads.
	calls, threads map[string]string
	// agents are the subagents by those of the recording.
	agents map[string]child
	// working are the subagents that have not ended, and their turns and compactions, each
	// with its thread; away are those that are other agents.
	working map[string]string
	away    map[string]bool
	// given are the answers with tool calls that each thread was given; told counts
	// those that are facts.
	given map[string][]*event.ModelMessage
	told  map[string]int
	// known are the facts of answers that were told.
	known map[string]bool
	// answered and decided count the answers and decisions that were played, turns
	// those that began.
	answered, decided, turns int
}

func newParties(p *replaying) *parties {
	x := &parties{p: p, given: map[string][]*event.ModelMessage{}, told: map[string]int{}, known: map[string]bool{}, tokens: map[string]string{}, calls: map[string]string{}, threads: map[string]string{}, agents: map[string]child{}, working: map[string]string{}, away: map[string]bool{}}
	if c := p.c.Parties; c != nil {
		x.hooks, x.peers, x.silent = slices.Clone(c.Hooks), slices.Clone(c.Peers), slices.Clone(c.Unanswered)
		x.spawns = slices.DeleteFunc(slices.Clone(c.Agents), func(a evidence.CaseAgent) bool { return a.Spawn == nil })
	}
	return x
}

// recordedCall returns the id that a call of the replay has in the recording: the
// one at the same place of the same answer. It is empty if there is none.
func (x *parties) recordedCall(ctx context.Context, threadID, toolCallID string) string {
	if toolCallID == "" || toolCallID == event.NotApplicable || x.p.with.Live != nil {
		return ""
	}
	x.note(ctx, threadID)
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	return x.calls[toolCallID]
}

// note remembers what the calls that a thread has open are in the recording.
func (x *parties) note(ctx context.Context, threadID string) {
	var ids []string
	err := x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		if t := s.Thread(threadID); t != nil && t.Active != nil {
			for _, c := range t.Active.Tools {
				ids = append(ids, c.ToolCallID)
			}
		}
		return nil
	})
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	if list := x.given[threadID]; err == nil && len(list) > 0 {
		x.same(ids, list[len(list)-1])
	}
}

// same notes that calls are those of an answer. The caller holds the lock.
func (x *parties) same(ids []string, m *event.ModelMessage) {
	for i := range min(len(ids), len(m.ToolCalls)) {
		if x.calls[ids[i]] == "" {
			x.calls[ids[i]] = m.ToolCalls[i].ToolCallID
		}
	}
}

// Committed implements [session.Observer]: a call may be over when somebody asks what
// it was, because a subagent works on after it.
func (x *parties) Committed(_ string, facts []event.Event) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	for i := range facts {
		x.tell(&facts[i])
	}
}

// tell notes that an answer which a thread was given is a fact; it may be told twice.
// An answer that was cut off never is one. The caller holds the lock.
func (x *parties) tell(e *event.Event) {
	p, ok := e.Payload.(*event.ModelCompleted)
	if !ok || p.Message == nil || len(p.Message.ToolCalls) == 0 || x.known[e.ID] {
		return
	}
	x.known[e.ID] = true
	threadID, calls := e.ThreadID, p.Message.ToolCalls
	like := func(a, b event.ToolCallRequest) bool { return a.ToolName == b.ToolName }
	for n := x.told[threadID]; n < len(x.given[threadID]); n++ {
		m := x.given[threadID][n]
		if !slices.EqualFunc(m.ToolCalls, calls, like) {
			continue
		}
		var ids []string
		for _, c := range calls {
			ids = append(ids, c.ToolCallID)
		}
		x.same(ids, m)
		x.told[threadID] = n + 1
		return
	}
}

// gave notes the answer that a thread was given.
func (x *parties) gave(threadID string, m *event.ModelMessage) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	if m != nil && len(m.ToolCalls) > 0 {
		x.given[threadID] = append(x.given[threadID], m)
	}
}

// runner returns the hooks of the recording; nil if it has none. What runs at a
// point is what ran there: the row of a tool is the longest that was seen.
func (x *parties) runner() (*hook.Runner, error) {
	if len(x.hooks) == 0 {
		return nil, nil //nolint:nilnil // a runtime without hooks has none
	}
	opt := hook.Options{Exec: x.exec, NewID: func() string { return event.NewIDs(nil, nil).New(event.PrefixHook) }}
	for _, row := range x.rows() {
		for _, h := range row {
			opt.Hooks = append(opt.Hooks, hook.Hook{
				Name: h.HandlerRef, Point: hook.Point(h.Point), Match: hook.Match{Tool: literal(h.ToolName)}, Command: []string{h.HandlerRef},
				Failure: h.FailureBehavior, Timeout: hook.MaxTimeout,
			})
		}
	}
	return hook.New(opt)
}

// rows are the hooks of each point and tool, in the order in which they were seen.
func (x *parties) rows() [][]evidence.CaseHook {
	type place struct{ point, tool string }
	type instance struct {
		place
		turn, call string
	}
	var order []place
	longest, open := map[place][]evidence.CaseHook{}, map[instance][]evidence.CaseHook{}
	for _, h := range x.hooks {
		at := place{h.Point, h.ToolName}
		if _, ok := longest[at]; !ok {
			order, longest[at] = append(order, at), nil
		}
		in := instance{at, h.TurnID, h.ToolCallID}
		open[in] = append(open[in], h)
		if !h.Ends() {
			continue
		}
		longest[at] = longer(longest[at], open[in])
		delete(open, in)
	}
	for in, row := range open {
		longest[in.place] = longer(longest[in.place], row)
	}
	var out [][]evidence.CaseHook
	for _, at := range order {
		row := longest[at]
		if last := row[len(row)-1]; !last.Last { // somebody stood behind it who was never asked
			last.HandlerRef, last.FailureBehavior = "unrecorded", ""
			row = append(row, last)
		}
		out = append(out, row)
	}
	return out
}

// longer returns the longer of two rows, with what is known of how its hooks fail.
func longer(a, b []evidence.CaseHook) []evidence.CaseHook {
	if len(a) < len(b) {
		a, b = b, a
	}
	for i := range b {
		if a[i].FailureBehavior == "" && a[i].HandlerRef == b[i].HandlerRef {
			a[i].FailureBehavior = b[i].FailureBehavior
		}
	}
	return a
}

// literal is the glob that matches a name alone.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// exec answers as the hook did at this place.
func (x *parties) exec(ctx context.Context, c hook.Command) (hook.Exit, error) {
	var in struct {
		Point string `json:"point"`
		hook.Input
	}
	if err := json.Unmarshal(c.Stdin, &in); err != nil {
		return hook.Exit{}, err
	}
	call := x.recordedCall(ctx, in.ThreadID, in.ToolCallID)
	h, ok := x.hook(x.turnOf(ctx, in.ThreadID), in.Point, c.Argv[0], call)
	if err := x.p.acts.hook(ctx, &h, ok); err != nil {
		return hook.Exit{}, err
	}
	switch {
	case !ok:
		return hook.Exit{}, &hook.Failure{Category: "internal", Message: "the recording has no answer of the hook " + c.Argv[0] + " at " + in.Point}
	case h.ErrorCategory != "":
		return hook.Exit{}, &hook.Failure{Category: h.ErrorCategory, Message: h.ErrorMessage, Retryable: h.Retryable}
	}
	answer, err := json.Marshal(hookAnswer{h.Decision, h.Reason, h.UpdatedInput, h.UpdatedOutput, h.Context, h.SuppressOutput, h.AuditRefs})
	return hook.Exit{Stdout: answer}, err
}

// hookAnswer is what a hook writes.
type hookAnswer struct {
	Decision       string    `json:"decision,omitempty"`
	Reason         string    `json:"reason,omitempty"`
	UpdatedInput   event.Raw `json:"updatedInput,omitempty"`
	UpdatedOutput  event.Raw `json:"updatedOutput,omitempty"`
	Context        []string  `json:"additionalContext,omitempty"`
	SuppressOutput bool      `json:"suppressOutput,omitempty"`
	AuditRefs      []string  `json:"auditRefs,omitempty"`
}

// hook takes the next recorded run of a hook in a turn.
func (x *parties) hook(turn, point, handler, call string) (evidence.CaseHook, bool) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	for i, h := range x.hooks {
		if h.TurnID == turn && h.Point == point && h.HandlerRef == handler && h.ToolCallID == call {
			x.hooks = slices.Delete(x.hooks, i, i+1)
			return h, true
		}
	}
	return evidence.CaseHook{}, false
}

// failureOf is the failure of a recorded call.
func failureOf(x *evidence.CaseResult) *tool.Error {
	err := &tool.Error{Category: x.ErrorCategory, Message: x.ErrorMessage, Advice: x.Advice, Retryable: x.Retryable, Boundary: x.Boundary, Path: x.Path}
	if x.Credential != "" {
		err.Credential = &tool.Need{Name: x.Credential, For: x.Credential, References: x.CredentialRefs}
	}
	return err
}
