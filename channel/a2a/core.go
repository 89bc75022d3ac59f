package a2a

import (
	"context"
	"errors"
	"fmt"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel"
	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// sent is what became of a message: a task, or a message in its place.
type sent struct {
	rec *command.PeerTaskRecord
	// created says that the message began the task.
	created bool
	message *proto.Message
}

// submitMessage takes a message: it begins a task, or goes to the one that it names.
func (s *Server) submitMessage(ctx context.Context, c *call, req *proto.SendMessageRequest, how string) (*sent, error) {
	if err := s.checkMessage(req.Message); err != nil {
		return nil, err
	}
	if err := checkHistory(historyOf(req.Config)); err != nil {
		return nil, err
	}
	if cfg := req.Config; cfg != nil && cfg.PushConfig != nil {
		if err := s.checkPush(cfg.PushConfig); err != nil {
			return nil, err
		}
		how = "push"
	}
	var out *sent
	var err error
	if req.Message.TaskID != "" {
		out, err = s.goOn(ctx, c, req.Message)
	} else {
		out, err = s.beginTask(ctx, c, req.Message, how)
	}
	if err != nil || out.rec == nil {
		return out, err
	}
	if cfg := req.Config; cfg != nil && cfg.PushConfig != nil {
		if err := s.setPush(ctx, c, out.rec, cfg.PushConfig, shortID("push_", "message", req.Message.ID)); err != nil {
			return nil, err
		}
	}
	s.teller.track(c.caller.Account, out.rec)
	return out, nil
}

// beginTask makes a message a turn of the context's session.
func (s *Server) beginTask(ctx context.Context, c *call, m *proto.Message, how string) (*sent, error) {
	account, seed := c.caller.Account, m.ID
	if direct := s.opt.fixtureMessage(m, account); direct != nil {
		return &sent{message: direct}, nil
	}
	marker := s.opt.fixtureMark(m.ID)
	if marker != "" {
		seed += random() // the test kit uses its message ids again for new tasks
	}
	contextID := m.ContextID
	if contextID == "" {
		contextID = contextOf(account, seed)
	}
	taskID := taskOf(account, contextID, seed)
	in, err := turnInput(m, marker)
	if err != nil {
		return nil, err
	}
	step, err := s.peerStep(c.caller, taskID, contextID, m)
	if err != nil {
		return nil, err
	}
	step.DeliveryMechanism = how
	sessionID := sessionOf(account, contextID)
	if err := s.enrolPeer(ctx, c, sessionID); err != nil {
		return nil, err
	}
	_, err = s.runCommand(ctx, c, &command.SubmitTurn{
		SessionID: sessionID, Create: true, TurnID: turnOf(account, taskID), Input: in, Peer: step,
	})
	rec, missing := s.findTaskRecord(ctx, c, taskID)
	switch {
	case err != nil && fault.KindOf(err) == fault.Conflict && missing == nil:
		return nil, badParam("message.messageId", "was used before with different content; use a new messageId")
	case err != nil:
		return nil, err
	}
	if missing != nil {
		return nil, missing
	}
	return &sent{rec: rec, created: true}, nil
}

// peerStep is a peer's step in its own names.
func (s *Server) peerStep(caller command.Caller, taskID, contextID string, m *proto.Message) (*command.PeerStep, error) {
	step := &command.PeerStep{
		ChannelID: channelOf(caller), NativeProtocol: Protocol, RemoteTaskID: taskID, RemoteContextID: contextID,
	}
	if m == nil {
		return step, nil
	}
	body, err := recordedMessage(m)
	if err != nil {
		return nil, badParam("message", "can't be read")
	}
	step.RemoteMessageID, step.Message = m.ID, body
	return step, nil
}

// goOn takes a message to a task that exists: an answer, or more to think of.
func (s *Server) goOn(ctx context.Context, c *call, m *proto.Message) (*sent, error) {
	rec, err := s.findTaskRecord(ctx, c, string(m.TaskID))
	if err != nil {
		return nil, err
	}
	if m.ContextID != "" && m.ContextID != rec.RemoteContextID {
		return nil, badParam("message.contextId", "is not the context of task %s", m.TaskID)
	}
	if err := s.enrolPeer(ctx, c, rec.SessionID); err != nil {
		return nil, err
	}
	for range 2 {
		again, err := s.goOnOnce(ctx, c, rec, m)
		if err == nil || !again {
			return &sent{rec: rec}, err
		}
	}
	return nil, errorf(unsupported, "task %s can't accept a message right now; get the task and try again", m.TaskID)
}

// goOnOnce reports whether the task changed under the message, so that it is to be
// looked at again.
func (s *Server) goOnOnce(ctx context.Context, c *call, rec *command.PeerTaskRecord, m *proto.Message) (again bool, err error) {
	var known, ended bool
	var now proto.TaskState
	var waiting []turnview.Action
	err = s.withCurrentView(ctx, c.caller, rec, func(v *view) {
		known, ended, now = v.heard(m.ID) && !s.opt.isFixture(m.ID), v.ended(), v.task.Status.State
		waiting = v.actions()
	})
	switch {
	case err != nil || known:
		return false, err // a message that came before changes nothing
	case ended:
		f := errorf(unsupported, "task %s is %s and accepts no more messages", rec.RemoteTaskID, now)
		f.metadata = map[string]string{"taskId": rec.RemoteTaskID}
		return false, f
	}
	step, err := s.peerStep(c.caller, rec.RemoteTaskID, rec.RemoteContextID, m)
	if err != nil {
		return false, err
	}
	step.RemoteStatus = string(now)
	key := shortID("a2a_", "key", rec.RemoteTaskID, m.ID)
	if s.opt.isFixture(m.ID) {
		key = ""
	}
	if len(waiting) > 0 {
		return s.answerActions(ctx, c, m, waiting, step, key)
	}
	return s.steerTurn(ctx, c, rec, m, step, key)
}

// heard reports whether a message is part of the task already.
func (v *view) heard(messageID string) bool {
	for _, m := range v.task.History {
		if m.ID == messageID && m.Role == proto.MessageRoleUser {
			return true
		}
	}
	return false
}

func (s *Server) answerActions(ctx context.Context, c *call, m *proto.Message, waiting []turnview.Action, step *command.PeerStep, key string) (again bool, err error) {
	r, err := replyTo(m, waiting)
	if err != nil {
		return false, err
	}
	if mark := s.opt.fixtureMark(m.ID); mark != "" {
		r.Payload = event.Raw(fmt.Sprintf("%q", mark))
	}
	_, err = s.runCommand(ctx, c, &command.RespondAction{
		Mutation: command.Mutation{IdempotencyKey: key}, ActionID: r.ActionID, Decision: r.Decision, Scope: r.Scope, Payload: r.Payload, Reason: r.Reason,
		Peer: step,
	})
	return fault.KindOf(err) == fault.Conflict, err
}

// steerTurn adds a message to the task's running turn.
func (s *Server) steerTurn(ctx context.Context, c *call, rec *command.PeerTaskRecord, m *proto.Message, step *command.PeerStep, key string) (again bool, err error) {
	in, err := turnInput(m, "")
	if err != nil {
		return false, err
	}
	_, err = s.runCommand(ctx, c, &command.SubmitTurn{
		Mutation: command.Mutation{IdempotencyKey: key}, SessionID: rec.SessionID, ThreadID: rec.ThreadID, Input: in, Peer: step,
		Options: &event.TurnOptions{QueuePolicy: "steer", ExpectedTurnID: rec.TurnID},
	})
	return fault.KindOf(err) == fault.Conflict, err
}

func historyOf(cfg *proto.SendMessageConfig) *int {
	if cfg == nil {
		return nil
	}
	return cfg.HistoryLength
}

func checkHistory(n *int) error {
	if n != nil && *n < 0 {
		return badParam("historyLength", "is negative")
	}
	return nil
}

// sendMessage is the operation SendMessage. Unless told to return at once it waits
// until the task ends or waits for the peer; a peer that goes away in the meantime doesn't
// end the task.
func (s *Server) sendMessage(ctx context.Context, c *call, req *proto.SendMessageRequest) (any, error) {
	out, err := s.submitMessage(ctx, c, req, "polling")
	if err != nil {
		return nil, err
	}
	if out.message != nil {
		return map[string]any{"message": out.message}, nil
	}
	if req.Config == nil || !req.Config.ReturnImmediately {
		if err := s.waitForTask(ctx, c, out.rec); err != nil {
			return nil, err
		}
	}
	t, err := s.taskNow(ctx, c.caller, out.rec, historyOf(req.Config))
	return map[string]any{"task": t}, err
}

// waitForTask returns when a task ended or waits for its peer.
func (s *Server) waitForTask(ctx context.Context, c *call, rec *command.PeerTaskRecord) error {
	st, err := s.followTask(ctx, c, rec, false)
	if err != nil || isInterrupted(st.view.task.Status.State) {
		return err
	}
	err = st.run(ctx, func(proto.Event) error {
		if isInterrupted(st.view.task.Status.State) {
			return errReached
		}
		return nil
	}, s.opt.Heartbeat, func() error { return nil })
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}

// errReached ends the walk of a wait.
var errReached = errors.New("a2a: the state was reached")

// sendStreaming is the operation SendStreamingMessage.
func (s *Server) sendStreaming(ctx context.Context, c *call, req *proto.SendMessageRequest) (*stream, error) {
	out, err := s.submitMessage(ctx, c, req, "streaming")
	if err != nil {
		return nil, err
	}
	if out.message != nil {
		return &stream{first: out.message}, nil
	}
	st, err := s.followTask(ctx, c, out.rec, out.created)
	if err != nil {
		return nil, err
	}
	st.channelID = channelOf(c.caller)
	st.untilAsked = true
	return st, nil
}

// subscribe is the operation SubscribeToTask.
func (s *Server) subscribe(ctx context.Context, c *call, req *proto.SubscribeToTaskRequest) (*stream, error) {
	rec, err := s.findTaskRecord(ctx, c, string(req.ID))
	if err != nil {
		return nil, err
	}
	st, err := s.followTask(ctx, c, rec, false)
	if err != nil {
		return nil, err
	}
	if st.view.ended() {
		f := errorf(unsupported, "task %s is %s: there is nothing to follow", req.ID, st.view.task.Status.State)
		f.metadata = map[string]string{"taskId": string(req.ID)}
		return nil, f
	}
	if c.role.Allows(command.RoleClient) {
		st.channelID, err = channelOf(c.caller), s.enrolPeer(ctx, c, rec.SessionID)
	}
	return st, err
}

// getTask is the operation GetTask.
func (s *Server) getTask(ctx context.Context, c *call, req *proto.GetTaskRequest) (*proto.Task, error) {
	if err := checkHistory(req.HistoryLength); err != nil {
		return nil, err
	}
	rec, err := s.findTaskRecord(ctx, c, string(req.ID))
	if err != nil {
		return nil, err
	}
	return s.taskNow(ctx, c.caller, rec, req.HistoryLength)
}

// cancelTask is the operation CancelTask.
func (s *Server) cancelTask(ctx context.Context, c *call, req *proto.CancelTaskRequest) (*proto.Task, error) {
	rec, err := s.findTaskRecord(ctx, c, string(req.ID))
	if err != nil {
		return nil, err
	}
	t, err := s.taskNow(ctx, c.caller, rec, nil)
	if err != nil {
		return nil, err
	}
	if !t.Status.State.Terminal() {
		step, err := s.peerStep(c.caller, rec.RemoteTaskID, rec.RemoteContextID, nil)
		if err != nil {
			return nil, err
		}
		step.RemoteStatus = string(t.Status.State)
		res, err := channel.ResultOf[command.InterruptTurnResult](s.runCommand(ctx, c, &command.InterruptTurn{
			SessionID: rec.SessionID, TurnID: rec.TurnID, Reason: "cancelled by the peer", Peer: step,
		}))
		if err != nil {
			return nil, err
		}
		if res.Interrupted {
			return s.awaitCancelled(ctx, c, rec)
		}
	}
	f := errorf(taskNotCancelable, "task %s has ended", req.ID)
	f.metadata = map[string]string{"taskId": string(req.ID)}
	return nil, f
}

// awaitCancelled returns a task after a cancel request: when it has stopped, or after a while as
// it is.
func (s *Server) awaitCancelled(ctx context.Context, c *call, rec *command.PeerTaskRecord) (*proto.Task, error) {
	st, err := s.followTask(ctx, c, rec, false)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, s.opt.CancelWait)
	defer cancel()
	err = st.run(wait, func(proto.Event) error { return nil }, s.opt.CancelWait+time.Second, func() error { return nil })
	if err != nil && wait.Err() == nil {
		return nil, err
	}
	return s.taskNow(ctx, c.caller, rec, nil)
}
