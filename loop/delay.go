package loop

// delayedTurns are the threads that wait for the answer to a request, or to several with the same id.
type delayedTurns struct {
	requests int
	threads  []key
}

// DelayTurns keeps the turns that a request submits from starting until release is called:
// a turn that starts while its submission is being answered takes the processor that
// its client needs to hear of it, on small machines. Whatever else gives the thread
// something to do starts it sooner.
func (l *Loop) DelayTurns(requestID string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.delayed[requestID]
	if h == nil {
		h = &delayedTurns{}
		l.delayed[requestID] = h
	}
	h.requests++
	return func() { l.releaseTurns(requestID, h) }
}

func (l *Loop) releaseTurns(requestID string, h *delayedTurns) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.requests--; h.requests == 0 {
		delete(l.delayed, requestID)
	}
	for _, k := range h.threads {
		l.wakeLocked(k, nil)
	}
	h.threads = nil
}

// wakeAfter wakes the thread once the request was answered.
func (l *Loop) wakeAfter(requestID string, k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.delayed[requestID]; h != nil {
		h.threads = append(h.threads, k)
		return
	}
	l.wakeLocked(k, nil)
}
