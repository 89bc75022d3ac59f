package loop

// waiting is what waits for the answer to a request, or to several with the same id.
type waiting struct {
	requests int
	threads  []key
}

// Hold keeps the turns that a request submits from starting until release is called:
// a turn that starts while its submission is being answered takes the processor that
// its client needs to hear of it, on small machines. Whatever else gives the thread
// something to do starts it sooner.
func (l *Loop) Hold(requestID string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[requestID]
	if h == nil {
		h = &waiting{}
		l.held[requestID] = h
	}
	h.requests++
	return func() { l.release(requestID, h) }
}

func (l *Loop) release(requestID string, h *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.requests--; h.requests == 0 {
		delete(l.held, requestID)
	}
	for _, k := range h.threads {
		l.wakeLocked(k, nil)
	}
	h.threads = nil
}

// wakeAfter has somebody look at the thread once the request was answered.
func (l *Loop) wakeAfter(requestID string, k key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[requestID]; h != nil {
		h.threads = append(h.threads, k)
		return
	}
	l.wakeLocked(k, nil)
}
