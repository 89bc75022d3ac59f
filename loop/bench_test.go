//go:build unix

package loop_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/pebble"
)

// counting counts the commits of a store and the bytes that it is given.
type counting struct {
	store.Store
	bytes, commits atomic.Int64
}

func (c *counting) Append(ctx context.Context, batches []*store.Batch) []error {
	n := 0
	for _, b := range batches {
		for i := range b.Records {
			n += len(b.Records[i].Data)
		}
		for i := range b.Snapshots {
			n += len(b.Snapshots[i].Data)
		}
		for i := range b.Index {
			n += len(b.Index[i].Key) + len(b.Index[i].Value)
		}
		for _, blob := range b.Blobs {
			n += len(blob)
		}
	}
	c.bytes.Add(int64(n))
	c.commits.Add(1)
	return c.Store.Append(ctx, batches)
}

// benchRuntime is a runtime over the embedded store whose turns ask the model, list
// the workspace, and ask the model again.
func benchRuntime(b *testing.B) (*agentd.Runtime, *counting) {
	b.Helper()
	p, err := pebble.Open(filepath.Join(b.TempDir(), "data"), nil)
	if err != nil {
		b.Fatal(err)
	}
	s := &counting{Store: p}
	answers := []script.Answer{runtimetest.CallsTool("list_files", map[string]any{"path": "."}), runtimetest.Says("There is nothing.")}
	opt := agentd.Options{Store: s, Provider: script.New("script", &script.Script{Answers: answers, Repeat: true}), Model: "test"}
	opt.Loop.Workspace = b.TempDir()
	r, err := agentd.Open(context.Background(), opt)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			b.Error(err)
		}
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return r, s
}

// asker submits turns to one session and waits for each.
type asker struct {
	r   *agentd.Runtime
	id  string
	sub interface {
		Next(ctx context.Context) ([]store.Record, error)
	}
}

func newAsker(b *testing.B, r *agentd.Runtime, id string) *asker {
	b.Helper()
	a := &asker{r: r, id: id}
	res, err := r.Do(context.Background(), command.Local(), &command.CreateSession{SessionID: id})
	if err != nil {
		b.Fatal(err)
	}
	_ = res
	sub, err := r.Subscribe(context.Background(), command.Local(), id, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(sub.Close)
	a.sub = sub
	return a
}

func (a *asker) turn() error {
	ctx := context.Background()
	if _, err := a.r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: a.id, Input: event.Raw(`"look around"`)}); err != nil {
		return err
	}
	for {
		records, err := a.sub.Next(ctx)
		if err != nil {
			return err
		}
		for _, rec := range records {
			e := &event.Event{}
			if _, err := event.DecodeHeader(rec.Data, e); err != nil {
				return err
			}
			switch e.Type {
			case event.TypeTaskCompleted:
				return nil
			case event.TypeTurnFailed:
				return fmt.Errorf("the turn failed: %s", rec.Data)
			}
		}
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTurnInLongThread compares turns around the 10th with turns around the
// 1,000th of the same thread: time, processor time, and bytes given to the store.
func BenchmarkTurnInLongThread(b *testing.B) {
	const window = 50
	type cost struct{ wall, cpu, bytes float64 }
	var early, late cost
	n := 0
	for b.Loop() {
		n++
		r, s := benchRuntime(b)
		a := newAsker(b, r, "sess_long")
		measure := func(into *cost) {
			wall, used, bytes := time.Now(), cpu(b), s.bytes.Load()
			for range window {
				if err := a.turn(); err != nil {
					b.Fatal(err)
				}
			}
			into.wall += float64(time.Since(wall)) / window
			into.cpu += float64(cpu(b)-used) / window
			into.bytes += float64(s.bytes.Load()-bytes) / window
		}
		for range 10 {
			if err := a.turn(); err != nil {
				b.Fatal(err)
			}
		}
		measure(&early)
		for range 1000 - 10 - 2*window {
			if err := a.turn(); err != nil {
				b.Fatal(err)
			}
		}
		measure(&late)
	}
	b.ReportMetric(early.wall/float64(n)/1e3, "µs/turn-10")
	b.ReportMetric(late.wall/float64(n)/1e3, "µs/turn-1000")
	b.ReportMetric(early.cpu/float64(n)/1e3, "µs-cpu/turn-10")
	b.ReportMetric(late.cpu/float64(n)/1e3, "µs-cpu/turn-1000")
	b.ReportMetric(late.cpu/early.cpu, "cpu-ratio")
	b.ReportMetric(early.bytes/float64(n), "B/turn-10")
	b.ReportMetric(late.bytes/float64(n), "B/turn-1000")
	b.ReportMetric(late.bytes/early.bytes, "bytes-ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTurns is the number of turns a second through the library, each with two
// model calls and one tool call, by so many clients at once.
func BenchmarkTurns(b *testing.B) {
	for _, clients := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			r, s := benchRuntime(b)
			askers := make([]*asker, clients)
			for i := range askers {
				askers[i] = newAsker(b, r, fmt.Sprintf("sess_%d", i))
			}
			before, bytes, commits := cpu(b), s.bytes.Load(), s.commits.Load()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for _, a := range askers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if err := a.turn(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1e3, "µs-cpu/turn")
			b.ReportMetric(float64(s.bytes.Load()-bytes)/float64(b.N), "B/turn")
			b.ReportMetric(float64(s.commits.Load()-commits)/float64(b.N), "commits/turn")
		})
	}
}
