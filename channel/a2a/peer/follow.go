package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/internal/wire"
)

// pushLooks is how much rarer a task is looked at whose peer tells of changes.
const pushLooks = 10

// fetchTask asks for the task.
func (r *run) fetchTask(ctx context.Context, history int) (*proto.Task, error) {
	limited, end := context.WithTimeout(ctx, r.c.opt.Timeout)
	defer end()
	t, err := r.line.GetTask(limited, &proto.GetTaskRequest{ID: proto.TaskID(r.w.Link.RemoteTaskID), HistoryLength: &history})
	if err != nil {
		return nil, fmt.Errorf("GetTask: %w", err)
	}
	return t, check(t.ID)
}

// followTask looks at the task, and then waits for its next change: in a stream if the
// peer gives one, else for a while.
func (r *run) followTask(ctx context.Context) error {
	before := r.w.Link.RemoteStatus
	t, err := r.fetchTask(ctx, 0)
	if err != nil {
		return err
	}
	if err := r.handlePeerEvent(ctx, t); err != nil || t.Status.State.Terminal() {
		return err
	}
	r.failures = 0
	if r.line.streams() && !r.deaf && !awaitsInput(t.Status.State) {
		began := time.Now()
		if err := r.consumeStream(ctx, false, r.subscribe); err != nil {
			return err
		}
		if time.Since(began) > r.c.opt.Poll {
			return nil
		}
	}
	r.waitForLook(ctx, string(t.Status.State) != before)
	return nil
}

func (r *run) subscribe(ctx context.Context) iter.Seq2[proto.Event, error] {
	return r.line.SubscribeToTask(ctx, &proto.SubscribeToTaskRequest{ID: proto.TaskID(r.w.Link.RemoteTaskID)})
}

// waitForLook lets time pass before the next look: more and more while nothing changes.
func (r *run) waitForLook(ctx context.Context, changed bool) {
	most := r.c.opt.MaxPoll
	if r.w.Link.DeliveryMechanism == DeliveryPush {
		most *= pushLooks
	}
	if r.interval = min(2*r.interval, most); changed || r.interval == 0 {
		r.interval = r.c.opt.Poll
	}
	if r.w.Link.DeliveryMechanism == DeliveryPush {
		r.interval = max(r.interval, r.c.opt.MaxPoll)
	}
	w, err := r.c.work(ctx, r.taskID)
	if err != nil || nextStep(w, false, false) != follow {
		return // what was taken changed what is to be done
	}
	r.w = w
	r.pause(ctx, r.interval)
}

// handlePeerEvent deals with what the peer says.
func (r *run) handlePeerEvent(ctx context.Context, e proto.Event) error {
	switch e := e.(type) {
	case *proto.Task:
		if err := r.joinTask(ctx, e.TaskInfo()); err != nil {
			return err
		}
		r.got.addTaskArtifacts(e.Artifacts, r.c.opt.MaxBody)
		return r.applyStatus(ctx, &e.Status, e)
	case *proto.TaskStatusUpdateEvent:
		if err := r.joinTask(ctx, e.TaskInfo()); err != nil {
			return err
		}
		return r.applyStatus(ctx, &e.Status, nil)
	case *proto.TaskArtifactUpdateEvent:
		if err := r.joinTask(ctx, e.TaskInfo()); err != nil {
			return err
		}
		r.got.addArtifactPiece(e, r.c.opt.MaxBody)
		return nil
	case *proto.Message:
		return r.applyMessage(ctx, e)
	}
	return fmt.Errorf("%w: %T", errNonsense, e)
}

// applyStatus takes over how the task stands at the peer. Whole is the task itself, where
// it was asked for.
func (r *run) applyStatus(ctx context.Context, s *proto.TaskStatus, whole *proto.Task) error {
	ours, ok := statuses[s.State]
	if !ok {
		return fmt.Errorf("%w: a task is %q", errNonsense, wire.Shorten(string(s.State), 100))
	}
	up := &command.UpdatePeerTask{Status: ours, RemoteStatus: string(s.State)}
	switch {
	case s.State == proto.TaskStateCompleted && (r.w.Status == "cancelling" || !r.w.Active):
		up.Status = "completed" // its artifacts are no longer wanted
	case s.State == proto.TaskStateCompleted:
		return r.reconcile(ctx, s, whole)
	case awaitsInput(s.State) && s.Message != nil && s.Message.ID != "" && s.Message.ID == r.answered:
		up.Status = "running" // it has the answer and didn't get to it yet
	case awaitsInput(s.State):
		up.Question, up.Message, up.Reason = peerQuestion(s.Message), recordedMessage(s.Message), wire.Shorten(textOf(s.Message), 300)
		if s.Message != nil {
			up.RemoteMessageID = wire.Shorten(s.Message.ID, 1000)
		}
	case s.State.Terminal():
		up.Reason, up.Message = wire.Shorten(textOf(s.Message), 2000), recordedMessage(s.Message)
	}
	r.over = s.State.Terminal()
	return r.reportStatus(ctx, up)
}

// applyMessage takes a message in place of a task: the work is done, and this is all of
// it. Its id stands for the task that the peer doesn't have.
func (r *run) applyMessage(ctx context.Context, m *proto.Message) error {
	if r.w.Link != nil {
		return nil // something beside the task
	}
	id := proto.TaskID(wire.Shorten("message/"+m.ID, 200))
	if err := r.joinTask(ctx, proto.TaskInfo{TaskID: id, ContextID: m.ContextID}); err != nil {
		return err
	}
	answer := &proto.Task{ID: id, ContextID: m.ContextID, Artifacts: []*proto.Artifact{{ID: "message", Name: "answer", Parts: m.Parts}}}
	return r.reconcile(ctx, &proto.TaskStatus{State: proto.TaskStateCompleted, Message: m}, answer)
}

// passAnswer passes an answer on, unless the peer has it or doesn't wait any more.
func (r *run) passAnswer(ctx context.Context) error {
	a := r.w.Answer
	if a.Decision == "cancel" {
		_, err := r.c.rt.Do(ctx, caller(), &command.CancelTask{TaskID: r.taskID, Reason: "what the peer asked was not answered"})
		return markOwnError(err)
	}
	t, err := r.fetchTask(ctx, searchSize)
	if err != nil {
		return err
	}
	if hasMessage(t, a.MessageID) || !awaitsInput(t.Status.State) {
		if err := r.passedOn(ctx, a); err != nil {
			return err
		}
		return r.handlePeerEvent(ctx, t)
	}
	payload := a.Payload
	if a.PayloadRef != "" {
		if payload, err = r.readRef(ctx, a.PayloadRef); err != nil {
			return markOwnError(err)
		}
	}
	m := proto.NewMessageForTask(proto.MessageRoleUser, t, answerParts(a, payload)...)
	m.ID = a.MessageID
	limited, end := context.WithTimeout(ctx, r.c.opt.Timeout)
	defer end()
	res, err := r.line.SendMessage(limited, &proto.SendMessageRequest{Message: m, Config: &proto.SendMessageConfig{ReturnImmediately: true}})
	if err != nil {
		return fmt.Errorf("SendMessage: %w", err)
	}
	if err := r.passedOn(ctx, a); err != nil {
		return err
	}
	if task, ok := res.(*proto.Task); ok {
		return r.handlePeerEvent(ctx, task)
	}
	return nil
}

// passedOn records that the peer has an answer.
func (r *run) passedOn(ctx context.Context, a *command.PeerAnswer) error {
	asked := &proto.Message{}
	if len(a.Question) > 0 && json.Unmarshal(a.Question, asked) == nil {
		r.answered = asked.ID
	}
	r.interval = 0
	return r.reportStatus(ctx, &command.UpdatePeerTask{Status: "running", Reason: "the peer was answered", RemoteMessageID: a.MessageID})
}

// cancelTask tells the peer to stop, once, and then looks until it has.
func (r *run) cancelTask(ctx context.Context) error {
	t, err := r.requestCancel(ctx)
	if err != nil {
		return err
	}
	if err := r.handlePeerEvent(ctx, t); err != nil || t.Status.State.Terminal() {
		return err
	}
	most := r.c.opt.Attempts
	if !r.w.Active {
		most = lastTries
	}
	if r.stops++; r.stops >= most {
		return r.reportStatus(ctx, &command.UpdatePeerTask{Status: "unknown", Final: true, Reason: "the peer was asked to stop and is still running"})
	}
	r.sleep(ctx, min(r.c.opt.MaxPoll, r.c.opt.Poll*time.Duration(r.stops)))
	return nil
}

// requestCancel asks the peer to cancel the task, or how it stands if that was asked.
func (r *run) requestCancel(ctx context.Context) (*proto.Task, error) {
	if r.stopped {
		return r.fetchTask(ctx, 0)
	}
	limited, end := context.WithTimeout(ctx, r.c.opt.Timeout)
	defer end()
	t, err := r.line.CancelTask(limited, &proto.CancelTaskRequest{ID: proto.TaskID(r.w.Link.RemoteTaskID)})
	switch {
	case errors.Is(err, proto.ErrTaskNotCancelable):
		return r.fetchTask(ctx, 0)
	case err != nil:
		return nil, fmt.Errorf("CancelTask: %w", err)
	}
	r.stopped = true
	return t, check(t.ID)
}
