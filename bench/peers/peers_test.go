package peers

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"agentd/bench/rig"
)

// rounds is how often everybody has a turn, so that what the machine does
// meanwhile meets all of them.
const rounds = 3

// entrant is one line of the comparison.
type entrant struct {
	name string
	at   int
	run  func(ctx context.Context, d time.Duration) *measured
	sum  measured
	// counted says that the processor time is known.
	counted bool
	// model is asked twice a turn; nil for what asks none.
	model *rig.Model
	// missing is why it isn't in the comparison, if it isn't.
	missing error
}

// BenchmarkPeers measures agentd with one sandboxed shell call a turn beside goose
// and codex with one shell call a turn on the same fake model, and beside a bare
// chain of durable steps on PostgreSQL with River, in turn. Headless, goose and
// codex are started anew for each turn; their start is in the figures.
func BenchmarkPeers(b *testing.B) {
	all := entrants(b)
	for range rounds {
		for _, e := range all {
			if e.missing == nil {
				e.round(b)
			}
		}
	}
	b.Log(table(all))
	for _, e := range all {
		if e.missing == nil {
			b.ReportMetric(e.sum.rate(), strings.ReplaceAll(fmt.Sprintf("%s-%d/s", e.name, e.at), " ", "-"))
		}
	}
	b.ReportMetric(0, "ns/op")
}

func entrants(b *testing.B) []*entrant {
	b.Helper()
	scenarios := maps.Clone(ours)
	for _, p := range programs {
		scenarios[p.name] = p.scenario
	}
	model := rig.NewModel(b, scenarios)
	binary := rig.Build(b)
	var all []*entrant
	for _, kind := range []string{"read_file", "shell"} {
		s := rig.Start(b, binary, model.URL(kind))
		for _, at := range concurrencies {
			all = append(all, &entrant{name: "agentd " + kind, at: at, counted: true, model: model, run: func(_ context.Context, d time.Duration) *measured {
				return measureOurs(b, s, at, d)
			}})
		}
	}
	all = append(all, others(b, model)...)
	c, err := newChains(b)
	river := &entrant{name: "river chain", at: 64, missing: err}
	if err == nil {
		river.run = func(ctx context.Context, d time.Duration) *measured { return c.measure(ctx, river.at, d) }
	}
	return append(all, river)
}

// others are the other agents, one turn at a time and 8 at once; more than that
// would only wait for the processors. Each is measured as it is used headless, a
// process a turn, and as editors use it, one process for all sessions.
func others(b *testing.B, model *rig.Model) []*entrant {
	b.Helper()
	dir, missing := install(b)
	var all []*entrant
	for _, program := range programs {
		var p *peer
		err := missing
		if err == nil {
			p, err = program.ready(b, dir, model)
		}
		for _, at := range []int{1, 8} {
			all = append(all, &entrant{name: program.name + " headless", at: at, counted: true, model: model, missing: err, run: func(ctx context.Context, d time.Duration) *measured {
				return p.measure(ctx, at, d)
			}})
		}
		var t *talker
		if err == nil {
			t, err = p.talk(b, program.talks)
		}
		for _, at := range []int{1, 8} {
			all = append(all, &entrant{name: program.name + " " + program.talks.args[0], at: at, counted: true, model: model, missing: err, run: func(ctx context.Context, d time.Duration) *measured {
				return t.measure(ctx, at, d)
			}})
		}
	}
	return all
}

func (e *entrant) round(b *testing.B) {
	b.Helper()
	var before int64
	if e.model != nil {
		before = e.model.Calls()
	}
	m := e.run(b.Context(), slice(b))
	if m.err == nil && e.model != nil {
		if n := e.model.Calls() - before; n < 2*int64(len(m.times)) {
			m.err = fmt.Errorf("%d turns asked the model only %d times: the tool was not called", len(m.times), n)
		}
	}
	if m.err != nil {
		e.missing = m.err
		return
	}
	e.sum.times = append(e.sum.times, m.times...)
	e.sum.elapsed += m.elapsed
	e.sum.cpu += m.cpu
}

// table is the comparison for people, as it stands in docs/benchmarks.md.
func table(all []*entrant) string {
	var out strings.Builder
	fmt.Fprintf(&out, "load %s\n| Who | at once | turns/s | p50 | p99 | processor time of a turn |\n| --- | --- | --- | --- | --- | --- |\n", rig.Load())
	for _, e := range all {
		if e.missing != nil {
			fmt.Fprintf(&out, "| %s | %d | not run: %s |\n", e.name, e.at, strings.ReplaceAll(e.missing.Error(), "\n", " "))
			continue
		}
		cost := "not counted"
		if e.counted {
			cost = fmt.Sprintf("%.2f ms", rig.Millis(e.sum.cost()))
		}
		fmt.Fprintf(&out, "| %s | %d | %.1f | %.1f ms | %.1f ms | %s |\n", e.name, e.at, e.sum.rate(),
			rig.Millis(e.sum.times.Percentile(50)), rig.Millis(e.sum.times.Percentile(99)), cost)
	}
	return out.String()
}
