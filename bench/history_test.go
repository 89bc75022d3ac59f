package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentd"
	"agentd/command"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/pebble"
)

// BenchmarkOpenCold opens a session that is not in memory, in a store that was
// just opened, and compares one with 1,000,000 events to one with 1,000.
func BenchmarkOpenCold(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	small, large := prepareHistories(b, dir)
	times := map[string][]time.Duration{}
	for b.Loop() {
		for _, id := range []string{small, large} {
			times[id] = append(times[id], openCold(b, dir, id))
		}
	}
	s, l := median(times[small]), median(times[large])
	b.ReportMetric(float64(s.Microseconds()), "µs-1e3")
	b.ReportMetric(float64(l.Microseconds()), "µs-1e6")
	b.ReportMetric(float64(l)/float64(s), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAtSequence asks for a session of 1,000,000 events as it was at places all over
// its history, and compares the slowest of them to opening the session, in processor
// time. It reports what the marks that make this possible take of the bytes of the events.
func BenchmarkAtSequence(b *testing.B) {
	const events, places = 1_000_000, 41
	dir := filepath.Join(b.TempDir(), "data")
	id, share := prepareMarked(b, dir, events)
	opened, then := make([][]time.Duration, places), make([][]time.Duration, places)
	for b.Loop() {
		for i := range places {
			opened[i] = append(opened[i], getCold(b, dir, &command.GetSession{SessionID: id}))
			at := uint64(events/places*i + 97*i + 1)
			then[i] = append(then[i], getCold(b, dir, &command.GetSession{SessionID: id, AtSequence: &at}))
		}
	}
	// The least of several runs is what the work takes; the rest is what else the process
	// and the machine did meanwhile.
	var opens []time.Duration
	var slowest, sum time.Duration
	for i, d := range then {
		slowest, sum = max(slowest, slices.Min(d)), sum+slices.Min(d)
		opens = append(opens, slices.Min(opened[i]))
	}
	open := median(opens)
	b.ReportMetric(float64(open.Microseconds()), "µs-open")
	b.ReportMetric(float64(slowest.Microseconds()), "µs-at")
	b.ReportMetric(float64(slowest)/float64(open), "ratio")
	b.ReportMetric(float64(sum)/places/float64(open), "mean-ratio")
	b.ReportMetric(share, "mark-bytes/byte")
	b.ReportMetric(0, "ns/op")
}

// openSessions opens the sessions of a directory. The caller closes both.
func openSessions(b *testing.B, dir string) (*session.Manager, *pebble.Store) {
	b.Helper()
	s, err := pebble.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	return session.New(session.Options{Store: s, RuntimeID: "runtime_bench"}), s
}

// prepareMarked makes a long session and returns the share of its marks in the bytes of
// its events.
func prepareMarked(b *testing.B, dir string, events int) (id string, share float64) {
	b.Helper()
	m, s := openSessions(b, dir)
	defer closeAll(b, m, s)
	f := newFeed(b, m)
	for done := 0; done < events; done += 50 {
		f.grow(b, 50) // small batches, so that snapshots stand as close as they do in earnest
	}
	marks := 0
	for e, err := range s.Scan(context.Background(), store.Scan{Kind: "mark"}) {
		if err != nil {
			b.Fatal(err)
		}
		marks += len(e.Key) + len(e.Value)
	}
	return f.id, float64(marks) / float64(events*eventSize)
}

// getCold answers get_session from a store that was just opened, and returns the processor
// time that it took. What the store does by itself after it was opened, such as reading how
// its tables are filled, is done by other threads and not counted.
func getCold(b *testing.B, dir string, p *command.GetSession) time.Duration {
	b.Helper()
	m, s := openSessions(b, dir)
	defer closeAll(b, m, s)
	commands := commandsOf(m)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadClock(b)
	if _, err := commands.Do(context.Background(), command.Local(), p); err != nil {
		b.Fatal(err)
	}
	return threadClock(b) - began
}

// threadClock is the processor time of this thread. It is exact, where [threadTime] counts
// ticks.
func threadClock(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

func prepareHistories(b *testing.B, dir string) (small, large string) {
	b.Helper()
	m, s := openSessions(b, dir)
	defer closeAll(b, m, s)
	one, other := newFeed(b, m), newFeed(b, m)
	one.grow(b, 1_000)
	other.grow(b, 1_000_000)
	return one.id, other.id
}

func openCold(b *testing.B, dir, id string) time.Duration {
	b.Helper()
	m, s := openSessions(b, dir)
	defer closeAll(b, m, s)
	began := time.Now()
	if err := m.View(context.Background(), id, func(*state.Session) error { return nil }); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkVerify is the rate at which sessions are folded and hashed again. The
// cost of an event must not grow with the length of its session.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			s := openPebble(b).store
			m := session.New(session.Options{Store: s, RuntimeID: "runtime_bench"})
			defer closeAll(b, m, s)
			f := newFeed(b, m)
			f.grow(b, n)
			events, elapsed := int64(0), time.Duration(0)
			for b.Loop() {
				began := time.Now()
				report, err := session.Verify(context.Background(), s, session.VerifyOptions{Sessions: []string{f.id}})
				if err != nil || len(report.Problems) > 0 {
					b.Fatal(err, report.Problems)
				}
				elapsed += time.Since(began)
				events += report.Events
			}
			b.ReportMetric(float64(events)/elapsed.Seconds(), "events/s")
			b.ReportMetric(float64(elapsed.Nanoseconds())/float64(events), "ns/event")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIdleSessions compares a runtime over 100,000 idle sessions with one
// over an empty store: resident memory and time to start, each in a process of
// its own.
func BenchmarkIdleSessions(b *testing.B) {
	empty, full := filepath.Join(b.TempDir(), "empty"), filepath.Join(b.TempDir(), "full")
	fill(b, empty, 0)
	fill(b, full, 100_000)
	var emptyStart, fullStart []time.Duration
	var emptyRSS, fullRSS []int64
	for b.Loop() {
		for range 5 {
			start, rss := startChild(b, empty)
			emptyStart, emptyRSS = append(emptyStart, start), append(emptyRSS, rss)
			start, rss = startChild(b, full)
			fullStart, fullRSS = append(fullStart, start), append(fullRSS, rss)
		}
	}
	slices.Sort(emptyRSS)
	slices.Sort(fullRSS)
	e, f := emptyRSS[len(emptyRSS)/2], fullRSS[len(fullRSS)/2]
	b.ReportMetric(float64(e)/(1<<20), "MiB-empty")
	b.ReportMetric(float64(f)/(1<<20), "MiB-100k")
	b.ReportMetric(float64(f)/float64(e), "memory-ratio")
	b.ReportMetric(float64(median(emptyStart).Microseconds())/1000, "ms-start-empty")
	b.ReportMetric(float64(median(fullStart).Microseconds())/1000, "ms-start-100k")
	b.ReportMetric(float64(median(fullStart))/float64(median(emptyStart)), "start-ratio")
	b.ReportMetric(0, "ns/op")
}

// fill makes a store with n sessions, each with a finished history of a few facts.
func fill(b *testing.B, dir string, n int) {
	b.Helper()
	m, s := openSessions(b, dir)
	defer closeAll(b, m, s)
	if n == 0 {
		return
	}
	commands := commandsOf(m)
	measureN(b, 64, n, func(int) error {
		_, err := commands.Do(context.Background(), command.Local(), &command.CreateSession{Title: "idle"})
		return err
	})
}

const childVariable = "AGENTD_BENCH_CHILD"

// TestMain is also the child of [BenchmarkIdleSessions], which opens a runtime, tells
// how long that took and how much memory it holds, and ends; and the followers of
// BenchmarkSubscribers.
func TestMain(m *testing.M) {
	if task := os.Getenv(readersVariable); task != "" {
		if err := read(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(childVariable); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func child(dir string) error {
	ctx := context.Background()
	began := time.Now()
	s, err := pebble.Open(dir, nil)
	if err != nil {
		return err
	}
	r, err := agentd.Open(ctx, agentd.Options{Store: s, Provider: script.New("script", nil), Model: "echo"})
	if err != nil {
		return err
	}
	if _, err := r.Do(ctx, command.Local(), &command.ListSessions{Page: command.Page{Limit: 1}}); err != nil {
		return err
	}
	started := time.Since(began)
	debug.FreeOSMemory()
	rss, err := residentBytes()
	if err != nil {
		return err
	}
	fmt.Println(started.Nanoseconds(), rss)
	if err := r.Close(ctx); err != nil {
		return err
	}
	return s.Close()
}

func residentBytes() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("VmRSS is not in /proc/self/status")
}

func startChild(b *testing.B, dir string) (start time.Duration, rss int64) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	var ns int64
	if _, err := fmt.Sscan(string(out), &ns, &rss); err != nil {
		b.Fatalf("%q: %v", out, err)
	}
	return time.Duration(ns), rss
}
