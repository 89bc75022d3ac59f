package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/bench/rig"
)

// turnsOfSession is how many turns a client does in one session before it makes
// the next: a conversation of middling length.
const turnsOfSession = 10

// slice is how long one measurement runs: 4 seconds, or what AGENTD_BENCH_SLICE
// says.
func slice(tb testing.TB) time.Duration {
	tb.Helper()
	v := os.Getenv("AGENTD_BENCH_SLICE")
	if v == "" {
		return 4 * time.Second
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// concurrencies are how many turns run at once.
var concurrencies = []int{1, 8, 64}

// ours are the kinds of turns of agentd: a model call, one tool call, a model call.
var ours = map[string]rig.Scenario{
	"read_file": {Tool: "read_file", Arguments: `{"path":"note.txt"}`},
	"shell":     {Tool: "shell", Arguments: `{"command":"true"}`},
}

// measured is one measurement.
type measured struct {
	times   rig.Times
	elapsed time.Duration
	// cpu is the processor time of the program with what it started, children what
	// of it belongs to those.
	cpu, children time.Duration
	// switches is how often a thread of the program gave its processor away.
	switches int64
	err      error
}

func (m *measured) rate() float64 { return float64(len(m.times)) / m.elapsed.Seconds() }

func (m *measured) cost() time.Duration { return m.cpu / time.Duration(max(1, len(m.times))) }

// repeat does turns for so long, so many at once. Each of the workers is given
// its own turn function.
func repeat(ctx context.Context, workers int, d time.Duration, worker func(ctx context.Context) (turn func() (time.Duration, error), end func())) *measured {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		out  measured
		stop atomic.Bool
	)
	began := time.Now()
	for range workers {
		wg.Go(func() {
			turn, end := worker(ctx)
			defer end()
			var times rig.Times
			var err error
			for err == nil && !stop.Load() && (time.Since(began) < d || len(times) == 0) {
				var t time.Duration
				if t, err = turn(); err == nil {
					times = append(times, t)
				}
			}
			if err != nil {
				stop.Store(true)
			}
			mu.Lock()
			defer mu.Unlock()
			out.times, out.err = append(out.times, times...), errors.Join(out.err, err)
		})
	}
	wg.Wait()
	out.elapsed = time.Since(began)
	return &out
}

// client does turns in sessions of [turnsOfSession], each with a follower.
func client(s *rig.Server) func(context.Context) (func() (time.Duration, error), func()) {
	return func(ctx context.Context) (func() (time.Duration, error), func()) {
		var c *rig.Session
		n := 0
		end := func() {
			if c != nil {
				c.Close()
			}
		}
		return func() (time.Duration, error) {
			if n%turnsOfSession == 0 {
				end()
				var err error
				if c, err = s.Session(ctx, rig.Ends); err != nil {
					c = nil
					return 0, err
				}
			}
			n++
			return c.Turn(ctx)
		}, end
	}
}

// measureOurs measures agentd, with the time of the processes that it started.
func measureOurs(tb testing.TB, s *rig.Server, at int, d time.Duration) *measured {
	tb.Helper()
	before := s.Usage(tb)
	m := repeat(tb.Context(), at, d, client(s))
	used := s.Usage(tb).Sub(before)
	m.cpu, m.children, m.switches = used.Total(), used.Children, used.Switches
	return m
}

// BenchmarkTurns is the rate of whole turns over HTTP: submit, one model call, one
// tool call, one model call, turn.completed, seen by a follower.
func BenchmarkTurns(b *testing.B) {
	program := rig.Build(b)
	model := rig.NewModel(b, ours)
	for _, kind := range []string{"read_file", "shell"} {
		for _, at := range concurrencies {
			b.Run(fmt.Sprintf("%s/at=%d", kind, at), func(b *testing.B) {
				s := rig.Start(b, program, model.URL(kind))
				// In its first seconds a server takes memory from the system, page by page,
				// that it uses again later.
				warm := measureOurs(b, s, at, slice(b))
				m := measureOurs(b, s, at, slice(b))
				if err := errors.Join(warm.err, m.err); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(m.rate(), "turns/s")
				b.ReportMetric(rig.Millis(m.times.Percentile(50)), "p50-ms")
				b.ReportMetric(rig.Millis(m.times.Percentile(99)), "p99-ms")
				b.ReportMetric(rig.Millis(m.cost()), "cpu-ms/turn")
				b.ReportMetric(rig.Millis(m.children)/float64(len(m.times)), "children-cpu-ms/turn")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
