package session

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/admission"
	"agentd/store"
)

// slowStore takes as long for each commit, however many batches it has.
type slowStore struct {
	store.Store

	commits int
}

const commitTakes = 3 * time.Millisecond

func (s *slowStore) Append(_ context.Context, batches []*store.Batch) []error {
	time.Sleep(commitTakes)
	s.commits++
	return make([]error, len(batches))
}

// write has writers append, each after its pause, and returns how many commits were made and
// how long all took.
func write(t *testing.T, writers, appends int, pause func(*rand.Rand) time.Duration) (commits int, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{}
		j := newJournal(s, admission.Options{}, func(*pending) {})
		j.settled = func(*store.Batch) {}
		began := time.Now()
		var all sync.WaitGroup
		for w := range writers {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			all.Go(func() {
				for range appends {
					time.Sleep(pause(random))
					p := j.begin()
					if err := j.finish(p, j.enqueue(p)); err != nil {
						t.Error(err)
					}
					j.recycle(p)
				}
			})
		}
		all.Wait()
		j.close()
		commits, took = s.commits, time.Since(began)
	})
	return commits, took
}

// TestWritersThatComeOneByOneAreGathered: more of them are committed together than come while
// the commit before is made.
func TestWritersThatComeOneByOneAreGathered(t *testing.T) {
	commits, took := write(t, 21, 200, func(r *rand.Rand) time.Duration {
		return time.Duration(5+r.IntN(20)) * time.Millisecond
	})
	if atOnce := int(took / commitTakes); commits > atOnce*2/3 {
		t.Errorf("%d commits, where %d would be made without a wait", commits, atOnce)
	}
}

// TestWritersInStepAreCommittedTogether: writers who all come back at once are about as fast as
// one alone, who waits for no other.
func TestWritersInStepAreCommittedTogether(t *testing.T) {
	for _, writers := range []int{1, 2, 3, 32} {
		const appends = 400
		commits, took := write(t, writers, appends, func(*rand.Rand) time.Duration { return 0 })
		most := appends
		if writers > 1 {
			most += appends / 2 // one that the machine keeps from coming back comes in the next group
		}
		if took > time.Duration(most)*commitTakes || commits > most {
			t.Errorf("%d writers: %s and %d commits for %d appends of each", writers, took, commits, appends)
		}
	}
}
