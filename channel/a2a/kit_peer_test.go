package a2a_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agentd/channel/a2a"
	"agentd/command"
	"agentd/event"
	"agentd/session"
)

// answer is what a peer gets.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   map[string]any
	// result of an operation that succeeded; code and reason of one that didn't.
	result  map[string]any
	code    int
	reason  string
	message string
	fields  []string
}

// binding is a form in which operations are asked for.
type binding string

const (
	jsonRPC  binding = "JSON-RPC"
	httpJSON binding = "HTTP+JSON"
)

// both runs a test with each binding.
func both(t *testing.T, test func(t *testing.T, b binding)) {
	t.Helper()
	for _, b := range []binding{jsonRPC, httpJSON} {
		t.Run(string(b), func(t *testing.T) { test(t, b) })
	}
}

type object = map[string]any

// request builds the request for an operation.
func (k *kit) request(b binding, method string, params object) *http.Request {
	k.t.Helper()
	if b == jsonRPC {
		return k.post(a2a.RPCPath, object{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
	}
	return k.restRequest(method, params)
}

func (k *kit) post(path string, body any) *http.Request {
	k.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		k.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, k.http.URL+path, bytes.NewReader(b))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2a-Version", "1.0")
	r.Header.Set("Authorization", "Bearer alice")
	return r
}

// restRequest is an operation in the HTTP+JSON binding.
func (k *kit) restRequest(method string, params object) *http.Request {
	k.t.Helper()
	text := func(name string) string {
		s, _ := params[name].(string)
		return url.PathEscape(s)
	}
	verb, path, body := http.MethodGet, "", false
	switch method {
	case "SendMessage":
		verb, path, body = http.MethodPost, "/message:send", true
	case "SendStreamingMessage":
		verb, path, body = http.MethodPost, "/message:stream", true
	case "GetTask":
		path = "/tasks/" + text("id")
	case "ListTasks":
		path = "/tasks"
	case "CancelTask":
		verb, path, body = http.MethodPost, "/tasks/"+text("id")+":cancel", true
	case "SubscribeToTask":
		verb, path = http.MethodPost, "/tasks/"+text("id")+":subscribe"
	case "CreateTaskPushNotificationConfig":
		verb, path, body = http.MethodPost, "/tasks/"+text("taskId")+"/pushNotificationConfigs", true
	case "ListTaskPushNotificationConfigs":
		path = "/tasks/" + text("taskId") + "/pushNotificationConfigs"
	case "GetTaskPushNotificationConfig":
		path = "/tasks/" + text("taskId") + "/pushNotificationConfigs/" + text("id")
	case "DeleteTaskPushNotificationConfig":
		verb, path = http.MethodDelete, "/tasks/"+text("taskId")+"/pushNotificationConfigs/"+text("id")
	case "GetExtendedAgentCard":
		path = "/extendedAgentCard"
	default:
		k.t.Fatalf("there is no address for %s", method)
	}
	r := k.post(a2a.RESTPath+path, params)
	if !body {
		q := url.Values{}
		for name, v := range params {
			if name != "id" && name != "taskId" {
				q.Set(name, fmt.Sprint(v))
			}
		}
		r.URL.RawQuery, r.Body, r.ContentLength = q.Encode(), http.NoBody, 0
	}
	r.Method = verb
	return r
}

// call carries out an operation as alice.
func (k *kit) call(b binding, method string, params object) *answer {
	k.t.Helper()
	return k.sendRequest(b, k.request(b, method, params))
}

// as carries out an operation as somebody else.
func (k *kit) as(name string, b binding, method string, params object) *answer {
	k.t.Helper()
	r := k.request(b, method, params)
	r.Header.Set("Authorization", "Bearer "+name)
	return k.sendRequest(b, r)
}

func (k *kit) sendRequest(b binding, r *http.Request) *answer {
	k.t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	a := &answer{t: k.t, status: res.StatusCode, header: res.Header}
	if err := json.Unmarshal(data, &a.body); err != nil {
		k.t.Fatalf("%s %s: %v: %s", r.Method, r.URL.Path, err, data)
	}
	a.read(b, a.body)
	return a
}

// read takes the answer out of the binding's form.
func (a *answer) read(b binding, body object) {
	a.t.Helper()
	failed, isError := body["error"].(object)
	details := "details"
	if b == jsonRPC {
		details = "data"
		if body["jsonrpc"] != "2.0" {
			a.t.Errorf("the answer is no JSON-RPC: %v", body)
		}
		a.result, _ = body["result"].(object)
	} else if !isError {
		a.result = body
	}
	if !isError {
		return
	}
	code, _ := failed["code"].(float64)
	a.code = int(code)
	a.message, _ = failed["message"].(string)
	for _, d := range failed[details].([]any) {
		d := d.(object)
		switch d["@type"] {
		case "type.googleapis.com/google.rpc.ErrorInfo":
			a.reason, _ = d["reason"].(string)
			if d["domain"] != "a2a-protocol.org" {
				a.t.Errorf("the error's domain is %v", d["domain"])
			}
		case "type.googleapis.com/google.rpc.BadRequest":
			for _, v := range d["fieldViolations"].([]any) {
				a.fields = append(a.fields, v.(object)["field"].(string))
			}
		}
	}
}

// ok fails the test if the operation failed.
func (a *answer) ok() *answer {
	a.t.Helper()
	if a.reason != "" || a.result == nil {
		a.t.Fatalf("it failed: %d %s %s", a.code, a.reason, a.message)
	}
	return a
}

// fails checks that the operation was refused for a reason.
func (a *answer) fails(reason string) *answer {
	a.t.Helper()
	if a.reason != reason {
		a.t.Errorf("reason %q (%s), expected %s; result %v", a.reason, a.message, reason, a.result)
	}
	return a
}

// valueAt follows names and numbers into a value.
func valueAt(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func str(v any, path ...any) string {
	s, _ := valueAt(v, path...).(string)
	return s
}

// task is the task of an answer, wherever the operation puts it.
func (a *answer) task() object {
	a.t.Helper()
	a.ok()
	if t, ok := a.result["task"].(object); ok {
		return t
	}
	return a.result
}

func state(task any) string { return str(task, "status", "state") }

// message is the parameters of a message with a text.
func message(id, text string, more ...object) object {
	m := object{"messageId": id, "role": "ROLE_USER", "parts": []object{{"text": text}}}
	for _, o := range more {
		maps.Copy(m, o)
	}
	return object{"message": m}
}

// now adds that the answer must not wait for the task.
func now(params object) object {
	params["configuration"] = object{"returnImmediately": true}
	return params
}

// stream is an open stream of events.
type stream struct {
	t     *testing.T
	b     binding
	res   *http.Response
	lines *bufio.Scanner
	close context.CancelFunc
}

// open opens a stream as alice.
func (k *kit) open(b binding, method string, params object) *stream {
	k.t.Helper()
	r := k.request(b, method, params)
	ctx, cancel := context.WithCancel(k.t.Context())
	res, err := http.DefaultClient.Do(r.WithContext(ctx))
	if err != nil {
		cancel()
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		cancel()
		_ = res.Body.Close()
	})
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		k.t.Fatalf("the stream is %s: %s", got, body)
	}
	s := &stream{t: k.t, b: b, res: res, lines: bufio.NewScanner(res.Body), close: cancel}
	s.lines.Buffer(nil, 1<<24)
	return s
}

// next returns the next event, nil at the end of the stream.
func (s *stream) next() object {
	s.t.Helper()
	for s.lines.Scan() {
		data, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var v object
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			s.t.Fatal(err)
		}
		if s.b == jsonRPC {
			if v["id"] != float64(7) {
				s.t.Errorf("an event has the id %v", v["id"])
			}
			if v["error"] != nil {
				return v
			}
			v, _ = v["result"].(object)
		}
		return v
	}
	return nil
}

// readToEnd returns all events up to the end of the stream.
func (s *stream) readToEnd() []object {
	s.t.Helper()
	var all []object
	for e := s.next(); e != nil; e = s.next() {
		all = append(all, e)
	}
	return all
}

// kinds names events in short: the state of statuses, the text of artifacts.
func kinds(events []object) []string {
	var out []string
	for _, e := range events {
		switch {
		case e["task"] != nil:
			out = append(out, "task "+strings.TrimPrefix(state(e["task"]), "TASK_STATE_"))
		case e["statusUpdate"] != nil:
			out = append(out, strings.TrimPrefix(state(e["statusUpdate"]), "TASK_STATE_"))
		case e["artifactUpdate"] != nil:
			u := e["artifactUpdate"].(object)
			kind := "artifact"
			if u["append"] == true {
				kind = "append"
			}
			if u["lastChunk"] == true {
				kind += " last"
			}
			out = append(out, kind+": "+str(u, "artifact", "parts", 0, "text"))
		default:
			out = append(out, fmt.Sprint(e))
		}
	}
	return out
}

// facts returns the types and payloads of a session's facts.
func (k *kit) facts(sessionID string, types ...event.Type) []*event.Event {
	k.t.Helper()
	events, _, err := k.runtime.Port().Events(k.t.Context(), command.Local(), sessionID, 0, 1000)
	if err != nil {
		k.t.Fatal(err)
	}
	var out []*event.Event
	for i := range events {
		e, err := event.Decode(events[i].Data)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, want := range types {
			if e.Type == want {
				out = append(out, e)
			}
		}
	}
	return out
}

// sessionOf is the session of a task, as the task itself says.
func sessionOf(task object) string { return str(task, "metadata", "agentd", "sessionId") }

// waitFor reads the runtime's facts until one of the type is there in the session.
func (k *kit) waitFor(sessionID string, want event.Type, fits func(*event.Event) bool) *event.Event {
	k.t.Helper()
	sub, err := k.runtime.Port().Subscribe(k.t.Context(), command.Local(), sessionID, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer sub.Close()
	for {
		events, err := sub.Next(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		for i := range events {
			e, err := event.Decode(events[i].Data)
			if err != nil {
				k.t.Fatal(err)
			}
			if e.Type == want && (fits == nil || fits(e)) {
				return e
			}
		}
	}
}

// verify folds all facts again and compares what is derived from them, while nobody
// writes.
func (k *kit) verify() {
	k.t.Helper()
	k.stop()
	defer k.start()
	report, err := session.Verify(k.t.Context(), k.store, session.VerifyOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, p := range report.Problems {
		k.t.Error(p)
	}
}

func localCaller() command.Caller { return command.Local() }
