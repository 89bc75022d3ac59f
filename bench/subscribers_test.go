package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/server"
	"agentd/session"
)

// pace is how long the writer of [BenchmarkSubscribers] rests after each event:
// about what a model's answer does.
const pace = 50 * time.Millisecond

// BenchmarkSubscribers appends events to one session that many follow over
// server-sent events. All must get all, in order.
//
// writer-µs/event is the processor time of the thread that commits, from the
// decision to the moment at which the command could be answered: what followers
// cost the rest of the server is not in it. But a thread that shares its processor
// with a thousand others finds its caches cold and is woken more often, whatever it
// does. So the same thread writes, in turn, to a second session that nobody follows:
// unfollowed-µs/event is the cost of the same work in the same weather, and
// of-unfollowed, the ratio of the two, must not grow with the followers.
//
// delivery-µs is what the server's other threads use for one event of one follower.
// The followers are a process of their own that reads lines and decodes nothing. The
// lag is from before the commit to a follower's having it.
//
// paced is a writer that rests between events; burst one that doesn't, so that the
// followers fall behind and catch up.
func BenchmarkSubscribers(b *testing.B) {
	for _, mode := range []struct {
		name string
		rest time.Duration
	}{{"paced", pace}, {"burst", 0}} {
		for _, n := range []int{0, 10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/subscribers=%d", mode.name, n), func(b *testing.B) { benchmarkSubscribers(b, n, mode.rest) })
		}
	}
}

func benchmarkSubscribers(b *testing.B, n int, rest time.Duration) {
	e := openPebble(b)
	m := session.New(session.Options{Store: e.store, RuntimeID: "runtime_bench"})
	defer closeAll(b, m, e.store)
	var turns [2]*command.SubmitTurnResult
	for i, id := range []string{popular, lonely} {
		res, err := commandsOf(m).Do(b.Context(), command.Local(), &command.SubmitTurn{SessionID: id, Create: true, Input: event.Raw(`"x"`)})
		if err != nil {
			b.Fatal(err)
		}
		turns[i] = res.(*command.SubmitTurnResult)
	}
	addr, stop := serveManager(b, m)
	defer stop()
	readers := startReaders(b, addr, n)
	all := processorTime()
	cost, commits := write(b, m, turns, rest)
	_, last, err := m.Events(b.Context(), command.Local(), popular, 0, 1)
	if err != nil {
		b.Fatal(err)
	}
	lags := readers.finish(b, last)
	all = processorTime() - all
	b.ReportMetric(cost[0].Seconds()*1e6/float64(b.N), "writer-µs/event")
	b.ReportMetric(cost[1].Seconds()*1e6/float64(b.N), "unfollowed-µs/event")
	b.ReportMetric(cost[0].Seconds()/cost[1].Seconds(), "of-unfollowed")
	b.ReportMetric(commits.percentile(50), "commit-p50-µs")
	if n > 0 {
		b.ReportMetric((all-cost[0]-cost[1]).Seconds()*1e6/float64(n)/float64(last), "delivery-µs")
		b.ReportMetric(lags[0], "lag-p50-ms")
		b.ReportMetric(lags[1], "lag-p99-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// The sessions that the writer writes to in turn.
const popular, lonely = "s", "t"

// write appends b.N events to each of two sessions, one to the one, one to the
// other, in a thread of its own. It returns the processor time of that thread for
// each session, and how long it took to commit to the first.
func write(b *testing.B, m *session.Manager, turns [2]*command.SubmitTurnResult, rest time.Duration) (cost [2]time.Duration, commits *result) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fill := strings.Repeat("x", 200)
	commits = &result{}
	b.ResetTimer()
	for i := range 2 * b.N {
		which := i % 2
		turn := turns[which]
		scope := event.Scope{ThreadID: turn.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID}
		before, began := threadTime(b), time.Now()
		err := m.Emit(b.Context(), turn.SessionID, event.ByLoop, func(tx *session.Tx) error {
			tx.Emit(event.Event{Type: event.TypeModelDelta, Scope: scope, Payload: &event.ModelDelta{Text: fmt.Sprintf("@%d %s", began.UnixNano(), fill)}})
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		if which == 0 {
			commits.times = append(commits.times, time.Since(began))
		}
		cost[which] += threadTime(b) - before
		time.Sleep(rest / 2)
	}
	b.StopTimer()
	return cost, commits
}

// readers is the process of the followers.
type readers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

const readersVariable = "AGENTD_BENCH_READERS"

// startReaders returns when all followers are connected.
func startReaders(b *testing.B, addr string, n int) *readers {
	b.Helper()
	r := &readers{cmd: exec.Command(os.Args[0], "-test.run=^$")}
	r.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", readersVariable, addr, n))
	r.cmd.Stderr = os.Stderr
	in, err := r.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	r.in, r.out = in, bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if line, err := r.out.ReadString('\n'); err != nil || line != "ready\n" {
		b.Fatalf("the followers say %q, %v", line, err)
	}
	return r
}

// finish tells the followers which event is the last, and returns the lag at p50
// and p99, in milliseconds, once each of them has it.
func (r *readers) finish(b *testing.B, last uint64) (lags [2]float64) {
	b.Helper()
	if _, err := fmt.Fprintln(r.in, last); err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fscan(r.out, &lags[0], &lags[1]); err != nil {
		b.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return lags
}

// read is the process of the followers: see [startReaders].
func read(task string) error {
	var addr string
	var n int
	if _, err := fmt.Sscan(task, &addr, &n); err != nil {
		return err
	}
	conns := make([]*follower, n)
	for i := range conns {
		var err error
		if conns[i], err = dialFollower(addr); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	var last atomic.Uint64
	var reading sync.WaitGroup
	failed := make(chan error, n+1)
	for _, c := range conns {
		reading.Go(func() { failed <- c.read(&last) })
	}
	var end uint64
	if _, err := fmt.Scan(&end); err != nil {
		return err
	}
	last.Store(end)
	for _, c := range conns {
		_ = c.conn.SetReadDeadline(time.Now()) // wakes those that have it already
	}
	reading.Wait()
	close(failed)
	lags := []time.Duration{0}
	for err := range failed {
		if err != nil {
			return err
		}
	}
	for _, c := range conns {
		lags = append(lags, c.lags...)
	}
	slices.Sort(lags)
	at := func(p int) float64 { return lags[min(len(lags)-1, len(lags)*p/100)].Seconds() * 1000 }
	fmt.Println(at(50), at(99))
	return nil
}

// follower is one connection. It reads HTTP/1.0, so that the bytes are the
// stream's and nothing else.
type follower struct {
	conn net.Conn
	in   *bufio.Reader
	next uint64
	lags []time.Duration
}

func dialFollower(addr string) (*follower, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	f := &follower{conn: conn, in: bufio.NewReaderSize(conn, 8<<10), next: 1}
	if _, err := fmt.Fprintf(conn, "GET /v1/sessions/s/events HTTP/1.0\r\nHost: %s\r\nAuthorization: Bearer x\r\nAccept: text/event-stream\r\n\r\n", addr); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		line, err := f.in.ReadSlice('\n')
		if err != nil || (first && !bytes.Contains(line, []byte(" 200 "))) {
			return nil, fmt.Errorf("the server says %q: %w", line, err)
		}
		if len(line) == 2 {
			return f, nil
		}
	}
}

// read checks the order of what comes until the last event.
func (f *follower) read(last *atomic.Uint64) error {
	for last.Load() == 0 || f.next <= last.Load() {
		line, err := f.in.ReadSlice('\n')
		if err != nil {
			if os.IsTimeout(err) && len(line) == 0 {
				_ = f.conn.SetReadDeadline(time.Time{})
				continue
			}
			if !os.IsTimeout(err) {
				return err
			}
			// Woken in the middle of a line: the rest is still to come.
			_ = f.conn.SetReadDeadline(time.Time{})
			rest, err := f.in.ReadSlice('\n')
			if err != nil {
				return err
			}
			line = append(bytes.Clone(line), rest...)
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			if n, err := strconv.ParseUint(string(id[:len(id)-1]), 10, 64); err != nil || n != f.next {
				return fmt.Errorf("got the event %q, want %d", id, f.next)
			}
			f.next++
			continue
		}
		if _, sent, ok := bytes.Cut(line, []byte(`"text":"@`)); ok {
			if n, err := strconv.ParseInt(string(sent[:bytes.IndexByte(sent, ' ')]), 10, 64); err == nil {
				f.lags = append(f.lags, time.Duration(time.Now().UnixNano()-n))
			}
		}
	}
	return nil
}

// serveManager opens the doors over a manager.
func serveManager(b *testing.B, m *session.Manager) (addr string, stop func()) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := server.New(&managed{m}, &server.Options{Auth: anyone{}})
	go func() { done <- s.Serve(ctx, l) }()
	return l.Addr().String(), func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// anyone takes every token.
type anyone struct{}

// Authenticate implements [server.Authenticator].
func (anyone) Authenticate(context.Context, string) (server.Identity, error) {
	return server.LocalIdentity(), nil
}

// managed is a manager as the doors drive it, without the parts that run turns.
type managed struct{ m *session.Manager }

// Do implements [command.Runtime].
func (b *managed) Do(ctx context.Context, c command.Caller, p command.Params) (any, error) {
	return commandsOf(b.m).Do(ctx, c, p)
}

// Events implements [command.Runtime].
func (b *managed) Events(ctx context.Context, c command.Caller, id string, after uint64, limit int) ([]command.Delivered, uint64, error) {
	records, last, err := b.m.Events(ctx, c, id, after, limit)
	out := make([]command.Delivered, len(records))
	for i, r := range records {
		out[i] = command.Delivered{SessionID: id, Sequence: r.Sequence, Data: r.Data}
	}
	return out, last, err
}

// Oldest implements [command.Runtime].
func (*managed) Oldest(context.Context, command.Caller, string) (uint64, error) { return 1, nil }

// Subscribe implements [command.Runtime].
func (b *managed) Subscribe(ctx context.Context, _ command.Caller, id string, after uint64) (command.Stream, error) {
	s, err := b.m.Subscribe(ctx, id, after)
	if err != nil {
		return nil, err
	}
	return &subscribed{s, id}, nil
}

// SubscribeAll implements [command.Runtime].
func (*managed) SubscribeAll(context.Context, command.Caller, string) (command.Stream, error) {
	return nil, fault.New(fault.Unavailable, "not here")
}

// Output implements [command.Runtime].
func (*managed) Output(context.Context, command.Caller, string) (*command.Output, error) {
	return nil, fault.New(fault.Unavailable, "not here")
}

// Ready implements [server.Backend].
func (*managed) Ready(context.Context) error { return nil }

// Status implements [server.Backend].
func (*managed) Status(context.Context, command.Caller) any { return struct{}{} }

type subscribed struct {
	*session.Subscription
	id string
}

// Next implements [command.Stream].
func (s *subscribed) Next(ctx context.Context) ([]command.Delivered, error) {
	records, err := s.Subscription.Next(ctx)
	out := make([]command.Delivered, len(records))
	for i, r := range records {
		out[i] = command.Delivered{SessionID: s.id, Sequence: r.Sequence, Data: r.Data}
	}
	return out, err
}
