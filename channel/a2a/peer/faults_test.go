package peer_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/event"
)

// The ways in which a peer's task is followed.
const (
	byStream = "streaming"
	byPoll   = "polling"
	byPush   = "push"
)

// way makes a fake that is followed in a way. A task of byPush is looked at when the
// peer tells of it, and not before an hour has passed otherwise.
func way(t *testing.T, name string) (*fake, func(*peerOptions)) {
	t.Helper()
	f := newFake(t)
	switch name {
	case byStream:
		f.streaming = true
	case byPush:
		f.push, f.tells = true, 1
		return f, func(o *peerOptions) {
			o.Attempts = 1000
			o.Peers[0].Delivery, o.Poll, o.MaxPoll = "push", hour, hour
		}
	}
	return f, func(o *peerOptions) { o.Attempts = 1000 }
}

// looks is the call by which a task is first looked at.
func looks(way string) string {
	if way == byStream {
		return "SendStreamingMessage"
	}
	return "GetTask"
}

// misdeed is what a peer does wrong when a task is looked at: in a stream that has
// begun with the task, or in place of the answer to GetTask.
type misdeed struct {
	inStream func(w http.ResponseWriter, r *http.Request, id []byte)
	inAnswer func(w http.ResponseWriter, r *http.Request, id []byte)
}

func update(taskID, state string) object {
	return object{"statusUpdate": object{"taskId": taskID, "contextId": "their-context", "status": object{"state": state}}}
}

func hang(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }

func abort(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }

func answers(result object) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, id []byte) { reply(w, id, result) }
}

func streams(result object) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, id []byte) { sse(w, id, result, nil) }
}

func misdeeds() map[string]misdeed {
	write := func(s string) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			_, _ = io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
	}
	return map[string]misdeed{
		"it says nothing": {hang, hang},
		"it dies": {abort, func(w http.ResponseWriter, r *http.Request, id []byte) {
			w.Header().Set("Content-Length", "1000")
			write(`{"jsonrpc":"2.0","result":{"id":"theirs-1","stat`)(w, r, id)
			panic(http.ErrAbortHandler)
		}},
		"it says what is no JSON":  {write("data: {\"jsonrpc\n\n"), write("<html>hello</html>")},
		"it knows another state":   {streams(update("theirs-1", "TASK_STATE_PURPLE")), answers(object{"id": "theirs-1", "contextId": "their-context", "status": object{"state": "TASK_STATE_PURPLE"}})},
		"it tells of another task": {streams(update("theirs-9", "TASK_STATE_COMPLETED")), answers(object{"id": "theirs-9", "contextId": "their-context", "status": object{"state": "TASK_STATE_COMPLETED"}})},
		"it answers with an error": {func(w http.ResponseWriter, _ *http.Request, id []byte) {
			sse(w, id, nil, object{"code": -32603, "message": "oops"})
		}, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			http.Error(w, "oops", http.StatusInternalServerError)
		}},
		"it ends before there is an end": {write(""), answers(object{})},
	}
}

// TestMisdeedsOfAPeer: whatever a peer does wrong while its task is looked at, the
// task comes to its end once the peer behaves: it was sent once, delivered once, and
// never said to have failed.
func TestMisdeedsOfAPeer(t *testing.T) {
	for name, wrong := range misdeeds() {
		for _, by := range []string{byStream, byPoll, byPush} {
			t.Run(fmt.Sprintf("%s by %s", name, by), func(t *testing.T) {
				t.Parallel()
				f, follow := way(t, by)
				k := newKit(t, f, follow, func(o *peerOptions) {
					o.Attempts = 1000 // on a busy machine other requests take that long, too
					o.Timeout, o.Silence = time.Second, time.Second
				})
				f.fault(looks(by), 1, f.does(by, wrong))
				k.delegate()
				f.awaitTask("theirs-1")
				f.awaitCall(looks(by))
				f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
				k.becomes("completed")
				k.once()
			})
		}
	}
}

// does answers as the misdeed says.
func (f *fake) does(by string, wrong misdeed) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if by == byStream {
			req, task := f.takes(r)
			w.Header().Set("Content-Type", "text/event-stream")
			sse(w, req.ID, object{"task": task}, nil)
			wrong.inStream(w, r, req.ID)
			return
		}
		var req rpcRequest
		body, _ := io.ReadAll(r.Body)
		if err := unmarshal(body, &req); err != nil {
			f.t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		wrong.inAnswer(w, r, req.ID)
	}
}

// once holds that what was delegated happened once: one message, one link, one end
// that is a success, one artifact.
func (k *kit) once() {
	k.t.Helper()
	count := map[string]int{}
	for _, e := range k.facts("") {
		count[string(e.Type)]++
		if s := statusOf(e); s == "failed" || s == "lost" || s == "blocked" {
			k.t.Errorf("in between it was %s", s)
		}
	}
	for _, typ := range []event.Type{event.TypeTaskDelegated, event.TypeChannelPeerTaskLinked, event.TypeArtifactChanged, event.TypeTaskCompleted} {
		if count[string(typ)] != 1 {
			k.t.Errorf("%d facts of %s", count[string(typ)], typ)
		}
	}
}

// TestAPeerThatRepeatsItself: what is told again is one fact, in all ways.
func TestAPeerThatRepeatsItself(t *testing.T) {
	for _, by := range []string{byStream, byPoll, byPush} {
		t.Run(by, func(t *testing.T) {
			f, follow := way(t, by)
			f.tells *= 5
			k := newKit(t, f, follow)
			k.delegate()
			k.stands("running")
			for range 5 {
				f.set("theirs-1", proto.TaskStateWorking, "still at it")
			}
			f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
			k.becomes("completed")
			f.set("theirs-1", proto.TaskStateCompleted, "done") // and after the end
			k.once()
			updates := map[string]int{}
			for _, e := range k.facts(event.TypeChannelPeerTaskUpdated) {
				updates[e.Payload.(*event.PeerTaskUpdated).Status]++
			}
			if updates["running"] != 1 || updates["completed"] != 1 || len(f.messages()) != 1 {
				t.Errorf("%v after %d messages", updates, len(f.messages()))
			}
		})
	}
}

// TestAPeerThatDoesNotTell: a card may promise notifications that never come; the
// task is looked at all the same.
func TestAPeerThatDoesNotTell(t *testing.T) {
	f, follow := way(t, byPush)
	f.tells = 0
	k := newKit(t, f, follow, func(o *peerOptions) { o.Poll, o.MaxPoll = time.Millisecond, time.Millisecond })
	k.delegate()
	k.stands("running")
	f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
	k.becomes("completed")
	k.once()
}

// TestAnArtifactOf100MBInAStream: a stream that brings more than is taken is cut off;
// what the peer says when it is asked decides.
func TestAnArtifactOf100MBInAStream(t *testing.T) {
	f, follow := way(t, byStream)
	k := newKit(t, f, follow)
	f.fault("SendStreamingMessage", 1, func(w http.ResponseWriter, r *http.Request) {
		req, task := f.takes(r)
		w.Header().Set("Content-Type", "text/event-stream")
		sse(w, req.ID, object{"task": task}, nil)
		_, _ = fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"artifactUpdate":{"taskId":"theirs-1","contextId":"their-context","artifact":{"artifactId":"a","parts":[{"text":"`, req.ID)
		_, _ = io.CopyN(w, zeros{}, 100<<20)
		_, _ = io.WriteString(w, "\"}]}}}}\n\n")
	})
	k.delegate()
	f.awaitTask("theirs-1")
	f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
	k.becomes("completed")
	k.once()
}

// TestCallsThatRedirect: a peer that is at work and then sends its caller elsewhere
// is not followed, not even to its own host; the task waits until it behaves.
func TestCallsThatRedirect(t *testing.T) {
	for _, by := range []string{byStream, byPoll, byPush} {
		t.Run(by, func(t *testing.T) {
			f, follow := way(t, by)
			away := func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, f.srv.URL+"/elsewhere", http.StatusTemporaryRedirect)
			}
			f.fault("/elsewhere", -1, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
			k := newKit(t, f, follow)
			for _, method := range []string{"GetTask", "SubscribeToTask"} {
				f.fault(method, 2, away)
			}
			if by == byStream { // which ends, so that the task is looked at again
				f.fault("SendStreamingMessage", 1, f.does(by, misdeed{inStream: abort}))
			}
			k.delegate()
			k.stands("unreachable")
			f.set("theirs-1", proto.TaskStateCompleted, "done", text("report", "x"))
			k.becomes("completed")
			k.once()
		})
	}
}

// TestADeliveryThatCanNotBeFetchedNow: a task that is done at the peer is not said to
// be out of reach while its files are.
func TestADeliveryThatCanNotBeFetchedNow(t *testing.T) {
	for _, by := range []string{byStream, byPoll, byPush} {
		t.Run(by, func(t *testing.T) {
			f, follow := way(t, by)
			k := newKit(t, f, follow)
			f.fault("/file", 3, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) })
			k.delegate()
			k.stands("running")
			f.set("theirs-1", proto.TaskStateCompleted, "done", &proto.Artifact{ID: "a", Parts: proto.ContentParts{proto.NewFileURLPart(proto.URL(f.srv.URL+"/file"), "text/plain")}})
			k.await(0, func(e *event.Event) bool {
				p, ok := e.Payload.(*event.PeerTaskUpdated)
				return ok && p.Status == "completed_unreconciled" && strings.Contains(p.Reason, "can't be fetched now")
			})
			f.fault("/file", -1, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a,b") })
			k.becomes("completed")
			k.once()
			var statuses []string
			for _, e := range k.facts(event.TypeChannelPeerTaskUpdated) {
				statuses = append(statuses, e.Payload.(*event.PeerTaskUpdated).Status)
			}
			if slices.Contains(statuses, "unreachable") {
				t.Errorf("it stood as %v", statuses)
			}
		})
	}
}
