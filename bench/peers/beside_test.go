package peers

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"agentd/bench/rig"
)

// fewestRounds is how often both builds have a turn at least; -benchtime 12x asks for
// twelve times.
const fewestRounds = 3

// BenchmarkBeside measures the turns of this build beside those of another one, whose
// program AGENTD_BENCH_BEFORE names. Both servers run all the time, and one of them works:
// what the machine does meanwhile, and that its speed drifts, meets both. The order within
// a round changes from round to round, so that neither always comes after the other.
//
// The ratio is that of the processor time of all turns; that of the rounds that differ
// most says what it is worth. Switches, the times at which a thread of the server gave
// its processor away, depend less on what else the machine does.
func BenchmarkBeside(b *testing.B) {
	other := os.Getenv("AGENTD_BENCH_BEFORE")
	if other == "" {
		b.Skip("AGENTD_BENCH_BEFORE names no program to compare with")
	}
	programs := []string{other, rig.Build(b)}
	model := rig.NewModel(b, ours)
	for _, kind := range []string{"read_file", "shell"} {
		for _, at := range concurrencies {
			b.Run(fmt.Sprintf("%s/at=%d", kind, at), func(b *testing.B) {
				var builds []*build
				for _, program := range programs {
					s := rig.Start(b, program, model.URL(kind))
					builds = append(builds, &build{server: s, at: at})
					if err := measureOurs(b, s, at, slice(b)).err; err != nil {
						b.Fatal(err)
					}
				}
				reportBeside(b, builds[0], builds[1], alternate(b, builds))
			})
		}
	}
}

// build is one of the two programs, with what was measured of it so far.
type build struct {
	server *rig.Server
	at     int
	sum    measured
}

// alternate has both builds work in turn and returns the ratio of each round.
func alternate(b *testing.B, builds []*build) (ratios []float64) {
	b.Helper()
	for round := range max(fewestRounds, b.N) {
		var costs [2]float64
		for turn := range builds {
			i := (turn + round) % len(builds)
			m := measureOurs(b, builds[i].server, builds[i].at, slice(b))
			if m.err != nil {
				b.Fatal(m.err)
			}
			costs[i] = m.cost().Seconds()
			builds[i].sum.include(m)
		}
		ratios = append(ratios, costs[1]/costs[0])
	}
	return ratios
}

// include adds another measurement of the same.
func (m *measured) include(o *measured) {
	m.times, m.err = append(m.times, o.times...), errors.Join(m.err, o.err)
	m.elapsed += o.elapsed
	m.cpu += o.cpu
	m.children += o.children
	m.switches += o.switches
}

func reportBeside(b *testing.B, before, now *build, ratios []float64) {
	b.Helper()
	for _, x := range []struct {
		name string
		m    *measured
	}{{"before-", &before.sum}, {"", &now.sum}} {
		turns := float64(len(x.m.times))
		b.ReportMetric(x.m.rate(), x.name+"turns/s")
		b.ReportMetric(rig.Millis(x.m.cost()), x.name+"cpu-ms/turn")
		b.ReportMetric(rig.Millis(x.m.children)/turns, x.name+"children-cpu-ms/turn")
		b.ReportMetric(float64(x.m.switches)/turns, x.name+"switches/turn")
	}
	slices.Sort(ratios)
	b.ReportMetric(now.sum.cost().Seconds()/before.sum.cost().Seconds(), "cpu-ratio")
	b.ReportMetric(ratios[0], "cpu-ratio-min")
	b.ReportMetric(ratios[len(ratios)/2], "cpu-ratio-median")
	b.ReportMetric(ratios[len(ratios)-1], "cpu-ratio-max")
	b.ReportMetric(0, "ns/op")
}
