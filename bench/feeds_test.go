package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/session"
)

// busySessions is how many sessions are written to in turn.
const busySessions = 10_000

// BenchmarkFeeds appends an event to each of 10,000 sessions in turn while feeds over all
// sessions are read. writer-µs/event is the processor time of the thread that commits;
// of-none is its ratio to the same work in the same run while there is no feed, and must
// not grow with their number. Every feed must get every event.
func BenchmarkFeeds(b *testing.B) {
	e := openPebble(b)
	m := session.New(session.Options{Store: e.store, RuntimeID: "runtime_bench"})
	defer closeAll(b, m, e.store)
	turns := make([]*command.SubmitTurnResult, busySessions)
	for i := range turns {
		res, err := commandsOf(m).Do(b.Context(), command.Local(), &command.SubmitTurn{SessionID: fmt.Sprintf("s%d", i), Create: true, Input: event.Raw(`"x"`)})
		if err != nil {
			b.Fatal(err)
		}
		turns[i] = res.(*command.SubmitTurnResult)
	}
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("feeds=%d", n), func(b *testing.B) {
			none, _ := commitToEach(b, m, turns)
			feeds := openFeeds(b, m, n)
			with, events := commitToEach(b, m, turns)
			feeds.await(b, events)
			b.ReportMetric(with.Seconds()*1e6/float64(events), "writer-µs/event")
			b.ReportMetric(with.Seconds()/none.Seconds(), "of-none")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// commitToEach appends b.N events in turn to the sessions, each in a commit of its own,
// and returns the processor time of the thread that did it.
func commitToEach(b *testing.B, m *session.Manager, turns []*command.SubmitTurnResult) (cost time.Duration, events int64) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fill := strings.Repeat("x", 200)
	for i := range b.N {
		turn := turns[i%len(turns)]
		before := threadTime(b)
		if err := m.Emit(b.Context(), turn.SessionID, event.ByLoop, func(tx *session.Tx) error {
			tx.Emit(event.Event{
				Type: event.TypeModelDelta, Payload: &event.ModelDelta{Text: fill},
				Scope: event.Scope{ThreadID: turn.ThreadID, TurnID: turn.TurnID, TaskID: turn.TaskID, RunID: turn.RunID},
			})
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		cost += threadTime(b) - before
	}
	return cost, int64(b.N)
}

// openedFeeds are readers of all sessions.
type openedFeeds struct {
	got  []atomic.Int64
	wake chan struct{}
}

func openFeeds(b *testing.B, m *session.Manager, n int) *openedFeeds {
	b.Helper()
	f := &openedFeeds{got: make([]atomic.Int64, n), wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for i := range n {
		feed, err := m.SubscribeAll(ctx, command.Local(), "")
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			defer feed.Close()
			for {
				records, err := feed.Next(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						b.Error(err)
					}
					return
				}
				f.got[i].Add(int64(len(records)))
				select {
				case f.wake <- struct{}{}:
				default:
				}
			}
		})
	}
	b.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return f
}

// await returns when every feed has got all events.
func (f *openedFeeds) await(b *testing.B, events int64) {
	b.Helper()
	for i := range f.got {
		for f.got[i].Load() < events {
			select {
			case <-f.wake:
			case <-b.Context().Done():
				b.Fatal("the feeds did not get everything")
			}
		}
		if got := f.got[i].Load(); got != events {
			b.Fatalf("feed %d got %d events of %d", i, got, events)
		}
	}
}
