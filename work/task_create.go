package work

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/session"
	"agentd/state"
)

// claim is what is kept of a task whose id the caller chose: enough to answer the
// same creation again.
type claim struct {
	Digest string             `json:"digest"`
	Result command.TaskResult `json:"result"`
}

func (w *Work) createTask(ctx context.Context, caller command.Caller, p *command.CreateTask) (*command.TaskResult, error) {
	c, err := w.newCreation(ctx, caller, p)
	if err != nil {
		return nil, err
	}
	if res, err := w.createdBefore(ctx, c); res != nil || err != nil {
		return res, err
	}
	if err := w.checkFields(&p.TaskFields); err != nil {
		return nil, err
	}
	if err := w.checkPeer(p.Peer); err != nil {
		return nil, err
	}
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	return c.write(ctx)
}

// creation is the making of one task.
type creation struct {
	w      *Work
	caller command.Caller
	p      *command.CreateTask
	digest string

	to      session.Target
	account string
	parent  *found
	depends []*found
}

func (w *Work) newCreation(_ context.Context, caller command.Caller, p *command.CreateTask) (*creation, error) {
	digest, err := command.Digest(p)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the parameters could not be compared")
	}
	return &creation{w: w, caller: caller, p: p, digest: caller.Account + "/" + hex.EncodeToString(digest[:])}, nil
}

// createdBefore answers the creation of a task whose id is taken, or returns nil.
func (w *Work) createdBefore(ctx context.Context, c *creation) (*command.TaskResult, error) {
	if c.p.TaskID == "" {
		return nil, nil
	}
	taken := session.Taken("task %s already exists with different parameters; choose another id, or repeat the same parameters", c.p.TaskID)
	v, err := w.m.ClaimedID(ctx, "task", c.p.TaskID)
	if err != nil {
		return nil, err
	}
	if v == nil {
		switch _, err := w.m.TaskSession(ctx, c.p.TaskID); {
		case err == nil:
			return nil, taken
		case fault.KindOf(err) != fault.NotFound:
			return nil, err
		}
		return nil, nil
	}
	var first claim
	if err := json.Unmarshal(v, &first); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of task %s can't be read", c.p.TaskID)
	}
	if first.Digest != c.digest {
		return nil, taken
	}
	return &first.Result, nil
}

// resolve finds what the task is joined to, and its session: its parent's if it
// has a parent, else one of its own.
func (c *creation) resolve(ctx context.Context) (err error) {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(c.p.DependsOn))) {
		f, err := c.w.findVisibleTask(ctx, c.caller, id)
		if err != nil {
			return err
		}
		c.depends = append(c.depends, f)
	}
	c.to.SessionID = c.p.SessionID
	if c.p.ParentTaskID != "" {
		if c.parent, err = c.w.findVisibleTask(ctx, c.caller, c.p.ParentTaskID); err != nil {
			return err
		}
		if c.to.SessionID != "" && c.to.SessionID != c.parent.sessionID {
			return fault.New(fault.Conflict, "task %s is in session %s: a task must be in its parent's session", c.p.ParentTaskID, c.parent.sessionID)
		}
		c.to.SessionID = c.parent.sessionID
	}
	if c.to.SessionID == "" {
		c.to, c.account = c.w.m.NewTarget(orElse(c.p.Title, clip.Text(c.p.Objective, 80))), c.caller.Account
		return nil
	}
	return c.w.m.ViewAs(ctx, c.caller, c.to.SessionID, func(st *state.Session) error {
		c.account = st.Account
		return nil
	})
}

// write records the task and, if asked, starts it.
func (c *creation) write(ctx context.Context) (*command.TaskResult, error) {
	id := c.p.TaskID
	if id == "" {
		id = c.w.m.NewID(event.PrefixTask)
	}
	at := place{id, c.to.SessionID, c.account}
	reserved := c.p.Start && c.p.Worker != "external" && c.p.Peer == "" && c.w.slots.reserve(at)
	started := false
	res, err := session.WriteTo(ctx, c.w.m, c.caller, c.p, c.to, event.ByWork, func(tx *session.Tx) (*command.TaskResult, error) {
		started = false
		e, err := c.emit(tx, id)
		if err != nil {
			return nil, err
		}
		if c.p.Start {
			settleEdges(e, outlook{standings: c.standings()})
			runID, err := c.w.beginAttempt(e, reserved)
			if err != nil {
				return nil, err
			}
			started = runID != ""
		}
		res := &command.TaskResult{TaskID: id, Status: e.t.Status}
		return res, c.claim(tx, res)
	})
	if reserved {
		c.w.slots.settle(at, started && err == nil)
	}
	if err != nil {
		return nil, err
	}
	return res, c.linkElsewhere(ctx, id)
}

func (c *creation) claim(tx *session.Tx, res *command.TaskResult) error {
	if c.p.TaskID == "" {
		return nil
	}
	v, err := json.Marshal(claim{c.digest, *res})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the result could not be stored")
	}
	tx.ClaimID("task", c.p.TaskID, v)
	return nil
}

// standings are what the edges to dependencies in other sessions say.
func (c *creation) standings() map[string]string {
	out := map[string]string{}
	for _, d := range c.depends {
		out[d.task.TaskID] = edgeStatus(d.task)
	}
	return out
}

// emit records the task's identity and its edges at their other ends.
func (c *creation) emit(tx *session.Tx, id string) (*edit, error) {
	if at, err := tx.TaskSession(id); err != nil || at != "" {
		if err == nil {
			err = session.Taken("task %s exists", id)
		}
		return nil, err
	}
	p := c.created(tx)
	scope := event.Scope{TaskID: id, ParentTaskID: c.p.ParentTaskID}
	if c.parent != nil {
		parent := tx.State.Tasks.Find(c.p.ParentTaskID)
		if err := mayHaveChild(tx.State, parent, c.parent.task); err != nil {
			return nil, err
		}
		scope.RootTaskID = orElse(parent.RootTaskID, parent.TaskID)
	}
	tx.Emit(event.Event{Type: event.TypeTaskCreated, Scope: scope, Payload: p})
	e := &edit{tx: tx, by: session.ActorOf(c.caller), t: taskOf(tx, scope, p)}
	if !c.p.Draft {
		e.emitFact(event.TypeTaskAccepted, &event.TaskStatusChanged{Status: state.TaskAccepted, ChangedBy: e.by})
	}
	if c.parent != nil {
		parent := newEdit(tx, tx.State.Tasks.Find(c.p.ParentTaskID), e.by)
		parent.emitFact(event.TypeTaskDelegated, &event.TaskDelegated{To: "task", TargetID: id})
	}
	for _, d := range c.depends {
		if t := tx.State.Tasks.Find(d.task.TaskID); t != nil {
			newEdit(tx, t, e.by).edge("added", edgeBlocks, id, edgeStatus(t), "")
		}
	}
	return e, nil
}

// mayHaveChild refuses new work under a task that is over or is being stopped.
func mayHaveChild(st *state.Session, parent, last *state.Task) error {
	if parent == nil {
		return conflict(last, "it accepts no new subtasks")
	}
	if parent.Terminal() || parent.Cancel != nil {
		return conflict(parent, "it accepts no new subtasks")
	}
	if above := cancelledAbove(st, parent); above != nil {
		return conflict(above, "it accepts no new work")
	}
	depth := 1
	for t := range st.Tasks.From(parent.TaskID) {
		if t.ParentTaskID == "" {
			break
		}
		if depth++; depth >= maxDepth {
			return fault.New(fault.PolicyRejected, "tasks can be nested at most %d levels deep", maxDepth)
		}
	}
	return nil
}

// ofTask is a kind that a caller chose: that of turns' tasks is the runtime's own.
func ofTask(kind string) string {
	if kind == state.TaskKindTurn {
		return "general"
	}
	return kind
}

// created is the fact of the task's creation.
func (c *creation) created(tx *session.Tx) *event.TaskCreated {
	p := c.p
	out := &event.TaskCreated{
		Title: p.Title, TaskKind: orElse(p.TaskKind, "general"), Visibility: orElse(p.Visibility, "foreground"),
		Status: state.TaskAccepted, TaskFamily: p.TaskFamily, Scope: p.Scope, Priority: string(p.Priority), RequestedBy: session.ActorOf(c.caller), Owner: p.Owner, Assignee: p.Assignee,
		WorkerKind: workerKind(p), Peer: p.Peer, Constraints: p.Constraints, TaskProfile: givenProfile(p.TaskProfile),
		Acceptance: recordJudges(p.Criteria(), session.ActorOf(c.caller)), RetryPolicy: p.RetryPolicy, HeartbeatTimeoutMs: p.HeartbeatTimeoutMs, Metadata: p.Metadata,
	}
	out.TaskKind = ofTask(out.TaskKind)
	if p.Draft {
		out.Status = state.TaskDraft
	}
	for _, d := range c.depends {
		out.DependsOn = append(out.DependsOn, d.task.TaskID)
	}
	out.Objective, out.ObjectiveRef = objective(tx, p.Objective, out.Acceptance)
	return out
}

// objective returns an objective as a fact states it. A large one is kept behind
// a reference, as the input of the turn that works on it, and the fact has its
// beginning.
func objective(tx *session.Tx, text string, acceptance []event.AcceptanceCriterion) (inline, ref string) {
	if len(text) <= inlineBytes {
		return text, ""
	}
	input, err := textParts(taskPrompt(&state.Task{Objective: text, Acceptance: acceptance}, false))
	if err != nil {
		return text, ""
	}
	return clip.Text(text, previewBytes), tx.Blob(input, "application/json")
}

// taskOf is the record that the fact of a creation folds to, as far as a decision
// needs it.
func taskOf(tx *session.Tx, scope event.Scope, p *event.TaskCreated) state.Task {
	t := state.Task{
		TaskID: scope.TaskID, ParentTaskID: scope.ParentTaskID, RootTaskID: scope.RootTaskID, Title: p.Title, Objective: p.Objective, ObjectiveRef: p.ObjectiveRef,
		TaskKind: p.TaskKind, Priority: p.Priority, Status: p.Status, RequestedBy: p.RequestedBy, WorkerKind: p.WorkerKind, Peer: p.Peer,
		HeartbeatTimeoutMs: p.HeartbeatTimeoutMs, Constraints: p.Constraints, Acceptance: p.Acceptance, RetryPolicy: p.RetryPolicy,
	}
	for _, id := range p.DependsOn {
		t.Relationships = append(t.Relationships, state.Relationship{Kind: edgeBlockedBy, TargetID: id, Status: edgeActive, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	}
	return t
}

// linkElsewhere writes the other ends of edges to tasks of other sessions. If the process stops
// before, recovery does it. Over a store that several nodes share it is left to recovery as well
// what can't be written now: the task looks up by itself what it waits for.
func (c *creation) linkElsewhere(ctx context.Context, id string) error {
	for _, d := range c.depends {
		if d.sessionID == c.to.SessionID || d.record != nil {
			continue
		}
		err := c.w.changeElsewhere(ctx, dependency(id, d.task.TaskID))
		if err != nil && !c.w.m.IsShared() {
			return err
		}
		if err != nil {
			c.w.opt.Logger.Warn("an edge is written at one of its ends", "taskId", id, "targetId", d.task.TaskID, "error", err)
		}
	}
	// A dependency that ended in the meantime didn't know of this one.
	c.w.book.mark(c.to.SessionID, id)
	return nil
}
