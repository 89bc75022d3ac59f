package peer_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/event"
)

// What a peer answers with in [FuzzAnswer].
const (
	answersCard = iota
	answersMessage
	answersTask
	answersStream
	answersKinds
)

// Whatever a peer answers once, to whatever it is asked, the task comes to rest, and
// all facts are facts.
func FuzzAnswer(f *testing.F) {
	const task = `{"id":"theirs-1","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"3"}]}]}`
	rpc := func(result string) string { return `{"jsonrpc":"2.0","id":$ID,"result":` + result + `}` }
	for _, body := range []string{
		``, `null`, `[]`, `{"jsonrpc":"2.0","id":$ID}`, rpc(`{}`), rpc(`null`), rpc(`{"task":null}`), rpc(`{"task":` + task + `}`), rpc(task),
		rpc(`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[null,{"text":"hi"},{"data":{"actionId":"x","schema":{}}}]}}`),
		rpc(`{"task":{"id":"` + strings.Repeat("x", 3000) + `","status":{"state":"TASK_STATE_WORKING"}}}`),
		rpc(`{"task":{"id":"theirs-1","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"m","parts":[{"data":{"actionId":"a","decisions":["allow","x"],"schema":{"type":"string"}}}]}}}}`),
		rpc(`{"task":{"id":"a\u0000b","contextId":"\ud800","status":{"state":"NONE","timestamp":"x"}}}`),
		`{"jsonrpc":"2.0","id":$ID,"error":{"code":-32001,"message":"no","data":[{"@type":"x"}]}}`,
	} {
		for kind := range answersKinds {
			f.Add(byte(kind), http.StatusOK, body)
		}
	}
	f.Add(byte(answersCard), http.StatusOK, `{"name":"x","version":"1","capabilities":{"streaming":true},"supportedInterfaces":[{"url":"http://169.254.0.1/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`)
	f.Add(byte(answersStream), http.StatusOK, "data: "+rpc(`{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`)+"\n\ndata: "+rpc(`{"artifactUpdate":{"taskId":"t","append":true,"artifact":{"artifactId":"a","parts":[]}}}`)+"\n\n")
	f.Add(byte(answersMessage), http.StatusFound, ``)
	f.Add(byte(answersTask), http.StatusTeapot, `{}`)
	f.Fuzz(func(t *testing.T, kind byte, status int, body string) {
		if status < 200 || status > 599 || len(body) > 1<<16 {
			t.Skip("no answer that a server of the standard library gives")
		}
		agent := newFake(t)
		agent.begin = func(task *proto.Task) { task.Status.State = proto.TaskStateCompleted }
		agent.answersOnce(kind%answersKinds, status, body)
		k := newKit(t, agent)
		k.delegate()
		k.await(0, atRest)
	})
}

// answersOnce has the agent answer once with what a test says.
func (f *fake) answersOnce(kind byte, status int, body string) {
	method, mediaType := "SendMessage", "application/json"
	switch kind {
	case answersCard:
		method = "card"
	case answersTask:
		method = "GetTask"
		f.begin = nil
	case answersStream:
		f.streaming, method, mediaType = true, "SendStreamingMessage", "text/event-stream"
	}
	f.fault(method, 1, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "$ID", idOf(r)))
		if kind == answersTask { // it has ended when it is looked at again
			f.change("theirs-1", proto.TaskStateCompleted, "")
		}
	})
}

// idOf is the id of a request, as its answer has to have it.
func idOf(r *http.Request) string {
	var req rpcRequest
	if json.NewDecoder(r.Body).Decode(&req) != nil {
		return "null"
	}
	return string(req.ID)
}

// atRest reports whether nothing more happens to the task by itself.
func atRest(e *event.Event) bool {
	if e.Type == event.TypeActionRequired {
		return true
	}
	switch statusOf(e) {
	case "completed", "failed", "cancelled", "blocked", "lost", "rejected", "timed_out":
		return e.TaskID == taskID
	}
	return false
}
