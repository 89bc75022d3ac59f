package work

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/internal/clip"
	"agentd/session"
	"agentd/state"
)

const (
	// inlineBytes is the largest input that is kept in a fact itself.
	inlineBytes = 4096
	// previewBytes is how much of a large objective the record shows.
	previewBytes = 1000
	// maxBackoff bounds the wait before another attempt where the policy doesn't.
	maxBackoff = time.Hour
	// keepThreads is how many threads of ended tasks a session keeps open, so that
	// they can still be looked at.
	keepThreads = 20
)

// What a blocked or queued task waits for, in the words of this runtime.
const (
	byDependency = "dependency"
	byAcceptance = "acceptance"
	byDelivery   = "delivery"
	byThread     = "thread"
	byParts      = "children"
	forRerun     = "rerun"
)

// beginAttempt starts an attempt, or records what it waits for: a dependency, or room.
// Slot says that the runtime has room for one more of its own.
func (w *Work) beginAttempt(e *edit, slot bool) (runID string, err error) {
	if open := openDependencies(&e.t); len(open) > 0 {
		return "", e.becomeStatus(event.TypeTaskBlocked, &event.TaskStatusChanged{
			Status: state.TaskBlocked, NativeStatus: byDependency, Blockers: open,
			StatusReason: e.reasonFor("waits for " + strings.Join(open, ", ") + " to be completed"),
		})
	}
	if left, bounded := timeLeft(&e.t); bounded && left <= 0 {
		return "", e.becomeEnded(newFailure(state.TaskTimedOut, false, "the task's time limit has passed"))
	}
	switch {
	case external(&e.t):
		return e.beginExternal()
	case !slot || underWay(&e.t) != nil:
		p := &event.TaskStatusChanged{Status: state.TaskQueued, StatusReason: e.reasonFor(w.slots.why(e.tx.State.SessionID, e.tx.State.Account))}
		if e.t.NativeStatus == forRerun {
			p.NativeStatus = forRerun
		}
		return "", e.becomeStatus(event.TypeTaskQueued, p)
	}
	return e.beginTurn()
}

// attemptReason says why there is another attempt.
func attemptReason(t *state.Task) string {
	a := currentAttempt(t)
	switch {
	case a == nil:
		return "first"
	case a.Status == state.AttemptUnknown:
		return "lost_worker"
	case a.Status == state.AttemptCompleted, t.NativeStatus == forRerun:
		return "rerun"
	case a.Status == state.AttemptCancelled:
		return "resumed"
	}
	return "retry"
}

func (e *edit) beginExternal() (string, error) {
	worker := e.externalWorker()
	runID, err := e.startAttempt(e.scope(e.tx.NewID(event.PrefixRun)), state.AttemptRunning, worker)
	if err == nil {
		e.delegateToWorker(worker)
	}
	return runID, err
}

// delegateToWorker records that an external worker has the task. To which peer a task
// goes is recorded when it is sent.
func (e *edit) delegateToWorker(worker *event.Worker) {
	if worker.Kind == "external" && worker.ID != "" {
		e.emitFact(event.TypeTaskDelegated, &event.TaskDelegated{To: "worker", TargetID: worker.ID})
	}
}

// externalWorker is the external worker that starts an attempt. One that the scheduler
// begins has no name until a worker takes it.
func (e *edit) externalWorker() *event.Worker {
	if e.t.WorkerKind == workerPeer {
		return &event.Worker{Kind: "external_runtime", ID: e.t.Peer}
	}
	w := &event.Worker{Kind: "external"}
	if e.by != nil && e.by.Kind != runtimeActor().Kind {
		w.ID = nameOf(e.by)
	}
	return w
}

// nameOf is the name that an actor has as a worker.
func nameOf(by *event.Actor) string {
	if by == nil {
		return ""
	}
	return orElse(by.ID, by.Kind)
}

// takeOver gives an attempt that began by itself to the worker who asks for it.
func (e *edit) takeOver(a *state.Attempt) string {
	worker := e.externalWorker()
	e.emitScoped(event.TypeTaskAttemptStarted, e.attemptScope(a), &event.TaskAttemptStarted{
		Status: state.AttemptRunning, AttemptCount: a.AttemptCount, Worker: worker, RetryPolicy: a.RetryPolicy, Reason: a.Reason,
	})
	e.delegateToWorker(worker)
	if e.why != "" {
		e.emitFact(event.TypeTaskUpdated, &event.TaskUpdated{Reason: e.why, ChangedBy: e.by})
	}
	return a.RunID
}

// startAttempt emits the beginning of an attempt and what it makes of the task.
func (e *edit) startAttempt(scope event.Scope, status string, worker *event.Worker) (string, error) {
	p := retryPolicy(&e.t)
	started := &event.TaskAttemptStarted{Status: status, AttemptCount: countAttempts(&e.t) + 1, Worker: worker, RetryPolicy: &p, Reason: attemptReason(&e.t)}
	if !mayBecome(e.t.Status, state.TaskRunning) || underWay(&e.t) != nil {
		return "", conflict(&e.t, "no attempt can start")
	}
	attempt := scope
	attempt.AttemptID = scope.RunID // an attempt is a run, and has its id
	e.emitScoped(event.TypeTaskAttemptStarted, attempt, started)
	e.t.CurrentRunID = scope.RunID
	e.t.Attempts = append(slices.Clone(e.t.Attempts), state.Attempt{
		RunID: scope.RunID, AttemptID: scope.RunID, Status: status, AttemptCount: started.AttemptCount, Reason: started.Reason,
		ThreadID: scope.ThreadID, TurnID: scope.TurnID, Worker: worker, RetryPolicy: &p, StartedAt: e.tx.Now(),
	})
	return scope.RunID, e.becomeIn(event.TypeTaskStarted, scope, &event.TaskStatusChanged{Status: state.TaskRunning, StatusReason: e.reasonFor("")})
}

// beginTurn gives the objective to a thread of the task's own.
func (e *edit) beginTurn() (string, error) {
	thread := e.tx.State.Thread(e.t.ThreadID)
	goesOn := thread != nil && thread.TaskID == e.t.TaskID && !thread.Busy() && thread.Block == nil
	scope := e.scope(e.tx.NewID(event.PrefixRun))
	scope.ThreadID, scope.TurnID = e.t.ThreadID, e.tx.NewID(event.PrefixTurn)
	sub, err := e.attemptSubmission(goesOn)
	if err != nil {
		return "", err
	}
	if !goesOn {
		scope.ThreadID = e.openThread()
	}
	worker := &event.Worker{Kind: "agent", ThreadID: scope.ThreadID}
	runID, err := e.startAttempt(scope, state.AttemptPreparing, worker)
	if err != nil {
		return "", err
	}
	e.emitScoped(event.TypeTurnSubmitted, scope, sub)
	return runID, nil
}

// openThread emits the thread that the task is worked on in.
func (e *edit) openThread() string {
	id := e.tx.NewID(event.PrefixThread)
	started := &event.ThreadStarted{Role: "task", Title: clip.Text(e.t.Title, 200)}
	if c := e.t.Constraints; c != nil {
		started.Cwd, started.PermissionMode, started.Model = c.Cwd, c.PermissionMode, c.Model
	}
	e.emitScoped(event.TypeThreadStarted, event.Scope{ThreadID: id, TaskID: e.t.TaskID, SubagentID: e.t.SubagentID}, started)
	e.emitFact(event.TypeTaskDelegated, &event.TaskDelegated{To: "thread", TargetID: id})
	e.t.ThreadID = id
	return id
}

// attemptSubmission is the turn of an attempt, bound by the task's constraints.
func (e *edit) attemptSubmission(goesOn bool) (*event.TurnSubmitted, error) {
	sub := &event.TurnSubmitted{
		Status: state.TurnAccepted, Source: "task", Preview: clip.Text(e.t.Objective, 200), Options: turnOptions(&e.t),
		SubmittedBy: e.t.RequestedBy,
	}
	if e.t.ObjectiveRef != "" && !goesOn {
		sub.InputRef = e.t.ObjectiveRef
		return sub, nil
	}
	input, err := textParts(taskPrompt(&e.t, goesOn))
	if err != nil {
		return nil, err
	}
	if len(input) > inlineBytes {
		sub.InputRef = e.tx.Blob(input, "application/json")
	} else {
		sub.Input = input
	}
	return sub, nil
}

// taskPrompt is what the model gets to know of the task. In a thread that goes on it
// knows the objective already.
func taskPrompt(t *state.Task, goesOn bool) string {
	var b strings.Builder
	if a := currentAttempt(t); goesOn && a != nil {
		fmt.Fprintf(&b, "The last attempt at this task ended (%s).", a.Status)
		if a.LastError != nil {
			fmt.Fprintf(&b, " The reason: %s", a.LastError.Message)
		}
		b.WriteString("\nGo on with it. The objective is:\n")
	}
	b.WriteString(t.Objective)
	if len(t.Acceptance) > 0 {
		b.WriteString("\n\nIt is done when all of this holds:")
		for _, c := range t.Acceptance {
			b.WriteString("\n- " + c.Description)
		}
	}
	return b.String()
}

func textParts(text string) (event.Raw, error) {
	b, err := json.Marshal([]command.Part{{Type: "text", Text: text}})
	if err != nil {
		return nil, fmt.Errorf("work: input: %w", err)
	}
	return b, nil
}

// turnOptions are the task's constraints as a turn takes them.
func turnOptions(t *state.Task) *event.TurnOptions {
	o := &event.TurnOptions{TimeoutMs: retryPolicy(t).TimeoutMs}
	if c := t.Constraints; c != nil {
		o.Tools, o.PermissionMode, o.Model, o.Cwd, o.MaxSteps, o.OutputSchema = c.Tools, c.PermissionMode, c.Model, c.Cwd, c.MaxSteps, c.OutputSchema
	}
	if left, bounded := timeLeft(t); bounded && (o.TimeoutMs == 0 || left.Milliseconds() < o.TimeoutMs) {
		o.TimeoutMs = max(1, left.Milliseconds())
	}
	return o
}

// timeLeft is what the constraints leave of the time for the work. Attempts
// count from the last that was asked for anew.
func timeLeft(t *state.Task) (left time.Duration, bounded bool) {
	if t.Constraints == nil || t.Constraints.MaxRuntimeMs == 0 {
		return 0, false
	}
	left = millis(t.Constraints.MaxRuntimeMs)
	if t.NativeStatus == forRerun {
		return left, true
	}
	for _, a := range slices.Backward(t.Attempts) {
		if isSchedulerAttempt(&a) && !a.EndedAt.IsZero() {
			left -= a.EndedAt.Sub(a.StartedAt)
		}
		if isSchedulerAttempt(&a) && (a.Reason == "first" || a.Reason == "rerun") {
			break
		}
	}
	return left, true
}

// overspent says that the work cost more than it may; empty if it didn't. The request
// that crosses a limit is answered, so work may end beyond it.
func overspent(st *state.Session, t *state.Task) string {
	if t.Constraints == nil || t.Constraints.MaxCostUSD <= 0 {
		return ""
	}
	if used := st.TaskSpending(t); used > t.Constraints.MaxCostUSD {
		return fmt.Sprintf("the work cost %.6f USD, more than its limit of %.6f USD", used, t.Constraints.MaxCostUSD)
	}
	return ""
}

// stubborn are the failures of turns that another attempt would meet again.
var stubborn = []string{"interrupted", "quota_blocked", "routing_not_possible", "hook_blocked"}

// retryAt says when another attempt is due after a failure, if one is.
func (w *Work) retryAt(t *state.Task, f *event.Failure, now time.Time) (time.Time, bool) {
	p := retryPolicy(t)
	var tried int64
	for i := range t.Attempts {
		// A run that goes on after a crash is the same try.
		if a := &t.Attempts[i]; isSchedulerAttempt(a) && a.Status != state.AttemptCancelled && a.Reason != state.AttemptAfterCrash {
			tried++
		}
	}
	left, bounded := timeLeft(t)
	if tried+t.OlderAttempts >= p.MaxAttempts || !f.Retryable || slices.Contains(p.NonRetryable, f.Category) || bounded && left <= 0 {
		return time.Time{}, false
	}
	return now.Add(retryBackoff(p, tried, w.opt.Random())), true
}

// retryBackoff is the wait before the attempt after n: it doubles with each, and is up
// to a quarter longer so that many don't come back at once.
func retryBackoff(p event.RetryPolicy, n int64, random float64) time.Duration {
	most := maxBackoff
	if p.MaxBackoffMs > 0 {
		most = millis(p.MaxBackoffMs)
	}
	wait := float64(millis(p.BackoffMs)) * math.Pow(2, float64(max(0, n-1)))
	wait = math.Min(wait, float64(most))
	return time.Duration(wait * (1 + random/4)).Truncate(time.Microsecond)
}

// afterFailure decides what follows an attempt that didn't succeed: another one,
// or the end of the task. That a task was lost is a fact of its own also if another
// attempt follows; both are written at once, so the task is never seen between them.
func (w *Work) afterFailure(e *edit, f *event.Failure) error {
	at, again := w.retryAt(&e.t, f, e.tx.Now())
	if !again {
		return e.becomeEnded(f)
	}
	if f.Category == state.TaskLost {
		if err := e.becomeStatus(event.TypeTaskLost, &event.TaskStatusChanged{Status: state.TaskLost, StatusReason: f.Message, Error: f, RetryAt: at}); err != nil {
			return err
		}
	}
	return e.becomeStatus(event.TypeTaskRetrying, &event.TaskStatusChanged{
		Status: state.TaskRetrying, StatusReason: f.Message, Error: f, RetryAt: at,
	})
}

// becomeEnded ends a task that didn't succeed, in the words of the failure.
func (e *edit) becomeEnded(f *event.Failure) error {
	t, status := event.TypeTaskFailed, state.TaskFailed
	switch f.Category {
	case state.TaskTimedOut:
		t, status = event.TypeTaskTimedOut, state.TaskTimedOut
	case state.TaskLost:
		t, status = event.TypeTaskLost, state.TaskLost
	}
	if err := e.becomeStatus(t, &event.TaskStatusChanged{Status: status, StatusReason: f.Message, Error: f}); err != nil {
		return err
	}
	e.archiveThreads()
	return nil
}

// afterSuccess completes the task if everything that belongs to it is reconciled;
// else it is blocked and says what is open.
func (e *edit) afterSuccess() error {
	native, open := e.unfinished(e.t.DeliveryState)
	if native == "" {
		return e.completeTask(&event.TaskCompleted{DeliveryState: delivered(&e.t)})
	}
	if e.t.Status == state.TaskBlocked && e.t.NativeStatus == native && slices.Equal(e.t.Blockers, open) {
		return nil
	}
	return e.becomeStatus(event.TypeTaskBlocked, &event.TaskStatusChanged{
		Status: state.TaskBlocked, NativeStatus: native, Blockers: open, StatusReason: "the work is done; open is the " + native + ": " + strings.Join(open, ", "),
	})
}

// delivered is the delivery of a result that stays where the work was done.
func delivered(t *state.Task) *event.DeliveryState {
	switch {
	case t.DeliveryState != nil:
		return t.DeliveryState
	case t.WorkerKind == workerPeer:
		return &event.DeliveryState{Status: "delivered", Target: "artifacts"}
	case external(t):
		return &event.DeliveryState{Status: state.NotApplicable}
	}
	return &event.DeliveryState{Status: "delivered", Target: "thread"}
}

// unfinished says what keeps a task whose own work is done from being completed: parts
// of it that aren't over, then what has to be reconciled.
func (e *edit) unfinished(d *event.DeliveryState) (native string, open []string) {
	if open = openParts(e.tx.State, &e.t); len(open) > 0 {
		return byParts, open
	}
	return unreconciled(&e.t, d)
}

// unreconciled says what keeps a task whose work is done from being completed.
func unreconciled(t *state.Task, d *event.DeliveryState) (native string, open []string) {
	for _, c := range t.Acceptance {
		if c.Status != "satisfied" && c.Status != "waived" {
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return byAcceptance, open
	}
	if d != nil && d.Status != "delivered" && d.Status != state.NotApplicable {
		return byDelivery, []string{d.Status}
	}
	return "", nil
}

// completeTask ends the task well.
func (e *edit) completeTask(p *event.TaskCompleted) error {
	if !mayBecome(e.t.Status, state.TaskCompleted) {
		return conflict(&e.t, "it can't become completed")
	}
	p.Status, p.StatusReason, p.ChangedBy = state.TaskCompleted, overspent(e.tx.State, &e.t), e.by
	e.emitFact(event.TypeTaskCompleted, p)
	e.t.Status, e.t.StatusReason, e.t.NativeStatus, e.t.Blockers = state.TaskCompleted, p.StatusReason, "", nil
	e.archiveThreads()
	return nil
}

// archiveThreads puts away the oldest threads of ended tasks, so that a session
// doesn't grow with what is done.
func (e *edit) archiveThreads() {
	var idle []string
	for _, t := range e.tx.State.Threads {
		if t.Role == "task" && !t.Busy() && t.TaskID != e.t.TaskID && attemptIsOver(e.tx, t.TaskID) {
			idle = append(idle, t.ThreadID)
		}
	}
	for _, id := range idle[:max(0, len(idle)-keepThreads+1)] {
		e.tx.Emit(event.Event{Type: event.TypeThreadUpdated, Scope: event.Scope{ThreadID: id}, Payload: &event.ThreadUpdated{
			Status: "archived", Code: "task_ended", Reason: "its task has ended",
		}})
	}
}

func attemptIsOver(tx *session.Tx, taskID string) bool {
	t := tx.State.Tasks.Find(taskID)
	return t == nil || t.Terminal()
}
