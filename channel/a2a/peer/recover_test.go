package peer_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
)

func unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

func TestTheWorkGoesOnAfterARestart(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		k.stop()
		f.set("theirs-1", proto.TaskStateCompleted, "", text("report", "42 words"), &proto.Artifact{ID: "data", Parts: proto.ContentParts{proto.NewDataPart(object{"n": 42})}})
		k.start()
		k.becomes("completed")
		checkArtifacts(t, k)
		if n := len(f.messages()); n != 1 {
			t.Errorf("%d messages", n)
		}
	})
}

func TestAQuestionIsAnsweredAfterARestart(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateInputRequired, "Which language?")
	asked := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	k.client.Close()
	runCommand[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`"Dutch"`)})
	k.restart()
	k.await(asked.Sequence, func(e *event.Event) bool {
		p, ok := e.Payload.(*event.PeerTaskUpdated)
		return ok && p.RemoteMessageID == "agentd-"+asked.ActionID
	})
	if m := f.messages(); len(m) != 2 || m[1].Parts[0].Text() != "Dutch" {
		t.Errorf("sent: %s", mustJSON(m))
	}
	// The channel to the peer is the same after the restart, and comes back.
	if connected, back := k.facts(event.TypeChannelConnected), k.facts(event.TypeChannelResumed); len(connected) != 1 || back[len(back)-1].Sequence < asked.Sequence {
		t.Errorf("%d connections; back at %d, asked at %d", len(connected), back[len(back)-1].Sequence, asked.Sequence)
	}
}

// crashed returns a kit that stopped when its message was about to be sent.
func crashed(t *testing.T, f *fake) (k *kit, messageID string) {
	t.Helper()
	f.fault("card", -1, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) })
	k = newKit(t, f, func(o *peerOptions) { o.Attempts, o.Backoff, o.MaxBackoff = 100, hour, hour })
	k.delegate()
	k.becomes("waiting_resource")
	k.client.Close()
	w := runCommand[command.PeerWork](k, &command.GetPeerWork{TaskID: taskID})
	runCommand[command.TaskResult](k, &command.LinkPeerTask{TaskID: taskID, RunID: w.RunID, ChannelID: "chan_x", NativeProtocol: "a2a", RemoteMessageID: w.MessageID})
	f.fault("card", 0, nil)
	return k, w.MessageID
}

func TestACrashBetweenTheIntentAndTheLink(t *testing.T) {
	t.Run("before it was sent", func(t *testing.T) {
		f := newFake(t)
		k, id := crashed(t, f)
		k.restart()
		k.stands("running")
		if m := f.messages(); len(m) != 1 || m[0].ID != id {
			t.Errorf("sent: %s", mustJSON(m))
		}
	})
	t.Run("after it was sent", func(t *testing.T) {
		f := newFake(t)
		k, id := crashed(t, f)
		m := proto.NewMessage(proto.MessageRoleUser, proto.NewTextPart("Count the words."))
		m.ID = id
		f.acceptMessage(m, nil)
		k.restart()
		k.stands("running")
		if n := f.called("SendMessage"); n != 0 {
			t.Errorf("it was sent %d times more", n)
		}
	})
}

func TestAPeerThatForgotTheTask(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		k.stop()
		f.forget("theirs-1")
		k.start()
		k.becomes("lost")
		k.stands("missing")
		w := runCommand[command.PeerWork](k, &command.GetPeerWork{TaskID: taskID})
		if w.Link.Recovery != "missing" || w.Status != "lost" || len(f.messages()) != 1 {
			t.Errorf("it is %+v, %+v", w, w.Link)
		}
	})
}

func TestACutIsNoFailure(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		k := newKit(t, f, func(o *peerOptions) { o.Attempts = 1000 })
		k.delegate()
		k.stands("running")
		cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		for _, m := range []string{"GetTask", "SubscribeToTask", "card"} {
			f.fault(m, -1, cut)
		}
		f.srv.CloseClientConnections()
		k.stands("unreachable")
		if w := runCommand[command.PeerWork](k, &command.GetPeerWork{TaskID: taskID}); w.Link.Recovery != "unreachable" || w.Status != "waiting_resource" {
			t.Errorf("it is %+v, %+v", w, w.Link)
		}
		f.set("theirs-1", proto.TaskStateCompleted, "done")
		for _, m := range []string{"GetTask", "SubscribeToTask", "card"} {
			f.fault(m, 0, nil)
		}
		k.becomes("completed")
	})
}

func TestACredentialThatIsNotTaken(t *testing.T) {
	f := newFake(t)
	f.token = "t" + "1"
	given := make(chan string, 1)
	given <- "wrong"
	k := newKit(t, f, func(o *peerOptions) {
		o.Attempts = 1000
		o.Peers[0].Token = func() string {
			v := <-given
			given <- v
			return v
		}
	})
	k.delegate()
	w := k.becomes("waiting_resource")
	if p := w.Payload.(*event.TaskStatusChanged); !strings.Contains(p.StatusReason, "credential") || strings.Contains(p.StatusReason, "wrong") {
		t.Errorf("it waits because %s", p.StatusReason)
	}
	<-given
	given <- f.token
	k.stands("running")
	if n := len(f.messages()); n != 1 {
		t.Errorf("%d messages arrived", n)
	}
}

func TestAPeerIsGivenUpAndTakenUpAgain(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.fault("GetTask", -1, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) })
	p := k.becomes("blocked")
	if why := p.Payload.(*event.TaskStatusChanged); why.NativeStatus != "peer_unreachable" || !strings.Contains(why.StatusReason, "given up after 4 tries") {
		t.Errorf("it is held: %+v", why)
	}
	f.fault("GetTask", 0, nil)
	f.set("theirs-1", proto.TaskStateCompleted, "done")
	runCommand[command.TaskResult](k, &command.ResumeTask{TaskID: taskID})
	k.becomes("completed")
}

func TestAPeerThatWasNeverReachedFailsTheAttempt(t *testing.T) {
	f := newFake(t)
	f.fault("card", 4, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) })
	k := newKit(t, f)
	k.delegate(func(p *command.CreateTask) { p.RetryPolicy = &event.RetryPolicy{MaxAttempts: 2, BackoffMs: 1} })
	e := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeTaskRetrying })
	if p := e.Payload.(*event.TaskStatusChanged); p.Error.Category != "peer_unreachable" || !p.Error.Retryable {
		t.Errorf("it is tried again because of %+v", p.Error)
	}
	k.stands("running") // by the second attempt
	if n := len(f.messages()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestAPeerThatCanNotBeToldToStop(t *testing.T) {
	f := newFake(t)
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.fault("CancelTask", -1, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) })
	runCommand[command.TaskResult](k, &command.CancelTask{TaskID: taskID})
	end := k.becomes("cancelled")
	failed := k.facts(event.TypeTaskAttemptFailed)
	if p := failed[0].Payload.(*event.TaskAttemptFailed); p.Status != "unknown" || failed[0].Sequence > end.Sequence {
		t.Errorf("the attempt is %+v", p)
	}
	k.stands("unreachable")
}

func TestNotifications(t *testing.T) {
	f := newFake(t)
	f.push = true
	k := newKit(t, f, func(o *peerOptions) {
		o.Peers[0].Delivery, o.Poll, o.MaxPoll = "push", hour, hour
	})
	k.delegate()
	k.stands("running")
	if p := k.facts(event.TypeChannelPeerTaskLinked)[0].Payload.(*event.PeerTaskLinked); p.DeliveryMechanism != "push" {
		t.Errorf("the link is %+v", p)
	}
	cfg := f.pushes[0]
	if !strings.HasPrefix(cfg.URL, k.push.URL+"/a2a/push/"+taskID+"/") || cfg.Token == "" {
		t.Fatalf("the peer is to tell %+v", cfg)
	}
	f.awaitCall("GetTask") // after which it waits to be told
	f.set("theirs-1", proto.TaskStateCompleted, "done")
	before := f.called("GetTask")
	for token, want := range map[string]int{"": 401, "wrong": 401, cfg.Token + "x": 401} {
		if got := postUpdate(t, cfg.URL, token); got != want {
			t.Errorf("with the token %q: %d", token, got)
		}
	}
	if got := postUpdate(t, strings.Replace(cfg.URL, taskID, "task_other", 1), cfg.Token); got != 401 {
		t.Errorf("for another task: %d", got)
	}
	if f.called("GetTask") != before {
		t.Error("a notification without the secret had the peer asked")
	}
	if got := postUpdate(t, cfg.URL, cfg.Token); got != 204 {
		t.Fatalf("with the right token: %d", got)
	}
	k.becomes("completed") // as the peer says when it is asked, not as the notification says
}

func postUpdate(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"task":{"id":"theirs-1","status":{"state":"TASK_STATE_FAILED"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-A2A-Notification-Token", token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}
