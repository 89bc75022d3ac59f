package work

import (
	"maps"
	"sync"
	"time"

	"agentd/event"
	"agentd/state"
)

// book is what the scheduler knows of the tasks that aren't over: enough to tell,
// for a fact, whether the scheduler has to look.
type book struct {
	// up is when this process began to listen.
	up time.Time
	// woken tells the goroutine that looks.
	woken chan struct{}

	mu sync.Mutex
	// open has the session of each task that isn't over, without those of turns.
	open map[string]string
	// threads has the task of each thread that one is worked on in.
	threads map[string]string
	// seen is when the newest fact of a task's work happened.
	seen map[string]time.Time
	// due are the tasks to look at, by session.
	due map[string]map[string]bool
	// stopping are the tasks that are being cancelled, by session: what ends in the
	// session may be what they wait for.
	stopping map[string]map[string]bool
	// parted are the tasks whose work is done and that wait for their parts, by session: an
	// edge between any two tasks may make a part wait for such a task in turn.
	parted map[string]map[string]bool
	// reached are the tasks whose processes are being ended, unreachable the processes, by
	// task, that could not be.
	reached     map[string]bool
	unreachable map[string]map[string]bool
	// silent are the sessions that may be other nodes' now: those whose tasks were known when
	// this node asked which it has, and of which it heard nothing since.
	silent map[string]bool
}

func newBook() *book {
	return &book{
		woken: make(chan struct{}, 1), open: map[string]string{}, threads: map[string]string{}, seen: map[string]time.Time{},
		due: map[string]map[string]bool{}, reached: map[string]bool{}, unreachable: map[string]map[string]bool{},
		stopping: map[string]map[string]bool{}, parted: map[string]map[string]bool{},
	}
}

// recordFacts takes in facts that are durable. It is called by the journal and must be
// quick; the facts of turns without a task of their own cost a look into a map.
func (b *book) recordFacts(sessionID string, facts []event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.silent, sessionID)
	found := false
	for i := range facts {
		e := &facts[i]
		b.enter(sessionID, e)
		if len(b.parted[sessionID]) > 0 && addsDependency(e) {
			for id := range b.parted[sessionID] {
				b.markLocked(sessionID, id)
			}
			found = true
		}
		if len(b.stopping[sessionID]) > 0 && aboutHelp(e.Type) {
			for id := range b.stopping[sessionID] {
				b.markLocked(sessionID, id)
			}
			found = true
		}
		id := e.TaskID
		if b.open[id] == "" {
			id = b.threads[e.ThreadID]
		}
		if id == "" || b.open[id] == "" {
			continue
		}
		b.seen[id] = e.Time
		if endsPart(e.Type) && b.open[e.ParentTaskID] != "" {
			b.markLocked(sessionID, e.ParentTaskID) // it may wait for its parts
		}
		if matters(e.Type) {
			b.markLocked(sessionID, id)
			found = true
		}
	}
	if found {
		b.wake()
	}
}

// enter notes a task that isn't over.
func (b *book) enter(sessionID string, e *event.Event) {
	switch p := e.Payload.(type) {
	case *event.TaskCreated:
		if p.TaskKind != state.TaskKindTurn {
			b.open[e.TaskID] = sessionID
		}
	case *event.TaskStatusChanged:
		switch e.Type { //nolint:exhaustive // the others change nothing here
		case event.TypeTaskRetrying:
			b.open[e.TaskID] = sessionID
			b.stopped(sessionID, e.TaskID)
		case event.TypeTaskCancelRequested:
			b.stops(sessionID, e.TaskID)
		}
	case *event.ThreadStarted:
		if p.Role == "task" {
			b.threads[e.ThreadID] = e.TaskID
		}
	case *event.SubagentSpawned:
		// What a child does is a sign of life of the task that it works for.
		if id := orElse(b.threads[e.ThreadID], e.TaskID); b.open[id] != "" {
			b.threads[p.ChildThreadID] = id
		}
	}
}

// stops notes that a task is being cancelled.
func (b *book) stops(sessionID, taskID string) {
	if b.open[taskID] == "" {
		return // a turn's own
	}
	addOf(b.stopping, sessionID, taskID)
}

// stopped notes that a task is not being cancelled any more.
func (b *book) stopped(sessionID, taskID string) { removeOf(b.stopping, sessionID, taskID) }

// noteParted notes whether a task waits for its parts.
func (b *book) noteParted(sessionID, taskID string, waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if waits {
		addOf(b.parted, sessionID, taskID)
	} else {
		removeOf(b.parted, sessionID, taskID)
	}
}

// addOf adds something to what belongs to an owner: a task to those of its session.
func addOf(sets map[string]map[string]bool, owner, id string) {
	if sets[owner] == nil {
		sets[owner] = map[string]bool{}
	}
	sets[owner][id] = true
}

// removeOf takes something out of what belongs to an owner.
func removeOf(sets map[string]map[string]bool, owner, id string) {
	delete(sets[owner], id)
	if len(sets[owner]) == 0 {
		delete(sets, owner)
	}
}

// addsDependency reports whether a fact has a task wait for another one.
func addsDependency(e *event.Event) bool {
	p, ok := e.Payload.(*event.TaskDependencyUpdated)
	return ok && p.Change == "added" && (p.Kind == edgeBlockedBy || p.Kind == edgeBlocks)
}

// aboutHelp reports whether a fact may be about something that works for a task:
// one that is being cancelled waits for its end.
func aboutHelp(t event.Type) bool {
	switch t { //nolint:exhaustive // the rest begins and ends nothing
	case event.TypeTurnStarted, event.TypeTurnCompleted, event.TypeTurnFailed, event.TypeThreadUpdated, event.TypeSubagentSpawned,
		event.TypeSubagentCompleted, event.TypeSubagentFailed, event.TypeSubagentClosed, event.TypeJobStarted, event.TypeJobCompleted,
		event.TypeJobFailed, event.TypeJobCancelled, event.TypeProcessStarted, event.TypeProcessCompleted, event.TypeProcessFailed,
		event.TypeProcessTerminated, event.TypeQueueChanged:
		return true
	}
	return false
}

// matters reports whether a fact of a task may give the scheduler something to do.
// Progress doesn't: that a worker was heard is found when its time is up.
func matters(t event.Type) bool {
	if t.EndsTask() {
		return true
	}
	switch t { //nolint:exhaustive // the rest changes nothing that a decision depends on
	case event.TypeTaskCreated, event.TypeTaskAccepted, event.TypeTaskQueued, event.TypeTaskStarted, event.TypeTaskUpdated, event.TypeTaskBlocked,
		event.TypeTaskPaused, event.TypeTaskResumed, event.TypeTaskRetrying, event.TypeTaskWaiting, event.TypeTaskCancelRequested,
		event.TypeTaskArchived, event.TypeTaskDependencyUpdated, event.TypeTaskAttemptCompleted, event.TypeTaskAttemptFailed,
		event.TypeTurnCompleted, event.TypeTurnFailed, event.TypeActionRequired, event.TypeActionResolved, event.TypeThreadUpdated,
		event.TypeJobCompleted, event.TypeJobFailed, event.TypeJobCancelled:
		return true
	}
	return false
}

// endsPart reports whether a fact may end a part that another task waits for.
func endsPart(t event.Type) bool { return t.EndsTask() || t == event.TypeTaskArchived }

func (b *book) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// mark has a task looked at.
func (b *book) mark(sessionID, taskID string) {
	b.mu.Lock()
	b.markLocked(sessionID, taskID)
	b.mu.Unlock()
	b.wake()
}

// markOpen has a task looked at that isn't over. One that isn't known will be
// looked at when its session is recovered.
func (b *book) markOpen(taskID string) {
	b.mu.Lock()
	sessionID, ok := b.open[taskID]
	if ok {
		b.markLocked(sessionID, taskID)
	}
	b.mu.Unlock()
	if ok {
		b.wake()
	}
}

func (b *book) markLocked(sessionID, taskID string) {
	addOf(b.due, sessionID, taskID)
}

// nextTasks returns what is to be looked at, at most so many tasks of each session: the
// rest comes next, so that one with very many doesn't keep the others waiting.
func (b *book) nextTasks(most int) map[string]map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.due) == 0 {
		return nil
	}
	due, rest := b.due, map[string]map[string]bool{}
	for sessionID, ids := range due {
		if len(ids) <= most {
			continue
		}
		some := make(map[string]bool, most)
		for id := range ids {
			if len(some) == most {
				break
			}
			some[id] = true
			delete(ids, id)
		}
		due[sessionID], rest[sessionID] = some, ids
	}
	b.due = rest
	return due
}

// outlook returns what decisions about these tasks need to know beside the state.
func (b *book) outlook(ids []string) outlook {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := outlook{up: b.up, seen: make(map[string]time.Time, len(ids)), unreachable: map[string]bool{}}
	for _, id := range ids {
		o.seen[id] = b.seen[id]
		maps.Copy(o.unreachable, b.unreachable[id])
	}
	return o
}

// addTask enters a task found at a restart.
func (b *book) addTask(sessionID string, t *state.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.silent, sessionID)
	b.open[t.TaskID] = sessionID
	if t.ThreadID != "" {
		b.threads[t.ThreadID] = t.TaskID
	}
	if t.Status == state.TaskCancelling {
		b.stops(sessionID, t.TaskID)
	}
}

// addChild enters the thread of a subagent found at a restart.
func (b *book) addChild(a *state.Subagent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id := orElse(b.threads[a.ParentThreadID], a.TaskID); b.open[id] != "" {
		b.threads[a.ThreadID] = id
	}
}

// forget drops a task that is over.
func (b *book) forget(t *state.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped(b.open[t.TaskID], t.TaskID)
	delete(b.open, t.TaskID)
	delete(b.seen, t.TaskID)
	delete(b.unreachable, t.TaskID)
	delete(b.threads, t.ThreadID)
	for _, a := range t.Attempts {
		delete(b.threads, a.ThreadID)
	}
	if len(neighbours(t, "spawned_subagent")) > 0 {
		maps.DeleteFunc(b.threads, func(_, id string) bool { return id == t.TaskID })
	}
}

// passed notes that no goroutine ends a task's processes any more.
func (b *book) passed(taskID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reached, taskID)
}

// giveUp notes that a process of a task can't be ended.
func (b *book) giveUp(taskID, processID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	addOf(b.unreachable, taskID, processID)
}

// reach reports whether no goroutine ends a task's processes yet, and notes that
// one does.
func (b *book) reach(taskID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reached[taskID] {
		return false
	}
	b.reached[taskID] = true
	return true
}
