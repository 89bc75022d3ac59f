package sandbox

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ownNet says in which network namespace a command finds itself.
const ownNet = "readlink /proc/self/ns/net"

// netTest is a launcher of its own, and a plan whose network namespaces are used again.
type netTest struct {
	*testing.T
	l    *launcher
	plan *Plan
}

func newNetTest(t *testing.T) *netTest {
	t.Helper()
	plan := prepared(t, Profile{Root: workspace(t), Limits: Limits{Processes: 50}})
	if !plan.keepsNet() || !canFork {
		t.Skipf("network namespaces are used once here: root %v, %+v", !report().InUserNamespace, report().Supervise)
	}
	l, err := startLauncher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return &netTest{t, l, plan}
}

// start is a starter with the launcher.
func (n *netTest) start(p *Plan, cmd Command) (*Child, error) {
	c, err := p.beginStage(n.l)
	if err != nil {
		return nil, err
	}
	return c.become(p, cmd)
}

// line runs a line and returns what it printed.
func (n *netTest) line(plan *Plan, line string) string {
	n.Helper()
	r := runBy(n.T, n.start, plan, line)
	if !r.Success() {
		n.Fatalf("%s: %+v\n%s", line, r.Exit, r.stderr)
	}
	return strings.TrimSpace(r.stdout)
}

// waiting are the namespaces that wait for a command, as links name them.
func (n *netTest) waiting() (names []string) {
	n.Helper()
	n.l.nets.mu.Lock()
	defer n.l.nets.mu.Unlock()
	for _, f := range n.l.nets.free {
		name, err := os.Readlink(descriptorPath(int(f.Fd())))
		if err != nil {
			n.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// TestNetworkNamespaceIsUsedAgain: after commands that made no socket.
func TestNetworkNamespaceIsUsedAgain(t *testing.T) {
	n := newNetTest(t)
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	first := n.line(n.plan, ownNet)
	if first == host {
		t.Fatal("a command is in our network namespace")
	}
	n.line(n.plan, "exit 0 | true; (sleep 0 &)")
	if again := n.line(n.plan, ownNet); again != first {
		t.Errorf("the third command is in %s, the first was in %s", again, first)
	}
	// A failing command leaves as little.
	if r := runBy(t, n.start, n.plan, "exit 3"); r.Code != 3 {
		t.Errorf("%+v", r.Exit)
	}
	if again := n.line(n.plan, ownNet); again != first {
		t.Errorf("the last command is in %s, the first was in %s", again, first)
	}
	if got := n.line(n.plan, "cat /proc/net/dev | grep -c lo:; tail -n +3 /proc/net/dev | grep -v lo: || echo alone"); got != "1\nalone" {
		t.Errorf("its devices: %q", got)
	}
}

// TestNetworkNamespaceOfASocketIsNotUsedAgain: any kind of socket counts, also one of a background process.
func TestNetworkNamespaceOfASocketIsNotUsedAgain(t *testing.T) {
	n := newNetTest(t)
	copySelf(t, n.plan.Profile.Root+"/attacker")
	for _, kind := range []string{"inet", "inet6", "netlink", "pair"} {
		for how, line := range map[string]string{
			"itself": attackEnv + `="sock" exec ./attacker ` + kind,
			"orphan": "(" + attackEnv + `="sock" ./attacker ` + kind + "; echo made) > " + kind + " & until grep -q made " + kind + "; do sleep 0.01; done",
		} {
			was := n.line(n.plan, ownNet)
			if got := n.waiting(); len(got) != 1 || got[0] != was {
				t.Fatalf("%v wait, and the command was in %s", got, was)
			}
			n.line(n.plan, line)
			if got := n.waiting(); len(got) != 0 {
				t.Errorf("%s, %s: %v wait for another command", kind, how, got)
			}
		}
	}
}

// TestNetworkNamespaceInDoubtIsNotUsedAgain: when the stage didn't say that there was no
// socket.
func TestNetworkNamespaceInDoubtIsNotUsedAgain(t *testing.T) {
	n := newNetTest(t)
	n.line(n.plan, "true")
	c, err := n.start(n.plan, Command{Argv: []string{"sleep", "100000"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Go(); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := n.waiting(); len(got) != 0 {
		t.Errorf("that of a killed command waits: %v", got)
	}
	n.line(n.plan, "true")
	// One that never ran has told nothing.
	if c, err = n.start(n.plan, Command{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := n.waiting(); len(got) != 0 {
		t.Errorf("that of a command that didn't run waits: %v", got)
	}
	for name, p := range map[string]Profile{
		"a proxy":    {Network: NetworkProxy, AllowedHosts: []string{"example.org"}},
		"the host's": {Network: NetworkAllow},
		"rules":      {Supervised: true},
	} {
		p.Root = n.plan.Profile.Root
		plan := prepared(t, p)
		n.line(plan, "true")
		if got := n.waiting(); plan.keepsNet() || len(got) != 0 {
			t.Errorf("%s: %v wait", name, got)
		}
	}
}

// TestNetworkNamespaceIsOfOneCommand: two that run at once have two, and what waits is
// given up with the launcher.
func TestNetworkNamespaceIsOfOneCommand(t *testing.T) {
	n := newNetTest(t)
	n.line(n.plan, "true")
	out, w := pipe(t)
	c, err := n.start(n.plan, Command{Argv: []string{"sh", "-c", ownNet + "; sleep 100000"}, Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = w.Close()
	if err := c.Go(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	count, err := out.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	if other := n.line(n.plan, ownNet); other == strings.TrimSpace(string(b[:count])) {
		t.Errorf("two commands are in %s", other)
	}
	f := n.l.nets.takeFree()
	if f == nil {
		t.Fatal("none waits")
	}
	n.l.nets.close()
	n.l.nets.takeBack(f)
	var st unix.Stat_t
	if got := n.waiting(); len(got) != 0 || unix.Fstat(int(f.Fd()), &st) == nil {
		t.Errorf("after the end %v wait", got)
	}
}
