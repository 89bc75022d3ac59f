package work_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// delegation is a task that the test, in the place of an adapter, gives to a peer.
type delegation struct {
	*crew
	id, run string
}

func (k *crew) delegate(retry *event.RetryPolicy) *delegation {
	k.Helper()
	k.create(command.CreateTask{TaskID: "task_p", Peer: "theirs", Start: true, TaskFields: command.TaskFields{RetryPolicy: retry}})
	d := &delegation{crew: k, id: "task_p"}
	d.run = d.work().RunID
	return d
}

func (d *delegation) work() *command.PeerWork {
	d.Helper()
	return ask[command.PeerWork](d.crew, &command.GetPeerWork{TaskID: d.id})
}

func (d *delegation) intent() *command.LinkPeerTask {
	return &command.LinkPeerTask{TaskID: d.id, RunID: d.run, ChannelID: "chan_p", NativeProtocol: "a2a", RemoteMessageID: "agentd-" + d.run}
}

// linked gives the task away.
func (d *delegation) linked() *delegation {
	d.Helper()
	ask[command.TaskResult](d.crew, d.intent())
	p := d.intent()
	p.RemoteTaskID, p.RemoteContextID, p.DeliveryMechanism = "remote", "ctx", "polling"
	ask[command.TaskResult](d.crew, p)
	return d
}

func (d *delegation) report(status string, change ...func(*command.UpdatePeerTask)) string {
	d.Helper()
	p := &command.UpdatePeerTask{TaskID: d.id, RunID: d.run, ChannelID: "chan_p", RemoteTaskID: "remote", Status: status, RemoteStatus: strings.ToUpper(status)}
	for _, c := range change {
		c(p)
	}
	return ask[command.TaskResult](d.crew, p).Status
}

func final(p *command.UpdatePeerTask) { p.Final = true }

func TestWhatAPeersStatusMeansHere(t *testing.T) {
	for status, want := range map[string]struct{ task, native, attempt, recovery string }{
		"running":                {state.TaskRunning, "", state.AttemptRunning, state.PeerRunning},
		"idle":                   {state.TaskRunning, "", state.AttemptRunning, state.PeerIdle},
		"waiting_input":          {state.TaskWaitingInput, "", state.AttemptRunning, state.PeerWaiting},
		"waiting_permission":     {state.TaskWaitingPermission, "", state.AttemptRunning, state.PeerWaiting},
		"completed_unreconciled": {state.TaskWaitingResource, "peer_reconciling", state.AttemptRunning, state.PeerUnreconciled},
		"unreachable":            {state.TaskWaitingResource, "peer_unreachable", state.AttemptRunning, state.PeerUnreachable},
		"unknown":                {state.TaskBlocked, "peer_unknown", state.AttemptRunning, state.Unknown},
		"completed":              {state.TaskCompleted, "", state.AttemptCompleted, "settled"},
		"failed":                 {state.TaskFailed, "", state.AttemptFailed, "settled"},
		"rejected":               {state.TaskFailed, "", state.AttemptFailed, "settled"},
		"cancelled":              {state.TaskCancelled, "", state.AttemptCancelled, "settled"},
		"missing":                {state.TaskLost, "", state.AttemptUnknown, state.PeerMissing},
	} {
		t.Run(status, func(t *testing.T) {
			d := newCrew(t).delegate(nil).linked()
			got := d.report(status)
			task, w := d.task(d.id), d.work()
			if got != want.task || task.Status != want.task || task.NativeStatus != want.native || task.Attempts[0].Status != want.attempt {
				t.Errorf("the task is %s (%s), its attempt %s", task.Status, task.NativeStatus, task.Attempts[0].Status)
			}
			if w.Link.Recovery != want.recovery || w.Link.Status != status {
				t.Errorf("there it is %+v", w.Link)
			}
			before := len(d.facts(task.SessionID))
			d.report(status)
			if n := len(d.facts(task.SessionID)); n != before {
				t.Errorf("the same again made %d facts", n-before)
			}
		})
	}
}

func TestNothingIsSentForATaskThatIsStopped(t *testing.T) {
	d := newCrew(t).delegate(nil)
	if w := d.work(); w.Sent || w.MessageID != "agentd-"+d.run || w.Link != nil || !w.Active {
		t.Fatalf("before: %+v", w)
	}
	ask[command.TaskResult](d.crew, &command.CancelTask{TaskID: d.id})
	d.await(d.id, state.TaskCancelled)
	d.refuse(fault.Conflict, d.intent(), d.run)
	if w := d.work(); w.Sent || w.Active {
		t.Errorf("after: %+v", w)
	}
}

func TestCancellingWaitsForThePeer(t *testing.T) {
	for status, change := range map[string][]func(*command.UpdatePeerTask){
		"cancelled": nil, "completed": nil, "failed": nil, "missing": nil, "unknown": nil, "unreachable": {final},
	} {
		t.Run(status, func(t *testing.T) {
			d := newCrew(t).delegate(nil).linked()
			d.report("running")
			if got := ask[command.TaskResult](d.crew, &command.CancelTask{TaskID: d.id}).Status; got != state.TaskCancelling {
				t.Errorf("it is %s at once", got)
			}
			if got := d.report("unreachable"); got != state.TaskCancelling {
				t.Errorf("a cut made it %s", got)
			}
			d.report(status, change...)
			d.await(d.id, state.TaskCancelled)
		})
	}
}

func TestAPeerThatWasNotReached(t *testing.T) {
	t.Run("before anything was sent", func(t *testing.T) {
		d := newCrew(t).delegate(&event.RetryPolicy{MaxAttempts: 2, BackoffMs: 1})
		d.report("unreachable", final)
		second := d.awaitTask(d.id, "a second attempt", func(t *state.Task) bool { return len(t.Attempts) == 2 })
		if f := second.Attempts[0].LastError; f.Category != "peer_unreachable" || !f.Retryable {
			t.Errorf("the first failed with %+v", f)
		}
	})
	t.Run("afterwards", func(t *testing.T) {
		d := newCrew(t).delegate(&event.RetryPolicy{MaxAttempts: 2, BackoffMs: 1}).linked()
		if got := d.report("unreachable", final); got != state.TaskBlocked {
			t.Errorf("it is %s", got)
		}
		if got := ask[command.TaskResult](d.crew, &command.ResumeTask{TaskID: d.id}).Status; got != state.TaskRunning {
			t.Errorf("resumed it is %s", got)
		}
		if n := len(d.task(d.id).Attempts); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestAPeersQuestionIsAskedOnce(t *testing.T) {
	d := newCrew(t).delegate(nil).linked()
	ask1 := func(p *command.UpdatePeerTask) {
		p.RemoteMessageID, p.Question = "q1", &command.PeerQuestion{Prompt: "Which?"}
	}
	count := func() (n int) {
		for _, e := range d.facts(d.task(d.id).SessionID) {
			if e.Type == event.TypeActionRequired {
				n++
			}
		}
		return n
	}
	d.report("waiting_input", ask1)
	d.report("waiting_input", ask1)
	action := d.task(d.id).Blockers[0]
	ask[command.RespondActionResult](d.crew, &command.RespondAction{ActionID: action, Decision: "submit", Payload: event.Raw(`"this"`)})
	d.report("waiting_input", ask1) // it doesn't have the answer yet
	w := d.work()
	if w.Answer == nil || w.Answer.ActionID != action || string(w.Answer.Payload) != `"this"` || count() != 1 {
		t.Fatalf("the answer is %+v after %d questions", w.Answer, count())
	}
	d.report("running", func(p *command.UpdatePeerTask) { p.RemoteMessageID = w.Answer.MessageID })
	d.report("waiting_input", ask1) // it has, and didn't look at it yet
	if w := d.work(); w.Answer != nil || count() != 1 {
		t.Errorf("told already, and still to be told: %+v after %d questions", w.Answer, count())
	}
	d.report("waiting_input", func(p *command.UpdatePeerTask) {
		p.RemoteMessageID, p.Question = "q2", &command.PeerQuestion{Prompt: "And what else?"}
	})
	if count() != 2 || d.work().Answer != nil {
		t.Errorf("%d questions, answer %+v", count(), d.work().Answer)
	}
}

func TestWhatAPeerDelivers(t *testing.T) {
	secret := "hush" + "hush"
	k := (&crew{TB: t, store: newCrewStore(t), redact: func(v event.Raw) event.Raw {
		return bytes.ReplaceAll(v, []byte(secret), []byte("[redacted]"))
	}}).started()
	d := k.delegate(nil).linked()
	deliver := func(p *command.UpdatePeerTask) {
		p.Reason = secret
		p.Artifacts = []command.PeerDelivery{
			{ArtifactID: "artifact_1", RemoteArtifactID: "a", MediaType: "text/plain", Content: base64.StdEncoding.EncodeToString([]byte("say " + secret))},
			{ArtifactID: "artifact_2", RemoteArtifactID: "b", MediaType: "application/json", Content: base64.StdEncoding.EncodeToString([]byte(`{"k":"` + secret + `"}`))},
		}
	}
	d.report("completed_unreconciled", deliver)
	d.report("completed_unreconciled", deliver)
	d.report("completed")
	task := d.task(d.id)
	var ids, contents []string
	for _, a := range task.Artifacts {
		ids = append(ids, a.ArtifactID)
	}
	for _, e := range d.facts(task.SessionID) {
		if b, _ := json.Marshal(e.Payload); bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s tells the secret", e.Type)
		}
		if p, ok := e.Payload.(*event.ArtifactChanged); ok {
			contents = append(contents, k.blob(p.ReadRef))
		}
	}
	if !slices.Equal(ids, []string{"artifact_1", "artifact_2"}) || !slices.Equal(contents, []string{"say [redacted]", `{"k":"[redacted]"}`}) {
		t.Errorf("artifacts %v: %q", ids, contents)
	}
	if task.DeliveryState.Status != "delivered" || task.DeliveryState.Target != "artifacts" {
		t.Errorf("the delivery is %+v", task.DeliveryState)
	}
}

func (k *crew) blob(ref string) string {
	k.Helper()
	b, err := k.store.OpenBlob(context.Background(), ref)
	if err != nil {
		k.Fatal(err)
	}
	defer b.Close()
	var out strings.Builder
	if _, err := io.Copy(&out, b); err != nil {
		k.Fatal(err)
	}
	return out.String()
}

func TestPeerCommandsThatDontFit(t *testing.T) {
	k := newCrew(t)
	d := k.delegate(nil)
	run := k.hire("task_other", 0, nil)
	k.refuse(fault.Conflict, &command.GetPeerWork{TaskID: "task_other"}, "not delegated")
	k.refuse(fault.Conflict, &command.UpdatePeerTask{TaskID: "task_other", RunID: run, ChannelID: "c", Status: "running"}, "not delegated")
	k.refuse(fault.NotFound, &command.UpdatePeerTask{TaskID: d.id, RunID: "run_no", ChannelID: "c", Status: "running"}, "run_no")
	other := d.intent()
	other.RemoteMessageID = "another"
	k.refuse(fault.InvalidParams, other, "remoteMessageId")
	k.refuse(fault.InvalidParams, &command.CreateTask{Objective: "x", Peer: "theirs", Worker: "external"}, "worker")
	k.refuse(fault.InvalidParams, &command.UpdatePeerTask{
		TaskID: d.id, RunID: d.run, ChannelID: "c", Status: "running", Artifacts: []command.PeerDelivery{{ArtifactID: "a", Content: "%"}},
	}, "base64")
}
