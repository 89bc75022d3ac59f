package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
	"agentd/tool/toolkind"
)

// spawnAgent is the tool by which a model spawns a child.
const spawnAgent = string(toolkind.SpawnAgent)

// subagentConcerns reports whether a fact may change how a child stands, or asks for
// one.
func subagentConcerns(e *event.Event) bool {
	switch e.Type { //nolint:exhaustive // the rest says nothing of children
	case event.TypeToolStarted:
		return e.SubagentID != ""
	case event.TypeToolProgress:
		p, ok := e.Payload.(*event.ToolProgress)
		return ok && p.Phase == event.PhaseRunning && (e.SubagentID != "" || toolkind.Of(p.ToolName) == toolkind.SpawnAgent)
	case event.TypeThreadUpdated:
		p, ok := e.Payload.(*event.ThreadUpdated)
		return e.SubagentID != "" || (ok && p.Status == "resumed")
	case event.TypeTurnSubmitted, event.TypeTurnStarted, event.TypeTurnCompleted, event.TypeActionRequired, event.TypeActionResolved:
		return e.SubagentID != ""
	case event.TypeTurnFailed, event.TypeTurnInterruptRequested,
		event.TypeSubagentSpawned, event.TypeSubagentStatus, event.TypeSubagentCompleted, event.TypeSubagentFailed, event.TypeSubagentClosed:
		return true
	}
	return e.SubagentID != "" && peerChildConcerns(e.Type)
}

// lookAtSubagents does what follows from facts: it spawns what a model asked for,
// passes interrupts on, and records how children stand.
func (w *Work) lookAtSubagents(ctx context.Context, sessionID string, facts []event.Event) error {
	var children, stopped []string
	spawns, told := false, false
	for i := range facts {
		e := &facts[i]
		switch p := e.Payload.(type) {
		case *event.ToolProgress:
			spawns = spawns || p.Phase == event.PhaseRunning && toolkind.Of(p.ToolName) == toolkind.SpawnAgent
		case *event.ThreadUpdated:
			spawns = spawns || p.Status == "resumed"
		case *event.TurnInterruptRequested, *event.TurnFailed:
			stopped = append(stopped, e.ThreadID)
		case *event.SubagentSpawned, *event.SubagentStatus, *event.SubagentEnded:
			told = true
		}
		if e.SubagentID != "" && !slices.Contains(children, e.SubagentID) {
			children = append(children, e.SubagentID)
		}
	}
	if told {
		w.waits.wakeWatchers(sessionID)
	}
	if spawns {
		if err := w.startSpawns(ctx, sessionID); err != nil {
			return err
		}
	}
	if err := w.stopChildren(ctx, sessionID, stopped); err != nil {
		return err
	}
	for _, id := range children {
		if err := w.settleChild(ctx, sessionID, id); err != nil {
			return err
		}
	}
	return nil
}

// recoverSubagents takes up what a crash may have left between two facts.
func (w *Work) recoverSubagents(ctx context.Context, sessionID string) error {
	var children, stopped []string
	if err := w.m.View(ctx, sessionID, func(s *state.Session) error {
		for _, a := range s.Subagents.Open {
			children = append(children, a.SubagentID)
		}
		for _, t := range s.Threads {
			if t.Active != nil && t.Active.Interrupt != nil {
				stopped = append(stopped, t.ThreadID)
			}
		}
		return nil
	}); err != nil {
		return ignoreMissing(err)
	}
	if err := w.startSpawns(ctx, sessionID); err != nil {
		return err
	}
	if err := w.stopChildren(ctx, sessionID, stopped); err != nil {
		return err
	}
	for _, id := range children {
		if err := w.settleChild(ctx, sessionID, id); err != nil {
			return err
		}
	}
	return nil
}

// ignoreMissing passes over a session that doesn't exist any more.
func ignoreMissing(err error) error {
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// asked is a call of spawn_agent that wasn't carried out yet.
type asked struct {
	threadID, toolCallID string
	sequence             uint64
}

// unspawned returns the calls that run without a child.
func unspawned(s *state.Session) []asked {
	var out []asked
	for _, t := range s.Threads {
		if t.Active == nil || t.Active.Interrupt != nil || t.Block != nil {
			continue // it is being stopped, or waits for a person
		}
		for _, c := range t.Active.Tools {
			if toolkind.Of(c.ToolName) == toolkind.SpawnAgent && c.Status == state.ToolRunning && childOf(s, c.ToolCallID) == nil {
				// A stored state of an older version doesn't know where the arguments are.
				out = append(out, asked{t.ThreadID, c.ToolCallID, cmp.Or(c.ArgsSequence, c.StartSequence)})
			}
		}
	}
	return out
}

// childOf returns the child that a tool call spawned, or nil.
func childOf(s *state.Session, toolCallID string) *state.Subagent {
	for _, list := range [...][]*state.Subagent{s.Subagents.Open, s.Subagents.Recent} {
		for _, a := range list {
			if a.ToolCallID == toolCallID {
				return a
			}
		}
	}
	return nil
}

// startSpawns carries out pending calls of spawn_agent.
func (w *Work) startSpawns(ctx context.Context, sessionID string) error {
	var calls []asked
	if err := w.m.View(ctx, sessionID, func(s *state.Session) error {
		calls = unspawned(s)
		return nil
	}); err != nil {
		return ignoreMissing(err)
	}
	for _, c := range calls {
		args, err := w.spawnArgs(ctx, sessionID, c)
		if err != nil {
			return err
		}
		if err := w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error {
			if !slices.Contains(unspawned(tx.State), c) {
				return nil // it was taken up, or its turn ended
			}
			return w.spawnForCall(tx, c, args)
		}); err != nil {
			return fmt.Errorf("work: spawn_agent %s: %w", c.toolCallID, err)
		}
	}
	return nil
}

// spawnInput is what a model gives spawn_agent.
type spawnInput struct {
	Role  string `json:"role"`
	Input string `json:"input"`
	Wait  *bool  `json:"wait"`
	Peer  string `json:"peer"`
}

// spawnArgs reads the arguments of a call from its fact.
func (w *Work) spawnArgs(ctx context.Context, sessionID string, c asked) (*spawnInput, error) {
	e, err := w.readFact(ctx, sessionID, c.sequence)
	if err != nil {
		return nil, err
	}
	var args event.Raw
	var ref string
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		args, ref = p.SafeArgs, p.InputRef
	case *event.ToolArgs:
		args, ref = p.SafeArgs, p.InputRef
	default:
		return nil, fmt.Errorf("work: fact %d has no arguments of a tool call", c.sequence)
	}
	if len(args) == 0 && ref != "" {
		if args, err = w.readBlob(ctx, ref); err != nil {
			return nil, err
		}
	}
	in := &spawnInput{}
	if err := json.Unmarshal(args, in); err != nil {
		return nil, fmt.Errorf("work: arguments of %s: %w", c.toolCallID, err)
	}
	return in, nil
}

// readFact reads one fact of a session.
func (w *Work) readFact(ctx context.Context, sessionID string, sequence uint64) (*event.Event, error) {
	records, _, err := w.m.Events(ctx, command.Local(), sessionID, sequence-1, 1)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("work: session %s has no fact %d", sessionID, sequence)
	}
	return event.DecodeWhole(records[0].Data, func(ref string) ([]byte, error) { return w.readBlob(ctx, ref) })
}

// readBlob reads what is behind a reference.
func (w *Work) readBlob(ctx context.Context, ref string) ([]byte, error) {
	b, _, err := w.m.Output(ctx, command.Local(), ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }() // it was only read
	return io.ReadAll(b)
}

// spawnForCall spawns the child of a call, or fails the call. A call that doesn't
// wait ends at once.
func (w *Work) spawnForCall(tx *session.Tx, c asked, in *spawnInput) error {
	t := tx.State.Thread(c.threadID)
	text, err := json.Marshal([]command.Part{{Type: "text", Text: in.Input}})
	if err != nil {
		return fmt.Errorf("work: input of a child: %w", err)
	}
	b := &birth{
		parentThread: c.threadID, parentTurn: t.Active.TurnID, toolCall: c.toolCallID, role: in.Role, input: text,
		by: &event.Actor{Kind: "agent", ID: agentName(t)},
	}
	var res *command.SpawnSubagentResult
	if err = w.spawnsPeer(b, in.Peer); err == nil {
		res, err = w.spawnChild(tx, b)
	}
	if err != nil {
		refused, scope := spawnRefusal(err), callScope(tx.State, c.threadID, c.toolCallID)
		refused.Links = linksOfCall(tx.State, scope)
		tx.Emit(event.Event{Type: event.TypeToolFailed, Scope: *scope, Payload: refused})
		return nil
	}
	if in.Wait != nil && !*in.Wait {
		structured, _ := json.Marshal(map[string]string{"subagentId": res.SubagentID, "threadId": res.ThreadID, "status": childRunning}) //nolint:errchkjson // strings always encode
		scope := callScope(tx.State, c.threadID, c.toolCallID)
		tx.Emit(event.Event{Type: event.TypeToolResult, Scope: *scope, Payload: &event.ToolResult{
			ToolName: spawnAgent, Status: "background", StructuredContent: structured, Links: linksOfCall(tx.State, scope),
			Preview: fmt.Sprintf("Agent %s works in the background. Its answer will not come here by itself.", res.SubagentID),
		}})
	}
	return nil
}

// agentName names the agent of a thread as an actor.
func agentName(t *state.Thread) string {
	if t.SubagentID != "" {
		return t.SubagentID
	}
	return t.ThreadID
}

// spawnRefusal says to a model why there is no child.
func spawnRefusal(err error) *event.ToolFailed {
	out := &event.ToolFailed{ToolName: spawnAgent, ErrorCategory: "execution", Message: err.Error()}
	switch fault.KindOf(err) { //nolint:exhaustive // the rest is a failure of the runtime
	case fault.PolicyRejected:
		out.ErrorCategory, out.Advice = "denied", "Do the work yourself, or wait until another agent has ended."
	case fault.InvalidParams:
		out.ErrorCategory = "invalid_input"
	}
	return out
}

// callScope is the scope of a running tool call; nil if it doesn't run any more.
func callScope(s *state.Session, threadID, toolCallID string) *event.Scope {
	t := s.Thread(threadID)
	if t == nil || t.Active == nil {
		return nil
	}
	for _, c := range t.Active.Tools {
		if c.ToolCallID != toolCallID || c.Status != state.ToolRunning {
			continue
		}
		step := c.StepID
		if step == "" {
			step = event.NotApplicable
		}
		return &event.Scope{
			ThreadID: t.ThreadID, TurnID: t.Active.TurnID, TaskID: t.Active.TaskID, RunID: t.Active.RunID,
			StepID: step, ToolCallID: toolCallID, SubagentID: t.SubagentID,
		}
	}
	return nil
}

// linksOfCall are the facts that the call of a scope rests on.
func linksOfCall(s *state.Session, call *event.Scope) *event.ToolLinks {
	t := s.Thread(call.ThreadID)
	if t == nil || t.Active == nil {
		return nil
	}
	for _, c := range t.Active.Tools {
		if c.ToolCallID == call.ToolCallID {
			return c.LinksOf()
		}
	}
	return nil
}

// stopChildren passes the end of a parent's turn on to the children at work.
func (w *Work) stopChildren(ctx context.Context, sessionID string, threads []string) error {
	if len(threads) == 0 {
		return nil
	}
	err := w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error {
		for _, a := range tx.State.Subagents.Open {
			if a.PeerTaskID != "" && slices.Contains(threads, a.ParentThreadID) && parentStops(tx.State, a) {
				stopPeerChild(tx, a, byRuntime(), "the parent's turn was stopped")
			}
			t := tx.State.Thread(a.ThreadID)
			if t != nil && t.Active != nil && slices.Contains(threads, a.ParentThreadID) && parentStops(tx.State, a) {
				tx.Interrupt(byRuntime(), t, "the parent's turn was stopped", true)
			}
		}
		return nil
	})
	return ignoreMissing(err)
}

// parentStops reports whether a child's parent was told to stop, or ended without
// success the turn that the child was spawned in.
func parentStops(s *state.Session, a *state.Subagent) bool {
	parent := s.Thread(a.ParentThreadID)
	if parent == nil {
		return false
	}
	if parent.Active != nil {
		return parent.Active.Interrupt != nil
	}
	if len(parent.Recent) == 0 {
		return false
	}
	last := parent.Recent[len(parent.Recent)-1]
	if last.Status == state.TurnCancelled {
		return last.EndSequence > a.SpawnedSequence
	}
	return last.Status == state.TurnFailed && last.TurnID == a.ParentTurnID
}
