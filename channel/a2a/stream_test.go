package a2a_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/channel/a2a"
	"agentd/event"
)

func TestAStreamHasTheWholeLife(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		events := k.open(b, "SendStreamingMessage", message("m1", "say Hello.")).readToEnd()
		if want := "[task SUBMITTED WORKING artifact last: Hello. COMPLETED]"; fmt.Sprint(kinds(events)) != want {
			t.Errorf("%v", kinds(events))
		}
		id, contextID := str(events[0], "task", "id"), str(events[0], "task", "contextId")
		for _, e := range events[1:] {
			for _, u := range e {
				if str(u, "taskId") != id || str(u, "contextId") != contextID {
					t.Errorf("an update has the ids of another task: %v", u)
				}
			}
		}
		task := k.call(b, "GetTask", object{"id": id}).task()
		if str(task, "artifacts", 0, "artifactId") != str(events[2], "artifactUpdate", "artifact", "artifactId") {
			t.Error("the stream's artifact is not the task's")
		}
	})
}

// Pieces come while the answer is made, and together are what the task has.
func TestAnAnswerComesInPieces(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		s := k.open(b, "SendStreamingMessage", message("m1", "pieces One, |two, |three, |four."))
		s.next() // the task
		var events []object
		for e := s.next(); e != nil; e = s.next() {
			events = append(events, e)
			if len(events) == 1 {
				k.agent.open(1) // WORKING: the first piece is sent, and held back
				k.waitFor(sessionOf(k.call(b, "ListTasks", object{}).ok().result["tasks"].([]any)[0].(object)), event.TypeModelDelta, nil)
				k.agent.open(3)
			}
		}
		whole, begun := "", false
		for _, e := range events {
			u, ok := e["artifactUpdate"].(object)
			if !ok {
				continue
			}
			if (u["append"] == true) != begun {
				t.Errorf("append is %v after %q", u["append"], whole)
			}
			begun, whole = true, whole+str(u, "artifact", "parts", 0, "text")
		}
		names := kinds(events)
		if whole != "One, two, three, four." || !strings.Contains(names[len(names)-2], "last") || names[len(names)-1] != "COMPLETED" || len(names) < 4 {
			t.Errorf("%q from %q", whole, names)
		}
	})
}

func TestAStreamEndsWithAQuestion(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		events := k.open(b, "SendStreamingMessage", message("m1", "ask What?")).readToEnd()
		if want := "[task SUBMITTED WORKING INPUT_REQUIRED]"; fmt.Sprint(kinds(events)) != want {
			t.Errorf("%v", kinds(events))
		}
		rest := k.open(b, "SendStreamingMessage", message("m2", "that", object{"taskId": str(events[0], "task", "id")})).readToEnd()
		names := kinds(rest)
		if !strings.HasPrefix(names[0], "task ") || !strings.HasSuffix(names[len(names)-1], "COMPLETED") {
			t.Errorf("after the answer: %v", names)
		}
	})
}

// A subscriber gets the task as it is, then all that happens until its end: also
// when it waits for its peer in the meantime.
func TestSubscribe(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		task := k.call(b, "SendMessage", message("m1", "ask What?")).task()
		one := k.open(b, "SubscribeToTask", object{"id": task["id"]})
		two := k.open(b, "SubscribeToTask", object{"id": task["id"]})
		first := one.next()
		if state(first["task"]) != "TASK_STATE_INPUT_REQUIRED" || fmt.Sprint(first["task"]) != fmt.Sprint(two.next()["task"]) {
			t.Errorf("first %v", first)
		}
		gone := k.open(b, "SubscribeToTask", object{"id": task["id"]})
		gone.next()
		gone.close() // one that goes away changes nothing for the others
		k.call(b, "SendMessage", now(message("m2", "that", object{"taskId": task["id"]}))).task()
		a, c := one.readToEnd(), two.readToEnd()
		names := kinds(a)
		if fmt.Sprint(names) != fmt.Sprint(kinds(c)) || names[0] != "WORKING" || names[len(names)-1] != "COMPLETED" {
			t.Errorf("%v and %v", names, kinds(c))
		}
	})
}

func TestSubscribeTakesGet(t *testing.T) {
	k := newKit(t)
	task := k.call(httpJSON, "SendMessage", message("m1", "ask What?")).task()
	r := k.restRequest("SubscribeToTask", object{"id": task["id"]})
	r.Method = http.MethodGet
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
}

func TestASilentStreamShowsThatItLives(t *testing.T) {
	k := newKit(t, func(o *a2a.Options) { o.Heartbeat = time.Millisecond })
	s := k.open(jsonRPC, "SendStreamingMessage", message("m1", "hold"))
	for s.lines.Scan() && !strings.HasPrefix(s.lines.Text(), ":") {
		continue
	}
	if !strings.HasPrefix(s.lines.Text(), ":") {
		t.Fatal("the stream ended without a sign of life")
	}
	k.agent.open(1)
	if names := kinds(s.readToEnd()); len(names) == 0 || names[len(names)-1] != "COMPLETED" {
		t.Errorf("%v", names)
	}
}

// A reader that goes away, and one that doesn't read, end nothing but their stream.
func TestReadersThatVanish(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		s := k.open(b, "SendStreamingMessage", message("m1", "hold"))
		task := s.next()["task"].(object)
		s.close()

		// This one sends its request and never reads.
		r := k.request(b, "SubscribeToTask", object{"id": task["id"]})
		conn, err := net.Dial("tcp", r.URL.Host)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		k.waitFor(sessionOf(task), event.TypeModelRequested, nil)
		k.agent.open(1)
		k.waitFor(sessionOf(task), event.TypeTurnCompleted, nil)
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if got := k.call(b, "GetTask", object{"id": task["id"]}).task(); state(got) != "TASK_STATE_COMPLETED" {
			t.Errorf("the task is %v", got["status"])
		}
	})
}

// A stream that the runtime's end cuts off is followed by a subscription to the next
// one: nothing is lost.
func TestAStreamOverARestart(t *testing.T) {
	k := newKit(t)
	task := k.call(jsonRPC, "SendMessage", message("m1", "ask What?")).task()
	s := k.open(jsonRPC, "SubscribeToTask", object{"id": task["id"]})
	s.next()
	k.restart()
	s.readToEnd()
	again := k.open(jsonRPC, "SubscribeToTask", object{"id": task["id"]})
	if first := again.next(); state(first["task"]) != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("first %v", first)
	}
	k.call(jsonRPC, "SendMessage", now(message("m2", "that", object{"taskId": task["id"]}))).task()
	if names := kinds(again.readToEnd()); names[len(names)-1] != "COMPLETED" {
		t.Errorf("%v", names)
	}
}
