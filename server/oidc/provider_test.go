package oidc_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/fault"
	"agentd/server/oidc/oidctest"
)

// clock is a time that passes when the test says so.
type clock struct {
	start  time.Time
	passed atomic.Int64
}

func newClock() *clock                { return &clock{start: time.Now()} }
func (c *clock) now() time.Time       { return c.start.Add(time.Duration(c.passed.Load())) }
func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }
func (c *clock) await(t *testing.T, err error) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Unavailable || f.RetryAfter <= 0 {
		t.Fatalf("%v, want unavailable and when to come again", err)
	}
	c.pass(f.RetryAfter)
}

// lasting are the claims of a member whose token outlasts the test.
var lasting = map[string]any{"groups": []string{"owners"}, "exp": time.Now().Add(1000 * time.Hour).Unix()}

// TestAProviderThatIsAway: what is known of it lasts for a day. What isn't known can't be told,
// and is asked about again after a pause.
func TestAProviderThatIsAway(t *testing.T) {
	p, clock := oidctest.Start(t), newClock()
	a := authenticator(p, clock.now)
	try := func(token string) error {
		_, err := a.Authenticate(t.Context(), token)
		return err
	}
	again := func(token string) error { // it is asked once in a second at most
		err := try(token)
		for ; fault.KindOf(err) == fault.Unavailable && t.Context().Err() == nil; err = try(token) {
			time.Sleep(10 * time.Millisecond)
		}
		return err
	}
	p.Down.Store(true)
	token := p.Token(t, lasting)
	err := try(token)
	asked := p.Asked.Load()
	for range 20 {
		if err = try(token); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("a provider that was down from the start: %v", err)
		}
	}
	if n := p.Asked.Load(); n != asked {
		t.Errorf("it was asked %d times more right after it failed", n-asked)
	}
	p.Down.Store(false)
	clock.await(t, err)
	if err := again(token); err != nil {
		t.Fatalf("it is back: %v", err)
	}
	p.Down.Store(true)
	for _, more := range []time.Duration{2 * time.Hour, 21 * time.Hour} {
		clock.pass(more)
		if err := try(token); err != nil {
			t.Errorf("%v after its last answer: %v", more, err)
		}
	}
	known := p.Token(t, lasting)
	p.NewKey(t, "second")
	err = try(p.Token(t, lasting))
	p.Down.Store(false)
	clock.await(t, err) // a token of a key that isn't known yet
	if err := again(p.Token(t, lasting)); err != nil {
		t.Errorf("a token of a new key, when it is back: %v", err)
	}
	if err := again(known); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("a token of the key before: %v", err)
	}
	p.Down.Store(true)
	clock.pass(25 * time.Hour)
	clock.await(t, try(p.Token(t, lasting)))
}

// TestAProviderThatAnswersNothing: it is asked once for all who wait, who has an earlier answer
// doesn't wait for long, and what can't be a token of its is refused without it.
func TestAProviderThatAnswersNothing(t *testing.T) {
	p, clock := oidctest.Start(t), newClock()
	a := authenticator(p, clock.now)
	token := p.Token(t, lasting)
	p.Mute.Store(true)
	const clients = 20
	failed := make(chan error, clients)
	for range clients {
		go func() {
			_, err := a.Authenticate(t.Context(), token)
			failed <- err
		}()
	}
	for p.Asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	parts := strings.Split(token, ".")
	for what, junk := range map[string]string{
		"nothing": "..", "no JSON": "a.b.c", "no algorithm": "e30." + parts[1] + "." + parts[2], "no claims": parts[0] + ".e30." + parts[2],
		"another provider": p.Token(t, map[string]any{"iss": "https://example.org"}), "expired": p.Token(t, map[string]any{"exp": 1}),
	} {
		if _, err := a.Authenticate(t.Context(), junk); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.CloseClientConnections()
	var err error
	for range clients {
		if err = <-failed; fault.KindOf(err) != fault.Unavailable {
			t.Errorf("who waited for it: %v", err)
		}
	}
	if n := p.Asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	p.Mute.Store(false)
	clock.await(t, err)
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Fatalf("it answers: %v", err)
	}
	p.Mute.Store(true)
	clock.pass(2 * time.Hour)
	asked := p.Asked.Load()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			if _, err := a.Authenticate(t.Context(), token); err != nil {
				t.Errorf("with what is known of it: %v", err)
			}
		})
	}
	all.Wait()
	if n := p.Asked.Load() - asked; n != 1 {
		t.Errorf("it was asked %d times more", n)
	}
}
