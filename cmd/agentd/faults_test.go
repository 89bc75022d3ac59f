package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/internal/pgtest"
)

// TestFaults lets two nodes of one database run turns with a tool that leaves a mark, and
// hits one of them, or the database, in the middle. Every turn ends by itself; nothing is
// lost and nothing happens twice.
func TestFaults(t *testing.T) { faultRounds(t, 20) }

func TestLongFaults(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("1,000 rounds run only with AGENTD_TEST_LONG")
	}
	faultRounds(t, 1000)
}

// faultLease is short, so that a round is.
const faultLease = time.Second

// faultTurns is how many turns are under way when a fault comes.
const faultTurns = 4

// A turn asks for a command, which takes a moment, and then says so.
const faultScript = `answers:
  - {text: I will., stall: 30ms, tools: [{name: shell, arguments: {command: "echo mark >> witness; sleep 0.05"}}]}
  - {text: It is done., delay: 10ms}
`

func faultRounds(t *testing.T, rounds int) {
	w := newFaultWorld(t)
	kinds := []struct {
		name string
		hit  func(*faultNode)
	}{
		{"kill -9, restart at once", func(n *faultNode) { n.kill(); n.begin() }},
		{"kill -9, restart after the lease", func(n *faultNode) { n.kill(); time.Sleep(faultLease * 3 / 2); n.begin() }},
		{"SIGTERM, restart", func(n *faultNode) { n.p.stop(syscall.SIGTERM); n.begin() }},
		{"SIGSTOP past the lease", func(n *faultNode) { n.freeze(faultLease * 2) }},
		{"cut connections", func(n *faultNode) { n.wire.set(wireCut); time.Sleep(faultLease / 2); n.wire.set(wireWhole) }},
		{"cut past the lease", func(n *faultNode) { n.wire.set(wireCut); time.Sleep(faultLease * 2); n.wire.set(wireWhole) }},
		{"black hole", func(n *faultNode) {
			n.wire.set(wireMute)
			time.Sleep(faultLease * 3 / 2)
			n.wire.set(wireCut)
			n.wire.set(wireWhole)
		}},
		{"database restart", func(*faultNode) { w.cluster.Restart(t) }},
		{"database crash", func(*faultNode) { w.cluster.Kill(t); w.cluster.Run(t) }},
	}
	for round := range rounds {
		kind, victim := kinds[round%len(kinds)], w.nodes[round%2]
		began := time.Now()
		w.round(kind.name, victim, w.nodes[1-round%2], kind.hit)
		t.Logf("round %d: %s: %v", round, kind.name, time.Since(began).Round(time.Millisecond))
		if t.Failed() {
			return
		}
	}
	t.Logf("%d turns ended, %d of them asked a person about a command that was cut off", w.ended, w.blocked)
	if out, errs, code := program(t, "verify", "--data", w.cluster.URL(w.database)); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// faultWorld is a database and two nodes, each with a wire of its own to it.
type faultWorld struct {
	t        *testing.T
	cluster  *pgtest.Cluster
	database string
	nodes    [2]*faultNode
	// blocked counts turns that had to ask a person, ended all of them.
	blocked, ended int
}

type faultNode struct {
	f    *fleet
	dir  string
	wire *databaseWire
	p    *process
}

func newFaultWorld(t *testing.T) *faultWorld {
	t.Helper()
	c := pgtest.Start(t)
	direct := c.Database(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	w := &faultWorld{t: t, cluster: c, database: strings.TrimPrefix(u.Path, "/")}
	f := newFleet(t, faultLease.String(), faultScript, "sandbox: {mode: danger_full_access}\npermissions: {mode: bypass}\n")
	for i := range w.nodes {
		n := &faultNode{dir: f.dir()}
		own := *f
		n.wire, own.url = newWire(t, direct)
		n.f = &own
		w.nodes[i] = n
	}
	for _, n := range w.nodes {
		n.begin() // its facts are looked at again at the end, when both wires are there
	}
	return w
}

func (n *faultNode) begin() { n.p = n.f.node(n.dir) }

func (n *faultNode) kill() { n.p.stop(syscall.SIGKILL) }

func (n *faultNode) freeze(d time.Duration) {
	n.p.signal(syscall.SIGSTOP)
	time.Sleep(d)
	n.p.signal(syscall.SIGCONT)
}

// faultTurn is a turn with the folder in which its tool leaves a mark.
type faultTurn struct {
	sessionID, turnID, folder string
}

func (w *faultWorld) round(name string, victim, other *faultNode, hit func(*faultNode)) {
	w.t.Helper()
	var turns []faultTurn
	for i := range faultTurns {
		n := victim
		if i == 0 {
			n = other
		}
		turns = append(turns, w.submit(n.p))
	}
	time.Sleep(rand.N(250 * time.Millisecond))
	hit(victim)
	for _, turn := range turns {
		w.ends(name, other.p, turn)
	}
}

func (w *faultWorld) submit(p *process) faultTurn {
	w.t.Helper()
	folder := w.t.TempDir()
	c := p.client()
	made, err := client.Call[command.CreateSessionResult](w.t.Context(), c, &command.CreateSession{Workspace: &event.Workspace{Root: folder}})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := client.Call[command.SubmitTurnResult](w.t.Context(), c, &command.SubmitTurn{SessionID: made.SessionID, Input: event.Raw(`"do it"`)})
	if err != nil {
		w.t.Fatal(err)
	}
	return faultTurn{made.SessionID, r.TurnID, folder}
}

// ends follows a turn, through a node that wasn't hit, to its end. A command that was cut
// off may or may not have happened: then, and only then, a person is asked.
func (w *faultWorld) ends(name string, p *process, turn faultTurn) {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // so that a broken test says what it waits for
	defer cancel()
	lost, results, ended, told := 0, 0, 0, ""
	last := event.Type("")
	for e, err := range p.client().Follow(ctx, turn.sessionID, 0, nil) {
		if err != nil {
			t.Errorf("%s: session %s stands still after %s: %v", name, turn.sessionID, last, err)
			return
		}
		last = e.Type
		switch e.Type {
		case event.TypeToolResult:
			results++
			told = string(e.Data)
		case event.TypeToolFailed:
			lost++
			told = string(e.Data)
		case event.TypeThreadUpdated:
			if strings.Contains(string(e.Data), "tool_lost") && !strings.Contains(string(e.Data), "resumed") {
				w.blocked++
				w.resume(ctx, p, turn, string(e.Data))
			}
		case event.TypeTurnFailed:
			t.Errorf("%s: a turn failed: %s", name, e.Data)
			ended++
		case event.TypeTurnCompleted:
			ended++
		}
		if ended > 0 {
			break
		}
	}
	w.ended++
	marks, err := os.ReadFile(filepath.Join(turn.folder, "witness"))
	n := strings.Count(string(marks), "mark")
	if n > 1 || results+lost > 1 || (results == 1 && n != 1) {
		t.Errorf("%s: session %s: the command ran %d times (%v), with %d results and %d lost: %s", name, turn.sessionID, n, err, results, lost, told)
	}
}

// resume lets a thread go on that asks a person.
func (w *faultWorld) resume(ctx context.Context, p *process, turn faultTurn, fact string) {
	threadID, err := between(fact, `"threadId":"`, `"`)
	if err != nil {
		w.t.Fatal(err)
	}
	for ctx.Err() == nil {
		_, err = client.Call[command.ResumeThreadResult](ctx, p.client(), &command.ResumeThread{SessionID: turn.sessionID, ThreadID: threadID})
		if err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Errorf("session %s can't be resumed: %v", turn.sessionID, err)
}

// States of a wire.
const (
	wireWhole = iota
	// wireCut ends all connections and lets none in.
	wireCut
	// wireMute takes everything and delivers nothing.
	wireMute
)

// databaseWire stands between a node and its database.
type databaseWire struct {
	target string

	mu    sync.Mutex
	state int
	conns map[net.Conn]struct{}
}

// newWire returns a wire and the URL of the database through it.
func newWire(t *testing.T, database string) (*databaseWire, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &databaseWire{target: u.Host, conns: map[net.Conn]struct{}{}}
	u.Host = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.set(wireCut)
		running.Wait()
	})
	return w, u.String()
}

// set changes the state.
func (w *databaseWire) set(state int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	if state == wireCut {
		for c := range w.conns {
			_ = c.Close()
		}
		clear(w.conns)
	}
}

func (w *databaseWire) isMute() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == wireMute
}

func (w *databaseWire) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	s, err := net.Dial("tcp", w.target)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	w.mu.Lock()
	cut := w.state == wireCut
	if !cut {
		w.conns[c], w.conns[s] = struct{}{}, struct{}{}
	}
	w.mu.Unlock()
	if cut {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.pass(s, c) })
	both.Go(func() { w.pass(c, s) })
	both.Wait()
}

func (w *databaseWire) pass(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if w.isMute() {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestResultSurvivesABlip cuts a node off from its database while a command ends. The node
// knows how it ended and says so when the database is back; nobody has to be asked.
func TestResultSurvivesABlip(t *testing.T) {
	const script = `answers:
  - {text: I will., tools: [{name: shell, arguments: {command: "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo mark >> witness"}}]}
  - {text: It is done.}
`
	f := newFleet(t, "1h", script, "sandbox: {mode: danger_full_access}\npermissions: {mode: bypass}\n")
	var wire *databaseWire
	wire, f.url = newWire(t, f.url)
	w := &faultWorld{t: t}
	p := f.node(f.dir())
	turn := w.submit(p)
	awaitFile(t, filepath.Join(turn.folder, "begun"))
	wire.set(wireCut)
	writeFile(t, turn.folder, "go", "")
	awaitFile(t, filepath.Join(turn.folder, "witness"))
	p.wait("a result can't be recorded")
	wire.set(wireWhole)
	w.ends("blip", p, turn)
	if w.blocked > 0 {
		t.Error("a person was asked about a command whose end was known")
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	for !exists(path) && t.Context().Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}
