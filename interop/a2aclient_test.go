package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
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

// a2aNode is a real server that can be killed and started again.
type a2aNode struct {
	t       *testing.T
	program string
	dir     string
	env     []string

	cmd    *exec.Cmd
	log    *bytes.Buffer
	url    string
	client *client.Client
}

func startNode(t *testing.T, config, script string, env ...string) *a2aNode {
	t.Helper()
	program, err := protoBuild()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, program)
	}
	n := &a2aNode{t: t, program: program, dir: t.TempDir(), env: append(protoEnvironment(), env...)}
	config += "data: data\nproviders:\n  - {id: script, kind: script, script: script.yaml, models: [{id: script}]}\n"
	for name, text := range map[string]string{"config.yaml": config, "script.yaml": script} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.start()
	t.Cleanup(func() {
		n.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the server's log:\n%s", n.log.Bytes())
		}
	})
	return n
}

func (n *a2aNode) start() {
	n.t.Helper()
	n.log = &bytes.Buffer{}
	n.cmd = exec.Command(n.program, "serve", "--json", "--config", "config.yaml", "--listen", "127.0.0.1:0")
	n.cmd.Dir, n.cmd.Stderr, n.cmd.Env = n.dir, n.log, n.env
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		n.t.Fatalf("agentd serve: %v\n%s", err, n.log.Bytes())
	}
	var note struct{ URL string }
	if err := json.Unmarshal(line, &note); err != nil {
		n.t.Fatal(err)
	}
	n.url = note.URL
	if n.client, err = client.New(note.URL, &client.Options{Token: n.token()}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *a2aNode) token() string {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "data", "token"))
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func (n *a2aNode) end(sig syscall.Signal) {
	n.t.Helper()
	n.client.Close()
	_ = n.cmd.Process.Signal(sig)
	if err := n.cmd.Wait(); err != nil && sig != syscall.SIGKILL {
		n.t.Errorf("agentd serve: %v", err)
	}
}

// await returns the first fact of a session that fits.
func (n *a2aNode) await(sessionID string, fits func(*event.Event) bool) *event.Event {
	n.t.Helper()
	for e, err := range n.client.Follow(n.t.Context(), sessionID, 0, nil) {
		if err != nil {
			n.t.Fatal(err)
		}
		if e.Frame != "" {
			continue
		}
		d, err := e.Decode()
		if err != nil {
			n.t.Fatal(err)
		}
		if fits(d) {
			return d
		}
	}
	n.t.Fatalf("the fact did not come in %s", sessionID)
	return nil
}

func nodeDo[R any](n *a2aNode, p command.Params) *R {
	n.t.Helper()
	res, err := client.Call[R](n.t.Context(), n.client, p)
	if err != nil {
		n.t.Fatalf("%s: %v", p.Command(), err)
	}
	return res
}

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

func (f *front) lead(n *a2aNode) {
	n.t.Helper()
	u, err := url.Parse(n.url)
	if err != nil {
		n.t.Fatal(err)
	}
	f.to.Store(u)
}

const tokenVariable = "PEER_TOKEN"

// twoNodes are a server that gives work and one that takes it, with its front.
func twoNodes(t *testing.T) (giver, taker *a2aNode, f *front) {
	t.Helper()
	f = newFront(t)
	taker = startNode(t, fmt.Sprintf("a2a: {url: %q}\n", f.URL), a2aTaker)
	f.lead(taker)
	giver = startNode(t, fmt.Sprintf("peers:\n  - {id: taker, protocol: a2a, cardURL: %q, tokenEnv: %s, allowPrivate: true}\n", f.URL, tokenVariable), a2aTaker,
		tokenVariable+"="+taker.token())
	return giver, taker, f
}

// delegate gives a task away and returns the fact that links it.
func (n *a2aNode) delegate(sessionID, objective string) *event.Event {
	n.t.Helper()
	nodeDo[command.CreateSessionResult](n, &command.CreateSession{SessionID: sessionID})
	nodeDo[command.TaskResult](n, &command.CreateTask{TaskID: "task_" + sessionID, SessionID: sessionID, Objective: objective, Peer: "taker", Start: true})
	return n.await(sessionID, func(e *event.Event) bool { return e.Type == event.TypeChannelPeerTaskLinked })
}

func completed(e *event.Event) bool { return e.Type == event.TypeTaskCompleted }

// inbound finds the taker's side of a peer's task.
func (n *a2aNode) inbound(remoteID string) *command.PeerTaskRecord {
	n.t.Helper()
	return nodeDo[command.PeerTaskRecord](n, &command.GetPeerTask{PeerTaskKey: command.PeerTaskKey{NativeProtocol: "a2a", RemoteTaskID: remoteID}})
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
	taker.end(syscall.SIGKILL)
	nodeDo[command.RespondActionResult](giver, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`"red"`)})
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
	giver.end(syscall.SIGKILL)
	giver.start()
	nodeDo[command.TaskResult](giver, &command.CancelTask{TaskID: "task_sess_slow"})
	giver.await("sess_slow", func(e *event.Event) bool { return e.Type == event.TypeTaskCancelled })
	rec := taker.inbound(out.RemoteTaskID)
	if rec.Status != "cancelled" {
		t.Errorf("there it is %s", rec.Status)
	}
	all := nodeDo[command.ListPeerTasksResult](taker, &command.ListPeerTasks{NativeProtocol: "a2a"})
	if len(all.PeerTasks) != 1 {
		t.Errorf("the peer has %d tasks", len(all.PeerTasks))
	}
}
