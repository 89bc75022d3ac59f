package oidc_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"agentd/command"
	"agentd/fault"
	"agentd/server"
	"agentd/server/oidc"
	"agentd/server/oidc/oidctest"
)

// ownTokens knows one token, which looks like one of a provider.
type ownTokens struct{}

func (ownTokens) Authenticate(_ context.Context, token string) (server.Identity, error) {
	if token == "own.admin.token" {
		return server.Identity{Name: "own", Role: command.RoleAdmin}, nil
	}
	return server.Identity{}, fault.New(fault.Unauthenticated, "not known")
}

func authenticator(p *oidctest.Issuer, clock func() time.Time) *oidc.Authenticator {
	return oidc.New(oidc.Options{Issuer: p.URL, Audience: "agentd", Next: ownTokens{}, Clock: clock, Grants: []oidc.Grant{
		{Group: "readers", Role: command.RoleObserver, Account: "team"},
		{Group: "builders", Role: command.RoleClient, Account: "team"},
		{Group: "own", Role: command.RoleClient},
		{Subject: "robot", Role: command.RoleClient, Account: "ci"},
		{Group: "owners", Role: command.RoleAdmin},
	}})
}

func TestGroupsBecomeRolesAndAccounts(t *testing.T) {
	p := oidctest.Start(t)
	a := authenticator(p, nil)
	for what, c := range map[string]struct {
		claims        map[string]any
		name, account string
		role          command.Role
	}{
		"a group":           {map[string]any{"groups": []string{"x", "readers"}, "email": "ada@example.org"}, "ada@example.org", "team", command.RoleObserver},
		"one name":          {map[string]any{"groups": "builders"}, "ada", "team", command.RoleClient},
		"several groups":    {map[string]any{"groups": []string{"readers", "owners", "builders"}}, "ada", "oidc_", command.RoleAdmin},
		"an own account":    {map[string]any{"groups": []string{"own"}}, "ada", "oidc_", command.RoleClient},
		"another's name":    {map[string]any{"groups": []string{"own"}, "sub": "team"}, "team", "oidc_", command.RoleClient},
		"no id as subject":  {map[string]any{"groups": []string{"own"}, "sub": "auth|a b\n/1", "email": "a\x1b[31mb"}, "a[31mb", "oidc_", command.RoleClient},
		"a checked address": {map[string]any{"groups": "own", "email": "ada@example.org", "email_verified": true}, "ada@example.org", "oidc_", command.RoleClient},
		"not checked":       {map[string]any{"groups": "own", "email": "bob@example.org", "email_verified": false}, "ada", "oidc_", command.RoleClient},
		"a service":         {map[string]any{"sub": "robot"}, "robot", "ci", command.RoleClient},
	} {
		id, err := a.Authenticate(t.Context(), p.Token(t, c.claims))
		if err != nil || id.Name != c.name || !strings.HasPrefix(id.Account, c.account) || id.Role != c.role || !strings.HasPrefix(id.TokenID, "oidc_") || time.Until(id.Expires) > time.Hour {
			t.Errorf("%s: %+v, %v", what, id, err)
		}
	}
	named := oidc.New(oidc.Options{Issuer: p.URL, Audience: "agentd", AccountClaim: "tenant", Next: ownTokens{}, Grants: []oidc.Grant{{Group: oidc.Everyone, Role: command.RoleClient}}})
	for tenant, account := range map[any]string{"north": "north", "not an id": "oidc_", 7: "oidc_", nil: "oidc_"} {
		id, err := named.Authenticate(t.Context(), p.Token(t, map[string]any{"tenant": tenant}))
		if err != nil || !strings.HasPrefix(id.Account, account) {
			t.Errorf("tenant %v: %+v, %v", tenant, id, err)
		}
	}
	if id, err := a.Authenticate(t.Context(), "own.admin.token"); err != nil || id.Name != "own" {
		t.Errorf("a token of the server itself: %+v, %v", id, err)
	}
}

func TestOtherTokensAreRefused(t *testing.T) {
	p := oidctest.Start(t)
	a := authenticator(p, nil)
	member := map[string]any{"groups": []string{"owners"}}
	with := func(name string, value any) map[string]any {
		c := maps.Clone(member)
		c[name] = value
		return c
	}
	good := p.Token(t, member)
	parts := strings.Split(good, ".")
	_, foreign, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := json.Marshal(p.Public())
	if err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{
		"for another program":   p.Token(t, with("aud", "other")),
		"of another provider":   p.Token(t, with("iss", "https://example.org")),
		"expired":               p.Token(t, with("exp", time.Now().Add(-time.Minute).Unix())),
		"not yet good":          p.Token(t, with("nbf", time.Now().Add(time.Hour).Unix())),
		"another key":           p.Sign(t, jose.RS256, oidctest.Key(t, "first"), member),
		"another algorithm":     p.Sign(t, jose.EdDSA, foreign, member),
		"the public key's HMAC": p.Sign(t, jose.HS256, public, member),
		"without a signature":   "eyJhbGciOiJub25lIn0." + parts[1] + ".",
		"a changed signature":   good[:len(good)-4] + "AAAA",
		"nothing":               "..",
		"no JSON":               "a.b.c",
		"an empty subject":      p.Token(t, with("sub", "")),
		"no subject, no group":  p.Token(t, map[string]any{"sub": nil}),
	} {
		if id, err := a.Authenticate(t.Context(), token); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s: %+v, %v", what, id, err)
		}
	}
	for _, groups := range []any{nil, "", []string{}, []string{"OWNERS", ""}, 7, map[string]any{"owners": true}} {
		if id, err := a.Authenticate(t.Context(), p.Token(t, with("groups", groups))); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("groups %v: %+v, %v", groups, id, err)
		}
	}
}

// TestKeysOfTheProviderChange: a new key counts when its first token comes, and made-up
// keys don't have the provider asked without end.
func TestKeysOfTheProviderChange(t *testing.T) {
	p := oidctest.Start(t)
	a := authenticator(p, nil)
	member := map[string]any{"groups": []string{"owners"}}
	before := p.Token(t, member)
	if _, err := a.Authenticate(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	p.NewKey(t, "second")
	if _, err := a.Authenticate(t.Context(), p.Token(t, member)); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	for { // until what was fetched is kept
		if _, err := a.Authenticate(t.Context(), before); err != nil {
			break
		}
	}
	asked := p.Asked.Load()
	token := p.Sign(t, jose.RS256, oidctest.Key(t, "third"), member)
	for range 200 {
		if _, err := a.Authenticate(t.Context(), token); err == nil {
			t.Fatal("a forged token")
		}
	}
	if n := p.Asked.Load() - asked; n > 100 {
		t.Errorf("200 forged tokens had the provider asked %d times", n)
	}
}

// TestAKeyThatWasTakenBackEnds: without a token of another key, too.
func TestAKeyThatWasTakenBackEnds(t *testing.T) {
	p, clock := oidctest.Start(t), newClock()
	a := authenticator(p, clock.now)
	token := p.Token(t, lasting)
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	p.NewKey(t, "second")
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Error("nobody asked the provider yet:", err)
	}
	clock.pass(2 * time.Hour)
	_, err := a.Authenticate(t.Context(), token)
	for err == nil { // the provider's answer isn't waited for for long
		_, err = a.Authenticate(t.Context(), token)
	}
	if fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("the key was taken back: %v", err)
	}
}
