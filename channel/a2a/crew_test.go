package a2a_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"agentd/channel/a2a"
)

// hanging is a place that takes a notification and never answers.
func hanging(t *testing.T) (url string, reached chan struct{}) {
	t.Helper()
	reached = make(chan struct{}, 1000)
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-over
	}))
	t.Cleanup(func() {
		close(over)
		s.Close()
	})
	return s.URL, reached
}

// TestADeadPlaceDelaysNoOtherAccount: all of an account's workers hang at a place
// that doesn't answer, and the notifications of another account go out.
func TestADeadPlaceDelaysNoOtherAccount(t *testing.T) {
	const each = 2
	k := newKit(t, eager, func(o *a2a.Options) { o.Push.Workers, o.Push.Timeout = each, time.Hour })
	url, reached := hanging(t)
	for i := range 3 * each {
		p := message(fmt.Sprint("a", i), "say x")
		p["configuration"] = object{"taskPushNotificationConfig": object{"url": url}}
		k.as("alice", jsonRPC, "SendMessage", p).task()
	}
	for range each {
		<-reached // and none of them comes back before the test ends
	}
	r := newReceiver(t)
	for i := range 2 * each {
		p := message(fmt.Sprint("b", i), "say x")
		p["configuration"] = object{"taskPushNotificationConfig": object{"url": r.URL}}
		k.as("bob", jsonRPC, "SendMessage", p).task()
	}
	for range 2 * each {
		r.until(t, "COMPLETED")
	}
	if n := len(reached); n != 0 {
		t.Errorf("%d more tasks of one account were told of than it has workers", n)
	}
}

// TestAccountsTakeTurns: where no worker is left, those that are there serve every
// account.
func TestAccountsTakeTurns(t *testing.T) {
	k := newKit(t, eager, func(o *a2a.Options) { o.Push.Workers, o.Push.AllWorkers = 1, 1 })
	r := newReceiver(t)
	const tasks = 5
	for i := range tasks {
		for _, name := range []string{"alice", "bob", "root"} {
			p := message(fmt.Sprint(name, i), "say x")
			p["configuration"] = object{"taskPushNotificationConfig": object{"url": r.URL}}
			k.as(name, jsonRPC, "SendMessage", p).task()
		}
	}
	for range 3 * tasks {
		r.until(t, "COMPLETED")
	}
}
