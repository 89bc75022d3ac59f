package agentd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/state"
	"agentd/tool"
)

// replayChannel is the channel that the reports of other agents come through.
const replayChannel = "chan_replay"

// otherAgent is another agent whose work is played.
type otherAgent struct {
	subagentID, taskID, runID string
	// ids are those of the replay by those of the recording: attempts and questions.
	ids map[string]string
}

// elsewhere plays the work of another agent as soon as it is there: nothing in it
// depends on what goes on meanwhile.
func (x *parties) elsewhere(ctx context.Context, e *event.Event) error {
	p, ok := e.Payload.(*event.SubagentSpawned)
	if !ok || p.Peer == "" || x.p.with.Live != nil {
		return nil
	}
	x.away[e.SubagentID] = true
	recorded := x.otherAgent(ctx, e, p)
	if recorded == nil {
		return nil // the recording has no such agent
	}
	o := &otherAgent{subagentID: e.SubagentID, taskID: p.PeerTaskID, ids: map[string]string{}}
	for i := range recorded.Steps {
		if err := x.step(ctx, o, &recorded.Steps[i]); err != nil {
			return fmt.Errorf("the work of %s: %w", p.Peer, err)
		}
	}
	return x.worksOn(ctx, o)
}

// otherAgent returns what the recording has of an agent.
func (x *parties) otherAgent(ctx context.Context, e *event.Event, p *event.SubagentSpawned) *evidence.CaseAgent {
	if x.p.c.Parties == nil {
		return nil
	}
	is := func(a evidence.CaseAgent) bool { return a.Spawn != nil && a.SubagentID == e.SubagentID }
	if e.ToolCallID != "" && e.ToolCallID != event.NotApplicable {
		call := x.recordedCall(ctx, p.ParentThreadID, e.ToolCallID)
		is = func(a evidence.CaseAgent) bool { return a.Spawn == nil && call != "" && a.ToolCallID == call }
	}
	if i := slices.IndexFunc(x.p.c.Parties.Agents, is); i >= 0 {
		return &x.p.c.Parties.Agents[i]
	}
	return nil
}

// step does a step of another agent.
func (x *parties) step(ctx context.Context, o *otherAgent, s *evidence.CaseStep) error {
	if s.Link != nil || s.Report != nil {
		if err := x.attempt(ctx, o); err != nil {
			return err
		}
	}
	if s.Answer != nil {
		if err := x.question(ctx, o, s.Answer.ActionID); err != nil {
			return err
		}
	}
	do := o.command(s)
	if do == nil {
		return nil
	}
	_, err := x.p.r.Do(ctx, command.Local(), do)
	return err
}

// command is the command of a step, with the ids of the replay.
func (o *otherAgent) command(s *evidence.CaseStep) command.Params {
	switch {
	case s.Link != nil:
		p := *s.Link
		o.ids[p.RunID] = o.runID
		p.TaskID, p.RunID, p.ChannelID, p.RemoteMessageID = o.taskID, o.runID, replayChannel, o.message(p.RemoteMessageID)
		return &p
	case s.Report != nil:
		p := *s.Report
		p.TaskID, p.RunID, p.ChannelID, p.RemoteMessageID = o.taskID, o.runID, replayChannel, o.message(p.RemoteMessageID)
		return &p
	case s.Answer != nil:
		p := *s.Answer
		p.ActionID = o.ids[p.ActionID]
		return &p
	case s.Close != nil:
		p := *s.Close
		p.SubagentID = o.subagentID
		return &p
	}
	return nil
}

// message is the id of a message: one of this runtime names what it is about.
func (o *otherAgent) message(recorded string) string {
	if about, ok := strings.CutPrefix(recorded, evidence.MessagePrefix); ok && o.ids[about] != "" {
		return evidence.MessagePrefix + o.ids[about]
	}
	return recorded
}

// attempt finds the attempt that the agent works on.
func (x *parties) attempt(ctx context.Context, o *otherAgent) error {
	return x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		if t := s.Tasks.Find(o.taskID); t != nil && len(t.Attempts) > 0 {
			o.runID = t.Attempts[len(t.Attempts)-1].RunID
			return nil
		}
		return fmt.Errorf("%w: there is no attempt at task %s", errUnanswered, o.taskID)
	})
}

// question finds the question that the agent waits for.
func (x *parties) question(ctx context.Context, o *otherAgent, recorded string) error {
	return x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		for _, a := range s.Actions.Pending {
			if a.TaskID == o.taskID {
				o.ids[recorded] = a.ActionID
				return nil
			}
		}
		return fmt.Errorf("%w: the agent doesn't ask", errUnanswered)
	})
}

// worksOn takes an agent from those that are waited for if its work has no end.
func (x *parties) worksOn(ctx context.Context, o *otherAgent) error {
	return x.p.r.View(ctx, x.p.session, func(s *state.Session) error {
		if t := s.Tasks.Find(o.taskID); t == nil || !t.Terminal() && t.Status != state.TaskCancelling {
			x.p.mu.Lock()
			delete(x.working, o.subagentID)
			x.p.mu.Unlock()
		}
		return nil
	})
}

// loopOwned is a tool of the loop; the one that starts agents knows those of the
// recording.
func (p *replaying) loopOwned(t tool.Tool, schema event.Raw) tool.Tool {
	if t.Info().ToolName != tool.SpawnAgent {
		return t
	}
	for _, with := range tool.Builtins(&tool.Options{Peers: p.peersOf(schema)}) {
		if with.Info().ToolName == tool.SpawnAgent {
			return with
		}
	}
	return t
}

// peersOf are the other agents that a tool's schema lets a model name, and those that
// were given work.
func (p *replaying) peersOf(schema event.Raw) []string {
	var s struct {
		Properties struct {
			Peer struct {
				Enum []string `json:"enum"`
			} `json:"peer"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s) // a schema that names none is none
	if p.c.Parties != nil && len(schema) == 0 {
		for _, a := range p.c.Parties.Agents {
			if a.Peer != "" && a.ToolCallID != "" && !slices.Contains(s.Properties.Peer.Enum, a.Peer) {
				s.Properties.Peer.Enum = append(s.Properties.Peer.Enum, a.Peer)
			}
		}
	}
	return s.Properties.Peer.Enum
}
