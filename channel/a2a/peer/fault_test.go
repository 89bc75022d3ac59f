package peer_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/event"
)

// takes reads the message of a request and keeps it as the agent would.
func (f *fake) takes(r *http.Request) (*rpcRequest, *proto.Task) {
	var req rpcRequest
	var p struct {
		Message *proto.Message `json:"message"`
	}
	body, _ := io.ReadAll(r.Body)
	if err := unmarshal(body, &req); err != nil {
		f.t.Error(err)
	}
	if err := unmarshal(req.Params, &p); err != nil {
		f.t.Error(err)
	}
	return &req, f.acceptMessage(p.Message, nil)
}

func TestASlowPeerIsNotAskedTwice(t *testing.T) {
	f := newFake(t)
	f.fault("SendMessage", 1, func(_ http.ResponseWriter, r *http.Request) {
		f.takes(r)
		<-r.Context().Done()
	})
	k := newKit(t, f, func(o *peerOptions) { o.Timeout = time.Second }) // other requests are in time
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateCompleted, "done")
	k.becomes("completed")
	if n := f.called("SendMessage"); n != 1 || f.called("ListTasks") == 0 {
		t.Errorf("it was sent %d times", n)
	}
	if w := k.becomes("waiting_resource").Payload.(*event.TaskStatusChanged); w.NativeStatus != "peer_unreachable" {
		t.Errorf("meanwhile it was %+v", w)
	}
}

func TestAPeerThatDiesInMidStream(t *testing.T) {
	f := newFake(t)
	f.streaming = true
	f.fault("SendStreamingMessage", 1, func(w http.ResponseWriter, r *http.Request) {
		req, task := f.takes(r)
		w.Header().Set("Content-Type", "text/event-stream")
		sse(w, req.ID, object{"task": task}, nil)
		panic(http.ErrAbortHandler)
	})
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
	k.becomes("completed")
	if n := f.called("SendStreamingMessage"); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

func TestAStreamThatFallsSilent(t *testing.T) {
	f := newFake(t)
	f.streaming = true
	f.fault("SendStreamingMessage", 1, func(w http.ResponseWriter, r *http.Request) {
		req, task := f.takes(r)
		w.Header().Set("Content-Type", "text/event-stream")
		sse(w, req.ID, object{"task": task}, nil)
		f.set("theirs-1", proto.TaskStateCompleted, "done") // and nobody is told
		<-r.Context().Done()
	})
	k := newKit(t, f, func(o *peerOptions) { o.Silence = 50 * time.Millisecond })
	k.delegate()
	k.becomes("completed")
}

func TestNonsenseIsNoAnswer(t *testing.T) {
	nonsense := map[string]http.HandlerFunc{
		"html": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>hello</html>")
		},
		"no state": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var req rpcRequest
			_ = unmarshal(body, &req)
			reply(w, req.ID, object{"id": "theirs-1", "contextId": "c", "status": object{"state": "TASK_STATE_PURPLE"}})
		},
		"another task": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var req rpcRequest
			_ = unmarshal(body, &req)
			reply(w, req.ID, object{"id": "theirs-9", "contextId": "c", "status": object{"state": "TASK_STATE_COMPLETED"}})
		},
		"500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) },
	}
	for name, answer := range nonsense {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.fault("GetTask", 2, answer)
			k := newKit(t, f)
			k.delegate()
			k.stands("unreachable")
			f.set("theirs-1", proto.TaskStateCompleted, "done")
			k.becomes("completed")
		})
	}
}

func TestAMessageThatMayHaveArrivedIsNotSentAgain(t *testing.T) {
	lost := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","resul`)
	}
	t.Run("a peer that can't be searched", func(t *testing.T) {
		f := newFake(t)
		f.fault("SendMessage", 1, lost)
		f.fault("ListTasks", -1, func(w http.ResponseWriter, _ *http.Request) { refuse(w, []byte(`"x"`), -32601, "no such method") })
		k := newKit(t, f)
		k.delegate()
		p := k.becomes("blocked").Payload.(*event.TaskStatusChanged)
		if p.NativeStatus != "peer_unknown" || f.called("SendMessage") != 1 {
			t.Errorf("it is %+v after %d messages", p, f.called("SendMessage"))
		}
		runCommand[command.TaskResult](k, &command.CancelTask{TaskID: taskID})
		k.becomes("cancelled")
	})
	t.Run("a peer that didn't get it", func(t *testing.T) {
		f := newFake(t)
		f.fault("SendMessage", 1, lost)
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		if f.called("SendMessage") != 2 || f.called("ListTasks") != 1 {
			t.Errorf("%d messages, %d searches", f.called("SendMessage"), f.called("ListTasks"))
		}
	})
	t.Run("a peer that shows no messages", func(t *testing.T) {
		f := newFake(t)
		f.fault("SendMessage", 1, func(w http.ResponseWriter, r *http.Request) {
			_, task := f.takes(r)
			f.mu.Lock()
			task.History = nil
			f.mu.Unlock()
			lost(w, r)
		})
		k := newKit(t, f)
		k.delegate()
		if p := k.becomes("blocked").Payload.(*event.TaskStatusChanged); p.NativeStatus != "peer_unknown" {
			t.Errorf("it is %+v", p)
		}
	})
}

func TestRepeatedStatusesAndArtifactsAreOneFact(t *testing.T) {
	f := newFake(t)
	f.streaming = true
	f.fault("SendStreamingMessage", 1, func(w http.ResponseWriter, r *http.Request) {
		req, task := f.takes(r)
		w.Header().Set("Content-Type", "text/event-stream")
		piece := object{"artifactUpdate": object{"taskId": task.ID, "contextId": task.ContextID, "artifact": text("report", "x")}}
		working := object{"statusUpdate": object{"taskId": task.ID, "contextId": task.ContextID, "status": object{"state": "TASK_STATE_WORKING"}}}
		sse(w, req.ID, object{"task": task}, nil)
		for range 5 {
			sse(w, req.ID, working, nil)
			sse(w, req.ID, piece, nil)
		}
		f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
		for range 3 {
			sse(w, req.ID, object{"statusUpdate": object{"taskId": task.ID, "contextId": task.ContextID, "status": object{"state": "TASK_STATE_COMPLETED"}}}, nil)
		}
	})
	k := newKit(t, f)
	k.delegate()
	k.becomes("completed")
	count := map[string]int{}
	for _, e := range k.facts(event.TypeChannelPeerTaskUpdated) {
		count[e.Payload.(*event.PeerTaskUpdated).Status]++
	}
	if count["running"] != 1 || count["completed"] != 1 || len(k.facts(event.TypeArtifactChanged)) != 1 || len(k.facts(event.TypeChannelPeerTaskLinked)) != 1 {
		t.Errorf("facts: %v, %d artifacts", count, len(k.facts(event.TypeArtifactChanged)))
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'A'
	}
	return len(p), nil
}

func TestAnArtifactOf100MB(t *testing.T) {
	ways(t, func(t *testing.T, f *fake) {
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		f.fault("GetTask", -1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"1","result":{"id":"theirs-1","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"raw":"`)
			_, _ = io.CopyN(w, zeros{}, 100<<20)
			_, _ = io.WriteString(w, `"}]}]}}`)
		})
		f.set("theirs-1", proto.TaskStateCompleted, "done")
		p := k.becomes("failed").Payload.(*event.TaskStatusChanged)
		if p.Error.Category != "peer_output_too_large" || len(k.facts(event.TypeArtifactChanged)) != 0 {
			t.Errorf("the end is %+v", p.Error)
		}
		if f.streaming {
			w := runCommand[command.PeerWork](k, &command.GetPeerWork{TaskID: taskID})
			if w.Link.Recovery != "unreconciled" {
				t.Errorf("the peer's task is %+v", w.Link)
			}
		}
	})
}

func TestCardsThatLie(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was reached") }))
	t.Cleanup(other.Close)
	iface := func(url, binding, version string) func(object) {
		return func(card object) {
			card["supportedInterfaces"] = []object{{"url": url, "protocolBinding": binding, "protocolVersion": version}}
		}
	}
	for name, c := range map[string]struct {
		card func(*fake) func(object)
		says string
	}{
		"an old version":  {func(f *fake) func(object) { return iface(f.srv.URL+"/rpc", "JSONRPC", "0.3") }, "version"},
		"another binding": {func(f *fake) func(object) { return iface(f.srv.URL+"/rpc", "GRPC", "1.0") }, "binding"},
		"another host":    {func(*fake) func(object) { return iface(other.URL+"/rpc", "JSONRPC", "1.0") }, "not the card's own"},
		"no interface":    {func(*fake) func(object) { return func(card object) { card["supportedInterfaces"] = []object{} } }, "no interface"},
		"a huge card": {func(*fake) func(object) {
			return func(card object) { card["description"] = strings.Repeat("x", 100<<10) }
		}, "larger"},
		"no card": {func(*fake) func(object) { return func(card object) { card["supportedInterfaces"] = 7 } }, "agent card"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.card = c.card(f)
			k := newKit(t, f)
			k.delegate()
			p := k.becomes("failed").Payload.(*event.TaskStatusChanged)
			if p.Error.Category != "peer_card" || !strings.Contains(p.Error.Message, c.says) {
				t.Errorf("the end is %+v", p.Error)
			}
			if f.called("SendMessage")+f.called("SendStreamingMessage") != 0 || len(k.facts(event.TypeTaskDelegated)) != 0 {
				t.Error("something was sent")
			}
		})
	}
}

func TestACardThatPromisesStreams(t *testing.T) {
	f := newFake(t)
	f.streaming = true
	// It takes the message and answers without a stream.
	f.fault("SendStreamingMessage", 1, func(w http.ResponseWriter, r *http.Request) {
		req, task := f.takes(r)
		reply(w, req.ID, object{"task": task})
	})
	f.fault("SubscribeToTask", -1, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req rpcRequest
		_ = unmarshal(body, &req)
		w.Header().Set("Content-Type", "text/event-stream")
		sse(w, req.ID, nil, object{"code": -32004, "message": "not supported"})
	})
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateCompleted, "done")
	k.becomes("completed")
	if n := f.called("SendStreamingMessage"); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

func TestInternalAddressesAreRefused(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("an internal address was reached") }))
	t.Cleanup(inner.Close)
	away := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.URL+"/.well-known/agent-card.json", http.StatusTemporaryRedirect)
	}
	refusedFor := func(t *testing.T, k *kit, category string) {
		t.Helper()
		if p := k.becomes("failed").Payload.(*event.TaskStatusChanged); p.Error.Category != category || strings.Contains(p.Error.Message, "secret") {
			t.Errorf("the end is %+v", p.Error)
		}
	}
	t.Run("the card redirects", func(t *testing.T) {
		f := newFake(t)
		f.fault("card", -1, away)
		k := newKit(t, f)
		k.delegate()
		refusedFor(t, k, "peer_address")
	})
	t.Run("a call redirects", func(t *testing.T) {
		f := newFake(t)
		f.fault("SendMessage", -1, away)
		k := newKit(t, f)
		k.delegate()
		refusedFor(t, k, "peer_address")
	})
	t.Run("the card's address", func(t *testing.T) {
		k := newKit(t, newFake(t))
		k.delegate(func(p *command.CreateTask) { p.Peer = inner.URL })
		refusedFor(t, k, "peer_address")
	})
	t.Run("an artifact's address", func(t *testing.T) {
		f := newFake(t)
		k := newKit(t, f)
		k.delegate()
		k.stands("running")
		f.set("theirs-1", proto.TaskStateCompleted, "done", &proto.Artifact{ID: "a", Parts: proto.ContentParts{proto.NewFileURLPart(proto.URL(inner.URL+"/file?sig=secret"), "text/plain")}})
		refusedFor(t, k, "peer_output_refused")
	})
}

func TestArtifactsByTheirAddressAreFetched(t *testing.T) {
	f := newFake(t)
	f.fault("/file", -1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/csv")
		_, _ = io.WriteString(w, "a,b")
	})
	k := newKit(t, f)
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateCompleted, "done", &proto.Artifact{ID: "a", Parts: proto.ContentParts{proto.NewFileURLPart(proto.URL(f.srv.URL+"/file"), "")}})
	k.becomes("completed")
	p := k.facts(event.TypeArtifactChanged)[0].Payload.(*event.ArtifactChanged)
	if k.output(p.ReadRef) != "a,b" || p.MediaType != "text/csv" || p.URI != f.srv.URL+"/file" {
		t.Errorf("the artifact is %+v", p)
	}
}

func TestAPeerThatAnswersWithAMessage(t *testing.T) {
	f := newFake(t)
	f.fault("SendMessage", 1, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var req rpcRequest
		_ = unmarshal(body, &req)
		reply(w, req.ID, object{"message": object{"messageId": "m-9", "role": "ROLE_AGENT", "parts": []object{{"text": "four"}}}})
	})
	k := newKit(t, f)
	k.delegate()
	done := k.becomes("completed").Payload.(*event.TaskCompleted)
	p := k.facts(event.TypeArtifactChanged)[0].Payload.(*event.ArtifactChanged)
	if done.Summary != "four" || k.output(p.ReadRef) != "four" {
		t.Errorf("the end is %+v", done)
	}
}
