package session

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"agentd/store"
)

// rusageThread asks for the time of the calling thread alone.
const rusageThread = 1

// threadTime is the processor time of the calling thread, in nanoseconds.
func threadTime(tb testing.TB) int64 {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		tb.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkPublish is what it costs whoever commits to tell those who follow a
// session. own-ns/op is the processor time of the publishing thread: the readers,
// who read all records, take theirs from the same processors.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{0, 1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("subscribers=%d", n), func(b *testing.B) { benchmarkPublish(b, n) })
	}
}

func benchmarkPublish(b *testing.B, subscribers int) {
	m := &Manager{stop: make(chan struct{})}
	m.topics.init(256)
	m.stopped.Go(func() { m.topics.wakeSubscribers(m.stop) })
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range subscribers {
		s := &Subscription{m: m, id: "s", wake: make(chan struct{}, 1)}
		s.topic = m.topics.subscribe("s", s)
		readers.Go(func() { readTail(ctx, s) })
	}
	data := make([]byte, 600)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, seq := threadTime(b), uint64(0)
	for b.Loop() {
		seq++
		m.topics.publish("s", []store.Record{{Sequence: seq, Data: data}})
	}
	b.ReportMetric(float64(threadTime(b)-began)/float64(b.N), "own-ns/op")
	cancel()
	readers.Wait()
	close(m.stop)
	m.stopped.Wait()
}

// readTail takes whatever the tail has, as [Subscription.Next] does.
func readTail(ctx context.Context, s *Subscription) {
	for {
		e := s.topic.end.Load()
		if _, _, last := e.after(s.next, maxRead); last > s.next {
			s.next = last
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
	}
}
