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
	"agentd/store"
)

// busySessions is how many sessions are written to in turn.
const busySessions = 10_000

// feedRounds is how often the writer is measured without readers, beside readers that it
// knows nothing of, and with feeds, in turn.
const feedRounds = 4

// BenchmarkFeeds appends an event to each of 10,000 sessions in turn while feeds over all
// sessions are read. writer-µs/event is the processor time of the thread that commits.
//
// Readers take the caches and locks of a machine from a writer, no matter what woke them. So
// the same is measured beside as many readers of the store that read the same facts and
// that the session manager knows nothing of: of-strangers is what feeds cost the writer
// itself, and must not grow with their number. of-none is set against no readers at all.
// Every feed must get every event.
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
			var none, strangers, feeds time.Duration
			for range feedRounds {
				none += commitToEach(b, m, turns, func() {})
				strangers += commitBeside(b, m, turns, openStrangers(b, e.store, n))
				feeds += commitBeside(b, m, turns, openFeeds(b, m, n))
			}
			b.ReportMetric(feeds.Seconds()*1e6/float64(feedRounds*b.N), "writer-µs/event")
			b.ReportMetric(feeds.Seconds()/strangers.Seconds(), "of-strangers")
			b.ReportMetric(feeds.Seconds()/none.Seconds(), "of-none")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// commitToEach appends b.N events in turn to the sessions, each in a commit of its own,
// calls after after each, and returns the processor time of the thread that committed.
func commitToEach(b *testing.B, m *session.Manager, turns []*command.SubmitTurnResult, after func()) (cost time.Duration) {
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
		after()
	}
	return cost
}

// commitBeside is commitToEach beside readers, who must get everything.
func commitBeside(b *testing.B, m *session.Manager, turns []*command.SubmitTurnResult, r *feedReaders) time.Duration {
	b.Helper()
	defer r.close()
	cost := commitToEach(b, m, turns, r.ring)
	r.await(b, int64(b.N))
	return cost
}

// feedReaders are readers of all sessions.
type feedReaders struct {
	got []atomic.Int64
	// more is rung when one has got something, bell when there is something to get.
	more, bell chan struct{}
	stop       context.CancelFunc
	wg         sync.WaitGroup
}

func newFeedReaders(b *testing.B, n int) (*feedReaders, context.Context) {
	ctx, cancel := context.WithCancel(b.Context())
	return &feedReaders{got: make([]atomic.Int64, n), more: make(chan struct{}, 1), bell: make(chan struct{}, 1), stop: cancel}, ctx
}

// ring says that there is something to get, to readers whom no one else tells.
func (r *feedReaders) ring() { signal(r.bell) }

func signal(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// close ends the readers and waits for them.
func (r *feedReaders) close() {
	r.stop()
	r.wg.Wait()
}

func (r *feedReaders) count(i, facts int) {
	r.got[i].Add(int64(facts))
	signal(r.more)
}

// openFeeds opens feeds of a manager.
func openFeeds(b *testing.B, m *session.Manager, n int) *feedReaders {
	b.Helper()
	r, ctx := newFeedReaders(b, n)
	for i := range n {
		feed, err := m.SubscribeAll(ctx, command.Local(), "")
		if err != nil {
			b.Fatal(err)
		}
		r.wg.Go(func() {
			defer feed.Close()
			for {
				records, err := feed.Next(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						b.Error(err)
					}
					return
				}
				r.count(i, len(records))
			}
		})
	}
	return r
}

// openStrangers reads what feeds read, without being one: each is woken by the benchmark.
func openStrangers(b *testing.B, s store.Store, n int) *feedReaders {
	b.Helper()
	r, ctx := newFeedReaders(b, n)
	position, err := s.Position(ctx)
	if err != nil {
		b.Fatal(err)
	}
	bells := make([]chan struct{}, n)
	for i := range bells {
		bells[i] = make(chan struct{}, 1)
		r.wg.Go(func() {
			after := position
			for {
				select {
				case <-ctx.Done():
					return
				case <-bells[i]:
				}
				if err := r.readChanges(ctx, s, i, &after); err != nil {
					if !errors.Is(err, context.Canceled) {
						b.Error(err)
					}
					return
				}
			}
		})
	}
	r.wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.bell:
			}
			for _, bell := range bells {
				signal(bell)
			}
		}
	})
	return r
}

// readChanges reads the facts of all changes after a position, which it moves.
func (r *feedReaders) readChanges(ctx context.Context, s store.Store, i int, after *string) error {
	for c, err := range s.Changes(ctx, *after) {
		if err != nil {
			return err
		}
		for _, err := range s.Read(ctx, c.SessionID, store.Range{After: c.First - 1, Before: c.Last + 1}) {
			if err != nil {
				return err
			}
		}
		*after = c.Position
		r.count(i, int(c.Last-c.First+1))
	}
	return nil
}

// await returns when every reader has got all events.
func (r *feedReaders) await(b *testing.B, events int64) {
	b.Helper()
	for i := range r.got {
		for r.got[i].Load() < events {
			r.ring()
			select {
			case <-r.more:
			case <-b.Context().Done():
				b.Fatal("the readers did not get everything")
			}
		}
		if got := r.got[i].Load(); got != events {
			b.Fatalf("reader %d got %d events of %d", i, got, events)
		}
	}
}
