package evidence_test

import (
	"os"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
	"agentd/tool"
)

// stranger speaks for another agent that a session gave work to.
type stranger struct {
	*kit
	session, task, run string
}

// withOther lets models give work to theirs.
func withOther(t testing.TB) func(*agentd.Options) {
	t.Helper()
	tools, err := tool.NewRegistry(tool.Builtins(&tool.Options{Peers: []string{"theirs", "unused"}})...)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *agentd.Options) { o.Loop.Tools = tools }
}

// takes waits until work is given away and says that it is being sent.
func takes(k *kit, sessionID string) *stranger {
	k.Helper()
	begun := k.until(sessionID, func(e *event.Event) bool {
		p, ok := e.Payload.(*event.TaskAttemptStarted)
		return ok && p.Worker != nil && p.Worker.ID == "theirs"
	})
	return &stranger{kit: k, session: sessionID, task: begun.TaskID, run: begun.RunID}
}

// linked says that the work was sent and which task it is there.
func (o *stranger) linked() *stranger {
	o.Helper()
	p := command.LinkPeerTask{TaskID: o.task, RunID: o.run, ChannelID: "chan_theirs", NativeProtocol: "a2a", RemoteMessageID: evidence.MessagePrefix + o.run}
	sent := p
	do[command.TaskResult](o.kit, &sent)
	p.RemoteTaskID, p.DeliveryMechanism = "theirs-1", "polling"
	do[command.TaskResult](o.kit, &p)
	return o
}

// says reports how the work stands there.
func (o *stranger) says(p command.UpdatePeerTask) {
	o.Helper()
	p.TaskID, p.RunID, p.ChannelID, p.RemoteTaskID = o.task, o.run, "chan_theirs", "theirs-1"
	do[command.TaskResult](o.kit, &p)
}

// asks has a question answered, and says that the answer came.
func (o *stranger) asks(prompt, answer string) {
	o.Helper()
	o.says(command.UpdatePeerTask{
		Status: "waiting_input", RemoteStatus: "INPUT", RemoteMessageID: "msg-1", Reason: prompt, Question: &command.PeerQuestion{Prompt: prompt},
	})
	asked := o.until(o.session, func(e *event.Event) bool { return e.Type == event.TypeActionRequired && e.TaskID == o.task })
	do[command.RespondActionResult](o.kit, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`"` + answer + `"`)})
	o.says(command.UpdatePeerTask{Status: "running", RemoteStatus: "WORKING", RemoteMessageID: evidence.MessagePrefix + asked.ActionID})
}

// ends waits until the agent ended.
func (o *stranger) ends(want event.Type) {
	o.Helper()
	o.until(o.session, func(e *event.Event) bool { return e.Type == want })
}

// spawnOther starts theirs from outside, after a turn.
func spawnOther(k *kit, sessionID string) {
	k.Helper()
	k.turn(sessionID, "a plain turn", nil)
	var thread string
	for _, e := range k.facts(sessionID) {
		if e.Type == event.TypeTurnSubmitted {
			thread = e.ThreadID
		}
	}
	do[command.SpawnSubagentResult](k, &command.SpawnSubagent{
		SubagentID: "subagent_there", SessionID: sessionID, ThreadID: thread, Role: "counter", Input: event.Raw(`"count"`), Peer: "theirs",
	})
}

// TestReplayPlaysOtherAgents: what another agent reported, asked and delivered is
// played, and so is what its work comes to here.
func TestReplayPlaysOtherAgents(t *testing.T) {
	give := func(peer string) script.Answer {
		return told("give it away", wants(tool.SpawnAgent, map[string]any{"role": "counter", "input": "count the words", "peer": peer}))
	}
	k := newKit(t, withOther(t), give("theirs"), told("give it away", script.Answer{Text: "all counted"}))
	sub := do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_away", Create: true, Input: event.Raw(`"give it away"`), Options: &event.TurnOptions{PermissionMode: "bypass"}})
	o := takes(k, "sess_away").linked()
	o.says(command.UpdatePeerTask{Status: "running", RemoteStatus: "WORKING"})
	o.asks("Which words?", "all")
	o.says(command.UpdatePeerTask{Status: "unreachable", Reason: "no route"})
	o.says(command.UpdatePeerTask{
		Status: "completed", RemoteStatus: "DONE", Summary: "42 words",
		Artifacts: []command.PeerDelivery{{ArtifactID: "artifact_1", RemoteArtifactID: "a1", Title: "report", MediaType: "text/plain", Content: "NDI="}},
	})
	k.until("sess_away", func(e *event.Event) bool { return e.TurnID == sub.TurnID && e.Type == event.TypeTurnCompleted })
	report := func(c *evidence.Case, status string) *command.UpdatePeerTask {
		for _, s := range c.Parties.Agents[0].Steps {
			if s.Report != nil && s.Report.Status == status {
				return s.Report
			}
		}
		t.Fatalf("there is no report of %s", status)
		return nil
	}
	finds(k, "sess_away", map[string]mutant{
		"it says something else": {func(c *evidence.Case) { report(c, "completed").Summary = "43 words" }, `turn 1, call 1, agent, task: task.attempt.completed: summary was "42 words"`},
		"it does nothing":        {func(c *evidence.Case) { c.Parties.Agents[0].Steps = nil }, "turn 1, call 1"},
		"it fails":               {func(c *evidence.Case) { report(c, "completed").Status = "failed" }, "turn 1, call 1"},
		"it asks something else": {func(c *evidence.Case) { report(c, "waiting_input").Question.Prompt = "Why?" }, `prompt was "Which words?"`},
		"it delivers nothing":    {func(c *evidence.Case) { report(c, "completed").Artifacts = nil }, "artifact.changed"},
		"it is reached":          {func(c *evidence.Case) { report(c, "unreachable").Status = "idle" }, `status was "unreachable"`},
		"a rule denies it": {func(c *evidence.Case) {
			c.Environment.Rules = append(c.Environment.Rules, event.PolicyRule{RuleID: "r1", Decision: "deny", Tool: tool.SpawnAgent, Source: "host"})
		}, `turn 1, call 1: permission.evaluated: decision was "allow" and is "deny"`},
	})
	// What another agent did is not in the case of the turn alone.
	if one := caseOf(k, command.ExportScope{SessionID: "sess_away", TurnID: sub.TurnID}); one.Determinism != "approximate" {
		t.Errorf("%s: %v", one.Determinism, one.Limits)
	}
}

// TestReplayEndsOtherAgents: each way in which the work of another agent ends.
func TestReplayEndsOtherAgents(t *testing.T) {
	ways := map[string]struct {
		do   func(o *stranger)
		want event.Type
		says string
	}{
		"it refuses": {func(o *stranger) {
			o.linked().says(command.UpdatePeerTask{Status: "rejected", RemoteStatus: "REJECTED", Reason: "I don't count"})
		}, event.TypeSubagentFailed, "peer_rejected"},
		"it fails as it likes": {func(o *stranger) {
			o.linked().says(command.UpdatePeerTask{Status: "failed", RemoteStatus: "FAILED", Category: "tired"})
		}, event.TypeSubagentFailed, "tired"},
		"it doesn't know the work any more": {func(o *stranger) {
			o.linked().says(command.UpdatePeerTask{Status: "missing", RemoteStatus: "GONE"})
		}, event.TypeSubagentFailed, "lost"},
		"it was never reached": {func(o *stranger) {
			o.says(command.UpdatePeerTask{Status: "unreachable", Reason: "no route"})
			o.says(command.UpdatePeerTask{Status: "unreachable", Reason: "still no route", Final: true})
		}, event.TypeSubagentFailed, "peer_unreachable"},
		"it was held up, and went on": {func(o *stranger) {
			o.linked().says(command.UpdatePeerTask{Status: "unreachable", Reason: "no route", Final: true})
			o.says(command.UpdatePeerTask{Status: "running", RemoteStatus: "WORKING"})
			o.says(command.UpdatePeerTask{Status: "completed", RemoteStatus: "DONE", Summary: "42"})
		}, event.TypeSubagentCompleted, "completed"},
		"nobody wants it any more": {func(o *stranger) {
			o.linked().says(command.UpdatePeerTask{Status: "running", RemoteStatus: "WORKING"})
			do[command.SubagentResult](o.kit, &command.CloseSubagent{SubagentID: "subagent_there", Reason: "enough"})
			o.says(command.UpdatePeerTask{Status: "cancelled", RemoteStatus: "CANCELED"})
		}, event.TypeSubagentClosed, "closed"},
	}
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, withOther(t), script.Answer{Text: "plain"})
			spawnOther(k, "sess_away")
			o := takes(k, "sess_away")
			w.do(o)
			o.ends(w.want)
			c := caseOf(k, command.ExportScope{SessionID: "sess_away"})
			last := c.Expected[len(c.Expected)-1]
			if last.Of != "agent 1, end" || !strings.Contains(last.Says["status"]+last.Says["category"], w.says) {
				t.Errorf("the last fact is %+v", last)
			}
			finds(k, "sess_away", map[string]mutant{
				"nobody starts it": {func(c *evidence.Case) { c.Parties.Agents = nil }, "agent 1, "},
				"it does nothing":  {func(c *evidence.Case) { c.Parties.Agents[0].Steps = nil }, "agent 1, "},
			})
		})
	}
}

// TestReplaySaysWhatOtherAgentsDidAlone: what was done to the work of another agent from
// outside is not done again, and the case says so.
func TestReplaySaysWhatOtherAgentsDidAlone(t *testing.T) {
	for name, done := range map[string]func(o *stranger){
		"it works on":        func(o *stranger) { o.linked() },
		"the task is paused": func(o *stranger) { o.linked(); carry(o, &command.PauseTask{TaskID: o.task}) },
		"the task is cancelled": func(o *stranger) {
			o.linked()
			carry(o, &command.CancelTask{TaskID: o.task})
			o.says(command.UpdatePeerTask{Status: "cancelled", RemoteStatus: "CANCELED"})
		},
		"it was closed before it got anything": func(o *stranger) { carry(o, &command.CloseSubagent{SubagentID: "subagent_there"}) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, withOther(t), script.Answer{Text: "plain"})
			spawnOther(k, "sess_away")
			done(takes(k, "sess_away"))
			if c := caseOf(k, command.ExportScope{SessionID: "sess_away"}); c.Determinism != "approximate" || len(c.Limits) == 0 {
				t.Errorf("%s: %v", c.Determinism, c.Limits)
			}
		})
	}
}

// carry carries out a command that must succeed, whatever it gives.
func carry(o *stranger, p command.Params) {
	o.Helper()
	if _, err := o.r.Do(o.Context(), command.Local(), p); err != nil {
		o.Fatalf("%s: %v", p.Command(), err)
	}
}

// mishearing are mistakes in what the program makes of another agent's word.
var mishearing = map[string]change{
	"whoever refuses is done": {
		"work/peer_update.go", `{ends: state.AttemptFailed, category: "peer_rejected"}`, `{ends: state.AttemptCompleted}`,
		"agent 1, task: the recording has task.attempt.failed (category peer_rejected, status failed), the replay has task.attempt.completed",
	},
	"whoever can't be reached works on": {
		"work/peer_update.go", `{fact: event.TypeTaskWaiting, status: state.TaskWaitingResource, native: byPeerDown}`, `{fact: event.TypeTaskResumed, status: state.TaskRunning}`,
		"agent 1, task: the recording has task.waiting (native peer_unreachable, status waiting_resource)",
	},
}

// TestLongReplayFindsAProgramThatMishears compiles the program with one mistake in what it
// makes of another agent's word at a time.
func TestLongReplayFindsAProgramThatMishears(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: programs that mishear other agents, which have to be compiled; set AGENTD_TEST_LONG")
	}
	k := newKit(t, withOther(t), script.Answer{Text: "plain"})
	spawnOther(k, "sess_away")
	o := takes(k, "sess_away").linked()
	o.says(command.UpdatePeerTask{Status: "unreachable", Reason: "no route"})
	o.says(command.UpdatePeerTask{Status: "rejected", RemoteStatus: "REJECTED", Reason: "I don't count"})
	o.ends(event.TypeSubagentFailed)
	findsEach(t, k, "sess_away", mishearing)
}
