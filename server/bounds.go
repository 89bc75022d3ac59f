package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"agentd/admission"
	"agentd/command"
	"agentd/fault"
)

// gate admits a limited number at a time.
type gate struct {
	slots chan struct{}
}

func newGate(n int) *gate { return &gate{slots: make(chan struct{}, n)} }

// enter waits for a place, at most that long; false means that there was none.
func (g *gate) enter(ctx context.Context, wait time.Duration) bool {
	select {
	case g.slots <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (g *gate) leave() { <-g.slots }

// quota counts what each token has in use. A token with nothing in use costs
// nothing.
type quota struct {
	most int

	mu sync.Mutex
	by map[string]int
}

func (q *quota) acquire(token string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.by[token] >= q.most {
		return false
	}
	if q.by == nil {
		q.by = map[string]int{}
	}
	q.by[token]++
	return true
}

func (q *quota) release(token string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.by[token]--; q.by[token] <= 0 {
		delete(q.by, token)
	}
}

// boundReached counts a bound that was reached and returns the answer to it.
func (s *Server) boundReached(kind fault.Kind, bound, detail string) error {
	s.metrics.bounds.get(bound).Add(1)
	f := fault.New(kind, "%s", detail)
	if kind == fault.RateLimited || kind == fault.Unavailable {
		f.RetryAfter = time.Second
	}
	return f
}

// enterCommand lets a command of the catalogue begin. One that only waits takes the place
// of a stream: the others' reads go on.
func (s *Server) enterCommand(ctx context.Context, q *request, d *command.Def) (leave func(), err error) {
	if d.Waits {
		return s.openStream(q.login.TokenID, "wait")
	}
	return s.admitCommand(ctx, q, d.Mutates)
}

// shareOfAll is how much of a bound of all one account leaves to the others.
const shareOfAll = 8

// newShared returns so many places for the commands of all accounts.
func newShared(n int) *admission.Slots { return admission.NewSlots(n, n-n/shareOfAll) }

// admitCommand lets a command begin, after a while if the bound of all is reached: then those
// who wait are let in account by account. The caller calls leave when it is done.
func (s *Server) admitCommand(ctx context.Context, q *request, mutates bool) (leave func(), err error) {
	token, account := q.login.TokenID, q.caller.Account
	all, mine, bound, what := s.reads, &s.readsPerToken, "reads", "reads"
	if mutates {
		all, mine, bound, what = s.mutations, &s.perToken, "mutations", "commands"
	}
	if !mine.acquire(token) {
		return nil, s.boundReached(fault.RateLimited, bound+"_per_token", "this token has too many "+what+" under way; wait for some to end")
	}
	if !all.TryEnter(account) && !s.awaitPlace(ctx, all, account, token) {
		mine.release(token)
		return nil, s.boundReached(fault.Unavailable, bound, "too many "+what+" are under way; try again shortly")
	}
	return func() {
		all.Leave(account)
		mine.release(token)
	}, nil
}

// awaitPlace waits for a place, for as long as a command may wait for its turn.
func (s *Server) awaitPlace(ctx context.Context, all *admission.Slots, account, token string) bool {
	ctx, cancel := context.WithTimeout(ctx, s.opt.AdmissionWait)
	defer cancel()
	return all.Enter(ctx, account, token)
}

// admitRequest counts a request, a stream or a WebSocket connection of a token: none
// can hold all connections. The caller calls done when it ends.
func (s *Server) admitRequest(token string) (done func(), err error) {
	if !s.requestsPerToken.acquire(token) {
		return nil, s.boundReached(fault.RateLimited, "requests_per_token", "this token has too many requests and connections under way; close some")
	}
	return func() { s.requestsPerToken.release(token) }, nil
}

// openStream counts a subscription. The caller calls done when it ends.
func (s *Server) openStream(token, transport string) (done func(), err error) {
	if s.isStopping() {
		return nil, fault.New(fault.Unavailable, "the server is stopping")
	}
	if s.streams.Add(1) > int64(s.opt.MaxStreams) {
		s.streams.Add(-1)
		return nil, s.boundReached(fault.Unavailable, "streams", "too many streams are open; try again later")
	}
	if !s.streamsPerToken.acquire(token) {
		s.streams.Add(-1)
		return nil, s.boundReached(fault.RateLimited, "streams_per_token", "this token has too many streams open; close some")
	}
	open := s.metrics.streams.get(transport)
	open.Add(1)
	return func() {
		open.Add(-1)
		s.streamsPerToken.release(token)
		s.streams.Add(-1)
	}, nil
}

// budget bounds the bytes of all bodies in memory. One token can't use up what
// others need: it has a share.
type budget struct {
	most, share int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // token
}

// budgetShares is how many tokens it takes to use everything up.
const budgetShares = 2

// newBudget returns a budget in which a share holds a body of the largest size.
func newBudget(most, largest int64) *budget {
	return &budget{most: most, share: max(most/budgetShares, largest+largest/2), by: map[string]int64{}}
}

// reserveBytes counts n more bytes of a token; part says that its share is used up.
func (b *budget) reserveBytes(token string, n int64) (ok, part bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.most {
		return false, false
	}
	if b.by[token]+n > b.share {
		return false, true
	}
	b.used += n
	b.by[token] += n
	return true, false
}

func (b *budget) giveBack(token string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.by[token] -= n; b.by[token] <= 0 {
		delete(b.by, token)
	}
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// chunk is what a body takes from the budget at a time. The first is free, so
// that a small command gets through when large ones have used the budget up.
const chunk = 64 << 10

// readBody reads all of in, up to most bytes. Those from free on are taken from the
// budget; the caller gives them back when it is done with the body.
func (s *Server) readBody(in io.Reader, token string, most, free int64) (body []byte, giveBack func(), err error) {
	taken := int64(0)
	giveBack = func() { s.bodies.giveBack(token, taken) }
	body = make([]byte, 0, 512)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		if need := int64(cap(body)) - free; need > taken {
			if err := s.chargeBody(token, need-taken); err != nil {
				return nil, giveBack, err
			}
			taken = need
		}
		n, err := in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) > most {
			return nil, giveBack, s.tooLarge(most)
		}
		if errors.Is(err, io.EOF) {
			return body, giveBack, nil
		}
		if err != nil {
			return nil, giveBack, err
		}
	}
}

// chargeBody takes n bytes of a body from the budget.
func (s *Server) chargeBody(token string, n int64) error {
	ok, part := s.bodies.reserveBytes(token, n)
	switch {
	case ok:
		return nil
	case part:
		return s.boundReached(fault.RateLimited, "bodies_per_token", "this token has too many large bodies in memory; wait for some to be carried out")
	}
	return s.boundReached(fault.Unavailable, "bodies", "too many large bodies are in memory; try again shortly")
}

func (s *Server) tooLarge(most int64) error {
	return s.boundReached(fault.PayloadTooLarge, "body", "the body is larger than "+sizeWord(most))
}
