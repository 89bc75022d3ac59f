package interop_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// a2aTaker is the script of the agent that is given work.
const a2aTaker = `
answers:
  - when: {contains: hello}
    text: Hello, peer.
  - when: {contains: which colour}
    ask: {prompt: "Which colour?"}
  - when: {contains: which colour}
    text: A fine colour.
  - when: {contains: slow}
    stall: 1h
    text: at last
`

// front is the address that others know a node by, whichever port it listens on.
type front struct {
	*httptest.Server
	to atomic.Pointer[url.URL]
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(f.to.Load())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(f.Close)
	return f
}

func (f *front) lead(n *served) {
	n.t.Helper()
	u, err := url.Parse(n.url)
	if err != nil {
		n.t.Fatal(err)
	}
	f.to.Store(u)
}

const tokenVariable = "PEER_TOKEN"

// twoNodes are a server that gives work and one that takes it, with its front.
func twoNodes(t *testing.T) (giver, taker *served, f *front) {
	t.Helper()
	f = newFront(t)
	taker = serve(t, a2aFolder(t, fmt.Sprintf("a2a: {url: %q}\n", f.URL), a2aTaker), nil)
	f.lead(taker)
	peers := fmt.Sprintf("peers:\n  - {id: taker, protocol: a2a, cardURL: %q, tokenEnv: %s, allowPrivate: true}\n", f.URL, tokenVariable)
	giver = serve(t, a2aFolder(t, peers, a2aTaker), []string{tokenVariable + "=" + taker.token})
	return giver, taker, f
}

// delegate gives a task away and returns the fact that links it.
func (s *served) delegate(sessionID, objective string) *event.Event {
	s.t.Helper()
	servedDo[command.CreateSessionResult](s, &command.CreateSession{SessionID: sessionID})
	servedDo[command.TaskResult](s, &command.CreateTask{TaskID: "task_" + sessionID, SessionID: sessionID, Objective: objective, Peer: "taker", Start: true})
	return s.await(sessionID, func(e *event.Event) bool { return e.Type == event.TypeChannelPeerTaskLinked })
}

func completed(e *event.Event) bool { return e.Type == event.TypeTaskCompleted }

// inbound finds the taker's side of a peer's task.
func (s *served) inbound(remoteID string) *command.PeerTaskRecord {
	s.t.Helper()
	return servedDo[command.PeerTaskRecord](s, &command.GetPeerTask{PeerTaskKey: command.PeerTaskKey{NativeProtocol: "a2a", RemoteTaskID: remoteID}})
}

func TestA2ABetweenServers(t *testing.T) {
	giver, taker, _ := twoNodes(t)
	linked := giver.delegate("sess_hello", "hello")
	giver.await("sess_hello", completed)
	out := linked.Payload.(*event.PeerTaskLinked)
	rec := taker.inbound(out.RemoteTaskID)
	in := taker.await(rec.SessionID, func(e *event.Event) bool { return e.Type == event.TypeChannelPeerTaskLinked })
	p := in.Payload.(*event.PeerTaskLinked)
	if out.Direction != "outbound" || p.Direction != "inbound" || p.RemoteTaskID != out.RemoteTaskID || p.RemoteContextID != out.RemoteContextID {
		t.Errorf("the giver has %+v, the taker %+v", out, p)
	}
	if p.RemoteMessageID != out.RemoteMessageID || p.RemoteMessageID != "agentd-"+linked.RunID {
		t.Errorf("the message is %q there, %q here", p.RemoteMessageID, out.RemoteMessageID)
	}
	if linked.TaskID != "task_sess_hello" || in.TaskID == "" || in.TaskID == linked.TaskID || out.DeliveryMechanism != "streaming" {
		t.Errorf("the tasks are %q here and %q there, by %s", linked.TaskID, in.TaskID, out.DeliveryMechanism)
	}
	art := giver.await("sess_hello", func(e *event.Event) bool { return e.Type == event.TypeArtifactChanged }).Payload.(*event.ArtifactChanged)
	got, err := giver.client.Output(t.Context(), art.ReadRef, client.Range{})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(got.Body); err != nil || b.String() != "Hello, peer." {
		t.Errorf("stored: %q, %v", b.String(), err)
	}
}

// A question goes through both servers, and a kill of the one that asks changes
// nothing about it.
func TestA2ABetweenServersOverAKillOfThePeer(t *testing.T) {
	giver, taker, f := twoNodes(t)
	giver.delegate("sess_ask", "which colour")
	asked := giver.await("sess_ask", func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	if p := asked.Payload.(*event.ActionRequired); !strings.Contains(p.Prompt, "Which colour?") {
		t.Errorf("the question is %+v", p)
	}
	taker.kill()
	servedDo[command.RespondActionResult](giver, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`"red"`)})
	giver.await("sess_ask", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.PeerTaskUpdated)
		return ok && p.Status == "unreachable"
	})
	taker.start()
	f.lead(taker)
	done := giver.await("sess_ask", completed).Payload.(*event.TaskCompleted)
	if done.Summary != "A fine colour." {
		t.Errorf("the end is %+v", done)
	}
}

// A giver that is killed goes on where it was: the peer is not asked twice, and can
// be told to stop.
func TestA2ABetweenServersOverAKillOfTheGiver(t *testing.T) {
	giver, taker, _ := twoNodes(t)
	out := giver.delegate("sess_slow", "slow").Payload.(*event.PeerTaskLinked)
	giver.kill()
	giver.start()
	servedDo[command.TaskResult](giver, &command.CancelTask{TaskID: "task_sess_slow"})
	giver.await("sess_slow", func(e *event.Event) bool { return e.Type == event.TypeTaskCancelled })
	rec := taker.inbound(out.RemoteTaskID)
	if rec.Status != "cancelled" {
		t.Errorf("there it is %s", rec.Status)
	}
	all := servedDo[command.ListPeerTasksResult](taker, &command.ListPeerTasks{NativeProtocol: "a2a"})
	if len(all.PeerTasks) != 1 {
		t.Errorf("the peer has %d tasks", len(all.PeerTasks))
	}
}
