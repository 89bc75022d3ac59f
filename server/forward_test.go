package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
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
	go func() { answered <- r.do(r.request(http.MethodGet, "/v1/sessions/s/events", "")) }()
	<-asked
	r.stop()
	if a := <-answered; a.status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if strings.Contains(r.log.String(), "cut off") {
		t.Error("the request had to be cut off")
	}
}
