package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// Kinds of edges that the scheduler acts on.
const (
	edgeParent    = "parent"
	edgeChild     = "child"
	edgeBlocks    = "blocks"
	edgeBlockedBy = "blocked_by"
)

// Statuses of edges.
const (
	edgeActive    = "active"
	edgeSatisfied = "satisfied"
	edgeFailed    = "failed"
	edgeRemoved   = "removed"
)

// inverse is the kind of an edge seen from its other end; "" where the other end
// isn't a task that keeps it.
func inverse(kind string) string {
	switch kind {
	case edgeParent:
		return edgeChild
	case edgeChild:
		return edgeParent
	case edgeBlocks:
		return edgeBlockedBy
	case edgeBlockedBy:
		return edgeBlocks
	}
	return ""
}

// openDependencies are the tasks that must be completed before this one starts.
func openDependencies(t *state.Task) []string {
	var out []string
	for _, r := range t.Relationships {
		if r.Kind == edgeBlockedBy && r.Status != edgeSatisfied {
			out = append(out, r.TargetID)
		}
	}
	return out
}

// settleEdges brings a task's edges up to date with what became of their other
// ends, and of the task itself.
func settleEdges(e *edit, o outlook) {
	for _, r := range slices.Clone(e.t.Relationships) {
		var want string
		switch r.Kind {
		case edgeBlockedBy:
			want = dependencyStatus(e.tx.State, r.TargetID, o)
		case edgeBlocks:
			want = edgeStatus(&e.t)
		}
		if want == "" || want == r.Status || r.Status == edgeSatisfied {
			continue
		}
		e.edge("updated", r.Kind, r.TargetID, want, r.Reason)
	}
}

// dependencyStatus is what an edge to a task says; "" if nothing is known of it.
func dependencyStatus(st *state.Session, taskID string, o outlook) string {
	if t := st.Tasks.Find(taskID); t != nil {
		return edgeStatus(t)
	}
	return o.standings[taskID]
}

// edgeStatus is what a task's status makes of the edges to those that wait for it.
func edgeStatus(t *state.Task) string {
	switch {
	case t.Status == state.TaskCompleted, t.Status == state.TaskArchived && t.NativeStatus == state.TaskCompleted:
		return edgeSatisfied
	case t.Terminal():
		return edgeFailed
	}
	return edgeActive
}

// edge emits a change of one edge and follows it in the edit's copy.
func (e *edit) edge(change, kind, target, status, reason string) {
	e.emitFact(event.TypeTaskDependencyUpdated, &event.TaskDependencyUpdated{Change: change, Kind: kind, TargetID: target, Status: status, Reason: reason})
	out := slices.Clone(e.t.Relationships)
	i := slices.IndexFunc(out, func(r state.Relationship) bool { return r.Kind == kind && r.TargetID == target })
	switch {
	case change == "removed" && i >= 0:
		out = slices.Delete(out, i, i+1)
	case i >= 0:
		out[i].Status, out[i].Reason = status, reason
	default:
		out = append(out, state.Relationship{Kind: kind, TargetID: target, Status: status, Reason: reason, CreatedAt: e.tx.Now(), UpdatedAt: e.tx.Now()})
	}
	e.t.Relationships = out
}

func hasEdge(t *state.Task, kind, target string) bool {
	return slices.ContainsFunc(t.Relationships, func(r state.Relationship) bool { return r.Kind == kind && r.TargetID == target })
}

// neighbours are the tasks at the other end of a task's edges of one kind.
func neighbours(t *state.Task, kind string) []string {
	var out []string
	for _, r := range t.Relationships {
		if r.Kind == kind && r.Status != edgeRemoved {
			out = append(out, r.TargetID)
		}
	}
	return out
}

// childrenActive reports whether work goes on below the task. Settled are those
// that the decision under way ends.
func (e *edit) childrenActive(settled map[string]bool) bool {
	if e.t.Cancel != nil && !e.t.Cancel.Propagate {
		return false
	}
	return slices.ContainsFunc(children(e.tx.State, e.t.TaskID), func(c *state.Task) bool { return !settled[c.TaskID] })
}

// children are the tasks under one that aren't over. They are found by their own
// word: a task keeps only so many edges. The tasks of turns follow their turns, and are
// stopped with what their turns work for.
func children(st *state.Session, taskID string) []*state.Task {
	var out []*state.Task
	for _, t := range st.Tasks.Open {
		if t.ParentTaskID == taskID && t.TaskKind != state.TaskKindTurn {
			out = append(out, t)
		}
	}
	return out
}

// above returns the nearest task above one that fulfils a condition, or nil.
func above(st *state.Session, t *state.Task, is func(*state.Task) bool) *state.Task {
	for p := range st.Tasks.From(t.ParentTaskID) {
		if is(p) {
			return p
		}
	}
	return nil
}

// cancelledAbove returns the nearest ancestor that is to be stopped, or nil.
func cancelledAbove(st *state.Session, t *state.Task) *state.Task {
	return above(st, t, func(p *state.Task) bool { return p.Cancel != nil })
}

// maxDepth bounds how deep tasks are nested.
const maxDepth = 64

// linkTasks writes an edge at its near end and, where the other end is a task that keeps it too,
// there. What another node has to write is left to linkedTasks, which a repeated call reaches too.
func (w *Work) linkTasks(ctx context.Context, caller command.Caller, p *command.LinkTasks) (*command.RelationshipsResult, error) {
	w.graph.Lock()
	defer w.graph.Unlock()
	if err := w.checkLink(ctx, caller, p); err != nil {
		return nil, err
	}
	return w.changeEdge(ctx, caller, p, added(p))
}

func (w *Work) linkedTasks(ctx context.Context, _ command.Caller, p *command.LinkTasks, res *command.RelationshipsResult) (*command.RelationshipsResult, error) {
	return res, w.changeFarEnds(ctx, p.TaskID, []edgeChange{added(p)})
}

func added(p *command.LinkTasks) edgeChange {
	return edgeChange{taskID: p.TaskID, kind: p.Kind, target: p.TargetID, reason: p.Reason, change: "added", status: edgeActive}
}

func (w *Work) unlinkTasks(ctx context.Context, caller command.Caller, p *command.UnlinkTasks) (*command.RelationshipsResult, error) {
	w.graph.Lock()
	defer w.graph.Unlock()
	near, err := w.findVisibleTask(ctx, caller, p.TaskID)
	if err != nil {
		return nil, err
	}
	if !hasEdge(near.task, p.Kind, p.TargetID) { // the other end may be left of an earlier call
		far, err := w.findVisibleTask(ctx, caller, p.TargetID)
		if err != nil || !hasEdge(far.task, inverse(p.Kind), p.TaskID) {
			return nil, fault.New(fault.NotFound, "task %s has no edge %s to %s", p.TaskID, p.Kind, p.TargetID)
		}
	}
	return w.changeEdge(ctx, caller, p, removed(p))
}

func (w *Work) unlinkedTasks(ctx context.Context, _ command.Caller, p *command.UnlinkTasks, res *command.RelationshipsResult) (*command.RelationshipsResult, error) {
	return res, w.changeFarEnds(ctx, p.TaskID, []edgeChange{removed(p)})
}

func removed(p *command.UnlinkTasks) edgeChange {
	return edgeChange{taskID: p.TaskID, kind: p.Kind, target: p.TargetID, reason: p.Reason, change: "removed", status: edgeRemoved}
}

// edgeChange is a change of one edge.
type edgeChange struct{ taskID, kind, target, reason, change, status string }

// dependency is the edge from a task to one that it waits for.
func dependency(taskID, on string) edgeChange {
	return edgeChange{taskID: taskID, kind: edgeBlockedBy, target: on, change: "added", status: edgeActive}
}

// changeEdge writes an edge at its near end and, unless that is another node's, at the other one:
// in the same write if it is in the same session. The lock of the graph is held, because whether
// there is a cycle depends on all edges.
func (w *Work) changeEdge(ctx context.Context, caller command.Caller, p command.Params, c edgeChange) (*command.RelationshipsResult, error) {
	found, err := w.findVisibleTask(ctx, caller, c.taskID)
	if err != nil {
		return nil, err
	}
	res, err := session.Write(ctx, w.m, caller, p, found.sessionID, event.ByWork, func(tx *session.Tx) (*command.RelationshipsResult, error) {
		e, err := found.edit(tx, session.ActorOf(caller))
		if err != nil {
			return nil, err
		}
		if hasEdge(&e.t, c.kind, c.target) != (c.change == "added") {
			e.edge(c.change, c.kind, c.target, c.status, c.reason)
		}
		if inv := inverse(c.kind); inv != "" {
			if t := tx.State.Tasks.Find(c.target); t != nil {
				w.changeFarEnd(newEdit(tx, t, e.by), c, inv)
			}
		}
		if err := w.afterEdge(e, c); err != nil {
			return nil, err
		}
		return &command.RelationshipsResult{Relationships: relationships(&e.t)}, nil
	})
	if err != nil {
		return nil, err
	}
	if err := w.changeFarSession(ctx, c); err != nil && !session.OwnedElsewhere(err) {
		return nil, err
	}
	return res, nil
}

// afterEdge holds a task that waits in line and got something to wait for.
func (w *Work) afterEdge(e *edit, c edgeChange) error {
	if c.kind != edgeBlockedBy || c.change != "added" || e.t.Status != state.TaskQueued && e.t.Status != state.TaskRetrying {
		return nil
	}
	_, err := w.beginAttempt(e, false)
	return err
}

func (w *Work) changeFarEnd(e *edit, c edgeChange, kind string) {
	if hasEdge(&e.t, kind, c.taskID) != (c.change == "added") {
		e.edge(c.change, kind, c.taskID, c.status, c.reason)
	}
	if err := w.afterEdge(e, edgeChange{kind: kind, change: c.change}); err != nil {
		w.opt.Logger.Error("a task could not be held", "taskId", e.t.TaskID, "error", err)
	}
}

// changeFarSession writes the other end of an edge in another session, if it isn't there. If the
// process stops before, the near end is there, and recovery writes this one. A session that was
// deleted has no end to write.
func (w *Work) changeFarSession(ctx context.Context, c edgeChange) error {
	kind := inverse(c.kind)
	if kind == "" {
		return nil
	}
	far, err := w.findVisibleTask(ctx, localCaller(), c.target)
	if err != nil {
		return ignoreGone(err)
	}
	if hasEdge(far.task, kind, c.taskID) == (c.change == "added") || far.record != nil || far.task.Status == state.TaskArchived {
		return nil
	}
	return ignoreGone(w.m.Emit(ctx, far.sessionID, event.ByWork, func(tx *session.Tx) error {
		if t := tx.State.Tasks.Find(c.target); t != nil {
			w.changeFarEnd(newEdit(tx, t, runtimeActor()), c, kind)
		}
		return nil
	}))
}

// changeElsewhere is changeFarSession on whichever node owns that session, if a caller's token is
// at hand. The lock of the graph must not be held: that node may wait for this one.
func (w *Work) changeElsewhere(ctx context.Context, c edgeChange) error {
	err := w.changeFarSession(ctx, c)
	if !session.OwnedElsewhere(err) {
		return err
	}
	var there command.Params = &command.LinkTasks{TaskID: c.target, Kind: inverse(c.kind), TargetID: c.taskID, Reason: c.reason}
	if c.change != "added" {
		there = &command.UnlinkTasks{TaskID: c.target, Kind: inverse(c.kind), TargetID: c.taskID, Reason: c.reason}
	}
	return command.Forward(ctx, there, err, &command.RelationshipsResult{})
}

// changeFarEnds writes the other ends of a task's edges whose near ends are durable, and were not
// changed again since: a call may be repeated late.
func (w *Work) changeFarEnds(ctx context.Context, taskID string, changes []edgeChange) error {
	if len(changes) == 0 {
		return nil
	}
	near, err := w.findVisibleTask(ctx, localCaller(), taskID)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range changes {
		if hasEdge(near.task, c.kind, c.target) != (c.change == "added") {
			continue
		}
		if err := w.changeElsewhere(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", c.target, err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "edges of task %s are not written at their other ends: %v; repeat the call", taskID, errors.Join(errs...))
}

func relationships(t *state.Task) []command.Relationship {
	out := make([]command.Relationship, 0, len(t.Relationships))
	for _, r := range t.Relationships {
		out = append(out, command.Relationship{
			Kind: r.Kind, TargetID: r.TargetID, Status: r.Status, Reason: r.Reason, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		})
	}
	return out
}

// checkLink refuses an edge that can't be meant: to something that isn't there,
// from a task that has ended, or one that closes a circle.
func (w *Work) checkLink(ctx context.Context, caller command.Caller, p *command.LinkTasks) error {
	near, err := w.findVisibleTask(ctx, caller, p.TaskID)
	if err != nil {
		return err
	}
	if near.task.Status == state.TaskArchived {
		return conflict(near.task, "it accepts no more edges")
	}
	switch p.Kind {
	case edgeParent, edgeChild, edgeBlocks, edgeBlockedBy, "source_task":
		far, err := w.findVisibleTask(ctx, caller, p.TargetID)
		if err != nil {
			return err
		}
		return w.checkTaskLink(ctx, p.Kind, near, far)
	case "assigned_thread", "spawned_subagent":
		return w.m.ViewAs(ctx, caller, near.sessionID, func(st *state.Session) error {
			if (p.Kind == "assigned_thread" && st.Thread(p.TargetID) == nil) || (p.Kind == "spawned_subagent" && st.Subagents.Find(p.TargetID) == nil) {
				return fault.New(fault.NotFound, "there is no %s %s in session %s", p.Kind[strings.IndexByte(p.Kind, '_')+1:], p.TargetID, near.sessionID)
			}
			return nil
		})
	}
	return nil
}

// checkTaskLink checks an edge between two tasks.
func (w *Work) checkTaskLink(ctx context.Context, kind string, near, far *found) error {
	switch kind {
	case edgeChild:
		return w.checkTaskLink(ctx, edgeParent, far, near)
	case edgeBlocks:
		return w.checkTaskLink(ctx, edgeBlockedBy, far, near)
	case edgeParent:
		return w.checkParent(ctx, near, far)
	case edgeBlockedBy:
		return w.checkDependency(ctx, near, far)
	}
	return nil
}

func (w *Work) checkParent(ctx context.Context, child, parent *found) error {
	switch {
	case child.sessionID != parent.sessionID:
		return fault.New(fault.Conflict, "task %s is in session %s, task %s in session %s: a task must be in its parent's session", child.task.TaskID, child.sessionID, parent.task.TaskID, parent.sessionID)
	case child.task.ParentTaskID != "" && child.task.ParentTaskID != parent.task.TaskID:
		return conflict(child.task, "it is already a subtask of task %s", child.task.ParentTaskID)
	case parent.task.Cancel != nil:
		return conflict(parent.task, "it accepts no new subtasks")
	}
	if err := w.m.View(ctx, parent.sessionID, func(st *state.Session) error {
		if p := cancelledAbove(st, parent.task); p != nil {
			return conflict(p, "it accepts no new work")
		}
		return nil
	}); err != nil {
		return err
	}
	return w.checkAcyclic(ctx, parent.task, child.task.TaskID, edgeParent)
}

func (w *Work) checkDependency(ctx context.Context, task, on *found) error {
	if slices.Contains(neighbours(task.task, edgeBlockedBy), on.task.TaskID) {
		return nil
	}
	switch {
	case task.task.Terminal():
		return conflict(task.task, "it can no longer wait for another task")
	case underWay(task.task) != nil:
		return conflict(task.task, "it can't depend on task %s", on.task.TaskID)
	}
	return w.checkAcyclic(ctx, on.task, task.task.TaskID, edgeBlockedBy)
}

// checkAcyclic refuses an edge that would let one come back to a task by edges of a kind.
func (w *Work) checkAcyclic(ctx context.Context, from *state.Task, to, kind string) error {
	seen, queue := map[string]bool{from.TaskID: true}, []*state.Task{from}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		if t.TaskID == to {
			return fault.New(fault.Conflict, "task %s already depends on task %s: edge %s would create a cycle", from.TaskID, to, kind)
		}
		for _, id := range neighbours(t, kind) {
			if seen[id] {
				continue
			}
			seen[id] = true
			next, err := w.findVisibleTask(ctx, localCaller(), id)
			if fault.KindOf(err) == fault.NotFound && err != nil {
				continue
			}
			if err != nil {
				return err
			}
			queue = append(queue, next.task)
		}
	}
	return nil
}

// taskStandings returns what edges to tasks say that are not in the session's working
// set, for the tasks that are to be looked at.
func (w *Work) taskStandings(ctx context.Context, sessionID string, ids []string) (map[string]string, error) {
	var missing []string
	err := w.m.View(ctx, sessionID, func(st *state.Session) error {
		for _, id := range ids {
			t := st.Tasks.Find(id)
			if t == nil {
				continue
			}
			for _, on := range openDependencies(t) {
				if st.Tasks.Find(on) == nil {
					missing = append(missing, on)
				}
			}
		}
		return nil
	})
	out := map[string]string{}
	slices.Sort(missing)
	for _, id := range slices.Compact(missing) {
		f, err := w.findVisibleTask(ctx, localCaller(), id)
		switch {
		case err == nil:
			out[id] = edgeStatus(f.task)
		case fault.KindOf(err) == fault.NotFound:
		case session.Passing(err):
			return nil, err
		default: // one that can't be read holds up those who wait for it, and no others
			w.opt.Logger.Error("a task that others depend on can't be read", "taskId", id, "error", err)
		}
	}
	return out, err
}
