package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/command"
	"agentd/event"
)

type object = map[string]any

// peerAgent is an agent of which a test says how each of its tasks stands, also while
// nobody asks. A task is named by what it was told to do.
type peerAgent struct {
	t   *testing.T
	srv *httptest.Server

	mu    sync.Mutex
	tasks map[string]object
	// refused are those whose caller is not known any more, cut those whose calls
	// break off, gone those that are forgotten; broken says that files can't be had.
	refused, cut, gone map[string]bool
	broken             bool
}

func newPeerAgent(t *testing.T) *peerAgent {
	t.Helper()
	p := &peerAgent{t: t, tasks: map[string]object{}, refused: map[string]bool{}, cut: map[string]bool{}, gone: map[string]bool{}, broken: true}
	p.srv = httptest.NewServer(p)
	t.Cleanup(p.srv.Close)
	return p
}

// set says how a task stands.
func (p *peerAgent) set(id, state string, more object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := object{"state": "TASK_STATE_" + state}
	if text, ok := more["says"]; ok {
		status["message"] = object{"messageId": "says-" + id, "role": "ROLE_AGENT", "parts": []object{{"text": text}}}
	}
	task := object{"id": id, "contextId": "context", "status": status}
	if a, ok := more["artifacts"]; ok {
		task["artifacts"] = a
	}
	p.tasks[id] = task
}

func (p *peerAgent) change(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// ServeHTTP implements [http.Handler].
func (p *peerAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/agent-card.json":
		_ = json.NewEncoder(w).Encode(object{
			"name": "peer", "description": "d", "version": "1", "skills": []any{}, "defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
			"capabilities":        object{"streaming": false},
			"supportedInterfaces": []object{{"url": p.srv.URL + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
		})
	case "/file":
		p.mu.Lock()
		broken := p.broken
		p.mu.Unlock()
		if broken {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprint(w, "the file")
	default:
		p.serveRPC(w, r)
	}
}

func (p *peerAgent) serveRPC(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ID      string
			Message struct{ Parts []struct{ Text string } }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		p.t.Error(err)
		return
	}
	id := req.Params.ID
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.refused[id]:
		w.WriteHeader(http.StatusUnauthorized)
	case p.cut[id]:
		panic(http.ErrAbortHandler)
	case req.Method == "SendMessage":
		id = strings.TrimSpace(req.Params.Message.Parts[0].Text)
		task := object{"id": id, "contextId": "context", "status": object{"state": "TASK_STATE_WORKING"}}
		p.tasks[id] = task
		_ = json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": req.ID, "result": object{"task": task}})
	case p.tasks[id] == nil || p.gone[id]:
		_ = json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": req.ID, "error": object{"code": -32001, "message": "task not found"}})
	default:
		_ = json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": req.ID, "result": p.tasks[id]})
	}
}

// TestRecoveryStatesAreToldApart: the giver of seven tasks is killed, and while it is
// gone each of them comes to stand differently. The next process says of each how it
// stands: six states, the last of them for two reasons. None of them is a failure,
// and all but the one that the peer forgot come to their end.
func TestRecoveryStatesAreToldApart(t *testing.T) {
	p := newPeerAgent(t)
	peers := fmt.Sprintf("peers:\n  - {id: taker, protocol: a2a, cardURL: %q, allowPrivate: true}\n", p.srv.URL)
	giver := serve(t, a2aFolder(t, peers, a2aTaker), nil)
	cases := []struct {
		id   string
		done func() // what the peer does while the giver is gone
		// recovery and status are what the next process says of the peer's task and of
		// its own; reason is part of why.
		recovery, status, reason string
	}{
		{"running", func() {}, "running", "running", ""},
		{"idle", func() { p.set("idle", "SUBMITTED", nil) }, "idle", "", ""},
		{"waiting", func() { p.set("waiting", "INPUT_REQUIRED", object{"says": "Which colour?"}) }, "waiting", "waiting_input", ""},
		{"unreconciled", func() {
			p.set("unreconciled", "COMPLETED", object{"artifacts": []object{{"artifactId": "a", "parts": []object{{"url": p.srv.URL + "/file"}}}}})
		}, "unreconciled", "", ""},
		{"missing", func() { p.change(func() { p.gone["missing"] = true }) }, "missing", "lost", ""},
		{"refused", func() { p.change(func() { p.refused["refused"] = true }) }, "unreachable", "waiting_resource", "credential"},
		{"cut", func() { p.change(func() { p.cut["cut"] = true }) }, "unreachable", "waiting_resource", "reached"},
	}
	for _, c := range cases {
		giver.delegate("sess_"+c.id, c.id)
		giver.updated("sess_"+c.id, "running")
	}
	giver.kill()
	for _, c := range cases {
		c.done()
	}
	giver.start()
	for _, c := range cases {
		w := giver.recovered("task_sess_"+c.id, c.recovery, c.reason)
		if c.status != "" && w.Status != c.status {
			t.Errorf("%s: the task is %s", c.id, w.Status)
		}
	}
	// The peer is there again and done with everything that it has.
	p.change(func() { p.broken, p.refused, p.cut = false, nil, nil })
	for _, c := range cases {
		if c.id != "missing" && c.id != "unreconciled" {
			p.set(c.id, "COMPLETED", object{"says": "done"})
		}
	}
	for _, c := range cases {
		if c.id != "missing" {
			giver.await("sess_"+c.id, completed)
		}
	}
}

// updated waits until the task at the peer is said to stand so.
func (s *served) updated(sessionID, status string) *event.Event {
	s.t.Helper()
	return s.await(sessionID, func(e *event.Event) bool {
		p, ok := e.Payload.(*event.PeerTaskUpdated)
		return ok && p.Status == status
	})
}

// recovered returns the work on a task once its recovery state is this, for a reason
// that has these words.
func (s *served) recovered(taskID, recovery, reason string) *command.PeerWork {
	s.t.Helper()
	sessionID := strings.TrimPrefix(taskID, "task_")
	var last *command.PeerWork
	s.await(sessionID, func(e *event.Event) bool {
		// Each fact may be the one: the state is read, not guessed from it.
		if e.Type != event.TypeChannelPeerTaskUpdated && e.Type != event.TypeChannelPeerTaskLinked {
			return false
		}
		if p, ok := e.Payload.(*event.PeerTaskUpdated); ok && !strings.Contains(p.Reason, reason) {
			return false
		}
		last = servedDo[command.PeerWork](s, &command.GetPeerWork{TaskID: taskID})
		return last.Link != nil && last.Link.Recovery == recovery
	})
	return last
}

// TestRecoveryOverKillsOfThePeer: a peer that is killed at work can't be reached,
// works again once it is back, and has lost the task when it comes back without its
// data.
func TestRecoveryOverKillsOfThePeer(t *testing.T) {
	giver, taker, f := twoNodes(t)
	giver.delegate("sess_slow", "slow")
	giver.updated("sess_slow", "running")
	taker.kill()
	unreachable := giver.updated("sess_slow", "unreachable")
	taker.start()
	f.lead(taker)
	giver.await("sess_slow", func(e *event.Event) bool {
		p, ok := e.Payload.(*event.PeerTaskUpdated)
		return ok && p.Status == "running" && e.Sequence > unreachable.Sequence
	})
	taker.kill()
	data := filepath.Join(taker.dir, "data")
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return os.Rename(data, data+".before") },
		func() error { return os.Mkdir(data, 0o700) },
		func() error { return os.WriteFile(filepath.Join(data, "token"), token, 0o600) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	accept := exec.Command(taker.program, "data", "accept", "--yes", data) // it was made by hand
	accept.Env = taker.env
	if out, err := accept.CombinedOutput(); err != nil {
		t.Fatalf("agentd data accept: %v\n%s", err, out)
	}
	taker.start()
	f.lead(taker)
	if w := giver.recovered("task_sess_slow", "missing", ""); w.Status != "lost" {
		t.Errorf("the task is %s", w.Status)
	}
}
