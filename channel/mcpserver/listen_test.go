package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"agentd/channel/mcpserver"
	"agentd/command"
)

// told is a message of a subscription.
type told struct {
	ID     any            `json:"id"`
	Method string         `json:"method"`
	Params map[string]any `json:"params"`
	Result map[string]any `json:"result"`
	Error  *struct {
		Code int64 `json:"code"`
	} `json:"error"`
}

// subscription reads the messages of one.
type subscription struct {
	t     *testing.T
	lines *bufio.Reader
}

// next returns the next message: a line, with or without the prefix of an event.
func (s *subscription) next() told {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
		var m told
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			s.t.Fatalf("%v in %s", err, line)
		}
		return m
	}
}

// status returns the next notification of a task, which must be of this one.
func (s *subscription) status(taskID string) told {
	s.t.Helper()
	m := s.next()
	meta, _ := m.Params["_meta"].(map[string]any)
	if m.Method != "notifications/tasks" || m.Params["taskId"] != taskID || m.ID != nil || meta["io.modelcontextprotocol/subscriptionId"] != float64(7) {
		s.t.Fatalf("no notification of %s: %+v", taskID, m)
	}
	return m
}

// listen subscribes to tasks over HTTP.
func (k *kit) listen(ctx context.Context, token string, ids ...string) *subscription {
	k.t.Helper()
	r := k.newRequest(ctx, token, "subscriptions/listen", map[string]any{"notifications": map[string]any{"taskIds": ids}}, withTasks())
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = res.Body.Close() })
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		k.t.Fatalf("the stream is %d %s", res.StatusCode, got)
	}
	return &subscription{k.t, bufio.NewReader(res.Body)}
}

// agreed reads the acknowledgement, which comes first.
func (s *subscription) agreed() string {
	s.t.Helper()
	m := s.next()
	kinds, _ := m.Params["notifications"].(map[string]any)
	ids, there := kinds["taskIds"].([]any)
	if m.Method != "notifications/subscriptions/acknowledged" || !there {
		s.t.Fatalf("no acknowledgement: %+v", m)
	}
	var names []string
	for _, id := range ids {
		names = append(names, id.(string))
	}
	return strings.Join(names, " ")
}

// allow answers all that a task asks.
func (k *kit) allow(id string, m told) {
	k.t.Helper()
	responses := map[string]any{}
	for key := range m.Params["inputRequests"].(map[string]any) {
		responses[key] = map[string]any{"action": "accept", "content": map[string]any{"decision": "allow"}}
	}
	if a := k.send("ann", "tasks/update", map[string]any{"taskId": id, "inputResponses": responses}, withTasks()); a.Error != nil {
		k.t.Fatal(a.Body)
	}
}

// A client is told of each status of a task, with all that tasks/get would say, and
// the stream ends with the last of its tasks.
func TestAClientIsToldOfItsTasks(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "write it", "sess_t")
	done := k.begin("ann", "say hello", "sess_d")
	k.task("ann", done, "completed")
	s := k.listen(t.Context(), "ann", id, done, id, "sess_none/turn_none/1", "nonsense")
	if got := s.agreed(); got != id+" "+done {
		t.Fatalf("agreed to %q", got)
	}
	// The two are told of side by side.
	var statuses []string
	for asked := false; !asked; {
		m := s.next()
		switch m.Params["taskId"] {
		case done:
			result, _ := m.Params["result"].(map[string]any)
			if m.Params["status"] != "completed" || result["structuredContent"].(map[string]any)["answer"] != "Hello to you." || m.Params["resultType"] != nil {
				t.Errorf("the task that is over is %+v", m.Params)
			}
			continue
		case id:
		default:
			t.Fatalf("a notification that nobody wants: %+v", m)
		}
		statuses = append(statuses, m.Params["status"].(string))
		if asked = m.Params["status"] == "input_required"; asked {
			k.allow(id, m)
		}
	}
	for {
		m := s.next()
		if m.Params["taskId"] == done {
			continue
		}
		if m.ID != nil {
			if m.ID != float64(7) || m.Result["resultType"] != "complete" {
				t.Errorf("the end is %+v", m)
			}
			break
		}
		statuses = append(statuses, m.Params["status"].(string))
		if m.Params["status"] == "completed" && m.Params["result"] == nil {
			t.Errorf("no result: %+v", m.Params)
		}
	}
	// It may have asked before the stream began, and be done before it is seen to work
	// again; nothing is told twice.
	got := strings.Join(statuses, " ")
	if !strings.HasSuffix(got, "completed") || strings.Count(got, "completed") != 1 || strings.Count(got, "input_required") != 1 {
		t.Errorf("told: %s", got)
	}
}

func TestASubscriptionOfATaskThatIsCancelled(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "wait long", "sess_t")
	s := k.listen(t.Context(), "ann", id)
	s.agreed()
	if m := s.status(id); m.Params["status"] != "working" {
		t.Errorf("first %+v", m.Params)
	}
	if a := k.send("ann", "tasks/cancel", map[string]any{"taskId": id}, withTasks()); a.Error != nil {
		t.Fatal(a.Body)
	}
	if m := s.status(id); m.Params["status"] != "cancelled" {
		t.Errorf("then %+v", m.Params)
	}
	if m := s.next(); m.Result["resultType"] != "complete" {
		t.Errorf("the end is %+v", m)
	}
}

func TestSubscriptionsThatAreRefused(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "say hello", "sess_t")
	k.task("ann", id, "completed")
	want := map[string]any{"notifications": map[string]any{"taskIds": []string{id}}}
	if a := k.send("ann", "subscriptions/listen", want, map[string]any{}); a.Status != http.StatusBadRequest || a.Error == nil || a.Error.Code != -32021 || a.Error.Data["requiredCapabilities"] == nil {
		t.Errorf("without the extension: %d %s", a.Status, a.Body)
	}
	r := k.newRequest(t.Context(), "ann", "subscriptions/listen", want, withTasks())
	r.Header.Set("Mcp-Method", "tools/list")
	if a := k.read(r); a.Status != http.StatusBadRequest {
		t.Errorf("a header that says otherwise: %d %s", a.Status, a.Body)
	}
	if a := k.send("nobody", "subscriptions/listen", want, withTasks()); a.Status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", a.Status)
	}
	// Another account's task is not there: nothing is agreed to, and nothing is told.
	s := k.listen(t.Context(), "bob", id)
	if got := s.agreed(); got != "" {
		t.Errorf("another account is told of %q", got)
	}
	if m := s.next(); m.Result["resultType"] != "complete" {
		t.Errorf("the end is %+v", m)
	}
}

// A server that stops ends the stream with an answer; the task goes on.
func TestAServerThatStopsEndsItsSubscriptions(t *testing.T) {
	k := newKit(t).start()
	id := k.begin("ann", "wait long", "sess_t")
	s := k.listen(t.Context(), "ann", id)
	s.agreed()
	s.status(id)
	if err := k.server.Close(); err != nil {
		t.Fatal(err)
	}
	if m := s.next(); m.Result["resultType"] != "complete" || m.Error != nil {
		t.Errorf("the end is %+v", m)
	}
}

func TestTasksAreToldOfOnStandardInputAndOutput(t *testing.T) {
	k := newKit(t).start()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- k.server.ServeStdio(context.Background(), in, out, mcpserver.Identity{Caller: command.Local(), Role: command.RoleAdmin})
		_ = out.Close()
	}()
	s := &subscription{t, bufio.NewReader(fromServer)}
	say := func(id any, method string, params map[string]any) {
		if params["_meta"] == nil && id != nil {
			params["_meta"] = meta(withTasks())
		}
		m := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
		if id != nil {
			m["id"] = id
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		// In two pieces: a line is one wherever it is cut.
		for _, piece := range [][]byte{b[:10], append(b[10:], '\n')} {
			if _, err := toServer.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
	}
	taskIDs := func(ids ...string) map[string]any {
		return map[string]any{"notifications": map[string]any{"taskIds": ids}}
	}
	say(1, "tools/call", map[string]any{"name": "run_turn", "arguments": map[string]any{"input": "wait long", "sessionId": "sess_s", "create": true}})
	id, _ := s.next().Result["taskId"].(string)

	say(7, "subscriptions/listen", taskIDs(id))
	if got := s.agreed(); got != id {
		t.Fatalf("agreed to %q", got)
	}
	if m := s.status(id); m.Params["status"] != "working" {
		t.Errorf("first %+v", m.Params)
	}
	// One that was cancelled is told no more, and the SDK's own requests are answered.
	say(nil, "notifications/cancelled", map[string]any{"requestId": 7})
	say(8, "tasks/cancel", map[string]any{"taskId": id})
	if m := s.next(); m.ID != float64(8) || m.Error != nil {
		t.Errorf("the answer is %+v", m)
	}
	k.task("admin", id, "cancelled")
	withoutTasks := taskIDs(id)
	withoutTasks["_meta"] = meta(nil)
	say(9, "subscriptions/listen", withoutTasks)
	if m := s.next(); m.ID != float64(9) || m.Error == nil || m.Error.Code != -32021 {
		t.Errorf("without the extension: %+v", m)
	}
	say(7, "subscriptions/listen", taskIDs(id))
	s.agreed()
	if m := s.status(id); m.Params["status"] != "cancelled" {
		t.Errorf("the end is %+v", m.Params)
	}
	if m := s.next(); m.ID != float64(7) || m.Result["resultType"] != "complete" {
		t.Errorf("the answer is %+v", m)
	}
	_ = toServer.Close()
	if _, err := io.Copy(io.Discard, fromServer); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
