package work

import (
	"sync"
	"time"

	"agentd/event"
	"agentd/state"
)

// book is what the scheduler knows of the tasks that aren't over: enough to tell,
// for a fact, whether somebody has to look.
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
	// reached are the tasks whose cancellation was passed on.
	reached map[string]bool
}

func newBook() *book {
	return &book{
		woken: make(chan struct{}, 1), open: map[string]string{}, threads: map[string]string{}, seen: map[string]time.Time{},
		due: map[string]map[string]bool{}, reached: map[string]bool{},
	}
}

// note takes in facts that are durable. It is called by the journal and must be
// quick; the facts of turns without a task of their own cost a look into a map.
func (b *book) note(sessionID string, facts []event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := false
	for i := range facts {
		e := &facts[i]
		b.enter(sessionID, e)
		id := e.TaskID
		if id == "" && e.Type == event.TypeThreadUpdated {
			id = b.threads[e.ThreadID]
		}
		if id == "" || b.open[id] == "" {
			continue
		}
		b.seen[id] = e.Time
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
		if e.Type == event.TypeTaskRetrying {
			b.open[e.TaskID] = sessionID
			delete(b.reached, e.TaskID)
		}
	case *event.ThreadStarted:
		if p.Role == "task" {
			b.threads[e.ThreadID] = e.TaskID
		}
	}
}

// matters reports whether a fact of a task may give the scheduler something to do.
// Progress doesn't: that a worker was heard is found when its time is up.
func matters(t event.Type) bool {
	switch t { //nolint:exhaustive // the rest changes nothing that a decision depends on
	case event.TypeTaskCreated, event.TypeTaskAccepted, event.TypeTaskQueued, event.TypeTaskStarted, event.TypeTaskUpdated, event.TypeTaskBlocked,
		event.TypeTaskPaused, event.TypeTaskResumed, event.TypeTaskRetrying, event.TypeTaskWaiting, event.TypeTaskCancelRequested,
		event.TypeTaskCancelled, event.TypeTaskTimedOut, event.TypeTaskFailed, event.TypeTaskLost, event.TypeTaskCompleted,
		event.TypeTaskArchived, event.TypeTaskDependencyUpdated, event.TypeTaskAttemptCompleted, event.TypeTaskAttemptFailed,
		event.TypeTurnCompleted, event.TypeTurnFailed, event.TypeActionRequired, event.TypeActionResolved, event.TypeThreadUpdated,
		event.TypeCostRecorded:
		return true
	}
	return false
}

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
	ids := b.due[sessionID]
	if ids == nil {
		ids = map[string]bool{}
		b.due[sessionID] = ids
	}
	ids[taskID] = true
}

// take returns what is to be looked at and begins anew.
func (b *book) take() map[string]map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.due) == 0 {
		return nil
	}
	due := b.due
	b.due = map[string]map[string]bool{}
	return due
}

// outlook returns what decisions about these tasks need to know beside the state.
func (b *book) outlook(ids []string) outlook {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := outlook{up: b.up, seen: make(map[string]time.Time, len(ids))}
	for _, id := range ids {
		o.seen[id] = b.seen[id]
	}
	return o
}

// add enters a task found at a restart.
func (b *book) add(sessionID string, t *state.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[t.TaskID] = sessionID
	if t.ThreadID != "" {
		b.threads[t.ThreadID] = t.TaskID
	}
}

// forget drops a task that is over.
func (b *book) forget(t *state.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, t.TaskID)
	delete(b.seen, t.TaskID)
	delete(b.reached, t.TaskID)
	delete(b.threads, t.ThreadID)
	for _, a := range t.Attempts {
		delete(b.threads, a.ThreadID)
	}
}

// reach reports whether a task's cancellation has yet to be passed on, and notes
// that it is.
func (b *book) reach(taskID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reached[taskID] {
		return false
	}
	b.reached[taskID] = true
	return true
}
