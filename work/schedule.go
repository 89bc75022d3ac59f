package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

const (
	// lookers is how many sessions are looked at side by side: their facts share
	// the journal's commits.
	lookers = 16
	// lookAt bounds the tasks that one decision looks at.
	lookAt = 500
	// tryAgain is how long to wait when the store didn't take a fact.
	tryAgain = time.Second
	// A task looks again at those that it depends on in other sessions: what becomes of them on
	// other nodes is not told here. First it does so after soonElsewhere, and the longer it waits
	// the rarer, up to lateElsewhere.
	soonElsewhere = 2 * time.Second
	lateElsewhere = time.Minute
)

// runScheduler looks at what is due and starts what there is room for, until the
// scheduler is closed.
func (w *Work) runScheduler() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, next := w.timers.due(w.m.Now())
		for _, d := range due {
			w.book.mark(d.sessionID, d.taskID)
		}
		work := w.book.nextTasks(lookAt)
		w.lookAtAll(work)
		w.dispatchTasks()
		if len(due) > 0 || len(work) > 0 {
			if w.ctx.Err() != nil {
				return
			}
			continue
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(0, next.Sub(w.m.Now()))
		}
		timer.Reset(wait)
		select {
		case <-w.ctx.Done():
			return
		case <-w.book.woken:
		case <-timer.C:
		}
	}
}

// lookAtAll looks at tasks, several sessions side by side.
func (w *Work) lookAtAll(work map[string]map[string]bool) {
	if len(work) == 0 {
		return
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, lookers)
	for sessionID, set := range work {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			ids := make([]string, 0, len(set))
			for id := range set {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			if err := w.lookAtTasks(w.ctx, sessionID, ids); err != nil && w.ctx.Err() == nil && !session.LostSession(err, sessionID) {
				w.opt.Logger.Error("tasks could not be checked", "sessionId", sessionID, "error", err)
				for _, id := range ids {
					w.timers.set(sessionID, id, w.m.Now().Add(tryAgain))
				}
			}
		})
	}
	wg.Wait()
}

// lookAtTasks records what the facts of tasks demand.
func (w *Work) lookAtTasks(ctx context.Context, sessionID string, ids []string) error {
	for chunk := range slices.Chunk(ids, lookAt) {
		if err := w.scheduleTasks(ctx, sessionID, chunk); err != nil {
			return err
		}
	}
	return nil
}

// looked is a task after a look.
type looked struct {
	task  state.Task
	again time.Time
}

func (w *Work) scheduleTasks(ctx context.Context, sessionID string, ids []string) error {
	o := w.book.outlook(ids)
	var err error
	if o.standings, err = w.taskStandings(ctx, sessionID, ids); err != nil {
		return ignoreGone(err)
	}
	var seen []looked
	var account string
	err = w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error {
		seen, account = seen[:0], tx.State.Account
		for _, id := range ids {
			t := tx.State.Tasks.Find(id)
			if t == nil || t.TaskKind == state.TaskKindTurn {
				continue
			}
			e := newEdit(tx, t, runtimeActor())
			again, err := w.scheduleTask(e, o)
			if err != nil {
				w.opt.Logger.Error("a task can't continue", "taskId", id, "error", err)
			}
			seen = append(seen, looked{e.t, again})
		}
		return nil
	})
	if err != nil {
		return ignoreGone(err)
	}
	for i := range seen {
		w.followLook(place{seen[i].task.TaskID, sessionID, account}, &seen[i])
	}
	return nil
}

// ignoreGone passes over a session that doesn't exist.
func ignoreGone(err error) error {
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// followLook takes over, after a look, what follows outside the session.
func (w *Work) followLook(p place, l *looked) {
	t := &l.task
	w.slots.set(p, occupies(t))
	w.book.noteParted(p.sessionID, p.taskID, t.Status == state.TaskBlocked && t.NativeStatus == byParts)
	if t.Status == state.TaskQueued && underWay(t) == nil {
		w.slots.wait(p, t)
	}
	if t.WorkerKind == workerPeer && w.opt.Peers != nil {
		w.opt.Peers.Wake(p.sessionID, p.taskID)
	}
	if !l.again.IsZero() {
		w.timers.set(p.sessionID, p.taskID, l.again)
	}
	if t.Status == state.TaskCancelling && t.Cancel != nil && t.Cancel.Propagate && w.book.reach(p.taskID) {
		w.wg.Go(func() { w.endProcesses(p, t) })
	}
	if !t.Terminal() {
		return
	}
	w.book.forget(t)
	for _, id := range slices.Concat(neighbours(t, edgeBlocks), neighbours(t, edgeParent)) {
		w.book.markOpen(id)
	}
}

// occupies reports whether a task's attempt takes room of the runtime.
func occupies(t *state.Task) bool {
	switch t.Status {
	case state.TaskPreparing, state.TaskRunning, state.TaskCancelling:
		return !external(t) && underWay(t) != nil
	}
	return false
}

// dispatchTasks starts the tasks whose turn it is while there is room.
func (w *Work) dispatchTasks() {
	for w.ctx.Err() == nil {
		p, ok := w.slots.next()
		if !ok {
			return
		}
		w.wg.Go(func() { w.startQueued(p) })
	}
}

// startQueued starts a task that waited for room.
func (w *Work) startQueued(p place) {
	started := false
	err := w.m.Emit(w.ctx, p.sessionID, event.ByWork, func(tx *session.Tx) error {
		started = false
		t := tx.State.Tasks.Find(p.taskID)
		if t == nil || t.Status != state.TaskQueued || underWay(t) != nil {
			return nil
		}
		runID, err := w.beginAttempt(newEdit(tx, t, runtimeActor()), true)
		started = err == nil && runID != ""
		return err
	})
	w.slots.settle(p, started && err == nil)
	if err != nil && w.ctx.Err() == nil && !session.LostSession(err, p.sessionID) {
		w.opt.Logger.Error("a task could not be started", "taskId", p.taskID, "error", err)
		w.timers.set(p.sessionID, p.taskID, w.m.Now().Add(tryAgain))
	}
	if !started {
		w.book.wake() // the room is there for another
	}
}

// recoverTasks takes up the open tasks of a session after a restart.
func (w *Work) recoverTasks(ctx context.Context, sessionID string) error {
	var ids []string
	var links []edgeChange
	err := w.m.View(ctx, sessionID, func(st *state.Session) error {
		for _, t := range st.Tasks.Open {
			if t.TaskKind == state.TaskKindTurn {
				continue
			}
			ids = append(ids, t.TaskID)
			w.book.addTask(sessionID, t)
			for _, on := range openDependencies(t) {
				if st.Tasks.Find(on) == nil {
					links = append(links, dependency(t.TaskID, on))
				}
			}
		}
		for _, a := range st.Subagents.Open {
			w.book.addChild(a)
		}
		return nil
	})
	if err != nil {
		return ignoreGone(err)
	}
	for _, c := range links {
		err := w.changeFarSession(ctx, c)
		if err != nil && !w.m.IsShared() {
			return err
		}
		if err != nil { // it is a live node's, mostly; the task looks up by itself what it waits for
			w.opt.Logger.Info("an edge is written at one of its ends", "taskId", c.taskID, "targetId", c.target, "error", err)
		}
	}
	if w.isManualRecovery() {
		if err := w.holdTasks(ctx, sessionID, ids); err != nil {
			return err
		}
	}
	if err := w.lookAtTasks(ctx, sessionID, ids); err != nil {
		return err
	}
	w.book.wake()
	return nil
}

// holdTasks pauses what would go on by itself, before anything is looked at.
func (w *Work) holdTasks(ctx context.Context, sessionID string, ids []string) error {
	for chunk := range slices.Chunk(ids, lookAt) {
		o := w.book.outlook(chunk)
		var err error
		if o.standings, err = w.taskStandings(ctx, sessionID, chunk); err != nil {
			return ignoreGone(err)
		}
		if err := w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error {
			for _, id := range chunk {
				t := tx.State.Tasks.Find(id)
				if t == nil {
					continue
				}
				e := newEdit(tx, t, runtimeActor())
				settleEdges(e, o)
				if err := holdTask(e); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return ignoreGone(err)
		}
	}
	return nil
}

// runtimeActor is who facts name when the scheduler decided.
func runtimeActor() *event.Actor { return &event.Actor{Kind: "runtime"} }

// localCaller is the runtime itself as the caller of a command.
func localCaller() command.Caller {
	return command.Caller{Admin: true, Actor: *runtimeActor()}
}
