package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"agentd/server"
)

// TestUnsubscribeCanDrain: who says that it has asked for everything gets all that
// is durable by then before the answer, and nothing after it.
func TestUnsubscribeCanDrain(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	last := r.fake.deltas("s", 999)
	c := r.dial(context.Background(), "client-token")
	defer hangUp(c)
	// untilAnswer counts the notifications before the answer with an id.
	untilAnswer := func(id string) map[string]int {
		t.Helper()
		seen := map[string]int{}
		for {
			var a rpcAnswer
			data := wsRead(t, c)
			if err := json.Unmarshal(data, &a); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if a.Method == "" {
				checkRPC(t, "answer", data, 0, id)
				return seen
			}
			seen[a.Method]++
		}
	}
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s"}}`)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":2,"method":"unsubscribe","params":{"subscriptionId":"subscription_1","drain":true}}`)
	if before := untilAnswer("1"); len(before) > 0 {
		t.Errorf("before the answer to subscribe: %v", before)
	}
	if seen := untilAnswer("2"); seen["event"] != int(last) {
		t.Errorf("%v, want %d events", seen, last)
	}
	// Also where nothing but the snapshot is to be sent.
	wsSendf(t, c, `{"jsonrpc":"2.0","id":3,"method":"subscribe","params":{"sessionId":"s","after":%d,"snapshot":true}}`, last)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":4,"method":"unsubscribe","params":{"subscriptionId":"subscription_2","drain":true}}`)
	untilAnswer("3")
	if seen := untilAnswer("4"); seen["snapshot"] != 1 || seen["event"] != 0 {
		t.Errorf("%v, want the snapshot alone", seen)
	}
	// What follows all sessions has no end that could be reached.
	wsSendf(t, c, `{"jsonrpc":"2.0","id":5,"method":"subscribe","params":{}}`)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":6,"method":"unsubscribe","params":{"subscriptionId":"subscription_3","drain":true}}`)
	untilAnswer("5")
	untilAnswer("6")
	r.fake.deltas("s", 1)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":7,"method":"list_sessions"}`)
	if seen := untilAnswer("7"); len(seen) > 0 {
		t.Errorf("after everything was unsubscribed: %v", seen)
	}
}

// TestStdioSendsTheSnapshotBeforeItEnds: also what comes before the first event
// was asked for.
func TestStdioSendsTheSnapshotBeforeItEnds(t *testing.T) {
	f := newFake()
	f.open("s", "")
	for range 50 {
		in := `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":1,"snapshot":true}}`
		var out bytes.Buffer
		if err := server.New(f, nil).ServeStdio(context.Background(), strings.NewReader(in), &out, server.LocalIdentity()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `"method":"snapshot"`) {
			t.Fatalf("no snapshot: %s", out.String())
		}
	}
}
