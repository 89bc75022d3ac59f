package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd/bench/rawlog"
	"agentd/command"
	"agentd/event"
	"agentd/internal/pgtest"
	"agentd/session"
	"agentd/store"
	"agentd/store/pebble"
	"agentd/store/postgres"
)

// eventSize is the size of one encoded event, here and in the raw file.
const eventSize = 600

// engines opens a store of each kind.
var engines = []struct {
	name string
	open func(b testing.TB) store.Store
}{
	{"pebble", openPebble},
	{"postgres", openPostgres},
}

func openPebble(b testing.TB) store.Store {
	s, err := pebble.Open(filepath.Join(b.TempDir(), "data"), nil)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func openPostgres(b testing.TB) store.Store {
	s, err := postgres.Open(context.Background(), pgtest.Start(b).Database(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkAppend is the rate of durable events through the whole path: decide,
// check, encode, hash, append, fold, publish. Each session has one client that
// waits for each event; the raw file has the same number of clients.
func BenchmarkAppend(b *testing.B) {
	for _, engine := range engines {
		for _, sessions := range []int{1, 16, 256, 2000} {
			b.Run(fmt.Sprintf("%s/sessions=%d", engine.name, sessions), func(b *testing.B) {
				benchmarkAppend(b, engine.open(b), sessions)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, s store.Store, sessions int) {
	m := session.New(session.Options{Store: s, RuntimeID: "runtime_bench"})
	defer closeAll(b, m, s)
	feeds := make([]*feed, sessions)
	for i := range feeds {
		feeds[i] = newFeed(b, m)
	}
	raw, err := rawlog.Create(filepath.Join(b.TempDir(), "raw"), 256<<20)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	payload := []byte(strings.Repeat("x", eventSize))

	written := writtenBytes(b)
	b.ResetTimer()
	ours := measure(b, sessions, b.N, func(i int) error { return feeds[i].emit() })
	b.StopTimer()
	written = writtenBytes(b) - written
	floor := measure(b, sessions, b.N, func(int) error { return raw.Append(payload) })

	b.ReportMetric(ours.rate(), "events/s")
	b.ReportMetric(floor.rate(), "raw-events/s")
	b.ReportMetric(ours.rate()/floor.rate(), "of-raw")
	b.ReportMetric(ours.percentile(50), "p50-µs")
	b.ReportMetric(ours.percentile(99), "p99-µs")
	b.ReportMetric(floor.percentile(50), "raw-p50-µs")
	b.ReportMetric(ours.cost(), "cpu-µs/event")
	b.ReportMetric(floor.cost(), "raw-cpu-µs/event")
	if _, ok := s.(*pebble.Store); ok {
		b.ReportMetric(float64(written)/float64(b.N), "written-B/event")
	}
	b.ReportMetric(0, "ns/op")
}

// feed is a session with a turn that a model streams into.
type feed struct {
	m     *session.Manager
	id    string
	scope event.Scope
	text  string
}

func newFeed(tb testing.TB, m *session.Manager) *feed {
	tb.Helper()
	res, err := m.Do(context.Background(), command.Local(), &command.SubmitTurn{Input: event.Raw(`"go"`)})
	if err != nil {
		tb.Fatal(err)
	}
	r := res.(*command.SubmitTurnResult)
	f := &feed{m: m, id: r.SessionID, scope: event.Scope{ThreadID: r.ThreadID, TurnID: r.TurnID, TaskID: r.TaskID, RunID: r.RunID}}
	sample := event.Event{
		Type: event.TypeModelDelta, ID: m.NewID(event.PrefixEvent), Time: time.Now(), RuntimeID: m.RuntimeID(),
		SessionID: f.id, Sequence: 1000, Scope: f.scope, Payload: &event.ModelDelta{},
	}
	f.text = strings.Repeat("x", eventSize-len(event.AppendJSON(nil, &sample)))
	return f
}

func (f *feed) emit() error {
	return f.m.Emit(context.Background(), f.id, event.ByLoop, func(tx *session.Tx) error {
		tx.Emit(event.Event{Type: event.TypeModelDelta, Scope: f.scope, Payload: &event.ModelDelta{Text: f.text}})
		return nil
	})
}

// grow appends n events in large batches.
func (f *feed) grow(tb testing.TB, n int) {
	tb.Helper()
	for done := 0; done < n; {
		step := min(1000, n-done)
		if err := f.m.Emit(context.Background(), f.id, event.ByLoop, func(tx *session.Tx) error {
			for range step {
				tx.Emit(event.Event{Type: event.TypeModelDelta, Scope: f.scope, Payload: &event.ModelDelta{Text: f.text}})
			}
			return nil
		}); err != nil {
			tb.Fatal(err)
		}
		done += step
	}
}

// result is what a measurement found.
type result struct {
	n       int
	elapsed time.Duration
	times   []time.Duration
	cpu     time.Duration
}

// cost is the processor time of one operation, in microseconds. Unlike a rate it
// doesn't depend on what else the machine does.
func (r *result) cost() float64 { return float64(r.cpu.Nanoseconds()) / 1000 / float64(r.n) }

// processorTime is what this process has used of the processors so far.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (r *result) rate() float64 { return float64(r.n) / r.elapsed.Seconds() }

func (r *result) percentile(p int) float64 {
	slices.Sort(r.times)
	return float64(r.times[min(len(r.times)-1, len(r.times)*p/100)].Nanoseconds()) / 1000
}

// measure has n operations done by the given number of clients, each of which
// waits for one operation before the next.
func measure(tb testing.TB, clients, n int, op func(client int) error) *result {
	tb.Helper()
	var next atomic.Int64
	times := make([][]time.Duration, clients)
	var wg sync.WaitGroup
	cpu, began := processorTime(tb), time.Now()
	for c := range clients {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				t := time.Now()
				if err := op(c); err != nil {
					tb.Error(err)
					return
				}
				times[c] = append(times[c], time.Since(t))
			}
		})
	}
	wg.Wait()
	return &result{n: n, elapsed: time.Since(began), times: slices.Concat(times...), cpu: processorTime(tb) - cpu}
}

// writtenBytes is what this process has had written to storage so far.
func writtenBytes(tb testing.TB) int64 {
	tb.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		tb.Skipf("no /proc/self/io: %v", err)
	}
	var n int64
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	return 0
}

func closeAll(tb testing.TB, m *session.Manager, s store.Store) {
	tb.Helper()
	if err := m.Close(context.Background()); err != nil {
		tb.Error(err)
	}
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
}
