package a2a

import (
	"context"
	"errors"
	"net/http"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/internal/wire"
)

// stream follows a task. It reads the journal as fast as its reader takes what is
// sent, and holds nothing for one that doesn't.
type stream struct {
	s      *Server
	caller command.Caller
	rec    *command.PeerTaskRecord
	// view is this stream's own; told counts those of its updates that were sent.
	view *view
	told int
	// first is sent before anything else: the task, or a message in its place.
	first proto.Event
	// untilAsked ends the stream when the peer is asked for input.
	untilAsked bool
	// channelID is the peer's channel that the stream belongs to; empty for a peer that
	// only reads.
	channelID string
	pieces    pieces
}

// followTask begins a stream. From the beginning: the task as it was when it was
// accepted, and all that happened since; otherwise as it is now.
func (s *Server) followTask(ctx context.Context, c *call, rec *command.PeerTaskRecord, fromBeginning bool) (*stream, error) {
	st := &stream{s: s, caller: c.caller, rec: rec, view: newView(rec, s.opt.fixtureOptions)}
	var err error
	if fromBeginning {
		err = st.begin(ctx)
	} else {
		err = s.catchUp(ctx, c.caller, rec.SessionID, st.view)
	}
	if err != nil {
		return nil, err
	}
	st.first, st.told = st.view.snapshot(nil), len(st.view.updates)
	return st, nil
}

// begin folds the fact with which the task began, and no more.
func (st *stream) begin(ctx context.Context) error {
	events, _, err := st.s.opt.Runtime.Events(ctx, st.caller, st.rec.SessionID, st.view.through, 1)
	if err != nil {
		return err
	}
	for i := range events {
		if _, err := st.view.foldDelivered(&events[i], st.s.referenceReader(ctx, st.caller)); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether nothing more is to be sent.
func (st *stream) over() bool {
	if st.told < len(st.view.updates) {
		return false
	}
	return st.view.ended() || (st.untilAsked && st.view.task.Status.State == proto.TaskStateInputRequired)
}

// run sends updates until the task ends. Idle is called when nothing happened for
// the given time.
func (st *stream) run(ctx context.Context, send func(proto.Event) error, idle time.Duration, beat func() error) error {
	if err := send(st.first); err != nil || st.view == nil || st.over() {
		return err
	}
	sub, err := st.s.opt.Runtime.Subscribe(ctx, st.caller, st.rec.SessionID, st.view.through)
	if err != nil {
		return err
	}
	defer sub.Close()
	read := st.s.referenceReader(ctx, st.caller)
	for !st.over() {
		events, err := channel.NextWithin(ctx, sub, idle)
		if err != nil {
			return err
		}
		if events == nil {
			if err := beat(); err != nil {
				return err
			}
		}
		for i := range events {
			e, err := st.view.foldDelivered(&events[i], read)
			if err != nil {
				return err
			}
			if err := st.sendUpdates(e, send); err != nil {
				return err
			}
			if st.over() {
				return nil
			}
		}
	}
	return nil
}

// sendUpdates sends what follows from a fact.
func (st *stream) sendUpdates(e *event.Event, send func(proto.Event) error) error {
	if e == nil {
		return nil
	}
	if p, ok := e.Payload.(*event.ModelDelta); ok {
		return st.pieces.add(st, e.ModelRequestID, p.Text, send)
	}
	for ; st.told < len(st.view.updates); st.told++ {
		u := st.view.updates[st.told].event
		if a, ok := u.(*proto.TaskArtifactUpdateEvent); ok {
			u = st.pieces.last(st, a)
		}
		if err := send(u); err != nil {
			return err
		}
	}
	return nil
}

// pieces sends an answer while it is being made, as parts of the artifact that it
// will be. An answer after which tools were called is replaced by the next one. The
// newest piece is held back, so that the last one can say that it is.
type pieces struct {
	request string
	sent    string
	held    string
	begun   bool
}

func (p *pieces) add(st *stream, request, text string, send func(proto.Event) error) error {
	if text == "" || st.s.opt.isFixtureAnswer(p.sent+p.held+text) {
		return nil
	}
	if request != p.request {
		*p = pieces{request: request}
	}
	if p.held == "" {
		p.held = text
		return nil
	}
	out := p.update(st, p.held, false)
	p.sent, p.held, p.begun = p.sent+p.held, text, true
	return send(out)
}

// last is the update that completes the artifact of an answer. If its pieces were
// all sent but one, that one is enough.
func (p *pieces) last(st *stream, whole *proto.TaskArtifactUpdateEvent) proto.Event {
	if whole.Artifact.ID != st.answerID() || !p.begun || len(whole.Artifact.Parts) != 1 || whole.Artifact.Parts[0].Text() != p.sent+p.held {
		return whole
	}
	return p.update(st, p.held, true)
}

func (p *pieces) update(st *stream, text string, last bool) *proto.TaskArtifactUpdateEvent {
	return &proto.TaskArtifactUpdateEvent{
		TaskID: st.view.task.ID, ContextID: st.view.task.ContextID, Append: p.begun, LastChunk: last,
		Artifact: &proto.Artifact{ID: st.answerID(), Name: "answer", Parts: textParts(text)},
	}
}

func (st *stream) answerID() proto.ArtifactID { return proto.ArtifactID(artifactOf(st.rec.TurnID)) }

// serve sends a stream as server-sent events. Wrap puts each into the binding's
// form, and failed an error that comes after the first.
func (st *stream) serve(w http.ResponseWriter, r *http.Request, heartbeat time.Duration, wrap func(any) any, failed func(error) any) {
	out := wire.NewSSEWriter(w)
	ctx, leave := st.join(r.Context())
	defer leave()
	err := st.run(ctx, func(e proto.Event) error { return out.Send("", wrap(proto.StreamResponse{Event: e})) }, heartbeat, out.Beat)
	if err != nil && r.Context().Err() == nil && !errors.Is(err, wire.ErrReaderGone) {
		_ = out.Send("", failed(err)) // the last that is tried
	}
}
