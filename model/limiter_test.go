package model_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agentd/model"
)

// clock is a clock that stands until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newLimiter(opt model.LimiterOptions) (*model.Limiter, *clock) {
	c := &clock{now: noon}
	opt.Clock = c.Now
	return model.NewLimiter(opt), c
}

func TestNoLimits(t *testing.T) {
	l := model.NewLimiter(model.LimiterOptions{})
	for range 1000 {
		if r := l.Reserve("any", 1<<40); r.Wait != 0 || r.Refused || r.Limit != "" {
			t.Fatalf("%+v", r)
		}
	}
	l.Set("none", model.Limits{})
	if r := l.Reserve("none", 5); r.Wait != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRequestsAMinute(t *testing.T) {
	l, c := newLimiter(model.LimiterOptions{})
	l.Set("m", model.Limits{RequestsPerMinute: 60})
	for i := range 60 {
		if r := l.Reserve("m", 0); r.Wait != 0 {
			t.Fatalf("request %d waits %v", i, r.Wait)
		}
	}
	for i := 1; i <= 3; i++ {
		r := l.Reserve("m", 0)
		if r.Wait.Round(time.Millisecond) != time.Duration(i)*time.Second || r.Limit != model.LimitRequests || r.Refused {
			t.Errorf("request %d: %+v", 60+i, r)
		}
	}
	if r := l.Reserve("other", 0); r.Wait != 0 {
		t.Error("another model waits too")
	}
	c.move(time.Minute + 3*time.Second)
	if r := l.Reserve("m", 0); r.Wait != 0 {
		t.Errorf("after a minute: %+v", r)
	}
}

func TestTokensAMinute(t *testing.T) {
	l, c := newLimiter(model.LimiterOptions{})
	l.Set("m", model.Limits{RequestsPerMinute: 600, TokensPerMinute: 6000})
	if r := l.Reserve("m", 5000); r.Wait != 0 {
		t.Fatalf("%+v", r)
	}
	if r := l.Reserve("m", 2000); r.Wait.Round(time.Millisecond) != 10*time.Second || r.Limit != model.LimitTokens {
		t.Errorf("%+v", r)
	}
	c.move(time.Hour)
	// More than a minute's worth waits for a full bucket, and goes.
	if r := l.Reserve("m", 1_000_000); r.Wait != 0 || r.Refused {
		t.Errorf("%+v", r)
	}
	if r := l.Reserve("m", 1); r.Wait <= 0 {
		t.Errorf("the bucket isn't empty: %+v", r)
	}
}

func TestCancelledPlacesComeBack(t *testing.T) {
	l, _ := newLimiter(model.LimiterOptions{})
	l.Set("m", model.Limits{RequestsPerMinute: 1})
	l.Reserve("m", 0)
	for range 100 {
		r := l.Reserve("m", 0)
		if r.Wait.Round(time.Second) != time.Minute {
			t.Fatalf("%+v", r)
		}
		l.Cancel(r)
	}
}

func TestRefusedBeyondTheLongestWait(t *testing.T) {
	l, c := newLimiter(model.LimiterOptions{MaxWait: 2 * time.Minute})
	l.Set("m", model.Limits{RequestsPerMinute: 1})
	refused := 0
	for range 50 {
		if r := l.Reserve("m", 0); r.Refused {
			refused++
		} else if r.Wait > 2*time.Minute {
			t.Fatalf("%+v", r)
		}
	}
	if refused != 47 {
		t.Errorf("%d refused", refused)
	}
	// Those who were refused took no place.
	c.move(3 * time.Minute)
	if r := l.Reserve("m", 0); r.Wait != 0 {
		t.Errorf("%+v", r)
	}
}

func TestSettle(t *testing.T) {
	l, _ := newLimiter(model.LimiterOptions{})
	l.Set("m", model.Limits{TokensPerMinute: 6000})
	l.Reserve("m", 1000)
	l.Settle("m", 1000, 500)
	if r := l.Reserve("m", 5000); r.Wait != 0 {
		t.Errorf("%+v", r)
	}
	l.Settle("m", 5000, 5100)
	if r := l.Reserve("m", 100); r.Wait.Round(time.Millisecond) != 2*time.Second {
		t.Errorf("%+v", r)
	}
	l.Settle("nobody", 1, 2)
}

func TestRests(t *testing.T) {
	l, c := newLimiter(model.LimiterOptions{MaxRest: time.Minute})
	if l.Resting() != nil {
		t.Error("something rests")
	}
	l.Failed("m", &model.Error{Category: model.RateLimited, RetryAfter: 10 * time.Second})
	r := l.Reserve("m", 1)
	if !r.Refused || r.Wait != 10*time.Second || r.Limit != model.LimitRest {
		t.Errorf("%+v", r)
	}
	if rest := l.Resting()["m"]; rest.Category != model.RateLimited || !rest.Until.Equal(noon.Add(10*time.Second)) {
		t.Errorf("%+v", rest)
	}
	l.Rest("m", time.Second, model.Network)
	if rest := l.Resting()["m"]; rest.Category != model.RateLimited {
		t.Error("a shorter rest won")
	}
	l.Rest("m", time.Hour, model.Network)
	if rest := l.Resting()["m"]; !rest.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("not bounded: %+v", rest)
	}
	c.move(time.Minute)
	if r := l.Reserve("m", 1); r.Refused || l.Resting() != nil {
		t.Errorf("it rests still: %+v", r)
	}
}

func TestFailuresInARow(t *testing.T) {
	l, _ := newLimiter(model.LimiterOptions{})
	down := &model.Error{Category: model.Network}
	l.Failed("m", down)
	l.Failed("m", down)
	if l.Resting() != nil {
		t.Error("it rests after two")
	}
	l.Answered("m", nil)
	for i, seconds := range []int{0, 0, 2, 4, 8, 16, 32, 60, 60} {
		l.Failed("m", down)
		want := time.Time{}
		if seconds > 0 {
			want = noon.Add(time.Duration(seconds) * time.Second)
		}
		if got := l.Resting()["m"].Until; !got.Equal(want) {
			t.Errorf("failure %d: rests until %v, want %v", i+1, got, want)
		}
	}
	l.Answered("m", nil)
	if l.Resting() != nil {
		t.Error("it answered and rests")
	}
	for range 5 {
		l.Failed("m", &model.Error{Category: model.InvalidRequest})
	}
	if l.Resting() != nil {
		t.Error("it rests for the caller's mistake")
	}
}

func TestWhatAProviderTold(t *testing.T) {
	for _, c := range []struct {
		name string
		s    *model.Standing
		want time.Duration
	}{
		{"nothing", nil, 0},
		{"some left", &model.Standing{RequestsLeft: 1, RequestsLimit: 60, TokensLeft: -1, TokensLimit: -1}, 0},
		{"no requests", &model.Standing{RequestsLeft: 0, RequestsLimit: 6, TokensLeft: 9, TokensLimit: 10}, 10 * time.Second},
		{"no tokens", &model.Standing{RequestsLeft: 5, RequestsLimit: 6, TokensLeft: 0, TokensLimit: 100_000}, time.Second},
		{"none of unknown", &model.Standing{RequestsLeft: 0, RequestsLimit: -1, TokensLeft: -1, TokensLimit: -1}, 0},
	} {
		l, _ := newLimiter(model.LimiterOptions{})
		l.Answered("m", c.s)
		if r := l.Reserve("m", 1); r.Wait != c.want {
			t.Errorf("%s: %+v", c.name, r)
		}
		l, _ = newLimiter(model.LimiterOptions{})
		l.Failed("m", &model.Error{Category: model.Auth, Standing: c.s})
		if r := l.Reserve("m", 1); r.Wait != c.want {
			t.Errorf("%s, failed: %+v", c.name, r)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	l, _ := newLimiter(model.LimiterOptions{MaxResting: 3})
	for i := range 100 {
		l.Rest(fmt.Sprintf("m%d", i), time.Duration(i+1)*time.Second, model.Network)
	}
	if got := l.Resting(); len(got) != 3 || got["m99"].Until.IsZero() {
		t.Errorf("%v", got)
	}
}

// TestRateHolds: whatever the arrivals, no more than a minute's worth and what
// flowed in since may start by any moment.
func TestRateHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const perMinute = 30
		l, c := newLimiter(model.LimiterOptions{MaxWait: time.Hour})
		l.Set("m", model.Limits{RequestsPerMinute: perMinute})
		var last time.Time
		for n := 1; n <= rapid.IntRange(1, 120).Draw(t, "requests"); n++ {
			c.move(time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")) * time.Millisecond)
			start := c.Now().Add(l.Reserve("m", 0).Wait)
			allowed := perMinute + start.Sub(noon).Minutes()*perMinute
			if float64(n) > allowed+0.001 {
				t.Fatalf("request %d starts after %v", n, start.Sub(noon))
			}
			if start.Before(last) {
				t.Fatal("a later one was let in earlier")
			}
			last = start
		}
	})
}

// TestLimiterIsShared: many at once get no more places than there are.
func TestLimiterIsShared(t *testing.T) {
	l, _ := newLimiter(model.LimiterOptions{})
	l.Set("m", model.Limits{RequestsPerMinute: 1000, TokensPerMinute: 1 << 30})
	var wg sync.WaitGroup
	var atOnce atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				r := l.Reserve("m", 10)
				if r.Wait == 0 {
					atOnce.Add(1)
				}
				l.Failed("other", &model.Error{Category: model.Network})
				l.Answered("other", nil)
				l.Settle("m", 1, 2)
				l.Resting()
				l.Set(fmt.Sprint(i), model.Limits{RequestsPerMinute: 5})
			}
		})
	}
	wg.Wait()
	if n := atOnce.Load(); n != 1000 {
		t.Errorf("%d of 1000 went at once", n)
	}
}

func TestBackoff(t *testing.T) {
	zero, almost := func() float64 { return 0 }, func() float64 { return 0.999999 }
	b := model.Backoff{MaxAttempts: 12}
	for _, c := range []struct {
		attempt   int
		low, high time.Duration
	}{
		{1, 250 * time.Millisecond, 500 * time.Millisecond},
		{2, 500 * time.Millisecond, time.Second},
		{3, time.Second, 2 * time.Second},
		{7, 15 * time.Second, 30 * time.Second},
		{11, 15 * time.Second, 30 * time.Second},
	} {
		low, ok1 := b.Delay(c.attempt, 0, zero)
		high, ok2 := b.Delay(c.attempt, 0, almost)
		if !ok1 || !ok2 || low != c.low || high > c.high || high < c.high-time.Millisecond {
			t.Errorf("attempt %d: %v to %v", c.attempt, low, high)
		}
	}
	if _, ok := b.Delay(12, 0, zero); ok {
		t.Error("a thirteenth try")
	}
	if _, ok := (model.Backoff{}).Delay(5, 0, zero); ok {
		t.Error("a sixth try by default")
	}
	if d, ok := b.Delay(1, 7*time.Second, zero); !ok || d != 7*time.Second {
		t.Errorf("what the provider asked for doesn't win: %v", d)
	}
	if d, _ := b.Delay(9, 2*time.Second, almost); d < 2*time.Second || d > 2500*time.Millisecond {
		t.Errorf("what the provider asked for doesn't win over a longer wait: %v", d)
	}
	if d, ok := b.Delay(1, time.Hour, zero); ok || d != time.Hour {
		t.Errorf("an hour: %v %v", d, ok)
	}
}

func TestBackoffProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := model.Backoff{
			Base: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "base")), Max: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "max")),
			MaxAttempts: rapid.IntRange(0, 1000).Draw(t, "attempts"),
		}
		after := time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "after"))
		x := rapid.Float64Range(0, 0.999).Draw(t, "random")
		d, ok := b.Delay(rapid.IntRange(1, 1000).Draw(t, "attempt"), after, func() float64 { return x })
		if ok && after > 2*time.Minute {
			t.Fatalf("waits for %v", after)
		}
		if d < after || after == 0 && d > max(b.Max, 30*time.Second) || d < 0 {
			t.Fatalf("waits %v after %v", d, after)
		}
	})
}
