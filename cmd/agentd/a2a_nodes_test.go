package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"agentd/event"
)

// listenerOf answers notifications about A2A tasks: with 503 as long as busy says so.
type listenerOf struct {
	*httptest.Server
	got chan string
}

func newListener(t *testing.T, busy func() bool) *listenerOf {
	t.Helper()
	l := &listenerOf{got: make(chan string, 1000)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Authorization") != "Bearer theirs" {
			t.Errorf("told with the credential %q", r.Header.Get("Authorization"))
		}
		state := "other"
		for _, s := range []string{"WORKING", "COMPLETED"} {
			if strings.Contains(string(body), "TASK_STATE_"+s) {
				state = s
			}
		}
		if busy() {
			w.WriteHeader(http.StatusServiceUnavailable)
			state += ", refused"
		}
		l.got <- state
	}))
	t.Cleanup(l.Close)
	return l
}

// until waits for a notification.
func (l *listenerOf) until(t *testing.T, want string) {
	t.Helper()
	for {
		select {
		case state := <-l.got:
			if state == want {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("%s was never told", want)
		}
	}
}

// toldAt begins a task about which a place is to be told.
func (p *process) toldAt(address string) (task, sessionID string) {
	p.t.Helper()
	body := fmt.Sprintf(`{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]},"configuration":{"returnImmediately":true,`+
		`"taskPushNotificationConfig":{"url":%q,"authentication":{"scheme":"Bearer","credentials":"theirs"}}}}`, address)
	status, answer := p.post("/a2a/rest/message:send", body, "A2A-Version", "1.0")
	var sent struct {
		Task struct {
			ID       string
			Metadata struct {
				Agentd struct{ SessionID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(answer), &sent); err != nil || sent.Task.ID == "" {
		p.t.Fatalf("%d %s: %v", status, answer, err)
	}
	return sent.Task.ID, sent.Task.Metadata.Agentd.SessionID
}

// awaitFinalReport follows a session to the report that a place was told of the end.
func (p *process) awaitFinalReport(sessionID string) {
	p.t.Helper()
	for e, err := range p.client().Follow(p.t.Context(), sessionID, 0, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Type != "channel.peer_push.reported" {
			continue
		}
		d, err := e.Decode()
		if err != nil {
			p.t.Fatal(err)
		}
		switch r := d.Payload.(*event.PeerPushReported); {
		case r.Outcome == "gave_up":
			p.t.Fatalf("%+v", r)
		case r.Final:
			return
		}
	}
	p.t.Fatal("the events ended without a final report")
}

// TestPeersAreToldByAnotherNode kills the node that a peer gave a task to, in the middle of
// its turn: the peer is told of its end by the node that goes on with it.
func TestPeersAreToldByAnotherNode(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.telling(slow), f.telling("answers: [{text: done}]")
	l := newListener(t, func() bool { return false })
	_, sessionID := a.toldAt(l.URL)
	b.until(sessionID, "model.requested", 1)
	f.kill(a)
	l.until(t, "COMPLETED")
	b.awaitFinalReport(sessionID)
}

// TestPeersAreToldOfWhatWasDone kills the node of a task whose end it couldn't tell yet: there
// is nothing left to do in the session, and another node tells the peer all the same.
func TestPeersAreToldOfWhatWasDone(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a, b := f.telling("answers: [{text: done}]"), f.telling(slow)
	var open atomic.Bool
	l := newListener(t, func() bool { return !open.Load() })
	_, sessionID := a.toldAt(l.URL)
	l.until(t, "COMPLETED, refused")
	a.stop(syscall.SIGKILL)
	open.Store(true)
	f.leaseEnds(a, 0)
	l.until(t, "COMPLETED")
	b.awaitFinalReport(sessionID)
}

// telling starts a node that may tell this machine.
func (f *fleet) telling(script string) *process {
	f.t.Helper()
	out, dir := *f, f.t.TempDir()
	out.config = writeFile(f.t, dir, "node.yaml", "node: {lease: "+f.lease+"}\na2a: {push: {allowHosts: [127.0.0.1]}}\n"+
		"providers:\n  - {id: play, kind: script, script: "+writeFile(f.t, dir, "answers.yaml", script)+", models: [{id: m}]}\n")
	return out.node(f.dir())
}

// TestOneCardForAllNodes: with the address in front of them the nodes have the same card,
// byte by byte. Without it they say so as soon as they see each other.
func TestOneCardForAllNodes(t *testing.T) {
	f := newFleet(t, "1h", slow)
	const front = "https://agents.example"
	var bodies, tags []string
	for range 2 {
		out := *f
		out.config = writeFile(t, t.TempDir(), "node.yaml", "node: {lease: 1h}\na2a: {url: "+front+"}\n")
		_, header, body := out.node(f.dir()).exchange("", http.MethodGet, "/.well-known/agent-card.json", "")
		bodies, tags = append(bodies, body), append(tags, header.Get("ETag"))
	}
	if bodies[0] != bodies[1] || tags[0] != tags[1] || tags[0] == "" || !strings.Contains(bodies[0], front+"/a2a/rpc") {
		t.Errorf("the cards are\n%s %s\n%s %s", tags[0], bodies[0], tags[1], bodies[1])
	}
	f.node(f.dir()).wait("set a2a.url")
}
