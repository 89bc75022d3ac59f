package work

import (
	"context"
	"slices"

	"agentd/command"
)

// moveTask gives a task the parent and the dependencies that an update names: edges
// that are missing are added, dependencies that are not named are taken away. All of
// them are checked before the first is written; if the process stops in between, the
// same command again writes the rest.
func (w *Work) moveTask(ctx context.Context, caller command.Caller, p *command.UpdateTask) error {
	changes, err := w.moveNearEnds(ctx, caller, p)
	if err != nil {
		return err
	}
	return w.changeFarEnds(ctx, p.TaskID, changes)
}

// moveNearEnds writes the edges, and returns those whose other ends may be missing: also of edges
// that were there, since an earlier update may have failed at them.
func (w *Work) moveNearEnds(ctx context.Context, caller command.Caller, p *command.UpdateTask) (all []edgeChange, err error) {
	w.graph.Lock()
	defer w.graph.Unlock()
	f, err := w.findVisibleTask(ctx, caller, p.TaskID)
	if err != nil {
		return nil, err
	}
	if err := notOfTurn(f.task); err != nil {
		return nil, err
	}
	if f.task.Terminal() {
		return nil, conflict(f.task, "it can no longer be moved in the graph")
	}
	add, remove := edgesOf(f, p)
	for _, l := range add {
		if err := w.checkMove(ctx, caller, l); err != nil {
			return nil, err
		}
	}
	for _, l := range remove {
		all = append(all, removed((*command.UnlinkTasks)(l)))
		if _, err := w.changeEdge(ctx, caller, l, all[len(all)-1]); err != nil {
			return nil, err
		}
	}
	for _, l := range add {
		if _, err := w.changeEdge(ctx, caller, l, added(l)); err != nil {
			return nil, err
		}
	}
	for _, on := range p.DependsOn {
		c := dependency(p.TaskID, on)
		c.reason = p.Reason
		all = append(all, c)
	}
	return all, nil
}

// edgesOf compares the edges that an update wants with those that are there. They
// are commands of their own, without the key of the update.
func edgesOf(f *found, p *command.UpdateTask) (add, remove []*command.LinkTasks) {
	edge := func(kind, target string) *command.LinkTasks {
		return &command.LinkTasks{TaskID: p.TaskID, Kind: kind, TargetID: target, Reason: p.Reason}
	}
	if p.ParentTaskID != "" && p.ParentTaskID != f.task.ParentTaskID {
		if f.task.ParentTaskID != "" {
			remove = append(remove, edge(edgeParent, f.task.ParentTaskID))
		}
		add = append(add, edge(edgeParent, p.ParentTaskID))
	}
	if p.DependsOn == nil {
		return add, remove
	}
	have := neighbours(f.task, edgeBlockedBy)
	for _, id := range slices.Compact(slices.Sorted(slices.Values(p.DependsOn))) {
		if !slices.Contains(have, id) {
			add = append(add, edge(edgeBlockedBy, id))
		}
	}
	for _, id := range have {
		if !slices.Contains(p.DependsOn, id) {
			remove = append(remove, edge(edgeBlockedBy, id))
		}
	}
	return add, remove
}

// checkMove refuses an edge that can't be meant. A parent that the task has is no
// hindrance: the update takes it away.
func (w *Work) checkMove(ctx context.Context, caller command.Caller, l *command.LinkTasks) error {
	near, err := w.findVisibleTask(ctx, caller, l.TaskID)
	if err != nil {
		return err
	}
	far, err := w.findVisibleTask(ctx, caller, l.TargetID)
	if err != nil {
		return err
	}
	if l.Kind == edgeParent {
		alone := *near.task
		alone.ParentTaskID = ""
		near.task = &alone
	}
	return w.checkTaskLink(ctx, l.Kind, near, far)
}
