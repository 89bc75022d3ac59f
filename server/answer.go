package server

import (
	"sync"

	"agentd/fault"
)

// answers bounds the memory of large answers that wait for their readers. A
// client that reads slowly holds its answer until it is cut off, and many of them
// must not use up the memory that others need.
type answers struct {
	most int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // token
}

// answersShare is how many tokens it takes to use everything up.
const answersShare = 2

// add counts n bytes of a token; without force it may refuse. part says that it
// is the token's own part that is used up.
func (a *answers) add(token string, n int64, force bool) (ok, part bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !force {
		// What a token has alone fits always: else a large answer never could be had.
		if mine := a.by[token]; mine > 0 && mine+n > a.most/answersShare {
			return false, true
		}
		if a.used > 0 && a.used+n > a.most {
			return false, false
		}
	}
	if a.by == nil {
		a.by = map[string]int64{}
	}
	a.used += n
	if a.by[token] += n; a.by[token] <= 0 {
		delete(a.by, token)
	}
	return true, false
}

func (a *answers) inUse() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// answerCharge is what one request's answers take of the bound. It is for one
// goroutine.
type answerCharge struct {
	s     *Server
	token string
	bytes int64
}

func (s *Server) chargeFor(q *request) *answerCharge {
	return &answerCharge{s: s, token: q.login.TokenID}
}

// chargeAnswer counts an answer of n bytes before it is sent. The first chunk is free:
// small answers go on whatever others hold. What already changed something is
// answered in any case.
func (h *answerCharge) chargeAnswer(n int, changed bool) error {
	need := int64(n) - chunk
	if need <= 0 {
		return nil
	}
	ok, part := h.s.answers.add(h.token, need, changed)
	switch {
	case ok:
		h.bytes += need
		return nil
	case part:
		return h.s.boundReached(fault.RateLimited, "answers_per_token", "this token has too many large answers on their way; read them, or wait")
	}
	return h.s.boundReached(fault.Unavailable, "answers", "too many large answers are on their way; try again shortly")
}

// release gives everything back when the answer was sent or given up.
func (h *answerCharge) release() {
	if h.bytes > 0 {
		h.s.answers.add(h.token, -h.bytes, true)
		h.bytes = 0
	}
}
