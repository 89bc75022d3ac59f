package model

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Names of limits, for rate_limit.hit.
const (
	LimitRequests = "requests_per_minute"
	LimitTokens   = "tokens_per_minute" //nolint:gosec // the name of a limit, no token
	LimitRest     = "rest"
)

// LimiterOptions configure a [Limiter]. The zero value is valid.
type LimiterOptions struct {
	// Clock tells the time. If nil, it defaults to [time.Now].
	Clock func() time.Time
	// MaxWait bounds how far ahead a place is given; who would wait longer gets
	// none. If zero, it defaults to 5 minutes.
	MaxWait time.Duration
	// MaxRest bounds how long a model rests, whatever a provider asks for. If zero,
	// it defaults to 15 minutes.
	MaxRest time.Duration
	// MaxResting bounds how many models are remembered to rest. If zero, it
	// defaults to 1024.
	MaxResting int
}

// Limiter keeps requests within limits on the runtime's own side, so that a
// provider need not refuse them, and remembers which models rest. It starts no
// goroutine and never sleeps: it says how long to wait. All methods may be called
// by many goroutines.
type Limiter struct {
	opt LimiterOptions

	mu     sync.Mutex
	models map[string]*buckets
	health map[string]*health
}

// health is what the limiter remembers of a model that failed.
type health struct {
	rest Rest
	// failures in a row.
	failures int
}

// buckets of one model; nil where there is no limit.
type buckets struct {
	requests, tokens *rate.Limiter
}

// NewLimiter returns a limiter without limits.
func NewLimiter(opt LimiterOptions) *Limiter {
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	if opt.MaxWait <= 0 {
		opt.MaxWait = 5 * time.Minute
	}
	if opt.MaxRest <= 0 {
		opt.MaxRest = 15 * time.Minute
	}
	if opt.MaxResting <= 0 {
		opt.MaxResting = 1024
	}
	return &Limiter{opt: opt, models: make(map[string]*buckets), health: make(map[string]*health)}
}

// Set gives a model its limits. A minute's worth may be used at once; after that
// the rate holds. What was used before is forgotten.
func (l *Limiter) Set(id string, limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.models[id] = &buckets{requests: bucket(limits.RequestsPerMinute), tokens: bucket(limits.TokensPerMinute)}
}

func bucket(perMinute int64) *rate.Limiter {
	if perMinute <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(float64(perMinute)/time.Minute.Seconds()), int(perMinute))
}

// Reservation is a place in the line for one request.
type Reservation struct {
	// Wait is how long the caller must wait before it asks; 0 if it may at once.
	Wait time.Duration
	// Limit names what makes it wait; empty if nothing does.
	Limit string
	// Refused says that no place was given, because Wait is longer than the
	// limiter allows, or because the model rests. Ask again after Wait.
	Refused bool

	at     time.Time
	places []*rate.Reservation
}

// Reserve takes a place for a request of so many tokens to a model. Places are
// given in the order of the calls. A request larger than a minute's worth waits
// for a full bucket and goes.
func (l *Limiter) Reserve(id string, tokens int64) Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.opt.Clock()
	if h := l.health[id]; h != nil {
		if wait := h.rest.Until.Sub(now); wait > 0 {
			return Reservation{Wait: wait, Limit: LimitRest, Refused: true}
		}
	}
	r := Reservation{at: now}
	b := l.models[id]
	if b == nil {
		return r
	}
	r.addLimit(b.requests, LimitRequests, 1)
	r.addLimit(b.tokens, LimitTokens, tokens)
	if r.Wait > l.opt.MaxWait {
		r.Refused = true
		r.cancel(now)
	}
	return r
}

// addLimit adds one limit's place to a reservation.
func (r *Reservation) addLimit(b *rate.Limiter, name string, n int64) {
	if b == nil || n <= 0 {
		return
	}
	place := b.ReserveN(r.at, int(min(n, int64(b.Burst()))))
	r.places = append(r.places, place)
	if wait := place.DelayFrom(r.at); wait > r.Wait {
		r.Wait, r.Limit = wait, name
	}
}

// Cancel gives the place back: the request won't be made. What others reserved
// since keeps its place, so not all of it may come back.
func (l *Limiter) Cancel(r Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.cancel(l.opt.Clock())
}

func (r *Reservation) cancel(now time.Time) {
	for _, p := range r.places {
		p.CancelAt(now)
	}
	r.places = nil
}

// Settle corrects what a request of reserved tokens really used: what was more
// than reserved is taken from the bucket now, so that those who come wait for it.
// What was less isn't given back: a provider's own count began with the estimate.
func (l *Limiter) Settle(id string, reserved, used int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.models[id]
	if b == nil || b.tokens == nil || used <= reserved {
		return
	}
	b.tokens.ReserveN(l.opt.Clock(), int(min(used-reserved, int64(b.tokens.Burst()))))
}

// Rest keeps a model from being used for a while after a failure of that category. A
// longer rest wins over a shorter one.
func (l *Limiter) Rest(id string, wait time.Duration, category string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restModel(id, wait, category)
}

func (l *Limiter) restModel(id string, wait time.Duration, category string) {
	if wait <= 0 {
		return
	}
	now := l.opt.Clock()
	until := now.Add(min(wait, l.opt.MaxRest))
	if h := l.healthOf(id, now); !h.rest.Until.After(until) {
		h.rest = Rest{Until: until, Category: category}
	}
}

// healthOf returns what is remembered of a model. If too many are remembered, one is
// forgotten: the one whose rest ended, or ends, first.
func (l *Limiter) healthOf(id string, now time.Time) *health {
	if h := l.health[id]; h != nil {
		return h
	}
	if len(l.health) >= l.opt.MaxResting {
		first := ""
		for name, h := range l.health {
			if first == "" || h.rest.Until.Before(l.health[first].rest.Until) {
				first = name
			}
			if !h.rest.Until.After(now) {
				first = name
				break
			}
		}
		delete(l.health, first)
	}
	h := &health{}
	l.health[id] = h
	return h
}

// restTold is how long a model rests when a provider said that nothing is left: as
// long as one more takes to come at the rate that it named, at least a second,
// because it doesn't say when its window ends.
func restTold(s *Standing) (wait time.Duration) {
	if s == nil {
		return 0
	}
	for _, of := range [][2]int64{{s.RequestsLeft, s.RequestsLimit}, {s.TokensLeft, s.TokensLimit}} {
		if left, limit := of[0], of[1]; left == 0 && limit > 0 {
			wait = max(wait, time.Second, time.Minute/time.Duration(limit))
		}
	}
	return wait
}

// Answered notes that a model answered: it rests no more, unless it said itself
// that nothing is left.
func (l *Limiter) Answered(id string, s *Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.health, id)
	l.restModel(id, restTold(s), RateLimited)
}

// After so many failures in a row a model rests, first for restFirst, then twice
// as long each time, up to restMost.
const (
	restAfter = 3
	restFirst = 2 * time.Second
	restMost  = time.Minute
)

// Failed notes a failed request. A provider that asked for time gets it. One that
// only failed rests once it failed several times in a row, so that other threads
// turn to another model; a single failure is left to the caller's own backoff.
func (l *Limiter) Failed(id string, e *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restModel(id, restTold(e.Standing), RateLimited)
	l.restModel(id, e.RetryAfter, e.Category)
	switch e.Category {
	case RateLimited:
		l.restModel(id, time.Second, e.Category)
	case Overloaded, Network, ServerError, Timeout:
		h := l.healthOf(id, l.opt.Clock())
		h.failures++
		if n := h.failures - restAfter; n >= 0 {
			l.restModel(id, min(restMost, restFirst<<min(n, 8)), e.Category)
		}
	}
}

// Resting returns the models that rest now, for [Ask].
func (l *Limiter) Resting() map[string]Rest {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.opt.Clock()
	var out map[string]Rest
	for id, h := range l.health {
		if !h.rest.Until.After(now) {
			continue
		}
		if out == nil {
			out = make(map[string]Rest)
		}
		out[id] = h.rest
	}
	return out
}
