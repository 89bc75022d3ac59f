package httpstream

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"agentd/model"
)

// standingOf reads what the headers say about the caller's limits; nil if they
// say nothing.
func standingOf(h http.Header) *model.Standing {
	s := &model.Standing{
		RequestsLeft:  headerCount(h, "X-Ratelimit-Remaining-Requests", "Anthropic-Ratelimit-Requests-Remaining", "X-Ratelimit-Remaining"),
		RequestsLimit: headerCount(h, "X-Ratelimit-Limit-Requests", "Anthropic-Ratelimit-Requests-Limit", "X-Ratelimit-Limit"),
		TokensLeft:    headerCount(h, "X-Ratelimit-Remaining-Tokens", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Remaining"),
		TokensLimit:   headerCount(h, "X-Ratelimit-Limit-Tokens", "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Limit"),
	}
	if *s == (model.Standing{RequestsLeft: -1, RequestsLimit: -1, TokensLeft: -1, TokensLimit: -1}) {
		return nil
	}
	return s
}

// headerCount returns the first header that holds a number, or -1.
func headerCount(h http.Header, names ...string) int64 {
	for _, name := range names {
		value := strings.TrimSpace(h.Get(name))
		if value == "" {
			continue // most are not there, and an error costs more than a look
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}

// longestWait bounds what a server can ask for: beyond it the number is a mistake.
const longestWait = 7 * 24 * time.Hour

// retryAfter reads how long the server wants to be left alone: milliseconds in
// one header, seconds or a date in the standard one. A date counts from the
// server's own clock, if it tells it.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return boundedDuration(ms * float64(time.Millisecond)), true
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0, false
	}
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return boundedDuration(s * float64(time.Second)), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return boundedDuration(float64(at.Sub(now))), true
}

func boundedDuration(d float64) time.Duration {
	if math.IsNaN(d) || d < 0 {
		return 0
	}
	return time.Duration(min(d, float64(longestWait)))
}

var waitPattern = regexp.MustCompile(`(?i)(?:try again|retry) in (\d+(?:\.\d+)?) ?(ms|s\b|second)`)

// waitInMessage finds how long to wait in a message: inside a stream there is no
// header to say it.
func waitInMessage(message string) time.Duration {
	m := waitPattern.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	if strings.EqualFold(m[2], "ms") {
		return boundedDuration(n * float64(time.Millisecond))
	}
	return boundedDuration(n * float64(time.Second))
}
