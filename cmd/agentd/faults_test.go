package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/pgtest"
)

// TestFaults lets two nodes of one database run turns with a tool that leaves a mark, while
// clients write and read through both, and hits one of them, or the database, in the middle.
// Every turn ends by itself; nothing is lost, nothing happens twice, no answer contradicts
// another one, and no person is asked about what a process knew.
func TestFaults(t *testing.T) { faultRounds(t, newFaultWorld(t, ""), 0, len((&faultWorld{}).kinds())) }

func TestLongFaults(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("1,000 rounds run only with AGENTD_TEST_LONG")
	}
	// A round waits most of its time, for leases to end: four worlds take a quarter of it.
	const worlds = 4
	for i := range worlds {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			faultRounds(t, newFaultWorld(t, ""), i*1000/worlds, 1000/worlds)
		})
	}
}

// faultLease is short, so that a round is.
const faultLease = time.Second

// faultSessions is how many sessions are in use when a fault comes.
const faultSessions = 4

// faultScript has a turn ask for a command, which takes a moment, and then say so. No command
// of a session is like another one: each leaves a mark of its own.
func faultScript() string {
	var script strings.Builder
	script.WriteString("answers:\n")
	for i := range 20 {
		fmt.Fprintf(&script, `  - {text: I will., stall: 30ms, tools: [{name: shell, arguments: {command: "echo mark-%d. >> witness; sleep 0.05"}}]}
  - {text: It is done., delay: 10ms}
`, i)
	}
	return script.String()
}

// faultKind is something that happens to a node, or to the database.
type faultKind struct {
	name string
	// prepare makes ready what hit needs, before the clients begin.
	prepare func()
	hit     func(*faultNode)
	// mend ends what hit left, when the turns have ended.
	mend func(*faultNode)
	// dies says that a process ends without a word. Otherwise the processes know how every
	// command ended, and which never began: unless one loses its lease, no person needs to be
	// asked.
	dies bool
	// blinds says that a node can't know that it lost its lease: until it learns of it, what
	// it shows may be old.
	blinds bool
}

func (w *faultWorld) kinds() []faultKind {
	faulty := func(fault wireFault, d time.Duration) func(*faultNode) {
		return func(n *faultNode) {
			n.wire.set(fault)
			time.Sleep(d)
			n.wire.mend()
		}
	}
	return []faultKind{
		{name: "kill -9, restart at once", dies: true, hit: func(n *faultNode) { n.kill(); n.begin() }},
		{name: "kill -9, restart within the lease", dies: true, hit: func(n *faultNode) { n.kill(); time.Sleep(faultLease / 2); n.begin() }},
		{name: "kill -9, restart after the lease", dies: true, hit: func(n *faultNode) { n.kill(); time.Sleep(faultLease * 3 / 2); n.begin() }},
		{name: "kill -9 for good", dies: true, hit: (*faultNode).kill, mend: (*faultNode).begin},
		{name: "SIGTERM, restart", hit: func(n *faultNode) { n.stop(syscall.SIGTERM); n.begin() }},
		{name: "SIGSTOP within the lease", hit: func(n *faultNode) { n.freeze(faultLease / 3) }},
		{name: "SIGSTOP past the lease", hit: func(n *faultNode) { n.freeze(faultLease * 2) }},
		{name: "a node that stutters", hit: func(n *faultNode) {
			for range 15 {
				n.freeze(60 * time.Millisecond)
				time.Sleep(20 * time.Millisecond)
			}
		}},
		{name: "a node that stays slow", hit: func(n *faultNode) { n.wire.set(wireSlow) }, mend: func(n *faultNode) { n.wire.set(wireWhole) }},
		{name: "cut connections", hit: faulty(wireCut, faultLease/3)},
		{name: "cut past the lease", hit: faulty(wireCut, faultLease*2)},
		{name: "black hole", hit: faulty(wireMute, faultLease*3/2)},
		{name: "black hole towards the database", hit: faulty(wireMuteThere, faultLease*3/2)},
		{name: "black hole towards the node", hit: faulty(wireMuteBack, faultLease*3/2)},
		{name: "nodes cut off from each other", hit: func(*faultNode) { w.betweenNodes(wireCut) }},
		{name: "black hole between the nodes", hit: func(*faultNode) { w.betweenNodes(wireMute) }},
		{name: "database restart", hit: func(*faultNode) { w.cluster.Restart(w.t) }},
		{name: "database immediate stop", hit: func(*faultNode) { w.cluster.Kill(w.t); w.cluster.Run(w.t) }},
		{name: "promotion of a standby", prepare: w.prepareStandby, hit: func(*faultNode) { w.promote() }},
		{name: "the database's clock jumps ahead", blinds: true, hit: func(*faultNode) { w.jump(time.Hour) }},
		{name: "the database's clock jumps back", hit: func(*faultNode) { w.jump(-time.Hour) }},
		{name: "the database's clock jumps ahead within the lease", hit: func(*faultNode) { w.jump(faultLease / 3) }},
	}
}

// faultSeed is printed, and repeats the choices of a run when it is given.
func faultSeed(t *testing.T) uint64 {
	t.Helper()
	if given := os.Getenv("AGENTD_TEST_SEED"); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("AGENTD_TEST_SEED: %v", err)
		}
		return seed
	}
	return rand.Uint64()
}

// faultRounds runs as many rounds, from the one with a number on.
func faultRounds(t *testing.T, w *faultWorld, from, rounds int) {
	t.Helper()
	seed := faultSeed(t)
	t.Logf("AGENTD_TEST_SEED=%d repeats the choices of this run", seed)
	kinds := w.kinds()
	for round := from; round < from+rounds; round++ {
		kind, victim := &kinds[round%len(kinds)], round/len(kinds)%2
		began := time.Now()
		blocked, lapses := w.blocked, w.lapses()
		w.round(kind, w.nodes[victim], w.nodes[1-victim], rand.New(rand.NewPCG(seed, uint64(round))))
		t.Logf("round %d: %s: %v, %d asked, the others ended %.1f leases after the fault", round, kind.name, time.Since(began).Round(time.Millisecond), w.blocked-blocked, w.slowest)
		if !kind.dies && w.blocked > blocked && w.lapses() == lapses {
			t.Errorf("round %d: %s: a person was asked about a command whose end was known:\n%s", round, kind.name, w.asked)
		}
		if t.Failed() {
			for i, n := range w.nodes {
				t.Logf("node %d, %s, says:\n%s", i, n.process().url, n.process().logSoFar())
			}
			return
		}
	}
	t.Logf("%d turns ended, %d of them asked a person about a command that was cut off", w.ended, w.blocked)
	for _, n := range w.nodes {
		n.stop(syscall.SIGTERM)
	}
	if out, errs, code := program(t, "verify", "--data", w.cluster.URL(w.database)); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
	recorded(t).replay(t) // the database goes before the rest does
}

// faultWorld is a database and two nodes, each with a wire of its own to it.
type faultWorld struct {
	t        *testing.T
	cluster  *pgtest.Cluster
	standby  *pgtest.Cluster // nil until it is needed
	database string
	nodes    [2]*faultNode
	began    time.Time
	made     int
	// blocked counts turns that had to ask a person, ended all of them.
	blocked, ended int
	// slowest is how many leases after the round's fault the last turn ended by itself.
	slowest float64
	// asked has the facts of the last session in which a person was asked.
	asked string
}

type faultNode struct {
	f     *fleet
	dir   string
	token string
	// wire leads to the database, and door from the other node to this one.
	wire, door *faultyWire
	// advertise is the address of its door.
	advertise string

	mu sync.Mutex
	p  *process
}

// newFaultWorld starts the nodes, the first of them with the program of a former version, if one
// is named.
func newFaultWorld(t *testing.T, former string) *faultWorld {
	t.Helper()
	c := pgtest.Start(t)
	direct := c.Database(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	w := &faultWorld{t: t, cluster: c, database: strings.TrimPrefix(u.Path, "/"), began: time.Now()}
	w.fakeClock(direct)
	f := newFleet(t, faultLease.String(), faultScript(), "sandbox: {mode: danger_full_access}\npermissions: {mode: bypass}\n")
	for i := range w.nodes {
		n := &faultNode{dir: f.dir(), token: strings.TrimSpace(string(f.token))}
		own := *f
		n.wire, own.url = newWire(t, direct)
		n.door, n.advertise = newWire(t, "http://127.0.0.1:1")
		n.f = &own
		w.nodes[i] = n
	}
	w.nodes[0].f.program = former
	for _, n := range w.nodes {
		n.begin() // its facts are looked at again at the end, when both wires are there
	}
	w.noteLapses()
	return w
}

func (n *faultNode) begin() {
	var args []string
	if n.door != nil {
		args = []string{"--advertise", n.advertise}
	}
	p := n.f.node(n.dir, args...)
	if n.door != nil {
		n.door.leadTo(n.f.t, p.url)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.p = p
}

func (n *faultNode) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.p
}

// client returns a client of the node as it is now.
func (n *faultNode) client() (*client.Client, error) {
	return client.New(n.process().url, &client.Options{Token: n.token})
}

func (n *faultNode) stop(sig syscall.Signal) { n.process().stop(sig) }

func (n *faultNode) kill() { n.stop(syscall.SIGKILL) }

func (n *faultNode) freeze(d time.Duration) {
	n.process().signal(syscall.SIGSTOP)
	time.Sleep(d)
	n.process().signal(syscall.SIGCONT)
}

func (w *faultWorld) round(kind *faultKind, victim, other *faultNode, r *rand.Rand) {
	w.t.Helper()
	if kind.prepare != nil {
		kind.prepare()
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute) // so that a broken test says what it waits for
	defer cancel()
	var sessions []*faultSession
	for i := range faultSessions {
		n := victim
		if i == 0 {
			n = other
		}
		sessions = append(sessions, w.begin(ctx, n))
	}
	var using sync.WaitGroup
	for _, s := range sessions {
		seed := r.Uint64()
		using.Go(func() {
			if err := s.writeAndRead(ctx, seed); err != nil {
				w.t.Errorf("%s: %v", kind.name, err)
			}
		})
	}
	time.Sleep(time.Duration(r.Int64N(int64(250 * time.Millisecond))))
	kind.hit(victim)
	pace := w.startPace(other)
	using.Wait()
	models := make([]*turnModel, len(sessions))
	for i, s := range sessions {
		var err error
		if models[i], err = w.ends(ctx, other, s, pace); err != nil {
			w.t.Errorf("%s: session %s: %v", kind.name, s.id, err)
		}
		s.checkHistory(w.t, kind.blinds)
	}
	if kind.mend != nil {
		kind.mend(victim)
	}
	for i, s := range sessions {
		if err := s.checkRest(ctx, other, models[i]); err != nil && !w.t.Failed() {
			w.t.Errorf("%s: session %s, at the end of the round: %v", kind.name, s.id, err)
		}
	}
}

// betweenNodes has what nodes ask each other go wrong until the lease would be over.
func (w *faultWorld) betweenNodes(fault wireFault) {
	for _, n := range w.nodes {
		n.door.set(fault)
	}
	time.Sleep(faultLease * 3 / 2)
	for _, n := range w.nodes {
		n.door.mend()
	}
}

// begin makes a session in a folder of its own, at a node, and gives it a turn.
func (w *faultWorld) begin(ctx context.Context, n *faultNode) *faultSession {
	w.t.Helper()
	w.made++
	s := &faultSession{w: w, id: fmt.Sprintf("sess_f%d", w.made), folder: w.t.TempDir()}
	c, err := n.client()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	// A node that a busy machine kept from its lease, or that is still coming back from the
	// round before, refuses it for a while.
	for {
		_, err = client.Call[command.CreateSessionResult](ctx, c, &command.CreateSession{
			SessionID: s.id, Workspace: &event.Workspace{Root: s.folder}, Mutation: command.Mutation{IdempotencyKey: "create " + s.id},
		})
		if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err == nil {
		err = s.call(ctx, 0, rand.New(rand.NewPCG(0, 0)), sessionCall{opSubmit, "turn_" + s.id})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// ends follows a session, through a node that wasn't hit, to the end of all its turns. A
// command that was cut off may or may not have happened: then, and only then, a person is
// asked. Otherwise the turns end by themselves, and soon.
func (w *faultWorld) ends(ctx context.Context, n *faultNode, s *faultSession, pace *faultPace) (*turnModel, error) {
	m := newTurnModel()
	c, err := n.client()
	if err != nil {
		return m, err
	}
	defer c.Close()
	ctx, isAsked, end := pace.limit(ctx)
	defer end()
	asked := 0
	for e, err := range c.Follow(ctx, s.id, 0, nil) {
		if err != nil {
			return m, fmt.Errorf("it stands still: %w; of turns %v it has\n%s", errors.Join(err, context.Cause(ctx)), s.turns, strings.Join(m.facts, "\n"))
		}
		if err := m.takeFact(&e); err != nil {
			return m, err
		}
		for ; asked < len(m.blocked); asked++ {
			w.blocked++
			w.asked = strings.Join(m.facts, "\n")
			isAsked()
			if err := resume(ctx, c, s.id, m.blocked[asked]); err != nil {
				return m, err
			}
		}
		if len(m.turns) == len(s.turns) && m.open() == 0 {
			break
		}
	}
	w.ended += len(s.turns)
	for _, turn := range s.turns {
		if !m.turns[turn] {
			return m, fmt.Errorf("turn %s was acknowledged and is lost", turn)
		}
	}
	return m, s.checkMarks(m)
}

// resume lets a thread go on that asks a person.
func resume(ctx context.Context, c *client.Client, sessionID, threadID string) error {
	for {
		_, err := client.Call[command.ResumeThreadResult](ctx, c, &command.ResumeThread{SessionID: sessionID, ThreadID: threadID})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it can't be resumed: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestResultSurvivesABlip cuts a node off from its database while a command ends. The node
// knows how it ended and says so when the database is back; nobody has to be asked.
func TestResultSurvivesABlip(t *testing.T) {
	const script = `answers:
  - {text: I will., tools: [{name: shell, arguments: {command: "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo mark-0. >> witness"}}]}
  - {text: It is done.}
`
	f := newFleet(t, "1h", script, "sandbox: {mode: danger_full_access}\npermissions: {mode: bypass}\n")
	var wire *faultyWire
	wire, f.url = newWire(t, f.url)
	n := &faultNode{f: f, dir: f.dir(), token: strings.TrimSpace(string(f.token)), wire: wire}
	n.begin()
	w := &faultWorld{t: t, nodes: [2]*faultNode{n, n}, began: time.Now()}
	s := w.begin(t.Context(), n)
	awaitFile(t, filepath.Join(s.folder, "begun"))
	wire.set(wireCut)
	writeFile(t, s.folder, "go", "")
	awaitFile(t, filepath.Join(s.folder, "witness"))
	n.process().wait("a result can't be recorded")
	wire.set(wireWhole)
	if _, err := w.ends(t.Context(), n, s, nil); err != nil {
		t.Error(err)
	}
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
