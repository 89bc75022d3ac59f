package work

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// factBytes is the largest text that a fact carries itself.
const factBytes = 4096

// Defaults of the limits of subagents.
const (
	defaultDepth = 4
	defaultWidth = 16
)

// noTools stands in a bound that leaves no tool: an empty one would leave all.
const noTools = "none"

// birth is a child that is to be.
type birth struct {
	id, parentThread, parentTurn, toolCall string
	role, nickname, model                  string
	input, metadata                        event.Raw
	// peer is the other agent that the child is, if it is one; objective what it is told.
	peer, objective string
	isolation       event.Isolation
	by              *event.Actor
}

func (w *Work) spawnSubagent(ctx context.Context, caller command.Caller, p *command.SpawnSubagent) (*command.SpawnSubagentResult, error) {
	b := &birth{
		id: p.SubagentID, parentThread: p.ThreadID, parentTurn: p.TurnID, role: p.Role, nickname: p.Nickname, model: p.Model,
		input: w.m.Redact(p.Input), metadata: w.m.Redact(p.Metadata), by: session.ActorOf(caller),
	}
	if p.Isolation != nil {
		b.isolation = *p.Isolation
	}
	if err := w.spawnsPeer(b, p.Peer); err != nil {
		return nil, err
	}
	if err := w.m.CheckTurn(&event.TurnOptions{Model: b.model, Tools: b.isolation.Tools}); err != nil {
		return nil, fault.Rename(fault.Rename(err, "options.model", "model"), "options.tools", "isolation.tools")
	}
	return session.Write(ctx, w.m, caller, p, p.SessionID, asWork, func(tx *session.Tx) (*command.SpawnSubagentResult, error) {
		return w.spawnChild(tx, b)
	})
}

// spawnChild decides on a child and emits its first facts, or refuses it.
func (w *Work) spawnChild(tx *session.Tx, b *birth) (*command.SpawnSubagentResult, error) {
	parent := tx.State.Thread(b.parentThread)
	if parent == nil {
		return nil, fault.New(fault.NotFound, "there is no open thread %s in session %s", b.parentThread, tx.State.SessionID)
	}
	turn := parent.Known(b.parentTurn)
	if b.parentTurn != "" && turn == nil {
		return nil, fault.New(fault.NotFound, "there is no turn %s in thread %s", b.parentTurn, b.parentThread)
	}
	if err := mayHelp(tx.State, parent); err != nil {
		return nil, err
	}
	above := tx.State.Subagents.Find(parent.SubagentID)
	spawned := &event.SubagentSpawned{
		ParentThreadID: b.parentThread, ParentTurnID: b.parentTurn, ParentSubagentID: parent.SubagentID,
		Role: b.role, Nickname: b.nickname, Model: b.model, SpawnedBy: b.by, Metadata: b.metadata, Peer: b.peer,
	}
	if err := w.isolateChild(tx, b, parent, above, spawned); err != nil {
		return nil, err
	}
	b.keepInput(tx, spawned)
	if b.id != "" {
		if first, err := repeatedSpawn(tx, b, spawned); first != nil || err != nil {
			return first, err
		}
	}
	if err := w.mayGrow(tx.State, parent, above, spawned); err != nil {
		return nil, err
	}
	return w.emitSpawn(tx, b, turn, spawned)
}

// mayHelp refuses a child in a thread that works for a task which is being
// cancelled.
func mayHelp(st *state.Session, parent *state.Thread) error {
	taskID := parent.TaskID
	for a := range st.Subagents.From(parent.SubagentID) {
		if taskID != "" {
			break
		}
		taskID = a.TaskID
		if t := st.Thread(a.ParentThreadID); t != nil && t.TaskID != "" {
			taskID = t.TaskID
		}
	}
	if t := st.Tasks.Find(taskID); t != nil && t.Status == state.TaskCancelling {
		return conflict(t, "it accepts no new work")
	}
	return nil
}

// keepInput puts the input into the fact, or behind a reference.
func (b *birth) keepInput(tx *session.Tx, spawned *event.SubagentSpawned) {
	if len(b.input) <= factBytes {
		spawned.Input = b.input
		return
	}
	spawned.InputRef = tx.Blob(b.input, "application/json")
}

// repeatedSpawn answers a child whose id exists already, or returns nil.
func repeatedSpawn(tx *session.Tx, b *birth, spawned *event.SubagentSpawned) (*command.SpawnSubagentResult, error) {
	exists, same, err := tx.Identity(session.KindSubagent, b.id, spawned)
	if err != nil || !exists {
		return nil, err
	}
	a := tx.State.Subagents.Find(b.id)
	if !same || a == nil {
		return nil, session.Taken("subagent %s already exists with different parameters; choose another id, or repeat the same parameters", b.id)
	}
	return &command.SpawnSubagentResult{SubagentID: b.id, ThreadID: a.ThreadID}, nil
}

// mayGrow refuses a child that is one generation or one sibling too many.
func (w *Work) mayGrow(s *state.Session, parent *state.Thread, above *state.Subagent, spawned *event.SubagentSpawned) error {
	spawned.Depth = 1
	if above != nil {
		spawned.Depth = above.Depth + 1
	}
	if limit := cmp.Or(w.opt.Limits.Depth, defaultDepth); spawned.Depth > int64(limit) {
		return fault.New(fault.PolicyRejected, "limits.depth: a child of thread %s would be at depth %d; the maximum is %d", parent.ThreadID, spawned.Depth, limit)
	}
	siblings := 0
	for _, a := range s.Subagents.Open {
		if a.ParentThreadID == parent.ThreadID {
			siblings++
		}
	}
	if limit := cmp.Or(w.opt.Limits.Width, defaultWidth); siblings >= limit {
		return fault.New(fault.PolicyRejected, "limits.width: thread %s has %d running children; the maximum is %d. Close one or wait for it", parent.ThreadID, siblings, limit)
	}
	return nil
}

// isolateChild bounds the child by what its parent may do.
func (w *Work) isolateChild(tx *session.Tx, b *birth, parent *state.Thread, above *state.Subagent, spawned *event.SubagentSpawned) error {
	iso := b.isolation
	if err := checkCwd(iso.Cwd); err != nil {
		return err
	}
	if iso.Cwd == "" {
		iso.Cwd = parent.Cwd
	}
	var err error
	if iso.Tools, err = childTools(tx.State, parent, above, iso.Tools); err != nil {
		return err
	}
	if w.opt.Narrow != nil {
		mode, ok := w.opt.Narrow(tx.State, parent, iso.PermissionMode)
		if !ok {
			return fault.New(fault.PolicyRejected, "isolation.permissionMode: %s allows more than the parent's %s", iso.PermissionMode, mode)
		}
		iso.PermissionMode = mode
	}
	if err := checkBudget(tx.State, above, iso.BudgetUSD); err != nil {
		return err
	}
	if spawned.Model == "" {
		spawned.Model = modelOf(parent)
	}
	spawned.Isolation = &iso
	return nil
}

// modelOf is the model that a thread is set to use; empty if none is.
func modelOf(t *state.Thread) string {
	if t.Active != nil && t.Active.Options != nil && t.Active.Options.Model != "" {
		if p := t.Active.Options.Provider; p != "" {
			return p + "/" + t.Active.Options.Model
		}
		return t.Active.Options.Model
	}
	return t.Model
}

// checkCwd refuses a folder outside of the workspace.
func checkCwd(cwd string) error {
	clean := path.Clean(cwd)
	if cwd != "" && (path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../")) {
		return fault.Param("isolation.cwd", "%q is not a folder in the workspace; use a path relative to the workspace", cwd)
	}
	return nil
}

// checkBudget refuses a share that the parent doesn't have.
func checkBudget(s *state.Session, above *state.Subagent, share float64) error {
	switch {
	case share < 0:
		return fault.Param("isolation.budgetUSD", "must not be negative")
	case share == 0 || above == nil || above.Isolation == nil || above.Isolation.BudgetUSD == 0:
		return nil
	}
	left := above.Isolation.BudgetUSD - above.CostUSD
	for _, a := range s.Subagents.Open {
		if a.ParentSubagentID == above.SubagentID && a.Isolation != nil {
			left -= max(0, a.Isolation.BudgetUSD-a.CostUSD)
		}
	}
	if share > left {
		return fault.New(fault.PolicyRejected, "isolation.budgetUSD: the parent has %.4f USD left, which is less than %.4f", max(0, left), share)
	}
	return nil
}

// childTools are the tools that a child may use: those that it asks for, all of
// which its parent must have, or else its parent's.
func childTools(s *state.Session, parent *state.Thread, above *state.Subagent, asked []string) ([]string, error) {
	var bound []string
	for _, b := range boundsOf(s, parent, above) {
		bound = narrowed(bound, b)
	}
	if len(asked) == 0 {
		return bound, nil
	}
	for _, name := range asked {
		if len(bound) > 0 && !covered(bound, name) {
			return nil, fault.New(fault.PolicyRejected, "isolation.tools: the parent doesn't have %s", name)
		}
	}
	return asked, nil
}

// boundsOf are the lists of tools that each bound what a thread may use now.
func boundsOf(s *state.Session, t *state.Thread, above *state.Subagent) [][]string {
	var out [][]string
	if above != nil && above.Isolation != nil {
		out = append(out, above.Isolation.Tools)
	}
	if t.Active == nil {
		return out
	}
	if t.Active.Options != nil {
		out = append(out, t.Active.Options.Tools)
	}
	if task := s.Tasks.Find(t.Active.TaskID); task != nil && task.Constraints != nil {
		out = append(out, task.Constraints.Tools)
	}
	return out
}

// narrowed is what two bounds both allow; an empty bound allows all.
func narrowed(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	var out []string
	for _, x := range a {
		if covered(b, x) {
			out = append(out, x)
		}
	}
	for _, x := range b {
		if covered(a, x) && !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		return []string{noTools}
	}
	return out
}

// covered reports whether all that a name or glob means is within a bound. Where
// that isn't plain to see the answer is no.
func covered(bound []string, name string) bool {
	return slices.ContainsFunc(bound, func(b string) bool {
		if b == name {
			return true
		}
		if !strings.ContainsAny(name, `*?[\`) {
			ok, err := path.Match(b, name)
			return err == nil && ok
		}
		prefix, isPrefix := strings.CutSuffix(b, "*")
		return isPrefix && !strings.ContainsAny(prefix, `*?[\`) && strings.HasPrefix(name, prefix)
	})
}

// emitSpawn emits the child, its thread, its place in the graph and its first turn.
func (w *Work) emitSpawn(tx *session.Tx, b *birth, turn *state.Turn, spawned *event.SubagentSpawned) (*command.SpawnSubagentResult, error) {
	if b.id == "" {
		b.id = tx.NewID(event.PrefixSubagent)
	}
	spawned.ChildThreadID = tx.NewID(event.PrefixThread)
	if b.peer != "" {
		spawned.PeerTaskID = tx.NewID(event.PrefixTask)
	}
	scope := event.Scope{ThreadID: b.parentThread, TurnID: b.parentTurn, ToolCallID: b.toolCall, SubagentID: b.id}
	if turn != nil {
		scope.TaskID, scope.RunID = turn.TaskID, turn.RunID
	}
	tx.Emit(event.Event{Type: event.TypeSubagentSpawned, Scope: scope, Payload: spawned})
	tx.Emit(event.Event{
		Type: event.TypeThreadStarted, Scope: event.Scope{ThreadID: spawned.ChildThreadID, SubagentID: b.id},
		Payload: &event.ThreadStarted{
			Role: "subagent", Title: cmp.Or(b.nickname, b.role), ParentThreadID: b.parentThread, ParentTurnID: b.parentTurn,
			Cwd: spawned.Isolation.Cwd, PermissionMode: spawned.Isolation.PermissionMode, Model: spawned.Model,
		},
	})
	if scope.TaskID != "" {
		tx.Emit(event.Event{Type: event.TypeTaskDelegated, Scope: event.Scope{TaskID: scope.TaskID, RunID: scope.RunID, SubagentID: b.id}, Payload: &event.TaskDelegated{
			To: "subagent", TargetID: b.id, Reason: b.role,
		}})
		tx.Emit(event.Event{Type: event.TypeTaskDependencyUpdated, Scope: event.Scope{TaskID: scope.TaskID, SubagentID: b.id}, Payload: &event.TaskDependencyUpdated{
			Change: "added", Kind: "spawned_subagent", TargetID: b.id, Status: "active",
		}})
	}
	if b.peer != "" {
		return &command.SpawnSubagentResult{SubagentID: b.id, ThreadID: spawned.ChildThreadID}, w.delegateChild(tx, b, spawned)
	}
	child := &state.Thread{ThreadID: spawned.ChildThreadID, SubagentID: b.id}
	if _, err := tx.Submit(b.by, child, "subagent", &command.SubmitTurn{Input: b.input}); err != nil {
		return nil, err
	}
	return &command.SpawnSubagentResult{SubagentID: b.id, ThreadID: spawned.ChildThreadID}, nil
}
