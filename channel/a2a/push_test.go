package a2a_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/channel/a2a"
	"agentd/event"
)

// told is a notification that a receiver got.
type told struct {
	header http.Header
	body   object
}

// receiver is a place that peers are told at.
type receiver struct {
	*httptest.Server
	got chan told
	// status is what it answers with; tried gets a value for each try.
	status atomic.Int64
	tries  atomic.Int64
	tried  chan struct{}
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: make(chan told, 100), tried: make(chan struct{}, 10_000)}
	r.status.Store(200)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.tries.Add(1)
		r.tried <- struct{}{}
		status := int(r.status.Load())
		if status >= 300 && status < 400 {
			w.Header().Set("Location", "http://169.254.169.254/latest/meta-data")
		}
		var body object
		err := json.NewDecoder(q.Body).Decode(&body)
		w.WriteHeader(status)
		if err == nil && status == 200 {
			r.got <- told{q.Header, body}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// until reads notifications up to one with a state, and names them all in short.
func (r *receiver) until(t *testing.T, want string) []string {
	t.Helper()
	var all []object
	for {
		select {
		case <-t.Context().Done():
			t.Fatalf("only %v was told", kinds(all))
		case n := <-r.got:
			all = append(all, n.body)
			if names := kinds(all); strings.HasSuffix(names[len(names)-1], want) {
				return names
			}
		}
	}
}

// eager tries again at once, and may reach this machine.
func eager(o *a2a.Options) {
	o.Push.AllowHosts = []string{"127.0.0.1"}
	o.Push.Backoff = time.Millisecond
	o.Push.MaxBackoff = 5 * time.Millisecond
}

func TestPushConfigurations(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		id := k.call(b, "SendMessage", message("m1", "ask What?")).task()["id"]
		secret := strings.Repeat("s3cret", 3)
		made := k.call(b, "CreateTaskPushNotificationConfig", object{
			"taskId": id, "id": "hook/1", "url": "https://peer.example/hook?key=" + secret, "token": secret, "authentication": object{"scheme": "Bearer", "credentials": secret},
		}).ok().result
		if made["id"] != "hook/1" || made["taskId"] != id {
			t.Errorf("made %v", made)
		}
		named := k.call(b, "CreateTaskPushNotificationConfig", object{"taskId": id, "url": "https://peer.example/other"}).ok().result
		if str(named, "id") == "" {
			t.Errorf("it got no id: %v", named)
		}
		got := k.call(b, "GetTaskPushNotificationConfig", object{"taskId": id, "id": "hook/1"}).ok().result
		if !strings.HasPrefix(str(got, "url"), "https://peer.example/hook") || str(got, "authentication", "scheme") != "Bearer" {
			t.Errorf("got %v", got)
		}
		if str(got, "token") != "" || str(got, "authentication", "credentials") != "" {
			t.Error("credentials can be read back")
		}
		list := k.call(b, "ListTaskPushNotificationConfigs", object{"taskId": id}).ok().result["configs"].([]any)
		if len(list) != 2 {
			t.Errorf("list %v", list)
		}
		k.restart()
		k.call(b, "GetTaskPushNotificationConfig", object{"taskId": id, "id": "hook/1"}).ok()
		for range 2 {
			k.call(b, "DeleteTaskPushNotificationConfig", object{"taskId": id, "id": "hook/1"}).ok()
		}
		k.call(b, "GetTaskPushNotificationConfig", object{"taskId": id, "id": "hook/1"}).fails("TASK_NOT_FOUND")
		k.call(b, "DeleteTaskPushNotificationConfig", object{"taskId": "none", "id": "x"}).fails("TASK_NOT_FOUND")
		if list := k.call(b, "ListTaskPushNotificationConfigs", object{"taskId": id}).ok().result["configs"].([]any); len(list) != 1 {
			t.Errorf("list %v", list)
		}
		k.verify()
		checkNoSecret(t, k, secret)
	})
}

// checkNoSecret reads all facts and looks for a credential.
func checkNoSecret(t *testing.T, k *kit, secret string) {
	t.Helper()
	for id, err := range k.store.Sessions(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		records, _, err := k.runtime.Events(t.Context(), localCaller(), id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if bytes.Contains(r.Data, []byte(secret)) {
				t.Errorf("a fact holds the credential: %s", r.Data)
			}
		}
	}
}

func TestPeersAreTold(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t, eager)
		r := newReceiver(t)
		p := message("m1", "ask What?")
		p["configuration"] = object{"taskPushNotificationConfig": object{
			"url": r.URL + "/hook", "token": "their-token", "authentication": object{"scheme": "Bearer", "credentials": "their-credentials"},
		}}
		task := k.call(b, "SendMessage", p).task()
		names := r.until(t, "INPUT_REQUIRED")
		if !strings.HasPrefix(names[0], "task ") {
			t.Errorf("the first is not the task: %v", names)
		}
		k.call(b, "SendMessage", now(message("m2", "that", object{"taskId": task["id"]}))).task()
		n := <-r.got
		if n.header.Get("Authorization") != "Bearer their-credentials" || n.header.Get("X-A2a-Notification-Token") != "their-token" ||
			n.header.Get("Content-Type") != "application/a2a+json" {
			t.Errorf("headers %v", n.header)
		}
		rest := append(kinds([]object{n.body}), r.until(t, "COMPLETED")...)
		if text := fmt.Sprint(rest); !strings.HasPrefix(text, "[WORKING artifact last: got") || len(rest) != 3 {
			t.Errorf("told %v", rest)
		}
		final := k.waitFor(sessionOf(task), event.TypeChannelPeerPushReported, func(e *event.Event) bool { return e.Payload.(*event.PeerPushReported).Final })
		if o := final.Payload.(*event.PeerPushReported); o.Outcome != "delivered" || o.RemoteTaskID != task["id"] || o.RemoteStatus != "TASK_STATE_COMPLETED" {
			t.Errorf("the report %+v", o)
		}
		checkNoSecret(t, k, "their-credentials")
		k.verify()
	})
}

// A place that is down at first is told later, in order and from where it was.
func TestAPlaceThatIsDown(t *testing.T) {
	k := newKit(t, eager)
	r := newReceiver(t)
	r.status.Store(503)
	task := k.call(jsonRPC, "SendMessage", message("m1", "ask What?")).task()
	k.call(jsonRPC, "CreateTaskPushNotificationConfig", object{"taskId": task["id"], "id": "h", "url": r.URL}).ok()
	failing := k.waitFor(sessionOf(task), event.TypeChannelPeerPushReported, nil).Payload.(*event.PeerPushReported)
	if failing.Outcome != "failing" || failing.HTTPStatus != 503 || failing.Final {
		t.Errorf("the report %+v", failing)
	}
	r.status.Store(200)
	if names := r.until(t, "INPUT_REQUIRED"); len(names) != 1 {
		t.Errorf("told %v", names)
	}
	r.status.Store(500)
	for len(r.tried) > 0 {
		<-r.tried
	}
	k.call(jsonRPC, "SendMessage", now(message("m2", "that", object{"taskId": task["id"]}))).task()
	for range 2 {
		<-r.tried
	}
	k.restart()
	r.status.Store(200)
	// The try that the restart cut off may have arrived, and nobody knows of it.
	if names := fmt.Sprint(slices.Compact(r.until(t, "COMPLETED"))); !strings.HasPrefix(names, "[WORKING artifact last: got") {
		t.Errorf("told after the restart: %v", names)
	}
	k.waitFor(sessionOf(task), event.TypeChannelPeerPushReported, func(e *event.Event) bool { return e.Payload.(*event.PeerPushReported).Final })
	k.verify()
}

func TestAPlaceIsGivenUp(t *testing.T) {
	k := newKit(t, eager, func(o *a2a.Options) { o.Push.Attempts = 3 })
	for status, want := range map[int64]struct {
		outcome string
		tries   int64
	}{
		500: {"gave_up", 3},
		410: {"gave_up", 1},
		307: {"refused", 1}, // to an address within the machine's network
		301: {"refused", 1},
	} {
		r := newReceiver(t)
		r.status.Store(status)
		task := k.call(jsonRPC, "SendMessage", message(fmt.Sprint("m", status), "say x")).task()
		k.call(jsonRPC, "CreateTaskPushNotificationConfig", object{"taskId": task["id"], "url": r.URL}).ok()
		e := k.waitFor(sessionOf(task), event.TypeChannelPeerPushReported, func(e *event.Event) bool { return e.Payload.(*event.PeerPushReported).Final })
		if p := e.Payload.(*event.PeerPushReported); p.Outcome != want.outcome || r.tries.Load() != want.tries {
			t.Errorf("%d: %+v after %d tries", status, p, r.tries.Load())
		}
	}
}

// One that registers after the end is told of the end.
func TestALateWishIsTold(t *testing.T) {
	k := newKit(t, eager)
	r := newReceiver(t)
	task := k.call(jsonRPC, "SendMessage", message("m1", "say x")).task()
	k.call(jsonRPC, "CreateTaskPushNotificationConfig", object{"taskId": task["id"], "url": r.URL}).ok()
	if names := r.until(t, "COMPLETED"); !strings.HasPrefix(names[0], "task ") {
		t.Errorf("told %v", names)
	}
}

func TestADeletedWishIsNotTold(t *testing.T) {
	k := newKit(t, eager)
	r := newReceiver(t)
	task := k.call(jsonRPC, "SendMessage", message("m1", "ask What?")).task()
	to := object{"taskId": task["id"], "id": "h"}
	k.call(jsonRPC, "CreateTaskPushNotificationConfig", object{"taskId": task["id"], "id": "h", "url": r.URL}).ok()
	r.until(t, "INPUT_REQUIRED")
	// An earlier report may be of a moment in which the task still worked.
	k.waitFor(sessionOf(task), event.TypeChannelPeerPushReported, func(e *event.Event) bool {
		return strings.HasSuffix(e.Payload.(*event.PeerPushReported).RemoteStatus, "INPUT_REQUIRED")
	})
	k.call(jsonRPC, "DeleteTaskPushNotificationConfig", to).ok()
	k.call(jsonRPC, "SendMessage", message("m2", "that", object{"taskId": task["id"]})).task()
	k.waitFor(sessionOf(task), event.TypeChannelPeerTaskUpdated, func(e *event.Event) bool { return e.Payload.(*event.PeerTaskUpdated).Settled })
	k.stop()
	if n := len(r.got); n != 0 {
		t.Errorf("%d more were told", n)
	}
	k.start()
}

func TestAddressesThatAreRefused(t *testing.T) {
	k := newKit(t, func(o *a2a.Options) { o.Push.AllowHosts = []string{"10.1.2.3", "localhost:9000"} })
	id := k.call(jsonRPC, "SendMessage", message("m1", "say x")).task()["id"]
	for _, url := range []string{
		"http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://10.0.0.1/", "http://10.255.255.255:8080/x", "http://172.16.0.1/", "http://192.168.1.1/",
		"http://127.0.0.1:1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0.0.0.0/", "http://localhost/", "http://x.localhost/",
		"http://[fe80::1]/", "http://[fc00::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:a00:1]/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::]/",
		"http://100.64.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://metadata.google.internal/", "http://intranet/", "http://printer.local/",
		"ftp://peer.example/", "file:///etc/passwd", "//peer.example/", "peer.example", "", "http://", "http://user:pass@peer.example/", "https://peer.example/\x00",
		"http://localhost:9001/", "http://10.1.2.4/",
	} {
		for _, b := range []binding{jsonRPC, httpJSON} {
			f := k.call(b, "CreateTaskPushNotificationConfig", object{"taskId": id, "url": url})
			if f.reason != "INVALID_PARAMS" {
				t.Errorf("%s was taken over %s: %v %s", url, b, f.result, f.reason)
			}
		}
		p := message("inline", "say x")
		p["configuration"] = object{"taskPushNotificationConfig": object{"url": url}}
		k.call(jsonRPC, "SendMessage", p).fails("INVALID_PARAMS")
	}
	for _, url := range []string{"http://10.1.2.3/", "http://10.1.2.3:99/x", "http://localhost:9000/", "https://8.8.8.8/", "https://peer.example/"} {
		k.call(jsonRPC, "CreateTaskPushNotificationConfig", object{"taskId": id, "url": url}).ok()
	}
	for _, bad := range []object{
		{"authentication": object{"scheme": "", "credentials": "x"}},
		{"authentication": object{"scheme": "Bearer", "credentials": "x\r\nEvil: yes"}},
		{"token": "x\ny"},
		{"id": strings.Repeat("x", 300)},
	} {
		bad["taskId"], bad["url"] = id, "https://peer.example/"
		k.call(jsonRPC, "CreateTaskPushNotificationConfig", bad).fails("INVALID_PARAMS")
	}
	if n := k.call(jsonRPC, "ListTasks", object{}).ok().result["totalSize"]; n != float64(1) {
		t.Errorf("%v tasks: a refused wish began one", n)
	}
}

func TestWithoutAKeyNobodyIsTold(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t, func(o *a2a.Options) { o.Push.Key = nil })
		id := k.call(b, "SendMessage", message("m1", "say x")).task()["id"]
		for method, params := range map[string]object{
			"CreateTaskPushNotificationConfig": {"taskId": id, "url": "https://peer.example/"},
			"GetTaskPushNotificationConfig":    {"taskId": id, "id": "x"},
			"ListTaskPushNotificationConfigs":  {"taskId": id},
			"DeleteTaskPushNotificationConfig": {"taskId": id, "id": "x"},
		} {
			f := k.call(b, method, params).fails("PUSH_NOTIFICATION_NOT_SUPPORTED")
			if b == jsonRPC && f.code != -32003 || b == httpJSON && f.status != 400 {
				t.Errorf("%s: code %d, status %d", method, f.code, f.status)
			}
		}
		_, body := k.fetchPath(a2a.CardPath)
		if bytes.Contains(body, []byte(`"pushNotifications":true`)) {
			t.Error("the card promises push notifications")
		}
	})
}
