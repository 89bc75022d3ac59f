package main

import (
	"context"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/event"
)

// TestTakeoverWithinTheLeaseAndASecond kills nodes whose lease nothing but time ends, and
// measures by the database's clock when another one says the next word about what they did. The
// best of some tries counts: a busy machine makes many of them late, and a mechanism that takes
// longer makes all of them.
func TestTakeoverWithinTheLeaseAndASecond(t *testing.T) {
	const tries = 8
	f := newFleet(t, "5s", slow)
	b := f.quick().node(f.dir())
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	best := time.Hour
	for range tries {
		a := f.node(f.dir())
		r := a.submit("hello")
		last := a.until(r.SessionID, event.TypeModelRequested, 1).Sequence
		a.stop(syscall.SIGKILL)
		until := f.leaseUntil(a)
		next := b.after(r.SessionID, last, "")
		var now time.Time
		if err := conn.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
			t.Fatal(err)
		}
		late := now.Sub(until)
		t.Logf("%s came %v after the end of the lease", next.Type, late.Round(time.Millisecond))
		if late < 0 {
			t.Errorf("%s came %v before the end of the lease", next.Type, -late)
		}
		if best = min(best, late); best <= time.Second {
			return
		}
	}
	t.Errorf("what a dead node did was taken up %v after its lease at best, want within a second", best)
}

// TestNodesAreShown: "agentd nodes" shows of each node what operators go by.
func TestNodesAreShown(t *testing.T) {
	f := newFleet(t, "1h", slow)
	a := f.placed("node-a", t.TempDir(), placedScript, ", pool: disks, labels: [fast, zone=eu]").node(f.dir())
	b := f.placed("node-b", t.TempDir(), placedScript, "").node(f.dir())
	r := a.submit("stay")
	a.until(r.SessionID, event.TypeModelRequested, 1)
	a.drains("node-a", false) // what a node says of itself comes with such a change at the latest
	a.drains("node-a", true)
	out := b.commandLine("nodes")
	if got := strings.Join(strings.Fields(strings.SplitN(out, "\n", 2)[0]), " "); got != "NODE STATE LEASE SESSIONS THREADS POOL LABELS ADDRESS" {
		t.Errorf("the columns are %s", got)
	}
	for _, want := range []string{
		`(?m)^node-a +alive +(59m\d+s|1h0m0s) +[12] +1 +disks +fast zone=eu +` + regexp.QuoteMeta(a.url) + `$`,
		`(?m)^node-b +alive \* +(59m\d+s|1h0m0s) +[01] +0 +- +- +` + regexp.QuoteMeta(b.url) + `$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line is %s:\n%s", want, out)
		}
	}
	// A command that has the database open stays on the list while it runs, and has no address.
	beside := self(t, "audit", "-f", "--data", f.url, "--state-dir", f.dir())
	if err := beside.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- beside.Wait() }()
	row := regexp.MustCompile(`(?m)^node_\w+ +alive .* -$`)
	for out = b.commandLine("nodes"); !row.MatchString(out); out = b.commandLine("nodes") {
		select {
		case err := <-ended:
			t.Fatalf("agentd audit ended, %v, and was not listed:\n%s", err, out)
		default:
		}
	}
	if err := beside.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	f.kill(a)
	if gone := `(?m)^node-a +gone +- `; !regexp.MustCompile(gone).MatchString(b.commandLine("nodes")) {
		t.Errorf("no line is %s:\n%s", gone, b.commandLine("nodes"))
	}
}
