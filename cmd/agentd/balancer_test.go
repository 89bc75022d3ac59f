package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/internal/pgtest"
)

// TestRollingRestartBehindHAProxy restarts three nodes, one after the other, that are behind an
// HAProxy with the configuration of the operations guide and reach their database through
// PgBouncer, while clients use every door. A client that does what the guide says sees no
// failure: nothing that it was told is lost, and nothing happens twice.
func TestRollingRestartBehindHAProxy(t *testing.T) {
	rollBehindHAProxy(t, 1, 1, 100*time.Millisecond, balancedScript)
}

func TestLongRollingRestartBehindHAProxy(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("20 rounds run only with AGENTD_TEST_LONG")
	}
	rollBehindHAProxy(t, 20, 1, 100*time.Millisecond, balancedScript)
}

// TestLongRollingRestartUnderLoad has five clients at every door, and commands in the turns, so
// that nodes stop in the middle of many of them. The clients pause: those who follow the feed of
// all sessions have to keep up with all others, on the same machine.
func TestLongRollingRestartUnderLoad(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("five clients at every door run only with AGENTD_TEST_LONG")
	}
	rollBehindHAProxy(t, 3, 5, time.Second, balancedShell)
}

// balancedScript takes a moment for each answer, so that nodes stop in the middle of some.
const balancedScript = "repeat: true\nanswers: [{text: done, stall: 150ms}]"

// balancedShell has every turn run a command that takes a moment.
const balancedShell = `repeat: true
answers:
  - {text: I will., tools: [{name: shell, arguments: {command: "sleep 0.05"}}]}
  - {text: done, stall: 20ms}
`

// balanced is three nodes behind a balancer.
type balanced struct {
	t     *testing.T
	f     *fleet
	work  string
	names []string
	dirs  []string
	nodes []*process
	// front is the balancer, as if it were a server.
	front *process
	// stop is closed when clients are to end.
	stop chan struct{}
	// script is what the model says.
	script string
	// former is the program that the nodes began with, if it is of another version.
	former string
	// again counts requests that were sent again, turns those that ended.
	again, turns atomic.Int64
}

// rollBehindHAProxy restarts all nodes in rounds, with as many clients at each door, each of which
// pauses between its turns.
func rollBehindHAProxy(t *testing.T, rounds, clientsPerDoor int, pause time.Duration, script string) {
	t.Helper()
	f := newFleet(t, "1h", slow)
	f.url = pgtest.Shared(t).Pooled(t, f.url)
	b := newBalanced(f, script)
	c := b.gather(balancedDoors, clientsPerDoor, pause)
	for round := range rounds {
		for i := range b.nodes {
			c.everyDoor()
			if t.Failed() {
				break
			}
			b.restart(i, (round+i)%3 != 1)
		}
	}
	c.finish()
}

// balancedCrowd is clients that give turns until the end.
type balancedCrowd struct {
	b *balanced
	// reached counts the turns of each client.
	reached []atomic.Int64
	clients sync.WaitGroup
}

// gather has as many clients at each door, each of which pauses between its turns.
func (b *balanced) gather(doors []balancedDoor, clientsPerDoor int, pause time.Duration) *balancedCrowd {
	crowd := &balancedCrowd{b: b, reached: make([]atomic.Int64, len(doors)*clientsPerDoor)}
	for i := range crowd.reached {
		door := doors[i%len(doors)]
		crowd.clients.Go(func() {
			c := &balancedClient{balanced: b, door: door.name, session: fmt.Sprintf("sess_door%d", i), pause: pause}
			if i >= len(doors) && b.former != "" {
				c.program = b.former
				crowd.await(i-len(doors), 0) // some former versions refuse A2A clients that are an account's first at once
			}
			c.giveTurns(door.open, &crowd.reached[i])
		})
	}
	return crowd
}

// everyDoor returns when each client had another turn.
func (c *balancedCrowd) everyDoor() {
	before := make([]int64, len(c.reached))
	for i := range c.reached {
		before[i] = c.reached[i].Load()
	}
	for i := range c.reached {
		c.await(i, before[i])
	}
}

// await returns when a client had more turns than that.
func (c *balancedCrowd) await(i int, turns int64) {
	for c.reached[i].Load() <= turns && !c.b.t.Failed() {
		time.Sleep(10 * time.Millisecond)
	}
}

// finish waits for one more turn of each client, and for what clients look at in the end.
func (c *balancedCrowd) finish() {
	c.b.t.Helper()
	c.everyDoor()
	close(c.b.stop)
	c.clients.Wait()
	c.b.t.Logf("%d turns, %d requests were sent again", c.b.turns.Load(), c.b.again.Load())
	if c.b.t.Failed() {
		for i, p := range c.b.nodes {
			c.b.t.Logf("%s says:\n%s", c.b.names[i], p.logSoFar())
		}
	}
}

// newBalanced starts the nodes of a fleet, and a balancer in front of them.
func newBalanced(f *fleet, script string) *balanced {
	t := f.t
	t.Helper()
	b := &balanced{t: t, f: f, former: f.program, work: t.TempDir(), script: script, names: []string{"node-a", "node-b", "node-c"}, stop: make(chan struct{})}
	var addresses []string
	for i := range b.names {
		b.dirs = append(b.dirs, f.dir())
		b.nodes = append(b.nodes, b.node(i, "127.0.0.1:0"))
		addresses = append(addresses, strings.TrimPrefix(b.nodes[i].url, "http://"))
	}
	b.front = &process{t: t, url: startBalancer(t, addresses), data: b.dirs[0]}
	return b
}

// node starts a node where it is to listen.
func (b *balanced) node(i int, listen string) *process {
	b.t.Helper()
	return b.fleetOf(i).node(b.dirs[i], "--listen", listen)
}

// fleetOf returns the fleet with the configuration of one node.
func (b *balanced) fleetOf(i int) *fleet {
	b.t.Helper()
	return b.f.placed(b.names[i], b.work, b.script, "}\nsandbox: {mode: danger_full_access}\nallowedHosts: [127.0.0.1]\nactions: {timeout: 24h")
}

// restart stops a node, after it was drained or right away, and starts it again.
func (b *balanced) restart(i int, drain bool) {
	b.t.Helper()
	if drain {
		other := b.nodes[(i+1)%len(b.nodes)]
		call[command.DrainNodeResult](other, &command.DrainNode{NodeID: b.names[i]})
		for other.states()[b.names[i]] != "drained" {
			time.Sleep(10 * time.Millisecond)
		}
	}
	listen := strings.TrimPrefix(b.nodes[i].url, "http://")
	if code := b.nodes[i].stop(syscall.SIGTERM); code != 0 {
		b.t.Errorf("%s ended with %d", b.names[i], code)
	}
	b.nodes[i] = b.node(i, listen)
	// The next one is stopped when the balancer gives this one work again.
	for res := b.nodes[i].getWithToken("/readyz"); res.StatusCode != http.StatusOK; res = b.nodes[i].getWithToken("/readyz") {
		_ = res.Body.Close()
	}
}

var (
	haproxyBlock  = regexp.MustCompile("(?s)```haproxy\n(.*?)```")
	haproxyBind   = regexp.MustCompile(`(?m)^(\s*bind) .*$`)
	haproxyServer = regexp.MustCompile(`(?m)^(\s*server \S+) \S+$`)
)

// balancerScript runs HAProxy until its standard input ends, which the kernel sees to when the
// test binary dies.
const balancerScript = `"$1" -db -f "$2" 3<&3 & pid=$!
exec 3<&-
cat >/dev/null
kill -TERM "$pid" 2>/dev/null
wait "$pid"`

// startBalancer runs HAProxy with the configuration of the operations guide in front of nodes,
// and returns its address.
func startBalancer(t *testing.T, nodes []string) string {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/haproxy")
	}
	if err != nil {
		if os.Getenv("AGENTD_TEST_POSTGRES") == "require" {
			t.Fatal("haproxy is neither in PATH nor in /usr/sbin; run scripts/haproxy.sh")
		}
		t.Skip("skipped: all of this test needs HAProxy, which is neither in PATH nor in /usr/sbin; run scripts/haproxy.sh")
	}
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	block := haproxyBlock.FindSubmatch(guide)
	if block == nil {
		t.Fatal("the operations guide has no configuration of HAProxy")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	config := haproxyBind.ReplaceAllString(string(block[1]), "$1 fd@3")
	config = strings.Replace(config, " ssl verify required ca-file /etc/haproxy/nodes-ca.pem", "", 1)
	next := 0
	config = haproxyServer.ReplaceAllStringFunc(config, func(line string) string {
		next++
		return haproxyServer.ReplaceAllString(line, "$1 "+nodes[next-1])
	})
	if next != len(nodes) || !strings.Contains(config, "fd@3") {
		t.Fatalf("the configuration is not for %d nodes:\n%s", len(nodes), config)
	}
	cmd := exec.Command("/bin/sh", "-c", balancerScript, "sh", program, writeFile(t, t.TempDir(), "haproxy.cfg", config))
	cmd.ExtraFiles = []*os.File{socket}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	leash, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = leash.Close()
		_ = cmd.Wait() // how it ends when it is told to isn't what is tested
		if t.Failed() {
			t.Logf("HAProxy says:\n%s", said.String())
		}
	})
	_ = socket.Close() // it is the balancer's now
	address := "http://" + l.Addr().String()
	_ = l.Close()
	return address
}

// balancedClient uses one door, in a session of its own.
type balancedClient struct {
	*balanced
	door, session string
	// program is what a door runs, if not this version's.
	program string
	// pause is how long it waits between two turns.
	pause time.Duration
}

// giveTurns gives one turn after the other through a door until the end, and then looks whether the
// session has exactly these.
func (c *balancedClient) giveTurns(open func(context.Context, *balancedClient) (func(n int) error, error), reached *atomic.Int64) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	turn, err := open(ctx, c)
	if err != nil {
		c.t.Errorf("%s: %v", c.door, err)
		return
	}
	given := 0
	for more := true; more; {
		if err := turn(given); err != nil {
			c.t.Errorf("%s, turn %d: %v", c.door, given, err)
			return
		}
		given++
		reached.Add(1)
		c.turns.Add(1)
		select {
		case <-c.stop:
			more = false
		case <-time.After(c.pause): // a person thinks, and the machine has other doors to serve
		}
	}
	if c.session != "" {
		c.checkTurns(ctx, given)
	}
}

// checkTurns holds a session's facts against what was given to it.
func (c *balancedClient) checkTurns(ctx context.Context, given int) {
	submitted, completed, at := 0, 0, uint64(0)
	for e, err := range c.front.client().Follow(ctx, c.session, 0, nil) {
		if err != nil || e.Sequence != at+1 {
			c.t.Errorf("%s: %d after %d: %v", c.door, e.Sequence, at, err)
			return
		}
		at = e.Sequence
		switch e.Type {
		case event.TypeTurnSubmitted:
			submitted++
		case event.TypeTurnFailed:
			c.t.Errorf("%s: a turn failed: %s", c.door, e.Data)
			return
		case event.TypeTurnCompleted:
			if completed++; completed == given {
				if submitted != given {
					c.t.Errorf("%s: %d turns were given, and %d are there", c.door, given, submitted)
				}
				return
			}
		}
	}
}

// key is what a turn is called in all tries.
func (c *balancedClient) key(n int) string { return fmt.Sprintf("%s-%d", c.session, n) }

// ask sends a request, and sends it again as the guide says: if no answer comes, or that of a
// balancer without a node, or that of a node which stops.
func (c *balancedClient) ask(ctx context.Context, method, path, body string, header ...string) (status int, answer string, err error) {
	for try := range 200 {
		status, retry, answer, err := c.send(ctx, method, path, body, header...)
		if ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		passing := err != nil || status == http.StatusBadGateway || status == http.StatusGatewayTimeout || status == http.StatusServiceUnavailable && (retry || !strings.Contains(answer, `"code"`))
		if !passing {
			return status, answer, nil
		}
		c.again.Add(1)
		time.Sleep(10 * time.Millisecond << min(try, 6))
	}
	return status, answer, fmt.Errorf("%s is not answered: %d %s %w", path, status, answer, err)
}

func (c *balancedClient) send(ctx context.Context, method, path, body string, header ...string) (status int, retry bool, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.front.url+path, strings.NewReader(body))
	if err != nil {
		return 0, false, "", err
	}
	req.Header.Set("Authorization", "Bearer "+c.front.token())
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false, "", err
	}
	data, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("Retry-After") != "", string(data), err
}

// command gives a command over HTTP.
func (c *balancedClient) command(ctx context.Context, p command.Params, result any) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	status, answer, err := c.ask(ctx, http.MethodPost, "/v1/commands/"+string(p.Command()), string(body))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, answer)
	}
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal([]byte(answer), result)
}

// submitParams are those of the n-th turn.
func (c *balancedClient) submitParams(n int) *command.SubmitTurn {
	return &command.SubmitTurn{SessionID: c.session, Create: true, Input: event.Raw(`"go on"`), Mutation: command.Mutation{IdempotencyKey: c.key(n)}}
}

// ended follows a turn to its end.
func (c *balancedClient) ended(ctx context.Context, turn *command.SubmitTurnResult) error {
	for e, err := range c.front.client().Follow(ctx, turn.SessionID, turn.Sequence, &client.FollowOptions{Types: []string{"turn.*"}}) {
		if err != nil {
			return err
		}
		if e.Type == event.TypeTurnCompleted && scopeOf(&e).TurnID == turn.TurnID {
			return nil
		}
	}
	return ctx.Err()
}
