//go:build unix

package find_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/find"
	"agentd/index"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/pebble"
)

// counting counts the bytes that a store is given, and those that are taken away again.
type counting struct {
	store.Store
	written, removed atomic.Int64
	sizes            sync.Map
	// blind hides all sessions from the index.
	blind atomic.Bool
}

func (c *counting) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	if c.blind.Load() {
		return func(func(string, error) bool) {}
	}
	return c.Store.Sessions(ctx, after)
}

func (c *counting) Append(ctx context.Context, batches []*store.Batch) []error {
	for _, b := range batches {
		n := 0
		for i := range b.Records {
			n += len(b.Records[i].Data)
		}
		for i := range b.Snapshots {
			n += len(b.Snapshots[i].Data)
		}
		for i := range b.Index {
			op := &b.Index[i]
			size := len(op.Key) + len(op.Value)
			if old, ok := c.sizes.LoadAndDelete(op.Entry.ID()); ok {
				c.removed.Add(int64(old.(int)))
			}
			if !op.Delete {
				c.sizes.Store(op.Entry.ID(), size)
				n += size
			}
		}
		for _, blob := range b.Blobs {
			n += len(blob)
		}
		c.written.Add(int64(n))
	}
	return c.Store.Append(ctx, batches)
}

// cpuTime is what the process has used of the processors.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// vocabulary has words as a language has them: few are frequent, most are rare.
type vocabulary struct {
	rng  *rand.Rand
	zipf *rand.Zipf
}

func newVocabulary() *vocabulary {
	rng := rand.New(rand.NewPCG(1, 2))
	return &vocabulary{rng: rng, zipf: rand.NewZipf(rng, 1.1, 8, 50_000)}
}

func (v *vocabulary) text(words int) string {
	var b strings.Builder
	for range words {
		fmt.Fprintf(&b, "w%s ", strings.ToLower(fmt.Sprintf("%x", v.zipf.Uint64()*2654435761%(1<<24))))
	}
	return strings.TrimSpace(b.String())
}

// benchSize is how many turns the benchmark of the cost runs.
const benchTurns = 2000

// BenchmarkCost says what turns cost, each with two model calls and one tool call, and
// what it costs to index them.
func BenchmarkCost(b *testing.B) {
	var turn, indexed time.Duration
	var turnBytes, indexWritten, indexKept int64
	n := 0
	for b.Loop() {
		n++
		p, err := pebble.Open(filepath.Join(b.TempDir(), "data"), nil)
		if err != nil {
			b.Fatal(err)
		}
		s := &counting{Store: p}
		s.blind.Store(true)
		words := newVocabulary()
		answers := []script.Answer{runtimetest.CallsTool("list_files", map[string]any{"path": "."}), runtimetest.Says(words.text(60))}
		r, err := agentd.Open(b.Context(), agentd.Options{
			Store: s, Provider: script.New("script", &script.Script{Answers: answers, Repeat: true}), Model: "test", IndexDelay: 24 * time.Hour,
		})
		if err != nil {
			b.Fatal(err)
		}
		before := cpuTime(b)
		runTurns(b, r, words)
		turn += cpuTime(b) - before
		if err := r.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		s.blind.Store(false)
		turnBytes += s.written.Load()
		s.written.Store(0)
		s.removed.Store(0)
		before = cpuTime(b)
		x := index.New(index.Options{
			Store: s, Projections: find.Projections(),
			Owner: func(context.Context, string) (index.Owner, error) { return index.Owner{}, nil },
		})
		x.Start(b.Context())
		if err := x.CatchUp(b.Context()); err != nil {
			b.Fatal(err)
		}
		x.Close()
		indexed += cpuTime(b) - before
		indexWritten += s.written.Load()
		indexKept += s.written.Load() - s.removed.Load()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
	per := float64(n * benchTurns)
	b.ReportMetric(float64(turn.Microseconds())/per, "µs-cpu/turn")
	b.ReportMetric(float64(indexed.Microseconds())/per, "µs-cpu-index/turn")
	b.ReportMetric(100*float64(indexed)/float64(turn), "%-cpu")
	b.ReportMetric(float64(turnBytes)/per, "B/turn")
	b.ReportMetric(float64(indexWritten)/per, "B-index-written/turn")
	b.ReportMetric(float64(indexKept)/per, "B-index/turn")
	b.ReportMetric(100*float64(indexKept)/float64(turnBytes), "%-bytes")
	b.ReportMetric(0, "ns/op")
}

// runTurns runs turns by eight clients at once.
func runTurns(b *testing.B, r *agentd.Runtime, words *vocabulary) {
	b.Helper()
	const clients = 8
	inputs := make(chan string, benchTurns)
	for range benchTurns {
		inputs <- words.text(20)
	}
	close(inputs)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			id := fmt.Sprintf("sess_%d", i)
			sub, err := r.Subscribe(b.Context(), command.Local(), id, 0)
			if err != nil {
				res, err := r.Do(b.Context(), command.Local(), &command.CreateSession{SessionID: id})
				if err != nil {
					b.Error(res, err)
					return
				}
				if sub, err = r.Subscribe(b.Context(), command.Local(), id, 0); err != nil {
					b.Error(err)
					return
				}
			}
			defer sub.Close()
			for input := range inputs {
				if _, err := r.Do(b.Context(), command.Local(), &command.SubmitTurn{SessionID: id, Input: command.Text(input)}); err != nil {
					b.Error(err)
					return
				}
				for ended := false; !ended; {
					records, err := sub.Next(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					for _, rec := range records {
						ended = ended || strings.HasPrefix(string(rec.Data), `{"type":"`+string(event.TypeTurnCompleted))
					}
				}
			}
		})
	}
	wg.Wait()
}
