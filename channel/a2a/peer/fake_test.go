package peer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
)

type object = map[string]any

// fake is an agent over real HTTP that does what a test says.
type fake struct {
	t     *testing.T
	srv   *httptest.Server
	token string

	mu    sync.Mutex
	tasks map[string]*proto.Task
	// changed is closed and renewed with each change of a task.
	changed chan struct{}
	calls   []string
	// asked is closed and renewed with each call.
	asked  chan struct{}
	sent   []*proto.Message
	pushes []*proto.PushConfig
	// card changes the card; faults answers in place of the agent, by method, if it
	// returns true; begin makes what a message begins.
	card   func(object)
	faults map[string]func(w http.ResponseWriter, r *http.Request) bool
	begin  func(t *proto.Task)
	// streaming and push are what the card offers; tells is how often somebody who
	// asked to be told is told of a change.
	streaming, push bool
	tells           int
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, tasks: map[string]*proto.Task{}, changed: make(chan struct{}), asked: make(chan struct{}), faults: map[string]func(http.ResponseWriter, *http.Request) bool{}}
	f.srv = httptest.NewServer(f)
	t.Cleanup(func() {
		f.srv.CloseClientConnections()
		f.srv.Close()
	})
	return f
}

// fault answers a method once, or always, in place of the agent.
func (f *fake) fault(method string, times int, answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[method] = func(w http.ResponseWriter, r *http.Request) bool {
		f.mu.Lock()
		if times == 0 {
			f.mu.Unlock()
			return false
		}
		times--
		f.mu.Unlock()
		answer(w, r)
		return true
	}
}

func (f *fake) faulty(method string, w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	answer := f.faults[method]
	f.calls = append(f.calls, method)
	close(f.asked)
	f.asked = make(chan struct{})
	f.mu.Unlock()
	return answer != nil && answer(w, r)
}

// called counts the calls of a method.
func (f *fake) called(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.calls {
		if m == method {
			n++
		}
	}
	return n
}

// awaitCall returns when a method was called.
func (f *fake) awaitCall(method string) {
	f.t.Helper()
	for {
		f.mu.Lock()
		there, next := slices.Contains(f.calls, method), f.asked
		f.mu.Unlock()
		if there {
			return
		}
		select {
		case <-next:
		case <-f.t.Context().Done():
			f.t.Fatalf("%s was not called", method)
		}
	}
}

// awaitTask returns when the agent has a task.
func (f *fake) awaitTask(id string) {
	f.t.Helper()
	for {
		f.mu.Lock()
		_, there := f.tasks[id]
		next := f.changed
		f.mu.Unlock()
		if there {
			return
		}
		select {
		case <-next:
		case <-f.t.Context().Done():
			f.t.Fatalf("%s did not come", id)
		}
	}
}

func (f *fake) messages() []*proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/agent-card.json":
		if !f.faulty("card", w, r) {
			f.serveCard(w)
		}
	case "/rpc":
		f.serveRPC(w, r)
	default:
		if !f.faulty(r.URL.Path, w, r) {
			http.NotFound(w, r)
		}
	}
}

func (f *fake) serveCard(w http.ResponseWriter) {
	card := object{
		"name": "fake", "description": "d", "version": "1", "skills": []any{}, "defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
		"capabilities":        object{"streaming": f.streaming, "pushNotifications": f.push},
		"supportedInterfaces": []object{{"url": f.srv.URL + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
	}
	if f.card != nil {
		f.card(card)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(card)
}

type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func (f *fake) serveRPC(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req rpcRequest
	if err := json.Unmarshal(body, &req); err != nil {
		f.t.Errorf("the client sent %q", body)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if f.faulty(req.Method, w, r) {
		return
	}
	if f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	if r.Header.Get("A2A-Version") != "1.0" {
		f.t.Errorf("the version is %q", r.Header.Get("A2A-Version"))
	}
	f.answer(w, r, &req)
}

func (f *fake) answer(w http.ResponseWriter, r *http.Request, req *rpcRequest) {
	var p struct {
		ID      string                   `json:"id"`
		Message *proto.Message           `json:"message"`
		Config  *proto.SendMessageConfig `json:"configuration"`
	}
	_ = json.Unmarshal(req.Params, &p)
	switch req.Method {
	case "SendMessage", "SendStreamingMessage":
		t := f.acceptMessage(p.Message, p.Config)
		if req.Method == "SendMessage" {
			reply(w, req.ID, object{"task": t})
			return
		}
		f.stream(w, r, req.ID, string(t.ID))
	case "SubscribeToTask":
		f.stream(w, r, req.ID, p.ID)
	case "GetTask":
		if t := f.task(p.ID); t != nil {
			reply(w, req.ID, t)
			return
		}
		refuse(w, req.ID, -32001, "task not found")
	case "ListTasks":
		f.mu.Lock()
		list := []*proto.Task{}
		for _, t := range f.tasks {
			list = append(list, t)
		}
		f.mu.Unlock()
		reply(w, req.ID, object{"tasks": list, "totalSize": len(list), "pageSize": 100, "nextPageToken": ""})
	case "CancelTask":
		if t := f.task(p.ID); t == nil || t.Status.State.Terminal() {
			refuse(w, req.ID, -32002, "task cannot be canceled")
			return
		}
		f.set(p.ID, proto.TaskStateCanceled, "")
		reply(w, req.ID, f.task(p.ID))
	default:
		refuse(w, req.ID, -32601, "no such method")
	}
}

// acceptMessage takes a message: it begins a task, or is an answer to one.
func (f *fake) acceptMessage(m *proto.Message, cfg *proto.SendMessageConfig) *proto.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, m)
	if cfg != nil && cfg.PushConfig != nil {
		f.pushes = append(f.pushes, cfg.PushConfig)
	}
	var t proto.Task
	if have := f.tasks[string(m.TaskID)]; have != nil {
		t = *have
		t.Status = proto.TaskStatus{State: proto.TaskStateWorking}
		t.History = append(slices.Clone(t.History), m)
	} else {
		t = proto.Task{ID: proto.TaskID(fmt.Sprintf("theirs-%d", len(f.tasks)+1)), ContextID: "their-context", Status: proto.TaskStatus{State: proto.TaskStateWorking}, History: []*proto.Message{m}}
		if f.begin != nil {
			f.begin(&t)
		}
	}
	f.storeTask(&t)
	return &t
}

// storeTask keeps a task; the lock is held.
func (f *fake) storeTask(t *proto.Task) {
	f.tasks[string(t.ID)] = t
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) task(id string) *proto.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tasks[id]
}

// set changes a task's state, with a message where a text is given, and artifacts,
// and tells those who asked to be told.
func (f *fake) set(id string, s proto.TaskState, text string, artifacts ...*proto.Artifact) {
	f.change(id, s, text, artifacts...)
	f.mu.Lock()
	tells := f.tells
	f.mu.Unlock()
	for range tells {
		f.notify()
	}
}

// notify tells all who asked to be told, without a word that could be believed.
func (f *fake) notify() {
	f.mu.Lock()
	places := slices.Clone(f.pushes)
	f.mu.Unlock()
	for _, p := range places {
		if got := postUpdate(f.t, p.URL, p.Token); got != http.StatusNoContent {
			f.t.Errorf("a notification was answered with %d", got)
		}
	}
}

func (f *fake) change(id string, s proto.TaskState, text string, artifacts ...*proto.Artifact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	have := f.tasks[id]
	if have == nil {
		f.t.Errorf("there is no task %s", id)
		return
	}
	t := *have
	t.Status = proto.TaskStatus{State: s}
	if text != "" {
		t.Status.Message = proto.NewMessage(proto.MessageRoleAgent, proto.NewTextPart(text))
	}
	t.Artifacts = append(slices.Clone(t.Artifacts), artifacts...)
	f.storeTask(&t)
}

func (f *fake) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tasks, id)
}

// stream tells of a task until it ends or asks.
func (f *fake) stream(w http.ResponseWriter, r *http.Request, id json.RawMessage, taskID string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for first := true; ; first = false {
		f.mu.Lock()
		t, changed := f.tasks[taskID], f.changed
		f.mu.Unlock()
		if t == nil {
			sse(w, id, nil, object{"code": -32001, "message": "task not found"})
			return
		}
		if first {
			sse(w, id, object{"task": t}, nil)
		} else {
			sse(w, id, object{"statusUpdate": object{"taskId": t.ID, "contextId": t.ContextID, "status": t.Status}}, nil)
		}
		if s := t.Status.State; s.Terminal() || s == proto.TaskStateInputRequired {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func sse(w http.ResponseWriter, id json.RawMessage, result, failed any) {
	m := object{"jsonrpc": "2.0", "id": id}
	if failed != nil {
		m["error"] = failed
	} else {
		m["result"] = result
	}
	b, _ := json.Marshal(m)
	_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
	w.(http.Flusher).Flush()
}

func reply(w http.ResponseWriter, id json.RawMessage, result any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": id, "result": result})
}

func refuse(w http.ResponseWriter, id json.RawMessage, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{"jsonrpc": "2.0", "id": id, "error": object{"code": code, "message": message}})
}

func text(id, s string) *proto.Artifact {
	return &proto.Artifact{ID: proto.ArtifactID(id), Name: id, Parts: proto.ContentParts{proto.NewTextPart(s)}}
}
