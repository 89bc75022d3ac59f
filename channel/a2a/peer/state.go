package peer

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
	"agentd/internal/wire"
	"agentd/state"
)

// statuses maps the protocol's states to how a delegated task stands, in our words.
// What a completed one delivered is fetched first. A state that isn't here is no
// answer of the protocol.
var statuses = map[proto.TaskState]string{
	proto.TaskStateSubmitted:     "idle",
	proto.TaskStateWorking:       "running",
	proto.TaskStateInputRequired: "waiting_input",
	proto.TaskStateAuthRequired:  "waiting_permission",
	proto.TaskStateCompleted:     unreconciled,
	proto.TaskStateFailed:        "failed",
	proto.TaskStateRejected:      "rejected",
	proto.TaskStateCanceled:      "cancelled",
}

const unreconciled = "completed_unreconciled"

// awaitsInput reports whether a peer waits for us.
func awaitsInput(s proto.TaskState) bool {
	return s == proto.TaskStateInputRequired || s == proto.TaskStateAuthRequired
}

// step is what is to be done next about a task.
type step int

const (
	// stop: nothing, until something changes.
	stop step = iota
	// send the message to the peer.
	send
	// find out whether the peer has the message.
	find
	// follow the task there.
	follow
	// reply with the answer to what the peer asked.
	reply
	// cancel the task there.
	cancel
	// abandon: the task is no longer needed here, so the peer is asked to stop.
	abandon
)

// nextStep decides what is to be done about a task. Unsent says that the peer can't have
// the message although it was about to be sent, fresh that this process has not
// tried the attempt yet.
func nextStep(w *command.PeerWork, unsent, fresh bool) step {
	switch {
	case w.RunID == "":
		return stop
	case !w.Active && w.Link != nil && atWork(w.Link.Recovery):
		return abandon
	case !w.Active:
		return stop
	case w.Status == "blocked" && awaitsResume(w.NativeStatus) && !fresh:
		return stop
	case w.Link == nil && (!w.Sent || unsent && w.Status != "cancelling"):
		return send
	case w.Link == nil:
		return find
	case w.Status == "cancelling":
		return cancel
	case w.Answer != nil:
		return reply
	}
	return follow
}

// atWork reports whether a task with a recovery state may still be worked on there.
func atWork(recovery string) bool {
	return slices.Contains([]string{"running", "idle", "waiting"}, recovery)
}

// awaitsResume reports whether a blocked task waits for resume_task.
func awaitsResume(native string) bool {
	return native == "peer_unreachable" || native == "peer_unknown"
}

// textOf is the text of a message, for people.
func textOf(m *proto.Message) string {
	if m == nil {
		return ""
	}
	return textIn(m.Parts)
}

func textIn(parts proto.ContentParts) string {
	var texts []string
	for _, p := range parts {
		if p != nil {
			if t, ok := p.Content.(proto.Text); ok {
				texts = append(texts, string(t))
			}
		}
	}
	return strings.Join(texts, "\n")
}

// detail is what a peer's question says beside its text, if the peer is one that
// says it.
type detail struct {
	ActionID   string          `json:"actionId"`
	ActionType string          `json:"actionType"`
	ToolName   string          `json:"toolName"`
	Decisions  []string        `json:"decisions"`
	Schema     json.RawMessage `json:"schema"`
}

func detailOf(m *proto.Message) detail {
	var d detail
	if m == nil {
		return d
	}
	for _, p := range m.Parts {
		if p == nil {
			continue
		}
		if data, ok := p.Content.(proto.Data); ok {
			b, err := json.Marshal(data.Value)
			if err == nil && json.Unmarshal(b, &d) == nil && d.ActionID != "" {
				return d
			}
		}
	}
	return detail{}
}

// peerQuestion is what a peer asks, as an action shows it.
func peerQuestion(m *proto.Message) *command.PeerQuestion {
	d := detailOf(m)
	q := &command.PeerQuestion{Prompt: wire.Shorten(textOf(m), 60000)}
	if q.Prompt == "" {
		q.Prompt = "The peer waits for an answer and doesn't say for which."
	}
	for _, x := range d.Decisions {
		if slices.Contains(event.EnumValues("@actionAnswer"), x) && !slices.Contains(q.Decisions, x) {
			q.Decisions = append(q.Decisions, x)
		}
	}
	if len(d.Schema) > 0 && d.Schema[0] == '{' {
		q.Schema = d.Schema
	}
	if state.AsksPermission(d.ActionType) {
		q.Permission = wire.Shorten(cmp.Or(d.ToolName, d.ActionType), 200)
	}
	return q
}

// recordedMessage is a message as facts keep it; nothing if it is too large.
func recordedMessage(m *proto.Message) event.Raw {
	if m == nil {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil || len(b) > 16<<10 {
		return nil
	}
	return b
}

// answerParts are the parts of a message that answers what a peer asked.
func answerParts(a *command.PeerAnswer, payload event.Raw) proto.ContentParts {
	asked := &proto.Message{}
	if len(a.Question) > 0 && json.Unmarshal(a.Question, asked) == nil {
		if d := detailOf(asked); d.ActionID != "" {
			data := map[string]any{"actionId": d.ActionID, "decision": a.Decision}
			if len(payload) > 0 {
				data["payload"] = payload
			}
			if a.Reason != "" {
				data["reason"] = a.Reason
			}
			return proto.ContentParts{proto.NewDataPart(data)}
		}
	}
	var text string
	var value any
	switch {
	case len(payload) == 0:
		return proto.ContentParts{proto.NewTextPart(plainDecision(a.Decision))}
	case json.Unmarshal(payload, &text) == nil:
		return proto.ContentParts{proto.NewTextPart(text)}
	case json.Unmarshal(payload, &value) == nil:
		return proto.ContentParts{proto.NewDataPart(value)}
	}
	return proto.ContentParts{proto.NewTextPart(string(payload))}
}

// plainDecision is a decision without more, in words that a peer may understand.
func plainDecision(d string) string {
	if d == "submit" {
		return "Go on."
	}
	return d
}
