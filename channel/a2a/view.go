package a2a

import (
	"encoding/json"
	"slices"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// view is a task as its peer sees it: a fold over the facts of the task's turn. It
// is derived and can be thrown away. It is for one goroutine at a time.
type view struct {
	peer     state.PeerTask
	task     proto.Task
	fixtures fixtureOptions
	// through is the last fact that was looked at.
	through uint64
	// turn is what the task's turn waits for and how it ended; all that it said would
	// be too much to keep. answer is what its model said last.
	turn   turnview.View
	answer string
	// updates are what a peer gets, in order, except pieces of answers.
	updates []update
	// size is about what the contents take in memory.
	size int
}

// update is something that a peer gets, and the fact that it follows from.
type update struct {
	sequence uint64
	event    proto.Event
}

// reader returns the content behind a reference of ours.
type reader func(ref string) ([]byte, error)

func newView(rec *command.PeerTaskRecord, fixtures fixtureOptions) *view {
	v := &view{fixtures: fixtures, through: rec.Sequence - 1, turn: turnview.View{TurnID: rec.TurnID}}
	v.peer = state.PeerTask{
		TaskID: rec.TaskID, TurnID: rec.TurnID, Direction: state.PeerInbound, RemoteTaskID: rec.RemoteTaskID, Status: state.PeerIdle,
	}
	v.task = proto.Task{
		ID: proto.TaskID(rec.RemoteTaskID), ContextID: rec.RemoteContextID,
		Metadata: map[string]any{"agentd": map[string]any{"sessionId": rec.SessionID, "taskId": rec.TaskID, "turnId": rec.TurnID}},
	}
	return v
}

// ended reports whether nothing more can happen to the task.
func (v *view) ended() bool { return v.task.Status.State.Terminal() }

// concerns reports whether a fact may change the view; its payload need not be
// decoded otherwise.
func (v *view) concerns(e *event.Event) bool {
	if e.TaskID != v.peer.TaskID || (e.TurnID != "" && e.TurnID != v.peer.TurnID) {
		return false
	}
	switch e.Type { //nolint:exhaustive // the others say nothing to a peer
	case event.TypeChannelPeerTaskLinked, event.TypeChannelPeerTaskUpdated, event.TypeTurnStarted, event.TypeTurnCompleted, event.TypeTurnFailed,
		event.TypeActionRequired, event.TypeActionResolved, event.TypeModelCompleted, event.TypeArtifactChanged:
		return true
	}
	return false
}

// apply folds a fact that concerns the view.
func (v *view) apply(e *event.Event, read reader) error {
	if v.ended() {
		return nil
	}
	switch p := e.Payload.(type) {
	case *event.PeerTaskLinked:
		if p.RemoteTaskID != v.peer.RemoteTaskID {
			return nil
		}
		v.setStatus(e, nil)
		v.updates = nil // the task itself is the first thing that a peer gets
		return v.appendPeerMessage(p.Message, p.MessageRef, read)
	case *event.PeerTaskUpdated:
		return v.appendPeerMessage(p.Message, p.MessageRef, read)
	case *event.ModelCompleted:
		if !turnview.Speaks(p.Purpose) {
			return nil
		}
		var err error
		v.answer, err = turnview.AnswerText(p, read)
		v.size += len(v.answer)
		return err
	case *event.ArtifactChanged:
		return v.produced(e, p, read)
	case *event.TurnCompleted:
		v.deliver(e, p)
	}
	v.turn.Fold(e)
	if v.peer.Follow(e) || v.asks(e) {
		v.setStatus(e, v.statusMessage(e))
	}
	return nil
}

// asks reports whether a fact asks the peer something more while it waits already.
func (v *view) asks(e *event.Event) bool {
	p, ok := e.Payload.(*event.ActionRequired)
	return ok && state.AsksPeer(p.ActionType) && isInterrupted(theirState(v.peer.Status))
}

// actions are those that the peer can answer, oldest first.
func (v *view) actions() []turnview.Action {
	return slices.DeleteFunc(slices.Clone(v.turn.Actions), func(a turnview.Action) bool { return !state.AsksPeer(a.ActionType) })
}

// setStatus gives the task its state. A message that the last one had becomes part
// of the history: it was said.
func (v *view) setStatus(e *event.Event, message *proto.Message) {
	if old := v.task.Status.Message; old != nil {
		v.task.History = append(v.task.History, old)
	}
	at := e.Time.UTC().Truncate(time.Millisecond)
	v.task.Status = proto.TaskStatus{State: theirState(v.peer.Status), Message: message, Timestamp: &at}
	v.updates = append(v.updates, update{e.Sequence, &proto.TaskStatusUpdateEvent{
		TaskID: v.task.ID, ContextID: v.task.ContextID, Status: v.task.Status,
	}})
}

// appendPeerMessage adds a message of the peer to the history.
func (v *view) appendPeerMessage(message event.Raw, ref string, read reader) error {
	if len(message) == 0 && ref != "" {
		b, err := read(ref)
		if err != nil {
			return err
		}
		message = b
	}
	if len(message) == 0 {
		return nil
	}
	v.size += len(message)
	m := &proto.Message{}
	if err := json.Unmarshal(message, m); err != nil {
		return nil //nolint:nilerr // a message that can't be shown isn't worth losing the task for
	}
	m.TaskID, m.ContextID = v.task.ID, v.task.ContextID
	v.task.History = append(v.task.History, m)
	return nil
}

// deliver makes the answer of a turn that ended well an artifact.
func (v *view) deliver(e *event.Event, p *event.TurnCompleted) {
	var parts proto.ContentParts
	switch {
	case p.Outcome == "refusal":
		return
	case len(p.StructuredOutput) > 0:
		var value any
		if json.Unmarshal(p.StructuredOutput, &value) == nil {
			part := proto.NewDataPart(value)
			part.MediaType = "application/json"
			parts = proto.ContentParts{part}
		}
	case v.fixtures.fixtureParts(v.answer) != nil:
		parts = v.fixtures.fixtureParts(v.answer)
	case v.answer != "":
		parts = textParts(v.answer)
	}
	if len(parts) > 0 {
		v.putArtifact(e.Sequence, &proto.Artifact{ID: proto.ArtifactID(artifactOf(v.peer.TurnID)), Name: "answer", Parts: parts})
	}
}

func textParts(text string) proto.ContentParts {
	part := proto.NewTextPart(text)
	part.MediaType = "text/plain"
	return proto.ContentParts{part}
}

// putArtifact puts an artifact into the task, in place of one with the same id.
func (v *view) putArtifact(sequence uint64, a *proto.Artifact) {
	v.task.Artifacts = slices.DeleteFunc(slices.Clone(v.task.Artifacts), func(old *proto.Artifact) bool { return old.ID == a.ID })
	v.task.Artifacts = append(v.task.Artifacts, a)
	v.updates = append(v.updates, update{sequence, &proto.TaskArtifactUpdateEvent{
		TaskID: v.task.ID, ContextID: v.task.ContextID, Artifact: a, LastChunk: true,
	}})
}

// maxInlineFile is the largest produced file that is part of an artifact itself.
const maxInlineFile = 4 << 20

// produced makes a deliverable that the work made an artifact.
func (v *view) produced(e *event.Event, p *event.ArtifactChanged, read reader) error {
	if p.Change == "deleted" || p.Change == "observed" || e.ArtifactID == artifactOf(v.peer.TurnID) {
		return nil // the answer is delivered with the end of the turn
	}
	part := &proto.Part{Filename: p.Title, MediaType: p.MediaType}
	switch {
	case p.ReadRef != "" && p.SizeBytes <= maxInlineFile:
		b, err := read(p.ReadRef)
		if err != nil {
			return err
		}
		if b == nil && p.SizeBytes > 0 {
			return nil // it is gone
		}
		part.Content = proto.Raw(b)
		v.size += len(b)
	case webURL(p.URI):
		part.Content = proto.URL(p.URI)
	default:
		return nil // a peer can't reach it
	}
	v.putArtifact(e.Sequence, &proto.Artifact{
		ID: proto.ArtifactID(e.ArtifactID), Name: orElse(p.Title, e.ArtifactID), Parts: proto.ContentParts{part},
	})
	return nil
}

// snapshot returns the task with at most n messages of its history; nil is all.
func (v *view) snapshot(n *int) *proto.Task {
	t := v.task
	t.History, t.Artifacts = lastMessages(t.History, n), append([]*proto.Artifact(nil), t.Artifacts...)
	return &t
}

func lastMessages(list []*proto.Message, n *int) []*proto.Message {
	if n != nil && *n < len(list) {
		list = list[len(list)-*n:]
	}
	return append([]*proto.Message(nil), list...)
}
