package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
)

// rolling is two nodes behind what a client knows of them: two addresses, of which one may
// not answer while its node is restarted.
type rolling struct {
	t     *testing.T
	nodes []*client.Client
}

func (r *rolling) pick(i int) *client.Client { return r.nodes[i%len(r.nodes)] }

// do gives a command to one of the nodes, and to the next one only if no answer comes, or
// one that says that the node stops: the command has an idempotency key. Any other answer
// that refuses it is a failure.
func (r *rolling) do(ctx context.Context, i int, p command.Params, res any) error {
	var err error
	for try := range 100 {
		if err = r.pick(i+try).Do(ctx, p, res); err == nil || ctx.Err() != nil {
			return err
		}
		if !unanswered(err) {
			return err
		}
		time.Sleep(10 * time.Millisecond << min(try, 6))
	}
	return err
}

// unanswered reports whether no answer came, or that of a node which stops or starts, or that of
// one which a busy machine kept from writing for some seconds.
func unanswered(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok || strings.Contains(err.Error(), "the runtime is stopping") || strings.Contains(err.Error(), "this node is starting") || strings.Contains(err.Error(), "the store has not taken a write")
}

// states returns what the nodes say of each other.
func (p *process) states() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, n := range call[command.ListNodesResult](p, &command.ListNodes{}).Nodes {
		out[n.NodeID] = n.State
	}
	return out
}

// TestRollingRestart drains and restarts two nodes in turn while clients give turns to both
// and follow their sessions: no command is refused, every turn ends, and no stream misses or
// repeats a fact.
func TestRollingRestart(t *testing.T) {
	f := newFleet(t, "1h", slow)
	work := t.TempDir()
	const quick = "repeat: true\nanswers: [{text: done}]"
	names, dirs := []string{"node-a", "node-b"}, []string{f.dir(), f.dir()}
	nodes := []*process{nil, nil}
	r := &rolling{t: t, nodes: make([]*client.Client, 2)}
	for i := range nodes {
		nodes[i] = f.placed(names[i], work, quick, "").node(dirs[i])
		r.nodes[i] = nodes[i].client()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients, followers sync.WaitGroup
	var turns atomic.Int64
	stopped := make(chan struct{})
	for c := range 4 {
		id := fmt.Sprintf("sess_roll%d", c)
		var made command.CreateSessionResult
		if err := r.do(ctx, c, &command.CreateSession{SessionID: id}, &made); err != nil {
			t.Fatal(err)
		}
		last := make(chan uint64, 1)
		followers.Go(func() { r.follow(ctx, c, id, last) })
		clients.Go(func() { r.submitUntil(ctx, c, id, stopped, &turns, last) })
	}
	for i := range nodes {
		other := nodes[1-i]
		before := turns.Load()
		for turns.Load() < before+20 && ctx.Err() == nil {
			other.states() // it takes the time of a request
		}
		call[command.DrainNodeResult](other, &command.DrainNode{NodeID: names[i]})
		for s := other.states()[names[i]]; s != "drained"; s = other.states()[names[i]] {
			if s != "draining" {
				t.Fatalf("a node that is being drained says that it is %s", s)
			}
		}
		res := nodes[i].getWithToken("/readyz")
		if _ = res.Body.Close(); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("/readyz of a drained node: %d", res.StatusCode)
		}
		if code := nodes[i].stop(syscall.SIGTERM); code != 0 {
			t.Errorf("the node ended with %d", code)
		}
		nodes[i] = f.placed(names[i], work, quick, "").node(dirs[i], "--listen", strings.TrimPrefix(nodes[i].url, "http://"))
	}
	close(stopped)
	clients.Wait()
	followers.Wait()
	t.Logf("%d turns", turns.Load())
}

// submitUntil gives a session one turn after the other, through both nodes, until it is told
// to stop. Then it says where the session ends, and gives it one more.
func (r *rolling) submitUntil(ctx context.Context, c int, id string, stopped <-chan struct{}, turns *atomic.Int64, last chan<- uint64) {
	told := false
	for n := 0; ctx.Err() == nil; n++ {
		p := submitParams(r.t, "go on")
		p.SessionID, p.IdempotencyKey = id, fmt.Sprintf("%s-%d", id, n)
		var res command.SubmitTurnResult
		if err := r.do(ctx, c+n, p, &res); err != nil {
			r.t.Errorf("turn %d of %s: %v", n, id, err)
			continue
		}
		end := r.ended(ctx, c+n, &res)
		turns.Add(1)
		if told {
			return
		}
		select {
		case <-stopped:
			last <- end
			told = true
		default:
		}
	}
}

// ended follows a turn to its end.
func (r *rolling) ended(ctx context.Context, i int, turn *command.SubmitTurnResult) uint64 {
	for e, err := range r.pick(i).Follow(ctx, turn.SessionID, turn.Sequence, nil) {
		if err != nil {
			r.t.Errorf("the stream of turn %s: %v", turn.TurnID, err)
			break
		}
		if e.Type == "turn.failed" {
			r.t.Errorf("a turn failed: %s", e.Data)
		}
		if e.Type == "turn.completed" || e.Type == "turn.failed" {
			return e.Sequence
		}
	}
	return 0
}

// follow reads all facts of a session until the last one that is asked for.
func (r *rolling) follow(ctx context.Context, i int, id string, last <-chan uint64) {
	var at, end uint64
	for e, err := range r.pick(i).Follow(ctx, id, 0, nil) {
		if err != nil {
			r.t.Errorf("the stream of %s: %v", id, err)
			return
		}
		if e.Sequence != at+1 {
			r.t.Errorf("the stream of %s has %d after %d", id, e.Sequence, at)
			return
		}
		at = e.Sequence
		if e.Type != "turn.completed" {
			continue
		}
		select {
		case end = <-last:
		default:
		}
		if end != 0 && at >= end {
			return
		}
	}
}
