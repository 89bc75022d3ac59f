package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/state"
	"agentd/store"
)

func (r *request) submitTurn(ctx context.Context, p *command.SubmitTurn) (*command.SubmitTurnResult, error) {
	if err := r.maySubmit(ctx, p); err != nil {
		return nil, err
	}
	sessionID, create := p.SessionID, p.Create
	own := &request{m: r.m}
	if sessionID == "" {
		create = true
		sessionID, ctx = r.m.newSessionID(ctx)
		if p.TurnID != "" {
			// Without a session the turn's own id is what makes a repeat safe, also
			// beside an idempotency key.
			digest, err := command.Digest(p)
			if err != nil {
				return nil, fault.Wrap(fault.Internal, err, "the parameters could not be compared")
			}
			own.key, own.digest = r.caller.Account+"//turn/"+p.TurnID, hex.EncodeToString(digest[:])
		}
	}
	first := &command.SubmitTurnResult{}
	if found, err := own.readFirst(ctx, first); err != nil || found {
		return first, err
	}
	if r.key == "" {
		r.key, r.digest, own.key = own.key, own.digest, ""
	}
	return mutate(ctx, r, sessionID, create, func(tx *Tx) (*command.SubmitTurnResult, error) {
		res, err := r.decideSubmit(tx, p)
		if err != nil {
			return nil, err
		}
		return res, own.rememberResult(tx, res)
	})
}

// maySubmit refuses a turn that can't be meant, or not by this caller.
func (r *request) maySubmit(ctx context.Context, p *command.SubmitTurn) error {
	if err := r.checkSourceChannel(ctx, p.ChannelID); err != nil {
		return err
	}
	if p.Create {
		if err := r.m.checkUnowned(ctx, r.caller, "session", p.SessionID); err != nil {
			return err
		}
	}
	if r.m.opt.Submitting != nil {
		if err := r.m.opt.Submitting(ctx, r.caller, p); err != nil {
			return err
		}
	}
	return r.m.CheckTurn(p.Options)
}

// turnForTask reports why a turn can't belong to a task.
func turnForTask(tx *Tx, taskID string) error {
	if taskID == "" {
		return nil
	}
	t := tx.State.Tasks.Find(taskID)
	switch {
	case t == nil:
		return fault.New(fault.NotFound, "there is no task %s in session %s", taskID, tx.w.id)
	case t.Status == state.TaskCancelling || t.Status == state.TaskCancelled:
		return fault.New(fault.Conflict, "task %s is %s and accepts no new turns", taskID, t.Status)
	}
	return nil
}

// decideSubmit accepts a turn into an idle thread, or does with it what the
// queue policy says.
func (r *request) decideSubmit(tx *Tx, p *command.SubmitTurn) (*command.SubmitTurnResult, error) {
	sub := r.buildSubmission(tx, p)
	if p.TurnID != "" {
		if first, err := repeatedTurn(tx, p, sub); first != nil || err != nil {
			return first, err
		}
	}
	t, err := r.threadForTurn(tx, p, sub.Preview)
	if err != nil {
		return nil, err
	}
	if err := turnForTask(tx, p.TaskID); err != nil {
		return nil, err
	}
	policy := "queue"
	if p.Options != nil && p.Options.QueuePolicy != "" {
		policy = p.Options.QueuePolicy
	}
	if policy == "steer" && (t.Active != nil || p.Options.ExpectedTurnID != "") {
		return r.steerTurn(tx, t, p, sub)
	}
	if !t.Busy() {
		return r.acceptTurn(tx, t, p, sub), nil
	}
	switch policy {
	case "reject":
		return nil, fault.New(fault.PolicyRejected, "queuePolicy reject: thread %s is busy with turn %s", t.ThreadID, busyWith(t))
	case "interrupt":
		if t.Active != nil && t.Active.Interrupt == nil {
			r.requestInterrupt(tx, t.Active, "replaced by another turn", "keep")
		}
		return r.enqueueTurn(tx, t, p, sub, 0)
	}
	return r.enqueueTurn(tx, t, p, sub, len(t.Queue))
}

// buildSubmission builds the fact's payload, but for what depends on the thread.
func (r *request) buildSubmission(tx *Tx, p *command.SubmitTurn) *event.TurnSubmitted {
	input := r.m.redact(p.Input)
	sub := &event.TurnSubmitted{
		Source: "user", Preview: preview(input), Options: p.Options, Metadata: r.m.redact(p.Metadata), SubmittedBy: r.actor(),
	}
	if state := r.caller.TraceState; r.m.redactText(state) == state { // a part of it is of no use
		sub.TraceState = state
	}
	if sourceChannel(p) != "" {
		sub.Source = "channel"
	}
	if len(input) > r.m.opt.InlineBytes {
		sub.InputRef = tx.Blob(input, "application/json")
	} else {
		sub.Input = input
	}
	return sub
}

// redact takes secrets out of what a caller sent.
func (m *Manager) redact(v event.Raw) event.Raw {
	if m.opt.Redact == nil || len(v) == 0 {
		return v
	}
	return m.opt.Redact(v)
}

// redactText takes secrets out of a text that a caller sent.
func (m *Manager) redactText(s string) string {
	if m.opt.Redact == nil || s == "" {
		return s
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return s // a string always encodes
	}
	var clean string
	if json.Unmarshal(m.opt.Redact(quoted), &clean) != nil {
		return ""
	}
	return clean
}

// submissionDigest is a fingerprint of what the caller asked for with a turn.
func submissionDigest(p *event.TurnSubmitted) string {
	sum := sha256.Sum256(appendAsked(make([]byte, 0, 512), p))
	return hex.EncodeToString(sum[:])
}

// repeatedTurn answers a submission whose turn exists already, or returns nil.
func repeatedTurn(tx *Tx, p *command.SubmitTurn, sub *event.TurnSubmitted) (*command.SubmitTurnResult, error) {
	if tx.State.Sequence == 0 {
		return nil, nil
	}
	v, found, err := tx.Lookup(kindTurn, turnKey(tx.w.id, p.TurnID))
	if err != nil || !found {
		return nil, err
	}
	var rec turnRecord
	if err := json.Unmarshal(v, &rec); err != nil {
		return nil, storeFault(fmt.Errorf("%w: turn %s: %w", store.ErrCorrupt, p.TurnID, err))
	}
	if rec.Digest != submissionDigest(sub) || (p.ThreadID != "" && p.ThreadID != rec.ThreadID) || (p.TaskID != "" && p.TaskID != rec.TaskID) {
		return nil, fault.New(fault.Conflict, "turn %s already exists with different parameters; choose another id, or repeat the same parameters", p.TurnID)
	}
	tx.index, tx.blobs = nil, nil // the content is stored already
	return &command.SubmitTurnResult{
		SessionID: tx.w.id, ThreadID: rec.ThreadID, TurnID: reasonOr(rec.Steers, p.TurnID), TaskID: rec.TaskID, RunID: rec.RunID,
		Status: rec.Status, Position: rec.Position, Sequence: rec.Sequence,
	}, nil
}

// threadForTurn returns the thread that a turn goes to. In a session that
// doesn't exist yet it opens the session, which is named after what the turn says,
// and its main thread first.
func (r *request) threadForTurn(tx *Tx, p *command.SubmitTurn, preview string) (*state.Thread, error) {
	if tx.State.Sequence == 0 {
		w, err := r.m.resolveWorkspace(r.workspaceOf(nil))
		if err != nil {
			return nil, err
		}
		threadID := r.emitSessionOpened(tx, &command.CreateSession{Title: titleOf(preview), Workspace: w}, p.ThreadID)
		return &state.Thread{ThreadID: threadID, Role: "main"}, nil
	}
	if p.ThreadID == "" {
		if t := tx.State.MainThread(); t != nil {
			return t, nil
		}
		return nil, fault.New(fault.Conflict, "session %s has no open thread", tx.w.id)
	}
	return findThread(tx.State, p.ThreadID)
}

func findThread(st *state.Session, threadID string) (*state.Thread, error) {
	if t := st.Thread(threadID); t != nil {
		return t, nil
	}
	return nil, fault.New(fault.NotFound, "there is no open thread %s in session %s", threadID, st.SessionID)
}

func busyWith(t *state.Thread) string {
	if t.Active != nil {
		return t.Active.TurnID
	}
	return t.Queue[0].TurnID
}

// acceptTurn emits the facts of a turn that starts at once.
func (r *request) acceptTurn(tx *Tx, t *state.Thread, p *command.SubmitTurn, sub *event.TurnSubmitted) *command.SubmitTurnResult {
	sub.Status = state.TurnAccepted
	return r.emitTurn(tx, t, p, sub)
}

// queueRetry is when to try again to add a turn to a full queue.
const queueRetry = 5 * time.Second

// enqueueTurn emits the facts of a turn that waits at an index of the queue.
func (r *request) enqueueTurn(tx *Tx, t *state.Thread, p *command.SubmitTurn, sub *event.TurnSubmitted, at int) (*command.SubmitTurnResult, error) {
	if len(t.Queue) >= r.m.opt.MaxQueue {
		f := fault.New(fault.RateLimited, "thread %s has %d turns waiting, which is the maximum; wait, or remove some from its queue", t.ThreadID, len(t.Queue))
		f.RetryAfter = queueRetry
		return nil, f
	}
	sub.Status, sub.Position = state.TurnQueued, int64(at+1)
	result := r.emitTurn(tx, t, p, sub)
	waiting := queueIDs(t)
	waiting = append(waiting[:at:at], append([]queued{{result.TurnID, sub.Source}}, waiting[at:]...)...)
	tx.Emit(queueFact(t.ThreadID, waiting, &event.QueueChanged{Reason: "queued", TurnID: result.TurnID, ChangedBy: r.actor()}))
	return result, nil
}

// emitTurn emits turn.submitted and, for a turn without a task, the implicit one.
func (r *request) emitTurn(tx *Tx, t *state.Thread, p *command.SubmitTurn, sub *event.TurnSubmitted) *command.SubmitTurnResult {
	res := &command.SubmitTurnResult{
		SessionID: tx.w.id, ThreadID: t.ThreadID, TurnID: p.TurnID, TaskID: p.TaskID, RunID: tx.NewID(event.PrefixRun),
		Status: sub.Status, Position: sub.Position, Sequence: tx.Sequence(),
	}
	if res.TurnID == "" {
		res.TurnID = tx.NewID(event.PrefixTurn)
	}
	if res.TaskID == "" {
		res.TaskID = tx.NewID(event.PrefixTask)
	}
	scope := event.Scope{
		ThreadID: t.ThreadID, TurnID: res.TurnID, TaskID: res.TaskID, RunID: res.RunID, SubagentID: t.SubagentID,
		ParentTaskID: r.whole.ParentTaskID, RootTaskID: r.whole.RootTaskID, JobID: r.whole.JobID, JobItemID: r.whole.JobItemID,
	}
	submitted := scope
	submitted.ChannelID = sourceChannel(p)
	tx.Emit(event.Event{Type: event.TypeTurnSubmitted, Scope: submitted, Payload: sub})
	if p.TaskID == "" {
		tx.Emit(event.Event{Type: event.TypeTaskCreated, Scope: scope, Payload: &event.TaskCreated{
			TaskKind: "turn", Visibility: "internal", Status: "accepted", Objective: sub.Preview,
			WorkerKind: "runtime", RequestedBy: sub.SubmittedBy,
		}})
	}
	r.linkPeer(tx, scope, p.Peer)
	return res
}

// steerTurn adds the input to the turn that runs.
func (r *request) steerTurn(tx *Tx, t *state.Thread, p *command.SubmitTurn, sub *event.TurnSubmitted) (*command.SubmitTurnResult, error) {
	if want := p.Options.ExpectedTurnID; want != "" && (t.Active == nil || t.Active.TurnID != want) {
		now := "no turn is running"
		if t.Active != nil {
			now = "turn " + t.Active.TurnID + " is running"
		}
		return nil, fault.New(fault.Conflict, "turn %s is no longer running: %s", want, now)
	}
	a := t.Active
	res := &command.SubmitTurnResult{
		SessionID: tx.w.id, ThreadID: t.ThreadID, TurnID: a.TurnID, TaskID: a.TaskID, RunID: a.RunID,
		Status: state.TurnAccepted, Sequence: tx.Sequence(),
	}
	scope := turnScope(a, t)
	scope.ChannelID = sourceChannel(p)
	tx.Emit(event.Event{Type: event.TypeTurnSteered, Scope: scope, Payload: &event.TurnSteered{
		Input: sub.Input, InputRef: sub.InputRef, Preview: sub.Preview, SubmittedBy: sub.SubmittedBy,
		SubmittedTurnID: p.TurnID, Options: sub.Options, Metadata: sub.Metadata,
	}})
	r.stepOfPeer(tx, turnScope(a, t), p.Peer, "input was added")
	return res, nil
}

func turnScope(turn *state.Turn, t *state.Thread) event.Scope {
	return event.Scope{
		ThreadID: turn.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID, SubagentID: t.SubagentID,
		ParentTaskID: turn.ParentTaskID, JobID: turn.JobID,
	}
}

// preview is the beginning of an input's text.
func preview(parts event.Raw) string {
	if text, ok := command.PlainText(parts); ok {
		return clip.Text(text, 200)
	}
	var list []command.Part
	if json.Unmarshal(parts, &list) != nil {
		return ""
	}
	var texts []string
	for _, p := range list {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return clip.Text(strings.Join(texts, " "), 200)
}

// titleOf names a session after the beginning of its first input.
func titleOf(preview string) string {
	return clip.Text(strings.Join(strings.Fields(preview), " "), 60)
}

func (r *request) interruptTurn(ctx context.Context, p *command.InterruptTurn) (*command.InterruptTurnResult, error) {
	clean := *p
	clean.Reason = r.m.redactText(p.Reason)
	p = &clean
	return mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.InterruptTurnResult, error) {
		t, err := threadToInterrupt(tx.State, p)
		if err != nil || t == nil {
			return &command.InterruptTurnResult{}, err
		}
		res := &command.InterruptTurnResult{}
		switch {
		case p.TurnID != "" && (t.Active == nil || t.Active.TurnID != p.TurnID):
			// The turn waits: taking it out of the queue stops it.
			if _, err := r.cancelQueued(tx, t, p.TurnID, reasonOr(p.Reason, "interrupted")); err != nil {
				return res, nil //nolint:nilerr // neither running nor queued: nothing to interrupt
			}
			res.Interrupted, res.TurnID = true, p.TurnID
		case t.Active != nil:
			res.Interrupted, res.TurnID = true, t.Active.TurnID
			if t.Active.Interrupt == nil {
				r.requestInterrupt(tx, t.Active, p.Reason, p.Queue)
				r.stepOfPeer(tx, turnScope(t.Active, t), p.Peer, "the peer wants it stopped")
			}
		}
		if p.Queue == "clear" {
			r.clearQueue(tx, t, p.TurnID, reasonOr(p.Reason, "the queue was cleared"))
		}
		return res, nil
	})
}

// threadToInterrupt returns the thread of the turn that is meant, or nil.
func threadToInterrupt(st *state.Session, p *command.InterruptTurn) (*state.Thread, error) {
	if p.ThreadID != "" {
		return findThread(st, p.ThreadID)
	}
	if p.TurnID == "" {
		return st.MainThread(), nil
	}
	for _, t := range st.Threads {
		if t.Turn(p.TurnID) != nil {
			return t, nil
		}
	}
	return nil, nil
}

func reasonOr(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}

func (r *request) requestInterrupt(tx *Tx, turn *state.Turn, reason, queue string) {
	tx.Emit(event.Event{
		Type:    event.TypeTurnInterruptRequested,
		Scope:   event.Scope{ThreadID: turn.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID},
		Payload: &event.TurnInterruptRequested{Reason: reason, Queue: reasonOr(queue, "keep"), RequestedBy: r.actor()},
	})
}

var errNotQueued = errors.New("session: the turn is not in the queue")

// cancelQueued emits the end of a waiting turn and the queue without it.
func (r *request) cancelQueued(tx *Tx, t *state.Thread, turnID, reason string) ([]queued, error) {
	rest := make([]queued, 0, len(t.Queue))
	var gone *state.Turn
	for _, q := range t.Queue {
		if q.TurnID == turnID {
			gone = q
			continue
		}
		rest = append(rest, queued{q.TurnID, q.Source})
	}
	if gone == nil {
		return nil, errNotQueued
	}
	r.cancelTurn(tx, t, gone, reason)
	tx.Emit(queueFact(t.ThreadID, rest, &event.QueueChanged{Reason: "removed", TurnID: turnID, ChangedBy: r.actor()}))
	return rest, nil
}

// cancelTurn emits the end of a turn that never started, and of its implicit task.
func (r *request) cancelTurn(tx *Tx, t *state.Thread, turn *state.Turn, reason string) {
	scope := turnScope(turn, t)
	tx.Emit(event.Event{Type: event.TypeTurnFailed, Scope: scope, Payload: &event.TurnFailed{
		Status: state.TurnCancelled, Outcome: "interrupted", FailureCategory: "interrupted", Error: &event.Failure{Message: reason},
	}})
	if task := tx.State.Tasks.Find(turn.TaskID); task != nil && task.TaskKind == "turn" {
		tx.Emit(event.Event{Type: event.TypeTaskCancelled, Scope: scope, Payload: &event.TaskStatusChanged{
			Status: "cancelled", StatusReason: reason, ChangedBy: r.actor(),
		}})
	}
}

// clearQueue ends all waiting turns but one that was dealt with already.
func (r *request) clearQueue(tx *Tx, t *state.Thread, except, reason string) {
	n := 0
	for _, q := range t.Queue {
		if q.TurnID != except {
			r.cancelTurn(tx, t, q, reason)
			n++
		}
	}
	if n > 0 {
		tx.Emit(queueFact(t.ThreadID, nil, &event.QueueChanged{Reason: "cleared", ChangedBy: r.actor()}))
	}
}
