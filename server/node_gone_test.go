package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// farNode is another node: it answers questions whether it is there as probe says, and
// everything else after a while.
type farNode struct {
	probe func(asked int64) bool
	takes time.Duration
	asked int64
}

// RoundTrip implements [http.RoundTripper].
func (n *farNode) RoundTrip(r *http.Request) (*http.Response, error) {
	wait := n.takes
	if r.URL.Path == healthPath {
		n.asked++
		if wait = 0; !n.probe(n.asked) {
			wait = 24 * time.Hour
		}
	}
	if !pause(r.Context(), wait) {
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("done"))}, nil
}

// ask sends a request over a link, and returns how long it took.
func (n *farNode) ask(t *testing.T, alive func(context.Context, string) (bool, error)) (time.Duration, error) {
	t.Helper()
	link := &nodeLink{base: n, alive: alive, silence: 10 * time.Second}
	began := time.Now()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node-a:8700/v1/commands/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := link.RoundTrip(req)
	if err == nil {
		err = res.Body.Close()
	}
	if len(link.watches) != 0 {
		t.Errorf("%d nodes are watched for no request", len(link.watches))
	}
	return time.Since(began), err
}

// TestSilenceOfANode: a request that was passed on waits for as long as its node answers the
// question whether it is there, and for no more than its silence or its lease.
func TestSilenceOfANode(t *testing.T) {
	always := func(int64) bool { return true }
	never := func(int64) bool { return false }
	const silence = 10 * time.Second
	for name, c := range map[string]struct {
		node     farNode
		alive    bool
		unknown  error
		want     error
		soonest  time.Duration
		atLatest time.Duration
	}{
		"a slow command of a node that is there": {node: farNode{probe: always, takes: time.Hour}, alive: true, soonest: time.Hour, atLatest: time.Hour},
		"every second question is lost":          {node: farNode{probe: func(n int64) bool { return n%2 == 0 }, takes: time.Hour}, alive: true, soonest: time.Hour, atLatest: time.Hour},
		"a quick one of a node that is not":      {node: farNode{probe: never, takes: silence / 2}, alive: true, soonest: silence / 2, atLatest: silence / 2},
		"silent, with a lease":                   {node: farNode{probe: never, takes: time.Hour}, alive: true, want: errNodeSilent, soonest: silence, atLatest: silence * 3 / 2},
		"silent, and its lease is not known":     {node: farNode{probe: never, takes: time.Hour}, unknown: errors.New("away"), want: errNodeSilent, soonest: silence, atLatest: silence * 3 / 2},
		"silent from some time on":               {node: farNode{probe: func(n int64) bool { return n < 100 }, takes: time.Hour}, alive: true, want: errNodeSilent, soonest: 5 * silence, atLatest: 7 * silence},
		"its lease ended":                        {node: farNode{probe: always, takes: time.Hour}, want: errNodeGone, atLatest: nodeCheck},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, err := c.node.ask(t, func(context.Context, string) (bool, error) { return c.alive, c.unknown })
				if !errors.Is(err, c.want) || took < c.soonest || took > c.atLatest {
					t.Errorf("after %v: %v; want %v, after %v to %v", took, err, c.want, c.soonest, c.atLatest)
				}
			})
		})
	}
}
