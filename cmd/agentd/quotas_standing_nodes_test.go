package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// standing is a quota whose use ends with what uses it. Take uses one more at a node, if it can,
// and returns what gives it back.
type standing struct {
	quota string
	take  func(*process) (giveBack func(), err error)
	// stays says that what a killed node used goes on at the node that takes its sessions over.
	stays bool
}

// errRefused says that a node had no room for one more.
var errRefused = errors.New("the quota is reached")

// orRefused makes the refusal of a command errRefused.
func orRefused(err error) error {
	if fault.KindOf(err) == fault.RateLimited {
		return errRefused
	}
	return err
}

// busySession returns the session of a new turn that never ends.
func busySession(p *process) string {
	p.t.Helper()
	r := p.submit("hello")
	p.until(r.SessionID, event.TypeModelRequested, 1)
	return r.SessionID
}

func queueTurn(p *process) (func(), error) {
	params := submitParams(p.t, "waits")
	params.SessionID = busySession(p)
	r, err := client.Call[command.SubmitTurnResult](p.t.Context(), p.client(), params)
	if err != nil {
		return nil, orRefused(err)
	}
	return func() {
		call[command.QueueResult](p, &command.RemoveQueuedTurn{SessionID: r.SessionID, TurnID: r.TurnID})
	}, nil
}

func openStream(p *process) (func(), error) {
	id := call[command.CreateSessionResult](p, &command.CreateSession{}).SessionID
	ctx, cancel := context.WithCancel(p.t.Context())
	switch status, _ := p.stream(ctx, id, ""); status {
	case http.StatusOK:
		return cancel, nil
	case http.StatusTooManyRequests:
		cancel()
		return nil, errRefused
	default:
		cancel()
		return nil, fmt.Errorf("status %d", status)
	}
}

func makeSchedule(p *process) (func(), error) {
	made, err := client.Call[command.ScheduleResult](p.t.Context(), p.client(), &command.CreateSchedule{
		Title: "hourly", EveryMs: 3_600_000, Task: event.Raw(`{"objective":"wait","worker":"external"}`),
	})
	if err != nil {
		return nil, orRefused(err)
	}
	return func() {
		call[map[string]any](p, &command.DeleteSchedule{ScheduleID: made.ScheduleID})
	}, nil
}

func startProcess(p *process) (func(), error) {
	r := p.submit("step")
	for e, err := range p.client().Follow(p.t.Context(), r.SessionID, 0, nil) {
		switch {
		case err != nil:
			return nil, err
		case e.Type == event.TypeToolFailed:
			return nil, errRefused
		case e.Type == event.TypeProcessStarted:
			return func() {
				call[map[string]any](p, &command.InterruptTurn{SessionID: r.SessionID, TurnID: r.TurnID})
				p.until(r.SessionID, event.TypeProcessTerminated, 1)
			}, nil
		}
	}
	return nil, errors.New("the turn's events ended")
}

// awaitUse waits until a node says that an account uses so much of a quota.
func (p *process) awaitUse(account, quota string, want int64) {
	p.t.Helper()
	for {
		for _, q := range call[command.GetQuotasResult](p, &command.GetQuotas{}).Quotas {
			if q.Account == account && q.Quota == quota && q.Used == want {
				return
			}
		}
		if p.t.Failed() {
			p.t.FailNow()
		}
	}
}

// TestStandingQuotasOfAllNodes: what is used for as long as it lasts counts on all nodes, too.
// A node that is killed uses nothing any more, whether it comes back or not: what it leaves to
// others counts where it goes on.
func TestStandingQuotasOfAllNodes(t *testing.T) {
	f := newFleet(t, "1h", slow)
	const limits = "\nquotas: {operator: {queuedTurns: 3, subscriptions: 3, schedules: 3, processes: 3}}"
	script := "answers:\n" +
		"  - {when: {contains: step}, tools: [{name: shell, arguments: {command: \"sleep 3600\"}}]}\n" +
		"  - {text: never, stall: 1h}\nrepeat: true\n"
	dir, work := f.dir(), t.TempDir()
	nodeA, nodeB := f.placed("node-a", work, script, ", pool: disk"), f.placed("node-b", work, script, ", pool: disk")
	for _, n := range []*fleet{nodeA, nodeB} {
		text, err := os.ReadFile(n.config)
		if err != nil {
			t.Fatal(err)
		}
		n.config = writeFile(t, t.TempDir(), "node.yaml", string(text)+limits)
	}
	a, b := nodeA.node(dir), nodeB.node(f.dir())
	quotas := []standing{
		{"queuedTurns", queueTurn, true},
		{"schedules", makeSchedule, true},
		{"processes", startProcess, false},
		{"subscriptions", openStream, false}, // the last, because the others follow what they do
	}
	for _, q := range quotas {
		name := q.quota
		t.Run(name, func(t *testing.T) {
			b.awaitUse("", name, 0)
			take := func(p *process) func() {
				t.Helper()
				giveBack, err := q.take(p)
				if err != nil {
					t.Fatal(err)
				}
				return giveBack
			}
			take(a)
			take(a)
			b.awaitUse("", name, 2)
			giveBack := take(b)
			a.awaitUse("", name, 3)
			for at, p := range map[string]*process{"a": a, "b": b} {
				if _, err := q.take(p); !errors.Is(err, errRefused) {
					t.Errorf("%s takes a fourth: %v", at, err)
				}
			}
			giveBack()
			a.awaitUse("", name, 2)
			take(a)
			b.awaitUse("", name, 3)
			if _, err := q.take(b); !errors.Is(err, errRefused) {
				t.Errorf("b takes a fourth after that: %v", err)
			}
		})
	}
	left := func(when string, p *process) {
		t.Helper()
		for _, q := range quotas {
			t.Log(when, q.quota)
			want := int64(0)
			if q.stays {
				want = 3
			}
			p.awaitUse("", q.quota, want)
		}
	}
	// An account that does nothing at the node when that is back.
	feed, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/v1/feed", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	feed.Header.Set("Authorization", "Bearer "+a.tokenFor("client", "acme"))
	feed.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(feed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b.awaitUse("acme", "subscriptions", 1)
	a.stop(syscall.SIGKILL)
	a = nodeA.node(dir)
	left("after a restart", b)
	b.awaitUse("acme", "subscriptions", 0)
	schedulesAt := func(node string, through *process) {
		t.Helper()
		for _, x := range call[command.ListSchedulesResult](through, &command.ListSchedules{}).Schedules {
			for f.ownerOf(x.SessionID) != node {
				if t.Failed() {
					t.FailNow()
				}
			}
		}
	}
	// What has a call under way stays; the schedules go to the other node.
	b.drains("node-a", false)
	schedulesAt("node-b", a)
	left("after a drain", a)
	left("after a drain", b)
	a.drains("node-a", true)
	f.kill(b)
	schedulesAt("node-a", a)
	left("after a takeover", a)
}
