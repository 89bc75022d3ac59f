package work

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// progressEvery is the least time between two counts of a job's items.
const progressEvery = time.Second

// jobRuns are the jobs that run on this node.
type jobRuns struct {
	mu   sync.Mutex
	byID map[string]*jobRun
	// running is how many there are.
	running atomic.Int64
}

// jobRun is the work on one job. All that it knows is in the facts; what it keeps
// is where it was in the items.
type jobRun struct {
	sessionID, jobID string
	woken            chan struct{}
	plan             *jobPlan
	items            *jobItems
	// counted is when the items were last counted in a fact, told what it said.
	counted time.Time
	told    event.JobCounts
}

// jobConcerns reports whether facts of a type may give a job something to do: one that
// begins, one that is worked on, or one that was cancelled while it wasn't.
func jobConcerns(t event.Type, running bool) bool {
	switch t { //nolint:exhaustive // the rest gives a job nothing to do
	case event.TypeJobStarted, event.TypeJobCancelled:
		return true
	case event.TypeTurnCompleted, event.TypeTurnFailed, event.TypeJobItemStarted, event.TypeJobItemCompleted, event.TypeJobItemFailed,
		event.TypeJobCompleted, event.TypeJobFailed, event.TypeThreadUpdated,
		event.TypeSubagentStatus, event.TypeSubagentCompleted, event.TypeSubagentFailed, event.TypeSubagentClosed,
		event.TypeProcessCompleted, event.TypeProcessFailed, event.TypeProcessTerminated:
		return running
	}
	return false
}

// lookAtJobs starts work on the jobs that started, or that left something
// behind, and wakes those who work on the session's jobs.
func (w *Work) lookAtJobs(_ context.Context, sessionID string, facts []event.Event) error {
	for i := range facts {
		if t := facts[i].Type; t == event.TypeJobStarted || t == event.TypeJobCancelled {
			w.runJob(sessionID, facts[i].JobID)
		}
	}
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	for _, r := range w.jobs.byID {
		if r.sessionID == sessionID {
			r.wake()
		}
	}
	return nil
}

// recoverJobs takes up the session's jobs after a restart, also those that ended
// and whose last turns have not.
func (w *Work) recoverJobs(ctx context.Context, sessionID string) error {
	if w.isManualRecovery() {
		if err := w.m.Emit(ctx, sessionID, asWork, func(tx *session.Tx) error { holdJobs(tx); return nil }); err != nil {
			return ignoreMissing(err)
		}
	}
	var ids []string
	if err := w.m.View(ctx, sessionID, func(s *state.Session) error {
		for _, j := range s.Jobs.Open {
			if j.Status == jobRunning {
				ids = append(ids, j.JobID)
			}
		}
		if left, _ := leftThreads(s); len(ids) == 0 && left > 0 && len(s.Jobs.Recent) > 0 {
			ids = append(ids, s.Jobs.Recent[len(s.Jobs.Recent)-1].JobID)
		}
		return nil
	}); err != nil {
		return ignoreMissing(err)
	}
	for _, id := range ids {
		w.runJob(sessionID, id)
	}
	return nil
}

func (r *jobRun) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// runJob has a goroutine work on a job, unless one does.
func (w *Work) runJob(sessionID, jobID string) {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	if r := w.jobs.byID[jobID]; r != nil {
		r.wake()
		return
	}
	if w.ctx.Err() != nil {
		return
	}
	if w.jobs.byID == nil {
		w.jobs.byID = map[string]*jobRun{}
	}
	r := &jobRun{sessionID: sessionID, jobID: jobID, woken: make(chan struct{}, 1)}
	w.jobs.byID[jobID] = r
	w.jobs.running.Add(1)
	w.wg.Go(func() { w.workOn(r) })
}

// drop forgets a job that no goroutine works on. The lock is held.
func (rs *jobRuns) drop(jobID string) {
	if rs.byID[jobID] != nil {
		delete(rs.byID, jobID)
		rs.running.Add(-1)
	}
}

// retryStep is how long the work on a job rests after an error of the store.
const retryStep = time.Second

// workOn works on a job until it ended and left nothing behind.
func (w *Work) workOn(r *jobRun) {
	defer r.release()
	for w.ctx.Err() == nil {
		again, done, err := w.stepJob(w.ctx, r)
		if session.LostSession(err, r.sessionID) {
			done, err = true, nil // the node that has the session works on it
		}
		if err != nil && w.ctx.Err() == nil {
			w.opt.Logger.Error("a job failed and will be tried again", "sessionId", r.sessionID, "jobId", r.jobID, "error", err)
			again, done = w.opt.Clock().Add(retryStep), false
		}
		if done && w.leaveJob(r) {
			return
		}
		r.waitUntil(w.ctx, again, w.opt.Clock())
	}
	w.jobs.mu.Lock()
	w.jobs.drop(r.jobID)
	w.jobs.mu.Unlock()
}

// leaveJob ends the work on a job unless it was woken in the meantime.
func (w *Work) leaveJob(r *jobRun) bool {
	w.jobs.mu.Lock()
	defer w.jobs.mu.Unlock()
	select {
	case <-r.woken:
		r.wake()
		return false
	default:
		w.jobs.drop(r.jobID)
		return true
	}
}

func (r *jobRun) release() {
	if r.items != nil {
		r.items.close()
	}
}

// waitUntil waits until the job is woken, or until a time.
func (r *jobRun) waitUntil(ctx context.Context, until, now time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(max(0, until.Sub(now)))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
	case <-r.woken:
	case <-due:
	}
}

// stepJob does what is due for a job. Again is when to look again if no fact comes
// before; done says that nothing is left.
func (w *Work) stepJob(ctx context.Context, r *jobRun) (again time.Time, done bool, err error) {
	var at jobOutlook
	if err := w.m.View(ctx, r.sessionID, func(s *state.Session) error {
		at = lookAtJob(s, r.jobID, w.opt.Clock(), w.book.up)
		return nil
	}); err != nil {
		return time.Time{}, false, err
	}
	if !at.running {
		done, err = w.sweepThreads(ctx, r)
		return time.Time{}, done, err
	}
	if at.over {
		return time.Time{}, false, w.finishJob(ctx, r, at)
	}
	if err := w.gatherOutputs(ctx, r, at.ended); err != nil {
		return time.Time{}, false, err
	}
	starts, err := w.gatherInputs(ctx, r, at.starts)
	if err != nil {
		return time.Time{}, false, err
	}
	if at.progress != r.told || len(at.ended)+len(starts) > 0 {
		// What changes now is counted later, also if nothing follows.
		at.again = earlier(at.again, latest(r.counted, w.opt.Clock()).Add(progressEvery))
	}
	err = w.m.Emit(ctx, r.sessionID, asWork, func(tx *session.Tx) error { return w.advanceJob(tx, r, at, starts) })
	return at.again, false, err
}

// gatherOutputs reads what the items that ended gave.
func (w *Work) gatherOutputs(ctx context.Context, r *jobRun, ended []jobEnd) error {
	for i := range ended {
		e := &ended[i]
		if e.turn.Status != state.TurnCompleted {
			continue
		}
		sequence := e.turn.AnswerSequence
		if e.structured {
			sequence = e.turn.EndSequence
		}
		if sequence == 0 {
			continue
		}
		fact, err := w.readFact(ctx, r.sessionID, sequence)
		if err != nil {
			return err
		}
		switch p := fact.Payload.(type) {
		case *event.TurnCompleted:
			e.output = p.StructuredOutput
		case *event.ModelCompleted:
			if e.text, err = w.answerText(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// gatherInputs reads the inputs of the items that are to start.
func (w *Work) gatherInputs(ctx context.Context, r *jobRun, starts []jobStart) ([]jobStart, error) {
	if len(starts) == 0 {
		return nil, nil
	}
	var err error
	if r.plan == nil {
		if r.plan, err = w.planOf(ctx, command.Local(), r.jobID); err != nil {
			return nil, err
		}
	}
	if r.items == nil {
		if r.items, err = w.openItems(ctx, r.plan.itemsRef); err != nil {
			return nil, err
		}
	}
	for i := range starts {
		line, err := r.items.item(starts[i].index)
		if err != nil {
			return nil, err
		}
		if line == nil {
			return starts[:i], nil
		}
		starts[i].itemID, starts[i].input = line.ItemID, line.Input
	}
	return starts, nil
}

// advanceJob records what ended and starts what is next, all that still holds of what
// was seen.
func (w *Work) advanceJob(tx *session.Tx, r *jobRun, at jobOutlook, starts []jobStart) error {
	j := tx.State.Jobs.Find(r.jobID)
	if j == nil || j.Status != jobRunning {
		return nil
	}
	if now := tx.Now(); now.Sub(r.counted) >= progressEvery && j.Progress != r.told {
		r.counted, r.told = now, j.Progress
		tx.Emit(event.Event{Type: event.TypeJobProgress, Scope: jobScope(j), Payload: &event.JobProgressed{Progress: j.Progress, Cursor: j.Cursor}})
	}
	if at.late {
		stopItems(tx, j, byRuntime(), event.Failure{Message: "the job's time limit has passed", Category: "timed_out"})
		return nil
	}
	for i := range at.ended {
		w.endItem(tx, j, &at.ended[i])
	}
	stopSilent(tx, r.jobID, at.silent, w.book.up)
	for _, s := range starts {
		if !startable(j, s) {
			continue
		}
		if err := r.plan.start(tx, j, s); err != nil {
			return err
		}
	}
	sweepThreads(tx)
	return nil
}

// stopSilent stops the turns of items that still show no progress: they fail as
// timed out, and the policy says whether another attempt follows.
func stopSilent(tx *session.Tx, jobID string, seen []string, up time.Time) {
	if len(seen) == 0 {
		return
	}
	now := lookAtJob(tx.State, jobID, tx.Now(), up)
	for _, id := range now.silent {
		item := tx.State.Jobs.Find(jobID).Item(id)
		turn := tx.State.Thread(item.ThreadID).Active
		tx.Emit(event.Event{
			Type:    event.TypeTurnInterruptRequested,
			Scope:   event.Scope{ThreadID: turn.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID},
			Payload: &event.TurnInterruptRequested{Reason: inactive, Queue: "keep", RequestedBy: byRuntime(), Cause: event.InterruptInactivity},
		})
	}
}

// startable reports whether an item waits for that attempt.
func startable(j *state.Job, s jobStart) bool {
	if s.attempt == 1 {
		return s.index >= j.Cursor
	}
	item := j.Item(s.itemID)
	return item != nil && item.Status == state.ItemPending && item.AttemptCount == s.attempt-1
}

// endItem records how an attempt at an item ended and puts its thread away.
func (w *Work) endItem(tx *session.Tx, j *state.Job, e *jobEnd) {
	item := j.Item(e.item.ItemID)
	if item == nil || item.Status != state.ItemRunning || item.ThreadID != e.item.ThreadID || item.AttemptCount != e.item.AttemptCount {
		return
	}
	if e.turn.Status == state.TurnCompleted {
		emitItemCompleted(tx, j, item, e)
	} else {
		why := event.Failure{Message: messageOf(e.turn.Error, "the turn ended without a result"), Category: e.turn.FailureCategory}
		again := itemRetries(j, item, why.Category)
		why.Retryable = again
		emitItemFailed(tx, j, item, why, again)
	}
	if !helped(tx.State, item.ThreadID) {
		archive(tx, item.ThreadID)
	}
}

// helped reports whether a child or a process still works for a thread. It
// stays in the working set until they end, so that a cancellation finds them.
func helped(s *state.Session, threadID string) bool {
	return slices.ContainsFunc(s.Environment.Active, func(p *state.Process) bool { return p.ThreadID == threadID }) ||
		slices.ContainsFunc(s.Subagents.Open, func(a *state.Subagent) bool {
			return a.ParentThreadID == threadID && (a.Status != childIdle && a.Status != childInterrupted || helped(s, a.ThreadID))
		})
}

// archive takes the thread of an item out of the working set.
func archive(tx *session.Tx, threadID string) {
	tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: threadID}, Payload: &event.ThreadUpdated{
		Status: "archived", Reason: "the work on the item ended",
	}})
}

// emitItemCompleted records the output of an item: always behind a reference, and
// in the fact if it is small.
func emitItemCompleted(tx *session.Tx, j *state.Job, item *state.JobItem, e *jobEnd) {
	done := &event.JobItemCompleted{
		Status: state.ItemCompleted, Index: item.Index, AttemptCount: item.AttemptCount, DurationMs: tx.Now().Sub(item.StartedAt).Milliseconds(),
	}
	inline := e.output
	if e.structured {
		done.OutputRef = tx.Blob(e.output, "application/json")
	} else {
		done.OutputRef = tx.Blob([]byte(e.text), "text/plain; charset=utf-8")
		inline, _ = json.Marshal(e.text) //nolint:errchkjson // a string always encodes
	}
	if len(inline) <= factBytes {
		done.Output = inline
	}
	tx.Emit(event.Event{Type: event.TypeJobItemCompleted, Scope: itemScope(j, item), Payload: done})
}

// sweepThreads puts away the threads of items that were stopped, once their turns
// ended; done says that none is left.
func (w *Work) sweepThreads(ctx context.Context, r *jobRun) (done bool, err error) {
	err = w.m.Emit(ctx, r.sessionID, asWork, func(tx *session.Tx) error {
		done = sweepThreads(tx)
		return nil
	})
	return done, err
}

// sweepThreads puts away the threads that items left and that nothing goes on in; done says
// that none is left.
func sweepThreads(tx *session.Tx) (done bool) {
	left, idle := leftThreads(tx.State)
	for _, id := range idle {
		archive(tx, id)
	}
	return left == len(idle)
}

// leftThreads finds the threads of items that no job works on any more: how many
// there are, and those whose turns ended and that nothing works for.
func leftThreads(s *state.Session) (left int, idle []string) {
	assigned := map[string]bool{}
	for _, j := range s.Jobs.Open {
		for _, item := range j.Running {
			assigned[item.ThreadID] = true
		}
	}
	for _, t := range s.Threads {
		if t.Role != "job_item" || assigned[t.ThreadID] {
			continue
		}
		if left++; !t.Busy() && !helped(s, t.ThreadID) {
			idle = append(idle, t.ThreadID)
		}
	}
	return left, idle
}
