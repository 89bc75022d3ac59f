package session

import (
	"context"
	"sync"
	"sync/atomic"
)

// jointReads lets calls that ask for the same thing at the same time share one read of the
// store. The read begins after each of them asked, so that all see what was written before.
type jointReads[V any] struct {
	lanes lanes
	// clock orders questions and reads.
	clock atomic.Uint64

	mu   sync.Mutex
	last map[string]jointRead[V]
}

type jointRead[V any] struct {
	began uint64
	value V
}

// maxJointReads bounds the results that are kept for calls that wait.
const maxJointReads = 1024

// read returns what do returned, for this call or for another one that waited for the same key.
func (j *jointReads[V]) read(ctx context.Context, key string, do func() (V, error)) (V, error) {
	asked := j.clock.Add(1)
	leave, err := j.lanes.enterOne(ctx, key)
	if err != nil {
		var none V
		return none, err
	}
	defer leave()
	if r, ok := j.newest(key); ok && r.began > asked {
		return r.value, nil
	}
	began := j.clock.Add(1)
	v, err := do()
	if err == nil {
		j.storeRead(key, jointRead[V]{began, v})
	}
	return v, err
}

func (j *jointReads[V]) newest(key string) (jointRead[V], bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.last[key]
	return r, ok
}

func (j *jointReads[V]) storeRead(key string, r jointRead[V]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == nil || len(j.last) >= maxJointReads {
		j.last = map[string]jointRead[V]{}
	}
	j.last[key] = r
}
