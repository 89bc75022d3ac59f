package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"agentd/bench/rig"
)

// BenchmarkNodesBeside is what a turn costs the database with this build beside what it costs
// with another one, whose program AGENTD_BENCH_BEFORE names: 64 turns at once on one node, on
// three, and on three where each session is followed through another node than its own. Both
// fleets run all the time, each over a cluster of its own, and one of them works: what else the
// machine does meets both.
func BenchmarkNodesBeside(b *testing.B) {
	other := os.Getenv("AGENTD_BENCH_BEFORE")
	if other == "" {
		b.Skip("AGENTD_BENCH_BEFORE names no program to compare with")
	}
	programs := []string{other, rig.Build(b)}
	model := rig.NewModel(b, map[string]rig.Scenario{"read_file": readsAFile})
	for _, l := range []struct {
		nodes int
		load
	}{
		{1, load{clients: 64, turns: 10}},
		{3, load{clients: 64, turns: 10}},
		{3, load{clients: 64, turns: 10, elsewhere: true}},
	} {
		name := fmt.Sprintf("nodes=%d", l.nodes)
		if l.elsewhere {
			name += "/elsewhere"
		}
		b.Run(name, func(b *testing.B) {
			var fleets []*fleet
			for _, program := range programs {
				f := startFleet(b, program, model.URL("read_file"), l.nodes)
				f.drive(b, l.load, nodesSlice(b)/2)
				fleets = append(fleets, f)
			}
			reportFleets(b, fleets, l.load)
		})
	}
}

// fleetRounds is how often both builds have a turn at least.
const fleetRounds = 3

// reportFleets puts two fleets under a load in turn, and reports both.
func reportFleets(b *testing.B, fleets []*fleet, l load) {
	b.Helper()
	var sums [2]answered
	var ratios []float64
	for round := range max(fleetRounds, b.N) {
		var costs [2]float64
		for turn := range fleets {
			i := (turn + round) % len(fleets)
			a := fleets[i].drive(b, l, nodesSlice(b))
			costs[i] = each(a.db.cpu, len(a.times))
			sums[i].add(a)
		}
		ratios = append(ratios, costs[1]/costs[0])
	}
	slices.Sort(ratios)
	before, now := &sums[0], &sums[1]
	now.report(b)
	turns := float64(max(1, len(before.times)))
	b.ReportMetric(each(before.db.cpu, len(before.times))/1000, "before-db-ms/turn")
	b.ReportMetric(float64(before.db.transactions)/turns, "before-transactions/turn")
	b.ReportMetric(float64(before.db.wal)/turns, "before-wal-B/turn")
	b.ReportMetric(rig.Millis(before.times.Percentile(50)), "before-p50-ms")
	b.ReportMetric(before.rate(), "before-turns/s")
	b.ReportMetric(each(now.db.cpu, len(now.times))/each(before.db.cpu, len(before.times)), "of-before")
	b.ReportMetric(ratios[0], "of-before-min")
	b.ReportMetric(ratios[len(ratios)-1], "of-before-max")
}
