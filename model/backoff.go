package model

import "time"

// Backoff says how long to wait before a request is tried again.
type Backoff struct {
	// Base is the wait after the first failure; it doubles with each more. If
	// zero, it defaults to 500 ms.
	Base time.Duration
	// Max bounds the wait. If zero, it defaults to 30 s.
	Max time.Duration
	// MaxRetryAfter bounds what a provider may ask for: one that wants to be left
	// alone for longer isn't waited for. If zero, it defaults to 2 minutes.
	MaxRetryAfter time.Duration
	// MaxAttempts bounds the tries of a request, the first included. If zero, it
	// defaults to 5.
	MaxAttempts int
}

// Delay returns the wait after so many failed attempts, from 1, and whether to
// try again at all; if not, the wait is what it would have been. What a provider
// asked for wins: the wait is at least that. Random gives numbers in [0, 1) and
// spreads those that failed together over the upper half of the wait.
func (b Backoff) Delay(attempt int, retryAfter time.Duration, random func() float64) (time.Duration, bool) {
	b = b.filled()
	again := attempt < b.MaxAttempts && retryAfter <= b.MaxRetryAfter
	if retryAfter > 0 {
		// A little more than asked for, so that clients that were told the same
		// moment don't all come at it.
		return retryAfter + time.Duration(random()*float64(min(retryAfter/4, time.Second))), again
	}
	wait := b.Base
	for i := 1; i < attempt && wait < b.Max; i++ {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return wait/2 + time.Duration(random()*float64(wait/2)), again
}

func (b Backoff) filled() Backoff {
	if b.Base <= 0 {
		b.Base = 500 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 30 * time.Second
	}
	if b.MaxRetryAfter <= 0 {
		b.MaxRetryAfter = 2 * time.Minute
	}
	if b.MaxAttempts <= 0 {
		b.MaxAttempts = 5
	}
	return b
}
