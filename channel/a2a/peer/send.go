package peer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

const (
	// maxInput bounds what is read of an input that is behind a reference.
	maxInput = 16 << 20
	// searchPages and searchSize bound the search for a task at a peer; searchSlack
	// is how far its clock may be off.
	searchPages = 10
	searchSize  = 100
	searchSlack = 5 * time.Minute
)

// sendTask gives the task to the peer, unless it is to be stopped.
func (r *run) sendTask(ctx context.Context) error {
	parts, err := r.peerInput(ctx)
	if err != nil {
		return markOwnError(err)
	}
	_, err = r.c.rt.Do(ctx, caller(), r.linkCommand(nil))
	if fault.KindOf(err) == fault.Conflict && err != nil {
		return nil //nolint:nilerr // it was stopped before: what is to be done is decided anew
	}
	if err != nil {
		return markOwnError(fmt.Errorf("peer: task %s: %w", r.taskID, err))
	}
	r.unsent = false
	m := proto.NewMessage(proto.MessageRoleUser, parts...)
	m.ID = r.w.MessageID
	req := &proto.SendMessageRequest{Message: m, Config: &proto.SendMessageConfig{ReturnImmediately: true}}
	if r.line.streams() {
		return r.consumeStream(ctx, true, func(ctx context.Context) iter.Seq2[proto.Event, error] {
			return r.line.SendStreamingMessage(ctx, req)
		})
	}
	req.Config.PushConfig = r.pushConfig()
	return r.postMessage(ctx, req)
}

// postMessage sends a message and takes the answer.
func (r *run) postMessage(ctx context.Context, req *proto.SendMessageRequest) error {
	limited, end := context.WithTimeout(ctx, r.c.opt.Timeout)
	defer end()
	limited, reached := traced(limited)
	res, err := r.line.SendMessage(limited, req)
	if err != nil {
		r.unsent = unsent(err, reached.Load())
		return fmt.Errorf("SendMessage: %w", err)
	}
	e, ok := res.(proto.Event)
	if !ok {
		return errNonsense
	}
	return r.handlePeerEvent(ctx, e)
}

// peerInput is what the peer gets.
func (r *run) peerInput(ctx context.Context) (proto.ContentParts, error) {
	raw := r.w.Input
	if r.w.InputRef != "" {
		var err error
		if raw, err = r.readRef(ctx, r.w.InputRef); err != nil {
			return nil, err
		}
	}
	var list []command.Part
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("peer: the input of task %s: %w", r.taskID, err)
	}
	var out proto.ContentParts
	for i := range list {
		p, err := r.inputPart(ctx, &list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// inputPart is one part of an input in the protocol's form.
func (r *run) inputPart(ctx context.Context, p *command.Part) (*proto.Part, error) {
	var out *proto.Part
	switch {
	case p.Data != "":
		b, err := base64.StdEncoding.DecodeString(p.Data)
		if err != nil {
			return nil, fmt.Errorf("peer: the input of task %s: %w", r.taskID, err)
		}
		out = proto.NewRawPart(b)
	case p.Ref != "":
		b, err := r.readRef(ctx, p.Ref)
		if err != nil {
			return nil, err
		}
		out = proto.NewRawPart(b)
	case p.URL != "":
		out = proto.NewFileURLPart(proto.URL(p.URL), p.MediaType)
	case p.Text == "" && p.Path != "":
		out = proto.NewTextPart("(the file " + p.Path + ", which is not sent)")
	default:
		out = proto.NewTextPart(p.Text)
	}
	out.Filename, out.MediaType = p.Name, p.MediaType
	return out, nil
}

// readRef returns the bytes behind a reference of ours.
func (r *run) readRef(ctx context.Context, ref string) (event.Raw, error) {
	o, err := r.c.rt.Output(ctx, caller(), ref)
	if err != nil {
		return nil, fmt.Errorf("peer: task %s: %w", r.taskID, err)
	}
	defer o.Content.Close()
	b, err := io.ReadAll(io.LimitReader(o.Content, maxInput))
	if err != nil {
		return nil, fmt.Errorf("peer: task %s: %w", r.taskID, err)
	}
	return b, nil
}

// linkCommand is the command that joins the attempt to a task at the peer, or says that its
// message is about to be sent.
func (r *run) linkCommand(at *proto.TaskInfo) *command.LinkPeerTask {
	out := &command.LinkPeerTask{
		TaskID: r.w.TaskID, RunID: r.w.RunID, ChannelID: r.channelID(), NativeProtocol: Protocol, RemoteMessageID: r.w.MessageID,
		RemoteAgentRef: wire.Shorten(r.w.Peer, 1000),
	}
	if at == nil {
		out.Reason = wire.Shorten("to "+r.line.card.Name, 1000)
		return out
	}
	out.RemoteTaskID, out.RemoteContextID, out.Card = string(at.TaskID), wire.Shorten(at.ContextID, 1000), r.line.raw
	switch {
	case r.line.streams() && !r.deaf:
		out.DeliveryMechanism = "streaming"
	case r.pushConfig() != nil:
		out.DeliveryMechanism = "push"
	default:
		out.DeliveryMechanism = "polling"
	}
	return out
}

// joinTask records the task at the peer that the attempt is, once.
func (r *run) joinTask(ctx context.Context, at proto.TaskInfo) error {
	if err := check(at.TaskID); err != nil {
		return err
	}
	if have := r.w.Link; have != nil {
		if have.RemoteTaskID != string(at.TaskID) {
			return fmt.Errorf("%w: it is about task %s", errNonsense, wire.Shorten(string(at.TaskID), 100))
		}
		return nil
	}
	if _, err := r.c.rt.Do(ctx, caller(), r.linkCommand(&at)); err != nil {
		return markOwnError(fmt.Errorf("peer: task %s: %w", r.taskID, err))
	}
	w, err := r.c.work(ctx, r.taskID)
	if err != nil {
		return markOwnError(err)
	}
	if w.RunID != r.w.RunID || w.Link == nil {
		return markOwnError(fault.New(fault.Conflict, "run %s is over", r.w.RunID))
	}
	r.w = w
	return nil
}

// findSentMessage looks whether the peer has a message that was about to be sent.
func (r *run) findSentMessage(ctx context.Context) error {
	task, certain, err := r.searchTasks(ctx)
	switch {
	case err != nil && kindOf(err) != refused:
		return err
	case task != nil:
		return r.handlePeerEvent(ctx, task)
	case err == nil && certain && r.w.Status == "cancelling":
		return r.reportStatus(ctx, &command.UpdatePeerTask{Status: "cancelled", Reason: "the peer never got the task"})
	case err == nil && certain:
		r.unsent = true // it is sent next, with the same id
		return nil
	}
	return r.reportStatus(ctx, &command.UpdatePeerTask{
		Status: "unknown", Reason: "it is not known whether the peer has the task, and the peer can't be asked; resume_task looks again, retry_task sends another",
	})
}

// searchTasks walks through the peer's tasks. Certain says that a message which isn't
// found is not there: every task that was listed shows its messages.
func (r *run) searchTasks(ctx context.Context) (task *proto.Task, certain bool, err error) {
	after, history := r.w.StartedAt.Add(-searchSlack).UTC(), searchSize
	req := &proto.ListTasksRequest{PageSize: searchSize, HistoryLength: &history, StatusTimestampAfter: &after}
	certain = true
	for range searchPages {
		page, err := r.listTasks(ctx, req)
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tasks {
			if t == nil {
				continue
			}
			if hasMessage(t, r.w.MessageID) {
				return t, true, nil
			}
			certain = certain && len(t.History) > 0
		}
		if page.NextPageToken == "" {
			return nil, certain, nil
		}
		req.PageToken = page.NextPageToken
	}
	return nil, false, nil
}

func (r *run) listTasks(ctx context.Context, req *proto.ListTasksRequest) (*proto.ListTasksResponse, error) {
	limited, end := context.WithTimeout(ctx, r.c.opt.Timeout)
	defer end()
	page, err := r.line.ListTasks(limited, req)
	if err != nil {
		return nil, fmt.Errorf("ListTasks: %w", err)
	}
	return page, nil
}

// hasMessage reports whether a message is part of a task.
func hasMessage(t *proto.Task, id string) bool {
	for _, m := range t.History {
		if m != nil && m.ID == id {
			return true
		}
	}
	return false
}

// item is an event of a stream, or its error.
type item struct {
	event proto.Event
	err   error
}

// consumeStream takes the events of a stream until it ends or something else is to be
// done. Sending says that the stream began with our message.
func (r *run) consumeStream(ctx context.Context, sending bool, open func(context.Context) iter.Seq2[proto.Event, error]) error {
	streaming, end := context.WithCancel(ctx)
	streaming, reached := traced(streaming)
	items := make(chan item)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(items)
		for e, err := range open(streaming) {
			select {
			case items <- item{e, err}:
			case <-streaming.Done():
				return
			}
		}
	})
	defer wg.Wait()
	defer end()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the runtime stops
		case it, ok := <-items:
			if !ok {
				return r.streamEnded(sending)
			}
			if it.err != nil {
				return r.streamBroken(sending, it.err, reached.Load())
			}
			if err := r.handlePeerEvent(ctx, it.event); err != nil || r.over {
				return err
			}
		case <-r.woken:
			if r.w.Link != nil && r.stepChanged(ctx) {
				return nil
			}
		}
	}
}

// streamEnded deals with the end of a stream: what became of the task is asked next.
func (r *run) streamEnded(sending bool) error {
	if sending && r.w.Link == nil && r.w.Active && !r.got.done {
		return errSilence
	}
	return nil
}

// streamBroken deals with a stream that ended with an error. A task that is known is asked
// for next, which tells more than the stream did.
func (r *run) streamBroken(sending bool, err error, reached bool) error {
	if r.w.Link == nil {
		r.unsent = sending && unsent(err, reached)
		return fmt.Errorf("the stream: %w", err)
	}
	r.got = gathered{broken: true}
	if !sending && kindOf(err) == refused {
		r.deaf = true // it can't be subscribed to
	}
	return nil
}
