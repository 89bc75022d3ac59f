package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"agentd/command"
	"agentd/fault"
)

// elsewhere is a backend whose sessions belong to another node.
type elsewhere struct {
	*fake
	node string
}

func (e *elsewhere) Oldest(context.Context, command.Caller, string) (uint64, error) {
	f := fault.New(fault.Unavailable, "another node has it")
	f.Elsewhere = e.node
	return 0, f
}

// TestStoppingEndsWhatANodeDoesNotAnswer: a node that hangs must not hold up the
// stopping of the one that asked it.
func TestStoppingEndsWhatANodeDoesNotAnswer(t *testing.T) {
	asked := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		close(asked)
		<-q.Context().Done()
	}))
	defer node.Close()
	r := runOn(t, &elsewhere{newFake(), node.URL}, nil)
	answered := make(chan answer, 1)
	go func() { answered <- r.sendRequest(r.request(http.MethodGet, "/v1/sessions/s/events", "")) }()
	<-asked
	r.stop()
	if a := <-answered; a.status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if strings.Contains(r.log.String(), "cut off") {
		t.Error("the request had to be cut off")
	}
}

// between is a backend that has no session while others remain to be asked.
type between struct {
	*fake
	node   string
	others atomic.Int64
}

// Do implements [server.Backend].
func (e *between) Do(ctx context.Context, c command.Caller, p command.Params) (any, error) {
	if e.others.Add(-1) < 0 {
		return e.fake.Do(ctx, c, p)
	}
	f := fault.New(fault.Unavailable, "the session is owned by another node")
	f.Elsewhere = e.node
	return nil, f
}

// TestASessionBetweenTwoNodes: while a session is handed over, each of two nodes may take it
// for the other's. The command is carried out where the session comes to, and once.
func TestASessionBetweenTwoNodes(t *testing.T) {
	gaveUp, takes := &between{fake: newFake()}, &between{fake: newFake(), node: "http://127.0.0.1:1"}
	gaveUp.others.Store(1)
	takes.others.Store(1)
	there := runOn(t, takes, nil)
	gaveUp.node = there.base
	here := runOn(t, gaveUp, nil)
	a := here.sendRequest(here.request(http.MethodPost, "/v1/commands/create_session", `{}`))
	if a.status != http.StatusOK || gaveUp.others.Load() != -1 || takes.others.Load() != 0 {
		t.Errorf("got %d %s, with %d and %d others left", a.status, a.body, gaveUp.others.Load(), takes.others.Load())
	}
}

// partElsewhere is a backend that has a part of every command done by another node.
type partElsewhere struct {
	*fake
	node string
}

// Do implements [server.Backend].
func (e *partElsewhere) Do(ctx context.Context, _ command.Caller, p command.Params) (any, error) {
	f := fault.New(fault.Unavailable, "another node has it")
	f.Elsewhere = e.node
	bulk := p.(*command.InterruptTurns)
	res := &command.InterruptTurnsResult{}
	for _, id := range bulk.SessionIDs {
		err := command.Forward(ctx, &command.InterruptTurn{SessionID: id}, f, &command.InterruptTurnResult{})
		res.Results = append(res.Results, command.InterruptedTurn{SessionID: id, Error: command.BulkErrorOf(err)})
	}
	return res, nil
}

// TestPartsOfABulkAreDoneElsewhere: each part is the owner's, with the caller's own token,
// and a node that is gone fails its parts and no others.
func TestPartsOfABulkAreDoneElsewhere(t *testing.T) {
	there := run(t, nil)
	there.fake.open("s", "a")
	there.fake.open("foreign", "b")
	here := runOn(t, &partElsewhere{newFake(), there.base}, nil)
	ask := func() string {
		return string(here.sendRequest(here.request(http.MethodPost, "/v1/commands/interrupt_turns", `{"sessionIds":["s","foreign"]}`)).body)
	}
	if got := ask(); strings.Count(got, `"error"`) != 1 || !strings.Contains(got, `"sessionId":"foreign","interrupted":false,"error":{"code":"not_found"`) {
		t.Errorf("got %s", got)
	}
	there.stop()
	if got := ask(); strings.Count(got, `"code":"unavailable"`) != 2 || strings.Count(got, `"retryAfter":`) != 2 {
		t.Errorf("after the node is gone: %s", got)
	}
}

// channelElsewhere is a backend whose channels belong to another node.
type channelElsewhere struct {
	*fake
	node string
}

// FollowChannel implements [command.ChannelFollower].
func (e *channelElsewhere) FollowChannel(context.Context, command.Caller, string, string) (command.ChannelStream, error) {
	f := fault.New(fault.Unavailable, "another node has it")
	f.Elsewhere = e.node
	return nil, f
}

// TestASubscriptionOfAChannelIsRelayed: what is tied to a channel belongs to the
// node that owns the session; the client sees no difference until that node dies.
func TestASubscriptionOfAChannelIsRelayed(t *testing.T) {
	owner := &following{fake: newFake()}
	owner.open("s", "a")
	owner.deltas("s", 4)
	there := runOn(t, owner, nil)
	here := runOn(t, &channelElsewhere{newFake(), there.base}, nil)
	c := here.dial(t.Context(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","after":2,"channelId":"chan_a","snapshot":true,"types":["model.*"]}}`)
	var a rpcAnswer
	var sub struct {
		SubscriptionID string
		After          uint64
	}
	if data := wsRead(t, c); json.Unmarshal(data, &a) != nil || json.Unmarshal(a.Result, &sub) != nil || sub.After != 2 || sub.SubscriptionID != "subscription_1" {
		t.Fatalf("got %s", data)
	}
	wantRPC := func(method, part string) {
		t.Helper()
		var a struct {
			rpcAnswer
			SubscriptionID string `json:"subscriptionId"`
		}
		if data := wsRead(t, c); json.Unmarshal(data, &a) != nil || a.Method != method || !strings.Contains(string(a.Params), part) || a.SubscriptionID == "" {
			t.Fatalf("got %s, want %s of a subscription with %s", data, method, part)
		}
	}
	wantRPC("snapshot", `"sessionId":"s"`)
	for want := 3; want <= 5; want++ {
		wantRPC("event", fmt.Sprintf(`"sequence":%d`, want))
	}
	owner.deltas("s", 1)
	wantRPC("event", `"sequence":6`)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":2,"method":"unsubscribe","params":{"subscriptionId":"subscription_1"}}`)
	checkRPC(t, "unsubscribe", wsRead(t, c), 0, "2")
	owner.deltas("s", 1) // nobody hears of it
	eventually(t, "the owner lets go of it", func() bool { return figure(there, `agentd_subscribers{transport="websocket"}`) == 0 })
	wsSendf(t, c, `{"jsonrpc":"2.0","id":3,"method":"subscribe","params":{"sessionId":"s","after":6,"channelId":"chan_a"}}`)
	checkRPC(t, "again", wsRead(t, c), 0, "3")
	wantRPC("event", `"sequence":7`)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":4,"method":"subscribe","params":{"sessionId":"none","channelId":"chan_a"}}`)
	checkRPC(t, "a mistake that the owner finds", wsRead(t, c), -32000, "4")
	there.stop()
	wantRPC("subscription.ended", `"code":"unavailable"`)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":5,"method":"subscribe","params":{"sessionId":"s","channelId":"chan_a"}}`)
	checkRPC(t, "without its owner", wsRead(t, c), -32000, "5")
	wsSendf(t, c, `{"jsonrpc":"2.0","id":6,"method":"list_sessions"}`)
	checkRPC(t, "after all", wsRead(t, c), 0, "6")
	// The client is told of the end before the connection to the owner is closed.
	eventually(t, "no subscription is counted any more", func() bool { return figure(here, `agentd_subscribers{transport="websocket"}`) == 0 })
}

// TestStoppingEndsARelayThatHangs: nor must a node that takes the connection and
// says nothing.
func TestStoppingEndsARelayThatHangs(t *testing.T) {
	asked := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		close(asked)
		<-q.Context().Done()
	}))
	defer node.Close()
	r := runOn(t, &channelElsewhere{newFake(), node.URL}, nil)
	c := r.dial(t.Context(), "client-token")
	defer hangUp(c)
	wsSendf(t, c, `{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"s","channelId":"chan_a"}}`)
	<-asked
	r.stop()
	if strings.Contains(r.log.String(), "cut off") {
		t.Error("the connection had to be cut off")
	}
}
