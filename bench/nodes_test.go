package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"agentd/bench/rig"
)

// fleet is some nodes over one database of their own.
type fleet struct {
	db    *database
	nodes []*rig.Server
}

func startFleet(tb testing.TB, program, model string, nodes int) *fleet {
	tb.Helper()
	f := &fleet{db: startDatabase(tb)}
	for range nodes {
		f.nodes = append(f.nodes, rig.StartNode(tb, program, model, f.db.url))
	}
	return f
}

// cpu is the processor time of all nodes so far, with that of their children.
func (f *fleet) cpu(tb testing.TB) (total time.Duration) {
	tb.Helper()
	for _, n := range f.nodes {
		total += n.Usage(tb).Total()
	}
	return total
}

// load says how the clients of a fleet behave.
type load struct {
	// clients are spread evenly over the nodes.
	clients int
	// turns is how many a client does in one session before it makes the next.
	turns int
	// elsewhere has a client follow its session through another node than the one that
	// it submits to.
	elsewhere bool
}

// answered is what a fleet did under a load.
type answered struct {
	times   rig.Times
	elapsed time.Duration
	nodes   time.Duration // processor time of the nodes
	db      used
}

func (a *answered) rate() float64 { return float64(len(a.times)) / a.elapsed.Seconds() }

// drive puts a fleet under a load for a time. The database is looked at without a pause,
// because its processes report what they did once a second.
func (f *fleet) drive(tb testing.TB, l load, d time.Duration) *answered {
	tb.Helper()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		out answered
		all error
	)
	f.db.forget(tb)
	db, cpu, began := f.db.usage(tb), f.cpu(tb), time.Now()
	for n := range l.clients {
		wg.Go(func() {
			times, err := f.client(tb.Context(), l, n, func() bool { return time.Since(began) < d })
			mu.Lock()
			defer mu.Unlock()
			out.times, all = append(out.times, times...), errors.Join(all, err)
		})
	}
	wg.Wait()
	out.elapsed, out.nodes, out.db = time.Since(began), f.cpu(tb)-cpu, f.db.usage(tb).sub(db)
	if all != nil {
		tb.Fatal(all)
	}
	f.db.statements(tb, len(out.times))
	return &out
}

func (f *fleet) client(ctx context.Context, l load, n int, more func() bool) (times rig.Times, err error) {
	at, seen := f.nodes[n%len(f.nodes)], f.nodes[n%len(f.nodes)]
	if l.elsewhere {
		seen = f.nodes[(n+1)%len(f.nodes)]
	}
	for more() {
		s, err := at.SessionSeenBy(ctx, seen, rig.Ends)
		if err != nil {
			return times, err
		}
		for range l.turns {
			if !more() {
				break
			}
			t, err := s.Turn(ctx)
			if err != nil {
				s.Close()
				return times, err
			}
			times = append(times, t)
		}
		s.Close()
	}
	return times, nil
}

func (a *answered) report(b *testing.B) {
	b.Helper()
	n := len(a.times)
	b.ReportMetric(a.rate(), "turns/s")
	b.ReportMetric(rig.Millis(a.times.Percentile(50)), "p50-ms")
	b.ReportMetric(rig.Millis(a.times.Percentile(99)), "p99-ms")
	b.ReportMetric(each(a.db.cpu, n)/1000, "db-ms/turn")
	b.ReportMetric(float64(a.db.transactions)/float64(max(1, n)), "transactions/turn")
	b.ReportMetric(float64(a.db.wal)/float64(max(1, n)), "wal-B/turn")
	b.ReportMetric(each(a.nodes, n)/1000, "cpu-ms/turn")
	b.ReportMetric(0, "ns/op")
}

// nodesSlice is how long one measurement runs: 6 seconds, or what AGENTD_BENCH_SLICE says.
func nodesSlice(tb testing.TB) time.Duration {
	tb.Helper()
	v := os.Getenv("AGENTD_BENCH_SLICE")
	if v == "" {
		return 6 * time.Second
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

var readsAFile = rig.Scenario{Tool: "read_file", Arguments: `{"path":"note.txt"}`}

// BenchmarkNodes is what a turn costs one, two and three nodes over one database: the
// processor time and the transactions of the database, and the nodes' own processor time.
// 64 turns run at once, spread over the nodes; a client does ten in a session, and follows
// it through the same node or ("elsewhere") through another one.
func BenchmarkNodes(b *testing.B) {
	program := rig.Build(b)
	model := rig.NewModel(b, map[string]rig.Scenario{"read_file": readsAFile})
	for _, at := range []int{16, 64} {
		for nodes := 1; nodes <= 3; nodes++ {
			for _, elsewhere := range []bool{false, true} {
				name := fmt.Sprintf("at=%d/nodes=%d", at, nodes)
				if elsewhere {
					name += "/elsewhere"
				}
				if elsewhere && nodes == 1 {
					continue
				}
				b.Run(name, func(b *testing.B) {
					f := startFleet(b, program, model.URL("read_file"), nodes)
					l := load{clients: at, turns: 10, elsewhere: elsewhere}
					f.drive(b, l, nodesSlice(b)/2)
					f.drive(b, l, nodesSlice(b)).report(b)
				})
			}
		}
	}
}

// BenchmarkNewSessions is the rate of turns that each make their session beside the rate of
// turns in open ones, in turn, with 64 clients of one node.
func BenchmarkNewSessions(b *testing.B) {
	program := rig.Build(b)
	model := rig.NewModel(b, map[string]rig.Scenario{"read_file": readsAFile})
	f := startFleet(b, program, model.URL("read_file"), 1)
	const at, slices = 64, 4
	fresh, open := load{clients: at, turns: 1}, load{clients: at, turns: 1 << 30}
	f.drive(b, fresh, nodesSlice(b)/4)
	f.drive(b, open, nodesSlice(b)/4)
	var a, o answered
	for range slices {
		a.add(f.drive(b, fresh, nodesSlice(b)/2))
		o.add(f.drive(b, open, nodesSlice(b)/2))
	}
	a.report(b)
	b.ReportMetric(o.rate(), "open-turns/s")
	b.ReportMetric(each(o.db.cpu, len(o.times))/1000, "open-db-ms/turn")
	b.ReportMetric(each(o.nodes, len(o.times))/1000, "open-cpu-ms/turn")
	b.ReportMetric(float64(o.db.transactions)/float64(max(1, len(o.times))), "open-transactions/turn")
	b.ReportMetric(a.rate()/o.rate(), "of-open")
}

func (a *answered) add(o *answered) {
	a.times = append(a.times, o.times...)
	a.elapsed += o.elapsed
	a.nodes += o.nodes
	a.db = a.db.plus(o.db)
}

// BenchmarkTwoNodes is the rate of two nodes beside that of one, each with as many clients,
// where the model's delay is the limit: it thinks for half a second before each answer.
func BenchmarkTwoNodes(b *testing.B) {
	program := rig.Build(b)
	slow := readsAFile
	slow.Delay = 500 * time.Millisecond
	model := rig.NewModel(b, map[string]rig.Scenario{"slow": slow})
	const perNode = 32
	one, two := startFleet(b, program, model.URL("slow"), 1), startFleet(b, program, model.URL("slow"), 2)
	var a, o answered
	for range 2 {
		o.add(one.drive(b, load{clients: perNode, turns: 10}, nodesSlice(b)))
		a.add(two.drive(b, load{clients: 2 * perNode, turns: 10}, nodesSlice(b)))
	}
	a.report(b)
	b.ReportMetric(o.rate(), "one-turns/s")
	b.ReportMetric(a.rate()/o.rate(), "of-one")
}
