package work

import (
	"container/heap"
	"sync"
	"time"
)

// timers says when which task is to be looked at again. A task has one time, the
// earliest that was asked for; being looked at too early costs a look and nothing
// else, so a time that moves back is not taken out.
type timers struct {
	mu    sync.Mutex
	at    map[string]time.Time
	queue dueTimes
}

type dueTime struct {
	at                time.Time
	sessionID, taskID string
}

func newTimers() *timers { return &timers{at: map[string]time.Time{}} }

// set asks for a look at a time.
func (t *timers) set(sessionID, taskID string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, ok := t.at[taskID]; ok && !at.Before(have) {
		return
	}
	t.at[taskID] = at
	heap.Push(&t.queue, dueTime{at, sessionID, taskID})
}

// due takes what is to be looked at by now, and returns when the next is due;
// the zero time if nothing is.
func (t *timers) due(now time.Time) (out []dueTime, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 {
		first := t.queue[0]
		stale := !t.at[first.taskID].Equal(first.at)
		if !stale && first.at.After(now) {
			return out, first.at
		}
		heap.Pop(&t.queue)
		if !stale {
			delete(t.at, first.taskID)
			out = append(out, first)
		}
	}
	return out, time.Time{}
}

// dueTimes is a heap, the earliest first.
type dueTimes []dueTime //nolint:recvcheck // as heap.Interface wants it

func (h dueTimes) Len() int           { return len(h) }
func (h dueTimes) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueTimes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *dueTimes) Push(x any) { *h = append(*h, x.(dueTime)) } //nolint:forcetypeassert // only these are pushed

// Pop implements [heap.Interface].
func (h *dueTimes) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
