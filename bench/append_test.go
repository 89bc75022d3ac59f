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

	"github.com/jackc/pgx/v5"
)

// eventSize is the size of one encoded event, here and in the raw file.
const eventSize = 600

// engine is an open store and how to measure it.
type engine struct {
	store store.Store
	// settle waits until the store has done what it put off.
	settle func(tb testing.TB)
	// written is the bytes that the store has had written so far.
	written func(tb testing.TB) int64
}

// engines opens a store of each kind.
var engines = []struct {
	name string
	open func(b testing.TB) engine
}{
	{"pebble", openPebble},
	{"postgres", openPostgres},
	{"nothing", openNothing},
}

func openPebble(b testing.TB) engine {
	s, err := pebble.Open(filepath.Join(b.TempDir(), "data"), nil)
	if err != nil {
		b.Fatal(err)
	}
	return engine{store: s, settle: func(testing.TB) { settlePebble(s) }, written: writtenBytes}
}

// forgetful is a store that keeps nothing from the end of the warm-up on. What agentd reaches
// over it bounds what it can reach over any store.
type forgetful struct {
	store.Store
	forgets atomic.Bool
}

func openNothing(b testing.TB) engine {
	e := openPebble(b)
	s := &forgetful{Store: e.store}
	return engine{
		store:   s,
		settle:  func(testing.TB) { s.forgets.Store(true) },
		written: func(testing.TB) int64 { return 0 },
	}
}

func (s *forgetful) Append(ctx context.Context, batches []*store.Batch) []error {
	if s.forgets.Load() {
		return make([]error, len(batches))
	}
	return s.Store.Append(ctx, batches)
}

// settlePebble waits for the flushes and compactions under way.
func settlePebble(s *pebble.Store) {
	for {
		m := s.Metrics()
		if m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// openPostgres measures the bytes of the write-ahead log. The tables that a
// checkpoint writes out later are not among them.
func openPostgres(b testing.TB) engine {
	url := pgtest.Start(b).Database(b)
	s, err := postgres.Open(context.Background(), url, nil)
	if err != nil {
		b.Fatal(err)
	}
	return engine{store: s, settle: func(testing.TB) {}, written: func(tb testing.TB) int64 { return walBytes(tb, url) }}
}

// walBytes is the position in a cluster's write-ahead log.
func walBytes(tb testing.TB, url string) int64 {
	tb.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing was written
	var n int64
	if err := c.QueryRow(context.Background(), `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// One run alternates between agentd and the raw file, so that what the machine
// does meanwhile meets both: its speed drifts by a third within minutes. A slice of
// agentd's is long enough for flushes and compactions to run beside it, as they do
// in steady work; what is left of them at its end is waited for and counted.
const (
	rounds    = 4
	oursSlice = 3 * time.Second
	rawSlice  = time.Second
	warmUp    = 500 * time.Millisecond
)

// BenchmarkAppend is the rate of durable events through the whole path: decide,
// check, encode, hash, append, fold, publish. Each session has one client that
// waits for each event; the raw file has the same number of clients. A run takes
// about twenty seconds, whatever -benchtime says.
func BenchmarkAppend(b *testing.B) {
	for _, engine := range engines {
		for _, sessions := range []int{1, 16, 256, 2000} {
			b.Run(fmt.Sprintf("%s/sessions=%d", engine.name, sessions), func(b *testing.B) {
				benchmarkAppend(b, engine.open(b), sessions)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, e engine, sessions int) {
	m := session.New(session.Options{Store: e.store, RuntimeID: "runtime_bench"})
	defer closeAll(b, m, e.store)
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
	emit := func(i int) error { return feeds[i].emit() }
	write := func(int) error { return raw.Append(payload) }

	measure(b, sessions, warmUp, emit)
	e.settle(b)
	measure(b, sessions, warmUp/2, write)
	var ours, floor result
	var ratios []float64
	var written int64
	for range rounds {
		before := e.written(b)
		slice := measure(b, sessions, oursSlice, emit)
		// What was put off is part of the price, and must not disturb the raw file.
		slice.and(func() { e.settle(b) })
		written += e.written(b) - before
		rest := measure(b, sessions, rawSlice, write)
		ratios = append(ratios, slice.rate()/rest.rate())
		ours.add(slice)
		floor.add(rest)
	}
	reportAppend(b, &ours, &floor, ratios)
	b.ReportMetric(float64(written)/float64(ours.n), "written-B/event")
}

func reportAppend(b *testing.B, ours, floor *result, ratios []float64) {
	slices.Sort(ratios)
	b.ReportMetric(ours.rate(), "events/s")
	b.ReportMetric(floor.rate(), "raw-events/s")
	b.ReportMetric(ours.rate()/floor.rate(), "of-raw")
	b.ReportMetric(ratios[0], "of-raw-min")
	b.ReportMetric(ratios[len(ratios)-1], "of-raw-max")
	b.ReportMetric(ours.percentile(50), "p50-µs")
	b.ReportMetric(ours.percentile(99), "p99-µs")
	b.ReportMetric(floor.percentile(50), "raw-p50-µs")
	b.ReportMetric(ours.cost(), "cpu-µs/event")
	b.ReportMetric(floor.cost(), "raw-cpu-µs/event")
	b.ReportMetric(100*ours.put.Seconds()/ours.elapsed.Seconds(), "settling-%")
	b.ReportMetric(0, "ns/op")
}

// feed is a session with a turn that a model streams into.
type feed struct {
	m     *session.Manager
	id    string
	scope event.Scope
	text  string
}

// commandsOf returns the commands that a manager carries out by itself.
func commandsOf(m *session.Manager) *command.Table {
	t := command.NewTable(command.TableOptions{Repeats: m})
	m.Register(t)
	return t
}

func newFeed(tb testing.TB, m *session.Manager) *feed {
	tb.Helper()
	res, err := commandsOf(m).Do(context.Background(), command.Local(), &command.SubmitTurn{Input: event.Raw(`"go"`)})
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
	put     time.Duration // what of elapsed was spent on work that had been put off
}

// add takes another measurement of the same into r.
func (r *result) add(o *result) {
	r.n += o.n
	r.elapsed += o.elapsed
	r.cpu += o.cpu
	r.put += o.put
	r.times = append(r.times, o.times...)
}

// and counts something else as part of the measurement.
func (r *result) and(do func()) {
	cpu, began := processorTime(), time.Now()
	do()
	took := time.Since(began)
	r.elapsed += took
	r.put += took
	r.cpu += processorTime() - cpu
}

// cost is the processor time of one operation, in microseconds. Unlike a rate it
// hardly depends on what else the machine does.
func (r *result) cost() float64 { return float64(r.cpu.Nanoseconds()) / 1000 / float64(r.n) }

func (r *result) rate() float64 { return float64(r.n) / r.elapsed.Seconds() }

func (r *result) percentile(p int) float64 {
	slices.Sort(r.times)
	return float64(r.times[min(len(r.times)-1, len(r.times)*p/100)].Nanoseconds()) / 1000
}

// processorTime is what this process has used of the processors so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails only for bad arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure has operations done for a time by the given number of clients, each of
// which waits for one operation before the next.
func measure(tb testing.TB, clients int, d time.Duration, op func(client int) error) *result {
	tb.Helper()
	var over atomic.Bool
	timer := time.AfterFunc(d, func() { over.Store(true) })
	defer timer.Stop()
	return measureWhile(tb, clients, op, func() bool { return !over.Load() })
}

// measureN has n operations done by the given number of clients.
func measureN(tb testing.TB, clients, n int, op func(client int) error) *result {
	tb.Helper()
	var next atomic.Int64
	return measureWhile(tb, clients, op, func() bool { return next.Add(1) <= int64(n) })
}

func measureWhile(tb testing.TB, clients int, op func(client int) error, more func() bool) *result {
	tb.Helper()
	times := make([][]time.Duration, clients)
	var wg sync.WaitGroup
	cpu, began := processorTime(), time.Now()
	for c := range clients {
		wg.Go(func() {
			for more() {
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
	r := &result{elapsed: time.Since(began), cpu: processorTime() - cpu, times: slices.Concat(times...)}
	r.n = len(r.times)
	return r
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
